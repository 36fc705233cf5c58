"""Which texts have all words of a search, and over the texts of which chats all of them are spread.

The index finds out by walking along all places of each word, which takes a while for those that stand nearly everywhere. The
places of a rare one are soon read, and the others are looked for only in the chats that have it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

RARE = 300
"""Texts that a rare word stands in, at most."""

FEW = 100
"""Chats that it is quicker to go to one by one than to find out which chats have a word at all."""

NEWEST = "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rowid DESC LIMIT ?"
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
        return [text for (text,) in self._db.execute(NEWEST, (query, most))]


def _common(sets: Sequence[set[int]]) -> set[int]:
    return sets[0].intersection(*sets[1:])
