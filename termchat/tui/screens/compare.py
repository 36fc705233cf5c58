"""Two branches side by side."""

from __future__ import annotations

from termchat.conversation.tree import Conversation
from termchat.tui.draw.ink import Line
from termchat.tui.screens.listing import ReadListing
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.compare import compare, compare_lines, summary


class CompareDialog(ReadListing):
    """From the first token that is not the same; `names` stand over the columns."""

    DEFAULT_CSS = "CompareDialog > Vertical { width: 160; }"
    TITLE = "Compare"

    def __init__(
        self, palette: Palette, conversation: Conversation, leaves: tuple[int, int], names: tuple[str, str]
    ) -> None:
        super().__init__(palette)
        self._comparison, self._names = compare(conversation, *leaves), names

    def lay_out(self) -> None:
        """Says where they part."""
        super().lay_out()
        self.retitle(f"{self.TITLE}: {summary(self._comparison)}")

    def made(self, width: int) -> list[Line]:
        """Both columns."""
        return compare_lines(self._comparison, width, self._names)
