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
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, dropwhile, groupby
from typing import Any, NamedTuple

from termchat.conversation.session import ModelRef, SessionSummary
from termchat.conversation.store import codec, index
from termchat.conversation.store.database import version_of
from termchat.conversation.store.index import (
    CHARACTERS,
    EMOJI,
    KEYCAP,
    SIGNS,
    UNIT,
    VARIES,
    VOWELS,
    apart,
    part,
    shown,
    singly,
    sought,
    was_unseen,
)

RARE = 300
"""Texts that a rare word stands in, at most."""

FEW = 100
"""Chats that it is quicker to go to one by one than to find out which chats have a word at all."""

NEWEST_WITH = "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rowid DESC LIMIT ?"
CHATS = "SELECT DISTINCT rowid >> 32 FROM found WHERE found MATCH ?2"
CHATS_OF_FEW = """SELECT value FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM found
    WHERE found MATCH ?2 AND rowid BETWEEN value << 32 AND (value << 32) + 4294967295)"""


class Gathered:
    """What was found of words that `queries` ask the index for, one each.

    `texts` has the ids of the newest texts in which all of them stand, the newest first, `most` of them.
    """

    def __init__(self, db: sqlite3.Connection, queries: Sequence[str], most: int) -> None:
        self._db, self._queries = db, queries
        self._places = {query: self._newest(query, RARE + 1) for query in queries} if len(queries) > 1 else {}
        self._rare = [set(texts) for texts in self._places.values() if len(texts) <= RARE]
        if self._rare and len(self._rare) == len(self._places):
            self.texts = sorted(_common(self._rare), reverse=True)
        else:
            self.texts = self._newest(" AND ".join(queries), most)

    def chats(self) -> set[int]:
        """The numbers of the chats that have all words, in whichever of their texts."""
        found = [{text >> 32 for text in texts} for texts in self._rare]
        chats = _common(found) if found else None
        for query in self._queries:
            if chats and len(self._places.get(query, ())) > RARE:
                chats &= self._of_word(query, chats)
            elif chats is None:
                chats = self._of_word(query)
        return chats or set()

    def _of_word(self, query: str, among: set[int] | None = None) -> set[int]:
        few = among is not None and len(among) <= FEW and "*" not in query  # else it gathers what begins so each time
        statement = CHATS_OF_FEW if few else CHATS
        return {chat for (chat,) in self._db.execute(statement, (json.dumps(list(among or ())), query))}

    def _newest(self, query: str, most: int) -> list[int]:
        return [text for (text,) in self._db.execute(NEWEST_WITH, (query, most))]


def _common(sets: Sequence[set[int]]) -> set[int]:
    return sets[0].intersection(*sets[1:])


BEGIN, END = "\x02", "\x03"
"""What stands around a word that matches."""

BEFORE, LONGEST = 32, 160
"""Characters of a snippet: before the first match at most, and in all, marks not counted."""


_OF_WORD = rf"(?:[^\W_{CHARACTERS}]|[{VOWELS}])"
"""Of a word that has to be found from its beginning on."""
_GOES_ON = f"{_OF_WORD}*"
_SIGNS_GO_ON = rf"[{SIGNS}]*"
_VARIES = rf"[{VARIES}]*"
_HANGUL = ("\uac00", "\ud7a3")
_BETWEEN = "[\\s\u200b]?"
"""What may stand between two words of the index that were searched for as one."""
_PIECES = rf"{UNIT}|[{CHARACTERS}][{SIGNS}]*|[^{CHARACTERS}{SIGNS}{EMOJI}]+?(?={UNIT}|[{CHARACTERS}]|$)"


class Marker:
    """Finds words that begin with one of `words`, whatever their case and accents."""

    def __init__(self, words: Sequence[str]) -> None:
        longest_first = sorted(words, key=len, reverse=True)
        self._begun = [re.match(rf"{UNIT}|[{CHARACTERS}]", word) is None for word in longest_first]
        pieces = [_pieces(word) for word in longest_first]
        self._go_on = [_goes_on(of_word[-1]) for of_word in pieces]
        # Only the words themselves: to make a pattern of all that may stand around them takes longer than to search.
        self._words = re.compile("|".join(f"({_BETWEEN.join(map(_pattern_of_piece, of_word))})" for of_word in pieces))

    def snippet(self, text: str) -> str:
        """One line of the text around the first match, each match between BEGIN and END; "" where there is none."""
        folded = fold(text)
        first = next(self._matches(folded, 0, len(text)), None)
        if first is None:
            return ""
        begin = _word_begin(text, max(first[0] - BEFORE, 0), first[0])
        end = _whole(text, begin + LONGEST)
        parts, done = ["…" if begin else ""], begin
        for start, stop in self._matches(folded, begin, end):
            parts += [_line(text[done:start]), BEGIN, _line(text[start:stop]), END]
            done = stop
        parts += [_line(text[done:end]), "…" if end < len(text) else ""]
        return "".join(parts).strip()

    def _matches(self, folded: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Where they begin and end: of what begins with a word, or is it where its script has no spaces."""
        while (found := self._words.search(folded, begin, end)) is not None:
            number, start = (found.lastindex or 1) - 1, found.start()
            if self._begun[number] and start and re.match(_OF_WORD, folded[start - 1]):
                begin = start + 1
                continue
            goes_on = re.compile(self._go_on[number]).match(folded, found.end(), end)
            begin = goes_on.end() if goes_on is not None else found.end()
            yield start, begin


def _pieces(word: str) -> list[str]:
    return re.findall(_PIECES, fold(word)) or [fold(word)]


def _goes_on(last: str) -> str:
    """What belongs to a word behind its last piece."""
    return "" if re.match(UNIT, last) else _SIGNS_GO_ON if re.match(f"[{CHARACTERS}]", last) else _GOES_ON


def _pattern_of_piece(piece: str) -> str:
    if re.match(KEYCAP, piece):
        return f"{re.escape(piece[0])}\ufe0f?{piece[-1]}"
    if re.match(UNIT, piece):
        return re.escape(re.sub(rf"(?<!^)[{VARIES}]", "", piece)) + _VARIES
    return re.escape(piece)


def fold(text: str) -> str:
    """The text without case and accents, as long as it was."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if _HANGUL[0] <= char <= _HANGUL[1] or re.match(f"[{EMOJI}]", char):
        return char  # what it would be taken apart into begins many another
    return unicodedata.normalize("NFKD", char)[0].lower()[:1]


def _word_begin(text: str, begin: int, end: int) -> int:
    """The first place from `begin` on where a word begins, if there is one before `end`."""
    if begin == 0 or text[begin - 1].isspace():
        return begin
    space = next((at for at in range(begin, end) if text[at].isspace()), None)
    return _whole(text, begin) if space is None else space + 1


def _whole(text: str, at: int) -> int:
    """The first place from there on where no sign of a character before it stands, nor what varies an emoji."""
    place = re.compile(f"[^{SIGNS}{VOWELS}{VARIES}]").search(text, at)
    return place.start() if place is not None else len(text)


def _line(text: str) -> str:
    """The text with nothing in it that breaks a line, or could be taken for a mark."""
    return re.sub(r"[\s\x02\x03]", " ", text)


WEIGHED = 200
"""Texts that are weighed against each other: the newest of those found. The others count as lighter than any."""

BEGINNING = 4000
"""Characters of a text that are looked at for its weight."""

SATURATION, BY_LENGTH = 1.2, 0.75
"""How soon more of the same word says no more, how much a text's length counts."""

BEFORE_HIT, BEHIND = 150, 700
"""Characters of a text in the index, before and behind the first word that is found, that are more than a snippet needs."""

TEXTS_OF_HITS = """SELECT id, length(text), substr(text, 1, ?2) FROM texts WHERE id IN (SELECT value FROM json_each(?1))
    ORDER BY id DESC"""


class Best(NamedTuple):
    """A text of a chat, and how heavy it is."""

    weight: float
    text: int


def best(db: sqlite3.Connection, hits: Sequence[int], forms: Sequence[str]) -> dict[int, Best]:
    """The heaviest text of each chat, by the chat's number. `hits` are ids of texts, the newest first; see `form`."""
    found = {hit >> 32: Best(0.0, hit) for hit in reversed(hits[WEIGHED:])}
    texts = db.execute(TEXTS_OF_HITS, (json.dumps(hits[:WEIGHED]), BEGINNING)).fetchall()
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
    return "" if first is None else part(text, first - BEFORE_HIT, first + BEHIND)


def form(word: str) -> str:
    """How a word mostly stands in a text of the index, lowered; the index knows more ways to write it, and to begin one."""
    marked = sought(word.lower())
    return marked if re.match(rf"{UNIT}|[{CHARACTERS}]", word) else f" {marked}"


def _read(text: str, forms: Sequence[str]) -> str:
    """The text as words are sought in it: lowered, where one of them has a case."""
    text = text if all(word == word.upper() for word in forms) else text.lower()
    return " " + text.replace("\n", " ")


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
    name = codec.to_settings(model, ModelRef()).name
    begun, used = codec.to_seconds(created), codec.to_seconds(updated)
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
