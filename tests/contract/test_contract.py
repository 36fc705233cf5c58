"""The contract of `termchat.engine.port`, for each engine: the order of events, steering, questions, refusals, failures.

What is special about one engine (its numbers, its faults, hostile answers) is in the tests of that engine.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec
import pytest

from termchat.decoding.conditions import IgnoreEnd, Stop
from termchat.decoding.constraint import make_choice
from termchat.decoding.group import BeamSettings, Group
from termchat.decoding.records import Failed, Finished, Prefill, SettingsRecord, Start, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.abilities import Feature
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Adjust,
    BatchesMeasured,
    Cancel,
    Check,
    Checked,
    Command,
    Describe,
    DraftLoaded,
    Event,
    Explain,
    Explained,
    FirstToken,
    Force,
    Generate,
    Inspect,
    Inspected,
    Keep,
    Kept,
    Load,
    LoadDraft,
    Loaded,
    MeasureBatches,
    Message,
    Noted,
    Pause,
    Paused,
    Prefilling,
    Progress,
    Render,
    Rendered,
    Resume,
    Score,
    Scored,
    Scripted,
    Spell,
    Spelled,
    Step,
    Tokenize,
    Tokenized,
    WalksFinished,
)
from tests.contract.sides import (
    ABILITIES,
    EVERY,
    PROCESSES,
    Side,
    able,
    ask_reply,
    failed,
    finished,
    opened,
    shown,
    tokens_of,
)

GREEDY = SamplerSettings(temperature=0.0)


@pytest.fixture(scope="module")
def open_side(small_model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Side]]:
    """Returns the engine of a name with its model loaded, one for all tests."""
    with ExitStack() as stack:

        @cache
        def open_once(name: str) -> Side:
            return stack.enter_context(opened(name, small_model_path, tmp_path_factory.mktemp("side")))

        yield open_once


@pytest.fixture
def side(request: pytest.FixtureRequest, open_side: Callable[[str], Side]) -> Side:
    return open_side(request.param)


def of(names: tuple[str, ...] | list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("side", names, indirect=True)


def works(side: Side) -> bool:
    """Whether the engine answers the next request, and then is silent."""
    return finished(side.ask(ask_reply(side, 3))).reason == "length" and side.is_silent()


# --- a reply ---------------------------------------------------------------------------------------------------------


@of(EVERY)
def test_it_offers_what_its_model_can_do(side: Side) -> None:
    assert side.info.abilities.list_features() == ABILITIES[side.name].list_features() == side.engine.offers


@of(EVERY)
def test_the_events_of_a_reply_come_in_order_and_nothing_after_the_last(side: Side) -> None:
    events = side.ask(ask_reply(side, 6))
    kinds = [type(event) for event in events if not isinstance(event, Noted)]
    assert kinds[:2] == [Start, SettingsRecord]
    assert kinds[-1] is Finished
    assert kinds.count(Prefill) <= 1
    first = kinds.index(Token)
    assert {*kinds[2:first]} <= {Prefilling, Prefill, FirstToken}
    assert {*kinds[first:-1]} <= {Token, Prefill}
    if side.name != "fake":  # which has no clock
        assert kinds.count(FirstToken) == 1
        assert kinds.index(FirstToken) < first
    if Prefill in kinds and side.info.abilities.client_draw:
        assert kinds.index(Prefill) < first
    assert [token.step for token in tokens_of(events)] == [*range(6)]
    assert (finished(events).reason, finished(events).tokens) == ("length", 6 if side.info.abilities.ids else -1)
    assert side.is_silent()


@of(EVERY)
def test_a_descriptor_turns_readable_when_something_comes(side: Side) -> None:
    number = side.engine.send(ask_reply(side, 3))
    assert select.select([side.engine.fileno()], [], [], 60.0)[0]
    side.until(number)
    assert side.is_silent()
    assert not select.select([side.engine.fileno()], [], [], 0.0)[0]


@of(PROCESSES)
def test_requests_are_answered_in_turn(side: Side) -> None:
    numbers = [side.engine.send(ask_reply(side, 3)), side.engine.send(ask_reply(side, 2))]
    assert numbers[0] < numbers[1]
    assert [len(tokens_of(side.until(number))) for number in numbers] == [3, 2]


@of(able("seeds", among=PROCESSES))
def test_a_seed_gives_the_same_reply_bit_for_bit(side: Side) -> None:
    def ask(seed: int) -> list[tuple[object, ...]]:
        tokens = tokens_of(side.ask(ask_reply(side, 12, seed=seed, temperature=1.5)))
        return [(token.id, token.logit, token.probability, token.entropy, token.candidates) for token in tokens]

    first = ask(7)
    assert ask(8) != first
    assert ask(7) == first
    if side.info.abilities.exact:
        side.load()  # and so do other cells
        assert ask(7) == first


def test_a_reply_over_the_line_is_the_local_one_bit_for_bit(open_side: Callable[[str], Side]) -> None:
    replies = []
    for side in map(open_side, ("local", "ssh")):
        tokens = tokens_of(side.ask(ask_reply(side, 24, temperature=1.3)))
        replies.append([(t.id, t.bytes, t.logit, t.logprob, t.entropy, t.stages, t.candidates) for t in tokens])
    assert len(replies[0]) > 4
    assert replies[0] == replies[1]


@of(PROCESSES)
def test_a_stop_sequence_ends_it_and_is_not_shown(side: Side) -> None:
    text = "".join(token.text for token in tokens_of(side.ask(ask_reply(side, 12))))
    word = text[len(text) // 2 :][:4]
    events = side.ask(ask_reply(side, 12, Stop(word)))
    end = finished(events)
    assert (end.reason, end.detail) == ("stop", word)
    assert "".join(token.text for token in tokens_of(events)) == text[: text.index(word)]


@of(able("seeds", among=PROCESSES))
def test_a_full_context_ends_it(side: Side) -> None:
    ids = [504, 28] * (side.info.context // 2 - 2)
    end = finished(side.ask(ask_reply(side, 50, IgnoreEnd(), ids=ids)))
    assert (end.reason, end.tokens) == ("context", side.info.context - len(ids))


@of(able("continue"))
def test_a_token_of_the_script_is_taken_whatever_the_dice_say(side: Side) -> None:
    first, *others = tokens_of(side.ask(ask_reply(side, 4, script=(Scripted(0, 504),))))
    assert (first.id, first.forced) == (504, True)
    assert len(others) == 3
    assert not any(token.forced for token in others)


# --- steering --------------------------------------------------------------------------------------------------------


@of(EVERY)
@pytest.mark.parametrize("when", ["at once", "in mid-reply"])
def test_a_cancel_ends_it(side: Side, when: str) -> None:
    number = side.engine.send(ask_reply(side, 300))
    events: list[Event] = []
    while when == "in mid-reply" and len(tokens_of(events)) < 3:
        events += side.until(number, Token)
    side.engine.send(Cancel())
    if not events or not isinstance(events[-1], Finished):
        events += side.until(number)
    assert finished(events).reason == "user"
    assert len(tokens_of(events)) < 300
    assert works(side)


@of(able("seeds", among=PROCESSES))
def test_a_cancel_while_the_prompt_is_read_ends_it_without_a_token(side: Side) -> None:
    number = side.engine.send(ask_reply(side, 3, ids=[504, 28] * 480))
    side.until(number, Prefilling)
    side.engine.send(Cancel())
    end = finished(side.until(number))
    assert (end.reason, end.detail, end.tokens, end.ttft_ms) == ("user", "during prefill", 0, None)
    assert works(side)


@of(able("pause"))
def test_it_is_paused_stepped_and_resumed_and_stays_the_same_reply(side: Side) -> None:
    alone = side.ask(ask_reply(side, 12))
    number = side.engine.send(ask_reply(side, 12, paused=True))
    events = side.until(number, Paused)
    for steps in (1, 2, 3):
        side.engine.send(Step())
        events += side.until(number, Paused)
        assert isinstance(events[-1], Paused)
        assert (events[-1].token.step, events[-1].why) == (steps, "")
        assert len(tokens_of(events)) == steps
    assert side.is_silent()
    side.engine.send(Resume())
    events += side.until(number)
    assert shown(events) == shown(alone)
    assert finished(events).reason == "length"


@of(able("pause"))
def test_it_waits_where_it_is_told_to_in_mid_reply_and_can_be_cancelled_there(side: Side) -> None:
    number = side.engine.send(ask_reply(side, 300))
    side.until(number, Token)
    side.engine.send(Pause())
    paused = side.until(number, Paused)[-1]
    assert isinstance(paused, Paused)
    side.engine.send(Cancel())
    end = finished(side.until(number))
    assert (end.reason, end.tokens) == ("user", paused.token.step)
    assert works(side)


@of(able("force"))
def test_forced_tokens_are_taken_and_it_waits_again(side: Side) -> None:
    number = side.engine.send(ask_reply(side, 6, paused=True))
    side.until(number, Paused)
    side.engine.send(Force([504, 28]))
    events = side.until(number, Paused)
    assert [(token.step, token.id, token.forced) for token in tokens_of(events)] == [(0, 504, True), (1, 28, True)]
    side.engine.send(Resume())
    rest = tokens_of(side.until(number))
    assert [(token.step, token.forced) for token in rest] == [(step, False) for step in range(2, 6)]
    if side.name == "fake":  # what it says does not depend on what was said
        return
    again = ask_reply(side, 6, ids=[*side.prompt, 504, 28])
    again = msgspec.structs.replace(again, replies=[msgspec.structs.replace(again.replies[0], done=2)])
    assert [token.id for token in rest] == [token.id for token in tokens_of(side.ask(again))]


@of(able("adjust"))
def test_settings_act_from_the_next_token_on(side: Side) -> None:
    change = Adjust(
        SamplerSettings(temperature=0.0, top_k=7), ask_reply(side, 8).replies[0].conditions, {"top_k": "panel"}
    )
    number = side.engine.send(ask_reply(side, 8, paused=True))
    side.until(number, Paused)
    side.engine.send(Step())
    before = tokens_of(side.until(number, Paused))
    side.engine.send(change)
    settings, paused = side.until(number, Paused)
    assert isinstance(settings, SettingsRecord)
    assert isinstance(paused, Paused)
    assert (settings.samplers.top_k, settings.origin["top_k"]) == (7, "panel")
    assert before[0].settings < settings.number == paused.token.settings
    side.engine.send(Resume())
    after = tokens_of(side.until(number))
    assert len(after) == 7
    assert min(token.settings for token in after) == settings.number


@of(able("adjust"))
def test_settings_turned_while_it_runs_are_on_record_between_two_tokens(side: Side) -> None:
    request = ask_reply(side, 200)
    number = side.engine.send(request)
    events = side.until(number, Token)
    side.engine.send(Adjust(SamplerSettings(temperature=0.0, top_k=7), request.replies[0].conditions))
    while sum(isinstance(event, SettingsRecord) for event in events) < 2:
        events += side.until(number, SettingsRecord)
    events += side.until(number, Token)
    side.engine.send(Cancel())
    events += side.until(number)
    at = max(place for place, event in enumerate(events) if isinstance(event, SettingsRecord))
    assert {token.settings for token in tokens_of(events[:at])} == {0}
    assert {token.settings for token in tokens_of(events[at:])} == {1}


@of(EVERY)
def test_what_comes_too_late_for_a_reply_does_nothing_to_the_next(side: Side) -> None:
    first = side.ask(ask_reply(side, 6))
    for late in (Pause(), Force([504]), Step(), Adjust(SamplerSettings(temperature=1.5), ()), Cancel()):
        side.engine.send(late)
    second = side.ask(ask_reply(side, 6))
    assert shown(second) == shown(first)
    assert sum(isinstance(event, SettingsRecord) for event in second) == 1
    side.engine.send(Resume())
    if "pause" in side.engine.offers:  # nor does it wake one that waits
        number = side.engine.send(ask_reply(side, 6, paused=True))
        side.until(number, Paused)
        assert side.is_silent()
        side.engine.send(Cancel())
        side.until(number)
    assert side.is_silent()


# --- several replies -------------------------------------------------------------------------------------------------


def together(side: Side, tokens: int, *, paused: bool = False) -> Generate:
    """Three replies of so many tokens to one prompt."""
    return ask_reply(side, tokens, temperature=1.0, paused=paused, replies=3, group=Group(1, "walks", 3))


def of_reply(events: list[Event], reply: int) -> list[Event]:
    return [event for event in events if getattr(event, "walk", None) == reply]


@of(able("walks"))
def test_replies_of_a_group_are_steered_by_number_and_each_has_its_own_stream(side: Side) -> None:
    number = side.engine.send(together(side, 6, paused=True))
    events: list[Event] = []
    while sum(isinstance(event, Paused) for event in events) < 3:
        events += side.until(number, Paused)
    side.engine.send(Force([504], reply=1))
    events += side.until(number, Paused)
    side.engine.send(Cancel(reply=2))
    side.engine.send(Resume())
    events += side.until(number)
    assert isinstance(events[-1], WalksFinished)
    for reply, reason in enumerate(["length", "length", "user"]):
        mine = of_reply(events, reply)
        assert [type(event) for event in mine[:2]] == [Start, SettingsRecord]
        assert (finished(mine).reason, finished(mine).tokens) == (reason, len(tokens_of(mine)))
        assert [token.step for token in tokens_of(mine)] == [*range(0 if reply == 2 else 6)]
    assert [token.forced for token in tokens_of(of_reply(events, 1))] == [True, *[False] * 5]
    assert works(side)


@of(able("walks", "exact", among=PROCESSES))
def test_a_reply_of_a_group_can_be_kept_and_is_not_read_again(side: Side) -> None:
    events = side.ask(together(side, 6))
    assert isinstance(side.ask(Keep(1))[-1], Kept)
    path = [*side.prompt, *(token.id for token in tokens_of(of_reply(events, 1)))]
    (prefill,) = (event for event in side.ask(ask_reply(side, 2, ids=path)) if isinstance(event, Prefill))
    assert prefill.reused == len(path) - 1
    assert failed(side.ask(Keep(0))).kind == "walks"


@of(able("walks"))
def test_a_cancel_without_a_number_ends_a_whole_group(side: Side) -> None:
    number = side.engine.send(together(side, 300))
    events = side.until(number, Token)
    side.engine.send(Cancel())
    events += side.until(number)
    assert [finished(of_reply(events, reply)).reason for reply in range(3)] == ["user"] * 3
    assert works(side)


# --- questions -------------------------------------------------------------------------------------------------------

Asked = dict[Feature, list[tuple[Command, type]]]


def questions(ids: list[int], done: int) -> Asked:
    """What can be asked of `ids`, of which the last `done` are a reply, by the feature that the answer needs."""
    before = ids[: len(ids) - 1]
    return {
        "render": [(Render([Message("user", "hi")]), Rendered)],
        "tokenize": [(Tokenize("two words"), Tokenized), (Describe([504, 28]), Tokenized), (Spell("river"), Spelled)],
        "constrain": [(Check(make_choice(["a", "b"])), Checked)],
        "inspect": [(Inspect(before, GREEDY, 7, max(done - 1, 0)), Inspected)],
        "explain": [(Explain(before, 504, GREEDY, 7, max(done - 1, 0), drawn=28), Explained)],
        "score": [(Score(ids, max(done, 1), SamplerSettings(temperature=0.3), 7), Scored)],
    }


def groups(side: Side) -> Asked:
    """What is asked for besides one reply and questions."""
    beams = Group(1, "beams", 1, beams=BeamSettings(2, 1.0, 1))
    return {
        "walks": [(ask_reply(side, 3, replies=2, group=Group(1, "walks", 2)), WalksFinished)],
        "beams": [(ask_reply(side, 3, group=beams), WalksFinished)],
        "drafts": [(LoadDraft(side.spec), DraftLoaded), (LoadDraft(None), DraftLoaded)],
    }


@of(EVERY)
def test_it_answers_what_it_offers_and_refuses_the_rest_with_a_hint(side: Side) -> None:
    ids = [*side.prompt, *(token.id for token in tokens_of(side.ask(ask_reply(side, 4))))]
    asked = questions(ids, 4) | groups(side)
    for feature, commands in asked.items():
        for command, answer in commands:
            events = side.ask(command)
            if feature in side.engine.offers or isinstance(command, Render):
                assert isinstance(events[-1], answer), (command, events[-1])
            else:
                failure = failed(events)
                assert (failure.kind, bool(failure.hint)) == ("capability", True), (command, failure)
    if side.name != "fake":
        measured = side.ask(MeasureBatches(0.01, needed=True))[-1]
        assert isinstance(measured, BatchesMeasured if "drafts" in side.engine.offers else Failed)
    assert works(side)


@of(able("pause"))
def test_questions_are_answered_while_it_waits_and_change_nothing_of_it(side: Side) -> None:
    alone = side.ask(ask_reply(side, 10))
    number = side.engine.send(ask_reply(side, 10, paused=True))
    events = side.until(number, Paused)
    for _ in range(4):
        side.engine.send(Step())
        events += side.until(number, Paused)
    waiting = events[-1]
    ids = [*side.prompt, *(token.id for token in tokens_of(events))]
    for feature, commands in questions(ids, 4).items():
        for command, answer in commands if feature in side.engine.offers else ():
            last = side.ask(command)[-1]
            if isinstance(last, Failed) and not side.info.abilities.client_draw:
                assert "busy with the reply" in last.message
            else:
                assert isinstance(last, answer), (command, last)
    if side.name in ("local", "ssh"):
        pending = side.ask(Inspect(ids, GREEDY, 7, 4))[-1]
        assert isinstance(pending, Inspected)
        assert isinstance(waiting, Paused)
        assert not pending.recomputed
        assert pending.token.candidates == waiting.token.candidates
    side.engine.send(Resume())
    events += side.until(number)
    assert shown(events) == shown(alone)


@of(able("tokenize", among=PROCESSES))
def test_questions_are_answered_between_two_tokens_and_change_nothing_of_the_reply(side: Side) -> None:
    alone = side.ask(ask_reply(side, 40))
    asked = [*questions([*side.prompt, 504, 28], 2)["tokenize"]]
    if "score" in side.engine.offers:
        asked += questions([*side.prompt, 504, 28], 2)["score"]
    number = side.engine.send(ask_reply(side, 40))
    for question, answer in [(side.engine.send(command), answer) for command, answer in asked]:
        assert isinstance(side.until(question)[-1], answer)
    assert not any(isinstance(event, Finished) for _, event in side.waiting)
    assert shown(side.until(number)) == shown(alone)


# --- failures, models, processes -------------------------------------------------------------------------------------


@of(PROCESSES)
def test_a_request_that_fails_fails_once_and_the_next_one_works(side: Side) -> None:
    bad = ask_reply(side, 3, ids=[504] * (side.info.context + 8)) if side.prompt else ask_reply(side, 3, messages=())
    for _ in range(2):
        failure = failed(side.ask(bad))
        assert failure.kind in ("context", "prompt")
        assert failure.hint
    assert works(side)


@of(PROCESSES)
def test_a_model_that_is_not_there_is_told_and_another_one_can_be_loaded(side: Side) -> None:
    events = side.ask(Load(side.gone))
    assert isinstance(events[-1], Failed)
    assert events[-1].hint
    assert side.gone.engine.name in events[-1].message
    assert all(isinstance(event, Progress) for event in events[:-1])
    assert failed(side.ask(ask_reply(side))).kind == "model"
    side.load()
    assert works(side)


@of(PROCESSES)
def test_an_engine_that_was_closed_answers_nothing_until_a_model_is_loaded_again(side: Side) -> None:
    before = side.ask(ask_reply(side, 5))
    side.engine.close()
    for command in (ask_reply(side), Tokenize("a"), Render([Message("user", "hi")])):
        failure = failed(side.ask(command))
        assert (failure.kind, failure.message) == ("model", "no model is loaded")
    events = side.ask(Load(side.spec))
    assert isinstance(events[-1], Loaded)
    fractions = [event.fraction for event in events if isinstance(event, Progress)]
    assert fractions == sorted(fractions)
    assert len(fractions) == len(events) - 1
    assert shown(side.ask(ask_reply(side, 5))) == shown(before)


@of(PROCESSES)
@pytest.mark.parametrize("when", ["in mid-reply", "while it waits"])
def test_the_death_of_its_process_is_told_to_the_reply_and_it_can_start_again(side: Side, when: str) -> None:
    paused = when == "while it waits" and "pause" in side.engine.offers
    number = side.engine.send(ask_reply(side, 300, paused=paused))
    side.until(number, Paused if paused else Token)
    assert isinstance(side.engine, LocalEngine)
    assert side.engine.pid is not None
    os.kill(side.engine.pid, signal.SIGTERM if side.name == "ssh" else signal.SIGKILL)  # of ssh it is the line
    failure = side.until(number)[-1]
    assert isinstance(failure, Failed)
    assert failure.kind == "engine"
    assert (side.engine.alive, side.engine.fileno(), side.engine.receive(0.0)) == (False, -1, [])
    if paused:
        side.engine.send(Resume())  # to nobody: starts a process, which drops it
    side.load()
    assert works(side)


@of(EVERY)
def test_closed_it_is_gone_and_says_nothing_more(side: Side) -> None:
    side.engine.send(ask_reply(side, 300))
    side.engine.close()
    assert (side.engine.alive, side.engine.fileno()) == (False, -1)
    assert side.engine.receive(0.0) == []
    side.engine.close()
    side.load()
    assert works(side)
