"""All commands behind a slash: one table, each row with the function that does it.

A key with a name in the palette is a command, and so is every knob. What cannot be done raises `CommandRefused`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.changes import Notice
from termchat.config import presets
from termchat.config.personas import PersonaError
from termchat.config.presets import PresetError
from termchat.conversation.session import Breakpoint
from termchat.conversation.transcripts import of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.conditions import EXAMPLES, ConditionError, format_condition, parse
from termchat.decoding.constraint import Constraint, TextError
from termchat.decoding.group import GroupKind
from termchat.decoding.samplers import KNOBS, Knob, KnobError, Value, unescape
from termchat.engine.abilities import Feature
from termchat.engine.address import SIGN
from termchat.text import guess_of, one_line, sanitize
from termchat.tui.composer.completion import Offer
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_setting import by_example, choices, file_or_text, grammar
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, column
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, CHAT, LESSON, MODEL, TOKENS, name_of
from termchat.tui.panels.rolls import MOST
from termchat.tui.presets import applying
from termchat.tui.screen.dialog_table import tokenize
from termchat.tui.screen.features import Features
from termchat.tui.slash.parsing import CommandRefused
from termchat.tui.slash.walk_words import EXAMPLES as WALKED
from termchat.tui.slash.walk_words import offered
from termchat.tui.themes.theme_file import AUTO
from termchat.tui.transcript.looks import LOOKS
from termchat.tui.walks import walk_start

if TYPE_CHECKING:
    from termchat.models.listing import ModelRow

_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_KEEP = "keep"
_DRAFTERS = {
    "off": "no speculation",
    "ngram": "guess from the text so far",
    "model": "ask the draft model",
    "auto": "whichever of them pays",
}
_TAKE_PATHS = ("model", "draft", "schema", "example", "grammar", "save")
_SAVE = re.compile(r"save(?:\s+(.*))?")

Run = Callable[[Features, str], None]
Offers = Callable[[Features], Iterable[Offer]]
Words = Callable[[str], Iterable[Offer]]


class Command(NamedTuple):
    """One command. `argument` says what it takes, "" nothing; `run` gets it, "" where there is none; `offers` complete it, and
    are only examples where it is `free`. `words` are those that may come behind what is written of it."""

    name: str
    help: str
    run: Run
    argument: str = ""
    offers: Offers = lambda _: ()
    free: bool = False
    words: Words = lambda _: ()

    @property
    def takes_path(self) -> bool:
        """Whether its argument may be a path."""
        return self.name in _TAKE_PATHS

    @property
    def told(self) -> str:
        """On one line."""
        return f"{self.argument}  {self.help}" if self.argument else self.help


# --- what they do -------------------------------------------------------------------------------------------------------


def _needs(features: Features, feature: Feature) -> None:
    """Raises:
    CommandRefused: the engine does not offer it.
    """
    refused = features.parts.chat.find_refusal(feature)
    if refused is not None:
        raise CommandRefused(*refused)


def _press(features: Features, key: Key) -> None:
    app = features.parts.screen.app
    owner = app if key in APP else features.parts.tokens if key in TOKENS else features.parts.screen
    app.call_next(app.run_action, key.action, owner)


def _turn(features: Features, knob: Knob, text: str) -> None:
    """Without a text it shows the knob's value."""
    if text:
        try:
            value = _written(features, knob, text)
            features.parts.do(lambda: features.parts.chat.adjust_setting(knob.name, value))
        except KnobError as error:
            raise CommandRefused(str(error), knob.help) from error
    now, origin = knob.show(_value(features, knob)), features.parts.chat.origin[knob.name]
    features.parts.tell(Notice(f"{knob.name} {now} ({origin})", knob.help))


def _new(features: Features, keep: str) -> None:
    if keep != _KEEP:
        raise CommandRefused(f"/new takes {_KEEP} or nothing, not {one_line(keep, 40)!r}", "/new keep keeps the knobs")
    features.conversations.new(keep=True)


def _begin(features: Features, system: str) -> None:
    features.conversations.begin(system, raw=False)


def _raw(features: Features, _nothing: str) -> None:
    if not features.parts.chat.conversation.raw:
        _needs(features, "raw")
    features.conversations.toggle_raw()


def _model(features: Features, name: str) -> None:
    if features.parts.chat.busy:
        raise CommandRefused("a reply is running", "stop it first")
    models = features.models
    engine = name in models.config.engines and name not in models.rows
    features.choosing.take(f"{SIGN}{name}" if engine else name)


def _persona(features: Features, name: str) -> None:
    personating, saves = features.personating, _SAVE.fullmatch(name)
    try:
        if saves is None:
            personating.take(name)
        elif saves[1]:
            personating.keep(saves[1].strip())
        else:
            raise CommandRefused(
                "/persona save needs a name",
                "/persona save NAME saves this chat's system prompt and knobs as a persona",
            )
    except PersonaError as error:
        raise CommandRefused(str(error)) from error


def _preset(features: Features, name: str) -> None:
    saves, parts = _SAVE.fullmatch(name), features.parts
    try:
        if saves is None:
            applying.apply(parts, presets.load().get(name))
        elif saves[1]:
            kept = saves[1].strip()
            parts.tell(Notice(f"saved as preset {kept}", f"you can add a description in {applying.keep(parts, kept)}"))
        else:
            raise CommandRefused("/preset save needs a name", "/preset save NAME saves the chain's knobs as a preset")
    except PresetError as error:
        hint = f"the list of presets ({name_of('presets')}) can replace it" if saves is not None else ""
        raise CommandRefused(str(error), hint) from error


def _theme(features: Features, name: str) -> None:
    known = [offer.text for offer in _themes(features)]
    if name not in known:
        raise CommandRefused(f"unknown theme {name!r}{guess_of(name, known)}", f"known themes: {', '.join(known)}")
    features.keep_theme(name)


def _look(features: Features, name: str) -> None:
    look = next((look for look in LOOKS if look == name), None)
    if look is None:
        raise CommandRefused(f"unknown look {name!r}", f"known looks: {', '.join(LOOKS)}")
    features.parts.transcript.look = look
    features.parts.tokens.mode.keep()


def _prefill(features: Features, text: str) -> None:
    _needs(features, "continue")
    features.parts.do(lambda: features.parts.chat.begin_with(unescape(text)))


def _rule(features: Features, text: str) -> None:
    """A rule that is there goes, another is added."""
    chat = features.parts.chat
    try:
        rule = parse(text)
    except ConditionError as error:
        raise CommandRefused(str(error), "/rule without anything lists the rules") from error
    others = tuple(one for one in chat.breakpoints if one.condition != rule)
    added = len(others) == len(chat.breakpoints)
    if added and (why := chat.refused_rule(rule)) is not None:
        raise CommandRefused(*why)
    features.parts.do(lambda: chat.set_breakpoints((*others, Breakpoint(rule)) if added else others))
    told = format_condition(rule)
    does = {
        "pause": f"It pauses the reply. /rule stop {told} ends the reply instead.",
        "stop": f"It ends the reply. /rule {told.removeprefix('stop ')} pauses the reply instead.",
    }
    features.parts.tell(
        Notice(f"rule {'added' if added else 'removed'}: {told}", does.get(rule.action, "") if added else "")
    )


def _rules(features: Features) -> Iterable[Offer]:
    there = [format_condition(one.condition) for one in features.parts.chat.breakpoints]
    yield from (Offer(rule, "remove this rule") for rule in there)
    yield from (Offer(example) for example in EXAMPLES if example not in there)


def _tokens(features: Features, text: str) -> None:
    _needs(features, "tokenize")
    tokenize(features, unescape(text))


def _learn(features: Features, name: str) -> None:
    """Without a name it lists the lessons."""
    from termchat.lessons.shelf import LessonRefused

    if not name:
        features.learning.browse()
        return
    try:
        features.learning.begin(features.learning.shelf().lesson(name))
    except LessonRefused as error:
        raise CommandRefused(str(error), "/learn lists the lessons") from error


def _what(features: Features, word: str) -> None:
    """Without a word it lists the glossary."""
    from termchat.lessons.glossary import UnknownTerm, find
    from termchat.tui.lessons.lesson_words import plain

    wanted = re.sub(r"^(is|are|does)\s+|\s*\?+$|\s+mean\s*\??$", "", word.strip(), flags=re.IGNORECASE)
    wanted = re.sub(r"^(a|an|the)\s+", "", wanted, flags=re.IGNORECASE)
    if not wanted:
        from termchat.tui.lessons.glossary_list import GlossaryList

        features.parts.open(GlossaryList(features.parts.palette()))
        return
    try:
        entry = find(wanted)
    except UnknownTerm as error:
        raise CommandRefused(str(error), "/what lists all terms") from error
    features.parts.tell(Notice(f"{entry.term}: {entry.text}", f"On the screen: {plain(entry.where)}"))


def _terms(_features: Features) -> Iterable[Offer]:
    from termchat.lessons.glossary import entries

    return (Offer(entry.term, entry.text) for entry in entries().values())


def _lessons(features: Features) -> Iterable[Offer]:
    return (Offer(lesson.id, lesson.summary) for lesson in features.learning.shelf().lessons)


def _draft(features: Features, text: str) -> None:
    """Turns the knob, or has a model draft. Undone like any other turn of a knob."""
    knob, parts = KNOBS["draft"], features.parts
    word = text.strip().lower()
    if word in knob.choices:
        parts.do(lambda: parts.desk.knobs.put(knob.name, word))
        _turn(features, knob, "")
    elif parts.chat.cannot_draft:
        raise CommandRefused(f"cannot load a draft model: {parts.chat.cannot_draft}")
    else:
        features.choosing.draft_with(text.strip())


def _drafters(features: Features) -> Iterable[Offer]:
    """The words of the knob, then the models on this machine that can draft for the loaded one."""
    yield from (Offer(word, told) for word, told in _DRAFTERS.items())
    models, spec = features.models, features.parts.chat.spec
    rows = _ready(features)
    here = models.in_file(spec.path) if spec is not None else ""
    if (loaded := models.rows.get(here)) is not None:
        models.read(rows, loaded, _learnt(features))
        yield from (_model_offer(row) for row in rows if models.why_not_draft(row, loaded) == "")


def _title(features: Features, text: str) -> None:
    """Without a text it shows the title."""
    title = sanitize(" ".join(text.split()), keep="")
    if title:
        features.parts.do(lambda: features.parts.chat.rename_chat(title))
    else:
        features.parts.tell(Notice(features.parts.chat.conversation.title or "this chat has no title yet"))


def _roll(features: Features, text: str) -> None:
    number, _, seed = text.partition(" ")
    n = int(number) if number.isdecimal() and len(number) <= len(str(MOST)) else 0
    if not 1 <= n <= MOST:
        raise CommandRefused(
            f"/roll takes a number from 1 to {MOST}", "/roll 500 42 rolls 500 times with the seeds from 42 on"
        )
    try:
        first = KNOBS["seed"].parse(seed)
    except KnobError as error:
        raise CommandRefused(str(error)) from error
    screen = features.parts.screen
    screen.app.call_next(screen.app.run_action, f"roll({n}, {first})", screen)


def _save(features: Features, path: str) -> None:
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
        features.parts.tell(Notice(problem, f"{where} was not saved", "error") if problem else Notice(f"saved {where}"))

    features.conversations.write(where, over)


def _help(features: Features, name: str) -> None:
    command = COMMANDS.get(name.lstrip("/"))
    if name and command is None:
        raise CommandRefused(f"unknown command /{name.lstrip('/')}", "/help lists all commands")
    if command is None:
        features.parts.open(SlashList(features.parts.palette()))
    else:
        features.parts.tell(Notice(f"/{command.name} {command.argument}".strip(), command.help))


def _constrained(features: Features, made: Callable[[], Constraint]) -> None:
    _needs(features, "constrain")
    try:
        features.constraining.set(made())
    except TextError as error:
        raise CommandRefused(str(error)) from error


def _schema(features: Features, text: str) -> None:
    def made() -> Constraint:
        name, source = file_or_text(text)
        return Constraint("json_schema", source, name)

    _constrained(features, made)


def _example(features: Features, text: str) -> None:
    _constrained(features, lambda: by_example(file_or_text(text)[1]))


def _regex(features: Features, text: str) -> None:
    _constrained(features, lambda: Constraint("regex", text))


def _choice(features: Features, text: str) -> None:
    _constrained(features, lambda: choices(text))


def _grammar(features: Features, text: str) -> None:
    def made() -> Constraint:
        name, source = file_or_text(text)
        return grammar(source, name)

    _constrained(features, made)


def _walking(kind: GroupKind) -> Run:
    return lambda features, words: walk_start.command(features.parts, kind, words)


# --- what completes them ------------------------------------------------------------------------------------------------


def _offers_of_knob(features: Features, knob: Knob) -> Iterable[Offer]:
    """The current value, the default, and off; each once."""
    told = {knob.show(knob.default): "default", knob.show(_value(features, knob)): "current value"}
    if knob.off is not None:
        told |= {knob.show(knob.off): "off"}
    told = dict.fromkeys(reversed(knob.choices), "choice") | told
    return (Offer(value, f"{what}: {knob.help}") for value, what in reversed(told.items()))


def _models(features: Features) -> Iterable[Offer]:
    """On this machine, and the engines elsewhere."""
    yield from map(_model_offer, _ready(features))
    yield from (Offer(name, one_line(address.url, 60)) for name, address in features.models.config.engines.items())


def _ready(features: Features) -> list[ModelRow]:
    """The models on this machine; looks for them first, and once more where the loaded one is not among them."""
    models, spec = features.models, features.parts.chat.spec
    models.take()
    models.look_for(spec.path if spec is not None else "", _learnt(features))
    return [row for row in models.rows.values() if row.state == "ready"]


def _learnt(features: Features) -> Callable[[], object]:
    """Has the composer ask again for what completes the draft; called in a thread."""
    composer = features.parts.composer
    return lambda: composer.post_message(Composer.Learnt())


def _model_offer(row: ModelRow) -> Offer:
    return Offer(row.wanted, one_line(row.description or str(row.path), 60))


def _personas(features: Features) -> Iterable[Offer]:
    known = features.personating.known.entries.values()
    yield from (Offer(persona.name, persona.description or persona.system) for persona in known)
    yield Offer("save ", "NAME  Save this chat's system prompt and knobs as a persona")


def _presets(_features: Features) -> Iterable[Offer]:
    yield from (Offer(preset.name, preset.description) for preset in presets.load().entries.values())
    yield Offer("save ", "NAME  Save the chain's knobs as a preset")


def _themes(features: Features) -> Iterable[Offer]:
    """Not those of Textual."""
    yield Offer(AUTO, "follows the terminal's background")
    known = features.theme_chooser.library.all()
    yield from (Offer(name, "dark" if loaded.palette.dark else "light") for name, loaded in known.items())


def _walks_offers(kind: GroupKind) -> Offers:
    """Examples."""
    return lambda _: starmap(Offer, WALKED[kind])


def _walks_words(kind: GroupKind) -> Words:
    return lambda before: starmap(Offer, offered(kind, before).items())


def _value(features: Features, knob: Knob) -> Value:
    value: Value = getattr(features.parts.chat.tuning, knob.name)
    return value


def _written(features: Features, knob: Knob, text: str) -> Value:
    """What is written for a knob; a bias joins those that are there."""
    if knob.kind == "biases" and text not in ("off", knob.none):
        return knob.check([*features.parts.chat.tuning.logit_bias, text])
    return _texts(knob, text) if knob.kind == "texts" else knob.parse(text)


def _texts(knob: Knob, text: str) -> Value:
    r"""The texts, each in quotes; one without spaces needs none. `off` is no text.

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


class _Takes(NamedTuple):
    """A command that takes something, and the function that gets it. Without an argument it does what the key of its name does,
    where there is one."""

    name: str
    argument: str
    help: str
    run: Run
    offers: Offers = lambda _: ()
    key: str | None = ""
    """The id of that key, where it is another one; None where it is none of its name."""
    free: bool = False
    words: Words = lambda _: ()


_TAKE: tuple[_Takes, ...] = (
    _Takes("new", _KEEP, "New chat, as configured; keep keeps this one's system prompt, raw mode, knobs and breakpoints",
        _new, lambda _: (Offer(_KEEP),)),
    _Takes("system", "TEXT", "New chat with this system prompt", _begin, key="setup"),
    _Takes("model", "NAME", "Switch to another model", _model, _models, "models"),
    _Takes("persona", "NAME", "New chat as a persona; save NAME saves this chat's settings as one", _persona, _personas),
    _Takes("preset", "NAME", "Set the whole chain to a preset; save NAME saves it as one", _preset, _presets, "presets"),
    _Takes("theme", "NAME", "Switch the theme", _theme, _themes),
    _Takes("prefill", "TEXT", "Start the next reply with this text", _prefill),
    _Takes("rule", "RULE", "Pause at RULE. `stop RULE` ends the reply instead. Repeat to remove", _rule, _rules,
        "breakpoints", free=True),
    _Takes("tokens", "TEXT", "Show the tokens of TEXT; without it, token mode", _tokens),
    _Takes("bias", "TEXT=X|ban", "Ban a token or text, or add X to its logit; without it, the list of biases",
        lambda features, text: _turn(features, KNOBS["logit_bias"], text)),
    _Takes("draft", "WHO|NAME", "Speculation: off, ngram, model, auto, or NAME, a draft model; without it, what drafts gain",
        _draft, _drafters, free=True),
    _Takes("learn", "LESSON", "Begin a lesson, or resume it; without LESSON, list them", _learn, _lessons, None),
    _Takes("what", "WORD", "Explain a word of decoding, and say where it is seen; without WORD, the glossary", _what, _terms,
        None, free=True),
    _Takes("title", "TEXT", "Change the title of the chat", _title),
    _Takes("schema", "FILE|TEXT", "Replies are JSON that matches this JSON schema", _schema, key="constraint"),
    _Takes("example", "FILE|TEXT", "Replies are JSON like this example", _example, key="constraint"),
    _Takes("regex", "PATTERN", "Replies match this regular expression as a whole", _regex, key="constraint"),
    _Takes("choice", "A | B", "Replies are one of these texts", _choice, key="constraint"),
    _Takes("grammar", "FILE|TEXT", "Replies match this grammar, in GBNF or Lark", _grammar, key="constraint"),
    _Takes("walks", "N MESSAGE", "N replies side by side, to MESSAGE or to the last message", _walking("walks"),
        _walks_offers("walks"), free=True, words=_walks_words("walks")),
    _Takes("grid", "KNOB VALUES", "Replies for each value of one or two knobs: /grid temperature 0 0.5 1 runs 3 : MESSAGE",
        _walking("grid"), _walks_offers("grid"), free=True, words=_walks_words("grid")),
    _Takes("ab", "KNOBS | KNOBS", "Two settings with the same dice: /ab temperature 0.7 | temperature 1.2 top_p 0.9 : MESSAGE",
        _walking("compare"), _walks_offers("compare"), free=True, words=_walks_words("compare")),
    _Takes("best", "N MESSAGE", "N replies, ranked by mean logprob", _walking("best"),
        _walks_offers("best"), free=True, words=_walks_words("best")),
    _Takes("vote", "PATTERN N MESSAGE", "The most common answer of N replies; PATTERN, in quotes, or $.PATH finds it in each",
        _walking("vote"), _walks_offers("vote"), free=True, words=_walks_words("vote")),
    _Takes("beams", "N MESSAGE", "Beam search with N beams: /beams 4 penalty 1 n-best 2 early after-chain : MESSAGE",
        _walking("beams"), _walks_offers("beams"), free=True, words=_walks_words("beams")),
    _Takes("roll", "N SEED", "Roll the dice N times at the token that is shown, with the seeds from SEED on", _roll),
    _Takes("save", "PATH", "Save a transcript to PATH", _save),
    _Takes("look", "NAME", "Switch the look: reading, probability (model), after (chain), entropy, rank, time or drafts", _look,
        lambda _: (Offer(look) for look in LOOKS)),
    _Takes("help", "NAME", "List all commands, or explain one", _help,
        lambda _: (Offer(command.name, command.told) for command in COMMANDS.values()), None),
)  # fmt: skip

ALSO = {
    "exit": "quit", "bye": "quit", "clear": "new", "retry": "regenerate", "?": "help",
    "json_schema": "schema", "best_of": "best", "draft_model": "draft", "temp": "temperature", "n_predict": "max_tokens",
    **{knob.flag: knob.name for knob in KNOBS.values() if knob.flag},
}  # fmt: skip
"""What other programs, and our own flags, call them."""


def keys() -> dict[str, Key]:
    """Keys with a name in the palette, by id: each is a command too."""
    return {key.id: key for key in (*CHAT, *MODEL, *TOKENS, *LESSON, *APP) if key.palette}


def _of_key(key: Key) -> Command:
    return Command(key.id, key.help, lambda features, _: _press(features, key))


def _of_knob(knob: Knob) -> Command:
    words = {
        "texts": "TEXT", "biases": "TEXT=X|ban", "order": "A;B", "seed": "NUMBER", "choice": "WORD", "switch": "on|off",
    }  # fmt: skip
    takes = words.get(knob.kind, f"{knob.low:.16g} to {knob.high:.16g}")
    return Command(
        knob.name, knob.help, lambda features, text: _turn(features, knob, text), takes,
        lambda features: _offers_of_knob(features, knob), free=True,
    )  # fmt: skip


def _taking(takes: _Takes, known: Mapping[str, Key]) -> Command:
    key = None if takes.key is None else known.get(takes.key or takes.name)

    def run(features: Features, argument: str) -> None:
        if argument or key is None:
            takes.run(features, argument)
        else:
            _press(features, key)

    return Command(takes.name, takes.help, run, takes.argument, takes.offers, takes.free, takes.words)


def _all() -> dict[str, Command]:
    known = keys()
    made = [
        *map(_of_key, known.values()),
        Command("raw", "New chat in raw mode (no chat template); again to leave raw mode", _raw),
        *map(_of_knob, KNOBS.values()),
        *(_taking(takes, known) for takes in _TAKE),
    ]
    return {command.name: command for command in made}  # what takes something goes before the key or knob of its name


COMMANDS: dict[str, Command] = dict(sorted(_all().items()))
"""Name to command, by the alphabet."""

_NAME = 24
_TAKES = 16


class SlashList(ReadListing):
    """The commands that take nothing, which are the keys by another name, then those that take something."""

    TITLE = "Commands"

    def made(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, argument in (("WITH AN ARGUMENT", True), ("WITHOUT", False)):
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
