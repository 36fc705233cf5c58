"""Which of the texts that a search found is the better match: the one in which the words stand more often for its length.

That is the weight of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) with all words taken for
equally rare. How rare each of them is only the whole index could tell, at each key; and every text that is weighed has all
of them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.wordless import CHARACTERS, UNIT, part, sought

WEIGHED = 200
"""Texts that are weighed against each other: the newest of those found. The others count as lighter than any."""

BEGINNING = 4000
"""Characters of a text that are looked at for its weight."""

SATURATION, BY_LENGTH = 1.2, 0.75
"""How soon more of the same word says no more, how much a text's length counts."""

BEFORE, BEHIND = 150, 700
"""Characters of a text in the index, before and behind the first word that is found, that are more than a snippet needs."""

TEXTS = """SELECT id, length(text), substr(text, 1, ?2) FROM texts WHERE id IN (SELECT value FROM json_each(?1))
    ORDER BY id DESC"""


class Best(NamedTuple):
    """A text of a chat, and how heavy it is."""

    weight: float
    text: int


def best(db: sqlite3.Connection, hits: Sequence[int], forms: Sequence[str]) -> dict[int, Best]:
    """The heaviest text of each chat, by the chat's number. `hits` are ids of texts, the newest first; see `form`."""
    found = {hit >> 32: Best(0.0, hit) for hit in reversed(hits[WEIGHED:])}
    texts = db.execute(TEXTS, (json.dumps(hits[:WEIGHED]), BEGINNING)).fetchall()
    usual = sum(length for _, length, _ in texts) / len(texts) if texts else 0.0
    for number, length, text in texts:
        read = _read(text, forms)
        damping = SATURATION * (1 - BY_LENGTH + BY_LENGTH * length / (usual or 1.0))
        counts = (read.count(word) or 1 for word in forms)
        one = Best(sum(count / (count + damping) for count in counts), number)
        chat = number >> 32
        found[chat] = max(found.get(chat, one), one)
    return found


def around(text: str, forms: Sequence[str]) -> str:
    """What stands around the first of some words in a text of the index, more than a snippet needs; see `form`."""
    read = _read(text, forms)
    first = min((place for word in forms if (place := read.find(word)) >= 0), default=None)
    return "" if first is None else part(text, first - BEFORE, first + BEHIND)


def form(word: str) -> str:
    """How a word mostly stands in a text of the index, lowered; the index knows more ways to write it, and to begin one."""
    marked = sought(word.lower())
    return marked if re.match(rf"{UNIT}|[{CHARACTERS}]", word) else f" {marked}"


def _read(text: str, forms: Sequence[str]) -> str:
    """The text as words are sought in it: lowered, where one of them has a case."""
    text = text if all(word == word.upper() for word in forms) else text.lower()
    return " " + text.replace("\n", " ")
