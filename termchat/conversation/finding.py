"""Lists of saved chats: the last used first, or those in which all words of a search stand.

A word of a search stands for all that begin with it, whatever their case and accents; in a script without spaces, and in
Korean, for that run of characters, wherever it stands. An emoji is a word, too, or a part of the one it stands at. What
stands between words means nothing. Chats in which one text has all the words come first, the best match before the others (see
`weighing`), then those over whose texts they are spread, the last used first.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, dropwhile, groupby
from typing import Any

from termchat.conversation import columns, index
from termchat.conversation.database import version_of
from termchat.conversation.gathering import Gathered
from termchat.conversation.session import ModelRef, SessionSummary
from termchat.conversation.snippet import Marker, fold
from termchat.conversation.weighing import Best, around, best, form
from termchat.conversation.wordless import UNIT, apart, shown, singly, sought, was_unseen

RANKED = 1000
"""How many texts that have all the words are put in order: the newest. Words that stand together in more say little."""

MOST_WORDS = 16
"""Of a search; further ones are not looked at."""

MOST_SOUGHT = 20
"""Of what the index knows as words, for all words of a search: pairs of characters where a script has no spaces. Of a long
run only the beginning is sought, of each of many words less, but at least two of its pairs."""

MARKED_ANEW = 7
"""The schema since which characters stand in pairs where a script has no spaces."""

NEXT_TERM = "SELECT term FROM temp.terms WHERE term >= ? LIMIT 1"
LONGEST_KEPT = 3
"""Of the beginnings of words that the index keeps, see `schema.MADE`."""

LOOKED_THROUGH = 50
"""Texts of a chat that are looked at for a snippet."""

COLUMNS = "sessions.id, title, created, updated, coalesce(turns, 0), coalesce(tokens, 0), model"
WANTED = "(deleted IS NOT NULL) = :deleted AND EXISTS (SELECT 1 FROM nodes WHERE session = sessions.id)"

NEWEST = f"""SELECT {COLUMNS} FROM sessions LEFT JOIN tallies ON session = sessions.id WHERE {WANTED}
    ORDER BY updated DESC LIMIT :limit OFFSET :offset"""

OF_CHATS = f"""SELECT {COLUMNS}, number FROM json_each(:chats)
    JOIN tallies ON number = value JOIN sessions ON sessions.id = session WHERE {WANTED}"""

SPREAD = f"""SELECT {COLUMNS}, number, NULL FROM json_each(:chats)
    JOIN tallies ON number = value JOIN sessions ON sessions.id = session WHERE {WANTED}
    ORDER BY updated DESC LIMIT :limit OFFSET :offset"""

OLD = """SELECT id, title, created, updated, (SELECT count(*) FROM nodes WHERE session = id AND role = 'user'), 0, model
    FROM sessions WHERE NOT :deleted AND EXISTS (SELECT 1 FROM nodes WHERE session = id) ORDER BY updated DESC"""
"""The list from a file of an older schema, which nobody could bring up to date yet."""

TEXTS = "SELECT text FROM texts WHERE id BETWEEN (?1 << 32) + 1 AND (?1 << 32) + 4294967295 LIMIT ?2"


def newest(db: sqlite3.Connection, limit: int, offset: int, deleted: bool) -> list[SessionSummary]:
    """The chats that have a turn, the last used first; `deleted` ones, or the others."""
    if version_of(db) < 3:
        return _from_old(db, [], limit, offset, deleted)
    return [_summary(row) for row in db.execute(NEWEST, {"limit": limit, "offset": offset, "deleted": deleted})]


def matching(db: sqlite3.Connection, search: str, limit: int, offset: int, deleted: bool) -> list[SessionSummary]:
    """The chats in which the words of a search stand, with a snippet each; none where it holds no word."""
    words = words_of(search)
    if not words:
        return []
    if version_of(db) < 3:
        return _from_old(db, words, limit, offset, deleted)
    queries = _queries(db, words)
    forms = [form(word) for word in words]
    gathered = Gathered(db, queries, RANKED)
    hits = gathered.texts
    chosen = best(db, hits, forms)
    rows: list[Sequence[Any]] = []
    for weighed in (True, False):  # the others stand behind these, and mostly on no page that anybody sees
        if len(rows) < offset + limit:
            of_these = {chat: one for chat, one in chosen.items() if (one.weight > 0) == weighed}
            rows += _ranked(db, of_these, deleted)
    all_ranked = len(hits) < RANKED
    page = rows[offset : offset + limit]
    if len(page) < limit and not (all_ranked and len(words) == 1):
        others = gathered.chats() - chosen.keys()
        more = {
            "chats": json.dumps(list(others)),
            "limit": limit - len(page),
            "offset": max(offset - len(rows), 0),
            "deleted": deleted,
        }
        page += db.execute(SPREAD, more)
    marker = Marker(words)
    return [_summary(row[:7], _snippet(db, marker, forms, row)) for row in page]


def _ranked(db: sqlite3.Connection, chosen: dict[int, Best], deleted: bool) -> list[Sequence[Any]]:
    """What is listed of these chats, the best match first, of equal ones the last used; and the text of the match."""
    rows = db.execute(OF_CHATS, {"chats": json.dumps(list(chosen)), "deleted": deleted})
    found = [(*row, chosen[row[-1]].text) for row in rows]
    return sorted(found, key=lambda row: (chosen[row[-2]].weight, row[3]), reverse=True)


def _queries(db: sqlite3.Connection, words: Sequence[str]) -> list[str]:
    """What the index is asked for each word.

    For the beginning of a word it gathers the places of all words that begin so, anew for each use, unless the beginning is
    as short as those that it keeps. Where there is only one such word it need not. A word in a script without spaces is
    looked for as it once stood in a text, too, while there are texts from then: each character by itself (schema 6), or, in
    a script that was not taken apart at all, as it is (schema 5).
    """
    older = version_of(db) < MARKED_ANEW or index.waits(db)
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms USING fts5vocab (main, found, instance)")
    queries, most = [], max(MOST_SOUGHT // len(words), 2)
    for word in words:
        phrase = sought(word)
        ways = [_phrase(phrase, most, begins=phrase == apart(word))]
        if older:
            ways += [_phrase(singly(word), most)] + ([] if was_unseen(word) else [_phrase(word, most)])
        ways = list(dict.fromkeys(ways))
        queries.append(f"({' OR '.join(ways)})")
        begins = word.lower() if word.isascii() else phrase
        if len(ways) == 1 and len(word) > LONGEST_KEPT and _is_folded(begins):
            (term,) = db.execute(NEXT_TERM, (begins,)).fetchone() or ("",)
            (other,) = db.execute(NEXT_TERM, (term + "\0",)).fetchone() or ("",)
            if term.startswith(begins) and not other.startswith(begins):
                queries[-1] = f'"{term}"'
    return queries


def _is_folded(text: str) -> bool:
    """Whether the index surely has it so, and as one word: lowered, without accents."""
    return text == text.lower() == unicodedata.normalize("NFD", text) and len(text.split()) == 1


def _phrase(text: str, most: int, begins: bool = True) -> str:
    """Asks the index for these words of it, one after the other, `most` of them; `begins`: the last may begin another."""
    words = text.split()
    return f'"{" ".join(words[:most])}"' + ("*" if begins and len(words) <= most else "")


def ids(db: sqlite3.Connection, beginning: str) -> list[str]:
    """The chat of that id, or those whose ids begin so; a few of them."""
    statement = "SELECT id FROM sessions WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id != ?1, id LIMIT 6"
    found = [str(session) for (session,) in db.execute(statement, (beginning,))] if beginning else []
    return found[:1] if beginning in found else found


def words_of(search: str) -> list[str]:
    """The words of a search as the index knows them: runs of letters with their signs, of digits and of emoji."""
    pieces = re.findall(rf"{UNIT}|.", unicodedata.normalize("NFC", search), re.DOTALL)
    runs = (list(run) for is_word, run in groupby(pieces, _is_of_word) if is_word)
    words = ("".join(dropwhile(_is_sign, run)) for run in runs)
    return list(dict.fromkeys(filter(None, words)))[:MOST_WORDS]


@lru_cache(maxsize=1024)
def _is_of_word(piece: str) -> bool:
    category = unicodedata.category(piece[0])
    return category[0] in "LNM" or category == "Co" or re.match(UNIT, piece) is not None


def _is_sign(piece: str) -> bool:
    return unicodedata.category(piece[0])[0] == "M"


def _summary(row: Sequence[Any], snippet: str = "") -> SessionSummary:
    session, title, created, updated, turns, tokens, model = row
    name = columns.to_settings(model, ModelRef()).name
    begun, used = columns.to_seconds(created), columns.to_seconds(updated)
    return SessionSummary(session, title, begun, used, turns, tokens, name, snippet)


def _snippet(db: sqlite3.Connection, marker: Marker, forms: Sequence[str], row: Sequence[Any]) -> str:
    """Around the match in the text that was weighed best; rather not the title, which everybody sees anyway."""
    title, chat, text = row[1], row[7], row[8]
    in_title = text is not None and not text & 0xFFFFFFFF
    if text is None or in_title:
        found = db.execute(TEXTS, (chat, LOOKED_THROUGH)).fetchall()
    else:
        found = db.execute("SELECT text FROM texts WHERE id = ?", (text,)).fetchall()
    parts = (around(one, forms) for (one,) in found)  # mostly a part will do
    tried = chain(parts, () if in_title else (one for (one,) in found))
    matches = (marked for text in tried if text and (marked := marker.snippet(shown(text))))
    return next(matches, "") or marker.snippet(title)


def _from_old(
    db: sqlite3.Connection, words: Sequence[str], limit: int, offset: int, deleted: bool
) -> list[SessionSummary]:
    wanted = [fold(word) for word in words]
    rows = [row for row in db.execute(OLD, {"deleted": deleted}) if all(word in fold(row[1]) for word in wanted)]
    marker = Marker(words)
    return [_summary(row, marker.snippet(row[1]) if words else "") for row in rows[offset : offset + limit]]
