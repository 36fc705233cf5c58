"""How the model reads a text: its tokens, control tokens marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.widget import Widget
from textual.widgets import Input

from termchat.decoding.escapes import escape, unescape
from termchat.engine.port import Tokenized
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED
from termchat.tui.screens.listing import ReadListing
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.pieces import piece_lines, pieces_title


class PiecesDialog(ReadListing):
    """The tokens of one turn. They are shown when they come: `take` gets them, `refuse` what went wrong."""

    TITLE = "Tokens of the turn"

    def __init__(self, palette: Palette) -> None:
        super().__init__(palette)
        self._tokenized: Tokenized | None = None

    def take(self, tokenized: Tokenized) -> None:
        """The answer."""
        self._tokenized = tokenized
        if self.is_mounted:
            self.say("")
            self.lay_out()

    def refuse(self, problem: str) -> None:
        """No answer, and why."""
        self.say(problem)

    def lay_out(self) -> None:
        """Counts them, too."""
        super().lay_out()
        if self._tokenized is not None:
            self.retitle(f"{self.TITLE}: {pieces_title(self._tokenized)}")

    def made(self, width: int) -> list[Line]:
        """A line a token."""
        if self._tokenized is None:
            return [Line((("the model reads …", MUTED),))]
        return piece_lines(self._tokenized, width)


class TokenizerDialog(PiecesDialog):
    r"""The same for any text, as it is typed; `\n` and the like are read as such. `ask` is called with each text."""

    TITLE = "Tokenizer"
    HINT = "Type any text: \\n is a line break."
    HINTS = (("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "LISTS"

    def __init__(self, palette: Palette, text: str, ask: Callable[[str], None]) -> None:
        super().__init__(palette)
        self._text, self._ask = text, ask

    def inputs(self) -> Iterable[Widget]:
        """The text."""
        yield Field(escape(self._text), select_on_focus=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Asks for its tokens."""
        self._ask(unescape(event.value))
