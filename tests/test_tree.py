"""The tree of turns: paths, what is kept, and the text that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.tree import Conversation
from tests.made_records import add_all, reply, stream, user


def replied(pieces: list[bytes], **kind: object) -> Conversation:
    chat = Conversation()
    user(chat, "hello", [1, 2, 3])
    add_all(reply(chat), stream([1, 2, 3], pieces, **kind))  # type: ignore[arg-type]
    return chat


def test_the_path_takes_every_node_as_far_as_its_child_says() -> None:
    chat = replied([b"a", b"b", b"c"])
    first = chat.nodes[2]
    chat.grow("user", parent=2, at=2, text="and?").prompt_ids.extend([7, 8])
    assert chat.ids() == [1, 2, 3, 1000, 1001, 7, 8]
    assert chat.ids(first.number) == [1, 2, 3, 1000, 1001, 1002]
    assert list(chat.turns()) == [("user", "hello"), ("assistant", "ab"), ("user", "and?")]


def test_ids_before_a_node_are_its_prompt_also_when_it_has_tokens() -> None:
    chat = replied([b"a", b"b", b"c"])
    assert chat.ids_before(2) == [1, 2, 3]
    assert chat.ids_before(1) == []
    again = chat.grow("assistant", parent=2, at=1)
    assert chat.ids_before(again.number) == [1, 2, 3, 1000]


def test_a_regenerated_reply_is_a_sibling_and_the_first_stays() -> None:
    chat = replied([b"a", b"b"])
    second = chat.grow("assistant", parent=1, at=3)
    add_all(second, stream([1, 2, 3], [b"x"]))
    assert list(chat.turns()) == [("user", "hello"), ("assistant", "x")]
    assert list(chat.turns(2)) == [("user", "hello"), ("assistant", "ab")]


def test_a_continued_reply_is_one_turn_and_its_held_text_is_shown_once() -> None:
    chat = replied([b"The E"], stops=("END",), reason="user")
    assert list(chat.turns())[-1] == ("assistant", "The E")
    more = chat.grow("assistant", parent=2, at=1)
    add_all(more, stream([1, 2, 3, 1000], [b"x", b"it"], stops=("END",), done=b"The E"))
    assert list(chat.turns())[-1] == ("assistant", "The Exit")
    assert [text for _, text in chat.pieces()] == ["hello", "The E", "xit"]
    assert [span.node.number for span in chat.reply()] == [2, 3]


def test_tokens_swallowed_by_a_stop_are_not_kept() -> None:
    chat = replied([b"a", b"b.", b"EN", b"D"], stops=("END",))
    assert chat.nodes[2].kept() == 2
    user(chat, "next", [9])
    assert list(chat.turns()) == [("user", "hello"), ("assistant", "ab."), ("user", "next")]


def test_text_that_a_later_token_let_out_belongs_to_the_kept_tokens() -> None:
    chat = replied([b"a", b"bY"], stops=("abX", "bY"))
    assert chat.nodes[2].kept() == 1
    user(chat, "next", [9])
    assert list(chat.turns())[1] == ("assistant", "a")


def test_bytes_that_are_no_characters_do_not_shift_what_is_kept() -> None:
    assert replied([b"\xff", b"END"], stops=("END",)).nodes[2].kept() == 1
    assert replied([b"\xff\xff", b"a", b"EN", b"D"], stops=("END",)).nodes[2].kept() == 2


def test_a_stop_in_a_continuation_that_began_with_half_a_character() -> None:
    chat = replied([b"a", b"\xe2\x82"], reason="user")
    more = chat.grow("assistant", parent=2, at=2)
    add_all(more, stream([], [b"\xac", b"b", b"END"], stops=("END",), done=b"a\xe2\x82"))
    assert more.text() == "€b"
    assert more.kept() == 2


def test_a_stop_in_a_continuation_that_began_with_held_text() -> None:
    chat = replied([b"a", b"E"], stops=("END",), reason="user")
    more = chat.grow("assistant", parent=2, at=2)
    add_all(more, stream([], [b"N", b"D!"], stops=("END",), done=b"aE"))
    assert (more.text(), more.kept()) == ("", 0)
    assert list(chat.turns())[-1] == ("assistant", "aE")


def test_a_stop_that_was_passed_over_is_shown_where_the_reply_goes_on() -> None:
    chat = replied([b"a", b"EN", b"D"], stops=("END",))
    more = chat.grow("assistant", parent=2, at=3)
    add_all(more, stream([], [b"!"], done=b"aEND"))
    assert list(chat.turns())[-1] == ("assistant", "aEND!")
    chat.grow("user", parent=2, at=chat.nodes[2].kept(), text="next")
    assert list(chat.turns()) == [("user", "hello"), ("assistant", "a"), ("user", "next")]


def test_a_whole_prompt_stands_for_all_ids_before_it() -> None:
    chat = replied([b"a", b"b"])
    again = user(chat, "next", [5, 6, 7])
    again.whole = True
    answer = reply(chat)
    assert chat.ids() == [5, 6, 7]
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
        assert node.kept() == len(node.ids)
        assert node.text() == text
        return
    end = min(text.find(stop) for stop in ("END", "€€") if stop in text)
    assert node.text() == text[:end]
    begins = [sum(len(piece) for piece in pieces[:i]) for i in range(len(node.ids))]
    assert node.kept() == sum(begin < len(text[:end].encode()) for begin in begins)
    assert node.text(node.kept()) == node.text()


def test_pieces_of_tokens_are_their_bytes() -> None:
    pieces = [b"a", b"", b"\xe2\x82", b"\xac tail"]
    assert list(replied(pieces).nodes[2].tokens.pieces()) == pieces
