"""Where tokens are on the screen: every one of them can be reached, and the cursor stands on its text."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes

from termchat.conversation.tree import Conversation
from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN
from termchat.tui.transcript.blocks import TextBlock
from termchat.tui.transcript.cursor import Cursor, Move
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.looks import TOKEN_LOOKS, TokenLook, heats
from termchat.tui.transcript.tokens import TokenRef, Track
from termchat.tui.transcript.turn_source import TurnSource, parts_of
from tests import made_records
from tests.tui.transcripts import (
    PROSE,
    ask,
    chat_of,
    finished,
    in_pieces,
    reply,
    settings_record,
    shown,
    start,
    token,
)

CONTINUES = ("\u200d", "\ufe0f", "\u0301")
words = st.sampled_from([
    "a", " fox", "bears", " ", "   ", "\n", "\n\n", "\t", "x\n y", "extraordinarily", ".\n", "", "",
    "狐狸", "。", "「", " 熊", "🦊", "e\u0301", "❤", "✈\ufe0f", "👩\u200d🌾", "\x1b", "\x9b2J", "\u202e",
])  # fmt: skip
splits = st.sampled_from([*CONTINUES, "\u200d🌾", "\u200d and", "\u0301\u0301x", "👩\u200d"])
widths = st.integers(6, 50)


def chat_from(pieces: list[str]) -> Conversation:
    chat = chat_of("Go\nthere")
    node = reply(chat)
    for piece in pieces:
        node.add(token(len(node.tokens), piece))
    return chat


def walk(cursor: Cursor) -> list[TokenRef]:
    """All tokens in order, by going right from the first one."""
    cursor.put(cursor.track.at(0))
    seen = []
    while cursor.ref is not None and (not seen or seen[-1] != cursor.ref):
        seen.append(cursor.ref)
        cursor.move("right")
    return seen


def cells(cursor: Cursor, *, own: bool = True) -> list[tuple[int, int, int]]:
    """Line, first cell and end of what the cursor covers."""
    spots = zip(cursor.rows(), cursor.spots, strict=True)
    return [(y, spot.begin, spot.end) for y, spot in spots if spot.own or not own]


def under(document: Document, cursor: Cursor) -> str:
    """The text that is painted where the cursor stands."""
    text = ""
    for y, begin, end in cells(cursor):
        line = document.line(y)
        assert line is not None
        cell = 0
        for first, stop, size in split_graphemes(line.text)[0]:
            text += line.text[first:stop] if begin <= cell < end else ""
            cell += size
    return text


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(words, splits), min_size=1, max_size=40), widths)
def test_every_token_is_reached_in_order_and_left_undoes_right(pieces: list[str], width: int) -> None:
    _, cursor = shown(chat_from(pieces), width)
    seen = walk(cursor)
    assert seen == [TokenRef(2, index) for index in range(len(pieces))]
    for before, after in pairwise(seen):
        cursor.put(after)
        cursor.move("left")
        assert cursor.ref == before
        cursor.move("right")
        assert cursor.ref == after


@settings(max_examples=150, deadline=None)
@given(st.lists(words, min_size=1, max_size=40), widths, st.booleans())
def test_the_cursor_stands_on_the_text_of_its_token(pieces: list[str], width: int, running: bool) -> None:
    document, cursor = shown(chat_from(pieces), width, running=running)
    for ref in walk(cursor):
        cursor.put(ref)
        wanted = re.sub(r"\s", "", sanitize(pieces[ref.index]))
        assert re.sub(r"\s", "", under(document, cursor)) == wanted
        main = cursor.main_spot
        if main.own and not main.blank:
            assert cursor.find_token(document.line_of(main.block, main.row), main.begin) == ref


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(words, splits), min_size=1, max_size=40), widths, st.booleans())
def test_every_cell_of_a_reply_is_some_token_s_and_no_cursor_leaves_the_lines(
    pieces: list[str], width: int, running: bool
) -> None:
    document, cursor = shown(chat_from(pieces), width, running=running)
    taken: set[tuple[int, int]] = set()
    last = first = (document.line_of(document.turns[1].blocks[1], 0), 0)
    for ref in walk(cursor):
        cursor.put(ref)
        assert cursor.spots
        for y, begin, end in cells(cursor, own=False):
            assert first[0] <= y < document.height
            assert 0 <= begin < end <= width - MARGIN
            assert (y, end) >= last, "tokens stand in their order"
            last = max(last, (y, begin))
        for y, begin, end in cells(cursor):
            taken.update((y, cell) for cell in range(begin, end))
    for y in range(first[0], document.height):
        found = document.find(y)
        assert found is not None
        if not isinstance(found[0], TextBlock):
            break  # a word on how the reply ended
        cell, line = 0, found[0].lines[found[1]]
        graphemes, size = split_graphemes(line.text.removesuffix("▌"))
        if size != cell_len(line.text.removesuffix("▌")):
            continue  # a joiner with nothing before it: no two ways to measure that agree
        for at, stop, size in graphemes:
            if size and line.text[at:stop].strip():
                assert {(y, cell + part) for part in range(size)} <= taken
            cell += size


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(words, splits), min_size=1, max_size=30), widths, st.data())
def test_a_cursor_in_a_growing_reply_is_where_it_is_in_the_finished_one(
    pieces: list[str], width: int, data: st.DataObject
) -> None:
    chat = chat_of("Go\nthere")
    node = reply(chat)
    document = Document(width, "probability")
    document.show(chat, running=True)
    document.rows = 100
    document.show_end()
    cursor = Cursor(document)
    for count, piece in enumerate(pieces, 1):
        node.add(token(len(node.tokens), piece))
        document.update(node.number)
        cursor.put(TokenRef(node.number, data.draw(st.integers(0, count - 1))))
        _, fresh = shown(chat_from(pieces[:count]), width)
        fresh.put(cursor.ref)
        assert cells(cursor, own=False) == cells(fresh, own=False)


@given(st.lists(st.one_of(words, splits), min_size=1, max_size=60), widths)
def test_a_token_is_in_the_same_place_whether_what_follows_was_looked_at_or_not(pieces: list[str], width: int) -> None:
    chat = chat_from(pieces)
    _, knowing = shown(chat, width)
    knowing.put(knowing.track.last())
    for ref in walk(knowing):
        knowing.put(ref)
        _, fresh = shown(chat, width)
        fresh.put(ref)
        assert cells(fresh, own=False) == cells(knowing, own=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(words, splits, st.just("word " * 300)), max_size=30), min_size=1, max_size=3),
    st.sampled_from(TOKEN_LOOKS),
    st.data(),
)
def test_a_reply_in_several_parts_is_painted_token_by_token_however_it_comes(
    parts: list[list[str]], look: TokenLook, data: st.DataObject
) -> None:
    """The text, its colours and marks and the span of every token, against lists that are just joined and counted."""
    chat = chat_of("Go")
    document = Document(40, look)
    expected: list[tuple[str, int, bool]] = []
    for pieces in parts:
        if chat.nodes[chat.leaf or 0].role == "assistant":
            chat.nodes[chat.leaf or 0].add(finished("user"))
        before = chat.nodes[chat.leaf or 0]
        node = chat.grow_node("assistant", parent=before.number, at=before.count_kept())
        node.add(start())
        node.add(settings_record(0.8))
        document.show(chat, running=True)
        document.read(len(document.turns) - 1)
        for piece in pieces:
            probability = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
            node.add(token(len(node.tokens), piece, probability, forced=data.draw(st.booleans())))
            if data.draw(st.booleans()):
                document.update(node.number)
        document.update(node.number)
        expected += zip(pieces, heats(node.tokens, look), map(bool, node.tokens.forced), strict=True)
    turn = document.turns[-1]
    blocks = [block for block in turn.blocks if isinstance(block, TextBlock)]
    found = [
        (char, ink.heat, ink.underline)
        for block in blocks
        for text, ink in block.source.make_runs(block.start, block.end, block.ink)
        for char in text
    ]
    assert found == [(char, heat, forced) for text, heat, forced in expected for char in text]
    refs = [TokenRef(part.node.number, index) for part in turn.parts for index in range(len(part.node.tokens))]
    at = 0
    for ref, (text, _, _) in zip(refs, expected, strict=True):
        assert document.track.span(ref) == (at, at + len(text))
        assert {document.track.find_token(1, at + place) for place in range(len(text))} <= {ref}
        at += len(text)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ([b"The", b" E"], [b"x", b"it"], "The Exit"),
        ([b"The ", b"\xe2\x82"], [b"\xac", b" 5"], "The € 5"),
        ([b"The ", b"EN", b"D"], [b" of it"], "The END of it"),
    ],
)
def test_text_that_came_with_no_token_stands_between_the_pieces_of_a_reply(
    first: list[bytes], second: list[bytes], text: str
) -> None:
    chat = Conversation()
    made_records.user(chat, "hi", [1])
    made_records.add_all(made_records.reply(chat), made_records.stream([1], first, stops=("END",), reason="user"))
    more = chat.grow_node("assistant", parent=2, at=len(first))
    made_records.add_all(more, made_records.stream([], second, done=b"".join(first)))
    parts = parts_of(chat.find_reply())
    source = TurnSource(parts)
    source.read()
    assert source.text == text == list(chat.list_turns())[-1][1]
    assert parts[-1].end == len(text)
    track, ref = Track([parts]), TokenRef(more.number, 0)
    begin, end = track.span(ref)
    assert (text[begin:end], track.find_token(0, begin)) == (more.tokens.texts[0], ref)


def test_long_replies_in_many_blocks() -> None:
    pieces = in_pieces((PROSE * 30 + "\n\n\n") * 3 + "x" * 9000 + "\n\n" + PROSE * 4)
    document, cursor = shown(chat_from(pieces), 60)
    assert len(document.turns[1].blocks) > 6
    cursor.put(cursor.track.at(0))
    for index, piece in enumerate(pieces):
        assert cursor.ref == TokenRef(2, index)
        assert under(document, cursor).strip() == piece.strip()
        cursor.move("right")


def test_tokens_without_text_stand_where_it_would_be() -> None:
    chat = chat_from(["a", "", "", "🦊", " b", "\n", ""])
    node = chat.nodes[2]
    node.add(finished())
    _, cursor = shown(chat, 40, running=False)
    places = []
    for index in range(7):
        cursor.put(TokenRef(2, index))
        places.append([(spot.begin, spot.end, spot.own) for spot in cursor.spots])
    assert places == [
        [(0, 1, True)], [(1, 2, False)], [(1, 2, False)], [(1, 3, True)], [(3, 5, True)], [(5, 6, True)], [(6, 7, False)],
    ]  # fmt: skip


def test_what_continues_a_character_has_its_cells() -> None:
    document, cursor = shown(chat_from(["I ", "👩", "\u200d", "🌾", "!"]), 40)
    for index in (1, 2, 3):
        cursor.put(TokenRef(2, index))
        assert under(document, cursor) == "👩\u200d🌾"
    cursor.put(TokenRef(2, 4))
    assert under(document, cursor) == "!"


def test_up_and_down_keep_the_column_and_pass_what_is_no_token() -> None:
    chat = chat_from(["one", " two", " three", "\n", "\n", "ab", "\n", "four", " five", " six"])
    chat.nodes[2].add(finished())
    ask(chat, "a question\n" * 3)
    second = reply(chat, "seven eight nine")
    second.add(settings_record(1.2))
    second.add(token(9, "\nten eleven"))
    document, cursor = shown(chat, 60)

    def go(how: Move, times: int) -> list[str]:
        passed = []
        for _ in range(times):
            cursor.move(how)
            passed.append(under(document, cursor))
        return passed

    cursor.put(TokenRef(2, 2))
    assert go("down", 6) == [" ", " ", " five", " eight", " ten eleven", " ten eleven"]
    assert go("up", 6) == [" eight", " five", " ", " ", " three", " three"]
    assert go("line_start", 2) == ["one", "one"]
    assert go("line_end", 2) == [" ", " "], "the line break ends the line"


def test_up_and_down_go_by_words_not_by_the_spaces_that_hang_over_the_line_before_them() -> None:
    pieces = [" aaaa", " bbbb", " cccc", " dddd", " eeee", " ffff"]
    document, cursor = shown(chat_from(pieces), 13)  # two words a line; the space before the third ends the first line
    assert [line.text for y in range(6, document.height) if (line := document.line(y))]
    cursor.put(TokenRef(2, 2))
    assert [spot.blank for spot in cursor.spots] == [True, False]
    seen = []
    for how in ("down", "up", "up", "right", "down", "line_end", "line_end", "line_start"):
        cursor.move(how)  # type: ignore[arg-type]
        assert cursor.ref is not None
        seen.append(cursor.ref.index)
    assert seen == [4, 2, 0, 1, 3, 3, 3, 2]


def test_only_what_the_path_takes_is_reached() -> None:
    chat = chat_of("Go", "one two three four five")
    fork = chat.grow_node("assistant", parent=2, at=2)
    fork.add(start())
    fork.add(settings_record(0.8))
    for piece in (" other", " words"):
        fork.add(token(len(fork.tokens), piece))
    document, cursor = shown(chat, 60)
    assert [*walk(cursor)] == [TokenRef(2, 0), TokenRef(2, 1), TokenRef(3, 0), TokenRef(3, 1)]
    assert cursor.track.nearest(TokenRef(2, 4)) == TokenRef(2, 1)
    assert cursor.track.nearest(TokenRef(9, 4)) == TokenRef(3, 1)
    cursor.put(TokenRef(3, 0))
    assert under(document, cursor) == " other"


def test_tokens_that_a_stop_sequence_swallowed_are_reached_until_the_chat_goes_on() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    for data, text in ((b"one", "one"), (b"\nUs", ""), (b"er:", "")):
        node.add(msgspec.structs.replace(token(len(node.tokens), text), bytes=data))
    node.add(finished("stop", "\nUser:", held="\nUser:"))
    document, cursor = shown(chat, 60, running=False)
    assert walk(cursor) == [TokenRef(2, 0), TokenRef(2, 1), TokenRef(2, 2)]
    ask(chat, "And?")
    document.show(chat, running=False)
    assert walk(cursor) == [TokenRef(2, index) for index in range(node.count_kept())]
    assert node.count_kept() < 3
