"""Text to the clipboard: through the terminal (OSC 52), which works over SSH too, and with the system's tool where one is.

A terminal says nothing of whether it took the text, and long ones it may drop or cut; a tool says it with its exit code.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from textual.app import App

from termchat.chat.changes import Notice
from termchat.text import size
from termchat.tui.keys.tables import name_of

MOST = 74_994
"""Bytes of text that go through the terminal: the longest that the common ones take (100,000 characters in base64)."""

_PATIENCE = 5.0
"""Seconds that a tool has."""


class Tool(NamedTuple):
    """A program that takes the text on stdin; one of the variables `needs` must be set, if it has any."""

    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    encoding: str = "utf-8"


TOOLS = (
    Tool(("wl-copy",), ("WAYLAND_DISPLAY",)),
    Tool(("xclip", "-selection", "clipboard", "-in"), ("DISPLAY",)),
    Tool(("xsel", "--clipboard", "--input"), ("DISPLAY",)),
    Tool(("pbcopy",)),
    Tool(("clip.exe",), ("WSL_DISTRO_NAME", "WSL_INTEROP"), "utf-16"),
    Tool(("clip",), ("SYSTEMROOT",), "utf-16"),
    Tool(("tmux", "load-buffer", "-w", "-"), ("TMUX",)),
)
"""In the order in which they are asked."""


def usable(environ: Mapping[str, str] = os.environ) -> list[Tool]:
    """The tools that are here and can work."""
    return [
        tool
        for tool in TOOLS
        if (not tool.needs or any(environ.get(name) for name in tool.needs)) and shutil.which(tool.command[0])
    ]


def keep(app: App[Any], text: str) -> Callable[[str], None] | None:
    """Makes a text the app's own clipboard, from which its fields paste; returns what writes to the terminal, if any."""
    app._clipboard, driver = text, app._driver
    return driver.write if driver is not None else None


class Clipboard:
    """Copies one text after the other; what became of it is told.

    Args:
        write: writes to the terminal.
        tell: shows a notice.
    """

    def __init__(self, write: Callable[[str], None], tell: Callable[[Notice], None]) -> None:
        self._write, self._tell = write, tell
        self._task: asyncio.Task[None] | None = None

    def copy(self, text: str, what: str = "") -> None:
        """Copies a text; the event loop does not wait for the tools."""
        data = text.encode("utf-8", "replace")
        sent = len(data) <= MOST
        if sent:
            self._write(f"\x1b]52;c;{base64.b64encode(data).decode()}\a")
        before = self._task
        self._task = asyncio.create_task(self._copy(text, f"copied {what or 'the text'}: {_long(text)}", sent, before))

    async def _copy(self, text: str, copied: str, sent: bool, before: asyncio.Task[None] | None) -> None:
        if before is not None:  # a text that is copied later is there later
            await asyncio.wait((before,))
        took = ""
        for tool in usable():
            if await _give(tool, text):
                took = tool.command[0]
                break
        through = "sent through the terminal (OSC 52); some terminals block this"
        if took:
            self._tell(Notice(copied, f"by {took}" + (" and through the terminal" if sent else "")))
        elif sent:
            self._tell(Notice(copied, through))
        else:
            much = size(len(text.encode("utf-8", "replace")))
            hint = f"install wl-copy, xclip or xsel to remove the limit, or save a transcript with {name_of('save')}"
            message = f"not copied: {much} exceeds the terminal's OSC 52 limit ({size(MOST)})"
            self._tell(Notice(message, hint, "warning"))


async def _give(tool: Tool, text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *tool.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,  # some stay in the background and keep it open
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=sys.platform != "win32",
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(process.communicate(text.encode(tool.encoding, "replace")), _PATIENCE)
    except TimeoutError:
        process.kill()
        return False
    except OSError:
        return False
    return process.returncode == 0


def _long(text: str) -> str:
    count, lines = len(text), text.count("\n") + 1
    return f"{count:,} character{'s' * (count != 1)}" + (f" in {lines:,} lines" if lines > 1 else "")
