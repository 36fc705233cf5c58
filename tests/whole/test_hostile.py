"""Foreign text never steers the terminal: no byte of an attack arrives raw, and a person sees a mark."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

from termchat.conversation.session import ModelRef
from termchat.conversation.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Candidate, Finished, ModelIdentity, Prefill, Settings, Stage, Start, Token
from termchat.decoding.samplers import SamplerSettings
from tests.whole.terminal import Terminal

ATTACKS = [
    "\x1b]0;owned\x07", "\x1b]52;c;b3duZWQ=\x07", "\x1b[2J\x1b[31mred", "\x1b]8;;http://owned\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31mc1", "\x90owned\x9c", "\x1bPowned\x1b\\", "\u202egnp.exe\u2066", "a\u200bb\ufeff",
    "[red]markup[/red]", "\x07\x08\x7f",
]  # fmt: skip
RAW = [
    b"owned\x07", b"\x1b]52", b"\x1b]0;", b"\x1b]8;", b"\x1bP", b"\xc2\x9b", b"\xc2\x90", b"\x07", b"\x08",
    "\u202e".encode(), "\u2066".encode(), "\u200b".encode(), "\ufeff".encode(), b"\x7f",
]  # fmt: skip


def hostile_chat(home: Path) -> None:
    """A chat whose every text is an attack, split over tokens in the middle."""
    store = Store.open(home / "data" / "termchat" / "sessions.db")
    conversation = Conversation("system " + "".join(ATTACKS))
    conversation.title = "".join(ATTACKS)
    name = "model\x1b]0;owned\x07"
    session = store.begin(conversation, model=ModelRef(name, f"/nowhere/{name}.gguf"))
    turn = conversation.grow("user", parent=None, at=0, text="typed: " + " ".join(ATTACKS))
    turn.prompt_ids = array("i", [1, 2, 3])
    store.add_node(session, turn)
    reply = conversation.grow("assistant", parent=1, at=3)
    store.add_node(session, reply)
    identity = ModelIdentity(name, name, "", name, name)
    text = "said: " + " ".join(ATTACKS) + "\n```" + ATTACKS[0] + "\n" + ATTACKS[2] + "\n```\n# " + ATTACKS[1]
    stream: list[object] = [
        Start(1, "0", "0", identity, [1, 2, 3], False, 1, 1, 1, 1, 63, "f16", True),
        Settings(0, SamplerSettings(), (), {}),
        Prefill(3, 0, [2, 1], 1.0),
    ]
    stages = [Stage("penalties", 9), Stage("dice", 1)]
    for step, c in enumerate(text):
        candidates = [Candidate(i, attack, 1.0, -1.0, 0.1, 0.0, None) for i, attack in enumerate(ATTACKS)]
        stream.append(
            Token(
                step,
                3 + step,
                1,
                c.encode(),
                c,
                1.0,
                -1.0,
                0,
                0.5,
                1.0,
                0.0,
                0,
                False,
                stages,
                candidates,
                {},
                10,
                1,
            )
        )
    stream.append(Finished("stop", ATTACKS[0], ATTACKS[1], len(text), 1.0, 1.0, 1.0, 1.0))
    for record in stream:
        reply.add(record)  # type: ignore[arg-type]
        store.add_record(session, reply.number, record)  # type: ignore[arg-type]
    assert store.close()


def test_a_hostile_chat_is_shown_with_marks(open_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    hostile_chat(tmp_path)
    for columns, rows in ((120, 40), (80, 24)):
        terminal = open_terminal("--resume", "--context", "2048", "--threads", "1", columns=columns, rows=rows)
        terminal.wait("ready")
        terminal.keys("ctrl+l")
        terminal.settle()
        terminal.keys("ctrl+l", "pageup", "pageup", "ctrl+s")
        terminal.settle()
        terminal.keys("esc", "ctrl+p")
        terminal.settle()
        terminal.keys("esc")
        terminal.settle()
        assert "␛" in terminal.text or "␛".encode() in terminal.output
        assert b"<U+202E>" in terminal.output
        assert b"[red]markup[/red]" in terminal.output.replace(b"\x1b", b"")
        for attack in RAW:
            assert attack not in terminal.foreign, attack
        terminal.keys("ctrl+q")
        assert terminal.ended() == 0


def test_what_a_user_pastes_is_shown_with_marks(open_terminal: Callable[..., Terminal]) -> None:
    terminal = open_terminal("--context", "2048", "--threads", "1", "--max-tokens", "8")
    terminal.wait("ready")
    terminal.paste("look: \u202egnp.exe \x9b31m \x07 bell")
    terminal.settle()
    terminal.keys("enter")
    terminal.wait("max_tokens 8")
    for attack in ("\u202e".encode(), b"\xc2\x9b", b"\x07"):
        assert attack not in terminal.foreign, attack
    assert "<U+202E>" in terminal.text
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def test_what_the_model_says_is_shown_with_marks(open_terminal: Callable[..., Terminal]) -> None:
    """Raw mode, greedy: after enough of the pattern the model goes on with ESC itself."""
    terminal = open_terminal("--raw", "--temperature", "0", "--context", "2048", "--threads", "1", "--max-tokens", "40")
    terminal.wait("ready")
    terminal.paste("\x9b31m a \x9b0m b " * 24)
    terminal.settle()
    terminal.keys("enter")
    terminal.wait("max_tokens 40")
    assert b"\xc2\x9b" not in terminal.foreign
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
