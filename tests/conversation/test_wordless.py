"""Marks between the characters of scripts without words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation import wordless

TEXTS = st.text(st.sampled_from("狐かカ\u3099 a。\ufe00é1"), max_size=60)


@given(TEXTS, st.integers(1, 7))
def test_marks_are_the_same_however_many_characters_are_marked_at_a_time(text: str, slice_: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordless, "_SLICE", slice_)
        marked = wordless.apart(text)
    assert marked == (text if text.isascii() else re.sub(wordless._APART, "\x1f", text))


def test_no_more_of_a_huge_text_is_marked_at_a_time_than_other_threads_can_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    sub = re.sub

    def counted(pattern: str, mark: str, text: str) -> str:
        seen.append(len(text))
        return sub(pattern, mark, text)

    monkeypatch.setattr(wordless.re, "sub", counted)
    text = "狐狸和熊" * 50_000
    marked = wordless.apart(text)
    assert len(marked) == 2 * len(text) - 1
    assert max(seen) <= 10_000
