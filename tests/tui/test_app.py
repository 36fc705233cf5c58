"""The app on a fake engine: what a person types and what then stands on the screen."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from textual import events
from textual.command import CommandPalette

from termchat.chat import opening
from termchat.chat.changes import Notice
from termchat.chat.loading import Choice
from termchat.conversation.session import Breakpoint
from termchat.conversation.store.database import StoreError
from termchat.decoding.conditions import Text
from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.port import Adjust, Cancel, Load, ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.pages.panels import Panels
from termchat.tui.transcript import TranscriptView
from tests.chats import chat_on, chosen, switch_to
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import FRAME, PATIENCE, SPEC, Desktop, command, desktop


async def test_whoever_waits_for_an_app_that_failed_hears_why() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async with desktop() as desk:
        desk.app.call_later(fail)
        with pytest.raises(ZeroDivisionError):
            await desk.settle()
        desk.app._exception = None  # which has been heard


# --- the first frame -------------------------------------------------------------------------------------------------


async def test_a_text_sent_while_the_model_loads_is_shown_as_queued_and_sent_when_it_is_there() -> None:
    async with desktop(loads=False) as desk:
        desk.engine.load_up_to(0.4)
        await desk.type("hello there", "enter")
        assert "loading" in desk.text
        assert "40%" in desk.text
        assert "queued  hello there" in desk.text
        desk.engine.load_up_to(1.0)
        await desk.settle()
        desk.engine.say("Hi", " you")
        await desk.settle()
        assert "queued" not in desk.text
        assert "hello there" in desk.text
        assert "Hi you" in desk.text


async def test_the_model_is_not_asked_for_before_the_screen_has_been_drawn() -> None:
    drawn: list[bool] = []

    class Watched(FakeEngine):
        def send(self, command: object) -> int:
            drawn.append(bool(app.screen._compositor.visible_widgets) and app.screen.size.width > 0)
            return super().send(command)  # type: ignore[arg-type]

    engine = Watched()
    app = TermchatApp(chat_on(engine), chosen(SPEC), theme="dark")
    async with app.run_test() as pilot:
        await Desktop(app, engine, pilot).until(lambda: drawn)
    assert drawn == [True]


async def test_knobs_follow_what_is_recommended_for_the_model_and_what_they_refuse_is_told() -> None:
    async with desktop(load=lambda chat: switch_to(chat, Choice(SPEC, {"top_k": 7, "temperature": 9.0}))) as desk:
        assert desk.chat.tuning.top_k == 7
        assert "the model's recommendation is ignored" in desk.text


async def test_what_is_wrong_in_the_list_of_models_is_told_with_the_model_that_is_loaded() -> None:
    mistakes = ("models.toml cannot be read: it is a pipe", *(f"mistake {number}" for number in range(9)))
    async with desktop(load=lambda chat: switch_to(chat, Choice(SPEC, {}, mistakes))) as desk:
        assert "models.toml cannot be read: it is a pipe" in desk.text
        assert "8 more configuration mistakes" in desk.text
        assert desk.engine.commands


async def test_without_a_model_the_screen_says_what_to_do() -> None:
    notice = Notice("no model was found", "pip install 'termchat[smollm2]' \x1b[31m", "error")
    async with desktop(spec=None, notices=[notice]) as desk:
        assert "no model was found" in desk.text
        assert "pip install 'termchat[smollm2]' ␛[31m" in desk.text
        assert not [command for command in desk.engine.commands if isinstance(command, Load)]
        await desk.type("still works")
        assert desk.composer.text == "still works"


# --- the chat --------------------------------------------------------------------------------------------------------


async def test_sending_streaming_and_the_end_of_a_reply() -> None:
    async with desktop() as desk:
        await desk.sent("tell me", "Once", " upon")
        assert desk.composer.text == ""
        assert "Once upon" in desk.text
        assert "writing" in desk.text
        desk.engine.say(" a time.")
        desk.engine.end()
        await desk.settle()
        assert "Once upon a time." in desk.text
        assert "ready" in desk.text


async def test_keys_in_one_burst_are_taken_in_order() -> None:
    async with desktop() as desk:
        for key in ("a", "b", "enter", "c"):
            desk.app.simulate_key(key)
        await desk.settle()
        assert [text for role, text in desk.chat.conversation.list_turns() if role == "user"] == ["ab"]
        assert desk.composer.text == "c"


async def test_a_newline_is_not_sent() -> None:
    async with desktop() as desk:
        await desk.type("a", "ctrl+j", "b", "shift+enter", "c")
        assert desk.composer.text == "a\nb\nc"
        assert not desk.engine.generated


@pytest.mark.parametrize("asked", ["setup", "queue", "breakpoints", "theme", "persona", "presets", "history", "save"])
async def test_a_dialog_on_a_low_screen_is_whole(asked: str) -> None:
    async with desktop(size=(40, 12)) as desk:
        await desk.type(f"/{asked}", "enter")
        await desk.settle()
        box = desk.app.screen.query("Vertical").first().region
        assert desk.app.screen.region.contains_region(box)
        shown = " ".join(desk.text.replace("│", " ").split())
        assert "Esc closes" in shown or "Esc cancels" in shown


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("ctrl+o", "no reply to continue yet"),
        ("ctrl+r", "no reply to regenerate"),
        ("ctrl+f", "the chat is empty"),
        ("ctrl+g", "no tokens yet"),
    ],
)
async def test_a_key_that_has_nothing_to_do_in_an_empty_chat_says_so(key: str, said: str) -> None:
    async with desktop() as desk:
        await desk.type("", key)
        await desk.settle()
        assert said in desk.text


async def test_the_key_for_a_new_line_that_every_terminal_has_is_the_one_that_is_named() -> None:
    async with desktop() as desk:
        await desk.type("", "f1", *"new line")
        assert "Ctrl+J" in desk.text


async def test_enter_while_a_reply_streams_queues_and_the_next_reply_follows() -> None:
    async with desktop() as desk:
        await desk.sent("one", "first")
        await desk.type("two", "enter")
        assert "+1 queued" in desk.text
        desk.engine.end()
        await desk.settle()
        desk.engine.say("second")
        await desk.settle()
        assert "second" in desk.text
        assert "queued" not in desk.text


async def test_escape_closes_the_innermost_thing_before_it_stops_the_reply() -> None:
    async with desktop((80, 24)) as desk:
        await desk.sent("go", "on", " and")
        await desk.type("", "ctrl+b")
        await desk.type("", "ctrl+t", "1")
        assert "TUNE" in desk.text
        await desk.type("", "escape")  # what was typed
        assert "TUNE" in desk.text
        await desk.type("", "escape")  # TUNE
        assert "TUNE" not in desk.text
        assert "CHAIN" in desk.text
        await desk.type("", "escape")  # the drawer
        assert "CHAIN" not in desk.text
        assert desk.chat.busy
        await desk.type("", "escape")
        assert not desk.chat.busy
        assert desk.engine.asked(Cancel)
        assert "on and" in desk.text


async def test_regenerate_continue_and_new() -> None:
    async with desktop() as desk:
        await desk.sent("go", "first")
        desk.engine.end("user")
        await desk.settle()
        await desk.type("", "ctrl+o")
        assert desk.engine.generated[-1].done == 1
        desk.engine.say(" more")
        desk.engine.end()
        await desk.settle()
        assert "first more" in desk.text
        await desk.type("", "ctrl+r")
        desk.engine.say("another")
        desk.engine.end()
        await desk.settle()
        assert "another" in desk.text
        assert "first more" not in desk.text
        await desk.type("", "ctrl+n")
        assert "another" not in desk.text
        assert "A new chat" in desk.text


async def test_a_turn_that_does_not_fit_comes_back_to_the_composer() -> None:
    async with desktop() as desk:
        desk.engine.prompt = [1] * 2050
        await desk.type("too much", "enter")
        await desk.settle()
        assert desk.composer.text == "too much"
        assert "the prompt has 2050 tokens, the context 2048" in desk.text


async def test_ctrl_c_stops_then_asks_then_quits() -> None:
    async with desktop() as desk:
        await desk.sent("go", "on")
        await desk.type("", "ctrl+c")
        assert not desk.chat.busy
        await desk.type("", "ctrl+c")
        assert "press Ctrl+C again to quit" in desk.text
        await desk.type("", "ctrl+c")
        assert desk.engine.closed
        assert desk.app.return_code == 0


@pytest.mark.parametrize("between", ["x", "left", "ctrl+l", "paste"])
async def test_anything_between_two_ctrl_c_takes_the_question_back(between: str) -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+c")
        assert "press Ctrl+C again to quit" in desk.text
        if between == "paste":
            desk.app.post_message(events.Paste("text"))
            await desk.settle()
        else:
            await desk.type("", between)
        assert "again to quit" not in desk.text
        await desk.type("", "ctrl+c")
        assert "press Ctrl+C again to quit" in desk.text
        assert not desk.engine.closed


async def test_ctrl_c_says_that_a_draft_would_be_lost_and_keeps_it() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+c")
        assert "be lost" not in desk.text
        await desk.type("a draft", "ctrl+c")
        assert "press Ctrl+C again to quit; your unsent text would be lost" in desk.text
        assert desk.composer.text == "a draft"
        await desk.type("", "ctrl+c")
        assert desk.engine.closed


async def test_the_keys_that_delete_are_pressed_where_there_is_little_or_nothing_to_delete() -> None:
    deleting = ("backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+shift+k")
    async with desktop() as desk:
        for key in deleting:
            await desk.type("", key)
            assert desk.composer.text == ""
            await desk.type("one", "ctrl+j", key, key, key)
            assert desk.composer.text in ("one\n", "one", "on", "o", "")
            await desk.type("", *["ctrl+k"] * 3, *["ctrl+u"] * 3)
            assert desk.composer.text == ""


async def test_ctrl_c_copies_what_is_selected() -> None:
    async with desktop() as desk:
        await desk.type("copy me")
        desk.composer.select_all()
        await desk.type("", "ctrl+c")
        assert desk.app.clipboard == "copy me"
        assert "again to quit" not in desk.text


async def test_the_chat_scrolls_while_the_composer_has_the_keyboard() -> None:
    async with desktop((80, 24)) as desk:
        await desk.sent("go", *[f"line {n}\n\n" for n in range(60)])
        assert "line 59" in desk.text
        await desk.type("", "pageup")
        assert "line 59" not in desk.text
        desk.engine.say("later")
        await desk.settle()
        assert "later" not in desk.text
        await desk.type("", "ctrl+end")
        assert "later" in desk.text


async def test_a_click_into_the_chat_or_tab_does_not_take_the_keyboard_from_what_is_open() -> None:
    async with desktop() as desk:
        await desk.sent("go", "some", " text")
        transcript = desk.app.query_one(TranscriptView)
        await desk.type("a dr")
        await desk.pilot.click(transcript, offset=(3, 4))
        await desk.type("af", "tab")
        await desk.type("t")
        assert desk.composer.text == "a draft"
        await desk.type("", "ctrl+t")
        await desk.type("k")
        await desk.pilot.click(transcript, offset=(3, 4))
        await desk.type("7", "enter")
        adjusted = [command for command in desk.engine.commands if isinstance(command, Adjust)]
        assert adjusted[-1].samplers.top_k == 7
        assert desk.composer.text == "a draft"


async def test_the_look_changes_and_changes_back() -> None:
    async with desktop() as desk:
        await desk.sent("go", "some", " **text**")
        transcript = desk.app.query_one(TranscriptView)
        await desk.type("", "ctrl+l")
        assert transcript.look == "probability"
        assert "**text**" in desk.text
        await desk.type("", *["ctrl+l"] * 5)  # after, entropy, rank, time, reading
        assert transcript.look == "reading"
        assert "**text**" not in desk.text


# --- knobs -----------------------------------------------------------------------------------------------------------


async def test_tune_turns_a_knob_in_mid_reply_and_leaves_the_composer_alone() -> None:
    async with desktop() as desk:
        await desk.sent("go", "a")
        await desk.type("half a th")
        desk.composer.move_cursor((0, 4))
        await desk.type("", "ctrl+t", "t", "1", "full_stop", "2", "enter")
        adjusted = [command for command in desk.engine.commands if isinstance(command, Adjust)]
        assert [command.samplers.temperature for command in adjusted] == [1.2]
        desk.engine.say("b")
        await desk.settle()
        assert "temperature 0.8 → 1.2 at token 1" in desk.text
        await desk.type("", "escape")
        assert (desk.composer.text, desk.composer.cursor_location) == ("half a th", (0, 4))
        await desk.type("X")
        assert desk.composer.text == "halfX a th"


async def test_tune_opens_on_the_last_knob_and_shows_errors_in_place() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "k", "escape", "ctrl+t")
        assert "TUNE   top_k" in desk.text
        await desk.type("", "minus", "1", "enter")
        assert "top_k must be a whole number from 0" in desk.text
        assert desk.chat.tuning.top_k == 40


async def test_stop_sequences_are_edited_in_one_line() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "s", "enter")
        await desk.type("", "backslash", "n", "6", "enter")
        assert desk.chat.tuning.stop == ("\n6",)
        assert '"\\n6"' in desk.text
        await desk.type("", "escape", "escape")
        assert desk.app.focused is desk.composer


async def test_the_stop_editor_opens_empty_lists_what_is_there_and_says_what_works_in_it() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "s", "enter", *"one", "enter", *"two", "enter", *"half", "escape", "enter")
        assert desk.chat.tuning.stop == ("one", "two")
        assert "half" not in desk.text
        *_, listed, _edge, _composer, keys = desk.text.splitlines()
        assert '"one"' in listed
        assert '"two"' in listed
        assert "Enter add  Tab add, keep the text  Backspace when empty, removes the last" in keys
        assert "Esc back" in keys
        assert "undo" not in keys
        await desk.type("", *"3x", "backspace", "enter", "backspace", "backspace")
        assert desk.chat.tuning.stop == ("one",)
        assert '"two"' not in desk.text
        await desk.type("", "escape")
        assert "Enter edit" in desk.text


async def test_turning_a_knob_while_idle_shows_a_preview() -> None:
    async with desktop() as desk:
        await desk.sent("go", "a", "b")
        desk.engine.end()
        await desk.settle()
        assert "PREVIEW" not in desk.text
        await desk.type("", "ctrl+t", "m", "right")
        assert "PREVIEW" in desk.text
        assert "entropy 7.25 bit" in desk.text


# --- dialogs ---------------------------------------------------------------------------------------------------------


async def test_saving_asks_for_a_path_and_before_it_replaces_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved: list[Path] = []

    def save(path: Path) -> None:
        if path.stem == "bad":
            raise OSError("no space left \x1b[2J")
        saved.append(path)

    monkeypatch.setattr(opening, "make_saver", lambda _session, path: partial(save, path))
    async with desktop() as desk:
        (tmp_path / "there.md").write_text("old")

        async def answer(path: Path) -> None:
            desk.app.screen.query_one("Input").value = str(path)  # type: ignore[attr-defined]
            await desk.type("", "enter")

        await desk.type("", "ctrl+s")
        assert "chat.md" in desk.text
        await answer(tmp_path / "x.txt")
        assert "x.txt has no known transcript extension" in desk.text
        await answer(tmp_path / "bad.md")
        await desk.shows("no space left ␛[2J")
        await answer(tmp_path / "there.md")
        assert "there.md exists; press Enter again to overwrite it" in desk.text
        assert saved == []
        await desk.type("", "end", "x", "backspace")
        assert "overwrites" not in desk.text
        await desk.type("", "enter")
        assert saved == []
        await desk.type("", "enter")
        await desk.shows("saved")
        assert saved == [tmp_path / "there.md"]


@pytest.mark.parametrize("fails", [False, True])
async def test_the_chat_goes_on_while_a_long_transcript_is_written(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    go_on = Event()

    def save() -> None:
        assert go_on.wait(60)
        if fails:
            raise StoreError("saved chats cannot be read", "Try again in a moment.")

    monkeypatch.setattr(opening, "make_saver", lambda _session, _path: save)
    async with desktop() as desk:
        try:
            await desk.type("", "ctrl+s", "enter")
            assert "Saving" in desk.text
            await desk.type("", "enter", "escape")
            await desk.type("hello")
            assert desk.composer.text == "hello"
            assert "chat.md" not in desk.text
        finally:
            go_on.set()
        await desk.shows("saved chats cannot be read. Try again" if fails else "saved chat.md")


async def test_the_setup_dialog_begins_a_raw_chat_or_one_with_a_system_prompt() -> None:
    async with desktop() as desk:
        await desk.type("", "f2")
        await desk.type("be brief", "enter")
        assert (desk.chat.conversation.system, desk.chat.conversation.raw) == ("be brief", False)
        assert "System prompt: be brief" in desk.text
        await desk.type("", "f2")
        assert "[ ] raw mode" in desk.text
        await desk.type("", "tab")
        assert "[x] raw mode" in desk.text
        await desk.type("", "tab")
        assert "[ ] raw mode" in desk.text
        await desk.type("", "tab", "enter")
        assert desk.chat.conversation.raw
        assert "Raw mode: the model continues" in desk.text


async def test_a_new_chat_keeps_the_knobs_only_where_that_is_chosen_and_says_what_it_resets() -> None:
    async with desktop() as desk:
        for keys, kept in (
            (("ctrl+n",), False),
            (("/raw", "enter"), False),
            (("/system Be brief.", "enter"), False),
            (("f2", "enter"), False),
            (("f2", "shift+tab", "enter"), True),
            (("/new keep", "enter"), True),
        ):
            await desk.sent("go", "One")
            desk.engine.end()
            await command(desk, "/temperature 1.5")
            await command(desk, "/choice yes | no")
            assert "replies match" in desk.text
            await desk.type(*keys if keys[0].startswith("/") else ("", *keys))
            assert ("Not at default: temperature 1.5 (panel), seed 1" in desk.text) is kept
            assert desk.chat.tuning == Tuning(seed=1, temperature=1.5 if kept else 0.8)
            assert (desk.chat.constraint is not None) is kept
            assert "replies match" not in desk.text
            if not kept:
                assert 'reset for the new chat: temperature 1.5, choice ["yes", "no"]' in desk.text


async def test_an_empty_chat_keeps_what_was_set_for_it() -> None:
    async with desktop() as desk:
        await command(desk, "/temperature 1.5")
        await command(desk, "/rule after 3 sentences")
        await command(desk, "/choice yes | no")
        for text, system, raw in (
            ("/system Be brief.", "Be brief.", False),
            ("/raw", "", True),
            ("/raw", "Be brief.", False),
            ("/new", "Be brief.", False),
            ("/persona exact", None, False),
        ):
            await command(desk, text)
            assert system is None or desk.chat.conversation.system == system
            assert desk.chat.conversation.raw is raw
            assert desk.chat.constraint is not None
            assert len(desk.chat.breakpoints) == 1
            assert desk.chat.tuning.temperature == 1.5 or text.startswith("/persona")
            assert ("the chat is empty already. Kept: temperature 1.5" in desk.text) is (text == "/new")
        await desk.type("", "f2")
        assert "[x] keep temperature" in desk.text
        await desk.type("", "shift+tab", "enter")
        assert (desk.chat.constraint, desk.chat.breakpoints) == (None, ())
        assert desk.chat.tuning == Tuning(seed=1)
        await desk.type("", "f2")
        assert "] keep" not in desk.text


async def test_raw_mode_can_be_clicked_and_enter_still_starts_the_chat() -> None:
    async with desktop() as desk:
        await desk.type("", "f2")
        await desk.pilot.click("#setup-raw")
        assert "[x] raw mode" in desk.text
        desk.app.screen.set_focus(None)
        await desk.type("", "enter")
        assert desk.chat.conversation.raw


async def test_the_key_line_offers_nothing_to_go_on_with_in_an_empty_chat() -> None:
    async with desktop((160, 40)) as desk:
        assert "Ctrl+T tune" in desk.text
        assert "continue" not in desk.text
        assert "regenerate" not in desk.text
        await desk.sent("go", "a")
        desk.engine.end()
        await desk.settle()
        assert "Ctrl+O continue" in desk.text
        assert "Ctrl+R regenerate" in desk.text


async def test_two_clicks_beside_the_palette_at_once_close_it_once() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+p")
        where = {
            "widget": None,
            "x": 1,
            "y": 39,
            "delta_x": 0,
            "delta_y": 0,
            "shift": False,
            "meta": False,
            "ctrl": False,
        }
        for kind in (events.MouseDown, events.MouseUp) * 2:
            event = kind(**where, button=1)
            event.set_sender(desk.app)
            desk.app.post_message(event)
        await desk.settle()
        assert len(desk.app.screen_stack) == 1
        await desk.type("a message")
        assert desk.composer.text == "a message"


async def test_pages_of_the_palette_are_no_failure_where_the_terminal_is_too_low_for_it() -> None:
    async with desktop(size=(80, 1)) as desk:
        await desk.type("", "ctrl+p", "pageup", "down", "pagedown")
        assert isinstance(desk.app.screen, CommandPalette)


async def test_the_palette_lists_everything_and_does_it() -> None:
    async with desktop() as desk:
        commands = {command.title: command for command in desk.app.get_system_commands(desk.app.screen)}
        for title in ("Tune", "Save transcript", "New chat", "Quit", "Theme light", "System prompt and raw mode"):
            assert title in commands
        for title, key in (("Tune", "Ctrl+T  "), ("Panels", "Ctrl+B  "), ("What-if", "Ctrl+G v  "), ("Keys", "F1  ")):
            assert commands[title].help.startswith(key), title
        await desk.type("", "ctrl+p")
        await desk.type("save")
        await desk.until(lambda: "Save transcript" in desk.text and "Quit" not in desk.text)
        await desk.type("", "escape")
        callback: Callable[[], object] = commands["Theme light"].callback
        callback()
        await desk.settle()
        assert desk.app.theme == "light"


async def test_a_key_can_be_remapped_and_the_key_line_says_so() -> None:
    async with desktop(keymap={"tune": "f9", "send": "f5"}) as desk:
        assert "F9 tune" in desk.text
        assert "F5 send" in desk.text
        await desk.type("", "f9")
        assert "TUNE" in desk.text
        await desk.type("", "escape")
        await desk.type("hi", "f5")
        assert next(text for _, text in desk.chat.conversation.list_turns()) == "hi"


# --- sizes -----------------------------------------------------------------------------------------------------------


async def test_under_a_hundred_columns_the_panels_are_a_drawer() -> None:
    async with desktop((80, 24)) as desk:
        panels = desk.app.query_one(Panels)
        assert not panels.display
        await desk.type("", "ctrl+b")
        assert panels.display
        await desk.type("", "ctrl+b", "ctrl+t")
        assert panels.display
        await desk.type("", "escape")
        assert not panels.display


async def test_a_terminal_that_is_too_small_says_so_and_comes_back_in_mid_reply() -> None:
    async with desktop((120, 40)) as desk:
        await desk.sent("go", "before")
        await desk.pilot.resize_terminal(39, 11)
        await desk.settle()
        assert " ".join(desk.text.split()) == "terminal too small (39x11), needs 40x12"
        desk.engine.say(" after")
        await desk.settle()
        await desk.pilot.resize_terminal(40, 12)
        await desk.settle()
        assert "before after" in desk.text


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (100, 30), (120, 40), (200, 60)])
async def test_every_line_fits_at_every_size(size: tuple[int, int]) -> None:
    async with desktop(size) as desk:
        await desk.sent("go", "word ", "word ")
        await desk.type("", "ctrl+t")
        lines = desk.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in lines} == {size[0]}
        assert "CHAIN" in desk.text
        assert "TUNE" in desk.text


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_a_dead_engine_is_noticed_while_idle_and_one_key_starts_it_again() -> None:
    async with desktop() as desk:
        desk.engine.die()
        end = monotonic() + PATIENCE
        while "ended by SIGKILL" not in desk.text:  # nobody calls tick: the descriptor wakes the screen
            assert monotonic() < end, desk.text
            await desk.pilot.pause(FRAME)
        assert "Ctrl+O starts the engine again" in desk.text
        await desk.type("", "ctrl+o")
        assert "SIGKILL" not in desk.text
        assert "ready" in desk.text


@pytest.mark.parametrize(
    ("url", "kind", "continues"),
    [
        ("http://box", "engine", "Ctrl+O tries again"),
        ("ssh://box", "engine", "Ctrl+O starts the engine again"),
        ("http://box", "server", "Ctrl+O continues the reply"),
    ],
)
async def test_what_one_key_does_about_an_engine_elsewhere_is_told(url: str, kind: str, continues: str) -> None:
    async with desktop() as desk:
        desk.chat.loading.switch_model(Choice(ModelSpec("", "tiny", engine=EngineAddress("box", url)), {}))
        await desk.until(lambda: desk.chat.phase == "idle")
        await desk.sent("go", "one", " two")
        desk.engine.die("box broke off", kind)
        await desk.settle()
        assert "box broke off" in desk.text
        assert continues in desk.text
        await desk.type("", "ctrl+o")
        assert continues not in desk.text


async def test_a_death_in_mid_reply_keeps_the_text_and_goes_on_from_the_same_token() -> None:
    async with desktop() as desk:
        await desk.sent("go", "one", " two")
        desk.engine.die()
        await desk.settle()
        assert "one two" in desk.text
        await desk.type("", "ctrl+o")
        assert desk.engine.generated[-1].done == 2
        desk.engine.say(" three")
        await desk.settle()
        assert "one two three" in desk.text


@pytest.mark.parametrize(
    "what", ["a message", "the next reply", "another model", "a new chat", "another chat of this kind"]
)
async def test_a_notice_of_an_error_goes_when_its_cause_is_gone(what: str) -> None:
    """Without the key that also stops replies."""
    async with desktop() as desk:
        await desk.sent("go", "one")
        desk.engine.die("the server broke off", "server")
        await desk.settle()
        assert "▌ the server broke off" in desk.text
        if what == "a message":
            await desk.type("more", "enter")
        elif what == "the next reply":
            await desk.type("", "ctrl+r")
        elif what == "another model":
            desk.chat.loading.switch_model(Choice(ModelSpec("/other.gguf", "other"), {}))
        elif what == "a new chat":
            await desk.type("", "ctrl+n")
        else:
            await command(desk, "/raw")
        await desk.settle()
        assert "▌ the server broke off" not in desk.text


async def test_an_error_of_the_start_is_there_when_the_model_is() -> None:
    notice = Notice("this chat will not be saved", "", "error")
    async with desktop(notices=[notice]) as desk:
        assert desk.chat.phase == "idle"
        assert "this chat will not be saved" in desk.text


async def test_a_signal_ends_the_engine_then_closes_the_store_and_names_itself_in_the_code() -> None:
    order: list[bool] = []
    async with desktop(close=lambda: order.append(engine_closed())) as desk:

        def engine_closed() -> bool:
            return desk.engine.closed

        await desk.sent("go", "on")
        signal.raise_signal(signal.SIGTERM)
        end = monotonic() + PATIENCE
        while not order and monotonic() < end:
            await asyncio.sleep(FRAME)
    assert order == [True]
    assert desk.app.return_code == 128 + signal.SIGTERM


async def test_what_is_pasted_is_drawn_with_marks_and_sent_as_it_is() -> None:
    async with desktop() as desk:
        desk.app.post_message(events.Paste("a\x1b[31mb\u202ec"))
        await desk.settle()
        assert "a␛[31mb\N{REPLACEMENT CHARACTER}c" in desk.text
        await desk.type("", "enter")
        assert "\x1b" not in desk.text
        assert next(text for _, text in desk.chat.conversation.list_turns()) == "a\x1b[31mb\u202ec"


async def test_a_long_coloured_log_is_pasted_at_once_and_sent_as_it_is() -> None:
    log = "\n".join(f"\x1b[3{n % 8}mline {n}\x1b[0m\ttext" for n in range(3000))
    async with desktop() as desk:
        desk.app.post_message(events.Paste(log))
        await desk.settle()
        assert "3,000 lines #1]" in desk.text
        await desk.type("", "tab")
        assert "␛[37mline 2999␛[0m" in desk.text
        assert not desk.engine.generated
        await desk.type("", "enter")
        assert [text for role, text in desk.chat.conversation.list_turns() if role == "user"] == [log]


async def test_a_text_that_ends_the_reply_is_kept_on_demand() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "s", "enter")
        await desk.type("}", "tab")
        await desk.type("END", "enter")
        assert 'stop before  "END"   after  "}"' in desk.text
        assert (desk.chat.tuning.stop, desk.chat.breakpoints) == (("END",), (Breakpoint(Text("}", action="stop")),))
        await desk.type("}", "tab")
        assert desk.chat.breakpoints == ()
        await desk.type("", "tab")
        assert desk.app.focused is desk.app.screen.query_one("AskLine Input")
