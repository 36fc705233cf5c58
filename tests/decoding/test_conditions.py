"""Stop sequences: over any text, in any pieces, nothing of them is ever shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.conditions import TextGate
from tests.decoding.byte_pieces import pieces

ALPHABET = "ab\né😀"
texts = st.text(ALPHABET, max_size=40)
stops = st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=4)


def first_stop(text: str, wanted: list[str]) -> int | None:
    return min((text.find(stop) for stop in wanted if stop in text), default=None)


@given(text=texts, wanted=stops, cuts=st.lists(st.integers(0, 200), max_size=30))
def test_shown_text_ends_at_the_first_stop(text: str, wanted: list[str], cuts: list[int]) -> None:
    gate = TextGate(wanted)
    shown = ""
    for piece in pieces(text.encode(), cuts):
        shown += gate.push_bytes(piece)
        if gate.stopped_by is not None:
            break
    ended = gate.stopped_by is not None
    gate.finish_reply()
    shown += "" if ended else gate.held
    border = first_stop(text, wanted)
    if border is None:
        assert not ended
        assert shown == text
        return
    # A longer text may hold an earlier stop than the pieces so far: what counts is that none of it is shown.
    assert ended
    assert gate.stopped_by in wanted
    assert text.startswith((shown + gate.held).removesuffix("\ufffd"))  # the rest of a character may be swallowed, too
    assert gate.held.startswith(gate.stopped_by)
    assert not any(stop in shown for stop in wanted)


@given(text=texts, wanted=stops, cuts=st.lists(st.integers(0, 200), max_size=30), at=st.integers(0, 200))
def test_a_continued_reply_shows_the_same_text(text: str, wanted: list[str], cuts: list[int], at: int) -> None:
    """Stopped by hand anywhere and continued, a reply shows what it would have shown in one go."""
    if first_stop(text, wanted) is not None:
        return
    parts = pieces(text.encode(), cuts)
    at %= len(parts) + 1
    before = TextGate(wanted)
    shown = "".join(before.push_bytes(part) for part in parts[:at]) + before.held
    after = TextGate(wanted)
    after.resume(b"".join(parts[:at]))
    shown += "".join(after.push_bytes(part) for part in parts[at:]) + after.release_text()
    assert shown == text


def test_a_stop_may_begin_in_what_was_shown_before_it_was_continued() -> None:
    gate = TextGate(["END"])
    gate.resume(b"text EN")
    assert (gate.push_bytes(b"D more"), gate.held, gate.stopped_by) == ("", "D more", "END")


def test_half_a_character_at_the_end_shows_as_a_mark() -> None:
    gate = TextGate()
    assert gate.push_bytes("é".encode()[:1]) == ""
    assert gate.release_text() == ""
    gate.finish_reply()
    assert gate.held == "\ufffd"


def test_other_stops_let_go_of_what_the_old_ones_held() -> None:
    gate = TextGate(["\n6."])
    assert gate.push_bytes(b"5. five\n") == "5. five"
    gate.set_stops([])
    assert gate.push_bytes(b"6. six") == "\n6. six"
