"""What the commands behind a slash do on the chat's screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from textual.screen import Screen

from termchat.chat.changes import Notice
from termchat.config.personas import PersonaError
from termchat.conversation.transcripts import of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.samplers import KNOBS, Knob, KnobError, Value, unescape
from termchat.text import guess_of, one_line, sanitize
from termchat.tui.composer.completion import Offer
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, column
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, CHAT, MODEL, TOKENS, name_of
from termchat.tui.slash.slash import Around, CommandRefused
from termchat.tui.themes.theme_file import AUTO, Palette
from termchat.tui.transcript import TranscriptView
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

_NAME = 20
_TAKES = 16


class SlashList(ReadListing):
    """The commands that take nothing, which are the keys by another name, then those that take something."""

    TITLE = "Commands"

    def made(self, width: int) -> list[Line]:
        """A line a command."""
        lines: list[Line] = []
        for title, argument in (("WITH SOMETHING BEHIND THEM", True), ("ALONE", False)):
            lines += [BLANK] * bool(lines) + [Line(((title, TITLE),))]
            for command in COMMANDS.values():
                if bool(command.argument) == argument:
                    name, takes = (
                        column(f"/{command.name}", _NAME),
                        column(command.argument, _TAKES) if argument else "",
                    )
                    room = width - len(name) - len(takes)
                    lines.append(Line(((name, ACCENT), (takes, MUTED), (one_line(command.help, room), TEXT))))
        return lines


_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_SAVE = re.compile(r"save(?:\s+(.*))?")


class ScreenDeeds:
    """Implements `termchat.tui.slashtable.Deeds`."""

    def __init__(self, screen: Screen[None], around: Around) -> None:
        self._screen, self._around, self._chat = screen, around, around.chat

    def press(self, key: Key) -> None:
        """What a key does."""
        app = self._screen.app
        owner = app if key in APP else self._around.tokens if key in TOKENS else self._screen
        app.call_next(app.run_action, key.action, owner)

    def turn(self, knob: Knob, text: str) -> None:
        """Sets a knob; without a text it tells how it is set."""
        if text:
            try:
                value = _texts(knob, text) if knob.kind == "texts" else knob.parse(text)
                self._around.do(lambda: self._chat.adjust(knob.name, value))
            except KnobError as error:
                raise CommandRefused(str(error), knob.help) from error
        now, origin = knob.show(self._value(knob)), self._chat.origin[knob.name]
        self._around.tell(Notice(f"{knob.name} {now} ({origin})", knob.help))

    def begin(self, system: str) -> None:
        """A new chat with a system prompt."""
        self._around.conversations.begin(system, raw=False)

    def raw(self) -> None:
        """A new chat without the model's template, or with it again."""
        chat = self._chat.conversation
        self._around.conversations.begin(chat.system, raw=not chat.raw)

    def model(self, name: str) -> None:
        """Goes on with another model."""
        if self._chat.busy:
            raise CommandRefused("a reply is running", "stop it first")
        self._around.choosing.take(name)

    def persona(self, name: str) -> None:
        """Begins as a persona, or keeps the chat's settings as one."""
        personating, saves = self._around.personating, _SAVE.fullmatch(name)
        try:
            if saves is None:
                personating.take(name, self._palette)
            elif saves[1]:
                personating.keep(saves[1].strip())
            else:
                raise CommandRefused(
                    "under which name?", "/persona save NAME keeps this chat's system prompt and knobs"
                )
        except PersonaError as error:
            raise CommandRefused(str(error)) from error

    def theme(self, name: str) -> None:
        """Draws in other colours."""
        known = [offer.text for offer in self.themes()]
        if name not in known:
            raise CommandRefused(f"there is no theme {name!r}{guess_of(name, known)}", f"there are {', '.join(known)}")
        self._around.keep_theme(name)

    def look(self, name: str) -> None:
        """Shows the chat in another look."""
        look = next((look for look in LOOKS if look == name), None)
        if look is None:
            raise CommandRefused(f"there is no look {name!r}", f"there are {', '.join(LOOKS)}")
        self._screen.query_one(TranscriptView).look = look
        self._around.tokens.mode.keep()

    def prefill(self, text: str) -> None:
        """Has the next reply begin with a text."""
        self._around.do(lambda: self._chat.begin_with(unescape(text)))

    def title(self, text: str) -> None:
        """Gives the chat another title; without a text it tells it."""
        title = sanitize(" ".join(text.split()), keep="")
        if title:
            self._around.do(lambda: self._chat.retitle(title))
        else:
            self._around.tell(Notice(self._chat.conversation.title or "this chat has no title yet"))

    def save(self, path: str) -> None:
        """Writes a transcript."""
        try:
            where = Path(path).expanduser()
            of_file(where)
            if where.exists():
                raise CommandRefused(f"{where} exists", f"{name_of('save')} asks before it is overwritten")
        except TranscriptError as error:
            raise CommandRefused(error.message, error.hint) from error
        except CommandRefused:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
            raise CommandRefused(str(error)) from error

        def over(problem: str) -> None:
            self._around.tell(
                Notice(f"not saved: {problem}", severity="error") if problem else Notice(f"saved {where}")
            )

        self._around.conversations.write(self._around.save, where, over)

    def help(self, name: str) -> None:
        """Lists all commands, or tells of one."""
        command = COMMANDS.get(name.lstrip("/"))
        if name and command is None:
            raise CommandRefused(f"there is no command /{name.lstrip('/')}", "/help lists all")
        if command is None:
            self._screen.app.push_screen(SlashList(self._palette))
        else:
            self._around.tell(Notice(f"/{command.name} {command.argument}".strip(), command.help))

    # --- what completes them -----------------------------------------------------------------------------------------

    def offers_of_knob(self, knob: Knob) -> Iterable[Offer]:
        """As it is, as it comes, and off; each once."""
        told = {knob.show(knob.default): "as it comes", knob.show(self._value(knob)): "as it is now"}
        if knob.off is not None:
            told |= {knob.show(knob.off): "changes nothing"}
        return (Offer(value, f"{what}: {knob.help}") for value, what in reversed(told.items()))

    def models(self) -> Iterable[Offer]:
        """Models that are here; the first time they are looked for."""
        models = self._around.models
        if not models.rows:
            models.look()
        models.take()
        return (
            Offer(row.wanted, one_line(row.description or str(row.path), 60))
            for row in list(models.rows.values())
            if row.state == "ready"
        )

    def personas(self) -> Iterable[Offer]:
        """Personas, and to keep one."""
        known = self._around.personating.known.entries.values()
        yield from (Offer(persona.name, persona.description or persona.system) for persona in known)
        yield Offer("save ", "NAME  Keep this chat's system prompt and knobs as a persona")

    def themes(self) -> Iterable[Offer]:
        """Themes: ours, not those that come with Textual."""
        yield Offer(AUTO, "follows the terminal's background")
        known = self._around.wardrobe.shelf.all()
        yield from (Offer(name, "dark" if loaded.palette.dark else "light") for name, loaded in known.items())

    @property
    def _palette(self) -> Palette:
        return self._around.wardrobe.worn().palette

    def _value(self, knob: Knob) -> Value:
        value: Value = getattr(self._chat.tuning, knob.name)
        return value


def _texts(knob: Knob, text: str) -> Value:
    r"""The texts that are written each in quotes; without any, the one text. `off` is none."""
    if text == "off":
        return ()
    if re.fullmatch(rf"(?:{_QUOTED.pattern})+\s*", text):
        return knob.check([unescape(found.replace('\\"', '"')) for found in _QUOTED.findall(text)])
    return knob.parse(text)
