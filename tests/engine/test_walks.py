"""Many replies in one batch: each is what it is alone, whatever happens to the others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from math import inf
from pathlib import Path

import msgspec
import pytest

from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed, Prefill, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import reply, source
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.port import (
    Adjust,
    Cancel,
    EngineError,
    Explain,
    Force,
    Generate,
    Inspect,
    MeasureBatches,
    ModelSpec,
    Pause,
    Resume,
    Scripted,
    Step,
    WalksFinished,
)
from tests.asking import ask_for, change, only
from tests.engine.conftest import know_rows, records, tokens
from tests.engine.walking import Fork, alone, ask, end, firsts, joining, of, paused, plain, to, walk, walked

LENGTH = 10
FREE = Tuning(max_tokens=LENGTH, temperature=1.0)


@pytest.fixture(scope="module")
def session(small_model_path: Path) -> Iterator[ModelSession]:
    """Two blocks of the real model, so that it is quick."""
    spec = ModelSpec(str(small_model_path), "small", context=512, threads=1)
    with closing(know_rows(ModelSession(spec, lambda _: None))) as made:
        yield made


def story(session: ModelSession, count: int = 40) -> list[int]:
    return session.model.tokenize("The ship sailed on over the wide, quiet water. " * 60, special=False)[:count]


def check_each(session: ModelSession, stream: list[object], command: Generate) -> None:
    for one in command.replies:
        assert plain(of(stream, one.number)) == alone(session, command, one)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "prompt"), [(2, SPLIT - 4), (4, 40), (4, SPLIT + 20), (16, SPLIT - 5)])
def test_each_walk_is_what_its_seed_gives_alone(session: ModelSession, count: int, prompt: int) -> None:
    command = ask(story(session, prompt), [walk(i, FREE, 30 + i) for i in range(count)])
    session.cache.rewind_to(0)
    stream = walked(session, command)
    check_each(session, stream, command)
    starts = [event for event in stream if isinstance(event, Start)]
    assert [(start.walk, start.group, start.threads, start.exact) for start in starts] == [
        (i, command.group, 1, True) for i in range(count)
    ]
    assert len({tuple(t.id for t in tokens(of(stream, i))) for i in range(count)}) > 1
    over = stream[-1]
    assert isinstance(over, WalksFinished)
    assert over.tokens == sum(end(stream, i).tokens for i in range(count))
    assert over.steps == max(end(stream, i).tokens for i in range(count)) - 1
    assert over.tokens_per_second == pytest.approx((over.tokens - count) / over.decode_ms * 1e3)
    assert sorted(first.walk or 0 for first in firsts(stream)) == list(range(count))


def test_the_whole_model_says_the_same_in_a_batch(model_path: Path) -> None:
    spec = ModelSpec(str(model_path), "smollm2", context=512, threads=1)
    with closing(know_rows(ModelSession(spec, lambda _: None))) as whole:
        command = ask(story(whole, SPLIT - 4), [walk(i, FREE, i) for i in range(3)])
        check_each(whole, walked(whole, command), command)


def test_any_number_of_threads_gives_the_same(small_model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_off = 0

    class Restless(ThreadTuner):
        """Another number of threads for every batch; every third one is broken off."""

        def limit_seconds(self, rows: int = 1) -> float:
            nonlocal broken_off
            broken_off += 1
            return 1e-6 if broken_off % 3 == 0 else inf

        def observe_step(self, threads: int, us: float, rows: int = 1, following: int = 1) -> int:
            self._limit = 3 - self._limit
            return self._limit

    monkeypatch.setattr(source, "ThreadTuner", Restless)
    spec = ModelSpec(str(small_model_path), "small", context=512, threads=2, proposed_threads=True)
    with closing(know_rows(ModelSession(spec, lambda _: None))) as two:
        command = ask(story(two, SPLIT - 4), [walk(i, FREE, i) for i in range(3)])
        two.cache.rewind_to(0)
        stream = walked(two, command)
        for one in command.replies:
            expected = alone(two, command, one, script=(Scripted(0, threads=1),))
            assert [r for r in plain(of(stream, one.number)) if not isinstance(r, Start | Prefill)] == [
                r for r in expected if not isinstance(r, Start | Prefill)
            ]
        assert broken_off >= LENGTH * 4 // 3


def test_walks_begin_at_any_token_of_a_reply(session: ModelSession) -> None:
    ids = story(session, SPLIT - 4)
    session.cache.rewind_to(0)
    reply = records(session, ask_for(ids, FREE.samplers(), FREE.conditions(), 3))
    path = [*ids, *(t.id for t in tokens(reply)[:6])]
    command = ask(path, [walk(3, FREE, 3), walk(4, FREE, 4)], done=6)
    stream = walked(session, command)
    assert tokens(plain(of(stream, 3))) == tokens(plain(reply))[6:]
    (prefill, _) = [event for event in stream if isinstance(event, Prefill)]
    assert prefill.shapes == [1]
    forced = tuple(Scripted(n, i) for n, i in enumerate(path[len(ids) :]))
    whole = alone(session, ask(ids, [walk(4, FREE)]), walk(4, FREE, 4, script=forced))
    assert [t.candidates for t in tokens(of(stream, 4))] == [t.candidates for t in tokens(whole)[6:]]


def test_each_has_knobs_rules_and_a_constraint_of_its_own(session: ModelSession) -> None:
    knobs: list[dict[str, object]] = [
        {"temperature": 0.0}, {"max_tokens": 3}, {"repeat_penalty": 1.3, "top_k": 200}, {"mirostat": 2},
        {"dry_multiplier": 0.8, "top_k": 0, "min_p": 0.1}, {"xtc_probability": 0.5, "xtc_threshold": 0.02},
    ]  # fmt: skip
    walks = [walk(i, Tuning(**{"max_tokens": LENGTH, **more})) for i, more in enumerate(knobs)]  # type: ignore[arg-type]
    walks.append(walk(6, FREE, constraint=Constraint("regex", "[0-9]{4}")))
    script = (Scripted(2, samplers=Tuning(temperature=2.0).samplers()), Scripted(4, 500), Scripted(4, 600))
    walks.append(walk(7, FREE, script=script))
    command = ask(story(session), walks)
    session.cache.rewind_to(0)
    stream = walked(session, command)
    check_each(session, stream, command)
    assert end(stream, 6).reason == "end"
    text = "".join(t.text for t in tokens(of(stream, 6)))
    assert len(text) == 4
    assert text.isdecimal()


def test_one_that_is_stopped_or_ends_early_leaves_the_others_as_they_are(session: ModelSession) -> None:
    walks = [walk(i, Tuning(max_tokens=4 if i == 1 else LENGTH), i) for i in range(4)]
    command = ask(story(session, SPLIT - 4), walks)
    session.cache.rewind_to(0)
    stream = walked(session, command, {(0, 5): [to(2, Cancel())]})
    check_each(
        session, [e for e in stream if getattr(e, "walk", 2) != 2], ask(only(command).ids, [*walks[:2], walks[3]])
    )
    assert (end(stream, 2).reason, end(stream, 2).tokens) == ("user", 5)
    assert (end(stream, 1).reason, end(stream, 1).tokens) == ("length", 4)
    free = alone(session, command, walks[2])
    assert plain(of(stream, 2))[:-1] == free[: len(of(stream, 2)) - 1]


def test_cancel_ends_all(session: ModelSession) -> None:
    command = ask(story(session), [walk(i, FREE, i, paused=i == 1) for i in range(3)])
    stream = walked(session, command, {(0, 3): [Cancel()]})
    assert [(end(stream, i).reason, end(stream, i).tokens) for i in range(3)] == [("user", 3), ("user", 0), ("user", 3)]
    assert isinstance(stream[-1], WalksFinished)


def test_a_paused_one_waits_while_the_others_go_on(session: ModelSession) -> None:
    command = ask(story(session, SPLIT - 4), [walk(i, FREE, i) for i in range(3)])
    session.cache.rewind_to(0)
    stream = walked(session, command, {(0, 3): [to(1, Pause())], (0, 7): [to(1, Resume())]})
    check_each(session, stream, command)
    (stop,) = paused(stream, 1)
    assert stop.token.step == 3
    since = stream.index(stop)
    assert [e.step for e in stream[since:] if isinstance(e, Token) and e.walk == 0][:4] == [4, 5, 6, 7]
    assert [e for e in stream[since:] if isinstance(e, Token)].index(of(stream, 1)[6]) >= 6  # type: ignore[arg-type]


def test_all_are_paused_and_stepped_together(session: ModelSession) -> None:
    command = ask(story(session), [walk(i, FREE, 5) for i in range(2)])
    session.cache.rewind_to(0)
    stream = walked(session, command, {(0, 2): [Pause()]}, [Step(), to(1, Step()), Force([700]), Resume()])
    assert [[stop.token.step for stop in paused(stream, i)] for i in (0, 1)] == [[2, 3, 4], [2, 3, 4, 5]]
    forced = [[t.step for t in tokens(of(stream, i)) if t.forced] for i in (0, 1)]
    assert forced == [[3], [4]]
    for i, one in enumerate(command.replies):
        script = (Scripted(forced[i][0], 700),)
        assert plain(of(stream, i)) == alone(session, command, one, script=script)


def test_a_knob_is_turned_for_all_or_for_one(session: ModelSession) -> None:
    command = ask(story(session), [walk(i, FREE, i) for i in range(3)])
    hot, cold = Tuning(temperature=1.5, max_tokens=LENGTH), Tuning(temperature=0.0, max_tokens=LENGTH)
    at = {
        (0, 3): [Adjust(hot.samplers(), hot.conditions(), {"temperature": "panel"})],
        (0, 6): [to(1, Adjust(cold.samplers(), cold.conditions(), {"temperature": "panel"}))],
    }
    session.cache.rewind_to(0)
    stream = walked(session, command, at)
    for one in command.replies:
        script = [Scripted(3, samplers=hot.samplers(), origin={"temperature": "panel"})]
        if one.number == 1:
            script.append(Scripted(6, samplers=cold.samplers(), origin={"temperature": "panel"}))
        assert plain(of(stream, one.number)) == alone(session, command, one, script=tuple(script))


def test_a_rule_that_cannot_be_used_fails_one_walk(session: ModelSession) -> None:
    bad = walk(1, FREE, constraint=Constraint("regex", "a(b"))
    command = ask(story(session), [walk(0, FREE), bad, walk(2, FREE, 9)])
    session.cache.rewind_to(0)
    stream = walked(session, command)
    (failed,) = of(stream, 1)
    assert isinstance(failed, Failed)
    assert failed.kind == "constraint"
    check_each(session, stream, ask(only(command).ids, [command.replies[0], command.replies[2]]))


# --- walks that come later -------------------------------------------------------------------------------------------


def test_one_that_joins_begins_at_the_prompt_or_within_another(session: ModelSession) -> None:
    command = ask(story(session, SPLIT - 6), [walk(i, FREE, i) for i in range(3)])
    late, fork, again = walk(3, FREE, 33), walk(4, FREE, 44), walk(5, FREE, 55)
    session.cache.rewind_to(0)
    stream = walked(session, command, {
        (0, 4): [joining(command, late)], (0, 6): [Fork(fork, 1, 4)], (2, 9): [Fork(again, 4, 5)],
    })  # fmt: skip
    check_each(session, stream, command)
    assert plain(of(stream, 3)) == alone(session, command, late)
    for one, base, at in ((fork, 1, 4), (again, 4, 5)):
        # What went before it: that of the walk in which it begins, as far as that is its own, and of the one before.
        begun = [t.id for t in tokens(of(stream, base))][: at if base == 1 else 1]
        ids = [*only(command).ids, *([t.id for t in tokens(of(stream, 1))[:4]] if base == 4 else []), *begun]
        own = of(stream, one.number)
        start, prefill = own[0], own[2]
        assert isinstance(start, Start)
        assert isinstance(prefill, Prefill)
        assert (start.prompt_ids, start.exact) == (ids, True)
        assert (prefill.tokens, prefill.reused, prefill.shapes) == (len(ids), len(ids) - 1, [1])
        whole = alone(
            session, command, one, script=tuple(Scripted(n, i) for n, i in enumerate(ids[len(only(command).ids) :]))
        )
        found, expected = tokens(plain(own)), tokens(whole)[at:]
        assert [t.step for t in found] == list(range(at, LENGTH))
        assert [(t.id, t.logit, t.probability, t.candidates) for t in found] == [
            (t.id, t.logit, t.probability, t.candidates) for t in expected
        ]


@pytest.mark.parametrize(
    ("behind", "number", "why"), [([5, 6], 3, "no running reply begins with these tokens"), ([], 1, "there already")]
)
def test_one_that_cannot_join_fails_alone(session: ModelSession, behind: list[int], number: int, why: str) -> None:
    command = ask(story(session), [walk(i, Tuning(max_tokens=4), i) for i in range(2)])
    stream = walked(
        session, command, {(0, 2): [joining(command, walk(number, FREE, ids=[*only(command).ids, *behind]))]}
    )
    (failed,) = [event for event in stream if isinstance(event, Failed)]
    assert failed.walk == number
    assert why in failed.message
    assert [end([e for e in stream if e is not failed], i).reason for i in (0, 1)] == ["length", "length"]


# --- room ------------------------------------------------------------------------------------------------------------


def test_a_context_that_fills_ends_all(session: ModelSession) -> None:
    count = 8
    ids = story(session, session.cache.capacity - 5 * count - 3)
    command = ask(ids, [walk(i, FREE, i, paused=i == 7) for i in range(count)])
    stream = walked(session, command)
    assert {end(stream, i).reason for i in range(count)} == {"context"}
    # Seven rows a step, and five for whom there is no seventh: the last token of each is drawn, and not decoded.
    assert [end(stream, i).tokens for i in range(count)] == [7] * 7 + [0]
    assert end(stream, 0).detail.startswith("511 of 512")


@pytest.mark.parametrize("count", [0, 33])
def test_so_many_walks_are_not_possible(session: ModelSession, count: int) -> None:
    with pytest.raises(EngineError, match=f"{count} walks"):
        walked(session, ask(story(session), [walk(i, FREE) for i in range(count)]))


def test_a_model_that_cannot_rewind_is_refused(session: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.model, "can_rewind", False)
    with pytest.raises(EngineError, match="several replies") as raised:
        walked(session, ask(story(session), [walk(0, FREE)]))
    assert raised.value.kind == "capability"


def test_weights_whose_rows_depend_on_the_batch_are_told_or_decoded_in_smaller_ones(
    made_model: Callable[[str], Path],
) -> None:
    spec = ModelSpec(str(made_model("half")), "half", context=512, threads=1)
    with closing(ModelSession(spec, lambda _: None)) as other:
        assert other.measure_batches(MeasureBatches(0.1)).rows_alike == 1
        command = ask(story(other), [walk(i, FREE, i) for i in range(3)])
        seeds = [alone(other, command, one) for one in command.replies]
        other.cache.rewind_to(0)
        stream = walked(other, command)
        assert [event.exact for event in stream if isinstance(event, Start)] == [False] * 3
        assert any(tokens(plain(of(stream, i))) != tokens(seeds[i]) for i in range(3))
        assert other.keep_reply(0).cells == 40 + LENGTH - 1
        after = records(other, ask_for([*story(other), 5, 6], FREE.samplers(), Tuning(max_tokens=1).conditions(), 1))
        assert isinstance(after[0], Start)
        other.cache.rewind_to(0)
        stream = walked(other, change(command, exact=True))
        assert [event.exact for event in stream if isinstance(event, Start)] == [True] * 3
        assert [plain(of(stream, i)) for i in range(3)] == seeds


def test_exact_walks_are_decoded_in_batches_of_as_many_rows_as_are_alike(
    session: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, sizes = session.cache.measured, []
    decode = session.cache.decode_rows
    monkeypatch.setattr(session.cache, "measured", msgspec.structs.replace(known, rows_alike=3))
    monkeypatch.setattr(
        session.cache, "decode_rows", lambda rows, *more: (sizes.append(len(rows)), decode(rows, *more))[1]
    )
    for count, wanted, most, exact in ((4, True, 3, True), (4, False, 4, False), (3, False, 3, True)):
        sizes.clear()
        command = ask(story(session), [walk(i, FREE, 30 + i) for i in range(count)], exact=wanted)
        stream = walked(session, command)
        assert max(sizes) == most
        assert {event.exact for event in stream if isinstance(event, Start)} == {exact}
        assert len({tuple(t.id for t in tokens(of(stream, i))) for i in range(count)}) > 1


# --- the one that goes on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 2, 3])
def test_the_one_that_is_kept_goes_on_with_nothing_decoded_again(session: ModelSession, kept: int) -> None:
    command = ask(story(session, SPLIT - 6), [walk(i, FREE, i) for i in range(3)])
    fork = walk(3, FREE, 9)
    session.cache.rewind_to(0)
    stream = walked(session, command, {(0, 5): [to(2, Cancel()), Fork(fork, 1, 3)]})
    own = of(stream, kept)
    start = own[0]
    assert isinstance(start, Start)
    ids = [*start.prompt_ids, *(t.id for t in tokens(own))]
    done = len(ids) - len(only(command).ids)
    later = Tuning(max_tokens=done + 6, temperature=1.0)

    def go_on() -> list[object]:
        seed = (0, 1, 2, 9)[kept]
        return records(session, ask_for(ids, later.samplers(), later.conditions(), seed, done=done))  # type: ignore[return-value]

    found = session.keep_reply(kept)
    assert found.cells == len(session.cache.ids) >= len(ids) - 1
    assert session.cache.ids == ids[: found.cells]
    more = go_on()
    prefill = next(record for record in more if isinstance(record, Prefill))
    assert (prefill.reused, prefill.shapes) == (len(ids) - 1, [1])
    # Alone: the prompt and then token by token.
    session.cache.rewind_to(0)
    forced = tuple(Scripted(n, i) for n, i in enumerate(ids[len(only(command).ids) :]))
    session_ids = records(
        session,
        ask_for(only(command).ids, later.samplers(), Tuning(max_tokens=done).conditions(), 1, script=forced),
    )
    assert [t.id for t in tokens(session_ids)] == ids[len(only(command).ids) :]
    assert tokens(plain(go_on())) == tokens(plain(more))  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="gone"):
        session.keep_reply(kept)


def test_cells_are_gone_once_something_else_is_decoded(session: ModelSession) -> None:
    command = ask(story(session), [walk(i, FREE, i) for i in range(2)])
    walked(session, command)
    records(session, ask_for(story(session, 20), FREE.samplers(), FREE.conditions(), 1))
    with pytest.raises(EngineError, match="gone"):
        session.keep_reply(0)
    stream = walked(session, command)
    assert session.keep_reply(1).cells == len(only(command).ids) + len(tokens(of(stream, 1))) - 1


def test_a_walk_is_asked_about_while_its_cells_are_there(session: ModelSession) -> None:
    """What is asked does not change what is kept, however far it is from the prompt."""
    long = Tuning(max_tokens=66, temperature=1.0)
    command = ask(story(session), [walk(i, long, i) for i in range(3)])
    session.cache.rewind_to(0)
    stream = walked(session, command)
    asked = tokens(of(stream, 1))[65]
    ids = [*only(command).ids, *(t.id for t in tokens(of(stream, 1))[:65])]
    token, recomputed = session.inspect_step(Inspect(ids, long.samplers(), 1, 65), alone=True, wanted=lambda: False)
    assert recomputed
    assert (token.id, token.logit, token.probability) == (asked.id, asked.logit, asked.probability)
    why = session.explain_step(Explain(ids[:-2], 11, long.samplers(), 1, 63), alone=True, wanted=lambda: False)
    assert why.explanation.id == 11
    assert session.keep_reply(1).cells == len(only(command).ids) + 65


def test_what_walks_compute_with_is_freed_when_they_are_over(
    session: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    observers = weakref.WeakSet[reply.Observer]()

    class Seen(reply.Observer):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            observers.add(self)

    monkeypatch.setattr(reply, "Observer", Seen)
    gc.disable()  # the worker collects cycles seldom
    try:
        walked(session, ask(story(session), [walk(0, FREE), walk(1, FREE, paused=True)]), when_paused=[Cancel()])
        assert not observers
    finally:
        gc.enable()
