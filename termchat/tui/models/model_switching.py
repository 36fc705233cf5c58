"""Which model the chat goes on with: the dialog, and what is heard while it is closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from termchat.chat.changes import DrafterChanged, Notice, StatusChanged
from termchat.chat.loading import Choice
from termchat.engine.address import SIGN
from termchat.tui.keys.tables import name_of
from termchat.tui.models.downloads import Pull
from termchat.tui.models.gather import Chosen, Models
from termchat.tui.screen.parts import Parts

if TYPE_CHECKING:
    from termchat.tui.models.models_dialog import ModelsDialog


_LOOK_AGAIN = 0.5
"""Seconds between looks at downloads: about as often as their numbers change."""


@dataclass
class Heard(Message):
    """A thread has something to say: a download ended, or a model was read."""

    said: Pull | Chosen


class ModelSwitching:
    """Opens the dialog, and hears of downloads and models that were read while it is closed."""

    def __init__(self, parts: Parts, models: Models) -> None:
        self._parts, self._screen, self._chat, self._models = parts, parts.screen, parts.chat, models
        self._do, self._tell = parts.do, parts.tell
        self._dialog: ModelsDialog | None = None
        self._first = self._drafter = ""
        models.told = lambda said: parts.screen.post_message(Heard(said))

    def open(self, problem: str = "", then: Callable[[], object] = lambda: None) -> None:
        """`problem` is why there is no model; `then` is done when the dialog is closed."""
        # With all that they take, not needed before the first frame.
        from termchat.tui.models.models_dialog import ModelsDialog

        def closed(choice: Choice | None) -> None:
            self._dialog = None
            if choice is not None:
                self._do(lambda: self._chat.loading.switch_model(choice))
            else:
                self.remind()
            self._show_downloads()
            then()

        if self._dialog is not None:  # asked for twice in the same burst
            return
        palette = self._parts.palette()
        first = bool(problem) and not self._models.config.model
        told = "" if first else problem
        self._dialog = ModelsDialog(self._chat, self._models, palette, self._do, self.draft_with, told, first=first)
        self._parts.open(self._dialog, closed)

    def remind(self) -> None:
        """Only where there is no model and none is on its way."""
        if self._chat.spec is None and self._chat.phase == "no model" and not self.downloads:
            self._tell(Notice("no model yet", f"{name_of('models')} lists installed and downloadable models"))

    def take(self, wanted: str) -> None:
        """By its name or path; the chat goes on with it as soon as its file is read and checked."""
        self._first = wanted
        self._models.choose(wanted)

    def draft_with(self, wanted: str) -> None:
        """By its name or path, "" for none; it drafts for the chat's model as soon as its file is read and checked. The knob is
        turned so that it does. Where the chat's model is on another machine, it is one of that machine, too."""
        spec = self._chat.spec
        if wanted and not wanted.startswith(SIGN) and spec is not None and spec.engine.url:
            wanted = spec.engine.asked_as(wanted)
        self._drafter = wanted
        if wanted:
            self._models.choose(wanted)
        else:
            self._do(lambda: self._draft(None))

    def _draft(self, choice: Choice | None) -> None:
        self._chat.loading.speculation.draft_with(choice)
        by = self._chat.tuning.draft
        if choice is not None and by not in ("model", "auto"):
            self._parts.desk.knobs.put("draft", "model")
        elif choice is None and by == "model":
            self._parts.desk.knobs.put("draft", "off")

    def drafts_with(self, change: DrafterChanged) -> None:
        self._models.drafts_with(change.sha256, change.draft_model)

    @property
    def downloads(self) -> list[Pull]:
        """Those that run."""
        return self._models.pulls.running

    def _show_downloads(self) -> None:
        """Has the chat's screen show how far downloads are, as long as there are any."""
        self._do(lambda: self._chat.add_changes(StatusChanged()))
        if self.downloads and self._dialog is None:
            self._screen.set_timer(_LOOK_AGAIN, self._show_downloads)

    def heard(self, said: Pull | Chosen) -> None:
        """Shows it in the dialog, or without it as a notice. The first model there is, is chatted with at once."""
        if isinstance(said, Chosen):
            self._chosen(said)
            return
        wanted = self._models.here(said)
        if self._dialog is not None:
            self._dialog.pulled(said, wanted)
        elif said.path is not None:
            self._tell(Notice(f"{said.wanted} is downloaded", "choose it in the model list"))
        elif said.problem is not None and not said.cancelled:
            self._tell(Notice(said.problem.message, said.problem.hint, "error"))
        if said.path is not None and self._chat.spec is None:
            self.take(wanted)

    def _chosen(self, chosen: Chosen) -> None:
        drafts, first = chosen.wanted == self._drafter, chosen.wanted == self._first
        self._drafter = "" if drafts else self._drafter
        if drafts and chosen.choice is not None:
            self._do(lambda: self._draft(chosen.choice))
            if self._dialog is not None:
                self._dialog.wake()
        elif self._dialog is not None:
            self._dialog.chosen(chosen)
        elif (drafts or first) and chosen.problem is not None:
            self._tell(Notice(chosen.problem.message, chosen.problem.hint, "error"))
        elif first and (choice := chosen.choice) is not None:
            self._do(lambda: self._chat.loading.switch_model(choice))
