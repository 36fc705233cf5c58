"""Marks between the characters of scripts without words."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from termchat.conversation.store.index import CHARACTERS, EMOJI, SIGNS, VOWELS, apart, sought, together

from termchat.conversation.store import index

TEXTS = st.text(st.sampled_from("狐かカ\u3099 a。\ufe00é1"), max_size=60)
PIECES = st.sampled_from(
    "狐か\u3099 a1#*。\ufe00\ufe0f\ufe0e\u200d\u200b\u20e3👍👩🚀🏽🏿❤😀🏴🇩🇪™é\ue0a0\uf120"
    "\U000e0067\U000e007fहन\u093f\u094dทนเ\u0e35\u0e48ខម\u17d2\u17c2한국ㅋ"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京都", ["東京", "京都", "都"]),
        ("a漢b", ["a", "漢", "b"]),
        ("我想学GPT", ["我想", "想学", "学", "GPT"]),
        ("東 京、都", ["東京", "京、都"]),
        ("plain", ["plain"]),
    ],
)
def test_a_character_stands_together_with_the_one_that_follows_it(text: str, words: list[str]) -> None:
    assert apart(text).split() == words


@pytest.mark.parametrize(
    ("word", "words"),
    [("東京都", ["東京", "京都"]), ("東", ["東"]), ("漢字a", ["漢字", "字", "a"]), ("a漢字", ["a", "漢字"])],
)
def test_of_a_word_that_is_sought_anything_may_follow(word: str, words: list[str]) -> None:
    assert sought(word).split() == words


@given(st.lists(PIECES, max_size=40).map("".join))
def test_a_text_of_pieces_is_put_together_again_as_it_was(text: str) -> None:
    assert together(apart(text)) == text
    assert apart(together(apart(text))) == apart(text)


@given(st.lists(PIECES.filter(lambda piece: piece not in "🇩🇪"), max_size=40).map("".join), st.integers(1, 7))
def test_no_slice_cuts_an_emoji_or_a_sign_from_its_letter(text: str, slice_: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_SLICE", 100)
        whole = apart(text)
        patch.setattr(index, "_SLICE", 20)
        assert apart(text) == whole or len(text) > 60
        patch.setattr(index, "_SLICE", slice_)
        assert together(apart(text)) == text


def test_the_tables_hold_letters_signs_and_pictures_and_nothing_else() -> None:
    categories = {
        name: {unicodedata.category(char)[0] for char in map(chr, range(0x110000)) if pattern.match(char)}
        for name, pattern in (("letters", CHARACTERS), ("signs", SIGNS), ("vowels", VOWELS), ("emoji", EMOJI))
        for pattern in [re.compile(f"[{pattern}]")]
    }
    assert categories["letters"] <= {"L", "N", "C"}  # and places that are free yet
    assert categories["signs"] <= {"M", "C"}
    assert categories["vowels"] == {"M"}
    assert not categories["emoji"] & {"L", "N", "M", "Z"}
    for first, last in ((0xE00, 0xEFF), (0xF40, 0xFFF), (0x1000, 0x103F), (0x1780, 0x17DD)):
        for char in map(chr, range(first, last + 1)):
            kind = unicodedata.category(char)[0]
            assert (re.match(f"[{SIGNS}]", char) is not None) >= (kind == "M"), ascii(char)
            assert (re.match(f"[{CHARACTERS}]", char) is not None) >= (kind == "L"), ascii(char)


@given(TEXTS, st.integers(1, 7))
def test_marks_are_the_same_however_many_characters_are_marked_at_a_time(text: str, slice_: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_SLICE", slice_)
        marked = index.apart(text)
    assert marked == apart(text)


def test_no_more_of_a_huge_text_is_marked_at_a_time_than_other_threads_can_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    sub = re.sub

    def counted(pattern: str, mark: str, text: str) -> str:
        seen.append(len(text))
        return sub(pattern, mark, text)

    monkeypatch.setattr(index.re, "sub", counted)
    text = "狐狸和熊" * 50_000
    marked = index.apart(text)
    assert len(marked) == 4 * len(text) - 3
    assert max(seen) <= 10_000
