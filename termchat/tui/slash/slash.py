"""Commands behind a slash: what is one, how it is completed, and what is said to one that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.changes import Notice
from termchat.text import one_line
from termchat.tui.composer.completion import Completion, Offer

if TYPE_CHECKING:
    from termchat.chat.service import Chat
    from termchat.tui.models.gather import Models
    from termchat.tui.models.model_switching import Choosing
    from termchat.tui.sessions.begin_as import Personating
    from termchat.tui.sessions.chat_switching import Conversations, Save
    from termchat.tui.slash.commands import Command, Deeds  # the table is made when the first slash is typed
    from termchat.tui.themes.library import Wardrobe
    from termchat.tui.tokens.token_bar import Tokens

_MOST = 80
"""Offers at once: more than anyone reads."""
_READ = 100
"""Characters of a name or an argument that are looked at for a message: any text may stand behind a slash."""
_HOW = "/help lists all; // begins a message with a slash"


class Around(NamedTuple):
    """What stands around a chat. `do` does something to it and has the screen take that in, `tell` shows a notice, `keep_theme`
    shows a theme from now on."""

    chat: Chat
    models: Models
    choosing: Choosing
    conversations: Conversations
    personating: Personating
    tokens: Tokens
    save: Save
    wardrobe: Wardrobe
    keep_theme: Callable[[str], None]
    do: Callable[[Callable[[], object]], None]
    tell: Callable[[Notice], None]


class CommandRefused(ValueError):
    """A command cannot be done, and its text stays where it was written. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def parted(text: str) -> tuple[str, str] | None:
    """The name and the argument of a command, None where the text is a message.

    A first word with a second slash in it is a path, and with nothing behind its slash it is no name: both are messages.
    """
    word, _, rest = text[1:].partition("\n" if "\n" in text.split(" ", 1)[0] else " ")
    if not text.startswith("/") or "/" in word or (not word and rest.strip()):
        return None
    return word.strip(), rest.strip()


def message_of(text: str) -> str:
    """The message that a text is which is no command: a second slash at its beginning says that the first is meant."""
    return text[1:] if text.startswith("//") and parted(text[1:]) is not None else text


class Slash:
    """Does what is written behind a slash; a source of completions too.

    Args:
        deeds: makes what commands act on, when the first one is typed.
        send: takes a message.
        keep: takes a text back into the field where it was written.
        tell: shows a notice.
    """

    def __init__(
        self,
        deeds: Callable[[], Deeds],
        send: Callable[[str], None],
        keep: Callable[[str], None],
        tell: Callable[[Notice], None],
    ) -> None:
        self._make, self._send, self._keep, self._tell = deeds, send, keep, tell
        self._made: Deeds | None = None

    def take(self, text: str) -> bool:
        """Does what a text says; False where it is a message and goes out as it stands.

        A command that there is not, or that cannot be done, is told so, and stays in the field.
        """
        command = parted(text)
        if command is None:
            if message_of(text) != text:
                self._send(message_of(text))
                return True
            return False
        try:
            self._run(*command)
        except CommandRefused as problem:
            self._keep(text)
            self._tell(Notice(problem.message, problem.hint, "warning"))
        return True

    def complete(self, line: str, column: int, *, first: bool) -> Completion | None:
        """Names of commands, and behind one of them what it takes."""
        name, space, _ = line.partition(" ")
        if not first or not line.startswith("/") or "/" in name[1:]:
            return None
        if column <= len(name):
            return _fitting(0, line[:column], self._names())
        command = self._find(name[1:])
        if command is None or not space:
            return None
        start = len(name) + 1
        return _fitting(start, line[start:column], command.offers(self._deeds), free=command.free)

    @property
    def _deeds(self) -> Deeds:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def _known(self) -> dict[str, Command]:
        from termchat.tui.slash.commands import COMMANDS

        return COMMANDS

    def _names(self) -> Iterable[Offer]:
        return (Offer(f"/{name}", command.told) for name, command in self._known.items())

    def _run(self, name: str, argument: str) -> None:
        """See `take`.

        Raises:
            Refused: there is no such command, or it cannot be done.
        """
        command = self._find(name)
        if command is None:
            raise CommandRefused(
                f"there is no command /{one_line(name[:_READ], 40)}", f"{self._guess(name[:_READ])}{_HOW}"
            )
        if argument and not command.argument:
            raise CommandRefused(f"/{command.name} takes nothing, not {one_line(argument[:_READ], 40)!r}", _HOW)
        command.run(self._deeds, argument)

    def _find(self, name: str) -> Command | None:
        from termchat.tui.slash.commands import ALSO

        known = (self._known.get(one) for one in (name, name.replace("-", "_"), ALSO.get(name, "")))
        return next((command for command in known if command is not None), None)

    def _guess(self, name: str) -> str:
        begins = [known for known in self._known if name and known.startswith(name)]
        close = difflib.get_close_matches(name, self._known, n=2) or begins[:2]
        return f"did you mean {' or '.join(f'/{one}' for one in close)}? " if close else ""


def _fitting(start: int, typed: str, offers: Iterable[Offer], *, free: bool = False) -> Completion | None:
    """Of the offers those that begin with what is typed, the very same first, then those that have it somewhere.

    What is typed freely is not guessed at: Enter would put in something else.
    """
    word = typed.lower()
    ranked = []
    for offer in offers:
        text = offer.text.lower()
        if text.startswith(word):
            ranked.append((int(text != word), offer))
        elif word.strip("/") in text:
            ranked.append((2, offer))
    if not ranked or (free and word):
        return None
    ranked.sort(key=itemgetter(0))
    return Completion(start, tuple(offer for _, offer in ranked[:_MOST]))
