"""Every command behind a slash: one for each thing in the palette, by its key's id, and those that take something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from termchat.decoding.samplers import KNOBS, Knob
from termchat.tui.completing import Offer
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, CHAT, MODEL, TOKENS
from termchat.tui.transcript.looks import LOOKS


class Deeds(Protocol):
    """What commands do, and what they know; each raises `Refused` where it cannot be done."""

    def press(self, key: Key) -> None:
        """What a key does."""

    def turn(self, knob: Knob, text: str) -> None:
        """Sets a knob; without a text it tells how it is set."""

    def begin(self, system: str) -> None:
        """A new chat with a system prompt."""

    def raw(self) -> None:
        """A new chat without the model's template, or with it again."""

    def model(self, name: str) -> None:
        """Goes on with another model."""

    def persona(self, name: str) -> None:
        """Begins as a persona, or keeps the chat's settings as one."""

    def theme(self, name: str) -> None:
        """Draws in other colours."""

    def look(self, name: str) -> None:
        """Shows the chat in another look."""

    def prefill(self, text: str) -> None:
        """Has the next reply begin with a text."""

    def title(self, text: str) -> None:
        """Gives the chat another title; without a text it tells it."""

    def save(self, path: str) -> None:
        """Writes a transcript."""

    def help(self, name: str) -> None:
        """Lists all commands, or tells of one."""

    def offers_of_knob(self, knob: Knob) -> Iterable[Offer]:
        """Values that a knob may be set to."""

    def models(self) -> Iterable[Offer]:
        """Models that are here."""

    def personas(self) -> Iterable[Offer]:
        """Personas."""

    def themes(self) -> Iterable[Offer]:
        """Themes."""


def _none(_deeds: Deeds) -> Iterable[Offer]:
    return ()


class Command(NamedTuple):
    """One command. `argument` says what it takes, "" nothing; `run` gets it, "" where there is none; `offers` complete it, and
    are only examples where it is `free`."""

    name: str
    help: str
    run: Callable[[Deeds, str], None]
    argument: str = ""
    offers: Callable[[Deeds], Iterable[Offer]] = _none
    free: bool = False

    @property
    def told(self) -> str:
        """What it takes and does, on a line."""
        return f"{self.argument}  {self.help}" if self.argument else self.help


class _Takes(NamedTuple):
    """A command that takes something. Where a key has its name, it does without an argument what the key does."""

    name: str
    argument: str
    help: str
    run: Callable[[Deeds, str], None]
    offers: Callable[[Deeds], Iterable[Offer]] = _none
    key: str | None = ""
    """The id of that key, where it is another one; None where it is none of its name."""


_TAKE: tuple[_Takes, ...] = (
    _Takes("system", "TEXT", "A new chat with this system prompt", lambda deeds, text: deeds.begin(text), key="setup"),
    _Takes("model", "NAME", "Go on with another model", lambda deeds, name: deeds.model(name), lambda deeds: deeds.models(),
        "models"),
    _Takes("persona", "NAME", "Begin as a persona; save NAME keeps this one", lambda deeds, name: deeds.persona(name),
        lambda deeds: deeds.personas()),
    _Takes("theme", "NAME", "Other colours", lambda deeds, name: deeds.theme(name), lambda deeds: deeds.themes()),
    _Takes("prefill", "TEXT", "What the next reply begins with", lambda deeds, text: deeds.prefill(text)),
    _Takes("title", "TEXT", "Give the chat another title", lambda deeds, text: deeds.title(text)),
    _Takes("save", "PATH", "Save a transcript there", lambda deeds, path: deeds.save(path)),
    _Takes("look", "NAME", "How the chat is shown", lambda deeds, name: deeds.look(name),
        lambda _: (Offer(look) for look in LOOKS)),
    _Takes("help", "NAME", "All commands, or one of them", lambda deeds, name: deeds.help(name),
        lambda _: (Offer(command.name, command.told) for command in COMMANDS.values()), None),
)  # fmt: skip

ALSO = {"exit": "quit", "bye": "quit", "clear": "new", "retry": "regenerate", "temp": "temperature", "?": "help"}
"""What other programs call them."""


def keys() -> dict[str, Key]:
    """All that has a name in the palette, by id: each is a command too."""
    return {key.id: key for key in (*CHAT, *MODEL, *TOKENS, *APP) if key.palette}


def _of_key(key: Key) -> Command:
    return Command(key.id, key.help, lambda deeds, _: deeds.press(key))


def _of_knob(knob: Knob) -> Command:
    takes = {"texts": "TEXT", "seed": "NUMBER"}.get(knob.kind, f"{knob.low:.16g} to {knob.high:.16g}")
    return Command(
        knob.name,
        knob.help,
        lambda deeds, text: deeds.turn(knob, text),
        takes,
        lambda deeds: deeds.offers_of_knob(knob),
        free=True,
    )


def _taking(takes: _Takes, known: Mapping[str, Key]) -> Command:
    key = None if takes.key is None else known.get(takes.key or takes.name)

    def run(deeds: Deeds, argument: str) -> None:
        if argument or key is None:
            takes.run(deeds, argument)
        else:
            deeds.press(key)

    return Command(takes.name, takes.help, run, takes.argument, takes.offers)


def _all() -> dict[str, Command]:
    known = keys()
    made = [
        *map(_of_key, known.values()),
        Command("raw", "A new chat without the model's template, or with it again", lambda deeds, _: deeds.raw()),
        *(_taking(takes, known) for takes in _TAKE),
        *map(_of_knob, KNOBS.values()),
    ]
    return {command.name: command for command in made}  # what takes something goes before the key of its name


COMMANDS: dict[str, Command] = dict(sorted(_all().items()))
"""Name to command, by the alphabet."""
