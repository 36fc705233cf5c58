"""One engine for the whole program: it is where the model is."""

from __future__ import annotations

import pytest

from termchat.engine.address import HERE, EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.make import engine_at
from termchat.engine.port import ALL_FEATURES, Command, EngineError, Event, Feature, Load, ModelSpec, Probe, Unloaded
from termchat.engine.switching_engine import SwitchingEngine

LAB = EngineAddress(name="lab", url="ssh://lab")


class Counting:
    """An engine that answers at once, and keeps what was asked."""

    offers: frozenset[Feature] = ALL_FEATURES

    def __init__(self, address: EngineAddress) -> None:
        self.address, self.asked, self.alive = address, list[Command](), False

    def send(self, command: Command) -> int:
        self.asked.append(command)
        self.alive = True
        return len(self.asked)

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        return [(0, Unloaded()), (len(self.asked), Unloaded())]

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.alive = False


@pytest.fixture
def made() -> list[Counting]:
    return []


@pytest.fixture
def engine(made: list[Counting]) -> SwitchingEngine:
    def make(address: EngineAddress) -> Counting:
        made.append(Counting(address))
        return made[-1]

    return SwitchingEngine(make(HERE), make)


def test_a_model_is_loaded_where_it_is_and_the_engine_before_ends(engine: SwitchingEngine, made) -> None:
    engine.send(Probe())
    engine.send(Load(ModelSpec("m", "m", engine=LAB)))
    engine.send(Probe())
    assert [(one.address, len(one.asked), one.alive) for one in made] == [(HERE, 1, False), (LAB, 2, True)]
    engine.send(Load(ModelSpec("n", "n", engine=LAB)))
    assert len(made) == 2
    engine.send(Load(ModelSpec("m", "m")))
    assert made[-1].address == HERE
    assert not made[1].alive


def test_numbers_are_given_once_by_all_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalEngine, "_start", lambda _: None)
    monkeypatch.setattr(LocalEngine, "_write", lambda *_: None)
    engine = SwitchingEngine(LocalEngine(), lambda _: LocalEngine())
    numbers = [engine.send(Probe()), engine.send(Probe())]
    for place in (LAB, HERE):
        numbers.append(engine.send(Load(ModelSpec("m", "m", engine=place))))
        numbers.append(engine.send(Probe()))
    assert numbers == sorted(set(numbers))


def test_an_address_without_an_engine_is_refused() -> None:
    with pytest.raises(EngineError, match="no engine for gopher"):
        engine_at(EngineAddress(url="gopher://lab"))
