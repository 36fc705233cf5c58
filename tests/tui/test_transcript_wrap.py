"""Text to lines: what a line holds, however the text comes."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from termchat.text import cells, sanitize
from termchat.tui.draw.ink import Ink
from termchat.tui.draw.wrap import Wrapper

wrappable = st.text(st.sampled_from("abcdefgh   \n漢字é🦊"), max_size=120)


def plainly_wrapped(text: str, width: int) -> list[str]:
    """Greedy wrapping on strings, written on its own."""
    lines = []
    for hard_line in text.split("\n"):
        line = ""
        for unit in re.findall(r" +|[漢字]|[^ 漢字]+", hard_line):
            if unit.isspace():
                line += unit[: width - cells(line)]
                continue
            if line and cells(line + unit) > width:
                lines.append(line)
                line = ""
            for char in unit:
                if cells(line + char) > width:
                    lines.append(line)
                    line = ""
                line += char
        lines.append(line)
    return lines


@given(wrappable, st.integers(2, 30))
def test_wrapping_agrees_with_a_plain_wrapper(text: str, width: int) -> None:
    wrapper = Wrapper(width)
    wrapper.feed(text, Ink())
    assert [line.text for line in wrapper.lines] == plainly_wrapped(text, width)
    assert all(cell_len(line.text) <= width for line in wrapper.lines)


@given(wrappable, st.integers(2, 30), st.data())
def test_wrapping_does_not_depend_on_how_the_text_comes(text: str, width: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    wrapper = Wrapper(width)
    for number, (begin, end) in enumerate(pairwise((0, *cuts, len(text)))):
        wrapper.feed(text[begin:end], Ink(heat=number % 3))
        so_far = Wrapper(width)
        so_far.feed(text[:end], Ink())
        assert [line.text.rstrip() for line in wrapper.lines] == [line.text.rstrip() for line in so_far.lines]
        assert wrapper.line_starts == so_far.line_starts


@given(wrappable, st.integers(2, 30))
def test_line_starts_point_into_the_text(text: str, width: int) -> None:
    wrapper = Wrapper(width)
    wrapper.feed(text, Ink())
    assert len(wrapper.line_starts) == len(wrapper.lines)
    for line, begin in zip(wrapper.lines, wrapper.line_starts, strict=True):
        assert text[begin:].startswith(line.text.rstrip())


def test_what_continues_a_character_is_never_parted_from_it() -> None:
    wrapper = Wrapper(4)
    for heat, piece in enumerate(("abc", "👩", "\u200d", "🌾", "e", "\u0301")):
        wrapper.feed(piece, Ink(heat=heat))
    assert [line.text for line in wrapper.lines] == ["abc", "👩\u200d🌾e\u0301"]
    assert [text for text, _ in wrapper.lines[1].runs] == ["👩\u200d🌾", "e\u0301"]


def test_closing_punctuation_starts_no_line() -> None:
    wrapper = Wrapper(8)
    for piece in ("狐狸和", "熊", "。", "「森林", "」"):
        wrapper.feed(piece, Ink())
    assert [line.text for line in wrapper.lines] == ["狐狸和", "熊。「森", "林」"]


def test_tabs_go_to_the_next_stop() -> None:
    wrapper = Wrapper(20)
    wrapper.feed("a\tb\n\tc", Ink())
    assert [line.text for line in wrapper.lines] == ["a   b", "    c"]


@given(st.lists(st.text(st.sampled_from("ab\x1b\u202e"), max_size=6), max_size=12), st.integers(2, 12))
def test_a_line_that_begins_within_a_sign_begins_at_the_character_that_it_stands_for(
    pieces: list[str], width: int
) -> None:
    wrapper = Wrapper(width)
    for piece in pieces:
        wrapper.feed(piece, Ink())
    text = "".join(pieces)
    places = [place for place, char in enumerate(text) for _ in sanitize(char)]
    ends = list(accumulate((len(line.text) for line in wrapper.lines), initial=0))
    assert wrapper.line_starts == [0, *(places[end] for end in ends[1:-1])]
