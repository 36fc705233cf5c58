"""Starts a chat as a persona, and saves a chat's settings as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.config.origins import replaced
from termchat.tui.context import ScreenContext
from termchat.tui.sessions.chat_switching import ChatSwitching

if TYPE_CHECKING:
    from termchat.config.personas import Persona, Personas


class PersonaStarting:
    def __init__(self, parts: ScreenContext, conversations: ChatSwitching) -> None:
        self._parts, self._chat, self._conversations = parts, parts.chat, conversations
        self._tell = parts.tell
        self._known: Personas | None = None

    @property
    def known(self) -> Personas:
        """The personas as they were last read."""
        return self._known or self._read()

    def open(self, asked: str = "") -> None:
        """Shows all personas; `asked` is the name of one to confirm first, as a chat has already begun."""
        from termchat.tui.presets.persona_dialog import PersonasDialog  # not needed before the first frame

        def closed(choice: tuple[Persona, bool] | None) -> None:
            if choice is not None:
                self._begin(choice[0], new=choice[1])

        dialog = PersonasDialog(self._read(), self._parts.palette, begun=self._begun, asked=asked)
        self._parts.open(dialog, closed)

    def take(self, name: str) -> None:
        """Starts a chat as a persona; asks first if a chat has already begun.

        Raises:
            PersonaError: there is none of that name.
        """
        persona = self._read().get(name)
        if self._begun:
            self.open(persona.name)
        else:
            self._begin(persona, new=True)

    def keep(self, name: str) -> None:
        """Saves the chat's system prompt and knobs as a persona.

        Raises:
            PersonaError: the name is none, or the file cannot be written.
        """
        from termchat.config.personas import Persona, differing, save

        chat = self._chat
        persona = Persona(name, chat.conversation.system, "", differing(chat.tuning), own=True)
        path = save(persona)
        self._known = None
        self._tell(Notice(f"saved as persona {name}", f"you can add a description in {path}"))

    @property
    def _begun(self) -> bool:
        return self._chat.conversation.leaf is not None

    def _read(self) -> Personas:
        from termchat.config.personas import load  # not needed before the first frame

        self._known = load()
        return self._known

    def _begin(self, persona: Persona, *, new: bool) -> None:
        from termchat.tui.presets.persona_dialog import describe_persona  # not needed before the first frame

        chat = self._chat
        before = chat.conversation.system
        if new:
            self._conversations.begin(persona.system, raw=chat.configured.conversation.raw and not persona.system)
        turn = chat.adjust_all if new else self._parts.knobs.apply  # which TUNE's undo takes back
        turn(*replaced(chat.origin, persona.values, persona.origins))
        stays = not new and persona.system and persona.system != before
        hint = "this chat keeps its system prompt; only a new chat uses the persona's" if stays else ""
        self._tell(Notice(": ".join(filter(None, (persona.origin, describe_persona(persona)))), hint))
