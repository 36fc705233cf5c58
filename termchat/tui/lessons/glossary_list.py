"""The words of decoding: each in one sentence, and where it is seen on the screen."""

from __future__ import annotations

from termchat.lessons.glossary import entries
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import MUTED, STRONG, prose
from termchat.tui.lessons.lesson_words import plain


class GlossaryList(ReadListing):
    TITLE = "Words"
    HINT = "/what WORD explains one."

    def made(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for entry in entries().values():
            lines += [BLANK] * bool(lines)
            lines += [
                Line(((entry.term, STRONG),)),
                *prose(entry.text, width),
                *prose(plain(entry.where), width, MUTED),
            ]
        return lines
