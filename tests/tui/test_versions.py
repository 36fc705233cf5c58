"""Versions of a turn: what the head of a turn says, and every way from one version to another."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from termchat.conversation.session import Session
from termchat.conversation.transcripts import FORMATS
from termchat.engine.port import Cancel
from termchat.tui.lists.branch_tree import TreeDialog
from termchat.tui.terminal.capabilities import Abilities
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import Desktop, desktop, path, talked
from tests.tui.token_mode import index, looking


async def again(desk: Desktop, *pieces: str) -> None:
    """The last reply is made again."""
    await desk.type("", "ctrl+r")
    desk.engine.say(*pieces)
    desk.engine.end()
    await desk.settle()


async def edited(desk: Desktop, more: str, reply: str, *way: str) -> None:
    """A message has something added to it, and another reply."""
    await desk.type("", "f7", *way)
    await desk.type(more, "enter")
    desk.engine.say(reply)
    desk.engine.end()
    await desk.settle()


def heads(desk: Desktop) -> list[str]:
    """The heads of the turns that the screen shows."""
    lines = (line.strip() for line in desk.text.splitlines())
    return [line.split("  ")[0].split("│")[0].strip() for line in lines if line.startswith(("you", "smollm2 ·"))]


async def click(desk: Desktop, head: str, mark: str, *, times: int = 1, number: int = 0) -> None:
    """Clicks on a mark in the head of a turn, of those that begin so the one of that number from the top."""
    y, line = [(y, line) for y, line in enumerate(desk.text.splitlines()) if line.strip().startswith(head)][number]
    x = cell_len(line[: line.index(mark)])
    for _ in range(times):
        await desk.pilot.click(offset=(x, y))
    await desk.settle()


def leaf(desk: Desktop) -> int | None:
    return desk.chat.conversation.leaf


# --- what the head says ----------------------------------------------------------------------------------------------


async def test_a_turn_that_was_said_once_has_no_sign_and_another_version_says_which_it_is() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        assert heads(desk) == ["you", "smollm2 · seed 1"]
        await desk.type("", "ctrl+r")
        assert "‹ 2/2 ›" in desk.text, "at once, before the reply has ended"
        desk.engine.say(" two")
        desk.engine.end()
        await desk.settle()
        assert heads(desk) == ["you", "smollm2 · ‹ 2/2 › · seed 1"]
        await again(desk, " three")
        assert heads(desk) == ["you", "smollm2 · ‹ 3/3 › · seed 1"]


async def test_an_edited_message_and_its_reply_have_each_their_own_versions() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await edited(desk, "!", " three")
        assert heads(desk) == ["you", "smollm2 · seed 1", "you · ‹ 2/2 ›", "smollm2 · seed 1"]
        await again(desk, " four")
        assert heads(desk)[2:] == ["you · ‹ 2/2 ›", "smollm2 · ‹ 2/2 › · seed 1"]


async def test_a_fork_is_a_version_of_the_reply_that_it_left() -> None:
    async with looking() as desk:
        await desk.type("", "g", "l", "l", "x")
        desk.engine.say(" other")
        desk.engine.end()
        await desk.settle()
        assert heads(desk) == ["you", "smollm2 · ‹ 2/2 › · seed 1"]


async def test_a_branch_that_is_deleted_in_the_tree_is_no_version_until_it_comes_back() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        await desk.type("", "ctrl+g", "y")
        assert isinstance(desk.app.screen, TreeDialog)
        await desk.type("", "up", "d", "escape")
        assert "smollm2 · seed 1" in heads(desk)
        await desk.type("", "y", "u", "escape")
        assert "smollm2 · ‹ 2/2 › · seed 1" in heads(desk)


async def test_a_head_that_is_far_above_follows_what_becomes_of_its_versions() -> None:
    async with desktop((80, 24)) as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        await talked(desk, *((f"message {n}", " word\n" * 40) for n in range(12)))
        desk.chat.branches.delete_branch(2)
        await desk.settle()
        await desk.type("", "ctrl+home")
        assert heads(desk)[:2] == ["you", "smollm2 · seed 1"]
        await desk.type("", "ctrl+end")
        desk.chat.branches.restore_branch()
        await desk.settle()
        await desk.type("", "ctrl+home")
        assert heads(desk)[:2] == ["you", "smollm2 · ‹ 2/2 › · seed 1"]


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_in_little_room_the_sign_is_whole_and_the_name_is_cut(size: tuple[int, int]) -> None:
    async with desktop(size) as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        reply = desk.chat.conversation.find_reply()[0].node
        assert reply.start is not None
        name = "a-model-whose-name-is-much-longer-than-a-terminal-has-columns-for-it-to-be-shown-whole-in"
        model = msgspec.structs.replace(reply.start.model, name=name)
        reply.start = msgspec.structs.replace(reply.start, model=model)
        await desk.type("", "ctrl+l")
        head = next(line.strip() for line in desk.text.splitlines() if "a-model" in line)
        assert "… · ‹ 2/2 ›" in head
        assert cell_len(head) <= size[0] - 2
        await click(desk, "a-model", "‹")
        assert path(desk) == ["hi", " one"]


async def test_a_terminal_with_ascii_alone_has_arrows_too() -> None:
    async with desktop(abilities=Abilities(glyphs="ascii")) as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        assert "< 2/2 >" in desk.text
        await click(desk, "smollm2", "< 2")
        assert path(desk) == ["hi", " one"]


async def test_an_export_as_text_has_no_sign_of_the_screen() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        assert "‹ 2/2 ›" in desk.text
        text = "\n".join(FORMATS["md"].writer(desk.chat.conversation, Session(), lambda _: []))
        assert " two" in text
        assert "2/2" not in text
        assert "‹" not in text


# --- by mouse --------------------------------------------------------------------------------------------------------


async def test_a_click_on_an_arrow_goes_to_the_version_that_way_and_the_head_stays_under_the_mouse() -> None:
    async with desktop((80, 24)) as desk:
        await talked(desk, *((f"message {n}", " word\n" * 4) for n in range(4)), ("tell me", " line\n" * 5))
        await again(desk, " line\n" * 60)
        await again(desk, " a")
        while "‹ 3/3 ›" not in desk.text:
            await desk.type("", "ctrl+up")

        def row() -> int:
            return next(y for y, line in enumerate(desk.text.splitlines()) if "/3 ›" in line)

        before = row()
        await click(desk, "smollm2 · ‹ 3/3", "‹")
        assert "‹ 2/3 ›" in desk.text
        assert row() <= before, "it moves down only where the chat ends"
        before = row()
        await click(desk, "smollm2 · ‹ 2/3", "›")
        await click(desk, "smollm2 · ‹ 3/3", "‹")
        assert row() == before
        await click(desk, "smollm2 · ‹ 2/3", "‹")
        assert path(desk)[-1] == " line\n" * 5
        assert desk.composer.has_focus


async def test_many_quick_clicks_are_as_many_steps_and_select_nothing() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " 1"))
        for n in range(2, 6):
            await again(desk, f" {n}")
        await click(desk, "smollm2", "‹", times=3)
        assert path(desk) == ["hi", " 2"]
        assert not desk.app.query_one(TranscriptView).text_selection
        await click(desk, "smollm2", "›", times=3)
        assert path(desk) == ["hi", " 5"]


async def test_behind_the_first_and_last_version_there_is_nothing_to_click() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        await click(desk, "smollm2", "›")
        await click(desk, "smollm2", "2/2")
        assert path(desk) == ["hi", " two"]
        await click(desk, "smollm2", "‹")
        await click(desk, "smollm2", "‹")
        assert path(desk) == ["hi", " one"]


async def test_the_arrow_under_the_mouse_is_underlined_and_no_other() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await edited(desk, "!", " three")
        view = desk.app.query_one(TranscriptView)
        y, line = next((y, line) for y, line in enumerate(desk.text.splitlines()) if "‹" in line)

        def underlined() -> str:
            strips = view.render_lines(view.size.region)
            return "".join(text for strip in strips for text, style, _ in strip if style and style.underline)

        for x, what in ((line.index("‹"), "‹"), (line.index("‹") + 1, "‹"), (line.index("›"), ""), (0, "")):
            await desk.pilot.hover(offset=(x, y))
            await desk.settle()
            assert underlined() == what
        await desk.pilot.hover(offset=(line.index("‹"), y))
        await desk.pilot.hover(offset=(5, desk.app.size.height - 1))
        await desk.settle()
        assert underlined() == ""


async def test_a_version_is_shown_again_as_it_was_left_else_to_its_newest_end() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("older", " a"))
        older = leaf(desk)
        await edited(desk, " newer", " b")
        newer = leaf(desk)
        await click(desk, "you · ‹", "‹")
        assert leaf(desk) == older
        await edited(desk, "!", " other", "up", "up")
        assert path(desk) == ["hi!", " other"]
        await click(desk, "you · ‹ 2/2", "‹")
        assert leaf(desk) == older
        await click(desk, "you · ‹ 1/2", "›")
        assert path(desk) == ["hi!", " other"]
        await click(desk, "you · ‹ 2/2", "‹")
        await click(desk, "you · ‹ 1/2", "›", number=1)
        assert leaf(desk) == newer


async def test_while_a_reply_runs_another_version_is_refused_and_the_reply_goes_on() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", "ctrl+r")
        desk.engine.say(" two")
        await desk.settle()
        await click(desk, "smollm2", "‹")
        assert "cannot show another version: a reply is running" in desk.text
        assert "Esc stops it" in desk.text
        assert not desk.engine.asked(Cancel)
        desk.engine.say(" more")
        desk.engine.end()
        await desk.settle()
        assert path(desk) == ["hi", " two more"]
        await desk.type("", "escape")
        await click(desk, "smollm2", "‹")
        assert path(desk) == ["hi", " one"]


# --- by key ----------------------------------------------------------------------------------------------------------


async def test_in_token_mode_the_cursor_stays_in_the_reply_and_as_far_into_it() -> None:
    async with looking() as desk:
        await desk.type("", "g", "l", "l", "x")
        desk.engine.say(" the", " end")
        desk.engine.end()
        await desk.settle()
        fork = leaf(desk)
        await desk.type("", "g", "l")
        assert index(desk) == 1, "of what both begin with"
        await desk.type("", "<")
        assert leaf(desk) != fork
        assert index(desk) == 1
        await desk.type("", "$", "<")
        assert "this is the first of 2 versions" in desk.text
        await desk.type("", ">")
        assert leaf(desk) == fork
        cursor = desk.app.query_one(TranscriptView).cursor
        assert cursor is not None
        assert cursor == (fork, 1), "the last token: the reply is shorter"
        await desk.type("", ">")
        assert "this is the last of 2 versions" in desk.text
        assert desk.app.screen.tokens.is_open  # type: ignore[attr-defined]


async def test_in_token_mode_a_reply_that_has_no_other_version_says_so_whatever_others_have() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"), ("more", " two"))
        await edited(desk, "!", " three", "up", "up")
        await desk.type("", "ctrl+g", "<")
        assert "this reply has no other version" in desk.text
        assert path(desk) == ["hi!", " three"]


@pytest.mark.parametrize("way", ["palette", "slash"])
async def test_by_name_it_is_the_last_turn_that_has_versions(way: str) -> None:
    async with desktop() as desk:

        async def go(title: str, command: str) -> None:
            if way == "slash":
                await desk.type(command, "escape", "enter")
                return
            commands = desk.app.get_system_commands(desk.app.screen)
            result = next(one for one in commands if one.title == title).callback()
            if result is not None:
                await result
            await desk.settle()

        await go("Previous version", "/version-before")
        assert "no turn in this chat has other versions" in desk.text
        await talked(desk, ("hi", " one"))
        await again(desk, " two")
        await talked(desk, ("more", " three"))
        await go("Previous version", "/version-before")
        assert path(desk) == ["hi", " one"]
        await go("Next version", "/version-next")
        assert path(desk) == ["hi", " two", "more", " three"]
