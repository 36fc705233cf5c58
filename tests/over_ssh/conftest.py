"""An sshd for the user who runs the tests: own port, own keys, own configuration on both sides."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.engine.address import EngineAddress

_SSHD = "/usr/sbin/sshd"


class Sshd:
    """A running sshd, reached as `lab`. `mark` is in the environment of everything that it starts for us."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name in ("host", "user", "stranger"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
                check=True,
                capture_output=True,
            )
        shutil.copy(folder / "user.pub", folder / "authorized")
        (folder / "banner").write_text("Authorised users only.\n")
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
            f"PidFile {folder}/pid\nBanner {folder}/banner\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        self.trust((folder / "host.pub").read_text())
        self.identity("user")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where a system service would have made it
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([_SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
        self._ready()
        folders = " ".join(f"XDG_{kind}_HOME={shlex.quote(str(folder / kind))}" for kind in ("CONFIG", "DATA", "STATE"))
        self.command = f"MARK={self.mark} {folders} {shlex.quote(sys.executable)} -P -m termchat worker"
        self.model = model

    def lab(self) -> EngineAddress:
        return EngineAddress(name="lab", url="ssh://lab", model="smollm2", remote_command=self.command)

    def trust(self, key: str) -> None:
        """Has the client expect this key of the host."""
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}")

    def identity(self, name: str) -> None:
        """Has the client log in with this key; the host is reached as in anybody's ~/.ssh/config."""
        (self.folder / "ssh_config").write_text(
            f"Host lab\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n  IdentitiesOnly yes\n"
            f"  IdentityFile {self.folder / name}\n  UserKnownHostsFile {self.folder / 'known'}\n"
            "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
        )

    def workers(self) -> list[int]:
        """The processes that it runs for us now."""
        wanted = f"MARK={self.mark}".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
            except OSError:  # it has just gone, or is somebody else's
                continue
        return found

    def sessions(self) -> list[int]:
        """The processes of sshd itself that serve a connection."""
        listed: dict[int, list[int]] = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                listed.setdefault(int(file.read_text().rpartition(")")[2].split()[1]), []).append(int(file.parent.name))
            except OSError:
                continue
        found, todo = [], [self._process.pid]
        while todo:
            children = listed.get(todo.pop(), [])
            found += children
            todo += children
        return [pid for pid in found if pid not in self.workers()]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _ready(self) -> None:
        end = monotonic() + 20
        while True:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert monotonic() < end, (self.folder / "log").read_text()
            sleep(0.02)


@pytest.fixture
def sshd(tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    made = Sshd(tmp_path, model_path)
    real = shutil.which("ssh")
    assert real is not None
    (tmp_path / "bin").mkdir()
    client = tmp_path / "bin" / "ssh"
    client.write_text(f'#!/bin/sh\nexec {real} -F {shlex.quote(str(tmp_path / "ssh_config"))} "$@"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    yield made
    made.close()
