"""Which model the chat goes on with: the dialog, and what is heard while it is closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from termchat.chat.changes import DrafterChanged, Notice, StatusChanged
from termchat.chat.loading import Choice
from termchat.engine.address import SIGN
from termchat.tui.context import ScreenContext
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.gather import Chosen, Models, Pull

if TYPE_CHECKING:
    from termchat.tui.lists.models_dialog import ModelsDialog


_LOOK_AGAIN = 0.5
"""Seconds between looks at downloads: about as often as their numbers change."""


@dataclass
class Heard(Message):
    """A thread's news: the end of a download, or a model that was read."""

    news: Pull | Chosen


class ModelSwitching:
    """Opens the dialog, and takes in downloads and models that were read while it is closed."""

    def __init__(self, screen: ScreenContext, models: Models) -> None:
        self._screen, self._chat, self._models = screen, screen.chat, models
        self._tell = screen.tell
        self._dialog: ModelsDialog | None = None
        self._first = self._drafter = ""

    def listen(self) -> None:
        """Hear of models that were read in a thread, and of downloads."""
        self._models.told = lambda news: self._screen.post_message(Heard(news))
        if self.downloads:
            self._show_downloads()

    def open(self, problem: str = "", then: Callable[[], object] = lambda: None) -> None:
        """Open the dialog, with the `problem` that there is no model; `then` is called when it is closed."""
        # With all that they take, not needed before the first frame.
        from termchat.tui.lists.models_dialog import ModelsDialog

        def closed(choice: Choice | None) -> None:
            self._dialog = None
            if choice is not None:
                self._chat.loading.switch_model(choice)
            else:
                self.remind()
            self._show_downloads()
            then()

        if self._dialog is not None:  # asked for twice in the same burst
            return
        palette = self._screen.palette
        first = bool(problem) and not self._models.config.model
        shown = "" if first else problem
        self._dialog = ModelsDialog(self._chat, self._models, palette, self.draft_with, shown, first=first)
        self._screen.open(self._dialog, closed)

    def remind(self) -> None:
        """Tell how to get a model, unless one is loaded or on its way."""
        if self._chat.spec is None and self._chat.phase == "no model" and not self.downloads:
            self._tell(Notice("no model yet", f"{name_of('models')} lists installed and downloadable models"))

    def take(self, wanted: str) -> None:
        """Have the chat go on with a model, by its name or path, as soon as its file is read and checked."""
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
            self._draft(None)

    def _draft(self, choice: Choice | None) -> None:
        self._chat.loading.speculation.draft_with(choice)
        by = self._chat.tuning.draft
        if choice is not None and by not in ("model", "auto"):
            self._screen.knobs.put("draft", "model")
        elif choice is None and by == "model":
            self._screen.knobs.put("draft", "off")

    def drafts_with(self, change: DrafterChanged) -> None:
        self._models.drafts_with(change.sha256, change.draft_model)

    @property
    def downloads(self) -> list[Pull]:
        """The running downloads."""
        return self._models.downloads

    def _show_downloads(self) -> None:
        """Have the chat's screen show the progress of downloads, until all are over."""
        self._chat.add_changes(StatusChanged())
        if self.downloads and self._dialog is None:
            self._screen.set_timer(_LOOK_AGAIN, self._show_downloads)

    def heard(self, news: Pull | Chosen) -> None:
        """Show news in the dialog, or without it as a notice; the very first model is loaded at once."""
        if isinstance(news, Chosen):
            self._chosen(news)
            return
        wanted = self._models.here(news)
        if self._dialog is not None:
            self._dialog.pulled(news, wanted)
        elif news.path is not None:
            self._tell(Notice(f"{news.wanted} is downloaded", "choose it in the model list"))
        elif news.problem is not None and not news.cancelled:
            self._tell(Notice(news.problem.message, news.problem.hint, "error"))
        if news.path is not None and self._chat.spec is None:
            self.take(wanted)

    def _chosen(self, chosen: Chosen) -> None:
        drafts, first = chosen.wanted == self._drafter, chosen.wanted == self._first
        self._drafter = "" if drafts else self._drafter
        if drafts and chosen.choice is not None:
            self._draft(chosen.choice)
        elif self._dialog is not None:
            self._dialog.chosen(chosen)
        elif (drafts or first) and chosen.problem is not None:
            self._tell(Notice(chosen.problem.message, chosen.problem.hint, "error"))
        elif first and (choice := chosen.choice) is not None:
            self._chat.loading.switch_model(choice)
