"""A home folder of its own for every test, without the models of the machine it runs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.models.disk.program_folders import PLACES


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; no variable points elsewhere."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    texts = [text for place in PLACES for several in place.folders.values() for text in several]
    for name in {text[1:].split("/")[0] for text in texts if text.startswith("$")} | {
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    }:
        monkeypatch.delenv(name, raising=False)
    return folder
