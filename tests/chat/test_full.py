"""A context that is full: what is left out, what stays, and what is said of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.chat.prompting import build_messages, turns_of
from termchat.chat.turns import REQUEST, most_kept, sizes_of
from termchat.conversation.node import Omission
from termchat.conversation.session import Session
from termchat.conversation.transcripts import export
from termchat.conversation.transcripts.jsonl_reader import read
from termchat.conversation.tree import Conversation
from termchat.decoding import walk_plan
from termchat.engine.port import Message, Render
from tests.chat.driven_chat import Faked
from tests.made_records import add_all, reply, stream, user
from tests.tui import fake_engine

# --- the rule --------------------------------------------------------------------------------------------------------

sizes = st.lists(st.integers(1, 500), max_size=30)


@given(sizes, st.integers(1, 400), st.integers(64, 4000))
def test_the_newest_turns_that_leave_a_quarter_free_are_kept(sizes: list[int], needed: int, context: int) -> None:
    kept = most_kept(sizes, needed, context)
    tails = [sum(sizes[len(sizes) - count :]) + needed for count in range(len(sizes) + 1)]
    fitting = [count for count, tail in enumerate(tails) if tail <= context - context // 4]
    assert kept == max(fitting, default=0)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=8), st.data())
def test_what_is_left_out_is_whole_turns_from_the_oldest_on(
    lengths: list[tuple[int, int]], data: st.DataObject
) -> None:
    chat = Conversation("Be brief.")
    for number, (asked, said) in enumerate(lengths):
        user(chat, f"question {number}", [7] * asked)
        add_all(reply(chat), stream([], [b" %d" % number] * said))
    count = data.draw(st.integers(1, len(lengths)))
    before = sizes_of(turns_of(chat.find_path()))
    assert before == [asked + said for asked, said in lengths]

    turn = user(chat, "and now?", [7] * (sum(before[count:]) + 3))
    turn.whole, turn.omitted = True, Omission(count)
    told = build_messages(chat)
    assert told[0] == Message("system", "Be brief.")
    assert [message.content for message in told[1:] if message.role == "user"] == [
        *(f"question {number}" for number in range(count, len(lengths))),
        "and now?",
    ]
    assert all(one.role != other.role for one, other in pairwise(told))
    assert sizes_of(turns_of(chat.find_path())) == [*before, 3]
    assert len(chat.list_ids()) == len(turn.ids), "all ids are those that were rendered anew"


# --- in a chat -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with little context."""
    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, context=40))


def full(on_full: str) -> Faked:
    """A chat of four turns that fills most of the context, and a message that does not fit."""
    it = Faked(on_full=on_full)
    for number in range(4):
        it.replied(f"question {number}", *[" word"] * 5)
    it.engine.prompt = [1] * 20
    it.chat.send("too much")
    it.pump()
    return it


def asked_last(it: Faked) -> list[Message]:
    """What the last prompt was rendered from."""
    return it.engine.asked(Render)[-1].messages


@pytest.mark.usefixtures("small")
def test_stopping_gives_the_message_back() -> None:
    it = full("stop")
    assert it.chat.conversation.unsent.returned == "too much"
    assert it.chat.phase == "idle"
    assert len(it.chat.conversation.find_path()) == 8
    assert it.notices[-1] == "the prompt has 52 tokens, the context 40"


@pytest.mark.usefixtures("small")
def test_no_turns_are_offered_for_a_message_that_alone_is_too_long() -> None:
    it = Faked(on_full="ask")
    it.replied("question", " word")
    it.engine.prompt = [1] * 50
    it.chat.send("too much")
    it.pump()
    assert it.chat.full is None
    assert it.chat.conversation.unsent.returned == "too much"
    assert it.notices[-1] == "the prompt has 54 tokens, the context 40"


@pytest.mark.usefixtures("small")
def test_the_oldest_turns_are_dropped_and_nothing_is_deleted() -> None:
    it = full("drop")
    turn = it.chat.conversation.nodes[it.chat.conversation.find_path()[-2].node.number]
    assert turn.omitted is not None
    assert turn.omitted.summary is None
    assert [message.content for message in asked_last(it) if message.role == "user"] == [
        *(f"question {number}" for number in range(turn.omitted.turns, 4)),
        "too much",
    ]
    assert len(it.chat.conversation.find_path()) == 10, "all turns are still in the chat"
    assert it.engine.generated[-1].ids == [1] * 20
    it.engine.say(" fine")
    it.engine.end()
    it.pump()
    it.engine.prompt = [1] * 3
    it.chat.send("go on")
    it.pump()
    assert asked_last(it)[0].content == f"question {turn.omitted.turns}", "what is left out stays out"
    assert it.engine.asked(Render)[-1].before == it.engine.generated[-1].ids[:-3]
    assert it.engine.generated[-1].ids == [1] * 20 + [it.engine.generated[-1].ids[20]] + [1] * 3


@pytest.mark.usefixtures("small")
def test_a_summary_stands_where_the_turns_stood() -> None:
    it = full("ask")
    assert it.chat.full is not None
    left_out = it.chat.full.turns
    it.engine.prompt = [1] * 4
    it.chat.turns.make_room("summarise")
    it.pump()
    assert it.chat.conversation.find_path()[-2].node.written == REQUEST, "it is shown as it streams"
    assert asked_last(it)[-1] == Message("user", REQUEST)
    assert len(it.chat.conversation.find_path()) == 2 * left_out + 2
    summary = it.reply
    it.engine.prompt = [1] * 20
    it.engine.say(" all", " of", " it")
    it.engine.end()
    it.pump()
    turn = it.chat.conversation.find_path()[-2].node
    assert turn.written == "too much"
    assert turn.omitted == Omission(left_out, summary.number)
    assert [message.content for message in asked_last(it)[:2]] == [REQUEST, " all of it"]
    assert asked_last(it)[2].content == f"question {left_out}"


@pytest.mark.usefixtures("small")
def test_whoever_stops_the_summary_has_the_message_back() -> None:
    it = full("ask")
    it.engine.prompt = [1] * 4
    it.chat.turns.make_room("summarise")
    it.pump()
    it.engine.say(" all")
    it.chat.stop()
    it.pump()
    assert it.chat.conversation.unsent.returned == "too much"
    assert len(it.chat.conversation.find_path()) == 8


@pytest.mark.usefixtures("small")
def test_where_there_is_no_room_to_ask_for_a_summary_the_turns_go_without() -> None:
    it = full("summarise")
    turn = it.chat.conversation.find_path()[-2].node
    assert turn.written == "too much"
    assert turn.omitted is not None
    assert turn.omitted.summary is None
    assert "no room to ask for a summary" in it.notices


@pytest.mark.usefixtures("small")
def test_a_reply_that_the_context_cut_off_is_made_again_with_room() -> None:
    it = full("stop")
    it.chat.on_full = "drop"
    it.engine.prompt = [1] * 4
    it.chat.send("fits")
    it.pump()
    cut = it.reply
    it.engine.say(" cut")
    it.engine.end("context")
    it.pump()
    turn = it.chat.conversation.find_path()[-2].node
    assert turn.written == "fits"
    assert turn.omitted is not None
    assert it.reply is not cut
    it.engine.say(" cut")
    it.engine.end("context")
    it.pump()
    assert it.chat.phase == "idle", "room is made once"


@pytest.mark.usefixtures("small")
def test_each_time_that_a_reply_is_cut_off_more_has_to_go() -> None:
    it = full("stop")
    it.chat.on_full = "ask"
    it.engine.prompt = [1] * 4
    it.chat.send("fits")
    it.pump()
    gone = [0]
    while it.chat.phase != "idle":
        it.engine.say(" cut")
        it.engine.end("context")
        it.pump()
        if it.chat.full is not None:
            gone.append(it.chat.full.turns)
            it.chat.turns.make_room("drop")
            it.pump()
    assert gone == sorted(set(gone))
    assert gone[-1] == 4, "until nothing is left to leave out"


@pytest.mark.usefixtures("small")
def test_a_message_that_is_too_long_alone_is_refused() -> None:
    it = Faked(on_full="drop")
    it.engine.prompt = [1] * 50
    it.chat.send("too much")
    it.pump()
    assert it.chat.conversation.unsent.returned == "too much"
    it.engine.prompt = [1] * 3
    it.replied("hello", " you")
    it.engine.prompt = [1] * 50
    it.chat.conversation.unsent.returned = ""
    it.chat.send("too much")
    it.pump()
    assert it.chat.conversation.unsent.returned == "too much"
    assert it.chat.conversation.find_path()[-1].node.text() == " you"


# --- on record -------------------------------------------------------------------------------------------------------


def test_what_was_left_out_is_in_every_export_and_comes_back(tmp_path: Path) -> None:
    chat = Conversation()
    records = {}
    for text in ("one", "two"):
        user(chat, text, [1])
        node = reply(chat)
        records[node.number] = stream(chat.ids_before(node.number), [b" fine"])
        add_all(node, records[node.number])
    turn = user(chat, "three", [1, 2])
    turn.whole, turn.omitted = True, Omission(2)

    def written(name: str) -> Path:
        return export.write(tmp_path / name, chat, Session(id="x"), lambda number: iter(records[number]))

    for name in ("chat.md", "chat.html"):
        assert "from here on the model does not see the oldest 2 turns" in written(name).read_text("utf-8")
    again = read(written("chat.jsonl")).conversation
    assert again.nodes[turn.number].omitted == Omission(2)
    assert build_messages(again) == [Message("user", "three")]


def test_a_reply_in_a_full_context_is_not_continued_past_it() -> None:
    it = Faked()
    it.replied("hi", *["x"] * (fake_engine.INFO.context - len(it.engine.prompt)), reason="context")
    asked = len(it.engine.generated)
    it.chat.forks.continue_reply()
    it.pump()
    assert len(it.engine.generated) == asked
    assert any("the context is full" in text for text in it.notices)


@pytest.mark.usefixtures("small")
def test_several_replies_are_made_once_there_is_room() -> None:
    it = Faked(on_full="ask")
    for number in range(4):
        it.replied(f"question {number}", *[" word"] * 5)
    it.engine.prompt = [1] * 20
    it.chat.walks.start(walk_plan.walks(3), text="too much")
    it.pump()
    assert it.chat.full is not None
    it.chat.turns.make_room("drop")
    it.pump()
    assert len(it.engine.groups[-1].replies) == 3
    assert it.chat.conversation.find_path()[-2].node.omitted is not None
