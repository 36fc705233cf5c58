"""All commands behind a slash: one table, each row with the function that does it.

A key with a name in the palette is a command, and so is every knob. What cannot be done raises `CommandRefused`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.changes import Notice
from termchat.config import presets
from termchat.config.named_tables import NameRefused
from termchat.conversation.session import Breakpoint
from termchat.conversation.transcripts import of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.conditions import EXAMPLES, ConditionError, format_condition, parse
from termchat.decoding.constraint import TextError
from termchat.decoding.group import GroupKind
from termchat.decoding.plan_words import offered, read
from termchat.decoding.plans import PLANS, PlanKind
from termchat.decoding.samplers import KNOBS, Value, unescape
from termchat.decoding.setting import Setting, SettingError
from termchat.decoding.walk_plan import PlanError
from termchat.engine.abilities import Feature
from termchat.engine.address import SIGN
from termchat.text import guess_of, one_line, sanitize
from termchat.tui.composer.command_text import CommandRefused
from termchat.tui.composer.completion import Offer
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_setting import ConstraintForm, constraint_of
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, column
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, CHAT, LESSON, MODEL, TOKENS, name_of
from termchat.tui.lists.preset_dialog import apply_preset, keep_preset
from termchat.tui.pages.rolls import MOST
from termchat.tui.screen.dialog_table import tokenize
from termchat.tui.screen.screen import ChatScreen
from termchat.tui.screen.walks_view import NOTHING, begin_walks
from termchat.tui.themes.theme_file import AUTO
from termchat.tui.transcript.looks import LOOKS

if TYPE_CHECKING:
    from termchat.models.listing import ModelRow

_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_KEEP = "keep"
_TAKE_PATHS = ("model", "draft", "schema", "example", "grammar", "save")
_SAVE = re.compile(r"save(?:\s+(.*))?")

Run = Callable[[ChatScreen, str], None]
Offers = Callable[[ChatScreen], Iterable[Offer]]
Words = Callable[[str], Iterable[Offer]]


class Command(NamedTuple):
    """One command. `argument` says what it takes, "" nothing; `run` gets it, "" where there is none; `offers` complete it, and
    are only examples where it is `free`. `words` are those that may come behind what is written of it.

    Without an argument it does what the key with its name does, or the one with the id `key`; None where there is none.
    """

    name: str
    argument: str
    help: str
    run: Run
    offers: Offers = lambda _: ()
    key: str | None = ""
    free: bool = False
    words: Words = lambda _: ()

    @property
    def takes_path(self) -> bool:
        """Whether its argument may be a path."""
        return self.name in _TAKE_PATHS

    @property
    def told(self) -> str:
        """Its argument and its help, on one line."""
        return f"{self.argument}  {self.help}" if self.argument else self.help

    def do(self, screen: ChatScreen, argument: str) -> None:
        """Run it, or press its key.

        Raises:
            CommandRefused: it cannot be done.
        """
        key = None if argument or self.key is None else keys().get(self.key or self.name)
        if key is None:
            self.run(screen, argument)
        else:
            _press(screen, key)


# --- what they do -------------------------------------------------------------------------------------------------------


def _needs(screen: ChatScreen, feature: Feature) -> None:
    """Check that the engine offers a feature.

    Raises:
        CommandRefused: it does not.
    """
    refused = screen.chat.find_refusal(feature)
    if refused is not None:
        raise CommandRefused(*refused)


def _press(screen: ChatScreen, key: Key) -> None:
    app = screen.app
    owner = app if key in APP else screen.tokens if key in TOKENS else screen
    app.call_next(app.run_action, key.action, owner)


def _turn(screen: ChatScreen, knob: Setting, text: str) -> None:
    """Turn a knob; without a text show its value."""
    if text:
        try:
            value = _written(screen, knob, text)
            screen.chat.adjust_setting(knob.name, value)
        except SettingError as error:
            raise CommandRefused(str(error), knob.help) from error
    now, origin = knob.show(_value(screen, knob)), screen.chat.origin[knob.name]
    screen.tell(Notice(f"{knob.name} {now} ({origin})", knob.help))


def _new(screen: ChatScreen, keep: str) -> None:
    if keep != _KEEP:
        raise CommandRefused(f"/new takes {_KEEP} or nothing, not {one_line(keep, 40)!r}", "/new keep keeps the knobs")
    screen.conversations.begin(keep=True)


def _begin(screen: ChatScreen, system: str) -> None:
    screen.conversations.begin(system, raw=False)


def _raw(screen: ChatScreen, _nothing: str) -> None:
    if not screen.chat.conversation.raw:
        _needs(screen, "raw")
    screen.conversations.toggle_raw()


def _model(screen: ChatScreen, name: str) -> None:
    if screen.chat.busy:
        raise CommandRefused("a reply is running", "stop it first")
    models = screen.models
    engine = name in models.config.engines and name not in models.rows
    screen.choosing.take(f"{SIGN}{name}" if engine else name)


def _persona(screen: ChatScreen, name: str) -> None:
    conversations, saves = screen.conversations, _SAVE.fullmatch(name)
    try:
        if saves is None:
            conversations.begin_as(name)
        elif saves[1]:
            conversations.save_persona(saves[1].strip())
        else:
            raise CommandRefused(
                "/persona save needs a name",
                "/persona save NAME saves this chat's system prompt and knobs as a persona",
            )
    except NameRefused as error:
        raise CommandRefused(str(error)) from error


def _preset(screen: ChatScreen, name: str) -> None:
    saves = _SAVE.fullmatch(name)
    try:
        if saves is None:
            apply_preset(screen, presets.load().get(name))
        elif saves[1]:
            kept = saves[1].strip()
            path = keep_preset(screen, kept)
            screen.tell(Notice(f"saved as preset {kept}", f"you can add a description in {path}"))
        else:
            raise CommandRefused("/preset save needs a name", "/preset save NAME saves the chain's knobs as a preset")
    except NameRefused as error:
        hint = f"the list of presets ({name_of('presets')}) can replace it" if saves is not None else ""
        raise CommandRefused(str(error), hint) from error


def _theme(screen: ChatScreen, name: str) -> None:
    known = [offer.text for offer in _themes(screen)]
    if name not in known:
        raise CommandRefused(f"unknown theme {name!r}{guess_of(name, known)}", f"known themes: {', '.join(known)}")
    screen.keep_theme(name)


def _look(screen: ChatScreen, name: str) -> None:
    look = next((look for look in LOOKS if look == name), None)
    if look is None:
        raise CommandRefused(f"unknown look {name!r}", f"known looks: {', '.join(LOOKS)}")
    screen.transcript.look = look
    screen.tokens.mode.keep()


def _prefill(screen: ChatScreen, text: str) -> None:
    _needs(screen, "continue")
    screen.chat.begin_with(unescape(text))


def _rule(screen: ChatScreen, text: str) -> None:
    """Add a rule, or remove it if it is there."""
    chat = screen.chat
    try:
        rule = parse(text)
    except ConditionError as error:
        raise CommandRefused(str(error), "/rule without anything lists the rules") from error
    others = tuple(one for one in chat.breakpoints if one.condition != rule)
    added = len(others) == len(chat.breakpoints)
    if added and (why := chat.refused_rule(rule)) is not None:
        raise CommandRefused(*why)
    chat.set_breakpoints((*others, Breakpoint(rule)) if added else others)
    told = format_condition(rule)
    does = {
        "pause": f"It pauses the reply. /rule stop {told} ends the reply instead.",
        "stop": f"It ends the reply. /rule {told.removeprefix('stop ')} pauses the reply instead.",
    }
    screen.tell(Notice(f"rule {'added' if added else 'removed'}: {told}", does.get(rule.action, "") if added else ""))


def _rules(screen: ChatScreen) -> Iterable[Offer]:
    there = [format_condition(one.condition) for one in screen.chat.breakpoints]
    yield from (Offer(rule, "remove this rule") for rule in there)
    yield from (Offer(example) for example in EXAMPLES if example not in there)


def _tokens(screen: ChatScreen, text: str) -> None:
    _needs(screen, "tokenize")
    tokenize(screen, unescape(text))


def _learn(screen: ChatScreen, name: str) -> None:
    """Begin a lesson; without a name list them."""
    from termchat.lessons.shelf import LessonRefused
    from termchat.tui.lessons.lesson_words import known_lessons

    try:
        lesson = known_lessons().lesson(name).id if name else ""
    except LessonRefused as error:
        raise CommandRefused(str(error), "/learn lists the lessons") from error
    screen.app.call_next(screen.app.run_action, f"app.open_lesson({lesson!r})")


def _what(screen: ChatScreen, word: str) -> None:
    """Explain a word; without one list the glossary."""
    from termchat.lessons.glossary import UnknownTerm, find
    from termchat.tui.lessons.lesson_words import plain

    wanted = re.sub(r"^(is|are|does)\s+|\s*\?+$|\s+mean\s*\??$", "", word.strip(), flags=re.IGNORECASE)
    wanted = re.sub(r"^(a|an|the)\s+", "", wanted, flags=re.IGNORECASE)
    if not wanted:
        from termchat.tui.lessons.lesson_list import glossary_lines

        screen.open(ReadDialog(screen.palette, "Words", glossary_lines, hint="/what WORD explains one."))
        return
    try:
        entry = find(wanted)
    except UnknownTerm as error:
        raise CommandRefused(str(error), "/what lists all terms") from error
    screen.tell(Notice(f"{entry.term}: {entry.text}", f"On the screen: {plain(entry.where)}"))


def _terms(_screen: ChatScreen) -> Iterable[Offer]:
    from termchat.lessons.glossary import entries

    return (Offer(entry.term, entry.text) for entry in entries().values())


def _lessons(_screen: ChatScreen) -> Iterable[Offer]:
    from termchat.tui.lessons.lesson_words import known_lessons

    return (Offer(lesson.id, lesson.summary) for lesson in known_lessons().lessons)


def _draft(screen: ChatScreen, text: str) -> None:
    """Turn the knob, or have a model draft. Undone like any other turn of a knob."""
    knob = KNOBS["draft"]
    word = text.strip().lower()
    if word in knob.choices:
        screen.knobs.put(knob.name, word)
        _turn(screen, knob, "")
    elif screen.chat.cannot_draft:
        raise CommandRefused(f"cannot load a draft model: {screen.chat.cannot_draft}")
    else:
        screen.choosing.draft_with(text.strip())


def _drafters(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the words of the knob, then the models on this machine that can draft for the loaded one."""
    yield from starmap(Offer, KNOBS["draft"].about.items())
    models, spec = screen.models, screen.chat.spec
    rows = _ready(screen)
    here = models.in_file(spec.path) if spec is not None else ""
    if (loaded := models.rows.get(here)) is not None:
        models.read(rows, loaded, _learnt(screen))
        yield from (_model_offer(row) for row in rows if models.why_not_draft(row, loaded) == "")


def _title(screen: ChatScreen, text: str) -> None:
    """Change the title; without a text show it."""
    title = sanitize(" ".join(text.split()), keep="")
    if title:
        screen.chat.rename_chat(title)
    else:
        screen.tell(Notice(screen.chat.conversation.title or "this chat has no title yet"))


def _roll(screen: ChatScreen, text: str) -> None:
    number, _, seed = text.partition(" ")
    n = int(number) if number.isdecimal() and len(number) <= len(str(MOST)) else 0
    if not 1 <= n <= MOST:
        raise CommandRefused(
            f"/roll takes a number from 1 to {MOST}", "/roll 500 42 rolls 500 times with the seeds from 42 on"
        )
    try:
        first = KNOBS["seed"].parse(seed)
    except SettingError as error:
        raise CommandRefused(str(error)) from error
    screen.app.call_next(screen.app.run_action, f"roll({n}, {first})", screen)


def _save(screen: ChatScreen, path: str) -> None:
    try:
        where = Path(path).expanduser()
        of_file(where)
        if where.exists():
            raise CommandRefused(f"{where} exists", f"use {name_of('save')} to overwrite it")
    except TranscriptError as error:
        raise CommandRefused(error.message, error.hint) from error
    except CommandRefused:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
        raise CommandRefused(str(error)) from error

    def over(problem: str) -> None:
        screen.tell(Notice(problem, f"{where} was not saved", "error") if problem else Notice(f"saved {where}"))

    screen.conversations.write(where, over)


def _help(screen: ChatScreen, name: str) -> None:
    command = COMMANDS.get(name.lstrip("/"))
    if name and command is None:
        raise CommandRefused(f"unknown command /{name.lstrip('/')}", "/help lists all commands")
    if command is None:
        screen.open(ReadDialog(screen.palette, "Commands", command_lines))
    else:
        screen.tell(Notice(f"/{command.name} {command.argument}".strip(), command.help))


def _constrain(form: ConstraintForm) -> Run:
    """Return what sets the constraint that is written as a form."""

    def run(screen: ChatScreen, text: str) -> None:
        _needs(screen, "constrain")
        try:
            screen.constraining.set(constraint_of(form, text))
        except TextError as error:
            raise CommandRefused(str(error)) from error

    return run


def _walking(kind: GroupKind) -> Run:
    def run(screen: ChatScreen, words: str) -> None:
        try:
            plan, message = read(kind, words)
        except PlanError as error:
            raise CommandRefused(error.message, error.hint) from error
        if not message and screen.chat.conversation.leaf is None:
            raise CommandRefused(NOTHING, "write a message after the command")
        begin_walks(screen, plan, message)

    return run


# --- what completes them ------------------------------------------------------------------------------------------------


def _offers_of_knob(screen: ChatScreen, knob: Setting) -> Iterable[Offer]:
    """Offer the current value, the default, and off; each once."""
    told = {knob.show(knob.default): "default", knob.show(_value(screen, knob)): "current value"}
    if knob.off is not None:
        told |= {knob.show(knob.off): "off"}
    told = dict.fromkeys(reversed(knob.choices), "choice") | told
    return (Offer(value, f"{what}: {knob.help}") for value, what in reversed(told.items()))


def _models(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the models on this machine, and the engines elsewhere."""
    yield from map(_model_offer, _ready(screen))
    yield from (Offer(name, one_line(address.url, 60)) for name, address in screen.models.config.engines.items())


def _ready(screen: ChatScreen) -> list[ModelRow]:
    """Return the models on this machine; look for them first, and once more if the loaded one is not among them."""
    models, spec = screen.models, screen.chat.spec
    models.take()
    models.look_for(spec.path if spec is not None else "", _learnt(screen))
    return [row for row in models.rows.values() if row.state == "ready"]


def _learnt(screen: ChatScreen) -> Callable[[], object]:
    """Return a call, made in a thread, that has the composer complete the draft again."""
    composer = screen.composer
    return lambda: composer.post_message(Composer.Learnt())


def _model_offer(row: ModelRow) -> Offer:
    return Offer(row.wanted, one_line(row.description or str(row.path), 60))


def _personas(screen: ChatScreen) -> Iterable[Offer]:
    known = screen.conversations.personas.entries.values()
    yield from (Offer(persona.name, persona.description or persona.system) for persona in known)
    yield Offer("save ", "NAME  Save this chat's system prompt and knobs as a persona")


def _presets(_screen: ChatScreen) -> Iterable[Offer]:
    yield from (Offer(preset.name, preset.description) for preset in presets.load().entries.values())
    yield Offer("save ", "NAME  Save the chain's knobs as a preset")


def _themes(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the themes, but for those of Textual."""
    yield Offer(AUTO, "follows the terminal's background")
    known = screen.theme_chooser.all()
    yield from (Offer(name, "dark" if palette.dark else "light") for name, palette in known.items())


def _walks_offers(plan: PlanKind) -> Offers:
    return lambda _: starmap(Offer, plan.examples)


def _walks_words(kind: GroupKind) -> Words:
    return lambda before: starmap(Offer, offered(kind, before).items())


def _value(screen: ChatScreen, knob: Setting) -> Value:
    value: Value = getattr(screen.chat.tuning, knob.name)
    return value


def _written(screen: ChatScreen, knob: Setting, text: str) -> Value:
    """Parse what is written for a knob; a bias joins those that are there."""
    if knob.kind == "biases" and text not in ("off", knob.none):
        return knob.check([*screen.chat.tuning.logit_bias, text])
    return _texts(knob, text) if knob.kind == "texts" else knob.parse(text)


def _texts(knob: Setting, text: str) -> Value:
    r"""Parse texts, each in quotes; one without spaces needs none. `off` is no text.

    Raises:
        CommandRefused: it has spaces and no quotes, so that nobody can tell whether it is one text or several.
    """
    if text == "off":
        return ()
    if re.fullmatch(rf"(?:{_QUOTED.pattern})+\s*", text):
        return knob.check([unescape(found.replace('\\"', '"')) for found in _QUOTED.findall(text)])
    parts = list(filter(None, map(str.strip, text.split("|")))) if "|" in text else text.split()
    if len(text.split()) > 1:
        one, several = (" ".join('"' + part.strip('"') + '"' for part in some) for some in ([text], parts))
        raise CommandRefused(
            f"{knob.name}: put each text in quotes, not {one_line(text, 40)}",
            f"/{knob.name} {one_line(several, 60)}"
            + (f", or /{knob.name} {one_line(one, 60)}" if several != one else ""),
        )
    return knob.parse(text)


# --- the table ----------------------------------------------------------------------------------------------------------


_TAKE: tuple[Command, ...] = (
    Command("new", _KEEP, "New chat, as configured; keep keeps this one's system prompt, raw mode, knobs and breakpoints",
        _new, lambda _: (Offer(_KEEP),)),
    Command("system", "TEXT", "New chat with this system prompt", _begin, key="setup"),
    Command("model", "NAME", "Switch to another model", _model, _models, "models"),
    Command("persona", "NAME", "New chat as a persona; save NAME saves this chat's settings as one", _persona, _personas),
    Command("preset", "NAME", "Set the whole chain to a preset; save NAME saves it as one", _preset, _presets, "presets"),
    Command("theme", "NAME", "Switch the theme", _theme, _themes),
    Command("prefill", "TEXT", "Start the next reply with this text", _prefill),
    Command("rule", "RULE", "Pause at RULE. `stop RULE` ends the reply instead. Repeat to remove", _rule, _rules,
        "breakpoints", free=True),
    Command("tokens", "TEXT", "Show the tokens of TEXT; without it, token mode", _tokens),
    Command("bias", "TEXT=X|ban", "Ban a token or text, or add X to its logit; without it, the list of biases",
        lambda screen, text: _turn(screen, KNOBS["logit_bias"], text)),
    Command("draft", "WHO|NAME", "Speculation: off, ngram, model, auto, or NAME, a draft model; without it, what drafts gain",
        _draft, _drafters, free=True),
    Command("learn", "LESSON", "Begin a lesson, or resume it; without LESSON, list them", _learn, _lessons, None),
    Command("what", "WORD", "Explain a word of decoding, and say where it is seen; without WORD, the glossary", _what, _terms,
        None, free=True),
    Command("title", "TEXT", "Change the title of the chat", _title),
    Command("schema", "FILE|TEXT", "Replies are JSON that matches this JSON schema", _constrain("json_schema"),
        key="constraint"),
    Command("example", "FILE|TEXT", "Replies are JSON like this example", _constrain("example"), key="constraint"),
    Command("regex", "PATTERN", "Replies match this regular expression as a whole", _constrain("regex"), key="constraint"),
    Command("choice", "A | B", "Replies are one of these texts", _constrain("choice"), key="constraint"),
    Command("grammar", "FILE|TEXT", "Replies match this grammar, in GBNF or Lark", _constrain("grammar"), key="constraint"),
    *(Command(plan.command, plan.argument, plan.help, _walking(kind), _walks_offers(plan), free=True, words=_walks_words(kind))
        for kind, plan in PLANS.items()),
    Command("roll", "N SEED", "Roll the dice N times at the token that is shown, with the seeds from SEED on", _roll),
    Command("save", "PATH", "Save a transcript to PATH", _save),
    Command("look", "NAME", "Switch the look: reading, probability (model), after (chain), entropy, rank, time or drafts",
        _look, lambda _: (Offer(look) for look in LOOKS)),
    Command("help", "NAME", "List all commands, or explain one", _help,
        lambda _: (Offer(command.name, command.told) for command in COMMANDS.values()), None),
)  # fmt: skip

ALSO = {
    "exit": "quit", "bye": "quit", "clear": "new", "retry": "regenerate", "?": "help",
    "json_schema": "schema", "best_of": "best", "draft_model": "draft",
    **{also: knob.name for knob in KNOBS.values() for also in (knob.flag, *knob.also) if also},
}  # fmt: skip
"""What other programs, and our own flags, call them."""


def keys() -> dict[str, Key]:
    """Keys with a name in the palette, by id: each is a command too."""
    return {key.id: key for key in (*CHAT, *MODEL, *TOKENS, *LESSON, *APP) if key.palette}


def _of_key(key: Key) -> Command:
    return Command(key.id, "", key.help, lambda screen, _: _press(screen, key), key=None)


def _of_knob(knob: Setting) -> Command:
    words = {
        "texts": "TEXT", "biases": "TEXT=X|ban", "order": "A;B", "seed": "NUMBER", "choice": "WORD", "switch": "on|off",
    }  # fmt: skip
    takes = words.get(knob.kind, f"{knob.low:.16g} to {knob.high:.16g}")
    return Command(
        knob.name, takes, knob.help, lambda screen, text: _turn(screen, knob, text),
        lambda screen: _offers_of_knob(screen, knob), None, free=True,
    )  # fmt: skip


def _all() -> dict[str, Command]:
    commands = [
        *map(_of_key, keys().values()),
        Command("raw", "", "New chat in raw mode (no chat template); again to leave raw mode", _raw, key=None),
        *map(_of_knob, KNOBS.values()),
        *_TAKE,
    ]
    return {command.name: command for command in commands}  # the last one of a name counts


COMMANDS: dict[str, Command] = dict(sorted(_all().items()))
"""Name to command, by the alphabet."""

_NAME = 24
_TAKES = 16


def command_lines(width: int) -> list[Line]:
    """Render the commands with an argument, then those without, which are the keys by another name."""
    lines: list[Line] = []
    for title, argument in (("WITH AN ARGUMENT", True), ("WITHOUT", False)):
        lines += [BLANK] * bool(lines) + [Line(((title, TITLE),))]
        for command in COMMANDS.values():
            if bool(command.argument) == argument:
                name = column(f"/{command.name}", _NAME)
                takes = column(command.argument, _TAKES) if argument else ""
                room = width - len(name) - len(takes)
                lines.append(Line(((name, ACCENT), (takes, MUTED), (one_line(command.help, room), TEXT))))
    return lines
