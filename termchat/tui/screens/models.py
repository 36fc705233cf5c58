"""The models: what is here, what can be had, what fits; switch, download, let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Label

from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.models.listing import Row
from termchat.text import sanitize
from termchat.tui.gathering import Chosen, Models
from termchat.tui.modellist import ModelList
from termchat.tui.pulls import Pull
from termchat.tui.pulse import FRAMES
from termchat.tui.screens.listing import ARROWS, Listing
from termchat.tui.screens.skipped import SkippedDialog
from termchat.tui.themes import Palette
from termchat.tui.transcript.ink import Line
from termchat.tui.views.marks import MUTED
from termchat.tui.views.model import model_lines
from termchat.tui.views.models import State, heading, model_line
from termchat.tui.widgets.sheet import Sheet

_AT_REST = 0.15
"""Seconds without a key after which the files in view are read: reading takes its time from whoever types."""
_BESIDE = 118
"""Columns from which the details stand beside the list."""
_LOW = 20
"""Rows below which there is no room for them."""
_KEYS = {"ctrl+r": "reload", "ctrl+o": "unload", "ctrl+s": "skipped"}
_HINTS: dict[State, str] = {
    "loaded": "Ctrl+R loads it again, Ctrl+O lets it go",
    "loading": "it is being loaded",
    "on disk": "Enter chats with it",
    "downloading": "Del stops it, what came is kept; Esc leaves it running",
    "not downloaded": "Enter downloads it",
    "not installed": "it comes with a package",
    "broken": "it cannot be used",
}


class ModelsDialog(Listing[Choice]):
    """All models. The result is the one to go on with; downloads go on when it is closed.

    Args:
        do: does something to the chat and has the screen take in what came of it.
        problem: what a person should read first.
    """

    DEFAULT_CSS = """
    ModelsDialog > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    ModelsDialog Picker { margin-top: 0; }
    ModelsDialog #list { height: 1fr; }
    ModelsDialog #body { height: 1fr; layout: vertical; }
    ModelsDialog #heading { margin-top: 1; }
    ModelsDialog #details { height: 8; margin-top: 1; }
    ModelsDialog.-beside #body { layout: horizontal; }
    ModelsDialog.-beside #list { width: 1fr; }
    ModelsDialog.-beside #details { width: 36%; height: 1fr; margin: 1 0 0 1; }
    ModelsDialog.-low #details { display: none; }
    ModelsDialog.-low #heading, ModelsDialog.-low Input, ModelsDialog.-low Input:focus { margin-top: 0; }
    ModelsDialog.-low .hint { max-height: 2; }
    """
    TITLE = "Models"
    BINDINGS = [  # noqa: RUF012
        *ARROWS,
        Binding("delete", "cancel", show=False, priority=True),
        *(Binding(keys, action, show=False, priority=True) for keys, action in _KEYS.items()),
    ]

    def __init__(
        self,
        chat: Chat,
        models: Models,
        palette: Palette,
        do: Callable[[Callable[[], object]], None],
        problem: str = "",
    ) -> None:
        super().__init__(palette)
        self._chat, self._models, self._do, self._problem = chat, models, do, problem
        self._list = ModelList(chat, models)
        if problem:
            self._list.highlight(models.config.model or "")
        self._heading, self._details = Sheet(self._headed, id="heading"), Sheet(self._detailed, id="details")
        self._phase = chat.phase
        self._looks: Timer | None = None
        self._at_rest: Timer | None = None

    # --- what is seen ------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Title, filter, list and details, problem, hint; with all that is known, for the first frame."""
        self._list.gather()
        self._arrange()
        self.picker.count = len(self._list.shown)
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
        filter_ = Input(placeholder="filter, or owner/repo to download from Hugging Face")
        filter_.cursor_blink = False
        yield filter_

    def on_mount(self) -> None:
        """Shows what is known, then looks for more."""
        super().on_mount()
        self._heading.paint_with(self._palette)
        self._details.paint_with(self._palette)
        self._looks = self.set_interval(1 / FRAMES, self._look)
        self.call_after_refresh(self._models.look)

    def on_resize(self) -> None:
        """Arranges everything for the size."""
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.app.size
        self.set_class(width >= _BESIDE, "-beside")
        self.set_class(height < _LOW, "-low")

    def on_lines_view_laid(self) -> None:
        """Fills the room there is."""
        self._changed()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The models in view, or why there are none."""
        listed = self._list
        if not listed.shown:
            looking = self._models.looking or not self._models.rows
            return [
                Line((("looking …" if looking else "no model has that in its name, source or description", MUTED),))
            ]
        return [model_line(listed.item(listed.shown[at]), width, listed.longest, chosen=at == chosen) for at in rows]

    def _look(self) -> None:
        """Takes in what was found; downloads move anyway."""
        if self._models.take() | self._has_changed():
            self._gather()
        elif self._models.pulls.running:
            self._show()
        if not self._models.busy and self._chat.phase != "loading" and self._looks is not None:
            self._looks.pause()

    def _has_changed(self) -> bool:
        """Whether the chat has another model than a moment ago."""
        before, self._phase = self._phase, self._chat.phase
        return before != self._phase

    def _wake(self) -> None:
        if self._looks is not None:
            self._looks.resume()

    def _gather(self) -> None:
        self._list.gather()
        self._changed()

    def _show(self) -> None:
        """Draws everything as it is now."""
        self.picker.show(len(self._list.shown), self._list.at)
        self._heading.show()
        self._details.show()
        self._put(".hint", self._hint())
        self._put(".title", self._title())

    def _changed(self) -> None:
        """Draws other rows, and reads their files unless still others follow soon."""
        self._show()
        if self._at_rest is not None:
            self._at_rest.stop()
        self._at_rest = self.set_timer(_AT_REST, self._read)

    def _headed(self) -> list[Line]:
        return [heading(self._heading.room, self._list.longest)]

    def _detailed(self) -> list[Line]:
        listed, row, view = self._list, self._list.row, self._details
        return model_lines(listed.item(row), listed.known(row), view.room, view.size.height) if row is not None else []

    def _hint(self) -> str:
        row = self._list.row
        keys = [_HINTS[self._list.state(row)]] if row is not None else []
        keys += ["Ctrl+S what was left out"] if self._models.skipped else []
        return ", ".join([*keys, "Esc closes"]) + "."

    def _title(self) -> str:
        return f"{self.TITLE}   {self._list.title}"

    def _read(self) -> None:
        """Has the files in view read, the highlighted one first."""
        listed, rows = self._list, max(self.picker.size.height, 1)
        first = max(listed.at - rows, 0)
        wanted = [listed.row, listed.loaded, *listed.shown[first : listed.at + rows]]
        self._models.read(row for row in wanted if row is not None)
        self._wake()

    def _put(self, selector: str, text: str) -> None:
        """Another text in a label, which costs a layout."""
        label = self.query_one(selector, Label)
        if str(label.content) != text:
            label.update(text)

    # --- what a person does ------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters."""
        self.say("")
        self._list.filter(event.value)
        self._changed()
        if self._dirty_widgets:
            self._on_timer_update()  # at once: whoever types waits for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Goes on with the highlighted model, or downloads it."""
        event.stop()
        row = self._list.row
        if row is not None and self.is_current:  # no second Enter in the same burst
            self.say("")
            self._ENTERED[self._list.state(row)](self, row)

    def action_move(self, how: str) -> None:
        """Goes to another row."""
        super().action_move(how)
        self._list.choose(self.picker.chosen)
        self._changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Del is for the filter where there is nothing to stop."""
        return action != "cancel" or self._list.pull is not None

    def action_cancel(self) -> None:
        """Stops the highlighted download."""
        if self._list.pull is not None:
            self._list.pull.cancel()

    def action_unload(self) -> None:
        """Lets the model go."""
        loaded = self._list.loaded
        if loaded is not None and self._free():
            self._do(self._chat.unload)
            self.say(f"{loaded.name} is let go, its memory is free; the next message loads it again")
            self._again()

    def action_reload(self) -> None:
        """Loads the model again."""
        if self._chat.spec is not None and self._free():
            self._do(self._chat.reload)
            self.dismiss(None)

    def action_skipped(self) -> None:
        """What was left out."""
        self.app.push_screen(SkippedDialog(self._palette, self._models.skipped))

    def chosen(self, chosen: Chosen) -> None:
        """A model was read and checked."""
        if chosen.problem is not None:
            self.say(f"{chosen.problem.message}. {chosen.problem.hint}".strip())
        elif self.is_current and self._free():
            self.dismiss(chosen.choice)

    def pulled(self, pull: Pull, wanted: str) -> None:
        """A download ended; `wanted` is what the model is asked for with from now on."""
        if pull.path is not None:
            self._list.follow(pull.wanted, wanted)
            self.say(f"{pull.wanted} is here: Enter chats with it")
        elif pull.problem is not None and not pull.cancelled:
            self.say(f"{pull.problem.message}. {pull.problem.hint}".strip())
        self._again()

    def _again(self) -> None:
        """Looks once more: something has changed."""
        self._gather()
        self._models.look()
        self._wake()

    def _close(self, _row: Row) -> None:
        self.dismiss(None)

    def _chat_with(self, row: Row) -> None:
        if self._free():
            self._models.choose(row.wanted)
            self._wake()

    def _download(self, row: Row) -> None:
        self._models.pull(row)
        self._gather()
        self._wake()

    def _refuse(self, row: Row) -> None:
        self.say(row.problem)

    def _wait(self, _row: Row) -> None:
        self.say("it is on its way: Del stops it")

    _ENTERED: dict[State, Callable[[ModelsDialog, Row], None]] = {  # noqa: RUF012 - a table, never changed
        "loaded": _close,
        "loading": _close,
        "on disk": _chat_with,
        "downloading": _wait,
        "not downloaded": _download,
        "not installed": _refuse,
        "broken": _refuse,
    }

    def _free(self) -> bool:
        """Whether no reply runs; tells so."""
        if self._chat.busy:
            self.say("a reply is running: stop it first (Esc closes this, once more stops the reply)")
        return not self._chat.busy
