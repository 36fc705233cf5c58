"""Setting the chat's constraint: its text is checked, the model asked whether it can use it, and only then is it in force."""

from __future__ import annotations

import json
from collections.abc import Callable
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
FORMS: dict[ConstraintForm, str] = {
    "json_schema": "JSON schema",
    "regex": "regular expression",
    "choice": "choice",
    "gbnf": "GBNF grammar",
    "lark": "Lark grammar",
    "example": "example",
}
"""What people call them, but for grammars of either kind."""


def name_of_constraint(constraint: Constraint) -> str:
    """Return the name of its file, else of its kind."""
    return constraint.name or FORMS[constraint.kind]


def choices(text: str) -> Constraint:
    """Parse `a | b | c`, or one of them on each line.

    Raises:
        TextError: one of them is empty.
    """
    parts = text.split("\n" if "\n" in text.strip() else "|")
    texts = [part.strip() for part in parts]
    if len(texts) > 1 and not texts[-1]:
        texts.pop()
    if not all(texts):
        raise TextError("a choice needs texts with | between them, for example: yes | no")
    return make_choice(texts)


def typed(constraint: Constraint) -> str:
    """Return its text as a person types it."""
    if constraint.kind != "choice":
        return constraint.text
    try:
        return "\n".join(json.loads(constraint.text))
    except (ValueError, TypeError, RecursionError):  # a saved one may be anything
        return constraint.text


def by_example(text: str) -> Constraint:
    """Make the schema of an example in JSON.

    Raises:
        TextError: it is not JSON, or nested too deeply.
    """
    from termchat.decoding.constraint_check import parse_json, schema_of

    try:
        return Constraint("json_schema", json.dumps(schema_of(parse_json(text)), indent=2, ensure_ascii=False))
    except RecursionError:
        raise TextError("it is nested too deeply") from None


def file_or_text(text: str) -> tuple[str, str]:
    """Read the file that a text names; return its name and its text, else "" and the text itself.

    Raises:
        TextError: the file cannot be read, or is no text.
    """
    words = text.strip()
    if not words or "\n" in words or len(words) > 1000 or words[0] in "{[":
        return "", text
    try:
        path = Path(words).expanduser()
        if not path.is_file():
            return "", text
        with regular_files.opened(path) as opened:
            data = opened.read(4 * LONGEST + 1)
        return path.name, data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TextError(f"{words} is not UTF-8") from None
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL
        if isinstance(error, OSError) and error.errno is not None and Path(words).suffix:
            raise TextError(f"{words}: {error.strerror}") from None
        return "", text


def constraint_of(form: ConstraintForm, text: str) -> Constraint:
    """Make a constraint of what a person wrote: a text, or but for patterns and choices the path of its file.

    Raises:
        TextError: it cannot be read, or is faulty.
    """
    name, source = ("", text) if form in ("regex", "choice") else file_or_text(text)
    match form:
        case "example":
            return by_example(source)
        case "choice":
            return choices(source)
        case "grammar":
            return grammar(source, name)
    return Constraint(form, source, name)


class ConstraintSetting:
    """`problem` is what the model had against the one that was set last; "" where nothing."""

    def __init__(self, screen: ScreenContext) -> None:
        self._screen = screen
        self._asked: Constraint | None = None
        self._dropped: Constraint | None = None
        self.recent: list[Constraint] = []
        self.problem = ""
        self.listener: Callable[[], None] | None = None
        """Is called when the model has answered."""

    @property
    def waiting(self) -> bool:
        """The model is being asked."""
        return self._asked is not None

    def set(self, constraint: Constraint | None) -> None:
        """Set a constraint as soon as the model has confirmed that it can use it; None drops the one in force.

        Raises:
            TextError: the text is faulty.
        """
        from termchat.decoding.constraint_check import check

        self._screen.withdraw(_REFUSED + self.problem)
        self.problem, self._asked = "", None
        if constraint is None:
            self._put(None)
            return
        check(constraint)
        self._remember(constraint)
        chat = self._screen.chat
        if chat.model is None:
            self._put(constraint)
            return
        self._asked = constraint
        chat.questions.check_constraint(constraint)

    def toggle(self) -> bool:
        """Drop the constraint, or restore the dropped one; return False if there is neither."""
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
        answer = questions.checked
        if answer is not None and answer.constraint == asked:
            checked = answer.checked
            place = f"line {checked.line}, column {checked.column}: " if checked.line else ""
            self.problem = place + checked.error if checked.error else ""
        elif questions.failed is not None:
            self.problem = questions.failed
        else:
            return
        self._asked = None
        if self.listener is not None:
            self.listener()
        elif self.problem:
            self._screen.tell(Notice(_REFUSED + self.problem, "change its text", "error"))
        if not self.problem and answer is not None:
            self._put(asked, answer.checked.ms, answer.checked.warnings)

    def _put(self, constraint: Constraint | None, ms: float = 0.0, warnings: list[str] | None = None) -> None:
        chat = self._screen.chat
        before = chat.constraint
        if before is not None:
            self._dropped = before
            self._remember(before)
        chat.set_constraint(constraint)
        if constraint is not None:
            compiled = f", compiled in {ms:.1f} ms" if ms else ""
            self._screen.tell(
                Notice(f"replies match {name_of_constraint(constraint)}{compiled}", "; ".join(warnings or ()))
            )
        elif before is not None:
            self._screen.tell(Notice(f"replies no longer match {name_of_constraint(before)}"))

    def _remember(self, constraint: Constraint) -> None:
        self.recent = [constraint, *(one for one in self.recent if one != constraint)][:_MOST_RECENT]
