"""The versions of a turn: which there are, in which order, and where each leads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.node import Omission
from termchat.conversation.tree import Conversation, Node, Role
from termchat.conversation.versions import Versions, leaf_of
from tests.made_records import add_all, reply, stream, user


def versions(chat: Conversation, leaf: int | None = None, turn: int = -1) -> tuple[int, list[int]]:
    """Those of a turn of the path, the last one unless it is said which."""
    turns: list[list[Node]] = []
    for span in chat.find_path(leaf):
        if not turns or turns[-1][0].role != span.node.role:
            turns.append([])
        turns[-1].append(span.node)
    return Versions(chat).find_versions(turns[turn][0], turns[turn][-1])


def grown(chat: Conversation, role: Role, parent: int | None, at: int, tokens: int = 3) -> int:
    """The number of a new node: a message of three ids, or a reply that is over."""
    node = chat.grow_node(role, parent=parent, at=at, text="more" if role == "user" else "")
    if role == "user":
        node.prompt_ids.extend([1, 2, 3])
    else:
        add_all(node, stream([1, 2, 3], [b"x"] * tokens))
    return node.number


def replied() -> Conversation:
    """A message, 1, and its reply of three tokens, 2."""
    chat = Conversation()
    user(chat, "hello", [1, 2, 3])
    add_all(reply(chat), stream([1, 2, 3], [b"a", b"b", b"c"]))
    return chat


def test_a_turn_that_was_said_once_is_its_only_version() -> None:
    chat = replied()
    assert versions(chat) == (0, [2])
    assert versions(chat, turn=0) == (0, [1])


def test_a_reply_that_was_made_again_is_the_newest_version_and_a_deleted_one_is_none() -> None:
    chat = replied()
    grown(chat, "assistant", 1, 3)
    assert versions(chat) == (1, [2, 3])
    assert versions(chat, 2) == (0, [2, 3])
    assert versions(chat, turn=0) == (0, [1])
    grown(chat, "assistant", 1, 3)
    chat.delete_node(3)
    assert versions(chat) == (1, [2, 4])
    chat.restore_node(3)
    assert versions(chat) == (2, [2, 3, 4])


def test_a_reply_that_was_forked_in_its_middle_has_one_version_more_and_so_has_the_fork() -> None:
    chat = replied()
    fork = grown(chat, "assistant", 2, 1)
    assert versions(chat) == (1, [2, fork])
    assert versions(chat, 2) == (0, [2, fork])
    within = grown(chat, "assistant", fork, 2)
    again = grown(chat, "assistant", 1, 3)
    assert versions(chat, within) == (2, [2, fork, within, again])
    chat.delete_node(fork)
    assert versions(chat, again) == (1, [2, again])


def test_a_reply_that_was_continued_is_one_version_and_keeps_its_place() -> None:
    chat = replied()
    again = grown(chat, "assistant", 1, 3)
    onward = grown(chat, "assistant", 2, 3)
    assert versions(chat) == (0, [onward, again])
    other = grown(chat, "assistant", 2, 3)
    assert versions(chat) == (2, [onward, again, other])


def test_a_stopped_reply_that_the_chat_went_on_from_stays_a_version_beside_its_continuation() -> None:
    chat = replied()
    after = grown(chat, "user", 2, 3)
    onward = grown(chat, "assistant", 2, 3)
    assert versions(chat) == (1, [2, onward])
    assert leaf_of(chat, 2, {}) == after
    assert leaf_of(chat, onward, {}) == onward


def test_messages_in_the_same_place_are_versions_of_each_other() -> None:
    chat = replied()
    first = grown(chat, "user", 2, 3)
    edited = grown(chat, "user", 2, 3)
    assert versions(chat) == (1, [first, edited])
    begun = grown(chat, "user", None, 0)
    assert versions(chat) == (1, [1, begun])
    fork = grown(chat, "assistant", 2, 1)
    apart = grown(chat, "user", fork, 3)
    assert versions(chat) == (0, [apart])


def test_the_request_for_a_summary_is_no_version_of_the_message_that_it_stands_beside() -> None:
    chat = replied()
    message = grown(chat, "user", 2, 3)
    request = grown(chat, "user", 2, 3)
    summary = grown(chat, "assistant", request, 3)
    answer = grown(chat, "assistant", message, 3)
    chat.nodes[grown(chat, "user", answer, 3)].omitted = Omission(1, summary)
    assert versions(chat, message) == (0, [message])


def test_a_version_leads_to_the_leaf_that_was_used_last_else_to_the_newest() -> None:
    chat = replied()
    older, newer = (grown(chat, "assistant", grown(chat, "user", 2, 3), 3) for _ in range(2))
    again = grown(chat, "assistant", 1, 3)
    assert leaf_of(chat, 2, {}) == newer
    assert leaf_of(chat, 2, {older: 5, again: 6}) == older
    assert leaf_of(chat, 2, {older: 5, newer: 7}) == newer
    assert leaf_of(chat, 2, {2: 9, older: 5}) == older, "a reply that the chat went on from is no leaf"
    chat.delete_node(older)
    assert leaf_of(chat, 2, {older: 5, 999: 8}) == newer
    assert leaf_of(chat, again, {older: 5}) == again
    assert leaf_of(chat, 1, {}) == again


@given(st.data())
def test_whatever_grows_each_version_leads_to_a_path_in_which_it_is_that_version(data: st.DataObject) -> None:
    chat = Conversation()
    grown(chat, "user", None, 0)
    for _ in range(data.draw(st.integers(1, 12))):
        parent = chat.nodes[data.draw(st.sampled_from(sorted(chat.nodes)))]
        if parent.role == "user":
            grown(chat, "assistant", parent.number, 3, data.draw(st.integers(1, 4)))
        elif data.draw(st.booleans()):
            grown(chat, "user", parent.number, len(parent.ids))
        else:
            at = data.draw(st.integers(1, len(parent.ids)))
            grown(chat, "assistant", parent.number, at, data.draw(st.integers(1, 4)))
    for number in data.draw(st.lists(st.sampled_from(sorted(chat.nodes)[1:] or [1]), max_size=2)):
        if number != 1:
            chat.delete_node(number)
    if chat.leaf is None:
        return
    depth = sum(1 for _ in _turns(chat, chat.leaf))
    for turn in range(depth):
        this, ends = versions(chat, turn=turn)
        assert len(set(ends)) == len(ends)
        for index, end in enumerate(ends):
            leaf = leaf_of(chat, end, {chat.leaf: 1})
            assert not chat.is_hidden(leaf)
            assert leaf in {node.number for node in chat.list_leaves()}
            assert versions(chat, leaf, turn) == (index, ends)
        assert leaf_of(chat, ends[this], {chat.leaf: 1}) == chat.leaf


def _turns(chat: Conversation, leaf: int) -> list[list[Role]]:
    roles = [span.node.role for span in chat.find_path(leaf)]
    return [[role] for at, role in enumerate(roles) if not at or roles[at - 1] != role]
