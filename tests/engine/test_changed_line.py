"""One engine for the whole program: it is where the model is."""

from __future__ import annotations

import pytest

from termchat.engine.address import HERE, EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.make import engine_at
from termchat.engine.port import Command, EngineError, Load, ModelSpec, Probe
from termchat.engine.worker_line import Outbox, WorkerLine
from tests.processes import wait_for_group_end

LAB = EngineAddress(name="lab", url="ssh://lab")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[EngineAddress]:
    """Where each command was sent."""
    sent: list[EngineAddress] = []

    class Recorded(WorkerLine):
        """A line whose worker is told nothing."""

        def __init__(self, address: EngineAddress) -> None:
            super().__init__()
            self.address = address

        def send(self, command: Command, data: bytes, outbox: Outbox) -> None:
            sent.append(self.address)

    monkeypatch.setattr("termchat.engine.local.line_to", Recorded)
    return sent


def test_a_model_is_loaded_where_it_is_and_the_engine_before_ends(asked: list[EngineAddress]) -> None:
    engine = LocalEngine()
    numbers, pids = [], []
    try:
        for command in (
            Probe(), Load(ModelSpec("m", "m", engine=LAB)), Probe(), Load(ModelSpec("n", "n", engine=LAB)),
            Load(ModelSpec("m", "m")),
        ):  # fmt: skip
            numbers.append(engine.send(command))
            pids.append(engine.pid)
        assert asked == [HERE, LAB, LAB, LAB, HERE]
        assert len(set(pids)) == 3
        assert pids[1] == pids[2] == pids[3]
        assert numbers == sorted(set(numbers))
        for pid in {*pids} - {pids[-1]}:
            assert pid is not None
            wait_for_group_end(pid)
    finally:
        engine.close()


def test_an_address_without_an_engine_is_refused() -> None:
    with pytest.raises(EngineError, match="no engine for gopher"):
        engine_at(EngineAddress(url="gopher://lab"))
