"""What a reply has to match: a JSON schema, a regular expression, one of several texts, or a grammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import msgspec

from termchat.text import one_line

Kind = Literal["json_schema", "regex", "choice", "gbnf", "lark"]

LONGEST = 200_000
"""Characters of a text that is compiled at most."""

NOT_YET = 2**31 - 1
"""The step with which a constraint begins while the reply is still thinking: thoughts are free, the answer matches."""

_LONGEST_SHOWN = 40

GRAMMAR = "grammar"
"""The stage of the chain, in records."""
INCOMPLETE = f"{GRAMMAR}: incomplete"
"""The end of the detail of a reply that ended before it matched."""


class Constraint(msgspec.Struct, frozen=True):
    """`text` is the source: JSON of a schema, a pattern, a JSON list of the texts of a choice, a grammar. `name` is that of the
    file it came from, "" where it was typed. `after_chain`: it masks what the other stages left, instead of the model's logits.
    """

    kind: Kind
    text: str
    name: str = ""
    after_chain: bool = False


def format_constraint(constraint: Constraint | None) -> str:
    """Format a constraint on one line, as "regex [0-9]+" or "json_schema person.json"; "" without one."""
    if constraint is None:
        return ""
    return f"{constraint.kind} {constraint.name or one_line(constraint.text, _LONGEST_SHOWN)}"


def grammar(text: str, name: str = "") -> Constraint:
    """Make a constraint of a grammar in GBNF or Lark, told apart by how they define rules."""
    return Constraint("gbnf" if "::=" in text else "lark", text, name)


def make_choice(texts: Sequence[str]) -> Constraint:
    """Make the constraint of a reply that is one of these texts."""
    return Constraint("choice", json.dumps(list(texts), ensure_ascii=False))


class TextError(ValueError):
    """A fault in a text that a person wrote. `line` and `column` count from 1 and are 0 where the place is unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message, self.line, self.column = message, line, column

    @classmethod
    def at(cls, text: str, offset: int, message: str) -> TextError:
        """Make the error of a fault at a character of `text`, counted from 0."""
        before = text[:offset]
        return cls(message, before.count("\n") + 1, offset - before.rfind("\n"))
