"""Setting the chat's constraint: its text is checked, the model asked whether it can use it, and only then is it in force."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from termchat import regular_files
from termchat.chat.changes import Notice
from termchat.decoding.constraint import LONGEST, Constraint, Kind, TextError, grammar, make_choice
from termchat.tui.context import ScreenContext

ConstraintForm = Kind | Literal["example", "grammar"]
"""How a person writes a constraint: as one of a kind, as an example of the JSON, or as a grammar of either kind."""
_MOST_RECENT = 20
_REFUSED = "constraint not set: "
FORMS: dict[ConstraintForm, tuple[str, str]] = {
    "json_schema": ("JSON schema", 'the text or the path of a schema, such as {"type": "object"}'),
    "regex": ("regular expression", "the whole reply matches it, such as [0-9]{4}-[0-9]{2}"),
    "choice": ("choice", "yes | no, or one text on each line"),
    "gbnf": ("GBNF grammar", 'a grammar or its path, such as root ::= "yes" | "no"'),
    "lark": ("Lark grammar", 'a grammar or its path, such as start: "yes" | "no"'),
    "example": ("example", 'JSON like what you want, or its path, such as {"name": "Ada", "age": 36}'),
}
"""What people call the forms in the dialog, and how such a constraint is written."""


def name_of_constraint(constraint: Constraint) -> str:
    """Return the name of its file, else of its kind."""
    return constraint.name or FORMS[constraint.kind][0]


def typed_text(constraint: Constraint) -> str:
    """Return its text as a person types it."""
    if constraint.kind != "choice":
        return constraint.text
    try:
        return "\n".join(json.loads(constraint.text))
    except (ValueError, TypeError, RecursionError):  # a saved one may be anything
        return constraint.text


def constraint_of(form: ConstraintForm, text: str) -> Constraint:
    """Make a constraint of a text that a person wrote, or but for patterns and choices of the file that it names.

    Raises:
        TextError: it cannot be read, or is faulty.
    """
    name, source = ("", text) if form in ("regex", "choice") else _read_source(text)
    match form:
        case "example":
            from termchat.decoding.constraint_check import parse_json, schema_of

            try:
                schema = json.dumps(schema_of(parse_json(source)), indent=2, ensure_ascii=False)
            except RecursionError:
                raise TextError("it is nested too deeply") from None
            return Constraint("json_schema", schema)
        case "choice":
            texts = [part.strip() for part in text.split("\n" if "\n" in text.strip() else "|")]
            if len(texts) > 1 and not texts[-1]:
                texts.pop()
            if not all(texts):
                raise TextError("a choice needs texts with | between them, for example: yes | no")
            return make_choice(texts)
        case "grammar":
            return grammar(source, name)
    return Constraint(form, source, name)


def _read_source(text: str) -> tuple[str, str]:
    """Read the file that a text names; return its name and its text, else "" and the text itself.

    Raises:
        TextError: the file cannot be read, or is no text.
    """
    words = text.strip()
    path = Path(os.path.expanduser(words))
    if not words or words[0] in "{[" or not os.path.isfile(path):
        return "", text
    try:
        with regular_files.opened(path) as opened:
            return path.name, opened.read(4 * LONGEST + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TextError(f"{words} is not UTF-8") from None
    except OSError as error:
        raise TextError(f"{words}: {error.strerror}") from None


class ConstraintSetting:
    """Puts constraints in force once the model has confirmed that it can use them, and remembers them.

    `recent` are those that were set, the newest first. `listener` gets what is wrong with the one that is being set, "" for
    nothing; without a listener a notice says it.
    """

    def __init__(self, screen: ScreenContext) -> None:
        self._screen = screen
        self._asked: Constraint | None = None
        self._dropped: Constraint | None = None
        self._problem = ""
        self.recent: list[Constraint] = []
        self.listener: Callable[[str], None] | None = None

    def set(self, constraint: Constraint | None) -> None:
        """Set a constraint as soon as the model has confirmed that it can use it; None drops the one in force.

        Raises:
            TextError: the text is faulty.
        """
        from termchat.decoding.constraint_check import check

        self._screen.withdraw(_REFUSED + self._problem)
        self._problem, self._asked = "", None
        if constraint is not None:
            check(constraint)
            self._remember(constraint)
            if self._screen.chat.model is not None:
                self._asked = constraint
                self._screen.chat.questions.check_constraint(constraint)
                return
        self._put(constraint)
        self._answer("")

    def toggle(self) -> bool:
        """Drop the constraint, or restore the dropped one; return False without either."""
        now = self._screen.chat.constraint
        if now is None and self._dropped is None:
            return False
        self._put(None if now is not None else self._dropped)
        return True

    def heard(self) -> None:
        """Set the constraint if the model has answered that it can."""
        asked, questions = self._asked, self._screen.chat.questions
        if asked is None:
            return
        answer, problem = questions.checked, questions.failed
        checked = answer.checked if answer is not None and answer.constraint == asked else None
        if checked is not None:
            place = f"line {checked.line}, column {checked.column}: " if checked.line else ""
            problem = place + checked.error if checked.error else ""
        if problem is None:
            return
        self._asked = None  # first: setting it is a change, which comes back here
        if checked is not None and not problem:
            self._put(asked, checked.ms, checked.warnings)
        self._answer(problem)

    def _answer(self, problem: str) -> None:
        self._problem = problem
        if self.listener is not None:
            self.listener(problem)
        elif problem:
            self._screen.tell(Notice(_REFUSED + problem, "change its text", "error"))

    def _put(self, constraint: Constraint | None, ms: float = 0.0, warnings: Iterable[str] = ()) -> None:
        chat = self._screen.chat
        before = chat.constraint
        if before is not None:
            self._dropped = before
            self._remember(before)
        chat.set_constraint(constraint)
        if constraint is not None:
            compiled = f", compiled in {ms:.1f} ms" if ms else ""
            self._screen.tell(Notice(f"replies match {name_of_constraint(constraint)}{compiled}", "; ".join(warnings)))
        elif before is not None:
            self._screen.tell(Notice(f"replies no longer match {name_of_constraint(before)}"))

    def _remember(self, constraint: Constraint) -> None:
        self.recent = [constraint, *(one for one in self.recent if one != constraint)][:_MOST_RECENT]
