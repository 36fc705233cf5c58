"""What is found is what a plain search of the whole text finds, however the text came."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region

from termchat.conversation.tree import Conversation
from termchat.tui.transcript import Look, hits
from termchat.tui.transcript.chunks import Splitter
from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.hits import Finding, make_pattern
from termchat.tui.transcript.markdown import ChunkBlock, find_code
from termchat.tui.transcript.selection import map_characters
from termchat.tui.transcript.turn_source import parts_of
from termchat.tui.transcript.view import CURRENT, HIT
from tests import made_records
from tests.tui.transcripts import LOOKS, PROSE, REPLY, Host, chat_of, settled, source_of


def turns(chat: Conversation) -> list[tuple[object, ...]]:
    return [parts_of([span]) for span in chat.find_path()]


@given(st.lists(st.text("ab *\n狐", max_size=4), max_size=30), st.text("ab狐 ", min_size=1, max_size=4))
def test_a_text_that_comes_in_pieces_is_searched_as_the_whole(pieces: list[str], query: str) -> None:
    chat = Conversation()
    user = chat.grow_node("user", parent=None, at=0, text="a")
    node = chat.grow_node("assistant", parent=user.number, at=0)
    search = Finding()
    search.read(turns(chat))  # type: ignore[arg-type]
    search.look_for(query, Anchor(0, 0))
    for step, piece in enumerate(pieces):
        node.add(made_records.token(step, piece.encode(), piece))
        search.read(turns(chat))  # type: ignore[arg-type]
    pattern = make_pattern(query)
    expected = [found.span() for found in pattern.finditer("".join(pieces))] if pattern is not None else []
    assert list(search.hits(1)) == expected


@given(st.text("ab *\n", max_size=200), st.text("ab ", min_size=1, max_size=3), st.integers(1, 40))
def test_a_search_in_parts_finds_the_same_as_one_of_the_whole(text: str, query: str, at_once: int) -> None:
    chat = chat_of("a b", text, "ab")
    whole, parts = Finding(), Finding()
    for search in (whole, parts):
        search.read(turns(chat))  # type: ignore[arg-type]
    near = Anchor(1, len(text) // 2)
    whole.look_for(query, near)
    assert not whole.is_going_on
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hits, "AT_ONCE", at_once)
        parts.look_for(query, near)
        for _ in range(len(text) + 6):
            parts.go_on()
    assert not parts.is_going_on
    assert [list(parts.hits(turn)) for turn in range(3)] == [list(whole.hits(turn)) for turn in range(3)]
    assert parts.current == whole.current


def test_no_more_of_a_huge_message_is_searched_at_once_than_a_frame_has_time_for() -> None:
    search = Finding()
    search.read(turns(chat_of("a fox " * 500_000)))  # type: ignore[arg-type]
    search.look_for("fox", Anchor(0, 0))
    assert search.is_going_on
    assert search.count == pytest.approx(hits.AT_ONCE / 6, abs=2)
    assert search.at == 0
    while search.is_going_on:
        before = search.count
        search.go_on()
        assert search.count - before < hits.AT_ONCE / 6 + 2
    assert search.count == 500_000


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("fox", "Fox fox FOX", ["Fox", "fox", "FOX"]),
        ("Fox", "Fox fox FOX", ["Fox"]),
        ("the fox", "the\n   fox, the **fox**, the\n- fox, thefox", ["the\n   fox", "the **fox**", "the\n- fox"]),
        ("a.b", "a.b axb", ["a.b"]),
        ("熊 睡", "狐狸和熊\n睡", ["熊\n睡"]),
    ],
)
def test_a_space_is_any_space_and_capitals_count_where_there_are_some(query: str, text: str, found: list[str]) -> None:
    pattern = make_pattern(query)
    assert pattern is not None
    got = [hit[0] for hit in pattern.finditer(text)]
    assert [re.sub(r"\*+$", "", hit) for hit in got] == [re.sub(r"\*+$", "", hit) for hit in found]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("width", [30, 90])
@pytest.mark.parametrize("query", ["狐狸", "quick brown", "fox", "lazy dog, while"])
async def test_what_is_marked_on_the_screen_is_what_was_looked_for(look: Look, width: int, query: str) -> None:
    app = Host(chat_of("a fox", REPLY + "\n\n" + PROSE * 3), look)
    async with app.run_test(size=(width, 100)) as pilot:
        await settled(pilot)
        view = app.transcript
        search = Finding()
        search.read(view.parts())
        search.look_for(query, Anchor(0, 0))
        view.finding = search
        marked = ""
        plain = view._paint.style  # how a hit is painted
        grounds = {plain(ink).bgcolor for ink in (HIT, CURRENT)}
        for strip in view.render_lines(Region(0, 0, width, 100)):
            marked += "".join(text for text, style, _ in strip if style is not None and style.bgcolor in grounds)
        assert search.count > 0
        assert marked.replace(" ", "").lower() == query.replace(" ", "") * search.count


@pytest.mark.parametrize("opening", ["```c", "~~~"])
def test_each_line_of_code_is_where_it_is_in_the_text(opening: str) -> None:
    code = ["#include <stdio.h>", "#include <stdlib.h>", "", "int main(void) { return 0; }"]
    text = "\n".join(["hello", "", opening, *code, opening[:3], ""])
    splitter = Splitter()
    splitter.feed(text)
    chunk = [*splitter.finished(), *splitter.open(done=True)][1]
    block = ChunkBlock(source_of(text), chunk)
    block.lay(60)
    for line in filter(None, code):
        at = text.index(line)
        row = block.row_of(at)
        assert block.lines[row].text.strip() == line
        assert map_characters(block, row)[: len(line)] == list(range(at, at + len(line)))
    whole = [block.find_line_span(row) for row in range(len(block.lines))]
    assert (whole[0][0], whole[-1][1]) == (block.start, block.end)


def test_blocks_of_code_are_found_in_lists_too_and_while_they_are_open() -> None:
    text = "x\n```py\na\n\n  b\n```\n1. y\n   ~~~~\n   c\n   ~~~\n   ~~~~\n- ```\n  d\n  ```\n`e`\n```\nopen"
    assert find_code(text) == [
        ("a\n\n  b", "py"),
        ("c\n~~~", ""),
        ("d", ""),
        ("open", ""),
    ]
