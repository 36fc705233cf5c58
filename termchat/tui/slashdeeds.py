"""What the commands behind a slash do on the chat's screen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from textual.screen import Screen

from termchat.chat.changes import Notice
from termchat.config.personas import PersonaError
from termchat.conversation.transcripts import of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.samplers import Knob, KnobError, Value, unescape
from termchat.text import guess_of, one_line, sanitize
from termchat.tui.completing import Offer
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, TOKENS, name_of
from termchat.tui.slash import Around, Refused
from termchat.tui.slashlist import SlashList
from termchat.tui.slashtable import COMMANDS
from termchat.tui.themes.theme_file import AUTO, Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import LOOKS

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
                raise Refused(str(error), knob.help) from error
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
            raise Refused("a reply is running", "stop it first")
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
                raise Refused("under which name?", "/persona save NAME keeps this chat's system prompt and knobs")
        except PersonaError as error:
            raise Refused(str(error)) from error

    def theme(self, name: str) -> None:
        """Draws in other colours."""
        known = [offer.text for offer in self.themes()]
        if name not in known:
            raise Refused(f"there is no theme {name!r}{guess_of(name, known)}", f"there are {', '.join(known)}")
        self._around.keep_theme(name)

    def look(self, name: str) -> None:
        """Shows the chat in another look."""
        look = next((look for look in LOOKS if look == name), None)
        if look is None:
            raise Refused(f"there is no look {name!r}", f"there are {', '.join(LOOKS)}")
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
                raise Refused(f"{where} exists", f"{name_of('save')} asks before it is overwritten")
        except TranscriptError as error:
            raise Refused(error.message, error.hint) from error
        except Refused:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
            raise Refused(str(error)) from error

        def over(problem: str) -> None:
            self._around.tell(
                Notice(f"not saved: {problem}", severity="error") if problem else Notice(f"saved {where}")
            )

        self._around.conversations.write(self._around.save, where, over)

    def help(self, name: str) -> None:
        """Lists all commands, or tells of one."""
        command = COMMANDS.get(name.lstrip("/"))
        if name and command is None:
            raise Refused(f"there is no command /{name.lstrip('/')}", "/help lists all")
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
