"""Setting the chat's constraint: its text is checked, the model asked whether it can use it, and only then is it in force."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from termchat import regular_files
from termchat.chat.changes import Notice
from termchat.decoding.constraint import LONGEST, Constraint, Kind, TextError, make_choice
from termchat.tui.screen.parts import Parts

_MOST_RECENT = 20
_REFUSED = "constraint not set: "
KINDS: dict[Kind, str] = {
    "json_schema": "JSON schema",
    "regex": "regular expression",
    "choice": "choice",
    "gbnf": "GBNF grammar",
    "lark": "Lark grammar",
}
"""What people call them."""


def name_of_constraint(constraint: Constraint) -> str:
    """Its file, else its kind."""
    return constraint.name or KINDS[constraint.kind]


def grammar(text: str, name: str = "") -> Constraint:
    """A grammar in GBNF or Lark, told apart by how they define rules."""
    return Constraint("gbnf" if "::=" in text else "lark", text, name)


def choices(text: str) -> Constraint:
    """`a | b | c`, or one of them on each line.

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
    """Its text as a person types it."""
    if constraint.kind != "choice":
        return constraint.text
    try:
        return "\n".join(json.loads(constraint.text))
    except (ValueError, TypeError, RecursionError):  # a saved one may be anything
        return constraint.text


def by_example(text: str) -> Constraint:
    """The schema of an example in JSON.

    Raises:
        TextError: it is not JSON, or nested too deeply.
    """
    from termchat.decoding.constraint_check import parse_json, schema_of

    try:
        return Constraint("json_schema", json.dumps(schema_of(parse_json(text)), indent=2, ensure_ascii=False))
    except RecursionError:
        raise TextError("it is nested too deeply") from None


def file_or_text(text: str) -> tuple[str, str]:
    """The name and the text of a file, where that is what the text names, else "" and the text.

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


class ConstraintSetting:
    """`problem` is what the model had against the one that was set last; "" where nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
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
        """Sets it as soon as the model has said that it can; None: nothing has to be matched.

        Raises:
            TextError: the text is faulty.
        """
        from termchat.decoding.constraint_check import check

        self._parts.notices.withdraw(_REFUSED + self.problem)
        self.problem, self._asked = "", None
        if constraint is None:
            self._put(None)
            return
        check(constraint)
        self._remember(constraint)
        chat = self._parts.chat
        if chat.model is None:
            self._put(constraint)
            return
        self._asked = constraint
        self._parts.do(lambda: chat.questions.check_constraint(constraint))

    def toggle(self) -> bool:
        """Drops the constraint, or puts the one back that was dropped; False if there is neither."""
        now = self._parts.chat.constraint
        if now is None and self._dropped is None:
            return False
        self._put(None if now is not None else self._dropped)
        return True

    def heard(self) -> None:
        """The model may have answered."""
        asked, questions = self._asked, self._parts.chat.questions
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
            self._parts.tell(Notice(_REFUSED + self.problem, "change its text", "error"))
        if not self.problem and answer is not None:
            self._put(asked, answer.checked.ms, answer.checked.warnings)

    def _put(self, constraint: Constraint | None, ms: float = 0.0, warnings: list[str] | None = None) -> None:
        chat = self._parts.chat
        before = chat.constraint
        if before is not None:
            self._dropped = before
            self._remember(before)
        self._parts.do(lambda: chat.set_constraint(constraint))
        if constraint is not None:
            compiled = f", compiled in {ms:.1f} ms" if ms else ""
            self._parts.tell(
                Notice(f"replies match {name_of_constraint(constraint)}{compiled}", "; ".join(warnings or ()))
            )
        elif before is not None:
            self._parts.tell(Notice(f"replies no longer match {name_of_constraint(before)}"))

    def _remember(self, constraint: Constraint) -> None:
        self.recent = [constraint, *(one for one in self.recent if one != constraint)][:_MOST_RECENT]
