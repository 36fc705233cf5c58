"""How the program takes and leaves a terminal, and what it says there: at the worst moments, and of the worst names."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from tests.attacks import CONTROLS, outside_the_grammar
from tests.whole.chat_steps import ENDLESS, FLAGS, Open, counting, over

HOSTILE = CONTROLS["title"] + CONTROLS["C1 CSI"] + CONTROLS["bidi override"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_as_soon_as_the_terminal_is_ours_gives_it_back(open_terminal: Open, number: int) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: b"\x1b[?1049h" in terminal.output)
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.restored()
    assert not outside_the_grammar(bytes(terminal.output))


def test_what_is_pressed_until_the_process_has_ended_changes_nothing(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: terminal.is_ready)
    os.write(terminal.keyboard, b"\x11")
    while terminal.process.poll() is None:
        os.write(terminal.keyboard, b"\x03\x1c\x1a\x1bx")
        terminal.read(0.005)
    assert terminal.ended() == 0
    assert b"Traceback" not in terminal.output


def test_continued_more_than_once_it_still_knows_how_the_terminal_was(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: terminal.is_ready)
    for _ in range(5):
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read(0.01)
    terminal.settle()
    terminal.keys("a message")
    terminal.wait("a message")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_why_a_chat_could_not_be_saved_is_told_with_marks(open_terminal: Open, tmp_path: Path) -> None:
    taken = tmp_path / HOSTILE
    taken.write_text("no folder can be made here")
    terminal = open_terminal(*FLAGS, "--max-tokens", "1", XDG_DATA_HOME=str(taken))
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("Hello", "enter")
    terminal.wait(lambda: "not saved" in terminal.text and "· seed 1" in terminal.text)
    terminal.keys("ctrl+q", "ctrl+q")
    assert terminal.ended() == 0
    assert b"termchat: the chat was not saved: " in terminal.output
    assert not outside_the_grammar(bytes(terminal.output))


@pytest.mark.parametrize("args", [("locate", "store"), ("config", "path")], ids=" ".join)
def test_a_path_alone_on_a_terminal_has_marks(open_terminal: Open, args: tuple[str, ...]) -> None:
    place = "/nowhere/" + HOSTILE
    terminal = open_terminal(*args, XDG_DATA_HOME=place, XDG_CONFIG_HOME=place)
    assert terminal.ended() == 0
    assert "/nowhere/␛]0;owned␇".encode() in terminal.output
    assert not outside_the_grammar(bytes(terminal.output))


def test_a_chat_is_removed_by_an_id_of_controls(open_terminal: Open, tmp_path: Path) -> None:
    file = tmp_path / "data" / "termchat" / "sessions.db"
    store = Store.open(file)
    chat = Conversation()
    session = store.begin(chat)
    store.add_node(session, chat.grow_node("user", parent=None, at=0, text="hello"))
    assert store.close()
    with closing(sqlite3.connect(file)) as db, db:
        for table in ("sessions", "nodes"):
            db.execute(f"UPDATE {table} SET {'id' if table == 'sessions' else 'session'} = ?", (HOSTILE,))
    for args, said in (
        (("rm", "last"), "deleted ␛]0;owned␇"),
        (("rm", "--now", HOSTILE), "Permanently delete ␛]0;owned␇"),
    ):
        terminal = open_terminal("sessions", *args)
        if "--now" in args:
            terminal.wait("Permanently delete")
            terminal.keys("y", "enter")
        assert terminal.ended() == 0
        assert said.encode() in terminal.output
        assert not outside_the_grammar(bytes(terminal.output))


FLOODS = {
    "text": b"the same words again and " * 40_000,
    "lines": b"a line of a log\r" * 60_000,
    "keys": b"\x01\x05\x1b[A" * 100_000,
    "mouse": b"\x1b[<35;40;12M\x1b[<0;2;38M\x1b[<0;2;38m" * 20_000,
    "noise": bytes(byte for byte in Random(1).randbytes(300_000) if byte not in (0x03, 0x11)),
}
"""What comes of a file that is dropped on a terminal, of a cable or of a cat."""


@pytest.mark.parametrize(("kind", "key"), [*((kind, True) for kind in FLOODS), ("keys", False), ("noise", False)])
def test_whatever_comes_it_can_be_quit(open_terminal: Open, tmp_path: Path, kind: str, key: bool) -> None:
    terminal = open_terminal(*FLAGS)
    terminal.wait(lambda: terminal.is_ready)
    terminal.take = lambda _: None  # type: ignore[method-assign]  # nobody looks at the screen
    for at in range(0, len(FLOODS[kind]), 4096):
        os.write(terminal.keyboard, FLOODS[kind][at : at + 4096])
        terminal.read(0)
    if key:
        terminal.settle()
        os.write(terminal.keyboard, b"\x11")
    else:
        terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ended(30) == (0 if key else 128 + signal.SIGTERM)
    assert terminal.restored()
    assert over(tmp_path) == 0
    assert b"Traceback" not in terminal.output


def test_a_reply_and_a_long_message_hold_up_nobody_who_quits(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    for _ in range(3):
        terminal.paste("a long text " * 80_000)
        terminal.keys("enter")
    terminal.keys("ctrl+q")
    assert terminal.ended(30) == 0
    assert terminal.restored()


PRESSED = (
    *map(chr, range(32, 127)), *map(chr, (1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25)),
    *("\r", "\x1b", "\x7f", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[Z", "\x1b[5~", "\x1b[6~", "\x1b[3~", "\x1b[H") * 3,
    *(f"\x1bO{key}" for key in "PQRS"), *(f"\x1b[{key}~" for key in (15, 17, 18, 19, 20, 21, 23, 24)),
    "\x1b[<0;60;20M\x1b[<0;60;20m", "\x1b[<0;2;38M\x1b[<0;2;38m\x1b[<0;2;38M\x1b[<0;2;38m", "\x1b[<64;40;9M",
    "\x1b[<999;0;99999m",
    "\x1b[200~pasted\rtext\x1b[201~", "\x1b[M\0\0\0", "\x1b]11;rgb:zz/0/0\x07", "\x1b[9999999u", "\x1bP1$r0m\x1b\\",
    "é", "👩\u200d🌾", "\x1b\r",
)  # fmt: skip


@pytest.mark.parametrize("opened", ["", "/walks 4 Name a colour", "/beams 3 Name a colour", "/learn", "\x1bOR", "\x07"])
def test_whatever_is_pressed_it_goes_on_and_quits(open_terminal: Open, opened: str) -> None:
    """In every view. Where what is pressed quits, it does that in good order."""
    terminal, dice = open_terminal(*FLAGS, "--max-tokens", "30", EDITOR="true"), Random(len(opened))
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("Hello", "enter")
    terminal.wait(lambda: terminal.is_ready and "seed 1" in terminal.text)
    terminal.keys(opened, *(["\x1b", "enter"] if opened.startswith("/") else []))
    terminal.take = lambda _: None  # type: ignore[method-assign]  # nobody looks at the screen
    for _ in range(60):
        if terminal.process.poll() is None:
            os.write(terminal.keyboard, "".join(dice.choices(PRESSED, k=dice.choice((1, 1, 2, 4, 8)))).encode())
        if dice.random() < 0.1 and terminal.process.poll() is None:
            terminal.resize(*dice.choice(((20, 5), (1, 1), (120, 40), (80, 24), (300, 90))))
        terminal.read(dice.choice((0, 0.02, 0.1)))
    for key in (*["\x1b"] * 5, "\x11", "\x11"):
        if terminal.process.poll() is None:
            os.write(terminal.keyboard, key.encode())
            terminal.settle(0.2)
    code = terminal.ended(60)
    assert (code, terminal.output[-8000:] if code else b"") == (0, b"")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/null"])
def test_without_stderr_it_draws_on_stdout(open_terminal: Open, closed: str) -> None:
    line = f"import os; os.execvp('sh', ['sh', '-c', 'exec {sys.executable} -m termchat {' '.join(FLAGS)} {closed}'])"
    terminal = open_terminal(program=("-c", line))
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
