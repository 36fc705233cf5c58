"""Drafts change no record but the times and what is told of them: whatever was drafted, and whatever is done to the reply in
the middle of a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from termchat.decoding.drafting import BatchTimes, DraftSettings
from termchat.decoding.records import Record, SettingsRecord, Shape, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import speculation
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, EngineError, Explain, Generate, Inspect, Measurement, Paused, Score
from tests.asking import change, events_of, only
from tests.engine.conftest import know_rows, prompt, records, request, tokens
from tests.engine.drafting import (
    COSTS,
    DEEDS,
    LENGTH,
    SCHEMA,
    SETTINGS,
    Knowing,
    end,
    ids_of,
    same,
    session_of,
    steered,
    taken,
)
from tests.engine.walking import plain

ON = DraftSettings("ngram")


@pytest.fixture
def knowing(monkeypatch: pytest.MonkeyPatch) -> type[Knowing]:
    """What drafts instead of the context. It never rests."""
    made = type("MyKnowing", (Knowing,), {})
    monkeypatch.setattr(speculation, "Ngrams", made)
    monkeypatch.setattr(speculation.Judge, "rests", False)
    return made


@pytest.fixture(scope="module")
def small(small_model_path: Path) -> Iterator[ModelSession]:
    with closing(session_of(small_model_path)) as made:
        yield made


def both(
    session: ModelSession, knowing: type[Knowing] | None, command: Generate, draft: DraftSettings = ON
) -> tuple[list[Record], list[Record]]:
    """The records of a reply from an empty cache, without and with drafts."""
    session.cache.rewind_to(0)
    without = records(session, command)
    if knowing is not None:
        knowing.begin = len(only(command).ids) - only(command).done
        knowing.said = [*only(command).ids[knowing.begin :], *(token.id for token in tokens(without))]
    session.cache.rewind_to(0)
    return without, records(session, change(command, draft=draft))


@pytest.mark.parametrize("name", SETTINGS)
def test_all_records_are_those_without_drafts(small: ModelSession, knowing: type[Knowing], name: str) -> None:
    tuning = SETTINGS[name].turn_knobs({"max_tokens": LENGTH})
    accepted = drafted = 0
    for seed in range(8):
        ids = ids_of(small, 30 if seed % 5 else SPLIT - 8)
        without, with_them = both(small, knowing, request(ids, tuning, seed))
        assert same(with_them) == same(without)
        told = end(with_them)
        assert told.drafted is not None
        assert told.accepted is not None
        drafted, accepted = drafted + told.drafted, accepted + told.accepted
    assert 20 < accepted < drafted


def test_a_constraint_goes_along(small: ModelSession, knowing: type[Knowing]) -> None:
    for seed in range(6):
        tuning = Tuning(temperature=1.0, max_tokens=LENGTH)
        without, with_them = both(small, knowing, request(ids_of(small, 30), tuning, seed, constraint=SCHEMA))
        assert same(with_them) == same(without)
        assert end(with_them).accepted


def test_what_was_drafted_is_told_token_by_token(small: ModelSession, knowing: type[Knowing]) -> None:
    _, stream = both(small, knowing, request(ids_of(small, 30), Tuning(max_tokens=LENGTH)))
    told, rounds, drafted = tokens(stream), 0, 0
    expected: list[int] = []
    for token in told:
        if token.draft is None:
            assert not expected
            continue
        draft = [each.id for each in token.draft.tokens]
        if not expected:
            rounds, drafted, expected = rounds + 1, drafted + len(draft), draft
        else:
            assert draft == expected[:1]
            assert token.decode_us == token.draft.us == 0
        assert token.draft.accepted is (token.id == expected[0])
        assert token.draft.tokens[0].text == small.model.name(expected[0])
        expected = expected[1:] if token.draft.accepted else []
    finished = end(stream)
    assert (finished.rounds, finished.drafted) == (rounds, drafted)
    assert finished.accepted == sum(token.draft is not None and token.draft.accepted for token in told)


@pytest.mark.parametrize("length", [30, SPLIT - 8])
def test_cells_serve_the_next_reply_as_those_made_one_by_one(
    small: ModelSession, knowing: type[Knowing], length: int
) -> None:
    tuning = Tuning(temperature=1.0, max_tokens=LENGTH)
    ids = ids_of(small, length)
    small.cache.rewind_to(0)
    said = [token.id for token in tokens(records(small, request(ids, tuning)))]
    cells = [Shape(63)] * ((length - 1) // 63) + [Shape((length - 1) % 63)] * bool((length - 1) % 63)
    following = (
        ([*ids, *said, 5, 6, 7], {}),  # goes on behind it
        ([*ids, *said[:9]], {"done": 9}),  # from one of its tokens
        (
            [*ids, *said[:-1]],
            {"done": LENGTH - 1, "shapes": [*cells, *[Shape(1, 1)] * LENGTH], "rebuild_exactly": True},
        ),
        ([*ids[:20], 9], {}),
    )
    for path, more in following:
        found = []
        for draft in (None, ON):
            small.cache.rewind_to(0)
            knowing.begin, knowing.said = length, said
            records(small, request(ids, tuning, draft=draft))
            found.append(records(small, request(path, tuning, 8, **more)))
        assert plain(found[0]) == plain(found[1])
        assert isinstance(found[1][0], Start)
        assert found[1][0].exact


def test_the_context_is_full_in_the_middle_of_a_round(small_model_path: Path, knowing: type[Knowing]) -> None:
    with closing(session_of(small_model_path, context=64)) as session:
        knowing.faults = 0.0
        without, with_them = both(session, knowing, request(ids_of(session, 50), Tuning(temperature=1.0)))
    assert same(with_them) == same(without)
    assert end(with_them).reason == "context"
    assert end(with_them).accepted


# --- what is done in the middle of a round ---------------------------------------------------------------------------


@pytest.mark.parametrize("deed", DEEDS)
def test_what_is_done_in_mid_round_has_the_effect_that_it_has_without_drafts(
    small: ModelSession, knowing: type[Knowing], deed: str
) -> None:
    command = request(ids_of(small, 40), Tuning(max_tokens=LENGTH))
    said, _ = both(small, knowing, command)
    knowing.said, knowing.begin = [token.id for token in tokens(said)], 40
    knowing.faults = 0.0
    commands, when_paused = DEEDS[deed]
    for at in (2, 6):
        without = steered(small, command, at, commands, when_paused)
        with_them = steered(small, change(command, draft=ON), at, commands, when_paused)
        assert taken(with_them) == taken(without)
        both_ends = [end(stream) for stream in (without, with_them)]
        assert both_ends[0].reason == both_ends[1].reason
        assert both_ends[1].accepted
        ids = [*only(command).ids, *(t.id for t in tokens([s for s in with_them if not isinstance(s, Paused)]))]
        assert small.cache.ids == ids[: len(small.cache.ids)]
        after = [records(small, request([*ids, 5], Tuning(max_tokens=3)))]
        small.cache.rewind_to(0)
        after.append(records(small, request([*ids, 5], Tuning(max_tokens=3))))
        assert [t.candidates for t in tokens(after[0])] == [t.candidates for t in tokens(after[1])]


def test_a_stop_sequence_in_mid_round(small: ModelSession, knowing: type[Knowing]) -> None:
    knowing.faults = 0.0
    free, _ = both(small, knowing, request(ids_of(small, 40), Tuning(max_tokens=LENGTH)))
    text = "".join(token.text for token in tokens(free))
    stop = text[len(text) // 2 :][:5]
    without, with_them = both(small, knowing, request(ids_of(small, 40), Tuning(max_tokens=LENGTH, stop=(stop,))))
    assert same(with_them) == same(without)
    assert end(with_them).reason == "stop"


def test_questions_in_mid_round_see_only_what_was_accepted(small: ModelSession, knowing: type[Knowing]) -> None:
    tuning = Tuning(max_tokens=LENGTH, temperature=1.0)
    ids = ids_of(small, 40)
    without, _ = both(small, knowing, request(ids, tuning))
    knowing.faults = 0.0
    small.cache.rewind_to(0)
    made: list[Token] = []
    for said in events_of(small, request(ids, tuning, draft=ON)):
        if not isinstance(said, Token):
            continue
        made.append(said)
        path, samplers = [*ids, *(token.id for token in made)], tuning.samplers()
        if said.step % 3 == 1:
            found, _ = small.inspect_step(Inspect(path[:-1], samplers, 7, said.step), alone=False, wanted=lambda: False)
            assert (found.id, found.candidates) == (said.id, said.candidates)
            small.explain_step(Explain(path, 40, samplers, 7, said.step + 1), alone=False, wanted=lambda: False)
            score = Score(path, len(made), samplers, 7)
            scored = small.score_reply(score, alone=False, progress=lambda *_: None, wanted=lambda: False)
            assert scored.ids == [token.id for token in made]
    assert [msgspec.structs.replace(t, draft=None, settings=0, decode_us=0, sample_us=0) for t in made] == tokens(
        same(without)
    )


# --- drafters that fail, and what drafts must not do -----------------------------------------------------------------


def _dies(_ids: list[int], _most: int) -> list[int]:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("instead", "fails"),
    [
        (_dies, True),
        (lambda _ids, _most: [10**9, -5, 3], False),
        (lambda _ids, most: [7] * (most + 400), False),
        (lambda _ids, _most: None, True),
    ],
    ids=["dies", "no such ids", "too many", "nothing at all"],
)
def test_nonsense_costs_time_only(
    small: ModelSession, knowing: type[Knowing], instead: Callable[..., list[int]], fails: bool
) -> None:
    knowing.instead = staticmethod(instead)  # type: ignore[assignment]
    without, with_them = both(small, None, request(ids_of(small, 30), Tuning(max_tokens=8)))
    assert same(with_them) == same(without)
    settings = [record for record in with_them if isinstance(record, SettingsRecord)]
    assert ("failed" in settings[-1].drafting) is fails


@pytest.mark.parametrize(("rows", "kv_type", "most"), [(3, "auto", 2), (1, "auto", 0), (63, "f16", 0)])
def test_an_exact_reply_drafts_as_many_tokens_as_rows_have_the_bits_of_each_alone(
    small_model_path: Path, knowing: type[Knowing], rows: int, kv_type: str, most: int
) -> None:
    tuning = Tuning(max_tokens=14)
    knowing.faults = 0.0
    threads = 2 if kv_type == "f16" else 1
    with closing(session_of(small_model_path, threads=threads, threads_batch=1, kv_type=kv_type)) as two:
        know_rows(two, rows)
        asked = request(ids_of(two, 40), tuning)
        for drafted in (2, 15):
            without, with_them = both(two, knowing, asked, draft=DraftSettings("ngram", drafted))
            assert isinstance(with_them[0], Start)
            assert with_them[0].exact is (drafted <= most)
        knowing.begin, knowing.said = 40, [t.id for t in tokens(without)]
        on = Adjust(tuning.samplers(), tuning.conditions(), draft=ON)
        turned = [r for r in steered(two, asked, 1, [on]) if not isinstance(r, Paused)]
        assert isinstance(turned[0], Start)
        assert turned[0].exact
        assert tokens(same(turned)) == tokens(same(without))
        lengths = [len(token.draft.tokens) for token in tokens(turned) if token.draft is not None]
        assert max(lengths, default=0) == most
        told = any("exact" in record.drafting for record in turned if isinstance(record, SettingsRecord))
        assert told is (most == 0)


def test_a_model_that_cannot_rewind_refuses(small: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small.model, "can_rewind", False)
    with pytest.raises(EngineError, match="cannot take back"):
        records(small, request(ids_of(small, 30), Tuning(max_tokens=4), draft=ON))


# --- the real model, from its own context ----------------------------------------------------------------------------

QUOTE = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_what_is_quoted_is_drafted_from_the_context(
    session: ModelSession, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchTimes, "add", lambda *_: None)  # a busy machine measures anything
    tuning = Tuning(temperature=temperature, max_tokens=30)
    known = Measurement(session.cache.how, session.cache.loaded[0], COSTS, 63)
    monkeypatch.setattr(session.cache, "measured", known)
    monkeypatch.setattr(session, "_learned", speculation.Learned(known))
    without, with_them = both(session, None, request(prompt(session, QUOTE), tuning, 1))
    assert same(with_them) == same(without)
    finished = end(with_them)
    assert finished.accepted is not None
    assert finished.accepted >= 10
