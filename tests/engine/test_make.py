"""Making an engine: when its process starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from termchat.engine.make import make_engine
from termchat.engine.port import ALL_FEATURES, EngineError, Probe


def test_its_process_starts_with_the_first_command_or_at_once() -> None:
    for started in (False, True):
        engine = make_engine(started=started)
        try:
            assert engine.alive is started
            assert engine.offers == ALL_FEATURES
            engine.send(Probe())
            assert engine.alive
        finally:
            engine.close()


def test_a_process_that_cannot_be_started_is_told_of_by_the_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    engine = make_engine(started=True)
    assert not engine.alive
    with pytest.raises(EngineError, match="the engine process cannot be started"):
        engine.send(Probe())
