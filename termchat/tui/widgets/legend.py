"""A line under the chat that says what the colours of its tokens mean, where there are such and no ribbon says it."""

from __future__ import annotations

from termchat.tui.draw.lines_view import Slip
from termchat.tui.transcript import TranscriptView
from termchat.tui.views.ribbon import legend_line


class Legend(Slip):
    """The look of a transcript and its colours, from hot to calm."""

    def __init__(self, transcript: TranscriptView) -> None:
        super().__init__(id="legend")
        self._transcript = transcript

    def on_mount(self) -> None:
        """Follows the look."""
        self.watch(self._transcript, "look", self.draw)

    def draw(self) -> None:
        """Shows itself, or nothing."""
        look = self._transcript.look
        self.show_lines([legend_line(look)] if look != "reading" and not self._transcript.pointing else [])
