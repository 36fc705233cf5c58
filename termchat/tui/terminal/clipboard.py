"""Text to the clipboard: through the terminal (OSC 52), which works over SSH too, and with the system's tool where one is.

A terminal says nothing of whether it took the text, and long ones it may drop or cut; a tool says it with its exit code. That
is worth texts longer than a terminal takes, and a true answer to whether they were copied.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import Callable
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


class Clipboard:
    """Copies one text after the other, and tells what became of it.

    Args:
        app: its own clipboard, from which its fields paste, has the text, too.
        tell: shows a notice.
    """

    def __init__(self, app: App[Any], tell: Callable[[Notice], None]) -> None:
        self._app, self._tell, self._turn = app, tell, asyncio.Lock()

    def copy(self, text: str, what: str = "") -> None:
        """Copy a text; the event loop does not wait for the tools."""
        app = self._app
        app._clipboard, driver = text, app._driver
        if driver is None:
            return
        data = text.encode("utf-8", "replace")
        if len(data) <= MOST:
            driver.write(f"\x1b]52;c;{base64.b64encode(data).decode()}\a")
        # The screen that is told may have gone by then: no reason to end the app.
        app.run_worker(self._give_to_tools(text, len(data), what or "the text"), exit_on_error=False)

    async def _give_to_tools(self, text: str, length: int, what: str) -> None:
        sent = length <= MOST
        async with self._turn:  # a text that is copied later is there later
            tool = ""
            for one in TOOLS:
                if await _give(one, text):
                    tool = one.command[0]
                    break
        count, lines = len(text), text.count("\n") + 1
        copied = f"copied {what}: {count:,} character{'s' * (count != 1)}" + (
            f" in {lines:,} lines" if lines > 1 else ""
        )
        if tool:
            self._tell(Notice(copied, f"by {tool}" + (" and through the terminal" if sent else "")))
        elif sent:
            self._tell(Notice(copied, "sent through the terminal (OSC 52); some terminals block this"))
        else:
            hint = f"install wl-copy, xclip or xsel to remove the limit, or save a transcript with {name_of('save')}"
            message = f"not copied: {size(length)} exceeds the terminal's OSC 52 limit ({size(MOST)})"
            self._tell(Notice(message, hint, "warning"))


async def _give(tool: Tool, text: str) -> bool:
    """Return whether a tool is here, can work and took the text."""
    is_usable = not tool.needs or any(map(os.environ.get, tool.needs))
    if not is_usable or shutil.which(tool.command[0]) is None:
        return False
    process = None
    try:
        process = await asyncio.create_subprocess_exec(
            *tool.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,  # some stay in the background and keep it open
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=sys.platform != "win32",
        )
        await asyncio.wait_for(process.communicate(text.encode(tool.encoding, "replace")), _PATIENCE)
    except OSError:  # also a `TimeoutError`
        if process is not None and process.returncode is None:
            process.kill()
        return False
    return process.returncode == 0
