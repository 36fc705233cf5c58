"""The commands of the composer: what is typed behind a slash is completed, and done when it is sent."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.text import one_line
from termchat.tui.composer.chat_composer import ChatComposer, CommandRefused, split_command
from termchat.tui.composer.completion import Completion, Offer

if TYPE_CHECKING:
    from termchat.tui.screen.screen import ChatScreen
    from termchat.tui.slash.commands import Command  # the table is made when the first slash is typed

_MOST = 80
"""Offers at once: more than anyone reads."""
_READ = 100
"""Characters of a name or an argument that are looked at for a message: any text may stand behind a slash."""
_PATH = ("/", "~", "./", "../")
"""How a path begins, where a name or a text may stand, too."""
_HOW = "/help lists all commands; start a message with // to send a slash"


def message_of(text: str) -> str:
    """Return the message in a text that is not a command: a second slash at its start says that the first is part of it."""
    return text[1:] if text.startswith("//") and split_command(text[1:]) is not None else text


def attach(screen: ChatScreen) -> None:
    """Give the composer of a screen its commands."""
    slash = Slash(screen)
    screen.composer.commands, screen.composer.complete_command = slash.run_text, slash.complete


class Slash:
    """Runs and completes commands."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen

    def run_text(self, text: str) -> bool:
        """Run the command in a text; return False for a message, which is sent unchanged.

        A notice explains a command that is unknown or refused, and its text goes back into the field.
        """
        words, composer = split_command(text), self._screen.composer
        if words is None:
            if message_of(text) != text:
                composer.post_message(ChatComposer.Submitted(message_of(text), message_of(text)))
                return True
            return False
        name, argument = words
        try:
            command = self._find_command(name)
            if command is None:
                unknown = name[:_READ]
                raise CommandRefused(f"unknown command /{one_line(unknown, 40)}", f"{self._guess_name(unknown)}{_HOW}")
            if argument and not command.argument:
                raise CommandRefused(f"/{command.name} takes no argument, not {one_line(argument[:_READ], 40)!r}", _HOW)
            command.execute(self._screen, argument)
        except CommandRefused as problem:
            composer.call_next(composer.give_back, text)  # the field is emptied first
            self._screen.tell(Notice(problem.message, problem.hint, "warning"))
        return True

    def complete(self, line: str, column: int) -> Completion | None:
        """Complete names of commands, and after one of them its argument."""
        name, space, _ = line.partition(" ")
        if not line.startswith("/") or "/" in name[1:]:
            return None
        if column <= len(name):
            from termchat.tui.slash.commands import COMMANDS

            return _rank_offers(0, line[:column], (Offer(f"/{name}", one.summary) for name, one in COMMANDS.items()))
        command = self._find_command(name[1:])
        if command is None or not space:
            return None
        start = len(name) + 1
        before, space, word = line[start:column].rpartition(" ")
        if space and word:
            begun = [offer for offer in command.words(before) if offer.text.startswith(word) and offer.text != word]
            if begun:
                return Completion(column - len(word), tuple(begun))
        typed = line[start:column]
        if command.takes_path and typed.startswith(_PATH):
            paths = [offer for offer in self._screen.composer.paths.paths(typed) if offer.text != typed]
            return Completion(start, tuple(paths)) if paths else None
        return _rank_offers(start, typed, command.offers(self._screen), free=command.free)

    def _find_command(self, name: str) -> Command | None:
        from termchat.tui.slash.commands import ALSO, COMMANDS

        spelled = name.replace("-", "_")
        return COMMANDS.get(name) or COMMANDS.get(spelled) or COMMANDS.get(ALSO.get(spelled, ""))

    def _guess_name(self, name: str) -> str:
        from termchat.tui.slash.commands import COMMANDS

        begins = [known for known in COMMANDS if name and known.startswith(name)]
        close = difflib.get_close_matches(name, COMMANDS, n=2) or begins[:2]
        return f"did you mean {' or '.join(f'/{one}' for one in close)}? " if close else ""


def _rank_offers(start: int, typed: str, offers: Iterable[Offer], *, free: bool = False) -> Completion | None:
    """Rank the offers by how they match the typed text: equal, begun by it, containing it.

    A free text is not guessed at: Enter would put in something else.
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
