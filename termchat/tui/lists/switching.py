"""The way to another model or another chat: opens the dialogs, and has the chat go on with what a person chose there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

from termchat.chat import opening
from termchat.chat.changes import Notice, StatusChanged
from termchat.chat.loading import Choice
from termchat.config.origins import replaced
from termchat.conversation.store.database import StoreError
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.engine.address import SIGN
from termchat.models.errors import ModelError
from termchat.tui.composer.chat_composer import ChatComposer
from termchat.tui.context import ScreenContext
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.gather import Models, Opened, Pull, SessionList

if TYPE_CHECKING:
    from termchat.config.named_tables import NamedEntries
    from termchat.config.personas import Persona
    from termchat.tui.lists.chat_dialogs import SaveDialog
    from termchat.tui.lists.models_dialog import ModelsDialog


_LOOK_AGAIN = 0.5
"""Seconds between looks at downloads: about as often as their numbers change."""


class ModelSwitching:
    """Opens the list of models, and takes in models that were read and downloads that ended, also while it is closed."""

    def __init__(self, screen: ScreenContext, models: Models) -> None:
        self._screen, self._chat, self._models = screen, screen.chat, models
        self._dialog: ModelsDialog | None = None
        self._wanted = {"chat": "", "draft": ""}
        """The models that the chat goes on with, and that drafts for it, once they are read."""

    def listen(self) -> None:
        """Hear of the threads of `Models`."""
        self._models.deliver, self._models.pulled = self._screen.call_later, self._hear_pull
        self._models.learnt = lambda: self._screen.composer.post_message(ChatComposer.Learnt())
        if self._models.downloads:
            self._show_downloads()

    def open(self, problem: str = "", then: Callable[[], object] = lambda: None) -> None:
        """Open the dialog; `problem` is the reason for none being loaded; `then` is called when it is closed."""
        # With all that it imports, not needed before the first frame.
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
        first = bool(problem) and not self._models.config.model
        self._dialog = ModelsDialog(self._screen, self._models, self.draft_with, "" if first else problem, first=first)
        self._screen.open(self._dialog, closed)

    def remind(self) -> None:
        """Tell how to get a model, unless one is loaded or on its way."""
        if self._chat.spec is None and self._chat.phase == "no model" and not self._models.downloads:
            self._screen.tell(Notice("no model yet", f"{name_of('models')} lists installed and downloadable models"))

    def take(self, wanted: str) -> None:
        """Have the chat go on with a model, by its name or path, as soon as its file is read and checked."""
        self._read_model("chat", wanted)

    def draft_with(self, wanted: str) -> None:
        """Have a model, by its name or path, "" for none, draft for the chat's as soon as its file is read and checked; the
        knob follows. If the chat's model is on another machine, it is one of that machine, too."""
        spec = self._chat.spec
        if wanted and not wanted.startswith(SIGN) and spec is not None and spec.engine.url:
            wanted = spec.engine.asked_as(wanted)
        if wanted:
            self._read_model("draft", wanted)
        else:
            self._wanted["draft"] = ""
            self._set_drafter(None)

    def _read_model(self, role: Literal["chat", "draft"], wanted: str) -> None:
        def hear(choice: Choice | ModelError) -> None:
            if wanted != self._wanted[role]:  # another one was asked for since
                return
            if role == "draft" and isinstance(choice, Choice):
                self._wanted[role] = ""
                self._set_drafter(choice)
            elif self._dialog is not None:
                self._dialog.take_choice(choice)
            elif isinstance(choice, ModelError):
                self._screen.tell(Notice(choice.message, choice.hint, "error"))
            else:
                self._chat.loading.switch_model(choice)

        self._wanted[role] = wanted
        self._models.choose(wanted, hear)

    def _set_drafter(self, choice: Choice | None) -> None:
        self._chat.loading.speculation.draft_with(choice)
        by = self._chat.tuning.draft
        if choice is not None and by not in ("model", "auto"):
            self._screen.knobs.put("draft", "model")
        elif choice is None and by == "model":
            self._screen.knobs.put("draft", "off")

    def _show_downloads(self) -> None:
        """Have the chat's screen show the progress of downloads, until all are over."""
        self._chat.add_changes(StatusChanged())
        if self._models.downloads and self._dialog is None:
            self._screen.set_timer(_LOOK_AGAIN, self._show_downloads)

    def _hear_pull(self, pull: Pull) -> None:
        """Show the end of a download in the dialog, or else as a notice; the very first model is loaded at once."""
        wanted = self._models.here(pull)
        if self._dialog is not None:
            self._dialog.show_pulled(pull, wanted)
        elif pull.path is not None:
            self._screen.tell(Notice(f"{pull.wanted} is downloaded", "choose it in the model list"))
        elif pull.problem is not None and not pull.cancelled:
            self._screen.tell(Notice(pull.problem.message, pull.problem.hint, "error"))
        if pull.path is not None and self._chat.spec is None:
            self.take(wanted)


class ChatSwitching:
    """Starts chats, also as a persona, opens saved ones, and saves transcripts and personas.

    Args:
        sessions: the saved chats; None where none are kept.
    """

    def __init__(self, screen: ScreenContext, sessions: SessionList | None) -> None:
        self._screen, self.sessions = screen, sessions
        self._chat, self._tokens, self._tell = screen.chat, screen.tokens, screen.tell
        self._problem = ""
        """Why the last transcript could not be written."""
        self._before_raw = ""
        """The system prompt of the chat that raw mode was switched on in, which is back when it is switched off."""
        self._personas: NamedEntries[Persona] | None = None

    def begin(self, system: str | None = None, raw: bool | None = None, keep: bool | None = None) -> None:
        """Start a chat with this system prompt and raw mode, and with the settings of the chat before if they are to be kept.

        With None the first two are as configured, and settings are kept if the chat before is empty: they
        were made for this one. A notice names those that are reset.
        """
        from termchat.tui.lists.chat_dialogs import list_turned  # not needed before the first frame

        chat, old, refused = self._chat, self._chat.conversation, self._chat.find_refusal("raw")
        if raw and refused is not None:
            self._tell(Notice(*refused))
            return
        if raw and not old.raw:
            self._before_raw = old.system
        turned, empty = list_turned(chat), not old.nodes
        kept = empty if keep is None else keep
        self._leave_for(lambda: chat.new(system, raw=raw, keep=kept))
        if turned and not kept:
            self._tell(Notice(f"reset for the new chat: {turned}", "/new keep keeps the settings"))
        elif turned and system is None and empty:
            hint = f"{name_of('setup')} can reset the settings"
            self._tell(Notice(f"the chat is empty already. Kept: {turned}", hint))

    def toggle_raw(self) -> None:
        """Begin a chat in raw mode, or in a raw chat one with the system prompt of before."""
        self.begin(self._system, raw=not self._chat.conversation.raw)

    @property
    def _system(self) -> str:
        chat = self._chat.conversation
        return self._before_raw if chat.raw else chat.system

    def set_up(self) -> None:
        """Open the dialog of a new chat."""
        from termchat.tui.lists.chat_dialogs import SetupDialog  # not needed before the first frame

        self._screen.choose(SetupDialog(self._chat, self._system), lambda setup: self.begin(*setup))

    # --- personas ----------------------------------------------------------------------------------------------------

    @property
    def personas(self) -> NamedEntries[Persona]:
        """The personas that ship, and the user's own, as they were last read: completion asks at every key."""
        return self._personas or self._read_personas()

    def _read_personas(self) -> NamedEntries[Persona]:
        from termchat.config.personas import load  # not needed before the first frame

        self._personas = load()
        return self._personas

    def browse_personas(self, asked: str = "") -> None:
        """Open the list of personas; `asked` is the name of one to confirm first, as a chat has already begun."""
        from termchat.tui.lists.preset_dialog import PersonasDialog  # not needed before the first frame

        begun = self._chat.conversation.leaf is not None
        dialog = PersonasDialog(self._read_personas(), self._screen.palette, begun=begun, asked=asked)
        self._screen.choose(dialog, lambda choice: self._begin_as(*choice))

    def begin_as(self, name: str) -> None:
        """Start a chat as a persona; ask first if a chat has already begun.

        Raises:
            NameRefused: there is none of that name.
        """
        persona = self._read_personas().get(name)
        if self._chat.conversation.leaf is not None:
            self.browse_personas(persona.name)
        else:
            self._begin_as(persona, True)

    def save_persona(self, name: str) -> None:
        """Save the chat's system prompt and knobs as a persona.

        Raises:
            NameRefused: the name is none, or the file cannot be written.
        """
        from termchat.config.personas import Persona, differing, save

        chat = self._chat
        self._personas = None
        path = save(Persona(name, chat.conversation.system, "", differing(chat.tuning), own=True))
        self._tell(Notice(f"saved as persona {name}", f"you can add a description in {path}"))

    def _begin_as(self, persona: Persona, new: bool) -> None:
        from termchat.tui.lists.preset_dialog import describe_persona  # not needed before the first frame

        chat = self._chat
        before = chat.conversation.system
        if new:
            self.begin(persona.system, raw=chat.configured.conversation.raw and not persona.system)
        turn = chat.adjust_all if new else self._screen.knobs.apply  # which TUNE's undo takes back
        turn(*replaced(chat.origin, persona.values, persona.origins))
        stays = not new and persona.system and persona.system != before
        hint = "this chat keeps its system prompt; only a new chat uses the persona's" if stays else ""
        self._tell(Notice(": ".join(filter(None, (persona.origin, describe_persona(persona)))), hint))

    # --- saved chats and transcripts ---------------------------------------------------------------------------------

    def browse(self) -> None:
        """Open the saved chats; the chosen one replaces the current chat."""
        from termchat.tui.lists.sessions_dialog import SessionsDialog  # not needed before the first frame

        def take(opened: Opened) -> None:
            self._leave_for(lambda: self._chat.show_session(*opened))

        if self.sessions is None:
            self._tell(Notice("chats are not saved in this mode"))
        elif not isinstance(self._screen.app.screen, SessionsDialog):  # else asked for twice in the same burst
            self._screen.choose(SessionsDialog(self._chat, self.sessions, self._screen.palette, new=self.begin), take)

    def save(self) -> None:
        """Open the dialog that saves the transcript."""
        from termchat.tui.lists.chat_dialogs import SaveDialog, default_path  # not needed before the first frame

        self._screen.open(SaveDialog(default_path(self._chat.conversation.title), self.write))

    def write(self, path: Path, dialog: SaveDialog | None = None) -> None:
        """Write a transcript in a thread that the program waits for when it quits; a problem is shown in the dialog if it is
        still open, else as a notice."""
        save = opening.make_saver(self._chat.session, path)

        def work() -> None:
            problem = ""
            try:
                save()
            except (TranscriptError, StoreError) as error:
                problem = f"{error.message}. {error.hint}".strip()
            except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
                problem = str(mistake) or repr(mistake)
            with contextlib.suppress(RuntimeError):  # the app has ended meanwhile
                self._screen.call_later(over, problem)

        def over(problem: str) -> None:
            self._screen.withdraw(self._problem)
            self._problem = problem
            is_open = dialog is not None and dialog.is_attached
            if not problem:
                self._tell(Notice(f"saved {path}"))
            elif not is_open:
                self._tell(Notice(problem, f"{path} was not saved", "error"))
            if dialog is not None and is_open:
                dialog.end_saving(problem)

        Thread(target=work, name="saving").start()

    def _leave_for(self, to: Callable[[], object]) -> None:
        if self._tokens.is_open:
            self._tokens.leave()
        to()
        self._tokens.find()
