"""What is forecast for a reply is what drafts did in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from termchat.decoding.drafting import BatchTimes, DraftSettings, forecast_drafts
from termchat.decoding.records import Finished
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Measurement, ModelSpec
from tests.engine.conftest import records, request, tokens

COSTS = {2: 1.2, 4: 1.4, 8: 2.0, 16: 3.0}
PROMPTS = {
    "a refrain": "The ship sailed on over the wide, quiet water; nobody said a word. " * 6,
    "a text once": "One day in May a fox met a bear. The bear was old, and the fox was hungry, so they went to the river.",
    "a list": "1. apples 2. pears 3. plums 4. apples 5. pears 6. plums 7. apples 8.",
}


@pytest.fixture(scope="module")
def session(small_model_path: Path) -> Iterator[ModelSession]:
    spec = ModelSpec(str(small_model_path), "small", context=512, threads=1)
    with closing(ModelSession(spec, lambda _: None)) as made:
        made._learned.learn_measured(Measurement(made.cache.how, 1, COSTS))
        yield made


@pytest.mark.parametrize("length", [9, 90])
@pytest.mark.parametrize("name", PROMPTS)
def test_a_forecast_is_what_drafts_did(
    session: ModelSession, monkeypatch: pytest.MonkeyPatch, name: str, length: int
) -> None:
    monkeypatch.setattr(BatchTimes, "add", lambda *_: None)
    ids = session.model.tokenize(PROMPTS[name], special=False)
    times, drafted = BatchTimes(COSTS), 0
    for temperature, seed, most in ((0.0, 1, 15), (0.8, 1, 15), (0.8, 2, 7), (0.3, 3, 4)):
        monkeypatch.setattr(session._learned, "judge", type(session._learned.judge)())
        tuning = Tuning(temperature=temperature, max_tokens=length)
        stream = records(session, request(ids, tuning, seed, draft=DraftSettings("ngram", most)))
        finished = stream[-1]
        assert isinstance(finished, Finished)
        reply = [token.id for token in tokens(stream)]
        ends = session.model.end_ids
        found = forecast_drafts(ids, reply, times, most=most, room=length, end_ids=ends)
        assert (found.drafted, found.accepted) == (finished.drafted or 0, finished.accepted or 0)
        drafted += found.drafted
    assert drafted or length < 20


def test_a_reply_without_anything_to_draft_gains_nothing() -> None:
    times = BatchTimes(COSTS)
    for reply in ([], [7], list(range(100, 140))):
        found = forecast_drafts([1, 2, 3], reply, times)
        assert (found.gain, found.drafted, found.acceptance) == (1.0, 0, None)
        assert 0 < found.break_even < 0.3
