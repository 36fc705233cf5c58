"""The flags of a constraint: `--json-schema`, `--regex`, `--choice` and `--grammar`, one of which may be given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from termchat.cli.help import Grouped

if TYPE_CHECKING:
    from termchat.decoding.constraint import Constraint

_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--json-schema", {"metavar": "FILE|TEXT", "help": "the reply is JSON that matches this schema"}),
    ("--regex", {"metavar": "PATTERN", "help": "the whole reply matches this regular expression (Rust's syntax)"}),
    ("--choice", {"metavar": "TEXT", "multiple": True, "help": "the reply is one of these texts (may be repeated)"}),
    ("--grammar", {"metavar": "FILE|TEXT", "help": "the reply matches this grammar, in GBNF or Lark"}),
)

_ALSO = {"--json-schema": ("--schema",)}
"""What the slash command is called."""


def constraint_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; their values go through `constraint_of`."""
    for flag, how in reversed(_FLAGS):
        command = click.option(flag, *_ALSO.get(flag, ()), cls=Grouped, group="Reply", **how)(command)
    return command


def constraint_of(given: dict[str, Any]) -> Constraint | None:
    """Take the values of the flags out of `given`; return the constraint that they ask for.

    Raises:
        click.UsageError: several are given, a file cannot be read, or a text is faulty; it says where.
    """
    wanted = {
        flag: value for flag, _ in _FLAGS if (value := given.pop(flag[2:].replace("-", "_"), None)) not in (None, ())
    }
    if len(wanted) > 1:
        raise click.UsageError(f"choose one of {' and '.join(wanted)}")
    if not wanted:
        return None
    from termchat.decoding.constraint import Constraint, TextError, grammar, make_choice
    from termchat.decoding.constraint_check import check

    ((flag, value),) = wanted.items()
    if "" in (value, *value):
        raise click.BadParameter("the text is empty", param_hint=flag)
    if flag == "--choice":
        constraint = make_choice(value)
    elif flag == "--regex":
        constraint = Constraint("regex", value)
    else:
        name, text = _read_source(flag, value)
        constraint = grammar(text, name) if flag == "--grammar" else Constraint("json_schema", text, name)
    try:
        check(constraint)
    except TextError as error:
        raise click.BadParameter(str(error), param_hint=f"{flag} {constraint.name}".strip()) from None
    return constraint


def _read_source(flag: str, value: str) -> tuple[str, str]:
    """Read a file; return its name and its text, or "" and the value if that is the text itself.

    Raises:
        click.BadParameter: it is neither.
    """
    from termchat.decoding.constraint import LONGEST

    path = Path(value)
    try:
        if path.is_file():
            if path.stat().st_size > 4 * LONGEST:
                raise click.BadParameter(f"{path.name} is larger than a grammar can be", param_hint=flag)
            return path.name, path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path.name} is not UTF-8", param_hint=flag) from None
    except (OSError, ValueError) as error:  # a text is no path: too long, or with a NUL
        if "\n" not in value and len(value) < 200:
            raise click.BadParameter(f"{value} cannot be read: {error}", param_hint=flag) from None
    begins = value.lstrip().startswith("{") or value.strip() in ("true", "false")
    if not (begins if flag == "--json-schema" else ":" in value):
        raise click.BadParameter(f"there is no file {value}, and it is no text of that kind", param_hint=flag)
    return "", value
