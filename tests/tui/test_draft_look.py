"""The look of drafts: which tokens were accepted, which stand where a draft was rejected, and which were decoded alone."""

from __future__ import annotations

import pytest

from termchat.conversation.tree import Span
from termchat.decoding.records import Draft
from termchat.tui.draw.ink import BLANK, Paint
from termchat.tui.pages.token_bar import BLOCKS, ribbon_line
from termchat.tui.themes.library import PLAIN as NO_COLOUR
from termchat.tui.transcript import TokenRef, TranscriptView, looks
from termchat.tui.transcript.cursor import Cursor
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.looks import ACCEPTED, PLAIN, REJECTED, heats, legend_line
from tests.tui.drafted import drafted, say_plain, say_story
from tests.tui.running_app import command, desktop
from tests.tui.transcripts import THEMES, chat_of, reply


@pytest.mark.parametrize("theme", [*THEMES, "no-color"])
def test_accepted_rejected_and_plain_tokens_look_different_in_every_theme(theme: str) -> None:
    paint = Paint(NO_COLOUR if theme == "no-color" else THEMES[theme])
    chat = chat_of("Go")
    node = reply(chat)
    drafted(node, 4)
    document = Document(60, "drafts")
    document.show(chat, running=False)
    document.rows = 50
    document.show_end()
    cursor = Cursor(document)
    cursor.put(TokenRef(node.number, 0))
    segments = [
        segment for segment in paint.strip(document.line(cursor.rows()[0]) or BLANK, 60) if "fox" in segment.text
    ]
    assert [segment.text.strip() for segment in segments] == ["fox fox", "fox", "fox"]
    assert len({segment.style for segment in segments}) == 3


def test_a_word_says_what_each_colour_means_and_why_there_is_none() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    drafted(node, 4)
    told = legend_line("drafts", [Span(node, 4)])
    assert told.text == "drafts   accepted   rejected   plain   forced"
    by_word = {text.strip(): ink for text, ink in told.runs}
    inks = looks._DRAFTED[looks.DRAWN]
    assert [by_word[word] for word in ("accepted", "rejected", "plain")] == [
        inks[ACCEPTED],
        inks[REJECTED],
        inks[PLAIN],
    ]

    bare = reply(chat)
    assert legend_line("drafts", [Span(bare, 0)]).text.endswith("none in this reply: speculation was off")


def test_the_ribbon_is_high_where_a_draft_was_rejected_and_flat_where_there_was_none() -> None:
    node = reply(chat_of("Go"))
    drafted(node, 8)
    assert list(heats(node.tokens, "drafts")) == [ACCEPTED, ACCEPTED, REJECTED, PLAIN] * 2
    line = ribbon_line([Span(node, 8)], "drafts", None, 40).text
    assert line[2] == line[6] == BLOCKS[-1]
    assert line[3] == line[7] == BLOCKS[0]
    assert BLOCKS[0] < line[0] == line[1] < BLOCKS[-1]


async def test_the_look_is_offered_only_where_something_was_drafted() -> None:
    async with desktop() as desk:
        view = desk.app.query_one(TranscriptView)
        await desk.sent("hi")
        say_plain(desk.engine, " Once", " upon")
        desk.engine.end()
        seen = []
        for _ in range(7):
            await desk.type("", "ctrl+l")
            seen.append(view.look)
        assert set(seen) == {*looks.LOOKS} - {"drafts"}

        await desk.sent("again")
        say_story(desk.engine)
        desk.engine.end()
        await desk.settle()
        seen = []
        for _ in range(7):
            await desk.type("", "ctrl+l")
            seen.append(view.look)
        assert set(seen) == set(looks.LOOKS)
        assert seen[seen.index("drafts") - 1] == "time"


async def test_a_look_that_was_asked_for_without_drafts_says_why_it_is_plain() -> None:
    async with desktop() as desk:
        await desk.sent("hi")
        say_plain(desk.engine, " Once", " upon")
        await command(desk, "/look drafts")
        await desk.shows("none in this reply: speculation was off")


@pytest.mark.parametrize("count", [500, 8_000])
def test_a_frame_measures_no_token_twice(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    node = reply(chat_of("Go"))
    drafted(node, count)
    ribbon_line([Span(node, count)], "drafts", None, 80)
    asked: list[int] = []

    def draft(index: int) -> Draft | None:
        asked.append(index)
        return None

    monkeypatch.setattr(node.tokens, "find_draft", draft)
    drafted(node, 3)
    ribbon_line([Span(node, count + 3)], "drafts", None, 80)
    assert asked == [count, count + 1, count + 2]
