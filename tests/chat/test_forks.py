"""Forks: which ids a reply goes on from, with which dice, and what may not be forked."""

from __future__ import annotations

import msgspec
import pytest

from termchat.conversation import setting_changes
from termchat.conversation.unsent import Wish
from termchat.decoding.conditions import Length
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Cancel,
    ModelSpec,
    ReplyRequest,
    Scripted,
    Tokenize,
)
from termchat.tui.transcript.turn_source import TurnSource, parts_of
from tests.chat.driven_chat import Faked


def asked(it: Faked) -> ReplyRequest:
    it.pump()
    return it.engine.generated[-1]


def test_a_fork_goes_on_from_the_replys_own_ids_with_its_own_dice() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", " three", " four")
    it.chat.forks.fork_reply(first, 2)
    made = asked(it)
    assert made.ids == [1, 2, 3, 1000, 1001]
    assert made.done == 2
    assert made.seed == first.start.seed if first.start else False
    assert made.script == ()
    assert [shape.rows for shape in made.shapes] == [3, 1, 1]  # the prompt, then each token alone
    assert made.rebuild_exactly
    assert it.reply.parent == first.number
    assert it.reply.at == 2
    assert [text for role, text in it.chat.conversation.list_turns() if role == "assistant"] == [" one two"]
    assert first.text() == " one two three four"


def test_cells_of_another_kv_type_are_not_said_to_be_made_again() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", " three")
    assert it.chat.model is not None
    it.chat.host.model = msgspec.structs.replace(it.chat.model, kv_type="bf16/f16")
    it.chat.forks.fork_reply(first, 2)
    made = asked(it)
    assert (made.ids, made.shapes, made.rebuild_exactly) == ([1, 2, 3, 1000, 1001], [], False)


def test_chosen_ids_come_first_and_it_can_wait_behind_them() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two")
    it.chat.forks.fork_reply(first, 1, ids=[17, 18], wish=Wish(then="wait"))
    made = asked(it)
    assert made.script == (Scripted(1, 17), Scripted(2, 18))
    assert made.paused
    assert it.chat.phase == "paused"
    assert it.reply.tokens.texts == [" c17", " c18"]


def test_a_typed_text_is_tokenised_once_and_by_the_engine() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two")
    it.chat.forks.fork_reply(first, 1, text=" other words")
    made = asked(it)
    assert [scripted.step for scripted in made.script] == [1, 2]
    assert it.reply.tokens.texts == [" other", " words"]
    assert made.ids == [1, 2, 3, 1000]
    assert it.engine.asked(Tokenize) == [Tokenize(" other words")]


def test_steps_are_counted_through_all_pieces_of_a_reply() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", reason="user")
    second = it.continued(" three", " four")
    it.chat.forks.fork_reply(second, 1)
    made = asked(it)
    assert made.ids == [1, 2, 3, 1000, 1001, 1002]
    assert made.done == 3
    assert first.start is not None
    assert made.seed == first.start.seed


def test_what_was_forked_at_its_first_token_grows_beside_it() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", reason="user")
    it.chat.forks.fork_reply(first, 0)
    made = asked(it)
    assert it.reply.parent == first.parent
    assert made.done == 0
    it.engine.say(" x")
    it.engine.end("user")
    it.pump()
    second = it.reply
    it.continued(" y")
    it.chat.forks.fork_reply(it.reply, 0)
    assert asked(it).done == 1
    assert (it.reply.parent, it.reply.at) == (second.number, 1)


def test_a_branch_that_is_not_shown_can_be_forked() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" other")
    it.engine.end()
    it.pump()
    it.chat.forks.fork_reply(first, 1)
    it.pump()
    assert it.reply.parent == first.number
    assert [text for role, text in it.chat.conversation.list_turns() if role == "assistant"] == [" one"]


@pytest.mark.parametrize("text", ["", " words"])
def test_a_reply_that_runs_ends_first_and_the_queue_waits(text: str) -> None:
    it = Faked()
    first = it.writing("hi", " one", " two", " three")
    it.chat.send("later")
    it.chat.forks.fork_reply(first, 1, text=text)
    it.pump()
    assert it.engine.asked(Cancel)
    assert first.finished is not None
    assert first.finished.reason == "user"
    assert it.reply.parent == first.number
    assert list(it.chat.turns.queue) == ["later"]
    it.engine.say(" x")
    it.engine.end()
    it.pump()
    assert not it.chat.turns.queue  # it went out behind the fork
    assert it.chat.conversation.find_path()[-3].node.parent == first.number


def test_a_fork_of_a_message_that_is_on_its_way_gives_it_back() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", reason="user")
    it.chat.send("not yet")
    assert it.chat.phase == "rendering"
    it.chat.forks.fork_reply(first, 1)
    it.pump()
    assert it.chat.conversation.unsent.returned == "not yet"
    assert it.reply.parent == first.number


def test_what_was_continued_past_the_limit_may_be_as_long_again() -> None:
    it = Faked(Tuning(max_tokens=2, seed=7))
    it.replied("hi", " one", " two", reason="length")
    it.chat.forks.continue_reply()
    it.pump()
    assert it.engine.generated[-1].conditions == (Length(4, extra=2),)
    it.engine.say(" three", " four")
    it.engine.end("length")
    it.pump()
    it.chat.forks.fork_reply(it.reply, 1)
    assert asked(it).conditions == (Length(4, extra=2),)


def test_what_lets_a_reply_go_on_is_no_change_of_a_knob_but_a_turned_knob_is() -> None:
    """A note for every token would stand in the text of whoever goes on token by token."""
    it = Faked(Tuning(seed=7, max_tokens=1))
    it.replied("hi", " one", reason="length")
    for piece in (" two", " three"):
        it.chat.forks.continue_reply()
        it.pump()
        it.engine.say(piece)
        it.engine.end("length")
        it.pump()
    assert stamped(it) == []
    it.chat.adjust_setting("max_tokens", 5)
    it.chat.forks.continue_reply()
    it.pump()
    it.engine.say(" four")
    it.pump()
    assert stamped(it) == ["max_tokens 1 → 5 at token 3"]


def stamped(it: Faked) -> list[str]:
    """What the transcript says of settings within the last reply, on the screen and in files."""
    spans = it.chat.conversation.find_reply()
    pieces = setting_changes.mark_pieces(((span, span.node.text(span.count)) for span in spans), {})
    told = [text for piece in pieces for _, text in piece.marks]
    source = TurnSource(parts_of(spans))
    source.read()
    assert source.text
    assert [mark.text for mark in source.marks] == told
    return told


@pytest.mark.parametrize(
    ("spoil", "at", "why"),
    [
        ("deleted", 1, "this branch is deleted"),
        ("foreign", 1, "a different model wrote this reply"),
        ("unloaded", 1, "no model is loaded"),
        ("", 9, "the reply has 2 tokens here"),
    ],
)
def test_what_cannot_be_forked_is_told(spoil: str, at: int, why: str) -> None:
    it = Faked()
    reply = it.replied("hi", " one", " two")
    if spoil == "deleted":
        it.chat.branches.delete_branch(reply.number)
    elif spoil == "foreign":
        assert it.chat.model is not None
        it.chat.host.model = msgspec.structs.replace(it.chat.model, sha256="another")
    elif spoil == "unloaded":
        it.engine.loads = False
        it.chat.loading.load(ModelSpec("/other.gguf", "other"))
    before = len(it.engine.generated)
    it.chat.forks.fork_reply(reply, at)
    it.pump()
    assert it.notices[-1] == f"cannot fork: {why}"
    assert len(it.engine.generated) == before


def test_nothing_follows_an_end_token_or_a_message() -> None:
    it = Faked()
    reply = it.replied("hi", " one")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" one")
    it.engine.say("", id=2)
    it.engine.end()
    it.pump()
    it.chat.forks.fork_reply(it.reply, 2, ids=[17])
    it.chat.forks.fork_reply(it.chat.conversation.nodes[reply.parent or 0], 1)
    it.pump()
    assert it.notices == [
        "cannot fork: the model ended the reply before this token",
        "cannot fork: this is not part of a reply",
    ]


def test_an_engine_that_dies_takes_a_waiting_fork_along() -> None:
    it = Faked()
    reply = it.writing("hi", " one", " two")
    it.engine.hears = False
    it.chat.forks.fork_reply(reply, 1, text=" other")
    it.engine.die()
    it.pump()
    assert it.chat.phase == "failed"
    it.engine.hears = True
    it.chat.loading.restart_engine()
    it.pump()
    assert it.engine.generated[-1].script == ()
    assert len(it.engine.generated) == 1  # the reply was stopped by hand: nothing goes on by itself
