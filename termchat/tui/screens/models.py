"""The models: what is here, what can be had, what fits; switch, download, let go."""

from __future__ import annotations

from collections.abc import Callable

from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.config.per_model import Picked, RunSettings
from termchat.models.errors import ModelError
from termchat.models.listing import Row
from termchat.tui.facts import Facts
from termchat.tui.gathering import Chosen, Models
from termchat.tui.keys.dialogs import MODELS
from termchat.tui.pulls import Pull
from termchat.tui.screens.engine import EngineDialog
from termchat.tui.screens.listing import ARROWS
from termchat.tui.screens.modelsshown import ModelsShown
from termchat.tui.screens.skipped import SkippedDialog
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.models import State


class ModelsDialog(ModelsShown):
    """All models. The result is the one to go on with; downloads go on when it is closed.

    Args:
        do: does something to the chat and has the screen take in what came of it.
        problem: what a person should read first.
    """

    BINDINGS = [*ARROWS, *(key.binding for key in MODELS if key.action)]  # noqa: RUF012

    def __init__(
        self,
        chat: Chat,
        models: Models,
        palette: Palette,
        do: Callable[[Callable[[], object]], None],
        problem: str = "",
    ) -> None:
        super().__init__(chat, models, palette, problem)
        self._do = do
        self._engine_of = ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters."""
        self.say("")
        self.list.filter(event.value)
        self.changed()
        if self._dirty_widgets:
            self._on_timer_update()  # at once: whoever types waits for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Goes on with the highlighted model, or downloads it."""
        event.stop()
        row = self.list.row
        if row is not None and self.is_current:  # no second Enter in the same burst
            self.say("")
            self._ENTERED[self.list.state(row)](self, row)

    def action_move(self, how: str) -> None:
        """Goes to another row."""
        super().action_move(how)
        self.list.choose(self.picker.chosen)
        self.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Del is for the filter where there is nothing to stop."""
        return action != "cancel" or self.list.pull is not None

    def action_cancel(self) -> None:
        """Stops the highlighted download."""
        if self.list.pull is not None:
            self.list.pull.cancel()

    def action_unload(self) -> None:
        """Lets the model go."""
        loaded = self.list.loaded
        if loaded is not None and self._free():
            self._do(self.chat.unload)
            self.tell(f"{loaded.name} is let go, its memory is free; the next message loads it again")
            self._again()

    def action_reload(self) -> None:
        """Loads the model again."""
        if self.chat.spec is not None and self._free():
            self._do(self.chat.reload)
            self.dismiss(None)

    def action_skipped(self) -> None:
        """What was left out."""
        self.app.push_screen(SkippedDialog(self._palette, self.models.skipped))

    def action_engine(self) -> None:
        """How the highlighted model is run, as soon as its file is read."""
        row = self.list.row
        if row is None:
            return
        self.say("" if row.path is not None else "how it is run can be set once it is here")
        self._engine_of = row.wanted if row.path is not None else ""
        self._open_engine()

    def gather(self) -> None:
        """Takes in what was found, and opens what waited for it."""
        super().gather()
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

    def _load(self, row: Row, facts: Facts, picked: Picked) -> None:
        """Goes on with a model that is run like this."""
        if picked == facts.run.picked and self.list.state(row) == "loaded":
            self.dismiss(None)
            return
        problem = self.models.pick(row, facts.run_as(facts.run._replace(picked=picked)))
        if problem:
            told = Notice(f"how {row.name} is run cannot be kept: {problem}", "it is so until termchat ends", "warning")
            self._do(lambda: self.chat.changed(told))
        self.models.choose(row.wanted)
        self.wake()

    def chosen(self, chosen: Chosen) -> None:
        """A model was read and checked."""
        if chosen.problem is not None:
            self.say(f"{chosen.problem.message}. {chosen.problem.hint}".strip())
        elif self.is_current and self._free():
            self.dismiss(chosen.choice)

    def pulled(self, pull: Pull, wanted: str) -> None:
        """A download ended; `wanted` is what the model is asked for with from now on."""
        if pull.path is not None:
            self.list.follow(pull.wanted, wanted)
            self.tell(f"{pull.wanted} is here: Enter chats with it")
        elif pull.problem is not None and not pull.cancelled:
            self.say(f"{pull.problem.message}. {pull.problem.hint}".strip())
        self._again()

    def _again(self) -> None:
        """Looks once more: something has changed."""
        self.gather()
        self.models.look()
        self.wake()

    def _close(self, _row: Row) -> None:
        self.dismiss(None)

    def _chat_with(self, row: Row) -> None:
        if self._free():
            self.models.choose(row.wanted)
            self.wake()

    def _download(self, row: Row) -> None:
        self.models.pull(row)
        self.gather()
        self.wake()

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
        if self.chat.busy:
            self.say("a reply is running: stop it first (Esc closes this, once more stops the reply)")
        return not self.chat.busy
