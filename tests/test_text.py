"""Nothing that could steer a terminal gets through the door, and nothing else is touched."""

from __future__ import annotations

import inspect
import sys
import unicodedata
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat import text as door
from termchat.text import (
    cells,
    character_around,
    duration,
    erase_last,
    explain_unreadable,
    extent,
    guess_of,
    home,
    in_place,
    one_line,
    percent,
    sanitize,
    show_piece,
    size,
    word_letters,
)

# Written out here on its own, from Unicode's names for them, so that a slip in the module's ranges shows.
BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
HIDDEN = {0x00AD, 0x200B, *range(0x2060, 0x2065), 0xFEFF, 0x2028, 0x2029, *range(0xFFF9, 0xFFFC)}
TAGS = set(range(0xE0000, 0xE0080))

IGNORABLE = """
00AD          ; Cf # SOFT HYPHEN
034F          ; Mn # COMBINING GRAPHEME JOINER
061C          ; Cf # ARABIC LETTER MARK
115F..1160    ; Lo # HANGUL CHOSEONG FILLER..HANGUL JUNGSEONG FILLER
17B4..17B5    ; Mn # KHMER VOWEL INHERENT AQ..KHMER VOWEL INHERENT AA
180B..180D    ; Mn # MONGOLIAN FREE VARIATION SELECTOR ONE..MONGOLIAN FREE VARIATION SELECTOR THREE
180E          ; Cf # MONGOLIAN VOWEL SEPARATOR
180F          ; Mn # MONGOLIAN FREE VARIATION SELECTOR FOUR
200B..200F    ; Cf # ZERO WIDTH SPACE..RIGHT-TO-LEFT MARK
202A..202E    ; Cf # LEFT-TO-RIGHT EMBEDDING..RIGHT-TO-LEFT OVERRIDE
2060..2064    ; Cf # WORD JOINER..INVISIBLE PLUS
2065          ; Cn # <reserved-2065>
2066..206F    ; Cf # LEFT-TO-RIGHT ISOLATE..NOMINAL DIGIT SHAPES
3164          ; Lo # HANGUL FILLER
FE00..FE0F    ; Mn # VARIATION SELECTOR-1..VARIATION SELECTOR-16
FEFF          ; Cf # ZERO WIDTH NO-BREAK SPACE
FFA0          ; Lo # HALFWIDTH HANGUL FILLER
FFF0..FFF8    ; Cn # <reserved-FFF0>..<reserved-FFF8>
1BCA0..1BCA3  ; Cf # SHORTHAND FORMAT LETTER OVERLAP..SHORTHAND FORMAT UP STEP
1D173..1D17A  ; Cf # MUSICAL SYMBOL BEGIN BEAM..MUSICAL SYMBOL END PHRASE
E0000         ; Cn # <reserved-E0000>
E0001         ; Cf # LANGUAGE TAG
E0002..E001F  ; Cn # <reserved-E0002>..<reserved-E001F>
E0020..E007F  ; Cf # TAG SPACE..CANCEL TAG
E0080..E00FF  ; Cn # <reserved-E0080>..<reserved-E00FF>
E0100..E01EF  ; Mn # VARIATION SELECTOR-17..VARIATION SELECTOR-256
E01F0..E0FFF  ; Cn # <reserved-E01F0>..<reserved-E0FFF>
"""
"""Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, of version 16."""
NEEDED = {0x200C, 0x200D, *range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE03), 0xFE0E, 0xFE0F}
"""What scripts and emoji need of it: joiners, and selectors of Mongolian, symbols, text and emoji."""
BLANK = {0x2800, 0x1D159, 0x13441, 0x13442, 0x16FE4}
"""What shows nothing though Unicode does not ignore it: blanks of Braille, music, hieroglyphs, and Khitan's filler."""
SEEN = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
"""Formats that are seen: signs around or above Arabic, Syriac and Kaithi numbers and words."""

any_text = st.text(st.characters(exclude_categories=[]))
nasty_text = st.text(
    st.one_of(
        st.sampled_from([chr(c) for c in sorted(BIDI | HIDDEN)]),
        st.integers(0, 0x9F).map(chr),
        st.integers(0xD800, 0xDFFF).map(chr),
        st.integers(0xE0000, 0xE007F).map(chr),
        st.sampled_from("aé漢👩\u200d\ufe0f"),
    )
)


def ignorable() -> dict[int, str]:
    """The code points of the table, with the category that it says they have."""
    found = {}
    for line in IGNORABLE.strip().splitlines():
        codes, _, rest = line.partition(";")
        first, _, last = codes.strip().partition("..")
        found |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), rest.split()[0])
    return found


INVISIBLE = (ignorable().keys() | BLANK | BIDI | HIDDEN | TAGS | {*range(0x13430, 0x13440)}) - NEEDED


def forbidden(char: str, keep: str = "\n\t") -> bool:
    return char not in keep and (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or ord(char) in INVISIBLE)


def test_the_table_of_what_is_ignored_is_unicodes() -> None:
    found = ignorable()
    assert len(found) == 4174  # as the file says itself
    assert {code: unicodedata.category(chr(code)) for code in found} == found


def test_all_that_is_invisible_becomes_a_mark_and_nothing_else() -> None:
    marked = {code for code in range(0x20, 0x110000) if sanitize(chr(code), keep="") != chr(code)}
    controls = {code for code in marked if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")}
    assert marked - controls == INVISIBLE - {0x2028, 0x2029}
    formats = {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"}
    assert formats - INVISIBLE - NEEDED == SEEN


@pytest.mark.parametrize(
    "word",
    [
        "👩🏽\u200d💻",
        "❤\ufe0f\u200d🔥",
        "1\ufe0f⃣",
        "☎\ufe0e",
        "نمی\u200cخواهم",
        "क्\u200dष",
        "ශ්\u200dරී",
        "ᠠ\u180b",
        "∩\ufe00",
    ],
)
def test_words_and_emoji_that_need_joiners_and_selectors_stay_as_they_are(word: str) -> None:
    assert sanitize(word, keep="") is word


@given(any_text | nasty_text)
def test_nothing_that_steers_or_hides_survives(text: str) -> None:
    assert not any(forbidden(char) for char in sanitize(text))
    assert not any(forbidden(char, keep="") for char in sanitize(text, keep=""))
    sanitize(text).encode("utf-8")


@given(any_text | nasty_text)
def test_a_second_pass_changes_nothing(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text())
def test_honest_text_comes_back_identical(text: str) -> None:
    honest = "".join(char for char in text if not forbidden(char) and unicodedata.category(char) != "Cf")
    assert sanitize(honest) is honest


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("a\x9bb", "a<9B>b"),
        ("a\x7fb", "a␡b"),
        ("\u202egnp.exe", "<U+202E>gnp.exe"),
        ("\U000e0041", "<U+E0041>"),
        ("\udc80", "\ufffd"),
        ("line\r\nnext\tcell", "line␍\nnext\tcell"),
        ("\u3164\uffa0\u115f", "<U+3164><U+FFA0><U+115F>"),
        ("a\u034f\u2800b", "a<U+034F><U+2800>b"),
        ("👩\U000e0112", "👩<U+E0112>"),  # a byte in a selector
    ],
)
def test_marks(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@given(any_text | nasty_text, st.integers(0, 30))
def test_one_line_is_one_line_and_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert not any(forbidden(char, keep="") for char in line)
    assert cells(line) <= width


def test_one_line_cuts_by_cells_not_by_characters() -> None:
    assert one_line("one\ntwo", 20) == "one⏎two"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
    assert one_line("漢字漢字", 6) == "漢字…"
    assert one_line("漢字漢字", 7) == "漢字漢…"


def test_one_line_cuts_no_letter_from_its_accents_and_no_emoji_in_two() -> None:
    assert one_line("e\u0301e\u0301e\u0301", 2) == "e\u0301…"
    assert one_line("👩\u200d💻👩\u200d💻", 5) == "👩\u200d💻…"
    assert one_line("a" + "\u0301" * 20_000 + "b", 3) == "a" + "\u0301" * 63 + "…"


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (" fox", "·fox"),
        ("    ", "····"),
        ("\n\n", "⏎⏎"),
        ("\t", "⇥"),
        ("", "∅"),
        ("\x1b[", "␛["),
        ("fox", "fox"),
        ("\u200d", "<U+200D>"),
        ("\ufe0f\u200d💻", "<U+FE0F><U+200D>💻"),
        (" \u0301a", "·◌\u0301a"),
        ("👩\u200d", "👩\u200d"),
    ],
)
def test_pieces_show_what_cannot_be_seen(piece: str, shown: str) -> None:
    assert show_piece(piece) == shown


def test_the_extent_of_a_text_counts_letters_of_every_script() -> None:
    assert extent("Straße 7, 漢字".encode()) == "12 characters (8 letters), 17 bytes"
    assert extent("é".encode()) == "1 character (1 letter), 2 bytes"
    assert extent(b"") == "0 characters (0 letters), 0 bytes"


@given(any_text | nasty_text)
def test_in_place_keeps_every_place(text: str) -> None:
    shown = in_place(text)
    assert len(shown) == len(text)
    assert not any(forbidden(char, keep="") for char in shown)
    assert all(one == other for one, other in zip(text, shown, strict=True) if not forbidden(one, keep=""))


# --- how much work it is ---------------------------------------------------------------------------------------------

WORK: dict[str, Callable[[str], object]] = {
    "sanitize": lambda text: sanitize(text, keep=""),
    "in_place": in_place,
    "cells": cells,
    "one_line": lambda text: (one_line(text, 60), one_line(text, len(text) // 2), one_line(text, 4 * len(text))),
    "show_piece": show_piece,
    "extent": lambda text: extent(text.encode()),
    "guess_of": lambda text: guess_of(text, [text + "x", "top_k", text[::-1]]),
    "home": home,
    "character_around": lambda text: character_around(text, len(text) // 2),
    "erase_last": erase_last,
    "explain_unreadable": lambda text: explain_unreadable(ValueError(text)),
    "word_letters": word_letters,
    "size": lambda text: size(len(text)),
    "duration": lambda text: duration(len(text)),
    "percent": lambda text: percent(1 / (1 + len(text))),
}
TEXTS = (
    "a", " ", "a b", "\n", "\r\n", "\t", "\x1b[", "\u0301", "e\u0301", "漢", "👩\u200d", "\ufe0f", "\u3164", "\u200b",
    "ก\u0e31",
)  # fmt: skip


def work(does: Callable[[str], object], text: str) -> int:
    """Lines of the module that run, a round of a generator being one."""
    file, count = door.__file__, 0

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        nonlocal count
        if frame.f_code.co_filename != file:
            return None
        count += event in ("line", "call")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        does(text)
    finally:
        sys.settrace(before)
    return count


def test_every_function_is_measured() -> None:
    found = {name for name, it in inspect.getmembers(door, inspect.isfunction) if it.__module__ == door.__name__}
    assert {name for name in found if not name.startswith("_")} == set(WORK)


@pytest.mark.parametrize("name", WORK)
def test_a_text_twice_as_long_is_at_most_twice_the_work(name: str) -> None:
    does = WORK[name]
    for piece in TEXTS:
        does(piece)  # patterns are compiled once
        once, twice, again = (work(does, piece * count) for count in (200, 400, 800))
        assert twice <= 2 * once + 50, piece
        assert again <= 2 * twice + 50, piece


def test_what_is_measured_by_another_function_is_measured_once() -> None:
    """A line of a list is measured by the screen's own table of widths."""
    measured = 0

    def measure(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return cells(text)

    for piece in TEXTS:
        for width in (10, 60, 500):
            measured = 0
            one_line(piece * 20_000, width, measure)
            assert measured <= 2 * 9 * 16 * (width + 1), piece  # a mark has nine characters
