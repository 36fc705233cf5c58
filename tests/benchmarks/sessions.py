"""How long it takes to list, search and preview 10,000 saved chats: `python -m tests.benchmarks.sessions [CHATS] [--thai]`.

The chats have four turns each, of made-up words that are as rare and as common as words are. Replies' records are left out:
neither lists nor searches read them. With `--thai` the words are of Thai letters and stand without spaces: the index knows
the letters as words then, all of which are common. Prints medians, and what the end of a turn costs among so many chats.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from termchat.conversation import index
from termchat.conversation.store import Store
from termchat.conversation.tree import Conversation
from termchat.conversation.wordless import apart
from tests.made_records import reply, stream, user

TARGET = 0.050
"""Seconds for a search."""
RUNS = 9
TURNS, ASKED, ANSWERED = 4, 15, 120
"""Turns of a chat, and words of a message and of a reply."""
DECODED_S = 1 / 150
"""What a token takes to draw."""

ADD_SESSION = """INSERT INTO sessions (id, title, created, updated, system, raw, model, tuning, leaf)
    VALUES (?1, ?2, ?3, ?3, '', 0, ?4, '{}', ?5)"""
ADD_NODE = """INSERT INTO nodes (session, number, parent, at, role, text, prompt_ids, whole)
    VALUES (?, ?, ?, ?, ?, ?, x'', 0)"""

Words = Callable[[int], str]


LATIN = "etaoinshrdlcumwfgypbvkjxqz"
THAI = ["า", "น่", "ก", "อ", "ร", "เ", "ที่", "ม", "ยั", "ล", "ว", "ดี", "สิ", "ต", "ป", "บ", "ค", "แ", "จ", "ห"]


def vocabulary(letters: Sequence[str] = LATIN, space: str = " ", count: int = 20_000) -> tuple[list[str], Words]:
    """Made-up words of these letters, the most common first, and a way to draw a text of so many."""
    dice = random.Random(1)
    falling = [1 / (place + 3) for place in range(len(letters))]
    drawn = ("".join(dice.choices(letters, falling, k=dice.randint(2, 9))) for _ in itertools.count())
    words = list(itertools.islice(dict.fromkeys(itertools.islice(drawn, 4 * count)), count))
    shares = list(itertools.accumulate(1 / (place + 1) for place in range(len(words))))
    return words, lambda length: space.join(dice.choices(words, cum_weights=shares, k=length))


def beginnings(words: list[str], count: int) -> list[str]:
    """The first four letters that several words have, those of the most common words first."""
    cut = Counter(word[:4] for word in words if len(word) >= 4)
    return [begin for begin in dict.fromkeys(word[:4] for word in words) if cut[begin] > 1][:count]


def fill(path: Path, chats: int, text: Words) -> None:
    """Writes chats as the store does, their texts straight to where they are listed and searched."""
    Store.open(path).close()
    now = time.time()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        for number in range(chats):
            session, asked = f"20260101-000000-{number:08x}", [text(ASKED) for _ in range(TURNS)]
            used = now - (chats - number) * 600
            values = (session, " ".join(asked[0].split()[:8]), used, '{"name": "smollm2"}', 2 * TURNS)
            db.execute(ADD_SESSION, values)
            index.begin(db, session)
            for turn, message in enumerate(asked):
                for place, role, said in ((2 * turn + 1, "user", message), (2 * turn + 2, "assistant", "")):
                    node = (session, place, place - 1 or None, ANSWERED, role, said)
                    db.execute(ADD_NODE, node)
                index.add(db, session, 2 * turn + 1)
                row = (index.text_id(number + 1, 2 * turn + 2), apart(text(ANSWERED)), 0, ANSWERED, ANSWERED)
                db.execute(index.ADD, row)
        db.execute("COMMIT")


def median(question: Callable[[], object]) -> float:
    """Seconds, the first time left out."""
    question()
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        question()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def end_of_turn(store: Store) -> float:
    """Seconds of the writer for a turn's texts in a chat among many, for each token of its reply."""
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, user(chat, "one two three", [1, 2, 3]))
    node = reply(chat)
    store.add_node(session, node)
    for record in stream([1, 2, 3], [b" word"] * 300):
        store.add_record(session, node.number, record)
    store.flush()
    store.close()
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as db:

        def again() -> None:
            db.execute("BEGIN IMMEDIATE")
            index.add(db, session, node.number)
            db.execute("COMMIT")

        return median(again) / 300


def main() -> None:
    """Makes the chats, asks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chats", type=int, nargs="?", default=10_000)
    parser.add_argument("--thai", action="store_true")
    given = parser.parse_args()
    chats = given.chats
    words, text = vocabulary(THAI, "") if given.thai else vocabulary()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        fill(path, chats, text)
        store = Store.open(path)
        first = store.sessions(1)[0].id
        searches = {
            "its first letter": words[0][0],
            "the most common word": words[0],
            "three common words": " ".join(words[:3]),
            "two common words, one rare": f"{words[0]} {words[1]} {words[3000]}",
            "two less common words": f"{words[300]} {words[400]}",
            "the beginning of a word": words[500][:3],
            "three beginnings of many": " ".join(beginnings(words, 3)),
            "a rare word": words[15_000],
            "no such word": "zzzzzzzzzz",
            "two rare words run together": words[9_000] + words[15_000],
        }
        print(f"{chats} chats, {path.stat().st_size / 1e6:.0f} MB; medians of {RUNS}")
        print(f"  list, newest 100                  {median(store.sessions) * 1e3:7.1f} ms")
        print(f"  preview                           {median(lambda: store.preview(first)) * 1e3:7.1f} ms")
        slowest = 0.0
        for name, search in searches.items():
            took = median(lambda search=search: store.sessions(search=search))  # type: ignore[misc]
            slowest = max(slowest, took)
            print(f"  search: {name:<27}{took * 1e3:6.1f} ms  ({len(store.sessions(search=search))} found)")
        share = end_of_turn(store) / DECODED_S
        print(f"  the index at a turn's end {share:.3%} of the time its tokens took at 150 tokens/s")
    print(f"slowest search {slowest * 1e3:.1f} ms; target {TARGET * 1e3:.0f} ms")
    if slowest > TARGET:
        raise SystemExit("too slow")


if __name__ == "__main__":
    main()
