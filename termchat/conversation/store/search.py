"""Lists of saved chats: the last used first, or those that contain all words of a search.

A word is found wherever it stands, within other words too, whatever its case and accents; in quotes several are one. Chats with
all words in one text come first, the best match first (BM25 of the rare words), or the newest where many texts match; then
those with each word in some text, the last used first.

The index knows the texts by their trigrams. Words of three characters and more are looked up there; shorter ones are looked up
as the beginning of trigrams where these are few, and else searched for in the texts, of which many have them then.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from termchat.conversation.session import ModelRef, SessionSummary
from termchat.conversation.store import codec
from termchat.conversation.store.derived import fold_text, normalise_shown
from termchat.conversation.store.schema import LONGEST_TITLE, count_of, text_of

RANKED, RARE = 1000, 500
"""Texts that have all words, and texts that have a word, at most: the newest. A word of fewer texts is rare."""

MOST_WORDS, LONGEST_WORD = 12, 200
"""Words of a search, and characters of a word; what goes beyond is not looked at."""

FEW_TRIGRAMS, LOOKED_UP = 64, 4
"""Trigrams that are looked up for a short word, and words that are looked up at once, at most; the rest is searched for in the
texts that the index gives."""

BEGIN, END = "\x02", "\x03"
"""Stand around a match in a snippet."""

BEFORE, LONGEST = 32, 160
"""Characters of a snippet: before the first match at most, and in all, BEGIN and END not counted."""

LOOKED_THROUGH = 50
"""Texts of a chat that are looked at for a snippet."""

_PUNCTUATION = ".,;:!?'\"()[]{}<>“”‘’„«»。、！？「」"
_VARIES = "\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""What only varies the emoji before it: joined to the next one, a shade of skin."""

_COLUMNS = (
    f"{text_of('sessions.id')}, {text_of('title')}, created, updated, "
    f"{count_of('turns')}, {count_of('tokens')}, {text_of('model')}"
)
_IN_LESSON = """view LIKE '%"lesson":"_%"%'"""
"""Of damaged JSON, too."""
_WANTED = f"""(deleted IS NOT NULL) = :deleted AND ({_IN_LESSON}) = :lessons
    AND EXISTS (SELECT 1 FROM nodes WHERE session = sessions.id)"""
_NEWEST = f"""SELECT {_COLUMNS} FROM sessions LEFT JOIN tallies ON session = sessions.id WHERE {_WANTED}
    ORDER BY updated DESC LIMIT :limit OFFSET :offset"""
_OF_CHATS = f"""SELECT {_COLUMNS}, number FROM json_each(:chats)
    JOIN tallies ON number = value JOIN sessions ON sessions.id = session WHERE {_WANTED}"""

_OF_CHAT = "BETWEEN (?1 << 32) + {first} AND (?1 << 32) + 4294967295"
_FOLDED = f"SELECT {text_of('folded')} FROM found WHERE rowid {_OF_CHAT.format(first=0)}"
_OF_TEXT = f"SELECT {text_of('text')}, {text_of('folded')} FROM texts JOIN found ON found.rowid = id WHERE id"
_TEXTS = f"{_OF_TEXT} {_OF_CHAT.format(first=1)} LIMIT ?2"
_NOWHERE = "\x01\x01\x01"
"""What no text has."""
_NEXT_TRIGRAM = "SELECT term FROM temp.trigrams WHERE term > ? LIMIT 1"


def list_newest(db: sqlite3.Connection, which: Mapping[str, int]) -> list[SessionSummary]:
    """List chats that have a turn, the last used first. `which` has `limit` and `offset`, and whether the `deleted` ones are
    meant, and those of `lessons`, or the others."""
    return [_to_summary(row) for row in db.execute(_NEWEST, which)]


def list_matching(db: sqlite3.Connection, search: str, which: Mapping[str, int]) -> list[SessionSummary]:
    """List chats that contain all words of a search, with a snippet each; none for a search without a word."""
    words, begin, end = words_of(search), which["offset"], which["offset"] + which["limit"]
    if not words:
        return []
    asked = {word: _build_query(db, word) for word in words}
    texts = _texts_with(db, asked, RANKED)
    of_word = {words[0]: texts}
    if len(words) > 1:
        of_word = {word: _texts_with(db, {word: asked[word]}, RARE) for word in words} if len(texts) < RANKED else {}
    texts = _best_first(db, texts, [word for word, found in of_word.items() if len(found) < RARE])
    best = {text >> 32: text for text in reversed(texts)}  # of each chat its first
    place = {chat: at for at, chat in enumerate(dict.fromkeys(text >> 32 for text in texts))}
    rows = sorted(_read_rows(db, best, which), key=lambda row: place[row[-1]])
    if len(rows) < end and len(of_word) > 1:
        rows += islice(_spread_out(db, of_word, best, which), end - len(rows))
    mark = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)))
    return [_to_summary(row[:-1], _snippet_of(db, mark, row[1], row[-1], best.get(row[-1]))) for row in rows[begin:end]]


def of_lesson(db: sqlite3.Connection, lesson: str) -> str | None:
    """Find the chat of a lesson that was last used."""
    statement = (
        f"SELECT {text_of('id')} FROM sessions WHERE deleted IS NULL AND instr(view, ?) ORDER BY updated DESC LIMIT 1"
    )
    found = db.execute(statement, (f'"lesson":{json.dumps(lesson)}',)).fetchone()
    return found[0] if found is not None else None


def find_ids(db: sqlite3.Connection, beginning: str) -> list[str]:
    """Find the chat of that id, or a few whose ids start with it."""
    statement = (
        f"SELECT {text_of('id')} FROM sessions WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id != ?1, id LIMIT 6"
    )
    found = [session for (session,) in db.execute(statement, (beginning,))] if beginning else []
    return found[:1] if beginning in found else found


def words_of(search: str) -> list[str]:
    """Split a search into its words and quoted phrases, folded."""
    found = (quoted or word for quoted, word in re.findall(r'"([^"]+)"|([^\s"]+)', fold_text(search)))
    trimmed = (word.strip(_PUNCTUATION).rstrip(_VARIES) or word for word in found)
    words = (" ".join(word.split())[:LONGEST_WORD] for word in trimmed)
    return list(dict.fromkeys(filter(None, words)))[:MOST_WORDS]


def _build_query(db: sqlite3.Connection, word: str) -> str:
    """Make the index's query for a word; "" where it is quicker to search the texts, of which the newest mostly have it."""
    if len(word) >= 3:
        return _quote(word)
    trigrams = _list_trigrams(db, word)
    return " OR ".join(map(_quote, trigrams or [_NOWHERE])) if len(trigrams) < FEW_TRIGRAMS else ""


def _texts_with(db: sqlite3.Connection, asked: Mapping[str, str], most: int) -> list[int]:
    """Find the newest texts that have all words; see `_build_query`."""
    looked_up = sorted((word for word in asked if asked[word]), key=len, reverse=True)[:LOOKED_UP]
    query = " AND ".join(f"({asked[word]})" for word in looked_up)
    searched = [word for word in asked if word not in looked_up]
    where = " AND ".join(["found MATCH ?"] * bool(query) + ["instr(folded, ?)"] * len(searched))
    values = (*[query] * bool(query), *searched, most)
    found = db.execute(f"SELECT rowid FROM found WHERE {where} ORDER BY rowid DESC LIMIT ?", values)
    return [text for (text,) in found]


def _best_first(db: sqlite3.Connection, texts: list[int], rare: Sequence[str]) -> list[int]:
    """Sort texts by how well they match rare words; to weigh common ones takes long and says nothing."""
    query = " AND ".join(_quote(word) for word in rare if len(word) >= 3)
    if not query or len(texts) < 2:
        return texts
    ranked = db.execute("SELECT rowid FROM found WHERE found MATCH ? ORDER BY bm25(found), rowid DESC", (query,))
    place = {text: at for at, (text,) in enumerate(ranked)}
    return sorted(texts, key=lambda text: place.get(text, len(place)))


def _spread_out(
    db: sqlite3.Connection, texts: Mapping[str, Sequence[int]], but: Collection[int], which: Mapping[str, int]
) -> Iterator[Sequence[Any]]:
    """List chats that have each word in some text, of those with the rarest in one of its newest `RARE` texts."""
    chats = {text >> 32 for text in min(texts.values(), key=len)}.difference(but)
    for row in sorted(_read_rows(db, chats, which), key=lambda row: codec.to_seconds(row[3]), reverse=True):
        said = "\n".join(text for (text,) in db.execute(_FOLDED, (row[-1],)))
        if all(word in said for word in texts):
            yield row


def _list_trigrams(db: sqlite3.Connection, beginning: str) -> list[str]:
    """List the trigrams of the index with this beginning, at most `FEW_TRIGRAMS`."""
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.trigrams USING fts5vocab (main, found, instance)")
    found = [beginning]
    while len(found) <= FEW_TRIGRAMS:
        (term,) = db.execute(_NEXT_TRIGRAM, (found[-1] + "\0" * (len(found) > 1),)).fetchone() or ("",)
        if not term.startswith(beginning):
            break
        found.append(term)
    return found[1:]


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _read_rows(db: sqlite3.Connection, chats: Iterable[int], which: Mapping[str, int]) -> list[Sequence[Any]]:
    """Read the listed columns of these chats, and their numbers."""
    return db.execute(_OF_CHATS, {**which, "chats": json.dumps(list(chats))}).fetchall()


def _to_summary(row: Sequence[Any], snippet: str = "") -> SessionSummary:
    session, title, created, updated, turns, tokens, model = row
    name = codec.to_settings(model, ModelRef()).name
    begun, used = codec.to_seconds(created), codec.to_seconds(updated)
    return SessionSummary(session, title[:LONGEST_TITLE], begun, used, turns, tokens, name, snippet)


def _snippet_of(db: sqlite3.Connection, mark: re.Pattern[str], title: str, chat: int, text: int | None) -> str:
    """Cut a snippet out of the best text; the title is seen anyway and comes last."""
    if text is not None and text & 0xFFFFFFFF:
        found = db.execute(f"{_OF_TEXT} = ?", (text,))
    else:
        found = db.execute(_TEXTS, (chat, LOOKED_THROUGH))
    made = (cut_snippet(mark, *row) for row in found)
    return next(filter(None, made), "") or cut_snippet(mark, title, fold_text(title))


def cut_snippet(mark: re.Pattern[str], text: str, folded: str) -> str:
    """Cut one line out of the text around the first match in `folded`, each match between BEGIN and END; "" without a match."""
    first = mark.search(folded)
    if first is None:
        return ""
    text = normalise_shown(text)
    begin = max(first.start() - BEFORE, 0)
    if begin:
        space = text.find(" ", begin, first.start())
        begin = _skip_marks(text, begin) if space < 0 else space + 1
    end = _skip_marks(text, begin + LONGEST)
    parts, done = ["…" if begin else ""], begin
    for found in mark.finditer(folded, begin, end):
        stop = _skip_marks(text, found.end())
        parts += [_flatten_line(text[done : found.start()]), BEGIN, _flatten_line(text[found.start() : stop]), END]
        done = stop
    return "".join([*parts, _flatten_line(text[done:end]), "…" if end < len(text) else ""]).strip()


def _skip_marks(text: str, at: int) -> int:
    """Find the next place that is not within a character with its combining marks and variations."""
    while at < len(text) and (text[at] in _VARIES or unicodedata.category(text[at])[0] == "M"):
        at += 1
    return min(at, len(text))


def _flatten_line(text: str) -> str:
    """Replace line breaks, and characters that could be taken for BEGIN or END, by spaces."""
    return re.sub(r"[\s\x02\x03]", " ", text)
