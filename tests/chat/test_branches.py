"""Branches: which one is shown, what they are called, which are gone, and that all of it is kept."""

from __future__ import annotations

from pathlib import Path

from termchat.chat.opening import load_latest
from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation, Node
from tests.chat.driven_chat import Faked


def two_replies(it: Faked) -> tuple[Node, Node]:
    """A message with two replies; the second is shown."""
    first = it.replied("hi", " one", " two")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" other", " words")
    it.engine.end()
    it.pump()
    return first, it.reply


def stored(it: Faked, path: Path) -> Conversation:
    """The chat as another process would open it."""
    it.chat.session.store.close()
    found = load_latest(Store.open(path), load({}, environ={}, file=path.parent / "none.toml"))
    assert found is not None
    return found.conversation


def kept(path: Path) -> Faked:
    return Faked(store=Store.open(path))


def test_another_branch_is_shown_with_its_last_token_and_is_there_again(tmp_path: Path) -> None:
    it = kept(tmp_path / "s.db")
    first, _second = two_replies(it)
    it.chat.branches.select_leaf(first.number)
    assert it.reply is first
    assert it.chat.live.token is not None
    assert it.chat.live.token.text == " two"
    assert it.chat.live.finished is first.finished
    it.chat.branches.select_leaf(999)
    it.pump()
    assert it.notices == ["no such branch"]
    assert stored(it, tmp_path / "s.db").leaf == first.number


def test_going_to_another_branch_ends_the_reply_that_runs_and_does_not_mix_them() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" other")
    it.pump()
    second = it.reply
    it.chat.send("later")
    it.engine.say(" words")  # on its way when the branch is changed
    it.chat.branches.select_leaf(first.number)
    it.pump()
    assert second.finished is not None
    assert second.finished.reason == "user"
    assert second.text() == " other words"
    assert it.chat.live.finished is first.finished
    assert it.chat.phase == "idle"
    assert list(it.chat.turns.queue) == ["later"]


def test_going_to_another_branch_while_a_message_is_on_its_way() -> None:
    it = Faked()
    first, _second = two_replies(it)
    it.chat.send("not yet")
    it.chat.branches.select_leaf(first.number)
    it.pump()
    assert it.chat.conversation.unsent.returned == "not yet"
    assert it.chat.conversation.leaf == first.number


def test_names_are_kept(tmp_path: Path) -> None:
    it = kept(tmp_path / "s.db")
    first, second = two_replies(it)
    it.chat.branches.rename_branch(first.number, "  the\nfirst ")
    it.chat.branches.rename_branch(second.number, "gone")
    it.chat.branches.rename_branch(second.number, "")
    nodes = stored(it, tmp_path / "s.db").nodes
    assert nodes[first.number].name == "the first"
    assert nodes[second.number].name == ""


def test_a_deleted_branch_gives_way_to_a_living_one_and_comes_back(tmp_path: Path) -> None:
    it = kept(tmp_path / "s.db")
    first, second = two_replies(it)
    it.chat.branches.delete_branch(second.number)
    assert it.reply is first
    assert it.chat.live.token is not None
    assert it.chat.live.token.text == " two"
    it.chat.branches.delete_branch(first.number)
    assert it.chat.conversation.leaf == first.parent
    assert it.chat.branches.restore_branch() == first.number
    assert it.chat.branches.restore_branch() == second.number
    assert it.chat.branches.restore_branch() is None
    it.pump()
    assert it.notices == []  # whoever asked says so
    it.chat.branches.delete_branch(first.number)
    found = stored(it, tmp_path / "s.db")
    assert [node.number for node in found.list_leaves()] == [second.number]


def test_deleting_all_there_is_and_taking_it_back() -> None:
    it = Faked()
    reply = it.replied("hi", " one")
    turn = reply.parent or 0
    it.chat.branches.delete_branch(turn)
    assert it.chat.conversation.leaf is None
    it.chat.branches.restore_branch()
    assert it.reply is reply


def test_deleting_what_runs_ends_it() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" other")
    it.pump()
    second = it.reply
    it.chat.branches.delete_branch(second.number)
    it.pump()
    assert second.finished is not None
    assert it.chat.phase == "idle"
    assert it.reply is first


def test_a_branch_that_is_not_shown_is_deleted_without_a_word_to_the_reply() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.chat.forks.regenerate()
    it.pump()
    it.engine.say(" other")
    it.pump()
    it.chat.branches.delete_branch(first.number)
    it.pump()
    assert it.chat.phase == "decoding"
    assert it.reply.text() == " other"


def test_records_are_read_back_with_their_candidates(tmp_path: Path) -> None:
    it = kept(tmp_path / "s.db")
    reply = it.writing("hi", " one", " two")
    record = it.chat.session.read_token(reply, 1)
    assert record is not None
    assert record.text == " two"
    assert len(record.candidates) == 20
    assert it.chat.session.read_token(reply, 2) is None
    assert it.chat.session.read_token(it.chat.conversation.nodes[reply.parent or 0], 0) is None
