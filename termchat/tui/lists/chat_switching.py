"""From one chat to another: new chats, personas, saved chats; and writing transcripts in a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

from termchat.chat import opening
from termchat.chat.changes import Notice
from termchat.config.origins import replaced
from termchat.conversation.store.database import StoreError
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.tui.context import ScreenContext
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.session_list import Opened, SessionList

if TYPE_CHECKING:
    from termchat.config.named_tables import NamedEntries
    from termchat.config.personas import Persona
    from termchat.tui.lists.sessions_dialog import SessionsDialog
    from termchat.tui.lists.setup import Setup


class ChatSwitching:
    """Between the chat's screen and other chats.

    Args:
        sessions: the saved chats; None where none are kept.
    """

    def __init__(self, screen: ScreenContext, sessions: SessionList | None) -> None:
        self._screen, self.sessions = screen, sessions
        self._chat, self._tokens, self._tell = screen.chat, screen.tokens, screen.tell
        self._dialog: SessionsDialog | None = None
        self._problem = ""
        """Why the last transcript could not be written."""
        self._before_raw = ""
        """The system prompt of the chat that raw mode was switched on in, which is back when it is switched off."""
        self._personas: NamedEntries[Persona] | None = None

    def begin(self, system: str | None = None, *, raw: bool | None = None, keep: bool | None = None) -> None:
        """Start a chat with this system prompt and raw mode, and with the settings of the chat before if they are to be kept.

        Unless told otherwise (None) the first two are as configured, and settings are kept if the chat before is empty: they
        were made for this one. A notice names those that are reset.
        """
        from termchat.tui.lists.setup import turned  # not needed before the first frame

        chat, old, refused = self._chat, self._chat.conversation, self._chat.find_refusal("raw")
        if raw and refused is not None:
            self._tell(Notice(*refused))
            return
        if raw and not old.raw:
            self._before_raw = old.system
        own, empty = turned(chat), not old.nodes
        kept = empty if keep is None else keep
        self._go(lambda: chat.new(system, raw=raw, keep=kept))
        if own and not kept:
            self._tell(Notice(f"reset for the new chat: {own}", "/new keep keeps the settings"))
        elif own and system is None and empty:
            self._tell(Notice(f"the chat is empty already. Kept: {own}", f"{name_of('setup')} can reset the settings"))

    def toggle_raw(self) -> None:
        """Begin a chat in raw mode, or in a raw chat one with the system prompt of before."""
        self.begin(self._system, raw=not self._chat.conversation.raw)

    @property
    def _system(self) -> str:
        chat = self._chat.conversation
        return self._before_raw if chat.raw else chat.system

    def set_up(self) -> None:
        from termchat.tui.lists.setup import SetupDialog, turned  # not needed before the first frame

        chat = self._chat

        def begin(setup: Setup | None) -> None:
            if setup is not None:
                self.begin(setup.system, raw=setup.raw, keep=setup.keep)

        refused = chat.find_refusal("raw")
        no_raw = refused.message if refused is not None else ""
        dialog = SetupDialog(
            self._system,
            raw=chat.configured.conversation.raw,
            turned=turned(chat),
            keep=not chat.conversation.nodes,
            no_raw=no_raw,
        )
        self._screen.open(dialog, begin)

    # --- personas ----------------------------------------------------------------------------------------------------

    @property
    def personas(self) -> NamedEntries[Persona]:
        """The personas as they were last read."""
        return self._personas or self._read_personas()

    def _read_personas(self) -> NamedEntries[Persona]:
        from termchat.config.personas import load  # not needed before the first frame

        self._personas = load()
        return self._personas

    def browse_personas(self, asked: str = "") -> None:
        """Open the list of personas; `asked` is the name of one to confirm first, as a chat has already begun."""
        from termchat.tui.lists.persona_dialog import PersonasDialog  # not needed before the first frame

        def closed(choice: tuple[Persona, bool] | None) -> None:
            if choice is not None:
                self._begin_as(choice[0], new=choice[1])

        begun = self._chat.conversation.leaf is not None
        self._screen.open(PersonasDialog(self._read_personas(), self._screen.palette, begun=begun, asked=asked), closed)

    def begin_as(self, name: str) -> None:
        """Start a chat as a persona; ask first if a chat has already begun.

        Raises:
            NameRefused: there is none of that name.
        """
        persona = self._read_personas().get(name)
        if self._chat.conversation.leaf is not None:
            self.browse_personas(persona.name)
        else:
            self._begin_as(persona, new=True)

    def save_persona(self, name: str) -> None:
        """Save the chat's system prompt and knobs as a persona.

        Raises:
            NameRefused: the name is none, or the file cannot be written.
        """
        from termchat.config.personas import Persona, differing, save

        chat = self._chat
        path = save(Persona(name, chat.conversation.system, "", differing(chat.tuning), own=True))
        self._personas = None
        self._tell(Notice(f"saved as persona {name}", f"you can add a description in {path}"))

    def _begin_as(self, persona: Persona, *, new: bool) -> None:
        from termchat.tui.lists.persona_dialog import describe_persona  # not needed before the first frame

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

        def closed(chosen: Opened | Literal["new"] | None) -> None:
            self._dialog = None
            if chosen == "new":
                self.begin()
            elif chosen is not None:
                self._go(lambda: self._chat.show_session(*chosen))

        if self.sessions is None:
            self._tell(Notice("chats are not saved in this mode"))
        elif self._dialog is None:  # else asked for twice in the same burst
            palette = self._screen.palette
            self._dialog = SessionsDialog(self._chat, self.sessions, palette, new=self.begin)
            self._screen.open(self._dialog, closed)

    def save(self) -> None:
        from termchat.tui.lists.save import SaveDialog, default_path  # not needed before the first frame

        def begin(path: Path) -> None:
            self.write(path, lambda problem: over(path, problem))

        def over(path: Path, problem: str) -> None:
            if not problem:
                self._tell(Notice(f"saved {path}"))
            elif not dialog.is_attached:
                self._tell(Notice(problem, f"{path} was not saved", "error"))
            if dialog.is_attached:
                dialog.over(problem)

        dialog = SaveDialog(default_path(self._chat.conversation.title), begin)
        self._screen.open(dialog)

    def write(self, path: Path, hear: Callable[[str], object]) -> None:
        """Write a transcript in a thread that the program waits for when it quits; `hear` gets the problem, "" for none."""
        save = opening.make_saver(self._chat.session, path)

        def work() -> None:
            problem = ""
            try:
                save()
            except (TranscriptError, StoreError) as error:
                problem = f"{error.message}. {error.hint}".strip()
            except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
                problem = str(mistake) or repr(mistake)
            with suppress(RuntimeError):  # the app has ended meanwhile
                self._screen.call_later(over, problem)

        def over(problem: str) -> None:
            self._screen.withdraw(self._problem)
            self._problem = problem
            hear(problem)

        Thread(target=work, name="saving").start()

    def _go(self, to: Callable[[], object]) -> None:
        if self._tokens.mode.open:
            self._tokens.leave()
        self._screen.forget_notices()
        to()
        self._tokens.mode.find()
