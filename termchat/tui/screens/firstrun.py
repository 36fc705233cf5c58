"""The list of models for somebody who has none: it says first what this is, and what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.widget import Widget

from termchat.chat.service import Chat
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.gathering import Models
from termchat.tui.screens.models import ModelsDialog
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.welcome import first_run_lines


class FirstRun(ModelsDialog):
    """The models, with a welcome above them."""

    DEFAULT_CSS = """
    FirstRun #welcome { height: 8; margin-top: 1; }
    FirstRun #details { display: none; }
    FirstRun.-beside #details { display: block; }
    FirstRun.-beside #welcome { height: 7; }
    FirstRun.-low #welcome { display: none; }
    FirstRun Input, FirstRun Input:focus { margin-top: 0; }
    FirstRun #heading { margin-top: 0; }
    """

    def __init__(
        self, chat: Chat, models: Models, palette: Palette, do: Callable[[Callable[[], object]], None]
    ) -> None:
        super().__init__(chat, models, palette, do)
        self._welcome = Sheet(self._welcomed, id="welcome")

    def inputs(self) -> Iterable[Widget]:
        """The welcome, then the filter."""
        yield self._welcome
        yield from super().inputs()

    def on_mount(self) -> None:
        """Colours for the welcome, too."""
        super().on_mount()
        self._welcome.paint_with(self._palette)

    def gather(self) -> None:
        """Takes in all that is known by now."""
        super().gather()
        self._welcome.show()

    def _title(self) -> str:
        return "Welcome to termchat"

    def _welcomed(self) -> Sequence[Line]:
        rows, models = list(self.models.rows.values()), self.models
        return first_run_lines(rows, self._welcome.room, looking=models.looking or not rows)
