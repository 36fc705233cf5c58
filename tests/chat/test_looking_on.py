"""A chat that another termchat is writing: it opens read-only, goes on in a copy, and its writer is never disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.conversation.walk_groups import groups_of
from termchat.decoding import walk_plan
from termchat.tui.screen.header_line import header_line
from tests.chat.kept_chat import Kept

pytestmark = pytest.mark.usefixtures("home")
COPIED = "this is a copy of the chat now"


class Pair:
    """Two chats on one file: `writer` has begun a reply in `session`, `it` has opened that."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config = load({}, {}, folder / "none.toml")
        self.theirs, self.ours = (Store.open(folder / "sessions.db") for _ in range(2))
        self.writer, self.it = (Kept(store, self.config) for store in (self.theirs, self.ours))
        # Within one process no lock keeps the other store out.
        monkeypatch.setattr(self.ours._claims, "is_elsewhere", lambda _: self.writer.chat.busy)
        self.writer.replied("one", " a")
        self.writer.writing("two", " b", " c")
        self.session = self.writer.session
        assert self.theirs.flush()
        self.it.open(self.session)

    def saved(self, session: str) -> list[str]:
        assert self.ours.flush()
        return [text for _, text in self.ours.load(session).conversation.list_turns()]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    made = Pair(tmp_path, monkeypatch)
    yield made
    made.theirs.close()
    made.ours.close()


def test_it_says_who_writes_and_shows_what_was_saved(pair: Pair) -> None:
    it, writer = pair.it, pair.writer
    assert it.notices == ["another termchat is writing this chat"]
    assert "read-only" in header_line(it.chat, 200).text
    assert it.texts() == ["one", " a", "two", " b c"]
    assert it.reply.failed is not None
    assert it.reply.failed.message == "opened while another termchat was writing it"
    assert it.chat.live.token is not None
    assert it.chat.live.token.text == " c"
    writer.engine.say(" d")
    writer.engine.end()
    writer.pump()
    it.pump()
    assert it.texts()[-1] == " b c"
    it.chat.adjust_setting("temperature", 1.5)
    assert pair.ours.load(pair.session).tuning.temperature == 0.8  # that is the writer's


def test_what_the_writer_says_after_it_was_opened_is_not_in_the_copy(pair: Pair) -> None:
    it, writer = pair.it, pair.writer
    writer.engine.say(" d")
    writer.engine.end()
    writer.pump()
    writer.replied("three", " e")
    assert pair.theirs.flush()
    it.replied("what next", " f")
    assert it.session != pair.session
    assert COPIED in it.notices
    assert pair.saved(it.session) == ["one", " a", "two", " b c", "what next", " f"]
    assert pair.saved(pair.session) == ["one", " a", "two", " b c d", "three", " e"]
    assert writer.notices == []


def test_a_message_goes_into_a_copy_and_the_writer_goes_on_in_its_own_chat(pair: Pair) -> None:
    it, writer = pair.it, pair.writer
    it.chat.adjust_setting("temperature", 1.5)
    it.replied("what next", " f")
    assert COPIED in it.notices
    assert it.chat.session.is_own
    copy = it.session
    assert copy != pair.session
    assert pair.saved(copy) == ["one", " a", "two", " b c", "what next", " f"]
    assert pair.ours.load(copy).unfinished == ()  # it was copied, not interrupted
    assert pair.ours.load(copy).tuning.temperature == 1.5
    writer.engine.say(" d")
    writer.engine.end()
    writer.pump()
    writer.replied("three", " e")
    assert pair.theirs.flush()
    assert writer.session == pair.session
    assert writer.notices == []
    assert pair.saved(pair.session) == ["one", " a", "two", " b c d", "three", " e"]


def test_a_copy_is_made_on_demand(pair: Pair) -> None:
    it = pair.it
    it.chat.copy_chat()
    it.pump()
    assert it.session != pair.session
    assert it.reply.failed is not None
    assert pair.saved(it.session) == ["one", " a", "two", " b c"]
    it.chat.new()
    it.chat.copy_chat()
    it.pump()
    assert it.notices[-1] == "cannot copy the chat: nothing was said yet"


def test_ones_own_chat_is_copied_as_well(pair: Pair) -> None:
    writer = pair.writer
    writer.chat.copy_chat()
    writer.pump()
    assert writer.notices == ["cannot copy the chat: a reply is running"]
    writer.engine.end()
    writer.pump()
    writer.chat.copy_chat()
    writer.replied("three", " e")
    assert writer.session != pair.session
    assert pair.theirs.flush()
    assert pair.saved(pair.session) == ["one", " a", "two", " b c"]
    assert pair.saved(writer.session)[-1] == " e"


def test_when_nobody_writes_any_more_it_opens_to_go_on_in(pair: Pair) -> None:
    pair.writer.engine.end()
    pair.writer.pump()
    assert pair.theirs.flush()
    pair.it.open(pair.session)
    pair.it.replied("what next", " f")
    assert pair.it.session == pair.session
    assert COPIED not in pair.it.notices
    assert pair.saved(pair.session) == ["one", " a", "two", " b c", "what next", " f"]


def test_a_writer_that_died_leaves_an_interrupted_reply_that_can_be_continued(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair.ours._claims, "is_elsewhere", lambda _: False)
    pair.it.open(pair.session)
    assert pair.it.reply.failed is not None
    assert pair.it.reply.failed.message == "termchat stopped during this reply"
    pair.it.chat.forks.continue_reply()
    pair.it.pump()
    pair.it.engine.say(" g")
    pair.it.engine.end()
    pair.it.pump()
    assert pair.it.session == pair.session
    assert pair.saved(pair.session)[-1] == " b c g"


@pytest.mark.parametrize("what", ["rename", "delete", "title", "regenerate"])
def test_whatever_changes_the_chat_changes_a_copy(pair: Pair, what: str) -> None:
    it, chat = pair.it, pair.it.chat
    if what == "rename":
        chat.branches.rename_branch(1, "mine")
    elif what == "delete":
        chat.branches.delete_branch(3)
    elif what == "title":
        chat.rename_chat("mine")
    else:
        chat.forks.regenerate()
    it.pump()
    assert it.session != pair.session
    stored = pair.ours.load(pair.session)
    assert (stored.conversation.title, len(stored.conversation.nodes)) == ("one", 4)
    assert not any(node.name or node.deleted for node in stored.conversation.nodes.values())


def test_another_branch_can_be_looked_at_and_another_chat_opened(pair: Pair) -> None:
    it, writer = pair.it, pair.writer
    it.chat.branches.select_leaf(2)
    writer.engine.say(" d")
    writer.pump()
    assert pair.theirs.flush()
    assert it.texts() == ["one", " a"]
    it.chat.new()
    it.pump()
    assert it.chat.session.is_own
    it.open(pair.session)
    assert it.texts()[-1] == " b c d"  # what is saved, not what was seen


def walking(pair: Pair) -> Kept:
    """The other termchat, in which three walks begin."""
    writer = pair.writer
    writer.engine.end()
    writer.pump()
    writer.chat.walks.start(walk_plan.walks(3), text="walk")
    writer.pump()
    return writer


def test_what_is_copied_while_walks_grow_ends_each_of_them(pair: Pair) -> None:
    it, writer = pair.it, walking(pair)
    writer.engine.say(" a")
    writer.engine.end(walk=1)
    writer.pump()
    assert pair.theirs.flush()
    it.open(pair.session)
    it.chat.copy_chat()
    it.pump()
    for chat in (it.chat.conversation, pair.ours.load(it.session).conversation):
        (walks,) = groups_of(chat).values()
        assert [node.failed is not None for node in walks.values()] == [True, False, True]
    assert pair.ours.load(it.session).unfinished == ()
    writer.engine.end()
