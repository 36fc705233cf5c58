"""All commands behind a slash: one table, each row with the function that runs it.

A key with a name in the palette is a command, and so is every knob. A command that is refused raises `CommandRefused`, or the
error of the text that it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
from termchat.decoding.plans import PLANS
from termchat.decoding.samplers import KNOBS, Value, unescape
from termchat.decoding.setting import Setting, SettingError
from termchat.decoding.walk_plan import PlanError
from termchat.engine.abilities import Feature
from termchat.engine.address import SIGN
from termchat.text import guess_of, one_line, sanitize
from termchat.tui.composer.chat_composer import CommandRefused
from termchat.tui.composer.completion import Offer
from termchat.tui.constraint.constraint_setting import ConstraintForm, constraint_of
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, column
from termchat.tui.keys.key import Key
from termchat.tui.keys.tables import APP, CHAT, LESSON, MODEL, TOKENS, name_of
from termchat.tui.lists.preset_dialog import apply_preset, keep_preset
from termchat.tui.pages.candidates import MOST
from termchat.tui.screen.actions import tokenize
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
    """A slash command.

    Attributes:
        argument: the argument's name, "" for none; `run` gets its text, "" if it is left out.
        offers: complete the argument; mere examples if it is `free`. `words` may come behind the text of one.
        key: id of the key that is pressed without an argument, "" for the command's name; None runs the command.
        needs: the feature of the engine that `run` needs.
        hint: what to do if the argument is refused.
    """

    name: str
    argument: str
    help: str
    run: Run
    offers: Offers = lambda _: ()
    key: str | None = ""
    free: bool = False
    words: Words = lambda _: ()
    needs: Feature | None = None
    hint: str = ""

    @property
    def takes_path(self) -> bool:
        """Whether the argument may be a path."""
        return self.name in _TAKE_PATHS

    @property
    def summary(self) -> str:
        """The argument and the help, on one line."""
        return f"{self.argument}  {self.help}" if self.argument else self.help

    def execute(self, screen: ChatScreen, argument: str) -> None:
        """Run the command, or press its key.

        Raises:
            CommandRefused: an argument or the engine does not allow it.
        """
        key = None if argument or self.key is None else KEYS.get(self.key or self.name)
        if key is not None:
            screen.run_key(key)
            return
        refused = screen.chat.find_refusal(self.needs) if self.needs is not None else None
        if refused is not None:
            raise CommandRefused(*refused)
        try:
            self.run(screen, argument)
        except (ConditionError, NameRefused, PlanError, SettingError, TextError, TranscriptError) as error:
            raise CommandRefused(str(error), getattr(error, "hint", self.hint)) from error


# --- what commands do --------------------------------------------------------------------------------------------------


def _turn_knob(screen: ChatScreen, knob: Setting, text: str) -> None:
    """Turn a knob; without a text show its value."""
    if text:
        screen.chat.adjust_setting(knob.name, _parse_value(screen, knob, text))
    now, origin = knob.show(getattr(screen.chat.tuning, knob.name)), screen.chat.origin[knob.name]
    screen.tell(Notice(f"{knob.name} {now} ({origin})", knob.help))


def _begin_chat(screen: ChatScreen, keep: str) -> None:
    if keep != _KEEP:
        raise CommandRefused(f"/new takes {_KEEP} or nothing, not {one_line(keep, 40)!r}", "/new keep keeps the knobs")
    screen.conversations.begin(keep=True)


def _toggle_raw(screen: ChatScreen, _nothing: str) -> None:
    refused = None if screen.chat.conversation.raw else screen.chat.find_refusal("raw")
    if refused is not None:
        raise CommandRefused(*refused)
    screen.conversations.toggle_raw()


def _switch_model(screen: ChatScreen, name: str) -> None:
    if screen.chat.busy:
        raise CommandRefused("a reply is running", "stop it first")
    models = screen.models
    engine = name in models.config.engines and name not in models.rows
    screen.choosing.take(f"{SIGN}{name}" if engine else name)


def _name_to_save(command: str, text: str, what: str) -> str:
    """Return the name behind `save`; "" for the name of another entry alone."""
    saves = _SAVE.fullmatch(text)
    if saves is not None and not saves[1]:
        raise CommandRefused(f"/{command} save needs a name", f"/{command} save NAME saves {what} as a {command}")
    return saves[1].strip() if saves is not None else ""


def _begin_persona(screen: ChatScreen, text: str) -> None:
    if name := _name_to_save("persona", text, "this chat's system prompt and knobs"):
        screen.conversations.save_persona(name)
    else:
        screen.conversations.begin_as(text)


def _apply_preset(screen: ChatScreen, text: str) -> None:
    name = _name_to_save("preset", text, "the chain's knobs")
    if not name:
        apply_preset(screen, presets.load().get(text))
        return
    try:
        path = keep_preset(screen.chat.tuning, name)
    except NameRefused as error:
        raise CommandRefused(str(error), f"the list of presets ({name_of('presets')}) can replace it") from error
    screen.tell(Notice(f"saved as preset {name}", f"you can add a description in {path}"))


def _check_known(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise CommandRefused(f"unknown {kind} {name!r}{guess_of(name, known)}", f"known {kind}s: {', '.join(known)}")


def _switch_theme(screen: ChatScreen, name: str) -> None:
    _check_known("theme", name, [offer.text for offer in _list_themes(screen)])
    screen.app.call_next(screen.app.run_action, f"app.keep_theme({name!r})")


def _switch_look(screen: ChatScreen, name: str) -> None:
    _check_known("look", name, LOOKS)
    screen.transcript.look = next(look for look in LOOKS if look == name)
    screen.tokens.keep()


def _toggle_rule(screen: ChatScreen, text: str) -> None:
    """Add a rule, or remove it if it is there."""
    chat, rule = screen.chat, parse(text)
    others = tuple(one for one in chat.breakpoints if one.condition != rule)
    added = len(others) == len(chat.breakpoints)
    if added and (why := chat.refused_rule(rule)) is not None:
        raise CommandRefused(*why)
    chat.set_breakpoints((*others, Breakpoint(rule)) if added else others)
    text = format_condition(rule)
    does = {
        "pause": f"It pauses the reply. /rule stop {text} ends the reply instead.",
        "stop": f"It ends the reply. /rule {text.removeprefix('stop ')} pauses the reply instead.",
    }
    screen.tell(Notice(f"rule {'added' if added else 'removed'}: {text}", does.get(rule.action, "") if added else ""))


def _list_rules(screen: ChatScreen) -> Iterable[Offer]:
    rules = [format_condition(one.condition) for one in screen.chat.breakpoints]
    yield from (Offer(rule, "remove this rule") for rule in rules)
    yield from (Offer(example) for example in EXAMPLES if example not in rules)


def _begin_lesson(screen: ChatScreen, name: str) -> None:
    """Begin a lesson; without a name list them."""
    from termchat.lessons.lesson_file import LessonRefused
    from termchat.tui.lessons.lesson_words import read_lessons

    try:
        lesson = read_lessons().lesson(name).id if name else ""
    except LessonRefused as error:
        raise CommandRefused(str(error), "/learn lists the lessons") from error
    screen.app.call_next(screen.app.run_action, f"app.open_lesson({lesson!r})")


def _explain_word(screen: ChatScreen, word: str) -> None:
    """Explain a word; without one list the glossary."""
    from termchat.lessons.glossary import UnknownTerm, find
    from termchat.tui.lessons.lesson_words import plain_text

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
    screen.tell(Notice(f"{entry.term}: {entry.text}", f"On the screen: {plain_text(entry.where)}"))


def _list_terms(_screen: ChatScreen) -> Iterable[Offer]:
    from termchat.lessons.glossary import entries

    return (Offer(entry.term, entry.text) for entry in entries().values())


def _list_lessons(_screen: ChatScreen) -> Iterable[Offer]:
    from termchat.tui.lessons.lesson_words import read_lessons

    return (Offer(lesson.id, lesson.summary) for lesson in read_lessons().lessons)


def _set_drafter(screen: ChatScreen, text: str) -> None:
    """Turn the knob, or have a model draft. Undone like any other turn of a knob."""
    knob = KNOBS["draft"]
    word = text.strip().lower()
    if word in knob.choices:
        screen.knobs.put(knob.name, word)
        _turn_knob(screen, knob, "")
    elif screen.chat.cannot_draft:
        raise CommandRefused(f"cannot load a draft model: {screen.chat.cannot_draft}")
    else:
        screen.choosing.draft_with(text.strip())


def _list_drafters(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the words of the knob, then the models on this machine that can draft for the loaded one."""
    yield from starmap(Offer, KNOBS["draft"].about.items())
    models, spec = screen.models, screen.chat.spec
    rows = _list_ready_models(screen)
    here = models.in_file(spec.path) if spec is not None else ""
    if (loaded := models.rows.get(here)) is not None:
        models.read(rows, loaded)
        yield from (_offer_model(row) for row in rows if models.why_not_draft(row, loaded) == "")


def _rename_chat(screen: ChatScreen, text: str) -> None:
    """Change the title; without a text show it."""
    title = sanitize(" ".join(text.split()), keep="")
    if title:
        screen.chat.rename_chat(title)
    else:
        screen.tell(Notice(screen.chat.conversation.title or "this chat has no title yet"))


def _roll_dice(screen: ChatScreen, text: str) -> None:
    number, _, seed = text.partition(" ")
    n = int(number) if number.isdecimal() and len(number) <= len(str(MOST)) else 0
    if not 1 <= n <= MOST:
        raise CommandRefused(
            f"/roll takes a number from 1 to {MOST}", "/roll 500 42 rolls 500 times with the seeds from 42 on"
        )
    first = KNOBS["seed"].parse(seed)
    screen.app.call_next(screen.app.run_action, f"roll({n}, {first})", screen)


def _save_transcript(screen: ChatScreen, path: str) -> None:
    try:
        where = Path(path).expanduser()
        exists = where.exists()
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
        raise CommandRefused(str(error)) from error
    of_file(where)
    if exists:
        raise CommandRefused(f"{where} exists", f"use {name_of('save')} to overwrite it")

    screen.conversations.write(where)


def _show_help(screen: ChatScreen, name: str) -> None:
    command = COMMANDS.get(name.lstrip("/"))
    if name and command is None:
        raise CommandRefused(f"unknown command /{name.lstrip('/')}", "/help lists all commands")
    if command is None:
        screen.open(ReadDialog(screen.palette, "Commands", render_commands))
    else:
        screen.tell(Notice(f"/{command.name} {command.argument}".strip(), command.help))


def _set_constraint(form: ConstraintForm, screen: ChatScreen, text: str) -> None:
    screen.constraining.set(constraint_of(form, text))


def _start_walks(kind: GroupKind, screen: ChatScreen, words: str) -> None:
    plan, message = read(kind, words)
    if not message and screen.chat.conversation.leaf is None:
        raise CommandRefused(NOTHING, "write a message after the command")
    begin_walks(screen, plan, message)


# --- what completes them ------------------------------------------------------------------------------------------------


def _list_values(screen: ChatScreen, knob: Setting) -> Iterable[Offer]:
    """Offer the current value, the default, and off; each once."""
    values = dict.fromkeys(reversed(knob.choices), "choice")
    values |= {knob.show(knob.default): "default", knob.show(getattr(screen.chat.tuning, knob.name)): "current value"}
    if knob.off is not None:
        values |= {knob.show(knob.off): "off"}
    return (Offer(value, f"{what}: {knob.help}") for value, what in reversed(values.items()))


def _list_models(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the models on this machine, and the engines elsewhere."""
    yield from map(_offer_model, _list_ready_models(screen))
    yield from (Offer(name, one_line(address.url, 60)) for name, address in screen.models.config.engines.items())


def _list_ready_models(screen: ChatScreen) -> list[ModelRow]:
    """Return the models on this machine; look for them first."""
    models = screen.models
    models.take()
    if not models.rows:
        models.look()
    return [row for row in models.rows.values() if row.state == "ready" and not row.engine]


def _offer_model(row: ModelRow) -> Offer:
    return Offer(row.wanted, one_line(row.description or str(row.path), 60))


def _list_personas(screen: ChatScreen) -> Iterable[Offer]:
    known = screen.conversations.personas.entries.values()
    yield from (Offer(persona.name, persona.description or persona.system) for persona in known)
    yield Offer("save ", "NAME  Save this chat's system prompt and knobs as a persona")


def _list_presets(_screen: ChatScreen) -> Iterable[Offer]:
    yield from (Offer(preset.name, preset.description) for preset in presets.load().entries.values())
    yield Offer("save ", "NAME  Save the chain's knobs as a preset")


def _list_themes(screen: ChatScreen) -> Iterable[Offer]:
    """Offer the themes, but for those of Textual."""
    yield Offer(AUTO, "follows the terminal's background")
    known = screen.theme_chooser.all()
    yield from (Offer(name, "dark" if palette.dark else "light") for name, palette in known.items())


def _list_examples(examples: Iterable[tuple[str, str]], _screen: ChatScreen) -> Iterable[Offer]:
    return starmap(Offer, examples)


def _list_words(kind: GroupKind, before: str) -> Iterable[Offer]:
    return starmap(Offer, offered(kind, before).items())


def _parse_value(screen: ChatScreen, knob: Setting, text: str) -> Value:
    r"""Parse a value for a knob. A bias joins the present ones; several texts stand in quotes, one without spaces needs none,
    and `off` is no text.

    Raises:
        CommandRefused: spaces without quotes may be one text or several.
    """
    if knob.kind == "biases" and text not in ("off", knob.none):
        return knob.check([*screen.chat.tuning.logit_bias, text])
    if knob.kind != "texts":
        return knob.parse(text)
    if text == "off":
        return ()
    if re.fullmatch(rf"(?:{_QUOTED.pattern})+\s*", text):
        return knob.check([unescape(quoted.replace('\\"', '"')) for quoted in _QUOTED.findall(text)])
    parts = list(filter(None, map(str.strip, text.split("|")))) if "|" in text else text.split()
    if len(text.split()) > 1:
        quoted = one_line(" ".join('"' + part.strip('"') + '"' for part in parts), 60)
        raise CommandRefused(
            f"{knob.name}: put each text in quotes, not {one_line(text, 40)}", f"such as /{knob.name} {quoted}"
        )
    return knob.parse(text)


# --- the table ----------------------------------------------------------------------------------------------------------


_CONSTRAINTS: tuple[tuple[str, ConstraintForm, str, str], ...] = (
    ("schema", "json_schema", "FILE|TEXT", "Replies are JSON that matches this JSON schema"),
    ("example", "example", "FILE|TEXT", "Replies are JSON like this example"),
    ("regex", "regex", "PATTERN", "Replies match this regular expression as a whole"),
    ("choice", "choice", "A | B", "Replies are one of these texts"),
    ("grammar", "grammar", "FILE|TEXT", "Replies match this grammar, in GBNF or Lark"),
)

_TAKE: tuple[Command, ...] = (
    Command("new", _KEEP, "New chat, as configured; keep keeps this one's system prompt, raw mode, knobs and breakpoints",
        _begin_chat, lambda _: (Offer(_KEEP),)),
    Command("system", "TEXT", "New chat with this system prompt",
        lambda screen, system: screen.conversations.begin(system, raw=False), key="setup"),
    Command("raw", "", "New chat in raw mode (no chat template); again to leave raw mode",
        _toggle_raw, key=None),
    Command("model", "NAME", "Switch to another model", _switch_model, _list_models, "models"),
    Command("persona", "NAME", "New chat as a persona; save NAME saves this chat's settings as one",
        _begin_persona, _list_personas),
    Command("preset", "NAME", "Set the whole chain to a preset; save NAME saves it as one",
        _apply_preset, _list_presets, "presets"),
    Command("theme", "NAME", "Switch the theme", _switch_theme, _list_themes),
    Command("prefill", "TEXT", "Start the next reply with this text",
        lambda screen, text: screen.chat.begin_with(unescape(text)), needs="continue"),
    Command("rule", "RULE", "Pause at RULE. `stop RULE` ends the reply instead. Repeat to remove", _toggle_rule, _list_rules,
        "breakpoints", free=True, hint="/rule without anything lists the rules"),
    Command("tokens", "TEXT", "Show the tokens of TEXT; without it, token mode",
        lambda screen, text: tokenize(screen, unescape(text)), needs="tokenize"),
    Command("bias", "TEXT=X|ban", "Ban a token or text, or add X to its logit; without it, the list of biases",
        lambda screen, text: _turn_knob(screen, KNOBS["logit_bias"], text), hint=KNOBS["logit_bias"].help),
    Command("draft", "WHO|NAME", "Speculation: off, ngram, model, auto, or NAME, a draft model; without it, what drafts gain",
        _set_drafter, _list_drafters, free=True),
    Command("learn", "LESSON", "Begin a lesson, or resume it; without LESSON, list them", _begin_lesson, _list_lessons, None),
    Command("what", "WORD", "Explain a word of decoding, and say where it is seen; without WORD, the glossary",
        _explain_word, _list_terms, None, free=True),
    Command("title", "TEXT", "Change the title of the chat", _rename_chat),
    *(Command(name, argument, help, partial(_set_constraint, form), key="constraint", needs="constrain")
        for name, form, argument, help in _CONSTRAINTS),
    *(Command(plan.command, plan.argument, plan.help, partial(_start_walks, kind), partial(_list_examples, plan.examples),
        free=True, words=partial(_list_words, kind)) for kind, plan in PLANS.items()),
    Command("roll", "N SEED", "Roll the dice N times at the token that is shown, with the seeds from SEED on", _roll_dice),
    Command("save", "PATH", "Save a transcript to PATH", _save_transcript),
    Command("look", "NAME", "Switch the look: reading, probability (model), after (chain), entropy, rank, time or drafts",
        _switch_look, lambda _: (Offer(look) for look in LOOKS)),
    Command("help", "NAME", "List all commands, or explain one", _show_help,
        lambda _: (Offer(command.name, command.summary) for command in COMMANDS.values()), None),
)  # fmt: skip

ALSO = {
    "exit": "quit", "bye": "quit", "clear": "new", "retry": "regenerate", "?": "help",
    "json_schema": "schema", "best_of": "best", "draft_model": "draft",
    **{also: knob.name for knob in KNOBS.values() for also in (knob.flag, *knob.also) if also},
}  # fmt: skip
"""Other names of commands: those of other programs, and of our own flags."""


KEYS: dict[str, Key] = {key.id: key for key in (*CHAT, *MODEL, *TOKENS, *LESSON, *APP) if key.palette}
"""The keys with a name in the palette, by id: each is a command too."""


def _command_of_key(key: Key) -> Command:
    return Command(key.id, "", key.help, lambda screen, _: screen.run_key(key), key=None)


def _command_of_knob(knob: Setting) -> Command:
    words = {
        "texts": "TEXT", "biases": "TEXT=X|ban", "order": "A;B", "seed": "NUMBER", "choice": "WORD", "switch": "on|off",
    }  # fmt: skip
    takes = words.get(knob.kind, f"{knob.low:.16g} to {knob.high:.16g}")
    return Command(
        knob.name, takes, knob.help, lambda screen, text: _turn_knob(screen, knob, text),
        lambda screen: _list_values(screen, knob), None, free=True, hint=knob.help,
    )  # fmt: skip


_ALL = (*map(_command_of_key, KEYS.values()), *map(_command_of_knob, KNOBS.values()), *_TAKE)
COMMANDS: dict[str, Command] = dict(sorted({command.name: command for command in _ALL}.items()))
"""Name to command, by the alphabet; of several rows with a name the last one counts."""

_NAME = 24
_TAKES = 16


def render_commands(width: int) -> list[Line]:
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
