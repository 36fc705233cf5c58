"""The models as they are seen: a list that fills, and the highlighted one in detail."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Label

from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.text import one_line, sanitize
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import MUTED
from termchat.tui.draw.polling import FRAMES
from termchat.tui.gathering import Models
from termchat.tui.keys.dialogs import hint
from termchat.tui.modellist import ModelList
from termchat.tui.screens.detailed import DetailedListing
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.model import model_lines
from termchat.tui.views.models import State, heading, model_line

_WIDEST = 180
_RUN = ("model-engine", "how it is run")
_HINTS: dict[State, tuple[tuple[str, str], ...]] = {
    "loaded": (_RUN, ("model-reload", "loads it again"), ("model-unload", "lets it go")),
    "on disk": (("model-enter", "chats with it"), _RUN),
    "downloading": (("model-cancel", "stops it, what came is kept"),),
    "not downloaded": (("model-enter", "downloads it"),),
}
_SAID: dict[State, str] = {
    "loading": "It is being loaded.",
    "not installed": "It comes with a package.",
    "broken": "It cannot be used.",
}
_HINT_LINES = 2
"""What there is room for below the list where rows are few."""


class ModelsShown(DetailedListing[Choice]):
    """The list of models, without what is done with it. `problem` is what a person should read first."""

    DEFAULT_CSS = """
    ModelsShown > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    ModelsShown Picker { margin-top: 0; }
    ModelsShown #list { height: 1fr; }
    ModelsShown #body { height: 1fr; layout: vertical; }
    ModelsShown #heading { margin-top: 1; }
    ModelsShown #details { height: 8; margin-top: 1; }
    ModelsShown.-beside #body { layout: horizontal; }
    ModelsShown.-beside #list { width: 1fr; }
    ModelsShown.-beside #details { width: 36%; height: 1fr; margin: 1 0 0 1; }
    ModelsShown.-low #details { display: none; }
    ModelsShown.-low #heading, ModelsShown.-low Input, ModelsShown.-low Input:focus { margin-top: 0; }
    ModelsShown.-low .hint { max-height: 2; }
    """
    TITLE = "Models"
    KEYS = "MODELS"
    BESIDE = 118

    def __init__(self, chat: Chat, models: Models, palette: Palette, problem: str) -> None:
        super().__init__(palette)
        self.chat, self.models, self._problem = chat, models, problem
        self.list = ModelList(chat, models)
        if problem:
            self.list.highlight(models.config.model or "")
        self._heading, self._details = Sheet(self._headed, id="heading"), Sheet(self._detailed, id="details")
        self._phase = chat.phase
        self._looks: Timer | None = None

    def compose(self) -> ComposeResult:
        """Title, filter, list and details, problem, hint; with all that is known, for the first frame."""
        self.list.gather()
        self._arrange()
        self.picker.count = len(self.list.shown)
        with Vertical():
            yield Label(self._title(), classes="title", markup=False)
            yield from self.inputs()
            with Container(id="body"):
                with Container(id="list"):
                    yield self._heading
                    yield self.picker
                yield self._details
            yield Label(sanitize(self._problem, keep=""), classes="problem", markup=False)
            yield Label(self._hint(), classes="hint", markup=False)

    def inputs(self) -> Iterable[Widget]:
        """The filter."""
        filter_ = Field(placeholder="filter, or owner/repo to download from Hugging Face")
        filter_.cursor_blink = False
        yield filter_

    def on_mount(self) -> None:
        """Shows what is known, then looks for more."""
        super().on_mount()
        self._heading.paint_with(self._palette)
        self._details.paint_with(self._palette)
        self._looks = self.set_interval(1 / FRAMES, self._look)
        self.call_after_refresh(self.models.look)

    def on_resize(self) -> None:
        """Says as much as there is room for now; Textual has the base arrange it, too."""
        self.put(".hint", self._hint())
        self.put(".title", self._title())

    def on_lines_view_laid(self) -> None:
        """Fills the room there is."""
        self.changed()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The models in view, or why there are none."""
        listed = self.list
        if not listed.shown:
            looking = self.models.looking or not self.models.rows
            return [
                Line((("looking …" if looking else "no model has that in its name, source or description", MUTED),))
            ]
        return [model_line(listed.item(listed.shown[at]), width, listed.longest, chosen=at == chosen) for at in rows]

    def _look(self) -> None:
        """Takes in what was found; downloads move anyway."""
        if self.models.take() | self._has_changed():
            self.gather()
        elif self.models.pulls.running:
            self._show()
        if not self.models.busy and self.chat.phase != "loading" and self._looks is not None:
            self._looks.pause()

    def _has_changed(self) -> bool:
        """Whether the chat has another model than a moment ago."""
        before, self._phase = self._phase, self.chat.phase
        return before != self._phase

    def wake(self) -> None:
        """There may be something to take in soon."""
        if self._looks is not None:
            self._looks.resume()

    def gather(self) -> None:
        """Takes in all that is known by now."""
        self.list.gather()
        self.changed()

    def _show(self) -> None:
        """Draws everything as it is now."""
        self.picker.show(len(self.list.shown), self.list.at)
        self._heading.show()
        self._details.show()
        self.put(".hint", self._hint())
        self.put(".title", self._title())

    def changed(self) -> None:
        """Draws other rows, and reads their files unless still others follow soon."""
        self._show()
        self.at_rest(self._read)

    def _headed(self) -> list[Line]:
        return [heading(self._heading.room, self.list.longest)]

    def _detailed(self) -> list[Line]:
        listed, row, view = self.list, self.list.row, self._details
        return model_lines(listed.item(row), listed.known(row), view.room, view.size.height) if row is not None else []

    def _hint(self) -> Content:
        """Keys, as many as there is room for; the way out always."""
        state = self.list.state(self.list.row) if self.list.row is not None else None
        does = [*_HINTS.get(state, ())] if state is not None else []
        does += [("model-skipped", "what was left out")] if self.models.skipped else []
        end = ("close", "closes, it goes on" if state == "downloading" else "closes")
        said = _SAID.get(state, "") if state is not None else ""
        while does and len(wrap(hint(*does, end, before=said).plain, self._inside)) > _HINT_LINES:
            does.pop()
        return hint(*does, end, before=said)

    def _title(self) -> str:
        return one_line(f"{self.TITLE}   {self.list.title(self._inside - len(self.TITLE) - 3)}", self._inside)

    @property
    def _inside(self) -> int:
        """Cells between border and padding."""
        return max(min(self.app.size.width, _WIDEST) - 4, 1)

    def _read(self) -> None:
        """Has the files in view read, the highlighted one first."""
        listed, rows = self.list, max(self.picker.size.height, 1)
        first = max(listed.at - rows, 0)
        wanted = [listed.row, listed.loaded, *listed.shown[first : listed.at + rows]]
        self.models.read(row for row in wanted if row is not None)
        self.wake()
