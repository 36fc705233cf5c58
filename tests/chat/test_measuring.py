"""Batches of a model are measured once while a chat rests, and before walks and drafts; it is kept for the next time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from termchat.chat.service import Chat
from termchat.config import per_model
from termchat.decoding import walk_plan
from termchat.decoding.records import Failed
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    BatchesMeasured,
    Command,
    Event,
    Generate,
    MeasureBatches,
    Measurement,
    ModelSpec,
)
from tests.chat.driven_chat import Driven, Faked
from tests.chats import chat_on
from tests.tui.fake_engine import INFO, FakeEngine

MEASURED = Measurement("so", 2, {2: 1.8}, 3, {"4 rows": 0.2}, 25)


class Measuring(FakeEngine):
    """An engine with a model that was not measured yet, which measures when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.info = msgspec.structs.replace(INFO, measured=None)
        self.measuring: list[int] = []

    def _answers(self, number: int, command: Command) -> Iterable[Event]:
        if not isinstance(command, MeasureBatches):
            return super()._answers(number, command)
        self.measuring.append(number)
        return []

    def answer(self, event: BatchesMeasured | Failed) -> None:
        """Answers the newest command to measure."""
        self._answer(self.measuring[-1], event)


class Walked(Faked):
    engine: Measuring

    def __init__(self, tuning: Tuning) -> None:
        self.engine = Measuring()
        Driven.__init__(self, chat_on(self.engine, tuning))
        self.chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
        self.pump()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def loaded() -> tuple[Chat, Measuring]:
    engine = Measuring()
    chat = chat_on(engine, Tuning(), measures=True)
    chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
    chat.pump_events()
    return chat, engine


def test_a_model_is_measured_once_after_a_load_and_it_is_kept() -> None:
    chat, engine = loaded()
    assert engine.asked(MeasureBatches) == [MeasureBatches()]
    engine.answer(BatchesMeasured(MEASURED))
    chat.pump_events()
    assert chat.model is not None
    assert chat.model.measured == MEASURED
    assert per_model.find_rows(INFO.sha256) == (MEASURED,)
    assert chat.tolerance == pytest.approx(0.0699, abs=1e-3)
    chat.pump_events()
    assert len(engine.asked(MeasureBatches)) == 1


def test_it_is_measured_again_where_other_work_went_first_and_not_where_it_cannot_be() -> None:
    chat, engine = loaded()
    engine.answer(Failed("busy", "interrupted by another request"))
    chat.pump_events()
    assert len(engine.asked(MeasureBatches)) == 2
    engine.answer(Failed("measure", "no room"))
    chat.pump_events()
    chat.pump_events()
    assert len(engine.asked(MeasureBatches)) == 2
    assert not any("room" in str(change) for change in chat.take_changes()), "nobody asked for it"


def test_times_that_a_busy_machine_did_not_tell_are_measured_at_the_next_load() -> None:
    chat, engine = loaded()
    engine.answer(BatchesMeasured(msgspec.structs.replace(MEASURED, batch_times={})))
    chat.pump_events()
    assert len(engine.asked(MeasureBatches)) == 1
    engine.info = msgspec.structs.replace(INFO, measured=msgspec.structs.replace(MEASURED, batch_times={}))
    chat.loading.load(ModelSpec("/tiny.gguf", "tiny"))
    chat.pump_events()
    assert len(engine.asked(MeasureBatches)) == 2


def test_a_plain_reply_waits_for_nothing_and_walks_are_begun_behind_a_measurement() -> None:
    it = Walked(Tuning(max_tokens=2))
    engine, chat = it.engine, it.chat
    it.replied("hi", " all")
    assert not engine.asked(MeasureBatches)
    for plan, exact in (
        (walk_plan.walks(2), False),
        (msgspec.structs.replace(walk_plan.walks(2), exact=True), True),
        (walk_plan.compare({"top_k": 1}, {"top_k": 5}), True),
    ):
        chat.walks.start(plan)
        it.pump()
        measure, walks = engine.commands[-2:]
        assert measure == MeasureBatches(needed=True)
        assert isinstance(walks, Generate)
        assert walks.exact is exact
        engine.answer(BatchesMeasured(MEASURED))
        engine.end()
        it.pump()
        assert chat.model is not None
        assert chat.model.measured == MEASURED
        chat.host.model = msgspec.structs.replace(chat.model, measured=None)
