"""All models: to load, to download, to look at, and to set how each runs; with a welcome where there is none yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap

from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.config.per_model import Picked, RunSettings
from termchat.models.disk.discovery import Skipped
from termchat.models.errors import ModelError
from termchat.models.listing import ModelRow
from termchat.text import home, one_line
from termchat.tui.dialogs.base import ARROWS, DetailedListing, ReadListing
from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import MUTED, TEXT, prose
from termchat.tui.keys.dialogs import MODELS, hint
from termchat.tui.models.downloads import Pull
from termchat.tui.models.engine_dialog import EngineDialog
from termchat.tui.models.gather import Chosen, Facts, Models
from termchat.tui.models.model_lines import DraftRole, State, heading, model_line, model_lines
from termchat.tui.models.model_list import ModelList
from termchat.tui.models.welcome import first_run_lines
from termchat.tui.terminal.screens import draw_now
from termchat.tui.themes.theme_file import Palette

_WIDEST = 180
_RUN = ("model-engine", "its settings")
_DRAFTS: dict[DraftRole, tuple[tuple[str, str], ...]] = {
    "": (),
    "can draft": (("model-draft", "drafts with it"),),
    "draft model": (("model-draft", "unloads it"),),
}
_HINTS: dict[State, tuple[tuple[str, str], ...]] = {
    "loaded": (_RUN, ("model-reload", "reloads"), ("model-unload", "unloads")),
    "on disk": (("model-enter", "chats with it"), _RUN),
    "downloading": (("model-cancel", "stops the download"),),
    "not downloaded": (("model-enter", "downloads it"),),
    "elsewhere": (("model-enter", "chats with it there"), ("model-reload", "asks again")),
    "no answer": (("model-enter", "asks again"),),
}
_SAID: dict[State, str] = {
    "loading": "It is being loaded.",
    "not installed": "It is installed with a Python package.",
    "broken": "It cannot be used.",
}
_HINT_LINES = 2
"""Lines of keys below the list on a low screen."""


class ModelsDialog(DetailedListing[Choice]):
    """All models. The result is the one to chat with; downloads continue after it is closed.

    Args:
        do: does something to the chat, and has the screen take in the changes that come of it.
        draft: has a model draft for the loaded one, "" none.
        problem: what a person should read first.
        first: it is the first dialog that a person without a model sees: a welcome is above the list.
    """

    DEFAULT_CSS = """
    ModelsDialog > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    ModelsDialog #details { height: 8; }
    ModelsDialog.-beside #details { width: 36%; height: 1fr; }
    ModelsDialog.-low .hint { max-height: 2; }
    ModelsDialog.-first #welcome { height: 8; margin-top: 1; }
    ModelsDialog.-first #details { display: none; }
    ModelsDialog.-first.-beside #details { display: block; }
    ModelsDialog.-first.-beside #welcome { height: 7; }
    ModelsDialog.-first.-low #welcome { display: none; }
    ModelsDialog.-first Input, ModelsDialog.-first Input:focus { margin-top: 0; }
    ModelsDialog.-first #heading { margin-top: 0; }
    """
    BINDINGS = [*ARROWS, *(key.binding for key in MODELS if key.action)]  # noqa: RUF012
    TITLE = "Models"
    KEYS = "MODELS"
    BESIDE = 118

    def __init__(
        self,
        chat: Chat,
        models: Models,
        palette: Palette,
        do: Callable[[Callable[[], object]], None],
        draft: Callable[[str], None],
        problem: str = "",
        *,
        first: bool = False,
    ) -> None:
        super().__init__(palette)
        self.chat, self.models, self._do, self._draft, self.problem = chat, models, do, draft, problem
        self.set_class(first, "-first")
        self.list = ModelList(chat, models)
        if problem:
            self.list.highlight(models.config.model)
        self._welcome = Sheet(self._welcomed, id="welcome") if first else None
        self._engine_of = ""
        """The model whose settings are shown as soon as its file is read."""
        self._asked = ""
        """The engine that a person had asked again."""
        self._seen = chat.phase, chat.host.drafter, chat.host.drafter_failure
        self._looks: Timer | None = None

    def compose(self) -> ComposeResult:
        self.list.gather()
        self.picker.count = len(self.list.shown)
        yield from super().compose()

    def inputs(self) -> Iterable[Widget]:
        if self._welcome is not None:
            yield self._welcome
        filter_ = Field(placeholder="type a filter, a path, or owner/repo to download from Hugging Face")
        filter_.cursor_blink = False
        yield filter_

    def on_mount(self) -> None:
        super().on_mount()
        self._looks = self.set_interval(1 / FRAMES, self._look)
        self.call_after_refresh(self.models.look)

    def on_resize(self) -> None:
        self.put(".hint", self.hint())
        self.put(".title", self.title_line())

    def on_lines_view_laid(self) -> None:
        self.changed()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        listed = self.list
        if not listed.shown:
            looking = self.models.looking or not self.models.rows
            return [Line((("looking …" if looking else "no model matches", MUTED),))]
        return [model_line(listed.item(listed.shown[at]), width, listed.longest, chosen=at == chosen) for at in rows]

    def _look(self) -> None:
        """Takes in what threads have found since the last look; a timer calls this while there may be more."""
        if self.models.take() | self._has_changed():
            self.gather()
        elif self.models.pulls.running:
            self._show()
        loading = self.chat.phase == "loading" or self.chat.host.drafter_progress is not None
        if not self.models.busy and not loading and self._looks is not None:
            self._looks.pause()

    def _has_changed(self) -> bool:
        """Whether the chat has; says what became of a draft model."""
        chat, before = self.chat, self._seen
        self._seen = chat.phase, chat.host.drafter, chat.host.drafter_failure
        if chat.host.drafter_failure not in (None, before[2]):
            self.say("; ".join(filter(None, (chat.host.drafter_failure.message, chat.host.drafter_failure.hint))))
        elif chat.host.drafter is not None and chat.host.drafter != before[1]:
            self.tell(f"{chat.host.drafter.name} drafts for {self.list.loaded.name if self.list.loaded else 'it'}")
        elif chat.host.drafter is None and before[1] is not None and self.list.drafted_for is not None:
            self.tell(f"{before[1].name} is unloaded and drafts no more")
        return before != self._seen

    def wake(self) -> None:
        """The timer pauses when all threads are done."""
        if self._looks is not None:
            self._looks.resume()

    def gather(self) -> None:
        self.list.gather()
        self.changed()
        self._tell_answer()
        self._open_engine()
        if self._welcome is not None:
            self._welcome.show()

    def _tell_answer(self) -> None:
        """Says what came of asking an engine again."""
        if self._asked and not self.models.asks(self._asked):
            rows = (row for row in self.models.elsewhere.values() if row.is_engine and row.engine == self._asked)
            problem = next((row.problem for row in rows), "")
            self.say(problem) if problem else self.tell(f"{self._asked} answers")
            self._asked = ""

    def _show(self) -> None:
        self.picker.show(len(self.list.shown), self.list.at)
        self.heading.show()
        self.details.show()
        self.put(".hint", self.hint())
        self.put(".title", self.title_line())

    def changed(self) -> None:
        """Draws the rows, and has their files read once they stay in view."""
        self._show()
        self.at_rest(self._read)

    def headed(self) -> list[Line]:
        return [heading(self.heading.room, self.list.longest)]

    def detailed(self) -> list[Line]:
        listed, row, view = self.list, self.list.row, self.details
        return model_lines(listed.item(row), listed.known(row), view.room, view.size.height) if row is not None else []

    def _welcomed(self) -> Sequence[Line]:
        assert self._welcome is not None
        rows, models = list(self.models.rows.values()), self.models
        return first_run_lines(rows, self._welcome.room, looking=models.looking or not rows)

    def hint(self) -> Content:
        """As many keys as there is room for; the one that closes always."""
        state = self.list.state(self.list.row) if self.list.row is not None else None
        does = [*_HINTS.get(state, ())] if state is not None else []
        does += _DRAFTS[self.list.draft_role(self.list.row)] if self.list.row is not None else ()
        does += [("model-skipped", "skipped files")] if self.models.skipped else []
        end = ("close", "closes; the download continues" if state == "downloading" else "closes")
        said = _SAID.get(state, "") if state is not None else ""
        while does and len(wrap(hint(*does, end, before=said).plain, self._inside)) > _HINT_LINES:
            does.pop()
        return hint(*does, end, before=said)

    def title_line(self) -> str:
        if self._welcome is not None:
            return "Welcome to termchat"
        return one_line(f"{self.TITLE}   {self.list.title(self._inside - len(self.TITLE) - 3)}", self._inside)

    @property
    def _inside(self) -> int:
        """Cells between the borders and their padding."""
        return max(min(self.app.size.width, _WIDEST) - 4, 1)

    def _read(self) -> None:
        """The files of the rows in view, the highlighted one first."""
        listed, rows = self.list, max(self.picker.size.height, 1)
        first = max(listed.at - rows, 0)
        wanted = [listed.row, listed.loaded, *listed.shown[first : listed.at + rows]]
        self.models.read([row for row in wanted if row is not None], listed.drafted_for)
        self.wake()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.say("")
        self.list.filter(event.value)
        self.changed()
        draw_now(self)  # whoever types waits for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        row = self.list.row
        if row is not None and self.is_current:  # a second Enter in the same burst does nothing
            self.say("")
            self._ENTERED[self.list.state(row)](self, row)

    def action_move(self, how: str) -> None:
        super().action_move(how)
        self.list.choose(self.picker.chosen)
        self.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Del edits the filter where there is no download to stop."""
        return action != "cancel" or self.list.pull is not None

    def action_cancel(self) -> None:
        if self.list.pull is not None:
            self.list.pull.cancel()

    def action_unload(self) -> None:
        loaded = self.list.loaded
        if loaded is not None and self._free():
            self._do(self.chat.loading.unload_model)
            gone = f"{loaded.name} is unloaded and its memory is free; the next message reloads it"
            left = f"{loaded.name} is disconnected, and its server keeps the model; the next message connects again"
            self.tell(left if loaded.is_server else gone)
            self._again()

    def action_draft(self) -> None:
        listed, row = self.list, self.list.row
        if row is not None:
            self.say("")
            if listed.draft_role(row) == "draft model":
                self._draft("")
            elif why_not := self._why_not_draft(row):
                self.say(why_not)
            else:
                self.tell(f"loading {row.name} to draft …")
                self._draft(row.wanted)
            self.wake()

    def _why_not_draft(self, row: ModelRow) -> str:
        listed, loaded = self.list, self.list.drafted_for
        if self.chat.cannot_draft:
            return f"nothing can be drafted: {self.chat.cannot_draft}"
        if loaded is None and listed.loaded is not None and listed.loaded.engine:
            return "the loaded model is on another machine: --draft names a draft model there"
        if loaded is None:
            return "load a model first, for which this one is to draft"
        if row.wanted == loaded.wanted:
            return f"choose a smaller model to draft for {row.name}"
        if row.path is None:
            return "it is on another machine" if row.engine else "download it first to draft with it"
        why_not = listed.why_not_draft(row)
        return f"{row.name} cannot draft for {loaded.name}: {why_not}" if why_not else ""

    def action_reload(self) -> None:
        """The loaded model; of another engine, what it has."""
        row = self.list.row
        if row is not None and self.list.state(row) in ("elsewhere", "no answer"):
            self._ask_again(row)
            return
        if self.chat.spec is not None and self._free():
            self._do(self.chat.loading.reload_model)
            self.dismiss(None)

    def action_skipped(self) -> None:
        self.app.push_screen(SkippedDialog(self._palette, self.models.skipped))

    @property
    def gathers(self) -> bool:
        """Whether its rows, or the model or the settings that were asked for, are not there yet."""
        return self.models.looking or self.models.chooses or not self.models.rows or bool(self._engine_of)

    def action_engine(self) -> None:
        row = self.list.row
        if row is None:
            return
        place = "where its server is started" if row.is_server else "on its own machine, in config.toml there"
        elsewhere = f"how it runs is set {place}"
        self.say(
            "" if row.path is not None else elsewhere if row.engine else "download it first to change its settings"
        )
        self._engine_of = row.wanted if row.path is not None else ""
        self._open_engine()

    def _open_engine(self) -> None:
        row, facts = self.list.row, self.list.facts
        if row is None or facts is None or row.wanted != self._engine_of or not self.is_current:
            return
        self._engine_of = ""
        if isinstance(facts, ModelError):
            self.say(f"{facts.message}. {facts.hint}".strip())
            return

        def closed(picked: Picked | None) -> None:
            if picked is not None:
                self._load(row, facts, picked)

        def memory(run: RunSettings) -> str:
            return self.list.memory(row, facts.run_as(run))

        dialog = EngineDialog(self._palette, row.name, facts.run, self.chat, self.list.running(row), memory)
        self.app.push_screen(dialog, closed)

    def _load(self, row: ModelRow, facts: Facts, picked: Picked) -> None:
        if picked == facts.run.picked and self.list.state(row) == "loaded":
            self.dismiss(None)
            return
        lesson = bool(self.chat.lesson)
        problem = self.models.pick(row, facts.run_as(facts.run._replace(picked=picked)), lesson=lesson)
        if lesson:
            self._do(lambda: self.chat.add_changes(Notice("these settings last until you leave the lesson")))
        if problem:
            said = f"the settings of {row.name} could not be saved: {problem}"
            told = Notice(said, "they apply until you quit termchat", "warning")
            self._do(lambda: self.chat.add_changes(told))
        self.models.choose(row.wanted)
        self.wake()

    def chosen(self, chosen: Chosen) -> None:
        if chosen.problem is not None:
            self.say(f"{chosen.problem.message}. {chosen.problem.hint}".strip())
        elif self.is_current and self._free():
            self.dismiss(chosen.choice)

    def pulled(self, pull: Pull, wanted: str) -> None:
        """A download has ended; `wanted` is what its model is asked for by from now on."""
        if pull.path is not None:
            self.list.follow(pull.wanted, wanted)
            self.tell(f"{pull.wanted} is downloaded; Enter chats with it")
        elif pull.problem is not None and not pull.cancelled:
            self.say(f"{pull.problem.message}. {pull.problem.hint}".strip())
        self._again()

    def _again(self) -> None:
        self.gather()
        self.models.look()
        self.wake()

    def _close(self, _row: ModelRow) -> None:
        self.dismiss(None)

    def _chat_with(self, row: ModelRow) -> None:
        if self._free():
            self.models.choose(row.wanted)
            self.wake()

    def _download(self, row: ModelRow) -> None:
        self.models.pull(row)
        self.gather()
        self.wake()

    def _refuse(self, row: ModelRow) -> None:
        self.say(row.problem)

    def _ask_again(self, row: ModelRow) -> None:
        self.say("")
        self.tell(f"asking {row.engine} …")
        self._asked = row.engine
        self.models.ask_engine(row.engine)
        self.wake()

    def _wait(self, _row: ModelRow) -> None:
        self.say("already downloading; Del stops it")

    _ENTERED: dict[State, Callable[[ModelsDialog, ModelRow], None]] = {  # noqa: RUF012 - a table, never changed
        "loaded": _close,
        "loading": _close,
        "on disk": _chat_with,
        "downloading": _wait,
        "not downloaded": _download,
        "not installed": _refuse,
        "broken": _refuse,
        "elsewhere": _chat_with,
        "no answer": _ask_again,
    }

    def _free(self) -> bool:
        """Says so if a reply runs."""
        if self.chat.busy:
            self.say("a reply is running; stop it first (press Esc twice: close this list, then stop)")
        return not self.chat.busy


class SkippedDialog(ReadListing):
    """Files and folders that are not in the list, and why."""

    TITLE = "Skipped files"

    def __init__(self, palette: Palette, skipped: Iterable[Skipped]) -> None:
        super().__init__(palette)
        self._skipped = list(skipped)

    def made(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for one in self._skipped:
            lines += prose(home(one.path), width, TEXT)
            lines += [Line((("  ", MUTED), *line.runs)) for line in prose(one.reason, width - 2, Ink("warning"))]
        return lines
