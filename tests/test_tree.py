"""The tree of turns: paths, what is kept, and the text that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.tree import Conversation, Node, Place
from tests.made_records import add_all, reply, stream, user


def replied(pieces: list[bytes], **kind: object) -> Conversation:
    chat = Conversation()
    user(chat, "hello", [1, 2, 3])
    add_all(reply(chat), stream([1, 2, 3], pieces, **kind))  # type: ignore[arg-type]
    return chat


def test_the_path_takes_every_node_as_far_as_its_child_says() -> None:
    chat = replied([b"a", b"b", b"c"])
    first = chat.nodes[2]
    chat.grow_node("user", parent=2, at=2, text="and?").prompt_ids.extend([7, 8])
    assert chat.list_ids() == [1, 2, 3, 1000, 1001, 7, 8]
    assert chat.list_ids(first.number) == [1, 2, 3, 1000, 1001, 1002]
    assert list(chat.list_turns()) == [("user", "hello"), ("assistant", "ab"), ("user", "and?")]


def test_ids_before_a_node_are_its_prompt_also_when_it_has_tokens() -> None:
    chat = replied([b"a", b"b", b"c"])
    assert chat.ids_before(2) == [1, 2, 3]
    assert chat.ids_before(1) == []
    again = chat.grow_node("assistant", parent=2, at=1)
    assert chat.ids_before(again.number) == [1, 2, 3, 1000]


def test_a_regenerated_reply_is_a_sibling_and_the_first_stays() -> None:
    chat = replied([b"a", b"b"])
    second = chat.grow_node("assistant", parent=1, at=3)
    add_all(second, stream([1, 2, 3], [b"x"]))
    assert list(chat.list_turns()) == [("user", "hello"), ("assistant", "x")]
    chat.leaf = 2
    assert list(chat.list_turns()) == [("user", "hello"), ("assistant", "ab")]


def test_a_continued_reply_is_one_turn_and_its_held_text_is_shown_once() -> None:
    chat = replied([b"The E"], stops=("END",), reason="user")
    assert list(chat.list_turns())[-1] == ("assistant", "The E")
    more = chat.grow_node("assistant", parent=2, at=1)
    add_all(more, stream([1, 2, 3, 1000], [b"x", b"it"], stops=("END",), done=b"The E"))
    assert list(chat.list_turns())[-1] == ("assistant", "The Exit")
    assert [text for _, text in chat.list_pieces()] == ["hello", "The E", "xit"]
    assert [span.node.number for span in chat.find_reply()] == [2, 3]


def test_a_reply_cut_within_a_character_shows_a_mark_until_it_is_continued() -> None:
    chat = replied([b"a", b"\xe2\x82"], reason="length")
    assert list(chat.list_turns())[-1] == ("assistant", "a\ufffd")
    more = chat.grow_node("assistant", parent=2, at=2)
    add_all(more, stream([], [b"\xac", b"\xe2"], reason="length", done=b"a\xe2\x82"))
    assert list(chat.list_turns())[-1] == ("assistant", "a€\ufffd")
    user(chat, "next", [9])
    assert list(chat.list_turns())[1] == ("assistant", "a€\ufffd")


def test_tokens_swallowed_by_a_stop_are_not_kept() -> None:
    chat = replied([b"a", b"b.", b"EN", b"D"], stops=("END",))
    assert chat.nodes[2].count_kept() == 2
    user(chat, "next", [9])
    assert list(chat.list_turns()) == [("user", "hello"), ("assistant", "ab."), ("user", "next")]


def test_text_that_a_later_token_let_out_belongs_to_the_kept_tokens() -> None:
    chat = replied([b"a", b"bY"], stops=("abX", "bY"))
    assert chat.nodes[2].count_kept() == 1
    user(chat, "next", [9])
    assert list(chat.list_turns())[1] == ("assistant", "a")


def test_bytes_that_are_no_characters_do_not_shift_what_is_kept() -> None:
    assert replied([b"\xff", b"END"], stops=("END",)).nodes[2].count_kept() == 1
    assert replied([b"\xff\xff", b"a", b"EN", b"D"], stops=("END",)).nodes[2].count_kept() == 2


def test_part_of_a_character_behind_a_stop_does_not_shift_what_is_kept() -> None:
    assert replied([b"a", b"b", b"END\xe2"], stops=("END",)).nodes[2].count_kept() == 2


def test_a_stop_in_a_continuation_that_began_with_half_a_character() -> None:
    chat = replied([b"a", b"\xe2\x82"], reason="user")
    more = chat.grow_node("assistant", parent=2, at=2)
    add_all(more, stream([], [b"\xac", b"b", b"END"], stops=("END",), done=b"a\xe2\x82"))
    assert more.text() == "€b"
    assert more.count_kept() == 2


def test_a_stop_in_a_continuation_that_began_with_held_text() -> None:
    chat = replied([b"a", b"E"], stops=("END",), reason="user")
    more = chat.grow_node("assistant", parent=2, at=2)
    add_all(more, stream([], [b"N", b"D!"], stops=("END",), done=b"aE"))
    assert (more.text(), more.count_kept()) == ("", 0)
    assert list(chat.list_turns())[-1] == ("assistant", "aE")


def test_a_stop_that_was_passed_over_is_shown_where_the_reply_goes_on() -> None:
    chat = replied([b"a", b"EN", b"D"], stops=("END",))
    more = chat.grow_node("assistant", parent=2, at=3)
    add_all(more, stream([], [b"!"], done=b"aEND"))
    assert list(chat.list_turns())[-1] == ("assistant", "aEND!")
    chat.grow_node("user", parent=2, at=chat.nodes[2].count_kept(), text="next")
    assert list(chat.list_turns()) == [("user", "hello"), ("assistant", "a"), ("user", "next")]


def test_a_whole_prompt_stands_for_all_ids_before_it() -> None:
    chat = replied([b"a", b"b"])
    again = user(chat, "next", [5, 6, 7])
    again.whole = True
    answer = reply(chat)
    assert chat.list_ids() == [5, 6, 7]
    assert chat.ids_before(answer.number) == [5, 6, 7]
    assert chat.ids_before(again.number) == [1, 2, 3, 1000, 1001]


@given(st.text("aбE€N😀D", max_size=30), st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_kept_is_every_token_that_begins_before_the_end_of_the_shown_text(text: str, sizes: list[int]) -> None:
    data, pieces = text.encode(), list[bytes]()
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    node = replied(pieces, stops=("END", "€€")).nodes[2]
    if node.finished is None or node.finished.reason != "stop":
        assert node.count_kept() == len(node.ids)
        assert node.text() == text
        return
    end = min(text.find(stop) for stop in ("END", "€€") if stop in text)
    assert node.text() == text[:end]
    begins = [sum(len(piece) for piece in pieces[:i]) for i in range(len(node.ids))]
    assert node.count_kept() == sum(begin < len(text[:end].encode()) for begin in begins)
    assert node.text(node.count_kept()) == node.text()


def test_pieces_of_tokens_are_their_bytes() -> None:
    pieces = [b"a", b"", b"\xe2\x82", b"\xac tail"]
    assert list(replied(pieces).nodes[2].tokens.iterate_pieces()) == pieces


# --- branches --------------------------------------------------------------------------------------------------------


def forked() -> Conversation:
    """1 hello, 2 its reply of five tokens, 3 and 4 the next turn; 5 forks 2 after two tokens, 6 continues 5; 7 is beside 2."""
    chat = replied([b"a", b"b", b"c", b"d", b"e"])
    user(chat, "more", [7])
    add_all(reply(chat), stream([], [b"f", b"g"]))
    add_all(chat.grow_node("assistant", parent=2, at=2), stream([], [b"x", b"y"]))
    add_all(chat.grow_node("assistant", parent=5, at=2), stream([], [b"z"]))
    add_all(chat.grow_node("assistant", parent=1, at=3), stream([1, 2, 3], [b"w"]))
    return chat


def forks_of(chat: Conversation, leaf: int) -> list[Place]:
    shown, chat.leaf = chat.leaf, leaf
    forks = list(chat.find_forks())
    chat.leaf = shown
    return forks


def numbers(nodes: list[Node]) -> list[int]:
    return [node.number for node in nodes]


def test_children_and_leaves() -> None:
    chat = forked()
    assert numbers(chat.list_children(None)) == [1]
    assert numbers(chat.list_children(1)) == [2, 7]
    assert numbers(chat.list_children(2)) == [3, 5]
    assert numbers(chat.list_leaves()) == [4, 6, 7]
    assert [chat.newest_leaf(number) for number in (1, 2, 3, 5, 7)] == [7, 6, 4, 6, 7]
    assert chat.newest_leaf(2, after=2) == 4
    assert chat.newest_leaf(2, after=5) == 2


def test_a_reply_that_only_forks_grew_from_still_ends_a_branch() -> None:
    chat = replied([b"a", b"b", b"c"])
    add_all(chat.grow_node("assistant", parent=2, at=1), stream([], [b"x"]))
    assert numbers(chat.list_leaves()) == [2, 3]
    assert [text for _, text in chat.list_turns()] == ["hello", "ax"]
    chat.leaf = 2
    assert [text for _, text in chat.list_turns()] == ["hello", "abc"]


def test_forks_are_the_tokens_before_which_a_path_could_have_gone_elsewhere() -> None:
    chat = forked()
    assert forks_of(chat, 4) == [(2, 0), (2, 2)]
    assert forks_of(chat, 6) == [(2, 0), (5, 0)]
    assert forks_of(chat, 7) == [(7, 0)]
    chat.grow_node("assistant", parent=3, at=1)  # nothing in it yet, but the reply beside it has another way now
    assert forks_of(chat, 4) == [(2, 0), (2, 2), (4, 0)]
    assert list(chat.find_forks()) == [(2, 0), (2, 2)]


def test_tokens_that_a_stop_swallowed_are_no_way_on() -> None:
    chat = replied([b"a", b"EN", b"D"], stops=("END",))
    add_all(reply(chat, parent=user(chat, "next", [9])), stream([], [b"b"]))
    assert list(chat.find_forks()) == []
    assert numbers(chat.list_leaves()) == [4]


def test_what_is_deleted_is_hidden_with_all_below_it_and_comes_back() -> None:
    chat = forked()
    chat.leaf = 6
    chat.delete_node(5)
    assert chat.leaf == 4
    assert (numbers(chat.list_leaves()), forks_of(chat, 4)) == ([4, 7], [(2, 0)])
    assert [chat.is_hidden(number) for number in (2, 4, 5, 6)] == [False, False, True, True]
    assert len(chat.nodes) == 7
    chat.restore_node(5)
    assert (chat.leaf, numbers(chat.list_leaves())) == (4, [4, 6, 7])
    chat.delete_node(3)
    assert chat.leaf == 6
    chat.delete_node(2)
    assert chat.leaf == 7
    chat.delete_node(7)
    assert (chat.leaf, numbers(chat.list_leaves())) == (1, [1])
    chat.delete_node(1)
    assert (chat.leaf, chat.list_leaves(), chat.find_path()) == (None, [], [])
    for number in (1, 2):
        chat.restore_node(number)
    assert numbers(chat.list_leaves()) == [2, 6]
    assert chat.grow_node("user", parent=None, at=0, text="again").number == 8


def test_a_deleted_continuation_gives_back_what_it_had_let_out() -> None:
    chat = replied([b"a", b"EN", b"D"], stops=("END",))
    more = chat.grow_node("assistant", parent=2, at=3)
    assert chat.nodes[2].text() == "aEND"
    chat.delete_node(more.number)
    assert chat.nodes[2].text() == "a"
    chat.restore_node(more.number)
    assert chat.nodes[2].text() == "aEND"


@given(st.data())
def test_every_leaf_is_found_and_every_fork_tells_two_paths_apart(data: st.DataObject) -> None:
    chat = replied([b"t"] * data.draw(st.integers(0, 4)))
    for _ in range(data.draw(st.integers(0, 8))):
        parent = chat.nodes[data.draw(st.sampled_from(sorted(chat.nodes)))]
        if parent.role == "user":
            node = chat.grow_node("assistant", parent=parent.number, at=3)
        else:
            node = chat.grow_node("assistant", parent=parent.number, at=data.draw(st.integers(0, len(parent.ids))))
        add_all(node, stream([], [b"t"] * data.draw(st.integers(0, 4))))
    paths = {node.number: [(span.node.number, i) for span in chat.find_path(node.number) for i in range(span.count)]
             for node in chat.nodes.values()}  # fmt: skip
    living = [paths[leaf.number] for leaf in chat.list_leaves()]
    assert {place for path in paths.values() for place in path} == {place for path in living for place in path}
    for leaf in chat.list_leaves():
        path = paths[leaf.number]
        parted = {path[at] for other in paths.values()
                  for at in [next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), None)]
                  if at is not None}  # fmt: skip
        assert parted <= set(forks_of(chat, leaf.number))
