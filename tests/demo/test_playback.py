"""A recorded reply is paused, stepped and steered like one that is made now, as far as it can be."""

from __future__ import annotations

import msgspec
import pytest

from termchat.decoding.group import Group
from termchat.decoding.records import Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Command,
    Event,
    Force,
    Generate,
    Pause,
    Paused,
    ReplyRequest,
    Resume,
    Step,
    Unit,
    WalksFinished,
)
from termchat.tui.demo.engine import Playback
from termchat.tui.demo.tape import Recorded, Steered, identify
from tests.tui.transcripts import token

NAMES = {Paused: "paused", Finished: "end"}


class Played:
    """A recording of these words, a token a second; "*two" was forced, and "!" is a recorded pause."""

    def __init__(self, text: str, *, paused: bool = False) -> None:
        self.now = 0.0
        tuning = Tuning()
        request = ReplyRequest([1], tuning.samplers(), tuning.conditions(), 1, paused=paused)
        self.playback = Playback(7, Generate([request]), recorded(text), lambda: self.now)

    def after(self, seconds: float, *commands: Command) -> str:
        """What has come so many seconds after this was done."""
        self.steered = [self.playback.steer(command) for command in commands]
        self.now += seconds
        return " ".join(_named(event) for _, event in self.playback.take_due(held=True))


def recorded(text: str) -> Recorded:
    events: Recorded = []
    step = 0
    for at, word in enumerate(text.split(), 1):
        if word == "!":
            events.append((at, Paused(token(step, "nothing"))))
            continue
        forced = word.startswith("*")
        if forced:
            events.append((at, Steered(identify(Force([step])))))
        events.append((at, token(step, word.strip("*"), forced=forced)))
        step += 1
    events.append((len(events) + 1, Finished("length", "", "", step, 1.0, 1.0, 1.0, 1.0)))
    return events


def _named(event: Event) -> str:
    return event.text if isinstance(event, Token) else NAMES[type(event)]


def test_it_is_paused_before_any_token_and_goes_on() -> None:
    played = Played("one two three")
    assert played.after(1.5) == "one"
    assert played.after(1, Pause()) == "paused"
    assert played.steered == [True]
    assert played.playback.take_due(held=True) == []
    assert played.after(9) == ""
    assert played.after(0, Resume()) == "two"
    assert played.after(1) == "three"
    assert played.after(9) == "end"
    assert played.playback.over


def test_what_would_be_drawn_is_what_comes_next() -> None:
    played = Played("one two", paused=True)
    played.now = 1.0
    [(number, paused)] = played.playback.take_due(held=True)
    assert number == 7
    assert isinstance(paused, Paused)
    assert paused.token.text == "one"


@pytest.mark.parametrize(
    ("unit", "come"), [("token", "one paused"), ("line", "one two.\n paused"), ("sentence", "one two.\n paused")]
)
def test_a_paused_one_goes_on_by_steps(unit: Unit, come: str) -> None:
    played = Played("one TWO three", paused=True)
    played.playback._events[1] = (2.0, token(1, "two.\n"))
    assert played.after(9) == "paused"
    assert f"{played.after(0, Step(unit))} {played.after(9)}" == come


def test_it_waits_until_it_is_steered_as_it_was() -> None:
    played = Played("one ! *two three")
    assert played.after(9) == "one paused"
    assert played.after(9, Force([5])) == ""
    assert played.steered == [False]
    assert played.after(0, Force([1])) == "two"
    assert played.after(0, Resume()) + played.after(9) == "three end"


@pytest.mark.parametrize("command", [Resume(), Step("token"), Step("sentence")])
def test_one_that_waits_to_be_steered_pauses_again(command: Command) -> None:
    played = Played("one ! *two three")
    assert played.after(9) == "one paused"
    assert played.after(0, command) == "paused"
    assert played.steered == [False]
    assert played.after(0, Pause()) == "paused"
    assert played.after(0, Force([1])) == "two"


def test_steering_early_is_answered_at_once() -> None:
    played = Played("one two ! *three four")
    assert played.after(0, Force([2])) == "one two three"
    assert played.after(1.5) == "four"


def test_nobody_has_to_steer_it_who_only_looks_on() -> None:
    played = Played("one ! *two three")
    played.now = 99
    events = [event for _, event in played.playback.take_due(held=False)]
    assert [_named(event) for event in events] == ["one", "two", "three", "end"]


def test_a_reply_that_was_stopped_tells_how_far_it_came() -> None:
    played = Played("one two three")
    played.after(2)
    [ended] = played.playback.cancel()
    assert isinstance(ended, Finished)
    assert ended.tokens == 2


def test_walks_that_were_stopped_are_all_over() -> None:
    tuning = Tuning()
    replies = [ReplyRequest([1], tuning.samplers(), tuning.conditions(), number, number) for number in range(3)]
    ends = [Finished("end", "", "", 1, 1.0, 1.0, 1.0, 1.0, walk) for walk in range(3)]
    words = [msgspec.structs.replace(token(0, "one"), walk=walk) for walk in range(3)]
    events: Recorded = [(0.0, event) for event in (*words, ends[1])]
    events += [(9.0, event) for event in (ends[0], ends[2], WalksFinished(3, 1, 1.0, None))]
    playback = Playback(7, Generate(replies, Group(1, "walks", 3)), events, lambda: 0.0)
    assert len(playback.take_due(held=True)) == 4
    *ended, over = playback.cancel()
    assert [(one.reason, one.tokens, one.walk) for one in ended if isinstance(one, Finished)] == [
        ("user", 1, 0), ("user", 1, 2),
    ]  # fmt: skip
    assert isinstance(over, WalksFinished)
