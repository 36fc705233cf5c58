"""The composer: it grows, walks through what was written, holds long pastes, completes paths, counts tokens."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from textual import events

from termchat.engine.port import Render
from termchat.external_editor import EditorError, editor_command
from termchat.tui.composer import chat_composer
from termchat.tui.composer.chat_composer import History, include
from termchat.tui.composer.completion import Popup
from termchat.tui.draw.field import Field
from tests.tui.running_app import PATIENCE, Desktop, desktop

LONG = "".join(f"line {number}\n" for number in range(20_431))


async def paste(desk: Desktop, text: str) -> None:
    desk.app.post_message(events.Paste(text))
    await desk.settle()


def sent(desk: Desktop) -> list[str]:
    """What the model was told in the end."""
    return [node.written for node in desk.chat.conversation.nodes.values() if node.role == "user"]


def drawn_cursor(desk: Desktop) -> str:
    """The text of the composer that is drawn as the cursor."""
    style = desk.composer.get_component_rich_style("text-area--cursor")
    strips = desk.composer.render_lines(desk.composer.size.region)
    return "".join(text for strip in strips for text, here, _ in strip if here and here.bgcolor == style.bgcolor)


@pytest.mark.parametrize("text", ["", "a message"])
async def test_it_shows_a_cursor_while_it_has_the_keyboard_and_only_then(text: str) -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So ", "it ", "is.")
        await desk.type(text)
        for _ in range(2):
            assert len(drawn_cursor(desk)) == 1
            await desk.type("", "ctrl+g")
            assert desk.app.focused is not desk.composer
            assert drawn_cursor(desk) == ""
            await desk.type("", "escape")
            assert desk.app.focused is desk.composer


# --- it grows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "most"), [(60, 20), (24, 8), (15, 6), (12, 6)])
async def test_it_grows_to_a_third_of_the_screen_and_shrinks_again(rows: int, most: int) -> None:
    async with desktop((80, rows)) as desk:
        assert desk.composer.size.height == 1
        desk.composer.put("a line\n" * 40)
        await desk.settle()
        assert desk.composer.size.height == most
        desk.composer.put("a line")
        await desk.settle()
        assert desk.composer.size.height == 1


async def test_the_chat_keeps_its_place_while_it_grows() -> None:
    async with desktop((80, 24)) as desk:
        await desk.sent("hello", *(f"word{number}\n\n" for number in range(60)))
        await desk.type("", "pageup")
        top = desk.text.splitlines()[1:4]
        desk.composer.put("a line\n" * 5)
        await desk.settle()
        assert desk.text.splitlines()[1:4] == top
        await desk.type("", "ctrl+end")
        assert "word59" in desk.text
        desk.composer.put("a line\n" * 7)
        await desk.settle()
        assert "word59" in desk.text


# --- what was written before -----------------------------------------------------------------------------------------


def history(*texts: str) -> History:
    made = History()
    for text in texts:
        made.add(text)
    return made


async def test_up_walks_back_and_down_returns_to_what_was_being_typed() -> None:
    async with desktop() as desk:
        desk.composer.earlier = history("first", "two\nlines", "third")
        for key, text in (("up", "third"), ("up", "two\nlines"), ("up", "first"), ("up", "first"),
                          ("down", "two\nlines"), ("down", "third"), ("down", ""), ("down", "")):  # fmt: skip
            await desk.type("", key)
            assert desk.composer.text == text


async def test_with_something_typed_it_walks_through_what_contains_it() -> None:
    async with desktop() as desk:
        desk.composer.earlier = history("a red fox", "a hen", "Red hens", "red herring")
        await desk.type("red")
        walked = []
        for _ in range(4):
            await desk.type("", "up")
            walked.append(desk.composer.text)
        assert walked == ["red herring", "Red hens", "a red fox", "a red fox"]
        assert [str(span.style) for span in desk.composer.get_line(0).spans] == ["bold underline"]
        await desk.type("", "down", "down", "down")
        assert desk.composer.text == "red"
        assert not desk.composer.get_line(0).spans


async def test_up_within_a_message_moves_the_cursor_also_in_a_wrapped_line() -> None:
    async with desktop((80, 24)) as desk:
        desk.composer.earlier = history("before")
        desk.composer.put("word " * 40)
        await desk.settle()
        await desk.type("", "up")
        assert desk.composer.text == "word " * 40
        await desk.type("", "up", "up", "up")
        assert desk.composer.text == "word " * 40  # nothing that was written contains it


async def test_a_message_that_was_sent_is_the_newest() -> None:
    async with desktop() as desk:
        await desk.sent("hello there", "Hi")
        await desk.type("", "up")
        assert desk.composer.text == "hello there"


async def test_the_history_can_be_searched() -> None:
    async with desktop() as desk:
        desk.composer.earlier = history("a red fox", "a hen", "\x1b]0;red\x07 evil", "red herring")
        desk.app.screen_stack[0].action_dialog("history")  # type: ignore[attr-defined]
        await desk.settle()
        assert "Message history" in desk.text
        assert "a hen" in desk.text
        await desk.type("red")
        assert "a hen" not in desk.text
        assert "␛]0;red␇ evil" in desk.text
        await desk.type("", "down", "down", "enter")
        assert desk.composer.text == "a red fox"


# --- long pastes -----------------------------------------------------------------------------------------------------


async def test_a_long_paste_is_one_label_and_goes_out_whole() -> None:
    async with desktop() as desk:
        await desk.type("look at ")
        await paste(desk, LONG)
        assert "look at [pasted 214 kB, 20,431 lines #1]" in desk.text
        await desk.type(" please", "enter")
        assert sent(desk) == [f"look at {LONG} please"]
        assert not desk.composer.text


async def test_a_label_is_moved_over_and_deleted_as_one_thing() -> None:
    async with desktop() as desk:
        await paste(desk, LONG)
        await desk.type("", "left")
        assert desk.composer.cursor_location == (0, 0)
        await desk.type("x", "right", "backspace")
        assert desk.composer.text == "x"
        await desk.type("", "ctrl+underscore")
        assert desk.composer.message == "x" + LONG
        await desk.type("", "ctrl+w")
        assert desk.composer.message in ("", "x")


async def test_short_pastes_and_what_looks_like_a_label_stay_text() -> None:
    async with desktop() as desk:
        await paste(desk, "[pasted 214 kB, 20,431 lines #1] two\nlines")
        assert desk.composer.message == "[pasted 214 kB, 20,431 lines #1] two\nlines"
        assert desk.composer.document.line_count == 2


async def test_tab_shows_what_was_pasted() -> None:
    async with desktop() as desk:
        await paste(desk, "one\n" * 12)
        assert desk.composer.document.line_count == 1
        await desk.type("", "tab")
        assert desk.composer.text == "one\n" * 12


async def test_what_is_too_long_to_be_shown_stays_a_label_and_says_so() -> None:
    async with desktop() as desk:
        await paste(desk, LONG)
        await desk.type("", "tab")
        assert "too many to show" in desk.text
        assert desk.composer.message == LONG


async def test_a_message_that_is_too_long_comes_back_with_its_label() -> None:
    async with desktop() as desk:
        desk.engine.prompt = [1] * 3000
        await desk.type("look: ")
        await paste(desk, LONG)
        await desk.type("", "enter")
        assert "3000" in desk.text
        assert "2048" in desk.text
        assert "look: [pasted 214 kB, 20,431 lines #1]" in desk.text
        assert desk.composer.message == f"look: {LONG}"


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(chat_composer, "_UNASKED", 0.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Notes.md").write_text("remember ``` this\n")
    (tmp_path / "north west.txt").write_text("cold")
    (tmp_path / ".hidden").write_text("secret")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print()\n")
    (tmp_path / "picture.bin").write_bytes(b"\0\1\2")
    return tmp_path


def offered(desk: Desktop) -> list[str]:
    completion = desk.app.query_one(Popup).completion
    return [offer.text for offer in completion.offers] if completion is not None else []


async def test_offers_are_drawn_however_narrow_the_terminal_is() -> None:
    async with desktop() as desk:
        await desk.pilot.resize_terminal(1, 1)
        desk.composer.insert("/he")
        desk.composer.complete()
        assert "/help" in offered(desk)


@pytest.mark.usefixtures("folder")
async def test_paths_are_completed_as_they_are_typed() -> None:
    async with desktop() as desk:
        await desk.type("see @no")
        await desk.shows("@Notes.md")
        assert offered(desk) == ['@"north west.txt"', "@Notes.md"]
        await desk.type("", "enter")
        await desk.type("now")
        assert desk.composer.text == 'see @"north west.txt" now'
        assert not sent(desk)
        await desk.type("", "ctrl+u")
        await desk.type("@s")
        await desk.shows("@src/")
        await desk.type("", "tab")
        await desk.shows("main.py")
        assert offered(desk) == ["@src/main.py"]
        await desk.type("", "tab")
        assert desk.composer.text == "@src/main.py "
        await desk.type("", "ctrl+u")
        await desk.type("@")
        assert not any(text.startswith("@.") for text in offered(desk))
        await desk.type(".h")
        await desk.until(lambda: offered(desk) == ["@.hidden"])
        await desk.type("", "ctrl+u")
        await desk.type("@~/so")
        await desk.type("", "backspace")
        await desk.shows("@~/src/")


@pytest.mark.usefixtures("folder")
async def test_esc_closes_the_offers_and_then_enter_sends() -> None:
    async with desktop() as desk:
        await desk.type("mail @no")
        await desk.shows("@Notes.md")
        await desk.type("", "escape")
        assert not offered(desk)
        await desk.type("", "enter")
        await desk.shows("mail @no")
        assert sent(desk) == ["mail @no"]


@pytest.mark.usefixtures("folder")
async def test_offers_that_come_late_take_no_key_that_was_meant_for_the_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_composer, "_UNASKED", PATIENCE)  # all that follows is soon after they came
    async with desktop() as desk:
        await desk.type("mail @no")
        await desk.shows("@Notes.md")
        await desk.type("", "enter")
        await desk.until(lambda: sent(desk) == ["mail @no"])
        desk.engine.end()
        await desk.type("mail @no")
        await desk.until(lambda: offered(desk))
        await desk.type("", "tab")
        assert desk.composer.text == 'mail @"north west.txt" '


@pytest.mark.usefixtures("folder")
async def test_a_disk_that_does_not_answer_stops_neither_the_screen_nor_the_order_of_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = Event()
    is_there = chat_composer._is_there
    monkeypatch.setattr(chat_composer, "_is_there", lambda name: answers.wait(PATIENCE) and is_there(name))
    async with desktop() as desk:
        await desk.type("see @Notes.md ", "enter")
        await desk.type("second", "enter")
        await desk.settle()
        assert sent(desk) == []
        answers.set()
        await desk.until(lambda: len(sent(desk)) == 1)
        assert "remember" in sent(desk)[0]
        desk.engine.end()
        await desk.until(lambda: sent(desk)[-1:] == ["second"])


async def test_only_a_first_line_is_a_command() -> None:
    async with desktop() as desk:
        desk.composer.insert("\n/he")
        await desk.settle()
        assert not offered(desk)


@pytest.mark.usefixtures("folder")
async def test_offers_are_chosen_with_arrows_and_with_the_mouse() -> None:
    async with desktop() as desk:
        await desk.type("@no")
        await desk.shows("@Notes.md")
        await desk.type("", "down", "tab")
        assert desk.composer.text == "@Notes.md "
        await desk.type("", "ctrl+u")
        await desk.type("@no")
        await desk.shows("@Notes.md")
        await desk.pilot.click(Popup, offset=(3, 1))
        await desk.settle()
        assert desk.composer.text == "@Notes.md "
        assert desk.app.focused is desk.composer


@pytest.mark.usefixtures("folder")
async def test_a_file_that_is_named_goes_out_with_the_message_and_is_shown_as_it_went() -> None:
    async with desktop() as desk:
        await desk.type("sum up @Notes.md, and @nobody", "escape", "enter")
        await desk.shows("remember ``` this")
        assert sent(desk) == ["sum up @Notes.md, and @nobody\n\nNotes.md\n````\nremember ``` this\n````"]
        await desk.type("", "up")
        assert desk.composer.text == "sum up @Notes.md, and @nobody"
        whole = sent(desk)[0]
        assert include(whole, whole) == []  # sent again from another session, it has its file already


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@picture.bin", "is not text"),
        ("@src", "is a folder"),
        ("@latin.txt", "not UTF-8"),
        ("@large.txt", "too large: 3.00 MB, at most 1.00 MB"),
    ],
)
async def test_a_file_that_cannot_be_included_is_told_and_nothing_is_sent(folder: Path, text: str, why: str) -> None:
    (folder / "latin.txt").write_bytes("grün".encode("latin-1"))
    (folder / "large.txt").write_bytes(b"x" * 3_000_000)
    async with desktop() as desk:
        desk.composer.put(f"look at {text} ")
        await desk.type("", "enter")
        await desk.shows(why)
        await desk.shows("nothing was sent")
        assert desk.composer.text == f"look at {text} "
        assert not sent(desk)
        desk.composer.put("")
        await desk.type("never mind", "enter")
        await desk.settle()
        assert sent(desk)
        assert "nothing was sent" not in desk.text


async def test_a_message_too_long_with_its_files_goes_back_to_the_composer(folder: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (folder / name).write_text("word " * 120_000)
    async with desktop() as desk:
        desk.composer.put("compare @one.txt @two.txt")
        await desk.type("", "enter")
        await desk.shows("message too long: 1,200,")
        assert desk.composer.text == "compare @one.txt @two.txt"
        assert not sent(desk)


async def test_a_paste_too_long_to_send_is_refused() -> None:
    async with desktop() as desk:
        desk.composer.post_message(events.Paste("x" * 1_000_001))
        await desk.shows("paste too long: 1,000,001 characters")
        assert not desk.composer.text


# --- how long it is --------------------------------------------------------------------------------------------------


async def test_the_tokens_are_counted_when_the_keys_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_composer, "_AT_REST", 1.0)  # longer than a slow machine takes for a key
    async with desktop() as desk:
        desk.engine.prompt = [1] * 100
        await desk.type("how long is this")
        await desk.shows("100 tokens with template, 5% of the free context")
        asked = [command for command in desk.engine.commands if isinstance(command, Render)]
        assert asked[-1].messages[-1].content == "how long is this"
        assert len(asked) < len("how long is this")
        desk.engine.prompt = [1] * 2049
        await desk.type("?")
        await desk.shows("2,049 tokens with template, 1 over the free context")
        await desk.type("", "ctrl+u")
        assert "tokens" not in desk.text.splitlines()[-4]


# --- the queue -------------------------------------------------------------------------------------------------------


async def test_messages_that_wait_are_taken_back_with_up() -> None:
    async with desktop() as desk:
        await desk.sent("hello", "Hi")
        await desk.type("one", "enter")
        await desk.type("two", "enter")
        assert "queued  two  Up edits it" in desk.text
        await desk.type("", "up")
        assert desk.composer.text == "two"
        assert list(desk.chat.turns.queue) == ["one"]
        await desk.type("!", "enter")
        assert list(desk.chat.turns.queue) == ["one", "two!"]
        desk.engine.end("end")
        await desk.settle()
        assert list(desk.chat.turns.queue) == ["two!"]


async def test_also_after_the_reply_was_stopped() -> None:
    async with desktop() as desk:
        await desk.sent("hello", "Hi")
        await desk.type("later", "enter", "escape")
        assert "queued  later" in desk.text
        await desk.type("", "up")
        assert desk.composer.text == "later"
        assert not desk.chat.turns.queue


async def test_all_that_waits_can_be_edited_removed_and_put_in_another_order() -> None:
    async with desktop() as desk:
        await desk.sent("hello", "Hi")
        for text in ("one", "two", "three", "four"):
            await desk.type(text, "enter")
        assert "and 1 more" in desk.text
        await desk.pilot.click("#notice", offset=(4, 1))
        await desk.settle()
        assert "Queued messages" in desk.text
        await desk.type("", "down", "K")
        assert list(desk.chat.turns.queue) == ["two", "one", "three", "four"]
        await desk.type("", "down", "delete")
        assert list(desk.chat.turns.queue) == ["two", "three", "four"]
        desk.engine.end("end")
        await desk.settle()
        await desk.until(lambda: "two" not in desk.text.split("Queued messages")[1])
        await desk.type("", "down", "down", "enter")
        assert desk.composer.text == "four"
        assert list(desk.chat.turns.queue) == ["three"]


def test_a_blank_variable_names_no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", " ")
    monkeypatch.setenv("EDITOR", "vim -n")
    assert editor_command() == ["vim", "-n"]
    monkeypatch.setenv("EDITOR", "vim 'n")
    with pytest.raises(EditorError, match=r"\$EDITOR cannot be read: No closing quotation"):
        editor_command()
    monkeypatch.setenv("EDITOR", "")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(EditorError, match="no editor found"):
        editor_command()


# --- characters, as a reader counts them -----------------------------------------------------------------------------

FLAGS, FAMILY, MARKED = "🇩🇪🇫🇷", "👩\u200d👩\u200d👧\u200d👦", "cafe\u0301s"
CHARACTERS = ("🇩🇪", "🇫🇷", FAMILY, "e\u0301", "क्षि", "กำ", "\u1112\u1161\u11ab", "👍🏽", "1\ufe0f\u20e3", "a")


async def test_the_composer_moves_over_deletes_and_selects_whole_characters() -> None:
    async with desktop() as desk:
        box, whole = desk.composer, "".join(CHARACTERS)
        desk.composer.put(whole)
        ends = [sum(map(len, CHARACTERS[:count])) for count in range(len(CHARACTERS) + 1)]
        for end in reversed(ends[:-1]):
            await desk.type("", "left")
            assert box.cursor_location == (0, end)
        for end in ends[1:]:
            await desk.type("", "right")
            assert box.cursor_location == (0, end)
        await desk.type("", "shift+left", "shift+left", "shift+left")
        assert box.selected_text == "".join(CHARACTERS[-3:])
        await desk.type("", "right")
        for count in range(len(CHARACTERS) - 1, -1, -1):
            await desk.type("", "backspace")
            assert box.text == "".join(CHARACTERS[:count])
        desk.composer.put(whole)
        await desk.type("", "home")
        for count in range(1, len(CHARACTERS) + 1):
            await desk.type("", "delete")
            assert box.text == "".join(CHARACTERS[count:])


async def test_wherever_the_cursor_is_put_typing_splits_no_character() -> None:
    async with desktop() as desk:
        for column in range(len(FAMILY) + 1):
            desk.composer.put(FAMILY)
            desk.composer.move_cursor((0, column))
            await desk.type("x")
            assert desk.composer.text in ("x" + FAMILY, FAMILY + "x"), column


async def test_a_word_with_marks_is_one_word() -> None:
    async with desktop() as desk:
        for word in (MARKED, "नमस्ते", "हिन्दी"):
            desk.composer.put(f"one {word} two")
            await desk.type("", "home", "ctrl+right", "ctrl+right")
            assert desk.composer.cursor_location == (0, 4 + len(word)), word
            await desk.type("", "ctrl+left")
            assert desk.composer.cursor_location == (0, 4), word
            await desk.type("", "alt+delete")
            assert desk.composer.text == "one  two"
            desk.composer.put(f"one {word}")
            await desk.type("", "ctrl+w")
            assert desk.composer.text == "one "


async def test_a_line_of_input_has_whole_characters_and_words_too() -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So")
        await desk.type("", "ctrl+s")
        field = desk.app.screen.query_one(Field)
        field.value = f"{FLAGS} {MARKED} {FAMILY}"
        field.cursor_position = len(field.value)
        await desk.type("", "backspace")
        assert field.value == f"{FLAGS} {MARKED} "
        await desk.type("", "ctrl+left")
        assert field.cursor_position == len(FLAGS) + 1
        await desk.type("", "left", "left")
        assert field.cursor_position == 2
        await desk.type("", "shift+right", "x")
        assert field.value == f"🇩🇪x {MARKED} "
        await desk.type("", "home", "delete", "delete", "right", "alt+backspace")
        assert field.value == " "
