"""The file of earlier messages: several write it, it stays small, and damage costs only the damaged lines."""

from __future__ import annotations

import fcntl
import multiprocessing
import stat
from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.tui.composer import history
from termchat.tui.composer.history import ENTRIES, History


def test_what_was_written_is_there_in_the_next_session(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history.jsonl"
    first = History(file)
    texts = ["hello", "two\nlines", "\x1b[2J é \ud800"]
    for text in texts:
        first.add(text)
    end = monotonic() + 30
    while len(history.read(file)) < 3 and monotonic() < end:
        sleep(0.01)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = History(file)
    again.begin()
    end = monotonic() + 30
    while not again.texts and monotonic() < end:
        sleep(0.01)
    assert again.texts == ["\x1b[2J é ?", "two\nlines", "hello"]


def _write_many(file: Path, name: str) -> None:
    for number in range(200):
        history.write(file, f"{name} {number} " + "x" * 500)


def test_several_may_write_at_once_also_while_it_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PATIENCE", 60.0)  # who comes too late does not write
    file = tmp_path / "history.jsonl"
    history.write(file, "the first")
    with file.open("ab") as opened:
        opened.write(b'{"text":"old"}\n' * (2 * history.BYTES // 15 - 100))
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(file, name)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    texts = history.read(file)
    assert len(texts) == len(set(texts))  # it was shortened, and so each is there once
    for name in "abcd":
        assert [text.split()[1] for text in texts if text.startswith(name + " ")] == [str(n) for n in range(200)]
    assert not list(tmp_path.glob(".*"))


def test_it_is_capped_in_bytes_and_in_entries(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"".join(b'{"text":"%d %s"}\n' % (n, b"x" * 1000) for n in range(2 * history.BYTES // 1000)))
    history.write(file, "the newest")
    assert file.stat().st_size <= history.BYTES
    assert history.read(file)[-1] == "the newest"
    file.write_bytes(b"".join(b'{"text":"%d"}\n' % n for n in range(ENTRIES + 10)))
    kept = History(file)
    kept.begin()
    end = monotonic() + 30
    while not kept.texts and monotonic() < end:
        sleep(0.01)
    assert len(kept.texts) == ENTRIES
    assert kept.texts[0] == str(ENTRIES + 9)
    size = file.stat().st_size
    history.write(file, "x" * 100_000)
    assert file.stat().st_size == size


def test_damaged_lines_cost_only_themselves(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(
        b'{"text":"one"}\n\0\0\0\n{"text":7}\n\xff\xfe\n[]\n{"text":"two"}{"text":"x"}\n{"text":"three"}\n{"te'
    )
    assert history.read(file) == ["one", "three"]
    history.write(file, "four")
    assert history.read(file) == ["one", "three", "four"]


def test_without_a_file_and_with_one_that_cannot_be_written_the_history_is_that_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for file in (None, tmp_path / "file" / "history.jsonl"):
        kept = History(file)
        kept.begin()
        kept.add("one")
        kept.add("two")
        kept.add("one")
        assert kept.texts == ["one", "two"]


def test_nobody_waits_for_a_termchat_that_was_stopped_while_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE", 0.05)
    file = tmp_path / "history.jsonl"
    history.write(file, "before")
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="unavailable"):
            history.write(file, "meanwhile")
    history.write(file, "after")
    assert history.read(file) == ["before", "after"]
