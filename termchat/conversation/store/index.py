"""What is derived from chats so that many can be listed and searched at once: how much is in each, and their texts.

It is kept up to date by the same writes that change a chat: a message at once, a reply when it has ended, none of it while
tokens stream. What is missing is made from the records (see `complete`): for files of an older schema, for chats that were
saved from a damaged file. Texts that an older termchat marked for the index are marked as they are now (see `mark_anew`), and
found as they were until then. Branches that a person deleted are not in it.
"""

from __future__ import annotations

import builtins
import re
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

import msgspec

from termchat.conversation.node import Node
from termchat.conversation.store import codec
from termchat.conversation.store.database import StoreError, is_index_damage
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Failed, Finished

_MARK = "\x1f"
"""A separator of units: hardly any text has one."""

_SECOND = "\x1e"
"""Stands behind a character that is there a second time, to be a pair with the one before it."""

# Each of the following stands between the brackets of a regular expression.

CHARACTERS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"  # Lao
    "\u0f00\u0f40-\u0f6c\u0f88-\u0f8c"  # Tibetan
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e"  # Burmese
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f"  # Burmese letters of other languages
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u3131-\u318e\uac00-\ud7a3"  # Korean
    "\u3005-\u3007"  # marks of repetition, a name's mark, zero
    "\u3041-\u3096\u309d-\u309f"  # hiragana
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # katakana
    "\u3100-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Letters of these scripts."""

SIGNS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"  # Thai
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"  # Lao
    "\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84\u0f86\u0f87\u0f8d-\u0fbc\u0fc6"  # Tibetan
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d"
    "\ua9e5\uaa7b-\uaa7d"  # Burmese, these and the line before
    "\u17b4-\u17d3\u17dd"  # Khmer
)
"""What belongs to the letter before it and is no letter itself: vowels, tones, letters written below."""

VOWELS = (
    "\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0951-\u0957\u0962\u0963"  # Devanagari
    "\u0981-\u0983\u09bc\u09be-\u09c4\u09c7\u09c8\u09cb-\u09cd\u09d7\u09e2\u09e3\u09fe"  # Bengali
    "\u0a01-\u0a03\u0a3c\u0a3e-\u0a42\u0a47\u0a48\u0a4b-\u0a4d\u0a51\u0a70\u0a71\u0a75"  # Gurmukhi
    "\u0a81-\u0a83\u0abc\u0abe-\u0ac5\u0ac7-\u0ac9\u0acb-\u0acd\u0ae2\u0ae3\u0afa-\u0aff"  # Gujarati
    "\u0b01-\u0b03\u0b3c\u0b3e-\u0b44\u0b47\u0b48\u0b4b-\u0b4d\u0b55-\u0b57\u0b62\u0b63"  # Odia
    "\u0b82\u0bbe-\u0bc2\u0bc6-\u0bc8\u0bca-\u0bcd\u0bd7"  # Tamil
    "\u0c00-\u0c04\u0c3c\u0c3e-\u0c44\u0c46-\u0c48\u0c4a-\u0c4d\u0c55\u0c56\u0c62\u0c63"  # Telugu
    "\u0c81-\u0c83\u0cbc\u0cbe-\u0cc4\u0cc6-\u0cc8\u0cca-\u0ccd\u0cd5\u0cd6\u0ce2\u0ce3"  # Kannada
    "\u0d00-\u0d03\u0d3b\u0d3c\u0d3e-\u0d44\u0d46-\u0d48\u0d4a-\u0d4d\u0d57\u0d62\u0d63"  # Malayalam
    "\u0d81-\u0d83\u0dca\u0dcf-\u0dd4\u0dd6\u0dd8-\u0ddf\u0df2\u0df3"  # Sinhala
)
"""The same of scripts that have spaces, where it belongs to the word that it stands in."""

EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2"
    "\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2775\u2794-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f10d-\U0001faff"
)
"""All that Unicode has as pictures, and the places where it puts new ones."""

_JOINED = "\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef" + SIGNS
"""What belongs to the character before it: voiced sounds, variants, signs."""

_SHADES = "\U0001f3fb-\U0001f3ff"
VARIES = f"\ufe0e\ufe0f\u200d{_SHADES}"
"""What only varies the emoji before it: drawn as text, in colour, joined to the next one, with a shade of skin."""

_FLAG = "[\U0001f1e6-\U0001f1ff]{2}|\U0001f3f4[\U000e0020-\U000e007f]+"
KEYCAP = "[0-9#*]\ufe0f?\u20e3"
UNIT = rf"(?:{KEYCAP}|{_FLAG}|[{EMOJI}][{VARIES}]*)"
"""One emoji."""

_SLICE = 5_000
"""Characters that are marked at a time."""

# Patterns are compiled when they are first used, and kept by `re`: a start needs none of them.
_APART = rf"(?<=[{CHARACTERS}{_JOINED}])(?=\w)|(?<=[\w{VOWELS}])(?=[{CHARACTERS}])"
_MARKED = rf"(?<=[{CHARACTERS}{_JOINED}]){_MARK}(?=\w)|(?<=[\w{VOWELS}]){_MARK}(?=[{CHARACTERS}])"
_UNSEEN = rf"[{SIGNS}{VOWELS}]+|{UNIT}"
_ANY_UNSEEN = rf"[{SIGNS}{VOWELS}{EMOJI}\u20e3]"
_UNSEEN_ONCE = rf"[{SIGNS}{EMOJI}\u20e3]"
_BEGINS_ANEW = rf"[^{_JOINED}{VOWELS}{VARIES}\u20e3\U0001f1e6-\U0001f1ff\U000e0020-\U000e007f]"
"""A character before which a text can be cut, and no sign and no emoji is."""

_CODED = "[\ue000-\ue10f][\ue000-\uefff]"
_KEPT = rf"{_MARK}((?:{_CODED})+)([\ufe00-\ufe04\ufe0e\ufe0f\u200d]*){_MARK}"
_SHADED = {0xFE00 + shade: 0x1F3FB + shade for shade in range(5)}
_UNSHADED = {shade: instead for instead, shade in _SHADED.items()}
"""What stands for a shade in the index, which may take it for a letter: a variant that no emoji has."""
_OF_ONE = f"{_MARK}{_SECOND}\ue000-\uefff{_JOINED}{VARIES}"
_SIGNS_KEPT = "(?:[\ue000\ue001\ue00a][\ue000-\uefff])+"
_BETWEEN = rf"[\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]*[{_MARK}\s\u200b]?"
"""What may stand between two characters of a pair, of what the index drops."""
_FIRST = f"([{CHARACTERS}](?:{_SIGNS_KEPT})?)(?={_BETWEEN}([{CHARACTERS}]))"
_NEXT = f"{_BETWEEN}[{CHARACTERS}]"
_LAST = f"{_SECOND}{_BETWEEN}[{CHARACTERS}]$"


def apart(text: str) -> str:
    """The text as the index has it."""
    return text if text.isascii() else "".join(_marked(text.replace(_SECOND, "")))


def sought(word: str) -> str:
    """A word of a search as it stands in a text of the index, whatever follows it there: without the last of its characters
    where that is the second of a pair, and has no sign."""
    return re.sub(_LAST, "", apart(word))


def singly(text: str) -> str:
    """A word of a search as it stands in a text of the index that an older termchat marked: without pairs."""
    return _single(apart(text))


def together(text: str) -> str:
    """The text that `apart` was given. Where it had such a mark or such private characters itself, they may be gone."""
    text = _seen(text)
    return re.sub(_MARKED, "", text) if _MARK in text else text


def shown(text: str) -> str:
    """The same for what is only looked at, in half the time: marks that the text had itself are gone."""
    return _seen(text).replace(_MARK, "")


def was_unseen(word: str) -> bool:
    """Whether an older termchat never found the word: for a sign in a script without spaces, or an emoji."""
    return re.search(_UNSEEN_ONCE, word) is not None


def part(text: str, begin: int, end: int) -> str:
    """That part of a text of the index, without what it would have only a part of at its ends."""
    of_one = re.compile(f"[{_OF_ONE}]")
    begin, end = max(begin, 0), min(end, len(text))
    while 0 < begin < end and of_one.match(text[begin]):
        begin += 1
    while begin < end < len(text) and of_one.match(text[end - 1]):
        end -= 1
    return text[begin:end]


def _seen(text: str) -> str:
    """The text of the index with its signs and emoji, and the marks between characters."""
    if text.isascii():
        return text
    text = _single(text)
    if _MARK in text:
        text = re.sub(_KEPT, lambda kept: _emoji(*kept.groups()), text)
    return re.sub(_SIGNS_KEPT, lambda kept: _signs(kept[0]), text)


def _marked(text: str) -> Iterator[str]:
    """The text as the index has it, in slices: no other thread runs while one of them is made."""
    begin = 0
    while begin < len(text):
        end = min(begin + _SLICE, len(text))
        anew = re.compile(_BEGINS_ANEW).search(text, end, end + _SLICE)
        end = anew.start() if anew is not None else min(end + _SLICE, len(text))
        cut = re.compile(_APART).match(text, begin) if begin else None  # it sees what stands before
        follows = re.compile(_NEXT).match(text, end)
        behind = _one_by_one(follows[0]) if follows is not None else ""
        paired = _in_pairs(_one_by_one(text[begin:end]) + behind)
        yield (_MARK if cut is not None else "") + paired.removesuffix(behind)
        begin = end


def _in_pairs(text: str) -> str:
    pieces = re.split(_FIRST, text)  # what is no first of a pair, a first, its second, and so on
    pieces[2::3] = [second + _SECOND for second in pieces[2::3]]
    return "".join(pieces)


def _single(text: str) -> str:
    """The text without what is in it a second time."""
    *pieces, last = text.split(_SECOND)
    return "".join([piece[:-1] for piece in pieces]) + last


def _one_by_one(text: str) -> str:
    """The text with the marks between characters, and what stands for signs and emoji."""
    marked = re.sub(_APART, _MARK, text)
    if re.search(_ANY_UNSEEN, marked) is None:
        return marked
    return re.sub(_UNSEEN, lambda unseen: _replaced(unseen[0]), marked)


@lru_cache(maxsize=4096)
def _replaced(unit: str) -> str:
    if re.match(f"[{SIGNS}{VOWELS}]", unit):
        return _code(unit)
    if re.match(KEYCAP, unit):
        return f"{_MARK}{_code(unit[0] + unit[-1])}{unit[1:-1]}{_MARK}"
    if re.match(_FLAG, unit):
        return f"{_MARK}{_code(unit)}{_MARK}"
    return f"{_MARK}{_code(unit[0])}{unit[1:].translate(_UNSHADED)}{_MARK}"


@lru_cache(maxsize=4096)
def _emoji(code: str, varied: str) -> str:
    unit = _decoded(code)
    return unit[0] + varied.translate(_SHADED) + unit[1:]


@lru_cache(maxsize=4096)
def _signs(kept: str) -> str:
    signs = _decoded(kept)
    return signs if re.fullmatch(f"[{SIGNS}{VOWELS}]+", signs) else kept


def _code(text: str) -> str:
    """Two private characters for each: the index takes them for letters, whatever version of Unicode it knows."""
    return "".join(chr(0xE000 + (ord(char) >> 12)) + chr(0xE000 + (ord(char) & 0xFFF)) for char in text)


def _decoded(code: str) -> str:
    pairs = zip(code[::2], code[1::2], strict=True)
    return "".join(chr((ord(high) - 0xE000 << 12) + ord(low) - 0xE000) for high, low in pairs)


TITLE = 0
"""The node number of a chat's title."""

ADD = "INSERT OR IGNORE INTO texts (id, text, turns, tokens, whole) VALUES (?, ?, ?, ?, ?)"
OF_CHAT = "id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295"

MISSING = """SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM tallies WHERE session = sessions.id) LIMIT 1"""

STALE = """SELECT stale.text, texts.text, turns, tokens, whole
    FROM stale LEFT JOIN texts ON id = stale.text ORDER BY stale.text DESC LIMIT 1"""

HIDDEN = """WITH RECURSIVE gone (number) AS (
        SELECT number FROM nodes WHERE session = ?1 AND deleted
        UNION SELECT nodes.number FROM nodes JOIN gone ON nodes.parent = gone.number WHERE nodes.session = ?1)
    SELECT number FROM gone"""


class _Piece(msgspec.Struct, frozen=True, array_like=True, tag="token", gc=False):
    """The beginning of a `Token`, up to its text."""

    step: int
    position: int
    id: int
    bytes: builtins.bytes
    text: str


class _Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """Nothing of a `Start`."""


class _Settings(msgspec.Struct, frozen=True, array_like=True, tag="settings"):
    """Nothing of a `Settings`."""


class _Prefill(msgspec.Struct, frozen=True, array_like=True, tag="prefill"):
    """Nothing of a `Prefill`."""


_decode = msgspec.msgpack.Decoder(_Piece | _Start | _Settings | _Prefill | Finished | Failed).decode
"""Reads of a record only what a text needs, in a fraction of the time."""


class Said(NamedTuple):
    """The text of a reply, how many tokens it has, from how many on all of the text is shown, and whether it ended."""

    text: str
    tokens: int
    whole: int
    ended: bool


def text_id(tally: int, node: int) -> int:
    """The id of a node's text: the number of the chat's tally, then the node's."""
    return tally << 32 | node


def said(db: sqlite3.Connection, session: str, number: int, count: int | None = None, continued: bool = False) -> Said:
    """What the reply in a node says, or what its first `count` tokens say, as far as it can be read; see `Node.continued`."""
    texts: list[str] = []
    end: Finished | Failed | None = None
    for blob in _blobs(db, session, number):
        try:
            record = _decode(blob)
        except msgspec.MsgspecError:
            break
        if isinstance(record, _Piece):
            texts.append(record.text)
        elif isinstance(record, (Finished, Failed)):
            end = end if isinstance(end, Finished) else record
    if isinstance(end, Finished) and end.reason == "stop":
        return _said_before_stop(db, session, number, count, continued)
    held = end.held if isinstance(end, Finished) and (count is None or count >= len(texts)) else ""
    text = "".join(texts if count is None else texts[:count]) + held
    return Said(well_formed(text), len(texts), len(texts), end is not None)


def begin(db: sqlite3.Connection, session: str) -> None:
    """A tally for a new chat, and its title."""
    db.execute("INSERT OR IGNORE INTO tallies (session) SELECT id FROM sessions WHERE id = ?", (session,))
    retitle(db, session)


def retitle(db: sqlite3.Connection, session: str) -> None:
    """The chat's title, anew."""
    tally = _tally(db, session)
    if tally is not None:
        (title,) = db.execute("SELECT title FROM sessions WHERE id = ?", (session,)).fetchone()
        _replace(db, text_id(tally, TITLE), title, 0, 0, 0)


def add(db: sqlite3.Connection, session: str, number: int) -> None:
    """The text of a node that is complete, anew; nothing where there is no such node."""
    tally = _tally(db, session)
    row = db.execute("SELECT role, text FROM nodes WHERE session = ? AND number = ?", (session, number)).fetchone()
    if tally is not None and row is not None:
        _add(db, session, tally, number, *row)


def add_if_missing(db: sqlite3.Connection, session: str, number: int) -> None:
    """The text of a node that something grows from now: of a reply whose end was never written it is not there yet."""
    tally = _tally(db, session)
    if tally is not None and _known(db, tally, number) is None:
        add(db, session, number)


def refresh(db: sqlite3.Connection, session: str) -> None:
    """Brings a chat's texts in line with its nodes: after some were hidden or came back, or where there are none yet."""
    begin(db, session)
    tally = _tally(db, session)
    if tally is None:
        return
    hidden = {number for (number,) in db.execute(HIDDEN, (session,))}
    known = {text & 0xFFFFFFFF for (text,) in db.execute(f"SELECT id FROM texts WHERE {OF_CHAT}", (tally,))} - {TITLE}
    nodes = db.execute("SELECT number, parent, role, text FROM nodes WHERE session = ?", (session,)).fetchall()
    parents = {parent for _, parent, _, _ in nodes}
    for number in known & hidden:
        _change(db, "DELETE FROM texts WHERE id = ?", (text_id(tally, number),))
    for number, _, role, text in nodes:
        if number not in hidden and number not in known:
            _add(db, session, tally, number, role, text, partly=number in parents)


def remove(db: sqlite3.Connection, session: str) -> None:
    """Forgets all that is derived from a chat."""
    tally = _tally(db, session)
    if tally is not None:
        _change(db, f"DELETE FROM texts WHERE {OF_CHAT}", (tally,))
        db.execute("DELETE FROM tallies WHERE number = ?", (tally,))


def rebuild(db: sqlite3.Connection, *_: object) -> None:
    """Makes the full-text index anew from the texts."""
    db.execute("INSERT INTO found (found) VALUES ('rebuild')")


def complete(db: sqlite3.Connection, seconds: float) -> bool:
    """Works for about `seconds` on chats that have nothing derived yet, one transaction each; whether more are left."""
    end = monotonic() + seconds
    while (found := db.execute(MISSING).fetchone()) is not None:
        if monotonic() > end:
            return True
        db.execute("BEGIN IMMEDIATE")
        refresh(db, found[0])
        db.execute("COMMIT")
    return False


def mark_anew(db: sqlite3.Connection, seconds: float) -> bool:
    """Works for about `seconds` on texts that are marked in an older way, the newest first, in one transaction, which is
    not made to be on the disk at once: it can be done again. Whether more are left."""
    if not waits(db):
        return False
    end = monotonic() + seconds
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("BEGIN IMMEDIATE")
    left = True
    while left and monotonic() < end:
        left = _mark_anew(db)
    db.execute("COMMIT")
    return left


def waits(db: sqlite3.Connection) -> bool:
    """Whether there are texts that are still marked in an older way."""
    return db.execute("SELECT 1 FROM stale LIMIT 1").fetchone() is not None


def _mark_anew(db: sqlite3.Connection) -> bool:
    """Marks the newest text that is marked in an older way as it is now, where that differs; whether there was one."""
    row = db.execute(STALE).fetchone()
    if row is None:
        return False
    number, marked, *counts = row
    if marked is not None and apart(text := together(marked)) != marked:
        _replace(db, number, text, *counts)
    db.execute("DELETE FROM stale WHERE text = ?", (number,))
    return True


def _add(
    db: sqlite3.Connection, session: str, tally: int, number: int, role: str, text: str, partly: bool = True
) -> None:
    if role == "user":
        _replace(db, text_id(tally, number), text, 1, 0, 0)
        return
    found = said(db, session, number)
    if found.ended or partly:
        _replace(db, text_id(tally, number), found.text, 0, found.tokens, found.whole)


def _replace(db: sqlite3.Connection, number: int, text: str, turns: int, tokens: int, whole: int) -> None:
    _change(db, "DELETE FROM texts WHERE id = ?", (number,))
    _change(db, ADD, (number, apart(text), turns, tokens, whole))


def _change(db: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> None:
    """Changes `texts`; a full-text index that turns out to be broken is made anew."""
    try:
        db.execute(statement, values)
    except sqlite3.DatabaseError as error:
        if not is_index_damage(error):
            raise
        rebuild(db)
        db.execute(statement, values)


def _tally(db: sqlite3.Connection, session: str) -> int | None:
    row = db.execute("SELECT number FROM tallies WHERE session = ?", (session,)).fetchone()
    return int(row[0]) if row is not None else None


def _known(db: sqlite3.Connection, tally: int, number: int) -> int | None:
    row = db.execute("SELECT id FROM texts WHERE id = ?", (text_id(tally, number),)).fetchone()
    return int(row[0]) if row is not None else None


def _blobs(db: sqlite3.Connection, session: str, number: int) -> Iterator[bytes]:
    statement = "SELECT record FROM records WHERE session = ? AND node = ? ORDER BY seq"
    return (blob for (blob,) in db.execute(statement, (session, number)))


def _said_before_stop(db: sqlite3.Connection, session: str, number: int, count: int | None, continued: bool) -> Said:
    """The same for a reply that a stop sequence ended: which of its tokens are shown takes all of their records."""
    node = Node(number, None, 0, "assistant")
    node.continued = continued
    for blob in _blobs(db, session, number):
        try:
            node.add(codec.to_record(blob))
        except StoreError:
            break
    return Said(well_formed(node.text(count)), len(node.ids), node.kept(), True)
