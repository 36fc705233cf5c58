"""Reads a lesson from its TOML file, and says of everything that is wrong in it what, and in which line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from termchat import regular_files
from termchat.decoding import conditions
from termchat.decoding.answers import AnswerError, answer_reader
from termchat.decoding.conditions import ConditionError
from termchat.decoding.constraint import Constraint, make_choice
from termchat.decoding.constraint import Kind as ConstraintKind
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.samplers import KNOBS, KnobError, Value
from termchat.engine.port import FEATURES, Feature
from termchat.lessons import glossary
from termchat.lessons.deeds import DeedError, parse_deed
from termchat.lessons.lesson import Claim, Lesson, LessonQuestion, LessonStep, LessonText, Opening, is_knob_key
from termchat.lessons.lesson_check import CheckError, LessonCheck, parse_check, parse_value
from termchat.lessons.lesson_facts import CLAIM_FACTS
from termchat.text import guess_of, one_line, sanitize
from termchat.toml import MOST, Statement, TomlError, TomlFile

MOST_WORDS = 60
"""Words of a step's text."""
MOST_STEPS = 60
MOST_TOKENS = 10_000
"""Of a claim's reply."""
_MOST_CHARACTERS = 4000
_MOST_ANSWERS = 4
_MOST_HINTS = 2
_MOST_MINUTES = 120
_SHOWN = 60
_NAME = re.compile(r"(?:(\d+)-)?(.+)")
_TOML_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_T = TypeVar("_T")
Keys = tuple[str | int, ...]
"""Where a value stands: the names of keys, and the place of a table in its list."""


class LessonProblem(NamedTuple):
    """`line` is 0 where it is about the whole file."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class LessonError(ValueError):
    """A lesson's file that cannot be used; `problems` are all that were found in it, in the order of its lines."""

    def __init__(self, path: Path, problems: Iterable[LessonProblem]) -> None:
        self.path, self.problems = path, sorted(problems)
        first, more = self.problems[0], len(self.problems) - 1
        place = f"{sanitize(path.name, keep='')}{f', line {first.line}' if first.line else ''}"
        super().__init__(f"{place}: {first.message}{f' (and {more} more)' if more else ''}")


class LessonNames(NamedTuple):
    """What a lesson may name on the screen; None where that is not known, and anything goes."""

    keys: Collection[str] | None = None
    panels: Collection[str] | None = None
    looks: Collection[str] | None = None
    pages: Collection[str] | None = None


ANY_NAMES = LessonNames()


def read_lesson(path: Path, names: LessonNames = ANY_NAMES) -> Lesson:
    """The lesson in a file.

    Raises:
        LessonError: it cannot be read, or something is wrong in it.
    """
    try:
        file = TomlFile(path)
    except TomlError as error:
        message = str(error).removeprefix(f"{path} ")
        found = _TOML_LINE.search(message)
        line = int(found[1] or _last_line(path)) if found else 0
        raise LessonError(path, [LessonProblem(line, sanitize(_TOML_LINE.sub("", message), keep=""))]) from error
    reader = _Reader(file, names)
    lesson = reader.lesson()
    if lesson is None or reader.problems:
        raise LessonError(path, reader.problems)
    return lesson


def _last_line(path: Path) -> int:
    with suppress(OSError):
        return max(len(regular_files.read(path, MOST).splitlines()), 1)
    return 1


class _Reader:
    """Takes what is right, and notes what is not; `problems` are in the order in which they were met."""

    def __init__(self, file: TomlFile, names: LessonNames) -> None:
        self._file, self._names = file, names
        self._lines = _lines(file)
        self.problems: list[LessonProblem] = []

    def lesson(self) -> Lesson | None:
        path, table = self._file.path, self._file.table
        found = _NAME.fullmatch(path.name.removesuffix(".toml"))
        assert found is not None  # a file's name is not empty
        self._known(table, (), _TOP)
        opening = self._opening(self._table(table, (), "opening"))
        lesson = Lesson(
            id=found[2],
            number=found[1] or "",
            path=path,
            title=self._text(table, (), "title", needed=True),
            minutes=self._number(table, (), "minutes", 1, _MOST_MINUTES),
            summary=self._text(table, (), "summary", needed=True),
            learned=self._lesson_text(table, (), "learned", needed=True),
            next=self._lesson_text(table, (), "next"),
            needs=self._needs(table),
            terms=tuple(self._terms(table)),
            notes=self._lesson_text(table, (), "notes"),
            opening=opening,
            claims=tuple(self._claim(one, ("claims", i)) for i, one in enumerate(self._tables(table, "claims"))),
            steps=tuple(self._step(one, ("steps", i)) for i, one in enumerate(self._tables(table, "steps"))),
        )
        if not lesson.steps:
            self._note((), "it has no step; write [[steps]] with text and check")
        elif len(lesson.steps) > MOST_STEPS:
            self._note(("steps", MOST_STEPS), f"a lesson has at most {MOST_STEPS} steps")
        return lesson

    # --- the parts ----------------------------------------------------------------------------------------------------

    def _opening(self, table: dict[str, Any]) -> Opening:
        at: Keys = ("opening",)
        self._known(table, at, _OPENING)
        return Opening(
            system=self._text(table, at, "system"),
            raw=self._truth(table, at, "raw"),
            text=self._text(table, at, "text"),
            look=self._one_of(table, at, "look", self._names.looks),
            page=self._one_of(table, at, "page", self._names.pages),
            knobs=self._knobs(table, at),
            rules=self._each(table, at, "rules", conditions.parse),
            constraint=self._constraint(table, at),
        )

    def _claim(self, table: dict[str, Any], at: Keys) -> Claim:
        self._known(table, at, _CLAIM)
        checks = self._checks(table, at, "check")
        for check in checks:
            for fact in check.facts:
                if fact.name not in CLAIM_FACTS:
                    self._note(
                        (*at, "check"),
                        f"{fact.name} is not a fact of replies; claims can only check what can be known without a screen",
                    )
        if not checks and "check" not in table:
            self._note(at, "check is missing: a claim says what must hold of the reply")
        return Claim(
            what=self._lesson_text(table, at, "what", needed=True),
            prompt=self._text(table, at, "prompt", needed=True),
            checks=checks,
            otherwise=self._lesson_text(table, at, "otherwise", needed=True),
            raw=self._truth(table, at, "raw"),
            system=self._text(table, at, "system"),
            prefill=self._text(table, at, "prefill"),
            knobs=self._knobs(table, at),
            rules=self._each(table, at, "rules", conditions.parse),
            constraint=self._constraint(table, at),
            at=self._number(table, at, "at", -MOST_TOKENS, MOST_TOKENS) if "at" in table else None,
            walks=self._number(table, at, "walks", 2, MOST_WALKS) if "walks" in table else 0,
            beams=self._number(table, at, "beams", 2, MOST_WALKS) if "beams" in table else 0,
            again=self._truth(table, at, "again"),
            vote=self._vote(table, at),
            step=self._number(table, at, "step", 1, max(self._count("steps"), 1)) if "step" in table else 0,
        )

    def _vote(self, table: dict[str, Any], at: Keys) -> str:
        written = self._text(table, at, "vote")
        if written and "walks" not in table:
            self._note((*at, "vote"), "vote counts the answers of walks; write how many, for example: walks = 8")
        try:
            answer_reader(written or ".")
        except AnswerError as error:
            self._note((*at, "vote"), f"vote: {error.message}")
        return written

    def _count(self, name: str) -> int:
        tables = self._file.table.get(name)
        return len(tables) if isinstance(tables, list) else 0

    def _constraint(self, table: dict[str, Any], at: Keys) -> Constraint | None:
        given = self._table(table, at, "constraint")
        if not given:
            return None
        at = (*at, "constraint")
        self._known(given, at, ("kind", "text"))
        written = self._text(given, at, "kind")
        kind = next((known for known in get_args(ConstraintKind) if known == written), None)
        if kind is None:
            kinds = ", ".join(get_args(ConstraintKind))
            self._note(
                at, f"kind is {written!r}, and must be one of {kinds}{guess_of(written, get_args(ConstraintKind))}"
            )
            return None
        if kind == "choice" and isinstance(given.get("text"), list):
            return make_choice(self._strings(given, at, "text"))
        return Constraint(kind, self._text(given, at, "text", needed=True))

    def _step(self, table: dict[str, Any], at: Keys) -> LessonStep:
        self._known(table, at, _STEP)
        question = self._table(table, at, "question") if "question" in table else None
        step = LessonStep(
            text=self._lesson_text(table, at, "text", needed=True),
            points=tuple(self._points(table, at)),
            checks=self._checks(table, at, "check"),
            deeds=self._each(table, at, "do", parse_deed),
            hints=tuple(map(LessonText, self._strings(table, at, "hints"))),
            question=self._question(question, (*at, "question")) if question is not None else None,
            notes=self._lesson_text(table, at, "notes"),
            compose=self._text(table, at, "compose"),
            line=self._line(at),
        )
        words = len(step.text.split())
        if words > MOST_WORDS:
            self._note((*at, "text"), f"text has {words} words; {MOST_WORDS} are the most that are read")
        if len(step.hints) > _MOST_HINTS:
            self._note((*at, "hints"), f"hints has {len(step.hints)} texts; two are the most: a nudge, and the key")
        for hint in step.hints:
            self._braces(hint, (*at, "hints"))
        if not step.checks and step.question is None and "check" not in table:
            self._note(at, "check is missing: what holds once the reader has done it? for example: new_replies >= 1")
        for deed in step.deeds:
            if deed.kind == "press":
                self._key(deed.what, (*at, "do"))
        self._choices(step, at)
        return step

    def _choices(self, step: LessonStep, at: Keys) -> None:
        """Whether what "do it for me" answers is an answer."""
        asked = step.question
        for deed in (deed for deed in step.deeds if deed.kind == "choose"):
            if asked is None:
                self._note((*at, "do"), "choose answers a question, and this step has none")
            elif not asked.is_number and deed.number not in range(1, len(asked.answers) + 1):
                self._note((*at, "do"), f"{deed.written}: there are {len(asked.answers)} answers")

    def _question(self, table: dict[str, Any], at: Keys) -> LessonQuestion:
        self._known(table, at, _QUESTION)
        answers = tuple(map(LessonText, self._strings(table, at, "answers")))
        asked = LessonQuestion(
            ask=self._lesson_text(table, at, "ask", needed=True),
            answers=answers,
            unit=self._text(table, at, "number"),
            before=self._truth(table, at, "before", default=True),
        )
        for answer in answers:
            self._braces(answer, (*at, "answers"))
        if ("answers" in table) == ("number" in table):
            self._note(at, 'a question has either answers = ["…", "…"] or number = "%"')
        elif "answers" in table:
            return self._choice(asked, table, at)
        elif "truth" not in table:
            self._note(at, "truth is missing: which fact is the number? for example: truth = \"model(' blue') * 100\"")
        if "right" in table and "number" in table:
            self._note((*at, "right"), "right belongs to answers; a number has a truth")
        truth = self._parsed((*at, "truth"), self._text(table, at, "truth"), parse_value) if "truth" in table else None
        if truth is not None and truth.kind == "text":
            self._note((*at, "truth"), "truth must be a number, not a text")
        return asked._replace(truth=truth)

    def _choice(self, asked: LessonQuestion, table: dict[str, Any], at: Keys) -> LessonQuestion:
        count = len(asked.answers)
        if not 2 <= count <= _MOST_ANSWERS:
            self._note((*at, "answers"), f"answers has {count} texts; a question has 2 to {_MOST_ANSWERS}")
        if "truth" in table:
            self._note((*at, "truth"), "truth belongs to a number; answers have a right one")
        if isinstance(table.get("right"), list):
            rights = self._checks(table, at, "right")
            if len(rights) != count:
                self._note((*at, "right"), f"right has {len(rights)} checks for {count} answers")
            return asked._replace(rights=rights)
        if "right" not in table:
            self._note(at, "right is missing: the number of the right answer, or a list with a check for each answer")
            return asked
        return asked._replace(right=self._number(table, at, "right", 1, max(count, 1)))

    # --- fields -------------------------------------------------------------------------------------------------------

    def _needs(self, table: dict[str, Any]) -> tuple[Feature, ...]:
        found: list[Feature] = []
        for name in self._strings(table, (), "needs"):
            feature = next((known for known in FEATURES if known == name), None)
            if feature is None:
                known = ", ".join(FEATURES)
                self._note(("needs",), f"unknown feature {name!r}{guess_of(name, FEATURES)}; known features: {known}")
            else:
                found.append(feature)
        return tuple(found)

    def _terms(self, table: dict[str, Any]) -> list[str]:
        terms = self._strings(table, (), "terms")
        for term in terms:
            if not glossary.is_term(term):
                self._note(("terms",), f"the glossary has no {term!r}{guess_of(term, glossary.terms())}")
        return terms

    def _points(self, table: dict[str, Any], at: Keys) -> list[str]:
        points = self._strings(table, at, "points")
        for point in points:
            kind, mark, name = point.partition(":")
            if not mark:
                self._key(point, (*at, "points"))
            elif kind != "panel":
                self._note((*at, "points"), f"{point!r} is not the id of a key, or panel:NAME")
            else:
                self._is_known((*at, "points"), "panel", name, self._names.panels)
        return points

    def _knobs(self, table: dict[str, Any], at: Keys) -> Mapping[str, Value]:
        """The knobs of an opening or a claim; seed and stop may stand beside them."""
        given = self._table(table, at, "knobs")
        beside = [(name, table[name], (*at, name)) for name in ("seed", "stop") if name in table]
        found: dict[str, Value] = {}
        for name, value, place in [*((name, given[name], (*at, "knobs", name)) for name in given), *beside]:
            knob = KNOBS.get(name)
            if knob is None:
                self._note(place, f"unknown knob {name!r}{guess_of(name, KNOBS)}")
                continue
            try:
                is_word = isinstance(value, str) and knob.kind in ("float", "int", "switch", "seed")
                found[name] = knob.parse(value) if is_word else knob.check(value)
            except KnobError as error:
                self._note(place, str(error))
        return found

    def _checks(self, table: dict[str, Any], at: Keys, name: str) -> tuple[LessonCheck, ...]:
        if isinstance(table.get(name), str):
            found = self._parsed((*at, name), table[name], parse_check)
            return () if found is None else (found,)
        return self._each(table, at, name, parse_check)

    def _each(self, table: dict[str, Any], at: Keys, name: str, parse: Callable[[str], _T]) -> tuple[_T, ...]:
        found = (self._parsed((*at, name), written, parse) for written in self._strings(table, at, name))
        return tuple(one for one in found if one is not None)

    def _parsed(self, at: Keys, written: str, parse: Callable[[str], _T]) -> _T | None:
        try:
            return parse(written)
        except (CheckError, DeedError, ConditionError) as error:
            self._note(at, f"{at[-1]} {one_line(written, _SHOWN)!r}: {error}")
            return None

    def _lesson_text(self, table: dict[str, Any], at: Keys, name: str, *, needed: bool = False) -> LessonText:
        text = LessonText(self._text(table, at, name, needed=needed).strip())
        self._braces(text, (*at, name))
        return text

    def _braces(self, text: LessonText, at: Keys) -> None:
        if text.lone_brace:
            self._note(at, f"{at[-1]} has a lone brace: write {{ID}} for a key, and {{{{ or }}}} for a brace")
        for id in text.keys:
            self._key(id, at)

    def _key(self, id: str, at: Keys) -> None:
        if not is_knob_key(id):
            self._is_known(at, "key", id, self._names.keys)

    def _is_known(self, at: Keys, kind: str, name: str, known: Collection[str] | None) -> None:
        if known is not None and name not in known:
            self._note(at, f"unknown {kind} {name!r}{guess_of(name, known)}")

    def _one_of(self, table: dict[str, Any], at: Keys, name: str, known: Collection[str] | None) -> str:
        text = self._text(table, at, name)
        if text and known is not None and text not in known:
            self._note((*at, name), f"unknown {name} {text!r}{guess_of(text, known)}; known: {', '.join(known)}")
        return text

    # --- values -------------------------------------------------------------------------------------------------------

    def _text(self, table: dict[str, Any], at: Keys, name: str, *, needed: bool = False) -> str:
        value = table.get(name, "")
        if not isinstance(value, str):
            self._note((*at, name), f"{name} must be a text in quotes, not {_shown(value)}")
            return ""
        if needed and not value.strip():
            self._note((*at, name) if name in table else at, f"{name} is {'empty' if name in table else 'missing'}")
        if len(value) > _MOST_CHARACTERS:
            self._note((*at, name), f"{name} has {len(value):,} characters; at most {_MOST_CHARACTERS:,} are read")
        return value

    def _strings(self, table: dict[str, Any], at: Keys, name: str) -> list[str]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._note((*at, name), f"{name} must be a list of texts in quotes, not {_shown(value)}")
            return []
        if any(len(one) > _MOST_CHARACTERS for one in value):
            self._note((*at, name), f"a text of {name} has more than {_MOST_CHARACTERS:,} characters")
        return value

    def _truth(self, table: dict[str, Any], at: Keys, name: str, *, default: bool = False) -> bool:
        value = table.get(name, default)
        if not isinstance(value, bool):
            self._note((*at, name), f"{name} must be true or false, not {_shown(value)}")
            return default
        return value

    def _number(self, table: dict[str, Any], at: Keys, name: str, low: int, high: int) -> int:
        value = table.get(name)
        if value is None:
            self._note(at, f"{name} is missing")
        elif isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._note((*at, name), f"{name} must be a whole number from {low} to {high}, not {_shown(value)}")
        else:
            return value
        return low

    def _table(self, table: dict[str, Any], at: Keys, name: str) -> dict[str, Any]:
        value = table.get(name, {})
        if not isinstance(value, dict):
            self._note((*at, name), f"{name} must be a table, not {_shown(value)}")
            return {}
        return value

    def _tables(self, table: dict[str, Any], name: str) -> list[dict[str, Any]]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self._note((name,), f"{name} must be written as [[{name}]], once for each, not {_shown(value)}")
            return []
        return value

    # --- places -------------------------------------------------------------------------------------------------------

    def _known(self, table: dict[str, Any], at: Keys, known: Collection[str]) -> None:
        for name in table:
            if name not in known:
                where = f" in {_called(at)}" if at else ""
                self._note(
                    (*at, name), f"unknown key {name!r}{where}{guess_of(name, known)}; known: {', '.join(known)}"
                )

    def _note(self, at: Keys, message: str) -> None:
        self.problems.append(LessonProblem(self._line(at), sanitize(message, keep="")))

    def _line(self, at: Keys) -> int:
        """The line of a key, or of the nearest table around it; 0 for the file."""
        while at:
            if at in self._lines:
                return self._lines[at]
            at = at[:-1]
        return 0


_TOP = (
    "title", "minutes", "summary", "learned", "next", "needs", "terms", "notes", "opening", "claims", "steps",
)  # fmt: skip
_OPENING = ("system", "raw", "text", "seed", "look", "page", "knobs", "stop", "rules", "constraint")
_CLAIM = (
    "what", "prompt", "raw", "system", "prefill", "seed", "knobs", "stop", "rules", "constraint", "at", "walks", "beams",
    "vote", "again", "step", "check", "otherwise",
)  # fmt: skip
_STEP = ("text", "points", "check", "do", "hints", "notes", "compose", "question")
_QUESTION = ("ask", "answers", "right", "number", "truth", "before")
_LISTS = ("steps", "claims")


def _called(at: Keys) -> str:
    """A table as people call it: "step 2", "the question of step 2"."""
    if len(at) > 1 and isinstance(at[1], int):
        one = f"{str(at[0]).removesuffix('s')} {at[1] + 1}"
        return one if len(at) == 2 else f"the {at[2]} of {one}"
    return f"[{at[0]}]"


def _shown(value: object) -> str:
    return one_line(repr(value), _SHOWN)


def _lines(file: TomlFile) -> dict[Keys, int]:
    """The line of each key, tables of a list by their place in it."""
    lines: dict[Keys, int] = {}
    counts = dict.fromkeys(_LISTS, -1)
    for statement in file.statements:
        if len(statement.keys) == 1 and statement.keys[0] in counts and _begins_one(file, statement):
            counts[statement.keys[0]] += 1
        keys = _placed(statement.keys, counts)
        for count in range(len(keys), 0, -1):
            lines.setdefault(keys[:count], statement.line)
    return lines


def _begins_one(file: TomlFile, statement: Statement) -> bool:
    """Whether the statement is the header of one more table in a list."""
    return file.text[statement.start : statement.end].lstrip().startswith("[[")


def _placed(keys: tuple[str, ...], counts: Mapping[str, int]) -> Keys:
    head = keys[0]
    return (head, max(counts[head], 0), *keys[1:]) if head in counts else keys
