"""A reply drawn again: against really generating, under the settings of then and under others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from termchat.decoding.records import Failed, Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.cache import Aborted
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.scoring import Scorer
from termchat.engine.port import (
    Cancel,
    EngineError,
    Explain,
    Explained,
    Inspect,
    ModelSpec,
    Score,
    Scored,
    Scoring,
)
from tests.asking import only
from tests.engine.conftest import Driver, lasting, prompt, records, reply_from, request, tokens

SEED = 7
THEN = Tuning(max_tokens=100, temperature=1.0, repeat_penalty=1.1)


class Reply:
    """A real reply: prompt ids, and its tokens."""

    def __init__(self, session: ModelSession, text: str, tuning: Tuning = THEN) -> None:
        self.prompt = lasting(session, text, tuning, SEED) if tuning.max_tokens else prompt(session, text)
        self.tokens = tokens(records(session, request(self.prompt, tuning, SEED)))
        self.ids = [token.id for token in self.tokens]

    def score(self, tuning: Tuning = THEN, **change: object) -> Score:
        """The question about the whole reply under these settings."""
        asked = Score([*self.prompt, *self.ids], len(self.ids), tuning.samplers(), SEED)
        return msgspec.structs.replace(asked, **change)


@pytest.fixture(scope="module")
def session(model_path: Path) -> Iterator[ModelSession]:
    """A session of its own, one thread."""
    made = ModelSession(ModelSpec(str(model_path), "smollm2", context=1024, threads=1), lambda _: None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def reply(session: ModelSession) -> Reply:
    """A reply that the main sequence still holds, or can hold again."""
    made = Reply(session, "Tell me about the sea, the sky and the land.")
    assert len(made.ids) == 100
    return made


def scored(session: ModelSession, command: Score, alone: bool = True) -> Scored:
    return session.score_reply(command, alone=alone, progress=lambda *_: None, wanted=lambda: False)


@pytest.fixture(scope="module")
def scorer(session: ModelSession) -> Scorer:
    """One that saw nothing stream: all it knows is of its own passes."""
    return Scorer(session.cache)


def used_cells(session: ModelSession) -> tuple[int, int]:
    """The last position of the main and of the spare sequence; -1: none."""
    return tuple(int(LIB.llama_memory_seq_pos_max(session.cache.memory, i)) for i in (0, 1))  # type: ignore[return-value]


def test_its_own_settings_draw_the_reply_itself(session: ModelSession, reply: Reply) -> None:
    found = Scorer(session.cache).score_reply(reply.score(), lambda *_: None, lambda: False)
    assert found.recomputed
    assert found.ids == reply.ids
    assert found.texts == [session.model.name(i) for i in reply.ids]
    assert found.probabilities == pytest.approx([token.probability for token in reply.tokens], rel=1e-9)


def test_a_reply_is_scored_by_the_logits_it_was_drawn_from(session: ModelSession) -> None:
    fresh = Reply(session, "Count slowly from one to forty.")
    made: list[int] = []

    def ask(command: Score) -> Scored:
        return session.score_reply(
            command, alone=True, progress=lambda done, _: made.append(done), wanted=lambda: False
        )

    found = ask(fresh.score())
    assert (found.ids, found.recomputed, made) == (fresh.ids, False, [])
    assert found.probabilities == pytest.approx([token.probability for token in fresh.tokens], rel=1e-9)
    # A fork at token 30 goes on from the rows of what it shares.
    fork = [*fresh.prompt, *fresh.ids[:30]]
    rest = [t.id for t in tokens(records(session, request(fork, THEN.turn_knobs({"top_k": 5}), SEED, done=30)))]
    both = ask(fresh.score(THEN.turn_knobs({"top_k": 5}), ids=[*fork, *rest], count=30 + len(rest)))
    assert (both.ids[30:], both.recomputed, made) == (rest, False, [])
    other = ask(fresh.score(count=10, done=len(fresh.ids) - 10))
    assert (other.recomputed, made) == (True, [10])


def test_a_reply_that_nobody_was_to_ask_about_keeps_nothing_and_can_be_asked_about(session: ModelSession) -> None:
    asked = request(prompt(session, "Name a river."), THEN.turn_knobs({"max_tokens": 20}), SEED, keep_logits=False)
    ids = [token.id for token in tokens(records(session, asked))]
    found = scored(session, Score([*only(asked).ids, *ids], len(ids), only(asked).samplers, SEED))
    assert (found.ids, found.recomputed) == (ids, True)


def test_only_so_much_of_a_reply_is_kept(session: ModelSession, reply: Reply) -> None:
    scorer = Scorer(session.cache, streamed_bytes=40 * 4 * session.model.n_vocab)
    scorer.follow_reply(reply.prompt, 0)
    asked = request(reply.prompt, THEN, SEED)
    for record in reply_from(session.cache, session.tuner, asked, scorer.read_row):
        if isinstance(record, Token):
            scorer.keep_row(record.id)
    assert passes(scorer, reply.score()) == [100]  # 60 rows of one pass
    assert passes(scorer, reply.score()) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.5},
        {"temperature": 0.0},
        {"temperature": 1.6},
        {"top_k": 3},
        {"top_k": 0, "min_p": 0.0},
        {"top_p": 0.6},
        {"min_p": 0.3},
        {"repeat_penalty": 1.0},
        {"repeat_penalty": 1.4, "repeat_last_n": 20},
        {"frequency_penalty": 0.4, "top_k": 0},
    ],
)
def test_other_settings_draw_what_generating_with_them_draws(
    session: ModelSession, scorer: Scorer, reply: Reply, changed: dict[str, object]
) -> None:
    tuning = THEN.turn_knobs(changed)
    found = scorer.score_reply(reply.score(tuning), lambda *_: None, lambda: False)
    real = [token.id for token in tokens(records(session, request(reply.prompt, tuning, SEED)))]
    parts = next((i for i, (a, b) in enumerate(zip(real, reply.ids, strict=False)) if a != b), len(reply.ids))
    assert parts < len(reply.ids)  # else the case shows nothing
    assert found.ids[:parts] == reply.ids[:parts]
    assert found.ids[parts] == real[parts]


def test_probabilities_are_those_of_the_chain(session: ModelSession, reply: Reply) -> None:
    tuning = THEN.turn_knobs({"top_k": 5, "temperature": 0.7})
    found = scored(session, reply.score(tuning))
    assert 0.0 in found.probabilities  # what the change makes impossible
    for i in (0, 1, 40, 99, found.probabilities.index(0.0)):
        ids = [*reply.prompt, *reply.ids[:i]]
        ask = Inspect(ids, tuning.samplers(), SEED, i, candidates=session.model.n_vocab)
        token, _ = session.inspect_step(ask, alone=True, wanted=lambda: False)
        there = next(c for c in token.candidates if c.id == reply.ids[i])
        assert found.probabilities[i] == pytest.approx(there.probability, rel=1e-6)
        assert found.ids[i] == token.id


def test_a_part_of_a_reply_keeps_its_step_numbers(session: ModelSession, reply: Reply) -> None:
    found = scored(session, reply.score(count=40, done=60))
    assert found.ids == reply.ids[60:]


def test_the_chat_stays_as_it_is(session: ModelSession, reply: Reply) -> None:
    list(records(session, request(reply.prompt, THEN, SEED)))
    ids, current, cells = list(session.cache.ids), session.cache.current, used_cells(session)
    logits = session.cache.read_logits().copy()
    other = Reply.__new__(Reply)
    other.prompt, other.ids = reply.prompt[:10], reply.ids[:80]
    Scorer(session.cache).score_reply(other.score(), lambda *_: None, lambda: False)
    Scorer(session.cache).score_reply(reply.score(), lambda *_: None, lambda: False)
    assert (session.cache.ids, session.cache.current, used_cells(session)) == (ids, current, cells)
    assert cells[1] == -1
    assert np.array_equal(session.cache.read_logits(), logits)


def test_a_full_context_leaves_room_for_the_reply_it_holds(model_path: Path) -> None:
    small = ModelSession(ModelSpec(str(model_path), "smollm2", context=190, threads=1), lambda _: None)
    try:
        for what in ("ship", "train", "house", "river", "king"):
            full = Reply(small, f"Write a very long story about a {what}.", THEN.turn_knobs({"max_tokens": 0}))
            if len(full.prompt) + len(full.ids) == 190:
                break
        assert len(full.prompt) + len(full.ids) == 190
        assert scored(small, full.score()).ids == full.ids
        other = Reply.__new__(Reply)
        other.prompt, other.ids = full.prompt[:3], full.ids
        with pytest.raises(EngineError, match="not enough free context"):
            scored(small, other.score())
        assert used_cells(small)[1] == -1
        assert scored(small, full.score()).ids == full.ids
    finally:
        small.close()


def passes(scorer: Scorer, command: Score, wanted: Callable[[], bool] = lambda: False) -> list[int]:
    """How many rows are there after each batch of the pass that answers this."""
    made: list[int] = []
    scorer.score_reply(command, lambda done, _: made.append(done), wanted)
    return made


def test_rows_are_kept_for_the_next_question(session: ModelSession, reply: Reply) -> None:
    scorer = Scorer(session.cache)
    assert passes(scorer, reply.score()) == [63, 100]
    assert passes(scorer, reply.score(THEN.turn_knobs({"top_k": 2}))) == []
    assert passes(scorer, reply.score(count=40)) == [40]  # another reply
    assert passes(scorer, reply.score()) == [63, 100]
    fork = reply.score(ids=[*reply.prompt, *reply.ids[:70], *reply.ids[:30]])
    assert passes(scorer, fork) == [100]  # 71 rows are of the part they share


def test_rows_beyond_the_bound_are_computed_again(session: ModelSession, reply: Reply) -> None:
    scorer = Scorer(session.cache, asked_bytes=70 * 4 * session.model.n_vocab)
    assert passes(scorer, reply.score()) == [63, 100]
    assert passes(scorer, reply.score()) == [100]
    assert scorer.score_reply(reply.score(), lambda *_: None, lambda: False).ids == reply.ids


def test_what_was_computed_when_it_was_given_up_stays(session: ModelSession, reply: Reply) -> None:
    scorer = Scorer(session.cache)
    with pytest.raises(Aborted):
        passes(scorer, reply.score(), wanted=lambda: True)
    assert used_cells(session)[1] == -1
    assert passes(scorer, reply.score()) == [100]


@pytest.mark.parametrize("count", [0, -1, 10_000])
def test_no_such_reply(session: ModelSession, reply: Reply, count: int) -> None:
    with pytest.raises(EngineError, match="no such reply"):
        scored(session, reply.score(count=count))


def test_the_worker_explains_and_scores(driver: Driver) -> None:
    for what in ("sea", "sky", "land", "moon"):
        ids = driver.prompt(f"Tell me all about the {what}.")
        made = tokens(driver.ask(request(ids, THEN, SEED)))
        if len(made) == THEN.max_tokens:
            break
    reply = [token.id for token in made]
    *progress, answer = driver.ask(Score([*ids, *reply], len(reply), THEN.samplers(), SEED), Scored)
    assert isinstance(answer, Scored)
    assert (answer.ids, answer.recomputed, progress) == (reply, False, [])
    part = len(reply) - 10
    *progress, answer = driver.ask(Score([*ids, *reply], part, THEN.samplers(), SEED, done=10), Scored)
    assert isinstance(answer, Scored)
    assert (answer.ids, answer.recomputed) == (reply[10:], True)
    assert [(p.done, p.total) for p in progress if isinstance(p, Scoring)] == [(63, part), (part, part)]
    at = next(i for i, token in enumerate(made) if token.rank > 0)
    (told,) = driver.ask(Explain([*ids, *reply[:at]], made[at].id, THEN.samplers(), SEED, at), Explained)
    assert isinstance(told, Explained)
    why = told.explanation
    assert (why.winner, why.rank, why.remedies) == (made[at].id, made[at].rank, [])
    assert why.probability == pytest.approx(made[at].probability, rel=1e-9)
    for candidate in made[at].candidates:
        (told,) = driver.ask(Explain([*ids, *reply[:at]], candidate.id, THEN.samplers(), SEED, at), Explained)
        assert isinstance(told, Explained)
        why = told.explanation
        assert (why.removed_by, why.logit, why.noise) == (candidate.removed_by, candidate.logit, candidate.noise)
        assert (why.text, why.winner_text) == (candidate.text, made[at].text)
    (failed,) = driver.ask(Explain(ids, -1, THEN.samplers(), SEED, 0), Explained)
    assert isinstance(failed, Failed)


def test_a_cancel_ends_the_scoring_too(driver: Driver) -> None:
    ids = driver.prompt("word " * 1500)
    number = driver.engine.send(request(ids[:20], Tuning(max_tokens=0, temperature=1.5), SEED))
    question = driver.engine.send(Score(ids, 1400, THEN.samplers(), SEED))
    last: dict[int, object] = {}
    while question not in last:
        last.update(driver.engine.receive(1.0))
    driver.engine.send(Cancel())
    while not (isinstance(last.get(number), Finished) and isinstance(last[question], Failed | Scored)):
        last.update(driver.engine.receive(1.0))
    assert isinstance(last[question], Failed)
    assert last[question].kind == "busy"
