"""What comes from the terminal: pastes and answers, however they are cut into reads."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.message import Message

from termchat.tui.terminal.driver import Terminal
from termchat.tui.terminal.input_stream import ESC, BackgroundIs, InputStream

START, END = "\x1b[200~", "\x1b[201~"
LOG = "".join(f"\x1b[3{n % 8}mline {n}\x1b[0m\ttext\x1b]0;title\x07 \x1b[2J\r" for n in range(3000))

pieces = st.lists(
    st.one_of(
        st.sampled_from(["\x1b", "\x1b[", "\x1b[20", "200~", "\x1b[31m", "\x1b[A", "é", "\r"]), st.text(max_size=4)
    ),
    max_size=6,
).map("".join)
typed_pieces = pieces.map(lambda text: re.sub("[\r\n]", "", text))
"""Without lines, which would be a paste without marks."""
spoken = (
    st.lists(st.tuples(typed_pieces, pieces), max_size=3)
    .map(lambda pairs: [(pasted, text) for pair in pairs for pasted, text in enumerate(pair) if text or pasted])
    .filter(lambda parts: not any(mark in text for _, text in parts for mark in (START, END)))
)


def events_of(stream: InputStream, *texts: str) -> list[tuple[str, str]]:
    """Keys and pastes of these texts, read one after the other, a moment apart, and of the silence behind them."""
    came = [event for text in texts for event in stream.read(text, 0.01)] + [*stream.rest(1.0), *stream.rest(1.0)]
    return [
        ("paste", event.text) if isinstance(event, events.Paste) else ("key", getattr(event, "key", ""))
        for event in came
    ]


@given(parts=spoken, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_pastes_are_taken_out_of_what_is_typed_however_it_is_cut(
    parts: list[tuple[bool, str]], cuts: list[int]
) -> None:
    text = "".join(f"{START}{part}{END}" if pasted else part for pasted, part in parts)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    came = events_of(InputStream(), *(text[a:b] for a, b in pairwise(edges)))
    apart = [
        event
        for pasted, part in parts
        for event in ([("paste", _unix(part))] * bool(_unix(part)) if pasted else events_of(InputStream(), part))
    ]
    assert came == apart


def _unix(text: str) -> str:
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def test_a_paste_whose_end_never_comes_is_delivered_after_a_second_and_keys_are_keys_again() -> None:
    stream = InputStream()
    assert list(stream.read(f"{START}one\r\x1b[20", 1.0)) == []
    assert list(stream.rest(0.9)) == []
    (paste,) = stream.rest(1.0)
    assert isinstance(paste, events.Paste)
    assert paste.text == "one\n\x1b[20"
    assert events_of(stream, "x") == [("key", "x")]


def test_a_lone_escape_is_held_only_until_it_is_clear_that_nothing_follows() -> None:
    stream = InputStream()
    assert list(stream.read(ESC, 1.0)) == []
    assert stream.patience == 0.02
    assert list(stream.rest(0.01)) == []
    assert [event.key for event in stream.rest(0.02)] == ["escape"]  # type: ignore[attr-defined]
    assert stream.patience == 0.1


def test_the_driver_posts_a_coloured_log_as_one_paste_between_the_keys_around_it() -> None:
    came = from_driver(f"a{START}{LOG}{END}b\x1b[A".encode(), 4)
    assert [type(event) for event in came] == [events.Key, events.Paste, events.Key, events.Key]
    a, paste, b, up = came
    assert (a.key, b.key, up.key) == ("a", "b", "up")
    assert paste.text == LOG.replace("\r", "\n")


def test_the_driver_gives_up_on_the_end_of_a_paste() -> None:
    (paste,) = from_driver(f"{START}half".encode(), 1)
    assert paste.text == "half"


def from_driver(data: bytes, count: int, then: bytes = b"", app: Any = None) -> list[Any]:
    """The events, so many at least, that the terminal's thread makes of what it reads from a pipe; `then` comes after them."""
    reading, writing = os.pipe()
    came: list[Message] = []
    terminal = object.__new__(Terminal)
    terminal.fileno, terminal._debug, terminal._app, terminal.exit_event = reading, False, app, threading.Event()
    terminal._is_gone, terminal._unread = True, getattr(app, "unread", set())
    terminal.process_message = came.append  # type: ignore[method-assign]
    thread = threading.Thread(target=terminal.run_input_thread)
    thread.start()
    try:
        for at in range(0, len(data), 1021):
            os.write(writing, data[at : at + 1021])
        deadline = time.monotonic() + 60
        while len(came) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        os.write(writing, then)
        while then and len(came) == count and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        terminal.exit_event.set()
        thread.join(60)
        os.close(writing)
        os.close(reading)
    return came


@pytest.mark.parametrize(
    ("answer", "dark"),
    [
        ("\x1b]11;rgb:1515/1717/1c1c\x1b\\", True),
        ("\x1b]11;rgb:fb/fa/f7\x07", False),
        ("\x1b]11;rgba:0/0/0/f\x07", True),
    ],
)
def test_the_terminals_answer_is_taken_out_of_what_is_typed_however_it_is_cut(answer: str, dark: bool) -> None:
    text = f"ab{answer}cd"
    for cut in range(len(text) + 1):
        stream = InputStream()
        came = [*stream.read(text[:cut], 1.0), *stream.read(text[cut:], 0.01), *stream.rest(1.0)]
        assert [event.key for event in came if isinstance(event, events.Key)] == [*"abcd"], cut
        assert [event.dark for event in came if isinstance(event, BackgroundIs)] == [dark], cut


def test_what_only_begins_like_an_answer_is_typed_after_all() -> None:
    stream = InputStream()
    assert [event.key for event in stream.read("x\x1b]", 1.0)] == ["x"]  # type: ignore[attr-defined]
    assert list(stream.rest(0.05)) == []
    assert events_of(stream) == [("key", "escape"), ("key", "right_square_bracket")]
    assert events_of(stream, "y") == [("key", "y")]


# --- the key Esc, and what is pressed after it -------------------------------------------------------------------------

BYTES = {
    "escape": ESC, "ctrl+t": "\x14", "ctrl+g": "\x07", "ctrl+c": "\x03", "enter": "\r", "space": " ", "up": "\x1b[A",
    "f6": "\x1b[17~", "ctrl+home": "\x1b[1;5H", "a": "a", "T": "T", "1": "1", "question_mark": "?", "é": "é",
    "right_square_bracket": "]", "P": "P",
}  # fmt: skip
GAPS = (0, 5, 15, 20, 25, 60, 90, 100, 110, 120, 150, 200, 220, 300)
"""Milliseconds between two keys."""


def typed(*keys: tuple[int, str], alt: tuple[str, ...] = (), starved: bool = False) -> list[str]:
    """The keys that come of these bytes, each read so many ms after the one before it; those of no silence, in one read.

    With `starved` nobody has time to look while nothing comes.
    """
    stream, came = InputStream(alt), list[Message]()
    reads: list[tuple[int, str]] = []
    for gap, data in keys:
        if gap or not reads:
            reads.append((gap, data))
        else:
            reads[-1] = (reads[-1][0], reads[-1][1] + data)
    for gap, data in reads:
        for tick in range(20, gap, 20) if not starved else ():
            came += stream.rest(tick / 1000)
        came += stream.read(data, gap / 1000)
    for tick in range(20, 400, 20):
        came += stream.rest(tick / 1000)
    assert all(isinstance(event, events.Key) for event in came), came
    return [event.key for event in came]  # type: ignore[attr-defined]


@pytest.mark.parametrize("starved", [False, True])
@pytest.mark.parametrize("leaving", ["escape", "ctrl+g", "ctrl+t", "f6"])
def test_what_follows_a_key_that_leaves_is_neither_lost_nor_another_key_however_soon_it_comes(
    leaving: str, starved: bool
) -> None:
    for after, gap in product(BYTES, GAPS):
        came = typed((0, BYTES[leaving]), (gap, BYTES[after]), (gap, "x"), starved=starved)
        assert came == [leaving, after, "x"], (after, gap)


def test_a_word_that_is_typed_just_after_esc_is_that_word() -> None:
    assert typed((0, ESC + "hello" + ESC + "\x14")) == ["escape", *"hello", "escape", "ctrl+t"]


def test_an_alt_key_is_one_where_it_does_something() -> None:
    assert typed((0, f"{ESC}x{ESC}X{ESC}."), alt=("alt+x", "alt+shift+x", "alt+full_stop")) == [
        "alt+x", "alt+shift+x", "alt+full_stop",
    ]  # fmt: skip
    assert typed((0, f"{ESC}x"), alt=("alt+y",)) == ["escape", "x"]
    assert typed((0, ESC), (60, "x"), alt=("alt+x",)) == ["escape", "x"]


def test_every_key_that_textual_knows_by_a_sequence_is_still_that_key_however_it_is_cut() -> None:
    for sequence, keys in ANSI_SEQUENCES_KEYS.items():
        alone = [event.key for event in XTermParser().feed(sequence) if isinstance(event, events.Key)]
        if len(sequence) < 3 or not alone or not isinstance(keys, tuple):
            continue
        for cut in range(2, len(sequence) + 1):
            assert typed((0, sequence[:cut]), (10, sequence[cut:] + "x")) == [*alone, "x"], (sequence, cut)


def test_a_paste_and_an_answer_of_the_terminal_go_between_the_keys() -> None:
    stream = InputStream()
    came = list(stream.read(f"{ESC}{START}one{ESC}[A{END}{ESC}]11;rgb:0/0/0{ESC}\\{ESC}\x14", 1.0))
    assert [getattr(event, "key", type(event).__name__) for event in came] == [
        "escape", "Paste", "BackgroundIs", "escape", "ctrl+t",
    ]  # fmt: skip


def test_alt_enter_and_shift_enter_are_those_keys_in_each_way_that_terminals_send_them() -> None:
    assert typed((0, f"{ESC}\r"), alt=("alt+enter",)) == ["alt+enter"]
    assert typed((0, f"{ESC}[13;3u")) == ["alt+enter"]
    assert typed((0, f"{ESC}[27;2;13~")) == typed((0, f"{ESC}[13;2u")) == ["shift+enter"]
    assert typed((0, ESC), (60, "\r"), alt=("alt+enter",)) == ["escape", "enter"]


LATE = (
    f"{ESC}[?62;1;6c", f"{ESC}[>0;276;0c", f"{ESC}[8;40;120t", f"{ESC}[0n", f"{ESC}[?0u", f"{ESC}[<0;-1;5M", f"{ESC}[M !!",
    f"{ESC}]10;rgb:ffff/0/0\x07", f"{ESC}]52;c;YWJj{ESC}\\", f"{ESC}P1$r0m{ESC}\\", f"{ESC}P>|xterm(370){ESC}\\",
    f"{ESC}_Gi=31;OK{ESC}\\",
)  # fmt: skip
"""Answers that nobody asked for, or that somebody asked for who has left."""


@pytest.mark.parametrize("answer", LATE)
def test_what_a_terminal_says_is_not_typed_however_it_is_cut(answer: str) -> None:
    for cut in range(2, len(answer) + 1):
        assert typed((0, f"a{answer[:cut]}"), (60, f"{answer[cut:]}b")) == ["a", "b"], cut


@given(st.text("0123456789;:?<$-", max_size=14), st.sampled_from("u~RtMmyABHPSc"))
def test_no_sequence_of_numbers_ends_the_keyboard(numbers: str, end: str) -> None:
    stream = InputStream()
    came = [*stream.read(f"{ESC}[{numbers}{end}", 1.0), *stream.rest(1.0), *stream.read("a", 1.0)]
    assert isinstance(came[-1], events.Key)
    assert came[-1].key == "a"


def read_at_once(*texts: str) -> list[Message]:
    """The events of texts that follow one another at once, and of the silence behind them."""
    stream = InputStream()
    came = [event for at, text in enumerate(texts) for event in stream.read(text, 0.0005 if at else 1.0)]
    return [*came, *stream.rest(0.2)]


def test_lines_that_come_faster_than_a_person_types_are_one_paste_however_they_are_cut() -> None:
    text = "First line\r\nsecond\rthird\n\tand é\r"
    for cut in range(2, len(text)):
        (paste,) = read_at_once(text[:cut], text[cut:])
        assert isinstance(paste, events.Paste), cut
        assert paste.text == text.replace("\r\n", "\n").replace("\r", "\n"), cut
    (paste,) = read_at_once("word " * 30)
    assert isinstance(paste, events.Paste)


def test_what_a_person_types_ahead_is_keys() -> None:
    assert typed((0, "Hello\r")) == ["H", "e", "l", "l", "o", "enter"]
    assert typed((0, "\rHi")) == ["enter", "H", "i"]
    assert typed((0, "y\x14\rn")) == ["y", "ctrl+t", "enter", "n"]
    assert typed(*((10, letter) for letter in "one\rtwo\r")) == ["o", "n", "e", "enter", "t", "w", "o", "enter"]


def test_of_a_flood_of_keys_only_as_many_are_posted_as_a_person_may_be_ahead_and_the_key_that_quits() -> None:
    class Busy:
        unread: set[int] = set()  # noqa: RUF012 (nobody takes anything in)
        quit_keys = frozenset({"ctrl+q"})

    came = from_driver(b"\x01\x05" * 50_000, 256, then=b"x\x11x", app=Busy())
    assert [event.key for event in came] == ["ctrl+a", "ctrl+e"] * 128 + ["ctrl+q"]


def test_the_driver_tells_esc_from_the_key_after_it() -> None:
    came = from_driver(b"\x1b", 1, then=b"\x14")
    assert [event.key for event in came] == ["escape", "ctrl+t"]


class Fussy(Terminal):
    """Notes what would be written to the terminal."""

    written: list[str]

    def suspend_application_mode(self) -> None:
        self.written.append("leaves")
        self._given_back = True

    def resume_application_mode(self) -> None:
        self.written.append("comes")
        self._given_back = False


@pytest.fixture
def own_signals() -> Iterator[None]:
    """What the signals that a terminal listens to did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
async def test_a_signal_writes_nothing_in_the_midst_of_what_it_interrupts() -> None:
    """A write has a lock; another one within it would wait for itself. Who hangs up sends SIGCONT."""
    terminal = Fussy(App[None]())
    terminal.written, terminal._given_back = [], False
    signal.raise_signal(signal.SIGCONT)
    signal.raise_signal(signal.SIGCONT)
    assert terminal.written == []
    await asyncio.sleep(0.01)
    assert terminal.written == ["leaves", "comes"]
    with terminal.no_automatic_restart():  # another program has the terminal
        signal.raise_signal(signal.SIGCONT)
        await asyncio.sleep(0.01)
    assert terminal.written == ["leaves", "comes"]
    terminal._over = True  # the app has ended
    signal.raise_signal(signal.SIGCONT)
    await asyncio.sleep(0.01)
    assert terminal.written == ["leaves", "comes"]
