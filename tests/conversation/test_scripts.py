"""Searches for emoji, and for stretches of words in scripts that have no spaces between them, and of Korean ones."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from termchat.conversation.store.index import apart, together

from termchat.conversation.store import index
from termchat.conversation.store import reading as saved_chats
from termchat.conversation.store.store import Store
from tests.conversation.older_stores import to_version
from tests.conversation.stored import child, found, output, saved

FAMILY = "👨\u200d👩\u200d👧"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


def snippet(store: Store, search: str) -> str:
    (one,) = store.sessions(search=search)
    return one.snippet.replace("\x02", "[").replace("\x03", "]")


@pytest.mark.parametrize(
    ("text", "search", "shown"),
    [
        ("well done 👍", "👍", "well done [👍]"),
        ("well done 👍", "don 👍", "well [done] [👍]"),
        ("well done 👍🏽!", "👍", "well done [👍🏽]!"),
        ("well done 👍", "👍🏿", "well done [👍]"),
        ("done🤔so", "🤔", "done[🤔]so"),
        ("done🤔so", "so", "done🤔[so]"),
        ("I ❤\ufe0f you", "❤", "I [❤\ufe0f] you"),
        ("I ❤ you", "❤\ufe0f", "I [❤] you"),
        (f"we {FAMILY}!", FAMILY, f"we [{FAMILY}]!"),
        (f"we {FAMILY}!", "👩", "we 👨\u200d[👩\u200d]👧!"),
        ("a 👩🏽\u200d🚀 flew", "👩\u200d🚀", "a [👩🏽\u200d🚀] flew"),
        ("from 🇫🇷🇩🇪", "🇩🇪", "from 🇫🇷[🇩🇪]"),
        ("from 🇫🇷🇩🇪", "🇩", "from 🇫🇷[🇩]🇪"),
        (f"from {ENGLAND}", ENGLAND, f"from [{ENGLAND}]"),
        ("press 1\ufe0f\u20e3 now", "1\u20e3", "press [1\ufe0f\u20e3] now"),
        ("press #\u20e3 now", "#\ufe0f\u20e3", "press [#\u20e3] now"),
        ("great👍🎉", "👍🎉", "great[👍🎉]"),
        ("great 👍", "great👍", "[great 👍]"),
        ("Acme™ it", "™", "Acme[™] it"),
        ("ที่นี่สวยมาก", "สวย", "ที่นี่[สวย]มาก"),
        ("ที่นี่สวยมาก", "นี", "ที่[นี่]สวยมาก"),
        ("ที่นี่สวยมาก", "นี่ส", "ที่[นี่ส]วยมาก"),
        ("ที่นี่\u200bสวยมาก", "นี่สวย", "ที่[นี่\u200bสวย]มาก"),
        ("ພາສາລາວງ່າຍ", "ລາວ", "ພາສາ[ລາວ]ງ່າຍ"),
        ("ភាសាខ្មែរស្អាត", "ខ្មែរ", "ភាសា[ខ្មែរ]ស្អាត"),
        ("မြန်မာစာပေ", "စာ", "မြန်မာ[စာ]ပေ"),
        ("བཀྲཤིས", "ཤི", "བཀྲ[ཤི]ས"),
        ("한국어를 배우다", "국어", "한[국어]를 배우다"),
        ("한국어를 배우다", "배", "한국어를 [배]우다"),
        ("東\n京都に行く", "東京", "[東 京]都に行く"),
        ("हिन्दी में लिखा", "हिन्दी", "[हिन्दी] में लिखा"),
        ("हिन्दी में लिखा", "लि", "हिन्दी में [लिखा]"),
        ("हिन्दी漢字", "漢字", "हिन्दी[漢字]"),
        ("தமிழ் மொழி", "தமிழ்", "[தமிழ்] மொழி"),
        ("বাংলা ভাষা", "ভা বাংলা", "[বাংলা] [ভাষা]"),
        ("narwal 漢wal_wal xwal 5wal", "wal", "narwal 漢[wal]_[wal] xwal 5wal"),
        ("ใช้ GPTสร้าง 🚀", "gpt 🚀 ส", "ใช้ [GPT][ส]ร้าง [🚀]"),
    ],
)
def test_a_search_finds_and_marks(store: Store, text: str, search: str, shown: str) -> None:
    saved(store, "other", ("nothing at all", "ท ส ว 가 1 # 🇪 😀"))
    chat, _ = saved(store, "this", (text, "yes"))
    assert snippet(store, search) == shown
    assert store.preview(chat)[0] == ("user", text)


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("👍", "👎"),
        ("👍 🎉", "🎉👍"),
        ("🇮🇩🇪🇸", "🇩🇪"),
        ("🇩🇪", "🇫🇷"),
        ("room 12", "1\u20e3"),
        ("ที่นี่", "ทน"),
        ("ที่นี่", "ที้"),
        ("สวยมาก", "สม"),
        ("東京都", "東都"),
        ("काम", "की"),
        ("हिन्दी", "हन्द"),
        ("हिन्दी", "न्दी"),
        ("東京。都", "京都"),
        ("東京と京都", "東京都"),
        ("한국어", "하"),
        ("한국어", "어국"),
        ("hi", "\ufe0f"),
        ("ที่", "\u0e35\u0e48"),
    ],
)
def test_a_search_does_not_find(store: Store, text: str, search: str) -> None:
    saved(store, "this", (text, "yes"))
    assert found(store, search) == []


def test_a_variant_of_a_character_is_found_as_the_character(store: Store) -> None:
    saved(store, "this", ("葛\U000e0100城市へ", "か\u3099く"))
    for search in ("葛城", "葛\U000e0100城", "城市", "かく"):
        assert found(store, search) == ["this"], search


def test_emoji_and_stretches_are_found_in_titles_and_replies(store: Store) -> None:
    saved(store, "สวัสดีครับ 🐘", ("hi", "so 🦭 ก็ดี"))
    for search in ("สดี", "🐘", "🦭", "ก็"):
        assert found(store, search) == ["สวัสดีครับ 🐘"], search
    assert snippet(store, "🦭") == "so [🦭] ก็ดี"


def test_a_whole_sentence_is_found_and_so_are_many_words(store: Store) -> None:
    sentence = "吾輩は猫である名前はまだ無いどこで生れたか頓と見当がつかぬ"
    saved(store, "cat", (f"「{sentence}」", "はい"))
    saved(store, "no cat", ("吾輩は犬である名前はもうある", "見当がつかぬ"))
    assert found(store, sentence) == ["cat"]
    assert found(store, " ".join(sentence[at : at + 3] for at in range(0, 27, 3))) == ["cat"]
    assert found(store, "吾輩は 見当がつかぬ") == ["cat", "no cat"]


MARKED = {
    5: ("旅\x1f行 🐘", "plain {} สวยมาก 👍 京\x1f都 हिन्दी"),
    6: (
        "旅\x1f行 \x1f\ue01f\ue418\x1f",
        "plain {} ส\x1fว\x1fย\x1fม\x1fา\x1fก \x1f\ue01f\ue44d\x1f 京\x1f都 हिन्दी",
    ),
}
"""A title and a message as older versions marked them for the index, word for word."""

each_marking = pytest.mark.parametrize("version", MARKED)


def old_texts(path: Path, count: int, version: int) -> None:
    """A store of an older schema with a chat of so many messages, and the texts as that version marked them."""
    title, message = MARKED[version]
    store = Store.open(path)
    session, _ = saved(store, "旅行 🐘", *((f"plain {number} สวยมาก 👍 京都 हिन्दी", "yes") for number in range(count)))
    store.close()
    to_version(path, version)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO tallies (number, session) VALUES (7, ?)", (session,))
        db.execute("INSERT INTO texts VALUES (7 << 32, ?, 0, 0, 0)", (title,))
        for number in range(count):
            text = message.format(number)
            db.execute("INSERT INTO texts VALUES ((7 << 32) + ?, ?, 1, 0, 0)", (2 * number + 1, text))
            db.execute("INSERT INTO texts VALUES ((7 << 32) + ?, ' yes', 0, 1, 1)", (2 * number + 2,))


def marked_anew(path: Path) -> None:
    """Waits until no text of the file is marked in the older way."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        end = time.monotonic() + 60.0
        while index.waits(db):
            assert time.monotonic() < end
            time.sleep(0.01)
        db.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
        for number, text in db.execute("SELECT id, text FROM texts").fetchall():
            assert text == apart(together(text)), number


@each_marking
def test_texts_of_an_older_file_are_marked_anew(path: Path, version: int) -> None:
    old_texts(path, 3, version)
    store = Store.open(path)
    assert store.flush()
    marked_anew(path)
    for search in ("วย", "👍", "都", "🐘", "行", "plain 1", "yes", "हिन्दी"):
        assert found(store, search) == ["旅行 🐘"], search
    (listed,) = store.sessions()
    assert (listed.turns, listed.tokens) == (3, 3)
    assert store.preview(listed.id)[0] == ("user", "plain 0 สวยมาก 👍 京都 हिन्दी")
    store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT number FROM tallies").fetchone() == (7,)  # nothing was read from the records


@each_marking
def test_texts_are_marked_anew_a_part_at_a_time_the_newest_first(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(index, "mark_anew", lambda *_: False)
    old_texts(path, 5, version)
    store = Store.open(path)
    assert store.flush()
    assert found(store, "วย") == ([] if version < 6 else ["旅行 🐘"])  # as before, meanwhile
    assert found(store, "京都") == found(store, "都") == found(store, "สวย") == found(store, "plain") == ["旅行 🐘"]
    (one,) = store.sessions(search="สวยม")
    assert "\x02สวยม\x03าก 👍 京都" in one.snippet
    assert store.preview(one.id)[-2] == ("user", "plain 4 สวยมาก 👍 京都 हिन्दी")
    store.rename(one.id, "new 🐘")
    store.close()
    monkeypatch.undo()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        ticks = iter([0.0, 0.0, 0.0, 1.0])
        monkeypatch.setattr(index, "monotonic", lambda: next(ticks, 1.0))
        assert index.mark_anew(db, 0.5)
        stale = [number & 0xFFFFFFFF for (number,) in db.execute("SELECT text FROM stale")]
        assert stale == [0, 1, 3, 5]
        monkeypatch.undo()
        assert not index.mark_anew(db, 60.0)
        assert db.execute("SELECT turns, tokens FROM tallies").fetchone() == (5, 5)
    store = Store.open(path)
    assert found(store, "วย 🐘") == ["new 🐘"]
    store.close()


@each_marking
def test_nobody_waits_for_texts_that_are_marked_anew(path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """All is read, and written, while a part of the texts waits; each chat is found once."""
    old_texts(path, 6, version)
    marking, parts, ended = index.mark_anew, threading.Semaphore(0), threading.Semaphore(0)

    def one_text(db: sqlite3.Connection, _seconds: float) -> bool:
        assert parts.acquire(timeout=60)
        ticks = iter([0.0, 0.0, 1.0])
        monkeypatch.setattr(index, "monotonic", lambda: next(ticks))
        left = marking(db, 0.5)
        ended.release()
        return left

    monkeypatch.setattr(index, "mark_anew", one_text)
    monkeypatch.setattr(saved_chats, "READ_WAIT_S", 3600.0)  # who waits for the marking waits for ever
    store = Store.open(path)
    for _ in range(7):  # the title and the messages
        (listed,) = store.sessions()
        assert (listed.turns, listed.tokens) == (6, 6)
        for search in ("สวย", "都", "京都", "plain 5", "yes plain", "हिन्दी"):
            assert found(store, search) == ["旅行 🐘"], search
        assert [text for role, text in store.preview(listed.id) if role == "user"][5] == "plain 5 สวยมาก 👍 京都 हिन्दी"
        assert len(store.load(store.find(listed.id)).conversation.nodes) == 12
        parts.release()
        assert ended.acquire(timeout=60)
    marked_anew(path)
    parts.release()
    assert found(store, "วย") == found(store, "🐘") == ["旅行 🐘"]
    store.close()


def test_what_is_written_waits_for_one_part_of_the_marking_at_most(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts the writer writes, and so may other processes."""
    old_texts(path, 3, 6)
    parts, begun = threading.Semaphore(0), threading.Semaphore(0)

    def held(_db: sqlite3.Connection, _seconds: float) -> bool:
        begun.release()
        assert parts.acquire(timeout=60)
        return True  # there is always more to do

    monkeypatch.setattr(index, "mark_anew", held)
    store = Store.open(path)
    for turn in range(3):
        assert begun.acquire(timeout=60)
        session, _ = saved(store, f"written {turn}", ("a message", "a reply"))
        parts.release()
        assert store.flush(60.0)
        assert store.preview(session) == [("user", "a message"), ("assistant", " a reply")]
    parts.release(1000)
    store.close()


def test_processes_that_mark_texts_anew_together_do_it_right(path: Path) -> None:
    old_texts(path, 40, 5)
    code = """
store = Store.open(path)
print(len(store.sessions(search="สวย")), store.problem())
end = time.monotonic() + 60
while not store.sessions(search="👍 วยมา") and time.monotonic() < end:
    time.sleep(0.01)
print(len(store.sessions(search="👍 วยมา")), store.problem())
store.close()
"""
    said = [output(process).split() for process in [child(code, path) for _ in range(3)]]
    assert said == [["1", "None"] * 2] * 3
    Store.open(path).close()
    store = Store.open(path)
    assert store.flush()
    marked_anew(path)
    store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT turns, tokens FROM tallies").fetchone() == (40, 40)


@pytest.mark.parametrize(
    ("between", "word"), [(" so it goes ", "walrus"), ("👍🏽1\ufe0f\u20e3", "🦭"), ("ที่นี่", "สวย"), ("漢字", "狐")]
)
def test_a_snippet_of_a_long_text_is_whole_at_its_ends(store: Store, between: str, word: str) -> None:
    text = between * 500 + word + between * 500
    saved(store, "this", (text, "yes"))
    shown = snippet(store, word)
    assert shown[0] == shown[-1] == "…"
    assert f"[{word}]" in shown
    around = shown.strip("…").replace("[", "").replace("]", "")
    assert around in text
    assert len(around) > 100


def test_the_denser_text_stands_first_also_within_a_script_without_spaces(store: Store) -> None:
    saved(store, "dense", ("สวยมากสวยสวย 👍👍", "yes"))
    saved(store, "thin", ("สวยมาก" + "ที่นี่" * 50 + "👍", "yes"))
    assert found(store, "สวย") == ["dense", "thin"]
    assert found(store, "👍") == ["dense", "thin"]
    assert found(store, "👍 สวย") == ["dense", "thin"]


def test_a_word_that_begins_no_other_is_found_as_one_that_does(store: Store) -> None:
    saved(store, "one", ("Walrus in the Kitchen", "ÜBERALL"))
    for search in ("walr", "WALRUS", "kitch", "kitchen walru", "uberall", "über", "uber walrus"):
        assert found(store, search) == ["one"], search
    saved(store, "two", ("walruses", "kitchenette"))
    assert sorted(found(store, "walrus")) == ["one", "two"]
    assert found(store, "walruses") == found(store, "kitchene") == ["two"]
    assert found(store, "walrusesque") == found(store, "zzzz") == []
    saved(store, "hedgehog", ("Ёжик в тумане, ΑΘΗΝΑ", "हिन्दी में पढ़ना"))
    for search in ("тумане", "тума", "ТУМАН", "ёжик", "Ёжи", "αθηνα", "Αθην", "हिन्दी", "पढ़ना", "हिन्द туман"):
        assert found(store, search) == ["hedgehog"], search
    saved(store, "fog", ("туманен", "हिन्दीभाषी"))
    assert sorted(found(store, "туман")) == sorted(found(store, "हिन्दी")) == ["fog", "hedgehog"]
    assert found(store, "тумана") == found(store, "हिन्दा") == []
