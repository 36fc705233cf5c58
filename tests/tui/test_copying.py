"""What is copied is the text itself: without line breaks that only the width made, without marks, with its Markdown."""

from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from termchat.tui.transcript import Look
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.selection import copy_text
from tests.attacks import CONTROLS, MARKUP
from tests.tui.transcripts import (
    LOOKS,
    PROSE,
    REPLY,
    Host,
    chat_of,
    finished,
    reply,
    settings_record,
    settled,
    shown,
    texts,
    token,
)

HOSTILE = "said: " + " ".join(CONTROLS.values()).replace("\r", "") + "\tand a tab, " + MARKUP["Textual"]


def place(app: Host, text: str, *, after: bool = False) -> Offset:
    """Where a text begins, or ends, on the screen."""
    for y, line in enumerate(texts(app)):
        if text in line:
            return Offset(1 + line.index(text) + len(text) * after, y)
    raise AssertionError(text)


def selected(app: Host, begin: Offset | None, end: Offset | None) -> str:
    found = app.transcript.get_selection(Selection(begin, end))
    assert found is not None
    return found[0]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("text", [REPLY, PROSE * 60, HOSTILE, "\n".join(f"  line {n}\t" for n in range(200))])
@pytest.mark.parametrize("width", [24, 100])
async def test_a_whole_turn_is_copied_exactly(look: Look, text: str, width: int) -> None:
    app = Host(chat_of(text, text), look)
    async with app.run_test(size=(width, 20)) as pilot:
        await settled(pilot)
        assert selected(app, None, None) == f"you\n{text}\n\nsmollm2 · seed 42\n{text}"


@pytest.mark.parametrize("look", LOOKS)
async def test_a_part_of_a_line_that_is_wrapped_is_copied_without_the_break(look: Look) -> None:
    app = Host(chat_of("Go", PROSE * 3), look)
    async with app.run_test(size=(40, 60)) as pilot:
        await settled(pilot)
        begin, end = place(app, "quick"), place(app, "sleep", after=True)
        assert end.y > begin.y
        assert selected(app, begin, end) == "quick brown fox jumps over the lazy dog, while **bears** sleep"


async def test_parts_of_markdown_are_copied_as_they_were_written() -> None:
    app = Host(chat_of("Go", REPLY))
    async with app.run_test(size=(120, 80)) as pilot:
        await settled(pilot)
        code = selected(app, place(app, "class Fox"), place(app, "age: int = 3", after=True))
        assert code == 'class Fox:\n    """A fox has an age."""\n\n    age: int = 3'
        assert selected(app, place(app, "bold words"), place(app, "bold words", after=True)) == "bold words"
        assert (
            selected(app, place(app, "plan"), place(app, "emphasis", after=True))
            == "plan, with **bold words**, *emphasis"
        )
        assert selected(app, place(app, "狐狸和熊"), place(app, "狐狸和熊", after=True)) == "狐狸和熊"


@pytest.mark.parametrize("look", LOOKS)
async def test_a_part_with_marks_is_copied_without_them(look: Look) -> None:
    app = Host(chat_of("Go", "one \x1b]52;c;aGk=\x07 two\u202e three"), look)
    async with app.run_test(size=(80, 20)) as pilot:
        await settled(pilot)
        assert "␛]52;c;aGk=␇ two<U+202E> three" in "\n".join(texts(app))
        assert selected(app, place(app, "]52"), place(app, "three", after=True)) == "]52;c;aGk=\x07 two\u202e three"


@pytest.mark.parametrize("raw", [False, True])
def test_a_selection_may_begin_where_nothing_is_laid_out_any_more(raw: bool) -> None:
    """In another look or width its first line may be on a head that takes fewer lines than was estimated."""
    chat = chat_of(PROSE * 9, PROSE, "Go", "So")
    chat.raw = raw
    for begin in range(12):
        document = Document(60, "reading")
        document.show(chat, running=False)
        assert document.height > 12
        assert copy_text(document, range(begin, document.height), 3).endswith("So")


def test_of_a_text_of_which_only_a_mark_is_selected_nothing_is_copied() -> None:
    chat = chat_of("Go")
    node = reply(chat, "one two")
    node.add(settings_record(1.2))
    node.add(token(len(node.tokens), " three"))
    node.add(finished("length", "3"))
    document, _ = shown(chat, 60)
    assert document.line(document.height - 2).text.startswith("┊")  # type: ignore[union-attr]
    assert copy_text(document, range(document.height - 2, document.height)) == "╌ reached 3"
