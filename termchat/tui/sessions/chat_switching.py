"""From one chat to another: new chats, saved ones, other beginnings; and writing transcripts in a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

from termchat.chat.changes import Notice
from termchat.conversation.store.database import StoreError
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.parts import Parts
from termchat.tui.sessions.session_list import Opened, SessionList

if TYPE_CHECKING:
    from termchat.tui.sessions.sessions_dialog import SessionsDialog
    from termchat.tui.sessions.setup import Setup


Save = Callable[[Path], Callable[[], object]]
"""Makes what writes a transcript of the chat as it is now to a path, in any thread."""


def write(
    save: Callable[[], object],
    hear: Callable[[str], object],
    deliver: Callable[[Callable[[], object]], object],
) -> None:
    """Writes a transcript in a thread that the program waits for when it quits.

    Args:
        hear: gets why it could not be written, "" if it is; in the event loop.
        deliver: takes, in the thread, what is to be called in the event loop.
    """

    def work() -> None:
        try:
            save()
            problem = ""
        except (TranscriptError, StoreError) as error:
            problem = f"{error.message}. {error.hint}".strip()
        except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
            problem = str(mistake) or repr(mistake)
        with suppress(RuntimeError):  # the app has ended meanwhile
            deliver(lambda: hear(problem))

    Thread(target=work, name="saving").start()


class ChatSwitching:
    """Between the chat's screen and other chats.

    Args:
        sessions: the saved chats; None where none are kept.
        save: makes what writes a transcript of the chat.
    """

    def __init__(self, parts: Parts, sessions: SessionList | None, save: Save) -> None:
        self._parts, self.sessions, self._save = parts, sessions, save
        self._screen, self._chat, self._tokens = parts.screen, parts.chat, parts.tokens
        self._do, self._tell = parts.do, parts.tell
        self._dialog: SessionsDialog | None = None
        self._problem = ""
        """Why the last transcript could not be written."""
        self._before_raw = ""
        """The system prompt of the chat that raw mode was switched on in, which is back when it is switched off."""

    def new(self, *, keep: bool = False) -> None:
        self._start(keep=keep or None)

    def begin(self, system: str, *, raw: bool, keep: bool | None = None) -> None:
        """See `_start`."""
        old, refused = self._chat.conversation, self._chat.find_refusal("raw")
        if raw and refused is not None:
            self._tell(Notice(*refused))
            return
        if raw and not old.raw:
            self._before_raw = old.system
        self._start(system, raw=raw, keep=keep)

    def _start(self, system: str | None = None, *, raw: bool | None = None, keep: bool | None = None) -> None:
        """Starts a chat with this system prompt and raw mode, and with the settings of the chat before if they are to be kept.
        Where nothing is said (None) they are kept if that is empty: they were made for it. A notice names those reset."""
        from termchat.tui.sessions.setup import turned  # not needed before the first frame

        chat, own = self._chat, turned(self._chat)
        empty = not chat.conversation.nodes
        kept = empty if keep is None else keep
        self._go(lambda: chat.new(system, raw=raw, keep=kept))
        if own and not kept:
            self._tell(Notice(f"reset for the new chat: {own}", "/new keep keeps the settings"))
        elif own and system is None and empty:
            self._tell(Notice(f"the chat is empty already. Kept: {own}", f"{name_of('setup')} can reset the settings"))

    def toggle_raw(self) -> None:
        """Begins a chat in raw mode, or in a raw chat one with the system prompt of before."""
        self.begin(self._system, raw=not self._chat.conversation.raw)

    @property
    def _system(self) -> str:
        chat = self._chat.conversation
        return self._before_raw if chat.raw else chat.system

    def set_up(self) -> None:
        from termchat.tui.sessions.setup import SetupDialog, turned  # not needed before the first frame

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
        self._parts.open(dialog, begin)

    def browse(self) -> None:
        """Opens the saved chats; the chosen one replaces the current chat."""
        from termchat.tui.sessions.sessions_dialog import SessionsDialog  # not needed before the first frame

        def closed(chosen: Opened | Literal["new"] | None) -> None:
            self._dialog = None
            if chosen == "new":
                self.new()
            elif chosen is not None:
                self._go(lambda: self._chat.show_session(*chosen))

        if self.sessions is None:
            self._tell(Notice("chats are not saved in this mode"))
        elif self._dialog is None:  # else asked for twice in the same burst
            palette = self._parts.palette()
            self._dialog = SessionsDialog(self._chat, self.sessions, palette, new=self.new, do=self._do)
            self._parts.open(self._dialog, closed)

    def save(self) -> None:
        from termchat.tui.sessions.save import SaveDialog, default_path  # not needed before the first frame

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
        self._parts.open(dialog)

    def write(self, path: Path, hear: Callable[[str], object]) -> None:
        """Writes a transcript; `hear` gets why it could not be written, "" if it is."""

        def over(problem: str) -> None:
            self._parts.notices.withdraw(self._problem)
            self._problem = problem
            hear(problem)

        write(self._save(path), over, self._screen.call_later)

    def _go(self, to: Callable[[], object]) -> None:
        if self._tokens.mode.open:
            self._tokens.leave()
        self._parts.notices.forget()
        self._do(to)
        self._tokens.mode.find()
