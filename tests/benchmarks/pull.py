"""How fast a model is pulled: `python -m tests.benchmarks.pull`.

The same file from a server on the loopback by `pull`, which hashes, checks and flushes it, and by `curl`, which only writes
it: in pairs, alternating. Prints seconds and the ratio of rates.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from termchat.models.catalogue import Catalogue
from termchat.models.download.pull import pull
from tests.pull.file_server import gguf

SETTLE = 1.0
"""Seconds of rest before each."""


def serve(listening: socket.socket, path: Path) -> None:
    """Answers every request with the file, as fast as the system can."""
    size = path.stat().st_size
    head = f'HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nETag: "one"\r\nConnection: close\r\n\r\n'.encode()
    while True:
        connection, _ = listening.accept()
        with connection, path.open("rb") as file:
            while b"\r\n\r\n" not in connection.recv(1 << 16):
                pass
            connection.sendall(head)
            connection.sendfile(file)


def sparse(path: Path, size: int) -> None:
    """A model of zeros that takes no room on the disk."""
    whole = gguf(64)
    claimed = (size - len(whole)) // 4
    path.write_bytes(whole[:-64].replace((16).to_bytes(8, "little"), claimed.to_bytes(8, "little"), 1))
    os.truncate(path, path.stat().st_size + claimed * 4)


def seconds(act: Callable[[], object]) -> float:
    """How long it takes, on a disk that has nothing else to do: what came before is written, and its removal done."""
    os.sync()
    time.sleep(SETTLE)
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8, help="an even number: each goes first as often")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where to download to")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        folder = Path(made)
        sparse(folder / "served", args.megabytes * 1_000_000)
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/big.gguf"
        server = multiprocessing.Process(target=serve, args=(listening, folder / "served"), daemon=True)
        server.start()

        def ours() -> float:
            time_ = seconds(lambda: pull(url, folder / "ours", known=Catalogue({})))
            shutil.rmtree(folder / "ours")
            return time_

        def curls() -> float:
            target = folder / "curl.gguf"
            time_ = seconds(lambda: subprocess.run(["curl", "-sSf", "-o", target, url], check=True))
            target.unlink()
            return time_

        ours()
        pairs = []
        for number in range(args.pairs):
            if number % 2:
                curl, own = curls(), ours()
            else:
                own, curl = ours(), curls()
            pairs.append((own, curl))
            print(f"pull {own:.2f} s, curl {curl:.2f} s, ratio {curl / own:.3f}", flush=True)
        server.terminate()
        rates = [args.megabytes / statistics.median(side) for side in zip(*pairs, strict=True)]
        ratios = [curl / own for own, curl in pairs]
        print(
            f"{args.megabytes} MB: pull {rates[0]:.0f} MB/s, curl {rates[1]:.0f} MB/s,"
            f" ratio {statistics.median(ratios):.3f} ({min(ratios):.3f}–{max(ratios):.3f})"
        )


if __name__ == "__main__":
    main()
