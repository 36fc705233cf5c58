"""The token cursor as a person uses it: keys, mouse, what is on the screen, and how much of it is drawn again."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from termchat.conversation.tree import Conversation
from termchat.tui.transcript import TokenRef, TranscriptView, cursor, view
from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.selection import map_characters
from tests.tui.transcripts import (
    PROSE,
    THEMES,
    Host,
    ask,
    chat_of,
    finished,
    in_pieces,
    numbered_chat,
    reply,
    screen,
    settled,
    texts,
    token,
)

KEYS = {"h": "left", "l": "right", "k": "up", "j": "down", "g": "first", "G": "last", "u": "turn_up", "d": "turn_down"}


class Desk(Host):
    """A transcript with keys for its cursor."""

    BINDINGS = [(key, f"move('{how}')") for key, how in KEYS.items()]  # noqa: RUF012

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.heard: list[TokenRef | None] = []

    def compose(self) -> ComposeResult:
        yield TranscriptView(THEMES[self.theme])

    def action_move(self, how: str) -> None:
        self.transcript.move_cursor(how)  # type: ignore[arg-type]

    def on_transcript_view_cursor_moved(self, event: TranscriptView.CursorMoved) -> None:
        self.heard.append(event.ref)


def marked(app: Host) -> list[tuple[int, str]]:
    """Row and text of what is painted as the cursor."""
    ground = THEMES[app.theme].cursor
    return [
        (y, segment.text)
        for y in range(app.transcript.size.height)
        for segment in app.transcript.render_line(y)
        if segment.style is not None
        and segment.style.bgcolor is not None
        and segment.style.bgcolor.get_truecolor().hex == ground
    ]


def short() -> Conversation:
    chat = chat_of("Go")
    node = reply(chat)
    for piece in ("one", " two", "\n", "three", " four", ""):
        node.add(token(len(node.tokens), piece))
    node.add(finished())
    return chat


async def test_keys_move_it_and_every_move_is_told() -> None:
    app = Desk(short(), "probability")
    async with app.run_test(size=(40, 12)) as pilot:
        app.transcript.open_cursor()
        assert app.transcript.cursor == TokenRef(2, 5)
        assert marked(app) == [(5, " ")], "the end token stands behind the text"
        await pilot.press("h", "k", "l", "l", "g", "h")
        assert [ref.index for ref in app.heard if ref is not None] == [5, 4, 1, 2, 3, 0]
        assert marked(app) == [(4, "one")]
        await pilot.press("l", "l")
        assert marked(app) == [(4, " ")], "a line break has a cell behind its line"
        app.transcript.close_cursor()
        await pilot.pause()
        assert app.transcript.cursor is None
        assert app.heard[-1] is None
        assert marked(app) == []


async def test_from_the_reading_look_it_goes_to_a_token_look_and_back() -> None:
    app = Desk(short(), "reading")
    async with app.run_test(size=(40, 12)):
        transcript = app.transcript
        transcript.open_cursor()
        assert transcript.look == "probability"
        transcript.look = "entropy"
        assert marked(app)
        transcript.close_cursor()
        assert transcript.look == "reading"
        transcript.set_cursor(TokenRef(2, 1))
        assert transcript.look == "entropy", "the look that it had last time"
        transcript.look = "reading"
        assert transcript.cursor is None, "the reading look has no cursor"
        assert transcript.look == "reading"


async def test_a_chat_without_tokens_has_no_cursor() -> None:
    app = Desk(chat_of("Go"), "reading")
    async with app.run_test(size=(40, 12)):
        app.transcript.open_cursor()
        app.transcript.move_cursor("left")
        assert app.transcript.cursor is None
        assert app.transcript.look == "reading"


async def test_it_opens_on_the_newest_token_in_view_and_stays_in_view() -> None:
    app = Desk(numbered_chat(12), "probability")
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await settled(pilot)
        transcript.scroll_to(y=38, animate=False)
        before = screen(app)
        transcript.open_cursor()
        assert screen(app) == before
        assert marked(app)[-1][0] >= 17
        for key in "kkkkkkkkkkkkkkkkkkkkkkkkkkgGududjjjjjjjjjj":
            await pilot.press(key)
            assert marked(app), key
        top = transcript.scroll_offset.y
        transcript.set_cursor(TokenRef(2, 3))
        assert transcript.scroll_offset.y < top
        assert marked(app)


async def test_one_line_further_scrolls_by_one_line() -> None:
    app = Desk(numbered_chat(6), "probability")
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        app.transcript.scroll_to(y=30, animate=False)
        app.transcript.open_cursor()
        before = screen(app)
        while app.transcript.scroll_offset.y == 30:
            app.transcript.move_cursor("down")
        assert screen(app)[:-2] == before[1:-1] or screen(app)[:-3] == before[2:-1]
        assert marked(app)[0][0] == 19


async def test_where_nothing_was_laid_out_yet_it_is_shown_all_the_same() -> None:
    app = Desk(numbered_chat(60), "probability")
    async with app.run_test(size=(60, 20)):
        node = app.chat.nodes[60]
        app.transcript.set_cursor(TokenRef(60, 7))
        assert not app.transcript.is_complete
        assert "".join(text for _, text in marked(app)) == node.tokens.texts[7]


async def test_a_click_puts_it_on_a_token() -> None:
    app = Desk(short(), "probability")
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.click(TranscriptView, offset=(6, 4))
        assert app.transcript.cursor == TokenRef(2, 1)
        await pilot.click(TranscriptView, offset=(30, 5))
        assert app.transcript.cursor == TokenRef(2, 4), "behind the line: its last token"
        await pilot.click(TranscriptView, offset=(2, 0))
        assert app.transcript.cursor == TokenRef(2, 4), "what a person wrote has no cursor"
        app.transcript.close_cursor()
        app.transcript.look = "reading"
        await pilot.click(TranscriptView, offset=(6, 4))
        assert app.transcript.cursor is None


async def test_selecting_text_does_not_move_it() -> None:
    app = Desk(short(), "probability")
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.mouse_down(TranscriptView, offset=(2, 4))
        await pilot.hover(TranscriptView, offset=(7, 4))
        await pilot.mouse_up(TranscriptView, offset=(7, 4))
        await pilot.pause()
        assert app.screen.get_selected_text()
        assert app.transcript.cursor is None


async def test_while_a_reply_streams_it_and_the_view_stay() -> None:
    chat = chat_of("Go")
    node = reply(chat, "word " * 8)
    app = Desk(chat, "probability")

    def say(piece: str) -> None:
        node.add(token(len(node.tokens), piece))
        app.transcript.grew(node.number)

    async with app.run_test(size=(30, 8)) as pilot:
        app.transcript.open_cursor()
        newest = app.transcript.cursor
        first = marked(app)
        say("ly")  # the word under the cursor may move to the next line, and the cursor with it
        assert [text.strip() for _, text in marked(app)] == [text.strip() for _, text in first]
        for _ in range(40):
            say(" more")
        assert app.transcript.cursor == newest
        assert marked(app)
        assert screen(app)[-1].endswith("lines")
        await pilot.press("G")
        assert app.transcript.cursor == TokenRef(node.number, len(node.tokens) - 1)
        assert "more" in marked(app)[0][1]
        app.transcript.close_cursor()
        assert app.transcript.following
        for _ in range(40):
            say(" more")
        assert screen(app)[-1].endswith("more▌")


async def test_it_keeps_its_token_through_widths_looks_and_palettes() -> None:
    app = Desk(numbered_chat(5), "probability")
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        app.transcript.set_cursor(TokenRef(4, 30))
        written = app.chat.nodes[4].tokens.texts[30]
        for size in ((25, 10), (110, 30), (60, 20)):
            await pilot.resize_terminal(*size)
            assert "".join(text for _, text in marked(app)).strip() == written.strip(), size
        app.transcript.look = "time"
        assert "".join(text for _, text in marked(app)) == written
        app.theme = "light"
        app.transcript.palette = THEMES["light"]
        assert "".join(text for _, text in marked(app)) == written
        assert app.transcript.cursor == TokenRef(4, 30)


async def test_another_path_takes_it_to_what_is_left_of_its_reply() -> None:
    chat = chat_of("Go", "one two three four")
    app = Desk(chat, "probability")
    async with app.run_test(size=(40, 12)) as pilot:
        app.transcript.set_cursor(TokenRef(2, 3))
        fork = chat.grow_node("assistant", parent=2, at=2)
        app.transcript.show(chat)
        assert app.transcript.cursor == TokenRef(2, 1)
        fork.add(token(0, " other"))
        app.transcript.grew(fork.number)
        app.transcript.move_cursor("right")
        assert app.transcript.cursor == TokenRef(3, 0)
        assert [span.count for span in app.transcript.cursor_reply] == [2, 1]
        chat.leaf = 1
        app.transcript.show(chat)
        await pilot.pause()
        assert app.transcript.cursor is None
        assert app.heard[-1] is None


async def test_the_selection_and_the_cursor_part_no_character() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    for piece in ("a", "👩\u200d🌾", " and", " e\u0301", "x"):
        node.add(token(len(node.tokens), piece))
    app = Desk(chat, "probability")
    async with app.run_test(size=(40, 12)):
        for index in range(5):
            app.transcript.set_cursor(TokenRef(2, index))
            assert [text for _, text in marked(app)] == [node.tokens.texts[index]]
            strip = app.transcript.render_line(4)
            assert sum(segment.cell_length for segment in strip) == strip.cell_length == app.transcript.size.width


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Region]:
    """Regions that are to be drawn again."""
    regions: list[Region] = []

    def touch(_: object, *touched: Region) -> None:
        regions.extend(touched)

    monkeypatch.setattr(view, "touch", touch)
    return regions


def long_chat(tokens: int) -> Conversation:
    chat = chat_of("Go")
    node = reply(chat)
    for piece in in_pieces((PROSE * 4 + "\n\n") * (tokens // 80))[:tokens]:
        node.add(token(len(node.tokens), piece))
    node.add(finished())
    return chat


async def test_a_move_draws_two_lines_and_looks_at_some_lines_only(
    drawn: list[Region], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(
        cursor, "map_characters", lambda block, row: looked_at.append(row) or map_characters(block, row)
    )
    worst = []
    for tokens in (1000, 8000):
        app = Desk(long_chat(tokens), "probability")
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            app.transcript.open_cursor()
            app.transcript.move_cursor("up")
            spent = []
            for how in ("left", "left", "right", "up", "line_start", "line_end", "left", "up"):
                drawn.clear()
                looked_at.clear()
                app.transcript.move_cursor(how)  # type: ignore[arg-type]
                assert sum(region.height for region in drawn) <= 2
                spent.append(len(looked_at))
                app.transcript.move_cursor("last") if how == "up" else None
            for how in ("first", "last", "entropy_prev", "surprise_next", "turn_up", "turn_down"):
                looked_at.clear()
                app.transcript.move_cursor(how)  # type: ignore[arg-type]
                spent.append(len(looked_at))
            worst.append(max(spent))
    assert max(worst) < 12, "however long the reply"


async def test_a_move_that_leads_nowhere_draws_nothing(drawn: list[Region]) -> None:
    app = Desk(short(), "probability")
    async with app.run_test(size=(40, 12)) as pilot:
        app.transcript.open_cursor()
        await pilot.pause()
        drawn.clear()
        heard = len(app.heard)
        app.transcript.move_cursor("right")
        app.transcript.move_cursor("fork_next")
        assert drawn == []
        assert len(app.heard) == heard


async def test_without_a_cursor_streaming_looks_for_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    chat = chat_of("Go")
    node = reply(chat, "one two")
    app = Desk(chat, "entropy")
    async with app.run_test(size=(40, 12)):
        monkeypatch.setattr(cursor, "map_characters", never)
        for _ in range(50):
            node.add(token(len(node.tokens), " fox"))
            app.transcript.grew(node.number)
        assert texts(app)[-1].endswith("fox▌")


async def test_with_a_cursor_only_the_open_block_is_laid_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    laid: list[int] = []
    lay = Block.lay
    monkeypatch.setattr(Block, "lay", lambda block, width: laid.append(block.width != width) or lay(block, width))
    chat = chat_of("Go")
    node = reply(chat, PROSE)
    app = Desk(chat, "entropy")
    async with app.run_test(size=(40, 30)):
        app.transcript.open_cursor()
        laid.clear()
        for _ in range(20):
            node.add(token(len(node.tokens), " fox"))
            app.transcript.grew(node.number)
        assert sum(laid) == 20, "only the open block"


async def test_the_keys_of_forks_go_where_another_branch_leaves_the_path() -> None:
    chat = chat_of("Go", "one two three four five")
    fork = chat.grow_node("assistant", parent=2, at=3)
    fork.add(token(0, " other"))
    chat.leaf = 2
    app = Desk(chat, "probability")
    async with app.run_test(size=(60, 12)):
        app.transcript.set_cursor(TokenRef(2, 0))
        app.transcript.move_cursor("fork_next")
        assert app.transcript.cursor == TokenRef(2, 3)
        app.transcript.move_cursor("last")
        app.transcript.move_cursor("fork_prev")
        assert app.transcript.cursor == TokenRef(2, 3)


async def test_it_walks_from_reply_to_reply() -> None:
    app = Desk(numbered_chat(3), "reading")

    async def go(pilot: Pilot[None], keys: str) -> str:
        await pilot.press(*keys)
        return "".join(text for _, text in marked(app))

    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        app.transcript.open_cursor()
        assert await go(pilot, "g") == "Paragr"
        assert await go(pilot, "lll") == app.chat.nodes[2].tokens.texts[3]
        assert await go(pilot, "d") == app.chat.nodes[4].tokens.texts[0]
        ask(app.chat, "More?")
        app.transcript.show(app.chat)
        assert await go(pilot, "u") == app.chat.nodes[2].tokens.texts[0]
