"""Rules that end or pause a reply, in the loop: on a fake cache, and on the real model where it is the model that matters."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest

from termchat.decoding.conditions import IgnoreEnd
from termchat.decoding.loops import LoopFinder
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import Tuning
from termchat.decoding.units import UnitCounter
from termchat.engine.llama import reply
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, Force, Generate, Resume, Scripted
from tests.asking import change, only
from tests.engine.conftest import prompt, records, tokens
from tests.engine.fake_cache import FakeSession
from tests.engine.steered import ask, end, numbers, paused, steered

LONG = Tuning(max_tokens=120)


@pytest.fixture(scope="module")
def fake() -> FakeSession:
    return FakeSession()


@pytest.fixture(scope="module")
def story(fake: FakeSession) -> list[int]:
    return prompt(fake, "Tell me a story.")  # type: ignore[arg-type]


def stream_of(session: object, command: Generate) -> list[object]:
    return steered(session, command, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["sentences", "lines"])
def test_a_reply_ends_behind_so_many_units_and_names_the_rule(fake: FakeSession, story: list[int], unit: str) -> None:
    """Where a count over the free reply, token by token, has so many."""
    free = tokens(records(fake, ask(story, LONG)))  # type: ignore[arg-type]
    counter = UnitCounter(unit)  # type: ignore[arg-type]
    borders: list[int] = []
    for token in free:
        borders += [token.step] * (counter.count_ended(token.text) - len(borders))
        counter.push_text(token.text)
    amount = min(3, len(borders))
    assert amount
    rule = f"stop after {amount} {unit if amount > 1 else unit[:-1]}"
    stream = records(fake, ask(story, LONG, rule))  # type: ignore[arg-type]
    assert numbers(stream) == numbers(free)[: borders[amount - 1]]
    assert (end(stream).reason, end(stream).detail) == ("rule", rule)  # type: ignore[arg-type]


def test_a_reply_that_goes_on_behind_its_sentences_is_not_held_by_them_again(
    fake: FakeSession, story: list[int]
) -> None:
    rule = "stop after 2 sentences"
    free = tokens(records(fake, ask(story, LONG)))  # type: ignore[arg-type]
    first = tokens(records(fake, ask(story, LONG, rule)))  # type: ignore[arg-type]
    ids = [token.id for token in first]
    rest = records(fake, ask([*story, *ids], LONG, rule, done=len(ids)))  # type: ignore[arg-type]
    assert [token.id for token in tokens(rest)] == [token.id for token in free[len(ids) :]]
    fork = records(fake, ask([*story, *ids[:-4]], LONG, rule, done=len(ids) - 4))  # type: ignore[arg-type]
    assert [token.id for token in tokens(fork)] == ids[-4:]
    assert end(fork).detail == rule  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a tenth of a second later."""
    ticks = count()
    monkeypatch.setattr(reply, "perf_counter", lambda: next(ticks) / 10)


@pytest.mark.usefixtures("clock")
def test_a_time_ends_a_reply_and_pauses_another(fake: FakeSession, story: list[int]) -> None:
    free = numbers(records(fake, ask(story, LONG)))  # type: ignore[arg-type]
    stream = records(fake, ask(story, LONG, "stop after 10 s"))  # type: ignore[arg-type]
    finished = end(stream)  # type: ignore[arg-type]
    assert (finished.reason, finished.detail) == ("rule", "stop after 10 s")
    assert 0 < finished.tokens < 100
    assert finished.decode_ms <= 10_100
    assert numbers(stream) == free[: finished.tokens]
    waits = steered(fake, ask(story, LONG, "after 5 s"), [Resume()])
    assert [stop.why for stop in paused(waits)] == ["after 5 s"]
    assert numbers(waits) == free


def test_of_several_rules_the_first_to_be_met_is_named(fake: FakeSession, story: list[int]) -> None:
    free = tokens(records(fake, ask(story, LONG)))  # type: ignore[arg-type]
    rules = (
        "stop after 1 paragraph",
        f"stop rank > {max(t.rank for t in free)}",
        "stop every 7",
        "stop after 100 lines",
    )
    finished = end(records(fake, ask(story, LONG, *rules)))  # type: ignore[arg-type]
    assert (finished.detail, finished.tokens) == ("stop every 7", 7)


def test_a_loop_is_told_with_its_text_and_how_often(fake: FakeSession, story: list[int]) -> None:
    """Forced tokens that repeat, then the model's own, which does not."""
    said = [*b"Ja! "] * 9
    tuning = msgspec.structs.replace(
        LONG, order=tuple(name for name in LONG.order if name != "dry")
    )  # needs a vocabulary
    command = ask(story, tuning, "loop")
    script = tuple(Scripted(step, id) for step, id in enumerate(said))
    waits = steered(fake, change(command, script=script), [Resume()])
    (stop,) = paused(waits)
    assert stop.token.step == len(said)
    assert stop.why.startswith('loop: "Ja! " 9 times; repeat_penalty 1.1 draws ')
    told = end(records(fake, change(ask(story, tuning, "stop loop"), script=script)))  # type: ignore[arg-type]
    assert (told.reason, told.detail, told.tokens) == ("rule", f"stop {stop.why}", len(said))


def test_an_end_token_that_is_ignored_is_on_record_and_the_reply_goes_on(fake: FakeSession, story: list[int]) -> None:
    eos = Scripted(5, fake.model.eos)
    ends = records(fake, change(ask(story, LONG), script=(eos,)))  # type: ignore[arg-type]
    assert (end(ends).reason, end(ends).tokens) == ("end", 6)  # type: ignore[arg-type]
    on = records(fake, change(ask(story, LONG, "ignore end"), script=(eos,)))  # type: ignore[arg-type]
    assert numbers(on)[:6] == numbers(ends)
    assert [token.step for token in tokens(on) if token.end] == [5]
    assert tokens(on)[5].text == ""
    assert (end(on).reason, end(on).tokens) == ("length", 120)  # type: ignore[arg-type]
    assert IgnoreEnd() in next(record for record in on if isinstance(record, SettingsRecord)).conditions


def test_rules_set_on_the_way_are_replayed_from_the_records(fake: FakeSession, story: list[int]) -> None:
    """A quantity counts from the reply's first token, whenever the rule came."""
    free = tokens(records(fake, ask(story, LONG)))  # type: ignore[arg-type]
    both = ask(story, LONG, "stop after 3 sentences")
    whole = records(fake, both)  # type: ignore[arg-type]
    late = steered(fake, ask(story, LONG), [], {4: [Adjust(only(both).samplers, only(both).conditions)]})
    assert numbers(late) == numbers(whole)
    assert end(late).detail == "stop after 3 sentences"
    entry = Scripted(4, None, only(both).samplers, only(both).conditions)
    again = records(fake, change(ask(story, LONG), script=(entry,)))  # type: ignore[arg-type]
    assert numbers(again) == numbers(whole)
    assert len(tokens(whole)) < len(free)


def test_forced_tokens_are_not_looked_at_but_counted(fake: FakeSession, story: list[int]) -> None:
    said = [*b"One. Two. Three. Four."]
    stream = steered(fake, ask(story, LONG, "after 2 sentences"), [Resume()], {3: [Force(said)]})
    (stop,) = paused(stream)
    assert stop.token.step == 3 + len(said)


# --- the real model --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def looping(session: ModelSession) -> list[int]:
    """A prompt whose greedy reply repeats itself."""
    text = "Once upon a time there was a boy who loved to play."
    return session.model.tokenize(text, special=False)


GREEDY = Tuning(max_tokens=260, temperature=0.0)


def test_a_greedy_loop_is_found_and_what_a_penalty_would_do_is_true(session: ModelSession, looping: list[int]) -> None:
    stream = records(session, ask(looping, GREEDY, "stop loop"))
    finished = end(stream)  # type: ignore[arg-type]
    assert finished.reason == "rule"
    reply = tokens(stream)
    finder = LoopFinder()
    finder.extend_ids(token.id for token in reply)
    assert finder.current is not None
    period = "".join(token.text for token in reply[finder.current.begin :][: finder.current.period])
    assert finished.detail.startswith(f'stop loop: "{period}" {finder.current.times} times')
    for knob, value in (("dry_multiplier", 0.8), ("repeat_penalty", 1.1)):
        turned = msgspec.structs.replace(GREEDY, **{knob: value, "max_tokens": len(reply) + 1})  # type: ignore[arg-type]
        ids = [*looping, *(token.id for token in reply)]
        (instead,) = tokens(records(session, ask(ids, turned, done=len(reply))))
        same = instead.id == tokens(records(session, ask(ids, GREEDY, done=len(reply))))[0].id
        assert f"{knob} {value} draws " + ("the same" if same else f'"{instead.text}"') in finished.detail


def test_behind_an_end_token_the_model_goes_on_and_p_end_is_its_own(session: ModelSession) -> None:
    ids = prompt(session, "Say hi.")
    plain = records(session, ask(ids, GREEDY))
    assert end(plain).reason == "end"  # type: ignore[arg-type]
    count_ = len(tokens(plain))
    more = records(session, ask(ids, Tuning(max_tokens=count_ + 8, temperature=0.0), "ignore end"))
    assert numbers(more)[:count_] == numbers(plain)
    assert (end(more).reason, len(tokens(more))) == ("length", count_ + 8)  # type: ignore[arg-type]
    last = tokens(more)[count_ - 1]
    assert (last.end, last.text) == (True, "")
    assert last.p_end > 0.5
    assert not any(token.end for token in tokens(more)[: count_ - 1])
