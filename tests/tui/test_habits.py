"""What people are used to: editing a message, beginning a reply, finding, copying, going by turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from termchat.chat.service import Chat
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Cancel
from termchat.tui.transcript import TranscriptView, hits
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop, path, talked
from tests.tui.transcripts import line_text


def below(desk: Desktop) -> str:
    """The lines under the chat."""
    return "\n".join(desk.text.splitlines()[-8:])


# --- editing ---------------------------------------------------------------------------------------------------------


async def test_an_earlier_message_is_edited_and_what_was_being_written_comes_back() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await desk.type("half a thou", "f7")
        assert "editing message 3 of 4" in below(desk)
        assert desk.composer.text == "more"
        await desk.type("", "up", "up")
        assert "editing message 1 of 4" in below(desk)
        assert desk.composer.text == "hi"
        await desk.type(" there", "enter")
        desk.engine.say(" other")
        await desk.settle()
        assert path(desk) == ["hi there", " other"]
        assert "editing" not in desk.text
        assert desk.composer.text == "half a thou"
        assert len(desk.chat.conversation.list_children(None)) == 2


async def test_an_edited_message_has_the_files_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    async with desktop() as desk:
        await desk.type("sum up @a.txt", "escape", "enter")
        await said(desk, "sum up @a.txt\n\na.txt\n```\none\n```")
        desk.engine.say(" ok")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "f7")
        assert desk.composer.text == "sum up @a.txt"
        await desk.type(" and @b.txt", "escape", "enter")
        await said(desk, "sum up @a.txt and @b.txt\n\na.txt\n```\none\n```\n\nb.txt\n```\ntwo\n```")
        assert len(desk.chat.conversation.list_children(None)) == 2


async def said(desk: Desktop, wanted: str) -> None:
    """Waits until a person has said that; a thread reads the files."""
    await desk.until(lambda: path(desk)[:1] == [wanted])


async def test_esc_leaves_a_message_as_it_was_and_goes_back_to_where_one_was() -> None:
    async with desktop(size=(80, 24)) as desk:
        await talked(desk, *((f"message {n}", " word" * 60) for n in range(6)))
        view = desk.app.query_one(TranscriptView)
        await desk.type("draft", "f7", "f7", "f7", "f7")
        assert desk.composer.text != "draft"
        assert view.scroll_offset.y < view.line_count - view.size.height
        before = path(desk)
        await desk.type("x", "escape")
        assert desk.composer.text == "draft"
        assert view.following
        assert path(desk) == before
        assert "editing" not in desk.text


async def test_what_was_changed_in_one_message_is_there_after_a_look_at_others() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await desk.type("", "f7")
        await desk.type(" of it", "up", "down")
        assert desk.composer.text == "more of it"


async def test_a_reply_is_edited_and_says_that_it_was_forced() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one two"))
        await desk.type("", "f7", "down")
        assert "editing reply 2 of 2" in below(desk)
        assert "Enter applies the edit on a new branch" in below(desk)
        assert "Enter apply on a new branch  Esc back" in desk.text.splitlines()[-1]
        assert desk.composer.text == " one two"
        await desk.type(" three", "enter")
        assert path(desk) == ["hi", " one two three"]
        reply = desk.chat.conversation.find_reply()[-1].node
        assert list(reply.tokens.forced) == [1]
        assert desk.chat.phase == "idle"


def with_a_system_prompt(engine: FakeEngine) -> Chat:
    return chat_on(engine, Tuning(seed=1), conversation=Conversation("Be kind."))


async def test_the_system_prompt_is_at_the_head_and_edited_as_a_message_is() -> None:
    async with desktop(chat=with_a_system_prompt) as desk:
        await desk.type("", "f7")
        assert "editing the system prompt: Enter saves it" in desk.text.replace("  Enter", ": Enter")
        await desk.type("!", "enter")
        assert "System prompt: Be kind.!" in desk.text
        await talked(desk, ("hi", "one"), ("more", "two"))
        assert desk.text.index("system prompt") < desk.text.index("Be kind.!") < desk.text.index("hi")
        await desk.type("draft", "f7", "f7", "f7", "f7")
        assert "editing the system prompt" in desk.text
        assert desk.composer.text == "Be kind.!"
        await desk.type("", "backspace", "enter")
        assert desk.composer.text == "draft"
        desk.engine.say("three")
        desk.engine.end()
        await desk.settle()
        assert path(desk) == ["hi", "three"]
        assert "system prompt · ‹ 2/2 ›" in desk.text
        await desk.pilot.click(TranscriptView, offset=(desk.text.split("\n")[1].index("‹"), 0))
        await desk.settle()
        assert path(desk) == ["hi", "one", "more", "two"]
        assert "system prompt · ‹ 1/2 ›" in desk.text


async def test_a_reply_to_an_edited_system_prompt_is_in_view() -> None:
    async with desktop((80, 24), chat=with_a_system_prompt) as desk:
        desk.composer.put("many words " * 200)
        await desk.type("", "enter")
        desk.engine.say("one")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "f7", "f7")
        assert "editing the system prompt" in desk.text
        await desk.type("!", "enter")
        desk.engine.say(" a new reply")
        desk.engine.end()
        await desk.settle()
        assert " a new reply" in desk.text


async def test_a_system_prompt_can_be_taken_away_by_mouse_and_stays_a_version() -> None:
    async with desktop(chat=with_a_system_prompt) as desk:
        await talked(desk, ("hi", "one"))
        await desk.pilot.click(TranscriptView, offset=(4, 0))
        await desk.settle()
        assert "editing the system prompt" in desk.text
        await desk.type("", *["backspace"] * len("Be kind."), "enter")
        desk.engine.end()
        await desk.settle()
        assert desk.chat.conversation.system == ""
        assert "system prompt · ‹ 2/2 › · none" in desk.text
        row = next(row for row, line in enumerate(desk.text.split("\n")) if line.startswith(" you "))
        await desk.pilot.click(TranscriptView, offset=(2, row - 1))
        await desk.settle()
        assert "editing message 1 of 2" in desk.text


async def test_in_token_mode_the_reply_under_the_cursor_is_edited() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await desk.type("", "ctrl+g", "left", "f7")
        assert "editing reply 2 of 4" in below(desk)
        assert desk.composer.text == " one"
        assert desk.composer.has_focus
        assert not desk.app.screen.tokens.is_open  # type: ignore[attr-defined]


async def test_a_running_reply_ends_for_an_edit() -> None:
    async with desktop() as desk:
        await desk.sent("hi", " one")
        await desk.type("", "f7")
        await desk.type("!", "enter")
        assert desk.engine.asked(Cancel)
        desk.engine.say(" new")
        await desk.settle()
        assert path(desk) == ["hi!", " new"]


async def test_there_is_nothing_to_edit_find_or_copy_in_an_empty_chat() -> None:
    async with desktop() as desk:
        await desk.type("/raw", "enter")
        for action, said in (("edit", "no message to edit"), ("find", "the chat is empty"),
                             ("copy_reply", "no reply to copy"), ("copy_code", "no code block")):  # fmt: skip
            await desk.app.run_action(action, desk.app.screen)
            await desk.settle()
            assert said in desk.text


async def test_another_chat_ends_an_edit() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        old = desk.chat.conversation
        await desk.type("draft", "f7", "ctrl+n")
        assert "editing" not in desk.text
        assert desk.composer.text == ""
        assert old.unsent.draft == "draft"


# --- replies ---------------------------------------------------------------------------------------------------------


async def test_the_next_reply_begins_as_it_is_told_to() -> None:
    async with desktop() as desk:
        await desk.app.run_action("prefill", desk.app.screen)
        await desk.type(r"Sure,\n", "enter")
        assert "next reply starts with Sure,⏎" in below(desk)
        await desk.sent("hi", " here")
        reply = desk.chat.conversation.find_reply()[-1].node
        assert reply.text() == "Sure,\n here"
        assert list(reply.tokens.forced)[-1] == 0
        assert all(list(reply.tokens.forced)[:-1])
        assert "next reply starts" not in desk.text


async def test_how_a_reply_began_is_what_another_one_is_offered_and_can_be_taken_back() -> None:
    async with desktop() as desk:
        await desk.app.run_action("prefill", desk.app.screen)
        await desk.type("Sure,", "enter")
        await talked(desk, ("hi", " here"))
        await desk.app.run_action("prefill", desk.app.screen)
        await desk.settle()
        assert re.search("next reply starts with +Sure,", below(desk))
        await desk.type("", "backspace", "enter")  # it is selected
        assert "next reply starts freely" in below(desk)
        await desk.type("", "ctrl+r")
        assert desk.chat.conversation.find_reply()[-1].node.text() == ""
        assert "next reply starts" not in desk.text


async def test_esc_asks_no_more_how_the_reply_begins() -> None:
    async with desktop() as desk:
        await desk.app.run_action("prefill", desk.app.screen)
        await desk.type("Sure", "escape")
        assert desk.chat.prefill is None
        assert desk.composer.has_focus
        await desk.type("hi")
        assert desk.composer.text == "hi"


async def test_a_reply_made_again_says_when_the_dice_are_the_same() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", "ctrl+r")
        assert "seed 1 is fixed, so the reply uses" in desk.text
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        desk.chat.adjust_setting("temperature", 0.3)  # the same dice, on purpose
        await desk.type("", "ctrl+r")
        assert "is fixed" not in desk.text


async def test_the_same_dice_are_thrown_again_on_demand() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning())) as desk:
        await talked(desk, ("hi", " one"))
        await desk.app.run_action("regenerate(True)", desk.app.screen)
        await desk.settle()
        first, second = desk.engine.generated
        assert first.seed == second.seed
        assert "same dice" not in desk.text


# --- finding ---------------------------------------------------------------------------------------------------------


def marked(desk: Desktop) -> list[tuple[str, bool]]:
    """The texts that are marked as found on the screen, and whether each is the one that is looked at."""
    palette = desk.app.palette
    grounds = {palette.stamp: False, palette.accent: True}
    found = []
    view = desk.app.query_one(TranscriptView)
    for strip in view.render_lines(view.size.region):
        for text, style, _ in strip:
            ground = style.bgcolor.name if style is not None and style.bgcolor is not None else ""
            if ground in grounds:
                found.append((text, grounds[ground]))
    return found


@pytest.mark.parametrize("look", ["reading", "probability"])
async def test_hits_are_marked_while_one_types_and_walked_through(look: str) -> None:
    async with desktop() as desk:
        await talked(desk, ("a fox", " the Fo"), ("b", " x and fox**es**"))
        desk.app.query_one(TranscriptView).look = look  # type: ignore[assignment]
        await desk.type("", "ctrl+f")
        await desk.type("fox")
        assert [text for text, _ in marked(desk)] == ["fox", "fox"]
        assert "1 of 2" in below(desk)
        assert marked(desk) == [("fox", True), ("fox", False)]
        await desk.type("", "down")
        assert "2 of 2" in below(desk)
        assert marked(desk) == [("fox", False), ("fox", True)]
        await desk.type("", "up", "up")
        assert "2 of 2" in below(desk)
        await desk.type("", "escape")
        assert marked(desk) == []
        assert desk.composer.has_focus


async def test_a_hit_goes_over_lines_tokens_and_marks_and_capitals_count_only_if_there_are_some() -> None:
    async with desktop(size=(80, 24)) as desk:
        await desk.sent("go", " It was a very", " la", "rge **qu", "ick** brown\nfo", "x in 狐狸", "和熊", " woods")
        await desk.type("", "ctrl+f")
        await desk.type("large quick brown fox")
        assert "1 of 1" in below(desk)
        assert "".join(text for text, _ in marked(desk)).replace(" ", "") == "largequickbrownfox"
        for query, count in (("狐狸和", 1), ("IT WAS", 0), ("It was", 1), ("it WAS", 0), ("zebra", 0)):
            desk.app.screen.query_one("AskLine Input").value = query  # type: ignore[attr-defined]
            await desk.settle()
            assert (f"1 of {count}" if count else "not found") in below(desk), query


async def test_find_brings_far_hits_into_view_wraps_and_esc_goes_back() -> None:
    async with desktop(size=(80, 24)) as desk:
        await talked(desk, *((f"message {n}", (" word" * 80) + (" needle" if n in (1, 4) else "")) for n in range(7)))
        view = desk.app.query_one(TranscriptView)
        top = view.scroll_offset.y
        await desk.type("", "ctrl+f")
        await desk.type("needle")
        assert "2 of 2" in below(desk)
        for expected in ("1 of 2", "2 of 2"):
            await desk.type("", "down")
            assert expected in below(desk)
            assert marked(desk) == [("needle", True)]
        assert view.scroll_offset.y < top
        await desk.type("", "escape")
        assert view.scroll_offset.y == top
        await desk.type("", "ctrl+f")  # what was looked for is there again
        assert "2 of 2" in below(desk)
        await desk.type("", "ctrl+f")  # the next
        assert "1 of 2" in below(desk)
        await desk.type("", "enter")
        assert desk.composer.has_focus
        assert view.scroll_offset.y < top
        assert marked(desk) == []


async def test_a_chat_too_long_to_be_searched_at_once_is_searched_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hits, "AT_ONCE", 300)
    async with desktop(size=(80, 24)) as desk:
        await talked(desk, *((f"message {n}", (" word" * 80) + (" needle" if n in (1, 4) else "")) for n in range(7)))
        await desk.type("", "ctrl+f")
        await desk.type("needle")
        await desk.until(lambda: re.search("of 2(?!…)", below(desk)))
        assert re.search("2 of 2(?!…)", below(desk))
        assert marked(desk) == [("needle", True)]
        await desk.type("", "down")
        assert "1 of 2" in below(desk)


async def test_hits_that_come_while_a_reply_streams_are_counted() -> None:
    async with desktop() as desk:
        await desk.sent("go", " a fo")
        await desk.type("", "ctrl+f")
        await desk.type("fox")
        assert "not found" in below(desk)
        desk.engine.say("x and fo", "x")
        await desk.settle()
        assert "1 of 2" in below(desk)
        assert [text for text, _ in marked(desk)] == ["fox", "fox"]


async def test_in_token_mode_the_cursor_goes_to_what_is_found() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("b", " two"))
        await desk.type("", "ctrl+g", "ctrl+f")
        await desk.type("one")
        view = desk.app.query_one(TranscriptView)
        reply = desk.chat.conversation.find_path()[1].node
        assert view.cursor == (reply.number, 0)
        await desk.type("", "enter")
        assert view.cursor == (reply.number, 0)
        await desk.type("", "l")
        assert view.cursor != (reply.number, 0)  # the keys are token mode's again
        before = view.cursor
        await desk.type("", "ctrl+f")  # what was looked for is there again
        assert view.cursor == (reply.number, 0)
        await desk.type("", "escape")
        assert view.cursor == before


# --- turns -----------------------------------------------------------------------------------------------------------


async def test_one_goes_from_turn_to_turn() -> None:
    async with desktop(size=(80, 24)) as desk:
        await talked(desk, *((f"message {n}", " word" * 400) for n in range(4)))
        view = desk.app.query_one(TranscriptView)

        def first() -> str:
            lines = (line_text(view, view.scroll_offset.y + row) for row in range(3))
            return next(line for line in lines if line.strip())

        await desk.type("", "ctrl+pageup")
        assert first().startswith("smollm2")
        await desk.type("", "ctrl+pageup")
        assert first() == "you"
        assert "message 3" in desk.text
        for n in (2, 1, 0):
            await desk.type("", "ctrl+pageup", "ctrl+pageup")
            assert first() == "you"
            assert f"message {n}" in desk.text
        await desk.type("", "ctrl+pageup")
        assert view.scroll_offset.y == 0
        await desk.type("", *["ctrl+pagedown"] * 8)
        assert view.following


# --- copying ---------------------------------------------------------------------------------------------------------

CODE = " Here:\n\n```python\nprint(1)\n\n  x\n```\n\n1. and\n   ~~~\n   two\n   ~~~\n"


async def test_blocks_of_code_are_copied_the_last_first() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", CODE))
        copied = []
        desk.app.screen.copy_to_clipboard = lambda text, what="": copied.append((text, what))  # type: ignore[attr-defined]
        for _ in range(3):
            await desk.app.run_action("copy_code", desk.app.screen)
        await desk.app.run_action("copy_reply", desk.app.screen)
        assert [text for text, _ in copied] == ["two", "print(1)\n\n  x", "two", CODE]
        assert [re.sub(r" \(.*", "", what) for _, what in copied[:2]] == ["code block 2 of 2", "code block 1 of 2"]


# --- what the key line says meanwhile --------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [(), ("ctrl+t",), ("ctrl+g",), ("f6",)])
async def test_the_key_line_has_the_keys_of_the_line_that_is_typed_and_then_those_from_before(
    before: tuple[str, ...],
) -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", *before)
        keys = desk.text.splitlines()[-1]
        await desk.type("", "ctrl+f")
        assert desk.text.splitlines()[-1].strip() == "↑ ↓ move  Enter stay there  Esc back"
        await desk.type("", "escape")
        assert desk.text.splitlines()[-1] == keys


async def test_the_key_line_of_token_mode_has_the_keys_of_the_line_that_is_typed() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", "ctrl+g", "t")
        assert desk.text.splitlines()[-1].strip() == "Enter accept  Esc back"
        await desk.type("", "escape")
        assert "Esc back" in desk.text.splitlines()[-1]
        assert "move" in desk.text.splitlines()[-1]


async def test_in_the_big_view_the_key_line_goes_with_the_keyboard() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", "f6")
        assert "page" in desk.text.splitlines()[-1]
        await desk.type("", "f7")
        assert "page" not in desk.text.splitlines()[-1]
        assert "Enter apply on a new branch  Esc back" in desk.text.splitlines()[-1]


async def test_the_key_line_does_not_say_that_an_edited_message_waits_for_the_reply() -> None:
    async with desktop() as desk:
        await desk.sent("hi", " one")
        assert "Enter queue" in desk.text.splitlines()[-1]
        await desk.type("", "f7")
        assert desk.text.splitlines()[-1].strip() == "Enter apply on a new branch  Esc back  F7 earlier"
        await desk.type("", "ctrl+t")
        assert "TUNE" in desk.text.splitlines()[-1]
        await desk.type("", "ctrl+t")
        assert "Enter apply on a new branch" in desk.text.splitlines()[-1]
        await desk.type("", "escape")
        assert "Enter queue" in desk.text.splitlines()[-1]
