"""Nothing that could steer a terminal gets through the door, and nothing else is touched."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.text import cells, in_place, one_line, sanitize, show_piece

# Written out here on its own, from Unicode's names for them, so that a slip in the module's ranges shows.
BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
HIDDEN = {0x00AD, 0x200B, *range(0x2060, 0x2065), 0xFEFF, 0x2028, 0x2029, *range(0xFFF9, 0xFFFC)}
TAGS = set(range(0xE0000, 0xE0080))

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


def forbidden(char: str, keep: str = "\n\t") -> bool:
    code = ord(char)
    return char not in keep and (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or code in BIDI or code in HIDDEN or code in TAGS
    )


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
        ("👩\u200d💻 ☺\ufe0f نمی\u200cخواهم", "👩\u200d💻 ☺\ufe0f نمی\u200cخواهم"),
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


@pytest.mark.parametrize(
    ("piece", "shown"),
    [(" fox", "·fox"), ("    ", "····"), ("\n\n", "⏎⏎"), ("\t", "⇥"), ("", "∅"), ("\x1b[", "␛["), ("fox", "fox")],
)
def test_pieces_show_what_cannot_be_seen(piece: str, shown: str) -> None:
    assert show_piece(piece) == shown


@given(any_text | nasty_text)
def test_in_place_keeps_every_place(text: str) -> None:
    shown = in_place(text)
    assert len(shown) == len(text)
    assert not any(forbidden(char, keep="") for char in shown)
    assert all(one == other for one, other in zip(text, shown, strict=True) if not forbidden(one, keep=""))
