"""The words of decoding: each in one sentence, and where it is seen on the screen."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from termchat.lessons.lesson import LessonText
from termchat.text import guess_of

GLOSSARY_FILE = Path(__file__).with_name("glossary.toml")
_LEAST = 2
"""Letters with which a term is found by its beginning."""


class GlossaryEntry(NamedTuple):
    """A term, its sentence, where it is seen, and by which other names it goes. The place may name keys."""

    term: str
    text: str
    where: LessonText
    also: tuple[str, ...] = ()


class UnknownTerm(ValueError):
    """The glossary has no such term; the message guesses which was meant."""


@cache
def entries() -> Mapping[str, GlossaryEntry]:
    """List all by their term, in the order in which they are best read: no word is used before it is explained."""
    table = tomllib.loads(GLOSSARY_FILE.read_text("utf-8"))
    return {
        term: GlossaryEntry(term, entry["text"], LessonText(entry["where"]), tuple(entry.get("also", ())))
        for term, entry in table.items()
    }


def find(word: str) -> GlossaryEntry:
    """Find the entry of a term: by its name, another name of it, or the beginning of one; case, spaces, - and _ do not matter.

    Raises:
        UnknownTerm: there is none.
    """
    names = _names()
    wanted = _plain(word)
    if wanted in names:
        return names[wanted]
    if wanted.endswith("s") and wanted[:-1] in names:
        return names[wanted[:-1]]
    begun = {entry.term: entry for name, entry in names.items() if name.startswith(wanted)}
    if len(wanted) >= _LEAST and len(begun) == 1:
        return next(iter(begun.values()))
    several = f" (did you mean {' or '.join(begun)}?)" if len(wanted) >= _LEAST and 1 < len(begun) <= 4 else ""
    guess = several or guess_of(word, terms()) or guess_of(wanted, names)
    raise UnknownTerm(f"the glossary has no {word.strip()!r}{guess}")


def terms() -> list[str]:
    return list(entries())


def is_term(word: str) -> bool:
    """Whether it is a term, or another name of one."""
    return _plain(word) in _names()


@cache
def _names() -> dict[str, GlossaryEntry]:
    """Each by all of its names; a term takes precedence over another name."""
    found = {_plain(name): entry for entry in entries().values() for name in entry.also}
    return found | {_plain(entry.term): entry for entry in entries().values()}


def _plain(word: str) -> str:
    return " ".join(word.casefold().replace("_", " ").replace("-", " ").split())
