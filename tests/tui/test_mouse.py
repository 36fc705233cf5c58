"""What the mouse does, by real coordinates."""

from __future__ import annotations

from textual import events
from textual.app import App, ComposeResult

from termchat.chat.changes import Notice
from termchat.decoding.samplers import KNOBS
from termchat.engine.port import Force
from termchat.tui.draw.ink import Ink, Line, doing
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.draw.list_dialog import Picker
from termchat.tui.lists.branch_tree import TreeDialog
from termchat.tui.lists.models_dialog import ModelsDialog
from termchat.tui.lists.small_dialogs import BreakpointsDialog, KeyList
from termchat.tui.pages.token_bar import Tokens
from termchat.tui.themes.theme_file import load_themes
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import Desktop, click, desktop, place
from tests.tui.token_mode import looking


class Clicked(App[None]):
    """A line of which two words do something."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.view = LinesView()

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.paint_with(load_themes()[0]["dark"])
        runs = [
            ("語 ", Ink()),
            *doing("app.hear('one')", [("one ", Ink())]),
            *doing("app.hear('two')", [("two", Ink())]),
        ]
        self.view.show_lines([Line(tuple(runs))])

    def action_hear(self, what: str) -> None:
        self.heard.append(what)


def _underlined(view: LinesView) -> str:
    return "".join(text for text, style, _ in view.render_line(0) if style is not None and style.underline)


async def test_a_click_does_what_the_run_under_it_says() -> None:
    app = Clicked()
    async with app.run_test() as pilot:
        for x in (0, 1, 2, 3, 4, 7, 8, 10, 11):  # a margin of one cell, and a character of two
            await pilot.click(app.view, offset=(x, 0))
        await pilot.click(app.view, offset=(5, 0), button=3)
        assert app.heard == ["one", "one", "two", "two"]


async def test_what_the_mouse_is_over_is_underlined_where_it_does_something() -> None:
    app = Clicked()
    async with app.run_test() as pilot:
        for x, words in ((5, "one"), (9, "two"), (1, ""), (4, "one")):
            await pilot.hover(app.view, offset=(x, 0))
            await pilot.pause()
            assert _underlined(app.view) == words
        await pilot.hover(None, offset=(5, 5))
        await pilot.pause()
        assert _underlined(app.view) == ""


# --- on the screen of a chat -----------------------------------------------------------------------------------------


async def candidate(desk: Desktop, title: str, number: int) -> None:
    """Clicks a candidate of the table with that title."""
    x, y = place(desk, title)
    await desk.pilot.click(None, offset=(x + 3, y + number))
    await desk.settle()


async def wheel(desk: Desktop, text: str, *, up: bool, right: int = 0, shift: bool = False) -> None:
    """Turns the wheel by a step over a text on the screen."""
    x, y = place(desk, text)
    kind = events.MouseScrollUp if up else events.MouseScrollDown
    await desk.pilot._post_mouse_events([kind], None, (x + right, y), shift=shift)
    await desk.settle()


async def test_a_click_on_a_knob_opens_tune_on_it() -> None:
    async with desktop() as desk:
        await click(desk, "p top_p")
        assert " TUNE   top_p" in desk.text
        await click(desk, "k top_k", right=12)  # its value
        assert " TUNE   top_k" in desk.text
        await desk.type("", "right")
        assert desk.chat.tuning.top_k == 41


async def test_the_wheel_over_a_knob_turns_it_by_a_step_and_leaves_the_keyboard_where_it_is() -> None:
    async with desktop() as desk:
        await desk.type("dra")
        await wheel(desk, "t temp", up=True)
        assert desk.chat.tuning.temperature == 0.85
        await wheel(desk, "t temp", up=False, right=25)  # its bar
        await wheel(desk, "t temp", up=False, shift=True)
        assert desk.chat.tuning.temperature == 0.55
        await desk.type("ft")
        assert desk.composer.text == "draft"


async def test_a_bar_is_dragged_and_one_undo_takes_all_of_it_back() -> None:
    async with desktop() as desk:
        _, y = place(desk, "p top_p")
        line = desk.text.splitlines()[y]
        begin, end = line.index("━"), max(line.rindex("━"), line.rindex("─"))
        await desk.pilot.mouse_down(None, offset=(begin, y))
        assert desk.chat.tuning.top_p == 0.0
        middle = (begin + end) // 2
        for at in (begin + 3, middle):
            await desk.pilot.hover(None, offset=(at, y))
        await desk.pilot.mouse_up(None, offset=(middle, y))
        await desk.settle()
        assert abs(desk.chat.tuning.top_p - 0.5) <= 1 / (end - begin)
        await desk.pilot.hover(None, offset=(end, y))  # the button is up
        await desk.settle()
        assert abs(desk.chat.tuning.top_p - 0.5) <= 1 / (end - begin)
        await desk.pilot.mouse_down(None, offset=(middle, y))
        await desk.pilot.mouse_up(None, offset=(119, y))  # beyond its end
        await desk.settle()
        assert desk.chat.tuning.top_p == 1.0
        await desk.type("", "ctrl+t", "z", "z")
        assert desk.chat.tuning.top_p == KNOBS["top_p"].default


def test_every_place_on_a_bar_is_a_value_that_the_bar_shows_there() -> None:
    for knob in KNOBS.values():
        if knob.stage is not None and knob.kind not in ("texts", "biases"):
            for at in range(11):
                value = knob.check(knob.at(at / 10))
                assert abs(knob.fraction(value) - at / 10) < max(0.06, 0.51 * knob.step / knob.bar), (
                    knob.name,
                    at,
                    value,
                )


async def test_candidates_are_clicked_where_a_reply_waits_and_in_token_mode() -> None:
    async with desktop() as desk:
        await click(desk, "NEXT TOKEN")
        await desk.sent("go", "One", " two")
        await desk.type("", "ctrl+g", "space")
        assert "PENDING" in desk.text
        before = len(desk.engine.asked(Force))
        await candidate(desk, "CANDIDATES", 2)
        assert len(desk.engine.asked(Force)) == before + 1
        await desk.type("", "escape")
        assert "NEXT TOKEN" in desk.text
        await candidate(desk, "NEXT TOKEN", 2)
        assert len(desk.engine.asked(Force)) == before + 2


async def test_a_click_on_a_candidate_of_a_token_that_was_taken_forks() -> None:
    async with looking() as desk:
        before = len(desk.chat.conversation.nodes)
        await desk.type("", "h", "h")
        await candidate(desk, "CANDIDATES", 2)
        assert len(desk.chat.conversation.nodes) == before + 1


async def test_a_click_on_a_candidate_while_nothing_waits_says_how_to_fork() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One", " two")
        desk.engine.end()
        await desk.settle()
        await candidate(desk, "NEXT TOKEN", 2)
        assert "open token mode (Ctrl+G)" in desk.text


async def test_what_the_key_line_names_is_pressed_by_a_click_on_it() -> None:
    async with desktop((160, 40)) as desk:
        await click(desk, "tune", right=1)
        assert " TUNE " in desk.text
        await click(desk, "x off", right=3)
        assert desk.chat.tuning.temperature == KNOBS["temperature"].off
        await click(desk, "p top_p")
        await click(desk, "d default", right=3)
        await click(desk, "Esc back", right=5)
        assert " TUNE " not in desk.text
        await desk.type("hi")
        await click(desk, "Enter send")
        assert desk.composer.text == ""
        assert "hi" in desk.text


async def test_the_header_leads_to_the_models_and_to_the_saved_chats() -> None:
    async with desktop((160, 40)) as desk:
        await click(desk, "tiny Q4_1")
        assert isinstance(desk.app.screen, ModelsDialog)
        await click(desk, "Esc closes")
        assert len(desk.app.screen_stack) == 1


async def test_a_notice_is_clicked_away_and_the_others_stay() -> None:
    async with desktop() as desk:
        screen = desk.app.screen_stack[0]
        for number in range(3):
            screen.tell(Notice(f"notice {number}", f"hint {number}", "warning"))  # type: ignore[attr-defined]
        await desk.settle()
        await click(desk, "hint 1")
        assert "notice 0" in desk.text
        assert "notice 1" not in desk.text
        assert "notice 2" in desk.text


async def test_tokens_are_clicked_and_the_wheel_scrolls_the_chat() -> None:
    async with desktop((120, 20)) as desk:
        await desk.sent("go", *(f"word{number}\n\n" for number in range(30)))
        desk.engine.end()
        await desk.settle()
        transcript = desk.app.query_one(TranscriptView)
        last = desk.text
        await wheel(desk, "word29", up=True)
        assert desk.text != last
        assert not transcript.following
        await desk.type("", "ctrl+l")
        await click(desk, "word27")
        assert transcript.cursor is not None
        assert transcript.cursor.index == 27


async def test_a_click_on_the_ribbon_puts_the_cursor_on_that_token() -> None:
    async with looking() as desk:
        tokens, transcript = desk.app.screen.query_one(Tokens), desk.app.query_one(TranscriptView)
        here = transcript.cursor
        assert here is not None
        assert here.index > 0
        await desk.pilot.click(tokens.ribbon, offset=(1, 0))
        await desk.settle()
        assert transcript.cursor == here._replace(index=0)
        await desk.pilot.click(tokens.ribbon, offset=(60, 0))  # beside it
        await desk.settle()
        assert transcript.cursor == here._replace(index=0)
        assert desk.app.focused is tokens.ribbon


async def test_rows_are_chosen_by_a_click_and_the_wheel_and_taken_by_a_double_click() -> None:
    async with looking() as desk:
        await desk.type("", "h", "h", "2", "y")  # a branch, and the tree
        assert isinstance(desk.app.screen, TreeDialog)
        picker = desk.app.screen.query_one(Picker)
        chosen = picker.chosen
        await click(desk, "tell me")
        assert picker.chosen != chosen
        await wheel(desk, "tell me", up=False)
        assert picker.chosen == 1
        await click(desk, "n names", right=2)
        assert desk.app.screen.query_one("Input").has_focus
        await click(desk, "Esc closes")
        await click(desk, "tell me", times=2)
        assert len(desk.app.screen_stack) == 1


async def test_the_wheel_scrolls_text_and_a_click_chooses_nothing_there() -> None:
    async with desktop((100, 20)) as desk:
        await desk.type("", "f1")
        assert isinstance(desk.app.screen, KeyList)
        first = desk.text
        await wheel(desk, "CHAT", up=False)
        assert desk.text != first
        here = desk.text
        await click(desk, "Ctrl+T", times=2)
        assert desk.text == here
        await wheel(desk, "Ctrl+T", up=True)
        assert desk.text == first


async def test_breakpoints_are_chosen_and_turned_off_by_clicks() -> None:
    async with looking() as desk:
        await desk.type("", "b")
        assert isinstance(desk.app.screen, BreakpointsDialog)
        await desk.type("entropy > 5", "enter")
        await desk.type("entropy > 4", "enter")
        await click(desk, "entropy > 5", times=2)
        assert [rule.enabled for rule in desk.chat.breakpoints] == [False, True]
