"""A reply that is paused, stepped, forced and scripted is the reply that it would have been."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from time import perf_counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termchat.decoding.conditions import Condition, Text, describe, parse
from termchat.decoding.records import Finished, Prefill, Record, Settings, Start, Token
from termchat.decoding.rules import MEASURES, ends_sentence
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import Session
from termchat.engine.port import (
    Adjust,
    Cancel,
    EngineError,
    FirstToken,
    Force,
    Generate,
    Inspect,
    Pause,
    Paused,
    Prefilling,
    Resume,
    Scripted,
    Steer,
    Step,
)
from tests.engine.bare_loop import bare_greedy
from tests.engine.conftest import prompt, records, request, tokens

TUNING = Tuning(max_tokens=48, temperature=1.0, repeat_penalty=1.1)
Said = Record | Paused
Numbers = list[tuple[object, ...]]


def steered(
    session: Session, command: Generate, when_paused: Iterable[Steer], at: dict[int, list[Steer]] | None = None
) -> list[Said]:
    """The stream of a reply that is given one command a pause, and at some steps others on the way."""
    waiting: list[Steer] = []
    planned, left = iter(when_paused), dict(at or {})
    stream: list[Said] = []
    step = command.done

    def poll() -> Steer | None:
        return (left.get(step) or waiting or [None]).pop(0)

    for event in session.generate(command, poll, perf_counter()):
        if isinstance(event, Prefilling | FirstToken):
            continue
        stream.append(event)
        if isinstance(event, Token):
            step = event.step + 1
        elif isinstance(event, Paused):
            waiting.append(next(planned))
    return stream


def numbers(stream: Iterable[object]) -> Numbers:
    """Everything of a reply's tokens but the times and the settings' numbers."""
    return [
        (t.step, t.position, t.id, t.bytes, t.text, t.logit, t.logprob, t.rank, t.probability, t.entropy, t.p_end, t.stages,
         t.candidates)
        for t in stream if isinstance(t, Token)
    ]  # fmt: skip


def paused(stream: Iterable[object]) -> list[Paused]:
    return [event for event in stream if isinstance(event, Paused)]


def end(stream: list[Said]) -> Finished:
    assert isinstance(stream[-1], Finished)
    return stream[-1]


def ask(ids: list[int], tuning: Tuning, *rules: str, seed: int = 7, **more: object) -> Generate:
    conditions: tuple[Condition, ...] = (*tuning.conditions(), *map(parse, rules))
    return Generate(ids, tuning.samplers(), conditions, seed, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def story(session: Session) -> list[int]:
    """A prompt whose reply is long enough, and no foregone conclusion: other processors draw other replies."""
    for animal in ("fox", "crow", "wolf", "bear", "hare", "frog"):
        ids = prompt(session, f"Tell me a story about a {animal} who said: Hello! And then? Use short sentences.")
        if serves(tokens(records(session, request(ids, TUNING)))):
            return ids
    raise AssertionError("no reply will do")


def serves(reply: list[Token]) -> bool:
    """Whether a reply has as many tokens as it may, and half of them are drawn from several."""
    drawn = [t for t in reply if t.probability < 1]
    return len(reply) == TUNING.max_tokens and len(drawn) > len(reply) // 2 and reply[5] in drawn


@pytest.fixture(scope="module")
def whole(session: Session, story: list[int]) -> list[Token]:
    """The reply that nobody stops."""
    return tokens(records(session, request(story, TUNING)))


def test_paused_stepped_and_resumed_it_is_the_same_reply(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    stream = steered(
        session, request(story, TUNING, paused=True), [Step(), Step(), Pause(), Resume(), Resume()], {20: [Pause()]}
    )
    assert numbers(stream) == numbers(whole)
    stops = paused(stream)
    assert [stop.token.step for stop in stops] == [0, 1, 2, 2, 20]
    assert {stop.why for stop in stops} == {""}
    for stop in stops:  # what is shown is what is then taken, but for its text
        taken = whole[stop.token.step]
        assert (stop.token.id, stop.token.logit, stop.token.candidates) == (taken.id, taken.logit, taken.candidates)
    assert (end(stream).reason, end(stream).tokens) == ("length", 48)


def test_questions_asked_while_it_waits_do_not_disturb_it(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    asked: list[tuple[Token, bool]] = []

    def curious() -> Iterable[Steer]:
        while True:
            at = len(asked)
            for ids, step in (([*story, *(t.id for t in whole[:at])], at), (story[:20], 0), (story, 0)):
                look = Inspect(ids, TUNING.samplers(), 7, step)
                found = session.inspect(look, alone=False, wanted=lambda: False)
                if ids is not story[:20] and step == at and len(ids) == len(story) + at:
                    fresh = found
            asked.append(fresh)
            session.model.tokenize("while it waits", special=False)
            yield Step()

    stream = steered(session, request(story, TUNING, paused=True), curious())
    assert numbers(stream) == numbers(whole)
    assert len(asked) == 48
    # The pending step is looked at without another pass, and is what is then taken.
    assert [recomputed for _, recomputed in asked] == [False] * 48
    assert [(t.id, t.logit, t.candidates) for t, _ in asked] == [(t.id, t.logit, t.candidates) for t in whole]


def begins(reply: list[Token], unit: str) -> list[int]:
    """The steps at which its lines or sentences begin."""
    found = [0]
    for n in range(1, len(reply)):
        said = b"".join(t.bytes for t in reply[found[-1] : n])
        following = reply[n].bytes.decode(errors="replace")
        if b"\n" in said if unit == "line" else ends_sentence(said.decode(errors="replace"), following):
            found.append(n)
    return found


@pytest.mark.parametrize(
    ("unit", "text"), [("line", "Write a poem of two verses about {}."), ("sentence", "Tell me about the {}.")]
)
def test_a_step_goes_to_the_end_of_its_unit(session: Session, unit: str, text: str) -> None:
    tuning = Tuning(max_tokens=72, temperature=0.6)
    for what in ("rain", "sea", "moon", "wind", "snow"):  # until a reply has some of them
        ids = prompt(session, text.format(what))
        free = tokens(records(session, request(ids, tuning)))
        expected = begins(free, unit)
        if len(expected) > 2:
            break
    stream = steered(session, request(ids, tuning, paused=True), [Step(unit)] * 72)  # type: ignore[arg-type]
    assert numbers(stream) == numbers(free)
    assert [stop.token.step for stop in paused(stream)] == expected
    assert len(expected) > 2


def test_steps_asked_for_while_one_is_under_way_follow_it(session: Session, story: list[int]) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Step(), Cancel()], {1: [Step(), Step()]})
    assert [stop.token.step for stop in paused(stream)] == [0, 3]
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("user", "", 3)


def test_cancelled_before_the_first_token_it_has_none(session: Session, story: list[int]) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Cancel()])
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("user", "", 0)
    assert end(stream).ttft_ms is None


def test_knobs_turned_while_it_waits_reshape_what_is_pending(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    hot = Tuning(max_tokens=48, temperature=2.0, top_k=3, repeat_penalty=1.1)
    turned = Adjust(hot.samplers(), hot.conditions())
    back = Adjust(TUNING.samplers(), TUNING.conditions())
    stream = steered(session, request(story, TUNING), [turned, back, Resume()], {9: [Pause()]})
    first, second, third = paused(stream)
    assert [type(event) for event in stream if isinstance(event, Settings | Paused)] == [
        Settings, Paused, Settings, Paused, Settings, Paused,
    ]  # fmt: skip
    assert [stop.token.settings for stop in (first, second, third)] == [0, 1, 2]
    path = [*story, *(t.id for t in whole[:9])]
    expected = session.inspect(Inspect(path, hot.samplers(), 7, 9), alone=False, wanted=lambda: False)[0]
    assert second.token.stages == expected.stages
    assert [(c.id, c.probability, c.removed_by) for c in second.token.candidates] == [
        (c.id, c.probability, c.removed_by) for c in expected.candidates
    ]
    assert second.token.logit != 0
    assert (third.token.id, third.token.candidates) == (first.token.id, first.token.candidates)
    assert numbers(stream) == numbers(whole)


def test_the_clock_stands_still_while_it_waits(session: Session, story: list[int]) -> None:
    waited = 0.0

    def slow() -> Iterable[Steer]:
        nonlocal waited
        for _ in range(4):
            since = perf_counter()
            while perf_counter() - since < 0.15:
                pass
            waited += perf_counter() - since
            yield Step()
        yield Resume()

    begun = perf_counter()
    finished = end(steered(session, request(story, Tuning(max_tokens=12), paused=True), slow()))
    took = perf_counter() - begun
    assert waited >= 0.6
    assert finished.ttft_ms is not None
    assert finished.ttft_ms + finished.decode_ms <= (took - waited) * 1e3


# --- forced tokens ---------------------------------------------------------------------------------------------------


def test_forced_tokens_and_then_on_as_a_bare_loop_would(session: Session, story: list[int]) -> None:
    greedy = Tuning(temperature=0, max_tokens=24)
    free = tokens(records(session, request(story, greedy)))
    words = session.model.tokenize(" purple elephants danced", special=False)
    stream = steered(session, request(story, greedy), [Force(words), Resume()], {8: [Pause()]})
    told = tokens([e for e in stream if not isinstance(e, Paused)])
    path = [*story, *(t.id for t in free[:8]), *words]
    expected = bare_greedy(session, path, 24 - 8 - len(words))
    assert [t.id for t in told] == [*path[len(story) :], *expected]
    assert [t.step for t in told if t.forced] == list(range(8, 8 + len(words)))
    assert [stop.token.step for stop in paused(stream)] == [8, 8 + len(words)]
    for t in told:
        mine = next(c for c in t.candidates if c.id == t.id)
        assert (mine.logit, mine.logprob, mine.probability) == (t.logit, t.logprob, t.probability)
        if t.forced and t.rank > 0:  # the chain leaves one token when greedy
            assert t.probability == 0.0
            assert mine.removed_by is not None
    assert len(next(t for t in told if t.forced and t.rank >= 20).candidates) == 21


def test_a_forced_token_has_the_probability_that_the_chain_leaves_it(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    other = next(c for c in whole[5].candidates if c.id != whole[5].id and c.probability > 0)
    stream = steered(session, request(story, TUNING), [], {5: [Force([other.id])]})
    taken = tokens([e for e in stream if not isinstance(e, Paused)])[5]
    assert (taken.id, taken.forced, taken.probability, taken.logit) == (other.id, True, other.probability, other.logit)
    assert taken.rank == [c.id for c in whole[5].candidates].index(other.id)
    assert (taken.entropy, taken.stages) == (whole[5].entropy, whole[5].stages)
    assert numbers(stream)[:5] == numbers(whole)[:5]
    assert paused(stream) == []


def test_what_the_dice_would_have_taken_anyway_changes_nothing_but_the_mark(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    stream = steered(session, request(story, TUNING), [], {3: [Force([t.id for t in whole[3:40]])]})
    assert numbers(stream) == numbers(whole)
    assert [t.step for t in stream if isinstance(t, Token) and t.forced] == list(range(3, 40))


def test_a_forced_end_token_ends_the_reply_and_strange_ids_are_not_taken(session: Session, story: list[int]) -> None:
    strange = [-1, session.model.n_vocab, session.model.eos]
    stream = steered(session, request(story, TUNING), [], {4: [Force(strange)]})
    assert (end(stream).reason, end(stream).tokens) == ("end", 5)


# --- scripts ---------------------------------------------------------------------------------------------------------


def script_of(stream: list[Said], skip: int = 1) -> tuple[Scripted, ...]:
    """What was done to a reply, from its records."""
    script: list[Scripted] = []
    step = 0
    for event in stream:
        if isinstance(event, Settings):
            if event.number >= skip:
                script.append(
                    Scripted(step, None, event.samplers, event.conditions, event.origin, threads=event.threads)
                )
        elif isinstance(event, Token):
            if event.forced:
                script.append(Scripted(step, event.id))
            step = event.step + 1
    return tuple(script)


def test_a_script_replays_a_reply_in_which_much_was_done(session: Session, story: list[int]) -> None:
    hot = Tuning(max_tokens=60, temperature=1.4, top_p=1.0)
    strict = Tuning(max_tokens=60, temperature=0.7, repeat_penalty=1.5, repeat_last_n=20)
    words = session.model.tokenize(" in the snow", special=False)
    for seed in range(7, 14):  # until a reply is long enough
        stream = steered(
            session,
            request(story, TUNING, seed),
            [Adjust(strict.samplers(), strict.conditions(), {"temperature": "panel"}), Force(words[:1]), Resume()],
            {
                0: [Adjust(hot.samplers(), hot.conditions())],
                12: [Force(words), Adjust(TUNING.samplers(), hot.conditions())],
                30: [Pause()],
            },
        )
        if paused(stream):
            break
    script = script_of(stream)
    assert [entry.step for entry in script] == [0, 12, 12, 13, 14, 30, 30]
    again = records(session, request(story, TUNING, seed, script=script))
    assert numbers(again) == numbers(stream)
    assert [t.settings for t in tokens(again)] == [t.settings for t in stream if isinstance(t, Token)]
    assert [t.forced for t in tokens(again)] == [t.forced for t in stream if isinstance(t, Token)]
    changes = [[e for e in run if isinstance(e, Settings)] for run in (stream, again)]
    assert changes[0] == changes[1]
    # A fork of it, from the middle, with what of the script is still to come.
    path = [*story, *(t.id for t in tokens(again)[:12])]
    first = Scripted(12, samplers=hot.samplers(), conditions=hot.conditions())
    fork = records(session, request(path, TUNING, seed, done=12, script=(first, *script[1:])))
    assert numbers(fork) == numbers(stream)[12:]


KNOBS = st.builds(
    Tuning,
    temperature=st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.6]),
    top_k=st.sampled_from([5, 40, 200]),
    top_p=st.sampled_from([0.3, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.1, 1.5]),
    repeat_last_n=st.sampled_from([8, 64]),
)
FORCED = st.lists(st.integers(300, 40_000), min_size=1, max_size=3)
DEEDS = st.lists(
    st.tuples(st.integers(0, 200), st.one_of(KNOBS, FORCED, st.just("pause"))),
    max_size=8,
    unique_by=lambda deed: deed[0],
)


@settings(max_examples=3, deadline=None)
@given(knobs=KNOBS, deeds=DEEDS, seed=st.integers(0, 2**53 - 1), cut=st.integers(1, 200))
def test_whatever_is_done_to_a_long_reply_its_script_and_its_forks_are_exact(
    session: Session, knobs: Tuning, deeds: list[tuple[int, Tuning | list[int] | str]], seed: int, cut: int
) -> None:
    ids = session.model.tokenize("Once upon a time there was a long", special=False)
    length = Tuning(max_tokens=210).conditions()
    at: dict[int, list[Steer]] = {}
    for step, deed in deeds:
        if isinstance(deed, Tuning):
            at[step] = [Adjust(deed.samplers(), length)]
        else:
            at[step] = [Pause()] if isinstance(deed, str) else [Force(deed)]
    command = Generate(ids, knobs.samplers(), length, seed)
    stream = steered(session, command, repeat(Resume()), at)
    told = numbers(stream)
    script = script_of(stream)
    session.cache.rewind(0)
    assert numbers(records(session, msgspec.structs.replace(command, script=script))) == told

    cut = min(cut, len(told) - 1)
    past = [entry.samplers for entry in script if entry.step < cut and entry.samplers is not None]
    fork = Generate(
        [*ids, *(t.id for t in tokens([e for e in stream if not isinstance(e, Paused)])[:cut])],
        past[-1] if past else knobs.samplers(),
        length,
        seed,
        done=cut,
        script=tuple(entry for entry in script if entry.step >= cut),
    )
    forked = records(session, fork)
    assert numbers(forked) == told[cut:]
    prefill = next(record for record in forked if isinstance(record, Prefill))
    assert sum(prefill.shapes) == 1


def test_a_script_names_the_threads_and_they_are_given_back(session: Session, story: list[int]) -> None:
    command = request(story, Tuning(max_tokens=3), script=(Scripted(0, threads=2), Scripted(1, threads=1)))
    stream = records(session, command)
    start = stream[0]
    assert isinstance(start, Start)
    assert start.threads == 2
    changes = [(record.number, record.threads) for record in stream if isinstance(record, Settings)]
    assert changes == [(0, 2), (1, 1)]
    assert [t.settings for t in tokens(stream)] == [0, 1, 1]
    assert session.cache.threads == 1
    session.cache.rewind(0)
    rebuilt = records(session, command)
    session.cache.rewind(0)
    assert numbers(records(session, command)) == numbers(rebuilt)


def test_a_paused_script_takes_its_forced_tokens_first(session: Session, story: list[int], whole: list[Token]) -> None:
    script = tuple(Scripted(n, t.id) for n, t in enumerate(whole[:3]))
    stream = steered(session, request(story, TUNING, script=script, paused=True), [Resume()])
    assert [stop.token.step for stop in paused(stream)] == [3]
    assert numbers(stream) == numbers(whole)


def test_a_script_for_another_vocabulary_is_refused(session: Session, story: list[int]) -> None:
    with pytest.raises(EngineError, match="token 99999 is not in this model's vocabulary"):
        records(session, request(story, TUNING, script=(Scripted(1, 99999),)))


# --- conditions ------------------------------------------------------------------------------------------------------


def borders(whole: list[Token]) -> dict[str, float]:
    """A value for each measure that some steps, not the first ones, are beyond."""
    return {name: sorted(measure(t) for t in whole)[len(whole) // 2] for name, measure in MEASURES.items()}


@pytest.mark.parametrize("sign", [">", "<"])
@pytest.mark.parametrize("measure", list(MEASURES))
def test_it_waits_before_every_step_that_meets_a_threshold(
    session: Session, story: list[int], whole: list[Token], measure: str, sign: str
) -> None:
    value = borders(whole)[measure]  # type: ignore[index]
    read = MEASURES[measure]  # type: ignore[index]
    if (measure, sign) == ("rank", "<"):
        value = 1
    rule = f"{measure} {sign} {value!r}"
    meeting = [t.step for t in whole if (read(t) > value if sign == ">" else read(t) < value)]
    assert 0 < len(meeting) < len(whole)
    stream = steered(session, ask(story, TUNING, rule), [Resume()] * 48)
    assert [stop.token.step for stop in paused(stream)] == meeting
    assert {stop.why for stop in paused(stream)} == {describe(parse(rule))}
    assert numbers(stream) == numbers(whole)

    stopped = records(session, ask(story, TUNING, "stop " + rule))
    assert numbers(stopped) == numbers(whole)[: meeting[0]]
    last = end(stopped)  # type: ignore[arg-type]
    assert (last.reason, last.detail) == ("rule", describe(parse("stop " + rule)))


def test_it_waits_every_so_many_tokens_and_not_twice_before_one(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    stream = steered(session, ask(story, TUNING, "every 10"), [Step(), Resume(), Pause(), Resume(), Resume(), Resume()])
    assert [(stop.token.step, stop.why) for stop in paused(stream)] == [
        (10, "every 10"), (11, ""), (20, "every 10"), (20, "every 10"), (30, "every 10"), (40, "every 10"),
    ]  # fmt: skip
    assert numbers(stream) == numbers(whole)


def completing(whole: list[Token], pattern: str) -> list[int]:
    """Steps whose token completes the pattern."""
    said = ["".join(t.text for t in whole[:n]) for n in range(len(whole) + 1)]
    return [n for n in range(len(whole)) if said[n + 1].count(pattern) > said[n].count(pattern)]


def test_it_waits_after_a_text_across_token_borders(session: Session, story: list[int], whole: list[Token]) -> None:
    text = "".join(t.text for t in whole)
    border = len("".join(t.text for t in whole[:20]))
    pattern = text[border - 2 : border + 2]
    at = completing(whole, pattern)
    rule: Text = parse(f"/{pattern}/") if pattern.isalnum() else Text(pattern)  # type: ignore[assignment]
    command = Generate(story, TUNING.samplers(), (*TUNING.conditions(), rule), 7)
    stream = steered(session, command, [Resume()] * 48)
    assert [stop.token.step - 1 for stop in paused(stream)] == [n for n in at if n < 47]
    assert {stop.why for stop in paused(stream)} == {describe(rule)}
    assert numbers(stream) == numbers(whole)

    ending = Text(pattern, action="stop")
    command = Generate(story, TUNING.samplers(), (*TUNING.conditions(), ending), 7)
    stopped = tokens(records(session, command))
    assert numbers(stopped) == numbers(whole)[: at[0] + 1]


def test_a_text_that_was_there_before_the_condition_is_no_news(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    word = next(
        w
        for w in "".join(t.text for t in whole).split()
        if len(completing(whole, w)) > 0 and completing(whole, w)[0] < 20
    )
    later = [n for n in completing(whole, word) if 24 <= n < 47]
    rules = (*TUNING.conditions(), Text(word))
    stream = steered(session, request(story, TUNING), [Resume()] * 48, {24: [Adjust(TUNING.samplers(), rules)]})
    assert [stop.token.step - 1 for stop in paused(stream)] == later
    path = [*story, *(t.id for t in whole[:24])]
    on = steered(session, Generate(path, TUNING.samplers(), rules, 7, done=24), [Resume()] * 48)
    assert [stop.token.step - 1 for stop in paused(on)] == later
    assert numbers(on) == numbers(whole)[24:]


def test_a_condition_met_in_mid_step_ends_the_step(session: Session, story: list[int]) -> None:
    stream = steered(session, ask(story, TUNING, "every 4", paused=True), [Step("line"), Cancel()])
    assert [(stop.token.step, stop.why) for stop in paused(stream)] == [(0, ""), (4, "every 4")]


def test_rules_end_the_reply_whether_or_not_somebody_waits_there(session: Session, story: list[int]) -> None:
    stream = steered(session, ask(story, TUNING, "stop every 6"), [Resume()], {6: [Pause()]})
    assert paused(stream) == []
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("rule", "stop every 6", 6)


def test_text_held_for_a_stop_sequence_comes_out_with_a_rule(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    said = "".join(t.text for t in whole[:10])
    held = Tuning(max_tokens=48, temperature=1.0, repeat_penalty=1.1, stop=(said[-1] + "zzz",))
    stream = records(session, ask(story, held, "stop every 10"))
    last = end(stream)  # type: ignore[arg-type]
    assert (last.reason, last.held) == ("rule", said[-1])
    assert "".join(t.text for t in tokens(stream)) + last.held == said


@pytest.mark.parametrize(
    ("bad", "says"), [(Text("(", regex=True), "no regular expression"), (Text(""), "must hold some text")]
)
def test_a_condition_that_is_none_fails_plainly(session: Session, story: list[int], bad: Text, says: str) -> None:
    with pytest.raises(EngineError, match=says):
        records(session, Generate(story, TUNING.samplers(), (bad,), 7))


def test_an_expression_that_never_ends_is_given_up(session: Session) -> None:
    ids = session.model.tokenize("a a a a a a", special=False)
    spell = session.model.tokenize("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", special=False)
    with pytest.raises(EngineError, match="takes too long to match"):  # which would take years
        steered(session, ask(ids, TUNING, "/(a+)+$/"), [], {0: [Force(spell)]})


def test_what_is_kept_in_the_cache_is_reused_after_all_that(
    session: Session, story: list[int], whole: list[Token]
) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Step(), Step(), Cancel()])
    path = [*story, *(t.id for t in stream if isinstance(t, Token))]
    rest = records(session, request([*path], TUNING, done=2))
    prefill = next(record for record in rest if isinstance(record, Prefill))
    assert prefill.reused == len(path) - 1
    assert numbers(rest) == numbers(whole)[2:]
