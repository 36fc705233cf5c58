"""A reply that is paused, stepped, forced and scripted is the reply that it would have been.

On a fake cache: no model is loaded. `test_steering_exact` has what only a real one can show.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termchat.decoding.conditions import Text, format_condition, parse
from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.rules import MEASURES
from termchat.decoding.samplers import Tuning
from termchat.decoding.units import ends_sentence
from termchat.engine.port import (
    Adjust,
    Cancel,
    EngineError,
    Force,
    Noted,
    Pause,
    Paused,
    Resume,
    Scripted,
    Steer,
    Step,
    Unit,
)
from tests.asking import ask_for
from tests.engine.conftest import prompt, records, request, tokens
from tests.engine.fake_cache import FakeModel, FakeSession
from tests.engine.steered import (
    KNOBS,
    SEEDS,
    TUNING,
    Deed,
    ask,
    check_script_and_fork,
    deeds_of,
    end,
    numbers,
    paused,
    script_of,
    steered,
)


@pytest.fixture(scope="module")
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture(scope="module")
def story(session: FakeSession) -> list[int]:
    return prompt(session, "Tell me a story.")


@pytest.fixture(scope="module")
def whole(session: FakeSession, story: list[int]) -> list[Token]:
    """The reply that nobody stops."""
    return tokens(records(session, request(story, TUNING)))


def test_paused_stepped_and_resumed_it_is_the_same_reply(
    session: FakeSession, story: list[int], whole: list[Token]
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


def begins(reply: list[Token], unit: str) -> list[int]:
    """The steps at which its lines or sentences begin."""
    found = [0]
    for n in range(1, len(reply)):
        said = b"".join(t.bytes for t in reply[found[-1] : n])
        following = reply[n].bytes.decode(errors="replace")
        if b"\n" in said if unit == "line" else ends_sentence(said.decode(errors="replace"), following):
            found.append(n)
    return found


@pytest.mark.parametrize("unit", ["line", "sentence"])
def test_a_step_goes_to_the_end_of_its_unit(session: FakeSession, story: list[int], unit: Unit) -> None:
    tuning = Tuning(max_tokens=72)
    free = tokens(records(session, request(story, tuning)))
    stream = steered(session, request(story, tuning, paused=True), [Step(unit)] * 72)
    assert numbers(stream) == numbers(free)
    assert [stop.token.step for stop in paused(stream)] == begins(free, unit)
    assert len(begins(free, unit)) > 2


def test_steps_asked_for_while_one_is_under_way_follow_it(session: FakeSession, story: list[int]) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Step(), Cancel()], {1: [Step(), Step()]})
    assert [stop.token.step for stop in paused(stream)] == [0, 3]
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("user", "", 3)


def test_cancelled_before_the_first_token_it_has_none(session: FakeSession, story: list[int]) -> None:
    stream = steered(session, request(story, TUNING, paused=True), [Cancel()])
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("user", "", 0)
    assert end(stream).ttft_ms is None


def test_the_clock_stands_still_while_it_waits(session: FakeSession, story: list[int]) -> None:
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


def test_a_forced_token_has_the_probability_that_the_chain_leaves_it(
    session: FakeSession, story: list[int], whole: list[Token]
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
    session: FakeSession, story: list[int], whole: list[Token]
) -> None:
    stream = steered(session, request(story, TUNING), [], {3: [Force([t.id for t in whole[3:40]])]})
    assert numbers(stream) == numbers(whole)
    assert [t.step for t in stream if isinstance(t, Token) and t.forced] == list(range(3, 40))


def test_a_forced_end_token_ends_the_reply_and_strange_ids_are_not_taken(
    session: FakeSession, story: list[int]
) -> None:
    strange = [-1, session.model.n_vocab, session.model.eos]
    stream = steered(session, request(story, TUNING), [], {4: [Force(strange)]})
    assert (end(stream).reason, end(stream).tokens) == ("end", 5)


def test_a_script_replays_a_reply_in_which_much_was_done(session: FakeSession, story: list[int]) -> None:
    hot = Tuning(max_tokens=60, temperature=1.4, top_p=1.0)
    strict = Tuning(max_tokens=60, temperature=0.7, repeat_penalty=1.5, repeat_last_n=20)
    words = [1001, 1002, 1003]
    stream = steered(
        session,
        request(story, TUNING),
        [Adjust(strict.samplers(), strict.conditions(), {"temperature": "panel"}), Force(words[:1]), Resume()],
        {
            0: [Adjust(hot.samplers(), hot.conditions())],
            12: [Force(words), Adjust(TUNING.samplers(), hot.conditions())],
            30: [Pause()],
        },
    )
    script = script_of(stream)
    assert [entry.step for entry in script] == [0, 12, 12, 13, 14, 30, 30]
    again = records(session, request(story, TUNING, script=script))
    assert numbers(again) == numbers(stream)
    assert [t.settings for t in tokens(again)] == [t.settings for t in stream if isinstance(t, Token)]
    assert [t.forced for t in tokens(again)] == [t.forced for t in stream if isinstance(t, Token)]
    changes = [[e for e in run if isinstance(e, SettingsRecord)] for run in (stream, again)]
    assert changes[0] == changes[1]
    # A fork of it, from the middle, with what of the script is still to come.
    path = [*story, *(t.id for t in tokens(again)[:12])]
    first = Scripted(12, samplers=hot.samplers(), conditions=hot.conditions())
    fork = records(session, request(path, TUNING, done=12, script=(first, *script[1:])))
    assert numbers(fork) == numbers(stream)[12:]


@settings(max_examples=8, deadline=None)
@given(knobs=KNOBS, deeds=deeds_of(128, FakeModel.n_vocab - 1), seed=SEEDS, cut=st.integers(1, 200))
def test_whatever_is_done_to_a_reply_its_script_and_its_forks_are_the_same(
    session: FakeSession, story: list[int], knobs: Tuning, deeds: list[Deed], seed: int, cut: int
) -> None:
    check_script_and_fork(session, story, knobs, deeds, seed, cut)


def test_a_paused_script_takes_its_forced_tokens_first(
    session: FakeSession, story: list[int], whole: list[Token]
) -> None:
    script = tuple(Scripted(n, t.id) for n, t in enumerate(whole[:3]))
    stream = steered(session, request(story, TUNING, script=script, paused=True), [Resume()])
    assert [stop.token.step for stop in paused(stream)] == [3]
    assert numbers(stream) == numbers(whole)


def test_a_script_for_another_vocabulary_is_refused(session: FakeSession, story: list[int]) -> None:
    with pytest.raises(EngineError, match="token 99999 is not in this model's vocabulary"):
        records(session, request(story, TUNING, script=(Scripted(1, 99999),)))


def borders(whole: list[Token]) -> dict[str, float]:
    """A value for each measure that some steps, not the first ones, are beyond."""
    return {name: sorted(measure(t) for t in whole)[len(whole) // 2] for name, measure in MEASURES.items()}


@pytest.mark.parametrize("sign", [">", "<"])
@pytest.mark.parametrize("measure", list(MEASURES))
def test_it_waits_before_every_step_that_meets_a_threshold(
    session: FakeSession, story: list[int], whole: list[Token], measure: str, sign: str
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
    assert {stop.why for stop in paused(stream)} == {format_condition(parse(rule))}
    assert numbers(stream) == numbers(whole)

    stopped = records(session, ask(story, TUNING, "stop " + rule))
    assert numbers(stopped) == numbers(whole)[: meeting[0]]
    last = end(stopped)  # type: ignore[arg-type]
    assert (last.reason, last.detail) == ("rule", format_condition(parse("stop " + rule)))


def test_it_waits_every_so_many_tokens_and_not_twice_before_one(
    session: FakeSession, story: list[int], whole: list[Token]
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


def test_it_waits_after_a_text_across_token_borders(session: FakeSession, story: list[int], whole: list[Token]) -> None:
    text = "".join(t.text for t in whole)
    border = len("".join(t.text for t in whole[:20]))
    pattern = text[border - 2 : border + 2]
    at = completing(whole, pattern)
    rule: Text = parse(f"/{pattern}/") if pattern.isalnum() else Text(pattern)  # type: ignore[assignment]
    command = ask_for(story, TUNING.samplers(), (*TUNING.conditions(), rule), 7)
    stream = steered(session, command, [Resume()] * 48)
    assert [stop.token.step - 1 for stop in paused(stream)] == [n for n in at if n < 47]
    assert {stop.why for stop in paused(stream)} == {format_condition(rule)}
    assert numbers(stream) == numbers(whole)

    ending = Text(pattern, action="stop")
    command = ask_for(story, TUNING.samplers(), (*TUNING.conditions(), ending), 7)
    stopped = tokens(records(session, command))
    assert numbers(stopped) == numbers(whole)[: at[0] + 1]


def test_a_text_that_was_there_before_the_condition_is_no_news(
    session: FakeSession, story: list[int], whole: list[Token]
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
    on = steered(session, ask_for(path, TUNING.samplers(), rules, 7, done=24), [Resume()] * 48)
    assert [stop.token.step - 1 for stop in paused(on)] == later
    assert numbers(on) == numbers(whole)[24:]


def test_a_condition_met_in_mid_step_ends_the_step(session: FakeSession, story: list[int]) -> None:
    stream = steered(session, ask(story, TUNING, "every 4", paused=True), [Step("line"), Cancel()])
    assert [(stop.token.step, stop.why) for stop in paused(stream)] == [(0, ""), (4, "every 4")]


def test_rules_end_the_reply_whether_or_not_somebody_waits_there(session: FakeSession, story: list[int]) -> None:
    stream = steered(session, ask(story, TUNING, "stop every 6"), [Resume()], {6: [Pause()]})
    assert paused(stream) == []
    assert (end(stream).reason, end(stream).detail, end(stream).tokens) == ("rule", "stop every 6", 6)


def test_text_held_for_a_stop_sequence_comes_out_with_a_rule(
    session: FakeSession, story: list[int], whole: list[Token]
) -> None:
    said = "".join(t.text for t in whole[:10])
    held = Tuning(max_tokens=48, temperature=1.0, repeat_penalty=1.1, stop=(said[-1] + "zzz",))
    stream = records(session, ask(story, held, "stop every 10"))
    last = end(stream)  # type: ignore[arg-type]
    assert (last.reason, last.held) == ("rule", said[-1])
    assert "".join(t.text for t in tokens(stream)) + last.held == said


@pytest.mark.parametrize(
    ("bad", "says"), [(Text("(", regex=True), "not a valid regular expression"), (Text(""), "the text is empty")]
)
def test_a_condition_that_is_none_fails_plainly(session: FakeSession, story: list[int], bad: Text, says: str) -> None:
    with pytest.raises(EngineError, match=says):
        records(session, ask_for(story, TUNING.samplers(), (bad,), 7))


@pytest.mark.parametrize("bad", [Text("(", regex=True), Text("")])
def test_a_condition_that_is_none_changes_nothing_in_mid_reply(
    session: FakeSession, story: list[int], bad: Text
) -> None:
    hot = Tuning(temperature=5.0, max_tokens=48)
    refused = Adjust(hot.samplers(), (*TUNING.conditions(), bad))
    stream = steered(session, request(story, TUNING), [], {12: [refused]})
    (noted,) = (event for event in stream if isinstance(event, Noted))
    assert noted.remark.message.startswith("the reply keeps its settings: ")
    assert [event for event in stream if isinstance(event, SettingsRecord)] == [stream[1]]
    assert numbers(stream) == numbers(records(session, request(story, TUNING)))


def test_an_expression_that_never_ends_is_given_up(session: FakeSession) -> None:
    ids = session.model.tokenize("a a a a a a", special=False)
    spell = session.model.tokenize("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", special=False)
    with pytest.raises(EngineError, match="takes too long to match"):  # which would take years
        steered(session, ask(ids, TUNING, "/(a+)+$/"), [], {0: [Force(spell)]})
