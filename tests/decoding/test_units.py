"""Sentences, lines and paragraphs in every script, in any pieces."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.conditions import Quantity, parse
from termchat.decoding.rules import Rules
from termchat.decoding.units import UnitCounter, decode_beginning, ends_sentence
from tests.decoding.byte_pieces import pieces
from tests.made_records import step

SENTENCES = {
    "latin": ["He left.", ' "Go!"', " She said it.", " It costs 3.50 today.", " (Really?)", " So: yes!", " **Stop.**"],
    "abbreviations": [
        "Dr. Smith met J. R. Doe, e.g. at noon.",
        " They ate apples, pears etc. for lunch.",
        " It was I.",
        " No.",
    ],
    "numbered": ["Two tips:", "\n1. Drink water.", "\n2. Sleep", "\n\n- In 1984.", " Then more."],
    "chinese": ["他走了。", "「走吧！」", "她问：你好吗？！", "好。”", "再见。"],
    "japanese": ["彼は行った。", "『はい。』", "本当ですか？"],
    "arabic": ["هل أنت بخير؟", " نعم، أنا بخير.", " شكرا!"],
    "urdu": ["وہ چلا گیا۔", " پھر آیا۔"],
    "hindi": ["वह चला गया।", " फिर आया॥", " ठीक है?"],
    "thai": ["สวัสดีครับ", " ผมชื่อสมชาย", " ผมชอบอ่านหนังสือต่าง ๆ ทุกวัน", "\nลาก่อน!"],
    "emoji": ["Nice!", " 😀 Great!😀", " See you 👋🏽."],
}


@pytest.mark.parametrize("script", SENTENCES)
@given(cuts=st.lists(st.integers(0, 300), max_size=60))
def test_each_sentence_is_met_once_and_soon_in_any_pieces(script: str, cuts: list[int]) -> None:
    """Not before it ends, and at most two pieces later, where half a character or a space alone tells too little."""
    sentences = SENTENCES[script]
    tokens = pieces("".join(sentences).encode(), cuts)
    places = [0, *accumulate(map(len, tokens))]
    for number in range(len(sentences)):
        rules = Rules([parse(f"stop after {number + 1} sentences")])
        met = []
        for at, (piece, said) in enumerate(zip([*tokens, b""], places, strict=True)):
            met += [said] if rules.check_before(at, step(), 0.0, piece) is not None else []
            rules.check_after(piece)
        border = len("".join(sentences[: number + 1]).encode())
        first = bisect_left(places, border)
        assert len(met) == 1
        assert border <= met[0] <= places[min(first + 2, len(places) - 1)]


@pytest.mark.parametrize("script", SENTENCES)
def test_each_ends_before_the_token_that_follows(script: str) -> None:
    for number, sentence in enumerate(SENTENCES[script][:-1]):
        rules = Rules([parse(f"stop after {number + 1} sentence")])
        said = "".join(SENTENCES[script][: number + 1])
        rest = "".join(SENTENCES[script])[len(said) :]
        for at, character in enumerate(said):
            assert rules.check_before(at, step(), 0.0, (said[at:] + rest).encode()) is None, (said[:at], sentence)
            rules.check_after(character.encode())
        assert rules.check_before(len(said), step(), 0.0, rest.encode()) is not None, said
        rules.check_after(rest.encode())
        assert rules.check_before(len(said) + 1, step(), 0.0) is None  # once


TEXT = "One\ntwo\n\n  \nthree\r\n- four\n\n\nfive"


@pytest.mark.parametrize(("unit", "ends"), [
    ("lines", ["One", "One\ntwo", "One\ntwo\n\n  \nthree\r", TEXT[:-7]]),
    ("paragraphs", ["One\ntwo", TEXT[:-7]]),
])  # fmt: skip
def test_lines_and_paragraphs_end_where_something_was_on_them(unit: Quantity, ends: list[str]) -> None:
    found, counter, count = [], UnitCounter(unit), 0
    for at in range(len(TEXT) + 1):
        now = counter.count_ended(TEXT[at:])
        found += [TEXT[:at]] * (now - count)
        count = now
        counter.push_text(TEXT[at : at + 1])
    assert found == ends


@given(st.text('ab.。!?؟\n "」Dr1😀ก ', max_size=60), st.lists(st.integers(0, 200), max_size=40))
def test_counted_in_pieces_or_at_once_there_are_as_many(text: str, cuts: list[int]) -> None:
    """Where each piece knows the whole rest of the text."""
    for unit in ("sentences", "lines", "paragraphs"):
        at_once, bit_by_bit = UnitCounter(unit), UnitCounter(unit)
        at_once.push_text(text)
        places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        for begin, end in pairwise(places):
            bit_by_bit.count_ended(text[begin:])
            bit_by_bit.push_text(text[begin:end])
        assert bit_by_bit.count_ended("") == at_once.count_ended("")


def test_half_a_character_may_close_quotes() -> None:
    first = "」".encode()[:2]
    assert not ends_sentence("「走。", decode_beginning(first))
    assert ends_sentence("走。", decode_beginning("她".encode()[:1]))
    assert decode_beginning(b"") == ""
    assert decode_beginning("é a".encode()) == "é a"


def test_the_cost_does_not_grow_with_a_text_that_has_no_end() -> None:
    counter = UnitCounter("sentences")
    longest = 0
    for _ in range(5000):
        counter.push_text(" word")
        counter.count_ended(" word")
        longest = max(longest, len(counter._open))
    assert longest < 600
