"""Progress: kept, read again, shared by two terminals; a file that cannot be read is set aside with a message."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.lessons.playing import Guess, LessonProgress, LessonState

STATE = LessonState(
    3, True, (Guess(1, 40.0, 3.25, "2026-11-23T19:00:00+00:00"), Guess(2, 1.0, None, "2026-11-23T19:01:00+00:00"))
)


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "lessons.json"
    assert LessonProgress(file).of("tokens") == LessonState()
    LessonProgress(file).keep("tokens", STATE)
    again = LessonProgress(file)
    assert again.of("tokens") == STATE
    assert again.last == "tokens"


def test_two_terminals_do_not_take_each_others(tmp_path: Path) -> None:
    file = tmp_path / "lessons.json"
    one, two = LessonProgress(file), LessonProgress(file)
    one.keep("tokens", STATE)
    two.keep("greedy", LessonState(1))
    kept = LessonProgress(file)
    assert (kept.of("tokens"), kept.of("greedy")) == (STATE, LessonState(1))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b"[]", b'{"version": 1}', b'{"version": 2, "lessons": {}}', b'{"version": 1, "lessons": {"a": 3}}',
        b'{"version": 1, "lessons": {"a": {"step": -1, "guesses": []}}}',
        b'{"version": 1, "lessons": {"a": {"step": 1, "guesses": [{"step": 0, "guess": NaN, "date": "2026-01-01"}]}}}',
        b'{"version": 1, "lessons": {"a": {"step": 1, "guesses": [{"step": 0, "guess": 1, "date": "now"}]}}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_an_unreadable_file_is_set_aside_and_nobody_starts_without_knowing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "lessons.json"
    for aside in ("lessons.json.unreadable", "lessons.json.unreadable1"):
        file.write_bytes(content)
        told: list[str] = []
        progress = LessonProgress(file, told.append)
        assert progress.last == ""
        assert len(told) == 1
        assert told[0].endswith(f"the file is now {aside}")
        assert (tmp_path / aside).read_bytes() == content
        progress.keep("tokens", STATE)
        assert LessonProgress(file).of("tokens") == STATE


_NAMES = st.sampled_from(["version", "lessons", "step", "guesses", "guess", "date"])
_VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner)
)


@given(st.binary(max_size=200) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_file_is_read_or_set_aside(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("progress", numbered=True) / "lessons.json"
    file.write_bytes(content)
    LessonProgress(file)


def test_a_folder_that_cannot_be_written_is_told_once() -> None:
    told: list[str] = []
    progress = LessonProgress(Path("/proc/nobody/lessons.json"), told.append)  # not even root can
    progress.keep("tokens", STATE)
    progress.keep("tokens", LessonState(1))
    assert [message.split(":")[0] for message in told] == ["the progress in lessons cannot be saved"]
    assert progress.of("tokens") == LessonState(1)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "lessons.json"
    os.mkfifo(file)
    told: list[str] = []
    progress = LessonProgress(file, told.append)
    progress.keep("tokens", STATE)
    assert progress.of("tokens") == STATE
    assert len(told) == 1
    assert "a pipe" in told[0]
