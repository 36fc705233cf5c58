"""Code blocks: highlighted by Pygments, line by line, on a ground of their own.

The lines that are complete are highlighted and laid out once and remembered; while a block streams only its newest line is
looked at.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from termchat.tui.draw.ink import Ink, Line, Run, on_ground
from termchat.tui.draw.marks import MUTED, TEXT
from termchat.tui.draw.wrap import wrap_runs

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType


GROUND = "code_background"

_INKS = {
    "Token.Comment": Ink("code_comment", italic=True),
    "Token.Keyword": Ink("code_keyword"),
    "Token.Operator.Word": Ink("code_keyword"),
    "Token.Name.Function": Ink("code_name"),
    "Token.Name.Class": Ink("code_name"),
    "Token.Name.Builtin": Ink("code_name"),
    "Token.Name.Tag": Ink("code_keyword"),
    "Token.Name.Attribute": Ink("code_name"),
    "Token.Name.Decorator": Ink("code_number"),
    "Token.Literal.String": Ink("code_string"),
    "Token.Literal.Number": Ink("code_number"),
}
"""Pygments' kinds of tokens to inks; a kind without one takes its parent's."""


def render_code(source: str, language: str, width: int, prefix: tuple[Run, ...] = ()) -> list[Line]:
    """Render a block of code, or a part of one, each line behind a prefix."""
    complete, newline, last = source.rpartition("\n")
    lines = list(_render_lines(complete + newline, language, width, prefix)) if newline else []
    if last:
        lines += _render_lines.__wrapped__(last, language, width, prefix)
    return lines


def render_label(language: str, prefix: tuple[Run, ...] = ()) -> Line:
    """Render the line above a code block that names its language."""
    return wrap_runs([(language, MUTED)], 1000, prefix)[0]._replace(ground=GROUND)


@lru_cache(maxsize=32)
def _render_lines(source: str, language: str, width: int, prefix: tuple[Run, ...]) -> tuple[Line, ...]:
    lexer, runs = _find_lexer(language.lower()), [(source, TEXT)]
    if lexer is not None:
        runs = [(text, _find_ink(kind)) for _, kind, text in lexer.get_tokens_unprocessed(source)]
    lines = wrap_runs(runs, width, prefix, prefix)
    return tuple(on_ground(lines[:-1] if source.endswith("\n") else lines, GROUND))


@lru_cache(maxsize=64)
def _find_lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name  # here and not above: most chats begin without code
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _find_ink(kind: _TokenType) -> Ink:
    return next((_INKS[str(parent)] for parent in reversed(kind.split()) if str(parent) in _INKS), TEXT)
