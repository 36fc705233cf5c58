"""Servers, and a home of its own for every test, without a token and without proxies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from termchat.models.catalogue import Catalogue
from termchat.models.download.pull import pull
from tests.pull.file_server import FileServer, file_server


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as made:
        yield made


@pytest.fixture
def other() -> Iterator[FileServer]:
    """A second host: another port is one."""
    with file_server() as made:
        yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING", "TERMCHAT_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def fetch(folder: Path) -> Callable[..., Path]:
    """`pull` into the folder, without a catalogue and without long waits."""

    def fetch(source: str, **how: object) -> Path:
        given = {"destination": folder, "known": Catalogue({}), "backoff": (0.01, 0.02, 0.04), **how}
        return pull(source, **given)  # type: ignore[arg-type]

    return fetch
