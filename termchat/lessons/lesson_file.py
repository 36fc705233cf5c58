"""Reads lessons from TOML files, and says of everything that is wrong in one what, and in which line: it fails alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from termchat import paths, regular_files
from termchat.decoding import conditions
from termchat.decoding.conditions import ConditionError
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.setting import SettingError
from termchat.engine.port import FEATURES
from termchat.lessons import glossary
from termchat.lessons.lesson import Lesson, LessonQuestion, LessonStep, LessonText, Opening, Text, is_knob_key
from termchat.text import guess_of, one_line, sanitize
from termchat.toml import MOST, TomlError, TomlFile

COURSE = Path(__file__).resolve().parent / "course"
EXAMPLE = Path(__file__).resolve().with_name("example.toml")
"""A lesson with comments, to be changed into one's own."""
MOST_WORDS = 60
"""Words of a step's text."""
MOST_STEPS = 60
_MOST_ANSWERS = 4
_MOST_HINTS = 2
_SHOWN = 60
_LONGEST = 500
"""Cells of a message."""
_NAME = re.compile(r"(?:(\d+)-)?(.+)", re.DOTALL)
_DIGITS = re.compile(r"(\d+)")
_TOML_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_T = TypeVar("_T", bound=msgspec.Struct)
Keys = tuple[str | int, ...]
"""Where a value stands: the names of keys, and the place of a table in its list."""


class LessonProblem(NamedTuple):
    """`line` is 0 where it is about the whole file."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class LessonError(ValueError):
    """A lesson's file that cannot be used, with all its `problems` in the order of its lines."""

    def __init__(self, path: Path, problems: Iterable[LessonProblem]) -> None:
        self.path, self.problems = path, sorted(problems)
        first, more = self.problems[0], len(self.problems) - 1
        place = f"{sanitize(path.name, keep='')}{f', line {first.line}' if first.line else ''}"
        super().__init__(f"{place}: {first.message}{f' (and {more} more)' if more else ''}")


class LessonNames(NamedTuple):
    """What a lesson may name on the screen; None where that is not known, and anything goes."""

    keys: Collection[str] | None = None
    looks: Collection[str] | None = None
    pages: Collection[str] | None = None


ANY_NAMES = LessonNames()


def read_lesson(path: Path, names: LessonNames = ANY_NAMES) -> Lesson:
    """Read the lesson in a file.

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
    """Decodes the table of a file into the structs of `lesson`; `problems` are all that was wrong in it."""

    def __init__(self, file: TomlFile, names: LessonNames) -> None:
        self._path, self._table, self._names = file.path, file.table, names
        self._lines = _number_lines(file)
        self.problems: list[LessonProblem] = []

    def lesson(self) -> Lesson | None:
        name = _NAME.fullmatch(self._path.name.removesuffix(".toml"))
        assert name is not None  # a file's name is not empty
        top = dict(self._table)
        top.pop("claims", None)  # those of earlier versions: each had a prompt of its own
        opening = self._convert(Opening, top.pop("opening", {}), ("opening",))
        tables = top.pop("steps", [])
        if not isinstance(tables, list) or not 1 <= len(tables) <= MOST_STEPS:
            self._note(("steps", MOST_STEPS), f"a lesson has 1 to {MOST_STEPS} steps, each written as [[steps]]")
            tables = []
        steps = [self._convert(LessonStep, table, ("steps", number)) for number, table in enumerate(tables)]
        lesson = self._convert(Lesson, top, (), id=name[2], number=name[1] or "", path=str(self._path))
        if opening is not None:
            self._check_opening(opening)
        for number, step in enumerate(steps):
            if step is not None:
                self._check_step(step, ("steps", number))
        if lesson is not None:
            for term in lesson.terms:
                if not glossary.is_term(term):
                    self._note(("terms",), f"the glossary has no {term!r}{guess_of(term, glossary.terms())}")
            self._check_texts((), lesson.learned, lesson.next, lesson.notes)
        if lesson is None or self.problems:
            return None
        return msgspec.structs.replace(lesson, opening=opening, steps=tuple(steps))

    # --- decoding -----------------------------------------------------------------------------------------------------

    def _convert(self, kind: type[_T], table: Any, at: Keys, **outside: object) -> _T | None:
        """Decode one table, noting its first problem; `outside` are fields that are not written in the file."""
        if isinstance(table, dict):
            table = self._expand(kind, table, at) | outside
        try:
            return msgspec.convert(table, kind, dec_hook=_decode)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$")
            keys = [int(key) if key.isdecimal() else key for key in re.findall(r"[\w-]+", path)]
            value = table
            for key in keys:
                value = value[key]
            self._note((*at, *keys), _explain(message, path.strip("`."), keys, value))
            return None

    def _expand(self, kind: type[msgspec.Struct], table: dict[str, Any], at: Keys) -> dict[str, Any]:
        """Expand abbreviations: one check for a list of them, knobs beside `knobs`."""
        known = [
            one.encode_name
            for one in msgspec.structs.fields(kind)
            if one.encode_name not in _OUTSIDE or kind is LessonQuestion
        ]
        known += ["seed", "stop"] if "knobs" in known else []
        for name in table.keys() - set(known):
            self._note((*at, name), f"unknown key {name!r}{guess_of(name, known)}; known: {', '.join(known)}")
        lists = {name: [table[name]] for name in ("check", "claim", "right") if isinstance(table.get(name), str)}
        full = table | lists | {"line": self._line(at)}
        if isinstance(question := full.get("question"), dict):
            full["question"] = self._expand(LessonQuestion, question, (*at, "question"))
        limit = full.get("constraint")
        if isinstance(limit, dict) and limit.get("kind") == "choice" and isinstance(limit.get("text"), list):
            full["constraint"] = limit | {"text": json.dumps(limit["text"], ensure_ascii=False, default=str)}
        knobs = full.get("knobs", {})
        if isinstance(knobs, dict) and "knobs" in known:
            given = {**knobs, **{name: full[name] for name in ("seed", "stop") if name in full}}
            full["knobs"] = {name: self._knob(name, value, at) for name, value in given.items()}
        return full

    def _knob(self, name: str, value: Any, at: Keys) -> Value:
        knob = KNOBS.get(name)
        place = (*at, name) if (*at, name) in self._lines else (*at, "knobs", name)
        try:
            if knob is None:
                raise SettingError(f"unknown knob {name!r}{guess_of(name, KNOBS)}")
            is_word = isinstance(value, str) and knob.kind in ("float", "int", "switch", "seed")
            return knob.parse(value) if is_word else knob.check(value)
        except SettingError as error:
            self._note(place, str(error))
            return None

    # --- checks of what was decoded -----------------------------------------------------------------------------------

    def _check_opening(self, opening: Opening) -> None:
        for name, known in (("look", self._names.looks), ("page", self._names.pages)):
            if value := getattr(opening, name):
                self._check_known(("opening", name), name, value, known)
        for rule in opening.rules:
            try:
                conditions.parse(rule)
            except ConditionError as error:
                self._note(("opening", "rules"), f"rules: {error}")

    def _check_step(self, step: LessonStep, at: Keys) -> None:
        self._check_texts(at, step.text, step.notes, *step.hints)
        if not step.text:
            self._note((*at, "text"), "text is empty")
        if (words := len(step.text.split())) > MOST_WORDS:
            self._note((*at, "text"), f"text has {words} words; {MOST_WORDS} are the most that are read")
        if len(step.hints) > _MOST_HINTS:
            self._note((*at, "hints"), f"hints has {len(step.hints)} texts; two are the most: a nudge, and the key")
        if not step.checks and step.question is None:
            self._note(at, "check is missing: what holds once the reader has done it? for example: new_replies >= 1")
        for deed in step.deeds:
            if deed.kind == "press":
                self._check_key(deed.what, (*at, "do"))
        for point in step.points:
            kind, mark, name = point.partition(":")
            if not mark:
                self._check_key(point, (*at, "points"))
            elif kind != "panel":
                self._note((*at, "points"), f"{point!r} is not the id of a key, or panel:NAME")
            else:
                self._check_known((*at, "points"), "panel", name, self._names.pages)
        if step.question is not None:
            self._check_question(step.question, (*at, "question"))

    def _check_question(self, asked: LessonQuestion, at: Keys) -> None:
        count = len(asked.answers)
        self._check_texts(at, asked.ask, *asked.answers)
        if not asked.ask:
            self._note((*at, "ask"), "ask is empty")
        if not count and (asked.truth is None or asked.right != 0):
            example = 'number = "%" and truth = "model(\' blue\') * 100"'
            self._note(at, f'a question has answers = ["…", "…"] and the number of the right one, or {example}')
        elif asked.truth is not None and asked.truth.kind == "text":
            self._note((*at, "truth"), "truth must be a number, not a text")
        elif count and (asked.unit or asked.truth is not None):
            self._note(at, "number and truth belong to a question without answers")
        elif count and not 2 <= count <= _MOST_ANSWERS:
            self._note((*at, "answers"), f"answers has {count} texts; a question has 2 to {_MOST_ANSWERS}")
        elif isinstance(asked.right, tuple) and len(asked.right) != count:
            self._note((*at, "right"), f"right has {len(asked.right)} checks for {count} answers")
        elif isinstance(asked.right, int) and count and not 1 <= asked.right <= count:
            ways = f"a number from 1 to {count}, or a list with a check for each answer"
            self._note((*at, "right"), f"right must be {ways}")

    def _check_texts(self, at: Keys, *texts: LessonText) -> None:
        for id in (id for text in texts for id in text.keys):
            self._check_key(id, at)

    def _check_key(self, id: str, at: Keys) -> None:
        if not is_knob_key(id):
            self._check_known(at, "key", id, self._names.keys)

    def _check_known(self, at: Keys, kind: str, name: str, known: Collection[str] | None) -> None:
        if known is not None and name not in known:
            self._note(at, f"unknown {kind} {name!r}{guess_of(name, known)}")

    # --- places -------------------------------------------------------------------------------------------------------

    def _note(self, at: Keys, message: str) -> None:
        self.problems.append(LessonProblem(self._line(at), one_line(sanitize(message, keep=""), _LONGEST)))

    def _line(self, at: Keys) -> int:
        """The line of a key, or of the nearest table around it; 0 for the file."""
        while at and at not in self._lines:
            at = at[:-1]
        return self._lines[at] if at else 0


def _decode(kind: type[Any], value: Any) -> Any:
    """Read a text as a `LessonText`, `LessonCheck`, `Expression`, `Deed` or `Path`, which msgspec does not know."""
    text: str = msgspec.convert(value, Text)
    if kind is LessonText and LessonText(text).lone_brace:
        raise ValueError("a lone brace: write {ID} for a key, and {{ or }} for a brace")
    return kind(text)


def _explain(message: str, name: str, keys: Sequence[str | int], value: Any) -> str:
    """Explain an error of msgspec in words, and what to write there."""
    if missing := re.match(r"Object missing required field `(\w+)`", message):
        return f"{missing[1]} is missing"
    if keys[:1] == ["needs"] and isinstance(value, str):
        return f"unknown feature {value!r}{guess_of(value, FEATURES)}; known features: {', '.join(FEATURES)}"
    if expected := re.match(r"Expected `(\w+)[^`]*`( of length [<>]= \d+)?", message):
        kind = "a whole number from 1 to 120" if name == "minutes" else _WORDS.get(expected[1], expected[1])
        return f"{name or 'this'} must be {kind}{expected[2] or ''}, not {one_line(repr(value), _SHOWN)}"
    return f"{name}: {message}" if name else message


_WORDS = {
    "str": "a text in quotes", "int": "a whole number", "bool": "true or false", "array": "a list of texts in quotes",
    "object": "a table",
}  # fmt: skip
_OUTSIDE = frozenset({"id", "number", "path", "line"})
"""Fields that do not stand in the file."""


def _number_lines(file: TomlFile) -> dict[Keys, int]:
    """Number the line of each key; a table of a list has its place in it in the key."""
    lines: dict[Keys, int] = {}
    count = -1
    for statement in file.statements:
        head, *rest = statement.keys
        if head == "steps" and not rest and file.text[statement.start : statement.end].lstrip().startswith("[["):
            count += 1
        keys: Keys = (head, max(count, 0), *rest) if head == "steps" else statement.keys
        for length in range(len(keys), 0, -1):
            lines.setdefault(keys[:length], statement.line)
    return lines


# --- all lessons --------------------------------------------------------------------------------------------------------


class LessonRefused(ValueError):
    """No lesson goes by that name; the message says which do."""


class Shelf(NamedTuple):
    """The lessons in their order, first the course, and the errors of broken files."""

    lessons: tuple[Lesson, ...]
    broken: tuple[LessonError, ...] = ()

    def lesson(self, name: str) -> Lesson:
        """Find a lesson by its id or number, or by the beginning of its id.

        Raises:
            LessonRefused: there is none, or its file is broken.
        """
        wanted = name.strip().lower().removesuffix(".toml")
        entries: list[Lesson | LessonError] = [*self.lessons, *self.broken]
        for one in entries:
            if wanted and {wanted, wanted.lstrip("0")} & _names(one.path):
                if isinstance(one, LessonError):
                    raise LessonRefused(f"the lesson is broken: {one}")
                return one
        begun = [lesson for lesson in self.lessons if wanted and lesson.id.lower().startswith(wanted)]
        if len(begun) == 1:
            return begun[0]
        ids = [lesson.id for lesson in self.lessons]
        known = f"; lessons: {', '.join(ids)}" if ids else ""
        raise LessonRefused(f"unknown lesson {name!r}{guess_of(name, ids)}{known}")


def read_shelf(folders: Iterable[Path] | None = None, names: LessonNames = ANY_NAMES) -> Shelf:
    """Read the lessons in these folders; None stands for the course and the user's own; a lesson takes the place of one with
    its id in an earlier folder. What is in a folder in a folder is none."""
    found: dict[str, Lesson] = {}
    broken: list[LessonError] = []
    for folder in folders if folders is not None else (COURSE, paths.lessons_folder()):
        try:
            files = [path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith(".")]
        except FileNotFoundError:
            continue
        except OSError as error:
            broken.append(LessonError(folder, [LessonProblem(0, f"cannot be read: {error.strerror or error}")]))
            continue
        for path in sorted(files, key=lambda path: _order(path.name)):
            try:
                lesson = read_lesson(path, names)
            except LessonError as error:
                broken.append(error)
            else:
                found[lesson.id] = lesson
    return Shelf(tuple(found.values()), tuple(broken))


def _order(name: str) -> list[tuple[int, str]]:
    """Sort key: by number, and not by digit: 2 before 10; what has no number comes last."""
    parts = [(int(part), "") if part.isdigit() else (1 << 62, part) for part in _DIGITS.split(name)]
    return parts[1:] if name[:1].isdigit() else parts


def _names(path: Path) -> set[str]:
    """List by which names the lesson in a file goes: that of the file, its id, and its number."""
    name = path.name.lower().removesuffix(".toml")
    number, id = re.fullmatch(_NAME, name).groups()  # type: ignore[union-attr]  # a file's name is not empty
    return {name, id, (number or name).lstrip("0")}
