"""All commands behind a slash."""

from __future__ import annotations

from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, column
from termchat.tui.screens.listing import ReadListing
from termchat.tui.slashtable import COMMANDS

_NAME = 20
_TAKES = 16


class SlashList(ReadListing):
    """The commands that take nothing, which are the keys by another name, then those that take something."""

    TITLE = "Commands"

    def made(self, width: int) -> list[Line]:
        """A line a command."""
        lines: list[Line] = []
        for title, argument in (("WITH SOMETHING BEHIND THEM", True), ("ALONE", False)):
            lines += [BLANK] * bool(lines) + [Line(((title, TITLE),))]
            for command in COMMANDS.values():
                if bool(command.argument) == argument:
                    name, takes = (
                        column(f"/{command.name}", _NAME),
                        column(command.argument, _TAKES) if argument else "",
                    )
                    room = width - len(name) - len(takes)
                    lines.append(Line(((name, ACCENT), (takes, MUTED), (one_line(command.help, room), TEXT))))
        return lines
