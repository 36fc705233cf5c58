"""Every key of the chat's tables is pressed where it works, and every entry of the palette run."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from textual.actions import parse
from textual.app import App

from termchat.tui.keys.key import Key, keys_of
from termchat.tui.keys.tables import APP, BIG, CHAT, COMPOSER, MODEL, TOKENS, WALKS
from tests.tui.running_app import Desktop, desktop
from tests.tui.token_mode import looking
from tests.tui.walks import walking


async def heard(desk: Desktop, table: tuple[Key, ...]) -> None:
    """Presses all keys of a table; each of them must reach its action, which is not done."""
    ran: list[tuple[str, tuple[object, ...]]] = []

    async def run(_app: App[None], owner: object, action: str, parameters: tuple[object, ...]) -> bool:
        assert hasattr(owner, f"action_{action}") or hasattr(owner, f"_action_{action}"), (action, owner)
        ran.append((action, parameters))
        return True

    for key in table:
        for name in keys_of(key):
            ran.clear()
            with patch.object(App, "_dispatch_action", run):
                await desk.pilot.press(name)
                await desk.pilot.pause()
            _, action, parameters = parse(key.action)
            assert ran == [(action, parameters)], (key.id, name, ran)


@pytest.mark.parametrize("table", [CHAT, APP], ids=["chat", "app"])
async def test_every_key_of_the_chat_reaches_what_it_does(table: tuple[Key, ...]) -> None:
    async with desktop() as desk:
        await heard(desk, table)


async def test_every_key_of_token_mode_reaches_what_it_does() -> None:
    async with looking() as desk:
        await heard(desk, TOKENS)


async def test_every_key_of_the_big_view_reaches_what_it_does() -> None:
    async with desktop() as desk:
        await desk.type("", "f6")
        await heard(desk, BIG)


async def test_every_key_of_the_walks_reaches_what_it_does() -> None:
    async with walking() as desk:
        await heard(desk, WALKS)


async def test_what_the_composer_takes_itself_and_what_has_no_key_can_be_done() -> None:
    async with desktop() as desk:
        for owner, table in ((desk.composer, COMPOSER), (desk.app.screen_stack[0], MODEL)):
            for key in table:
                assert hasattr(owner, f"action_{parse(key.action)[1]}"), key.id


async def test_every_entry_of_the_palette_runs() -> None:
    async with desktop((100, 30)) as desk:
        await desk.sent("go", "One", " two")
        desk.engine.end()
        await desk.settle()
        home = desk.app.screen_stack[0]
        commands = [one for one in desk.app.get_system_commands(home) if one.title not in ("Quit", "Suspend")]
        assert len(commands) > 20
        with patch.object(type(desk.app), "copy_to_clipboard"):
            for command in commands:
                if command.title == "Edit the message in an editor":
                    continue  # takes the terminal; its own tests run it
                result = command.callback()
                if result is not None:
                    await result
                await desk.pilot.pause()
                while len(desk.app.screen_stack) > 1:
                    desk.app.pop_screen()
                    await desk.pilot.pause()
        assert desk.app.is_running
