"""The message history: it comes back in the next session, stays small, and is that of the session without a store."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.conversation.store import store as store_module
from termchat.conversation.store.store import HISTORY, LONGEST_KEPT, Store
from termchat.tui.composer.chat_composer import History


def texts_of(store: Store) -> list[str]:
    kept = History(store)
    kept.begin()
    end = monotonic() + 30
    while not kept.texts and monotonic() < end:
        sleep(0.01)
    return kept.texts


def test_what_was_written_is_there_in_the_next_session(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    first = History(store)
    for text in ("hello", "two\nlines", "\x1b[2J é \ud800", "hello"):
        first.add(text)
    assert first.texts[0] == "hello"
    assert store.close()
    store = Store.open(tmp_path / "sessions.db")
    assert texts_of(store) == ["hello", "\x1b[2J é \ufffd", "two\nlines"]
    store.close()


def test_what_is_written_while_it_is_read_comes_last(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    store.add_message("before")
    kept = History(store)
    kept.begin()
    kept.add("now")
    end = monotonic() + 30
    while len(kept.texts) < 2 and monotonic() < end:
        sleep(0.01)
    assert kept.texts == ["now", "before"]
    store.close()


def test_several_may_write_at_once_and_it_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "HISTORY", 10)
    stores = [Store.open(tmp_path / "sessions.db") for _ in range(3)]
    for number in range(20):
        for name, store in enumerate(stores):
            store.add_message(f"{name} {number}")
            store.add_message("each")
    stores[0].add_message("x" * (LONGEST_KEPT + 1))
    for store in stores:
        assert store.close()
    store = Store.open(tmp_path / "sessions.db")
    assert len(store.messages()) == 10
    assert store.messages().count("each") == 1
    store.close()


def test_a_history_holds_so_many_messages() -> None:
    kept = History()
    for number in range(HISTORY + 10):
        kept.add(str(number))
    assert len(kept.texts) == HISTORY
    assert kept.texts[0] == str(HISTORY + 9)


def test_without_a_store_and_with_one_that_cannot_be_written_the_history_is_that_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    unwritable = Store.open(tmp_path / "file" / "sessions.db")
    for store in (None, unwritable):
        kept = History(store)
        kept.begin()
        kept.add("one")
        kept.add("two")
        kept.add("one")
        assert kept.texts == ["one", "two"]
    unwritable.close(0.1)
