"""Messages of a megabyte, the longest that can be sent: a frame looks at a part of one, and nothing of the text is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.selection import Selection

from termchat.conversation.tree import Conversation
from termchat.tui.draw import wrap
from termchat.tui.draw.ink import Ink
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.blocks import TextBlock
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.selection import copy_text
from termchat.tui.transcript.turn import TOO_LONG, Turn
from termchat.tui.transcript.turn_source import parts_of
from tests.tui.transcripts import Host, ask, chat_of, finished, reply, screen, settled, token

WIDTH, ROWS = 80, 24
AT_ONCE = 20_000
"""Characters that may be laid out for one frame."""
LINE = "The quick brown fox jumps over the lazy dog.\n"
HUGE = {
    "lines": LINE * 20_000,
    "one line": LINE.replace("\n", " ") * 20_000,
    "one word": "x" * 1_000_000,
    "ideographs": "狐狸和熊住在森林里。" * 90_000,
    "line breaks": "\n" * 1_000_000,
    "foreign": "\x1b[31mred\x1b[0m\tx\u202e\n" * 60_000,
}
PIECES = ("word ", "\n", "x" * 900, "狐狸" * 700, "y" * 5_000, " ", "")


@pytest.fixture
def laid(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of each block of text that is laid out."""
    seen: list[int] = []
    content = TextBlock.content

    def counted(block: TextBlock, width: int) -> object:
        seen.append(block.end - block.start)
        return content(block, width)

    monkeypatch.setattr(TextBlock, "content", counted)
    return seen


def shown(chat: Conversation) -> Document:
    document = Document(WIDTH, "reading")
    document.show(chat, running=False)
    document.rows = ROWS
    document.show_end()
    return document


def all_of(document: Document) -> str:
    return copy_text(document, range(document.height))


@pytest.mark.parametrize("kind", HUGE)
def test_no_frame_lays_out_more_of_a_huge_message_than_some_blocks(kind: str, laid: list[int]) -> None:
    chat = chat_of("Hello.", "Hello.", HUGE[kind])
    document = shown(chat)
    assert len(document.blocks) < 1_500
    deeds: list[Callable[[], object]] = [
        lambda: document.show_line(document.height // 2),
        lambda: document.lay_more(lambda: True),
        lambda: document.resize(WIDTH - 20),
        lambda: document.show_end(),
        lambda: document.change_look("probability"),
        lambda: document.show_end(),
        lambda: document.show_line(0),
    ]
    assert sum(laid) < AT_ONCE
    for deed in deeds:
        laid.clear()
        deed()
        assert sum(laid) < AT_ONCE


@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_message_is_copied_whole_whether_or_not_it_is_laid_out(kind: str, laid: list[int]) -> None:
    document = shown(chat_of(HUGE[kind], "Well."))
    laid.clear()
    text = HUGE[kind].rstrip("\n")
    assert all_of(document) == "\n".join(["you", text, "", "smollm2 · seed 42", "Well."])
    assert sum(laid) < AT_ONCE


async def test_a_huge_message_is_laid_out_once(laid: list[int]) -> None:
    count = 20_000
    app = Host(chat_of(*(["".join(f"line {n}\n" for n in range(count))])), running=False)
    async with app.run_test(size=(WIDTH, ROWS)) as pilot:
        await settled(pilot)
        transcript = app.transcript
        assert transcript.line_count == count + 1
        laid.clear()
        for y in (0, count // 3, count - ROWS, 7):
            transcript.scroll_to(y=y, animate=False, force=True)
            await pilot.pause()
            assert screen(app) == [f"line {n}" if n >= 0 else "you" for n in range(y - 1, y - 1 + ROWS)]
        selected = transcript.get_selection(Selection(None, None))
        assert selected is not None
        assert selected[0] == "\n".join(["you", *(f"line {n}" for n in range(count))])
        assert not laid


def test_a_reply_too_long_for_its_markdown_is_shown_as_it_is(laid: list[int]) -> None:
    line = "**bold** and `code` and so on, all of it one line; "
    chat = chat_of("Go on.")
    long = chat.grow_node("assistant", parent=1, at=0)
    long.add(finished(held=line * 12_000))
    document = shown(chat)
    assert sum(laid) < AT_ONCE
    last = [document.line(y) for y in range(document.height - 12, document.height)]
    words = " ".join(line.text for line in last if line is not None)
    assert "**bold** and `code`" in words
    assert " ".join(TOO_LONG.split()[:4]) in words
    assert line * 12_000 in all_of(document)


def test_a_reply_with_one_very_long_line_is_read_as_markdown_piece_by_piece() -> None:
    line = "**bold** and `code` and so on, all of it one line; "
    chat = chat_of("Go on.")
    long = chat.grow_node("assistant", parent=1, at=0)
    long.add(finished(held=line * 6_000))
    document = shown(chat)
    laid_out = sum(block.end - block.start for block in document.blocks if block.lines)
    assert laid_out < AT_ONCE
    last = [document.line(y) for y in range(document.height - 4, document.height)]
    assert "bold and code and so on" in " ".join(line.text for line in last if line is not None)
    assert line * 6_000 in all_of(document)


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=60))
def test_blocks_are_the_text_in_order_however_it_comes(chosen: list[int]) -> None:
    pieces = [PIECES[number] for number in chosen]
    text = "".join(pieces)
    chat = chat_of("Go")
    node = reply(chat)
    in_parts = Turn(parts_of(chat.find_reply()), 1)
    for piece in pieces:
        node.add(token(len(node.tokens), piece))
        in_parts.read("probability", running=True)
    node.add(finished())
    at_once = Turn(parts_of(chat.find_reply()), 1)
    turns = at_once, in_parts
    for turn in turns:
        turn.read("probability", running=True)
    spans = [[(block.start, block.end) for block in turn.blocks] for turn in turns]
    assert spans[0] == spans[1]
    source, blocks = at_once.source, [block for block in at_once.blocks if isinstance(block, TextBlock)]
    texts = ["".join(run for run, _ in source.make_runs(block.start, block.end, block.ink)) for block in blocks]
    assert texts == [text[block.start : block.end] for block in blocks]
    assert "".join(texts) == text


@given(st.text(st.sampled_from("狐かなカー、。「」っ々漢字 a\u3099\n"), max_size=80), st.integers(2, 20))
def test_ideographs_wrap_the_same_in_a_run_and_one_by_one(text: str, width: int) -> None:
    run, one_by_one = Wrapper(width), Wrapper(width)
    run.feed(text, Ink())
    for char in text:
        one_by_one.feed(char, Ink())
    assert run.lines == one_by_one.lines
    assert run.line_starts == one_by_one.line_starts


def test_what_most_text_is_made_of_is_not_looked_at_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    sanitize = wrap.sanitize
    monkeypatch.setattr(wrap, "sanitize", lambda text: looked_at.append(text) or sanitize(text))
    wrapper = Wrapper(WIDTH)
    wrapper.feed(LINE * 1_000 + "    indented\n", Ink())
    assert not looked_at
    assert wrapper.lines[-2].text == "    indented"


async def test_a_message_of_a_megabyte_in_a_chat_that_grows_is_not_laid_out_again(laid: list[int]) -> None:
    chat = chat_of(HUGE["lines"], "Well.")
    app = Host(chat, running=False)
    async with app.run_test(size=(WIDTH, ROWS)) as pilot:
        await pilot.pause()
        ask(chat, "And then?")
        worker = app.transcript._worker
        assert worker is not None
        worker.pause()
        laid.clear()
        app.transcript.show(chat)
        assert sum(laid) < AT_ONCE
