"""Finding in the chat, on the screen: a line in which a text is typed, its hits marked, and the way from one to the next."""

from __future__ import annotations

from termchat.tui.keys.tables import name_of
from termchat.tui.screen.asking import Asking
from termchat.tui.tokens.token_bar import Tokens
from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.hits import Finding

_GOES_ON = 1 / 15
"""Seconds between parts of a long search."""


class Searching:
    """One search, while its line is open. In token mode the cursor goes to the first token of each hit in a reply."""

    def __init__(self, tokens: Tokens, asking: Asking) -> None:
        self._tokens, self._asking = tokens, asking
        self._transcript = view = tokens.transcript
        self._finding = Finding()
        self._place, self._cursor = view.place, view.cursor
        self.query = ""
        self._worker = view.set_interval(_GOES_ON, self._go_on, pause=True)

    def begin(self, query: str) -> None:
        """Open the line with the query of before."""
        self._transcript.finding = self._finding
        self._finding.read(self._transcript.parts())
        hint = f"↑ ↓ or {name_of('find')} moves, Enter stays there, {name_of('back')} goes back"
        self._asking.ask("find", query, hint, walks=True)
        self.look_for(query)

    def grew(self) -> None:
        if self._finding.read(self._transcript.parts()):
            self._say()
            self._transcript.redraw_hits()

    def end(self, *, stays: bool) -> None:
        """Remove the marks; return to where the search started unless it `stays`."""
        self._worker.stop()
        self._transcript.finding = None
        self._asking.close()
        if stays:
            self._transcript.redraw_hits()
        elif self._cursor is not None and self._tokens.mode.open:
            self._transcript.set_cursor(self._cursor)
            self._tokens.show()
        else:
            self._transcript.return_to(self._place)

    def look_for(self, query: str) -> None:
        self.query = query
        anchor, _ = self._place
        self._finding.look_for(query, anchor)
        self._show()

    def _go_on(self) -> None:
        # A chat that is too long to be searched at once is searched part by part.
        before = self._finding.at
        self._finding.go_on()
        if self._finding.at != before:
            self._show()
        else:
            self._say()
            self._transcript.redraw_hits()

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) hit."""
        self._finding.step(by)
        self._show()

    def _show(self) -> None:
        self._say()
        current = self._finding.current
        if current is not None:
            turn, (begin, _) = current
            anchor = Anchor(turn, begin)
            token = self._transcript.token_of(anchor) if self._tokens.mode.open else None
            if token is not None:
                self._transcript.set_cursor(token)
                self._tokens.show()
            else:
                self._transcript.bring(anchor)
        self._transcript.redraw_hits()

    def _say(self) -> None:
        finding = self._finding
        (self._worker.resume if finding.is_going_on else self._worker.pause)()
        if not finding.query.strip():
            self._asking.remark("")
        elif finding.at is None and finding.is_going_on:
            self._asking.remark("…")
        elif finding.at is None:
            self._asking.remark("not found", "warning")
        else:
            self._asking.remark(f"{finding.at + 1:,} of {finding.count:,}{'…' * finding.is_going_on}")
