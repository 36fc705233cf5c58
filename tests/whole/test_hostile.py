"""Foreign text never steers the terminal: no byte of an attack arrives raw, and a person sees a mark."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from termchat.conversation.session import ModelRef
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.conditions import TextGate
from termchat.decoding.records import Candidate, Finished, ModelIdentity, Prefill, SettingsRecord, Stage, Start, Token
from termchat.decoding.samplers import SamplerSettings
from tests.attacked_model import LOOPS, REFUSES, attacked
from tests.attacks import BYTES, CONTROLS, FLOODS, MARKDOWN, MARKUP, outside_the_grammar
from tests.whole.chat_steps import Open, over
from tests.whole.terminal import Terminal, environment

QUICK = ("--context", "2048", "--threads", "1")
ALL = " ".join(CONTROLS.values())
F3, F4 = "\x1bOR", "\x1bOS"
SAID = ("\x1b]0;owned\x07 \x9b31m\x90 \u202egnp \u200b\U000e0041 \x1bP", "[@click=app.quit]x[/] [red]red[/red]")
NAMED = CONTROLS["title"] + CONTROLS["C1 CSI"] + CONTROLS["bidi override"]


def clean(terminal: Terminal) -> None:
    """Nothing came but text and what Textual itself writes."""
    found = outside_the_grammar(bytes(terminal.output))
    assert not found, found[:5]


def token(step: int, data: bytes, text: str) -> Token:
    candidates = [Candidate(i, attack, 1.0, -1.0, 0.1, 0.0, None) for i, attack in enumerate(CONTROLS.values())]
    stages = [Stage("penalties", 9), Stage("dice", 1)]
    return Token(
        step, 3 + step, 1, data, text, 1.0, -1.0, 0, 0.5, 1.0, 0.0, 0, False, stages, candidates[:20], {}, 10, 1
    )


def hostile_chat(home: Path) -> None:
    """A saved chat whose every text is an attack; those that steer come a byte a token, cut within characters too."""
    store = Store.open(home / "data" / "termchat" / "sessions.db")
    conversation = Conversation("system " + ALL)
    conversation.title = ALL
    name = "model" + CONTROLS["title"] + CONTROLS["bidi override"]
    session = store.begin(conversation, model=ModelRef(name, f"/nowhere/{name}.gguf"))
    identity = ModelIdentity(name, name, "", name, name)
    parent, at = None, 0
    code = "\n```" + CONTROLS["title"] + "\n" + ALL + "\n```\n# " + CONTROLS["clipboard"] + "\n"
    said = [
        "said: " + ALL + code + "\n\n".join(MARKUP.values()),
        "\n\n".join(FLOODS.values()),
        "\n\n".join(MARKDOWN.values()),
    ]
    for number, text in enumerate(said):
        turn = conversation.grow_node("user", parent=parent, at=at, text="typed: " + ALL + text)
        turn.prompt_ids = array("i", [1, 2, 3])
        store.add_node(session, turn)
        reply = conversation.grow_node("assistant", parent=turn.number, at=3)
        store.add_node(session, reply)
        data = text.encode() + (b" ".join(BYTES.values()) if number == 0 else b"")
        size = 1 if number == 0 else 200
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        gate = TextGate(())
        stream: list[object] = [
            Start(1, "0", "0", identity, [1, 2, 3], False, 1, 1, 1, 1, 63, "f16", True),
            SettingsRecord(0, SamplerSettings(), (), {}),
            Prefill(3, 0, [2, 1], 1.0),
            *(token(step, piece, gate.push_bytes(piece)) for step, piece in enumerate(pieces)),
            Finished("stop", CONTROLS["title"], ALL, len(pieces), 1.0, 1.0, 1.0, 1.0),
        ]
        for record in stream:
            reply.add(record)  # type: ignore[arg-type]
            store.add_record(session, reply.number, record)  # type: ignore[arg-type]
        parent, at = reply.number, len(pieces)
    assert store.close()


def hostile_config(home: Path) -> Path:
    """A file of settings that is read, in which names and values are attacks: escaped, and as they are where that is TOML."""
    path = home / "config" / "termchat" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    named, every = ('"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"' for text in (NAMED, ALL))
    path.write_text(
        f"theme = {named}\n{named} = 1\nsystem = {every}\nmodel_folders = [{named}]\n"
        f"[sampling]\ntemperature = {named}\nstop = [{named}]\n'{CONTROLS['C1 OSC']}\u202e' = 2\n"
        f"[other.{named}]\nx = {named}\n",
        "utf-8",
    )
    return path


def walk(terminal: Terminal) -> None:
    """Looks at everything there is to see of a chat."""
    terminal.wait(lambda: terminal.is_ready)
    for keys in (("ctrl+l",), ("ctrl+home",), ("ctrl+l", "ctrl+end"), ("pageup",)):
        terminal.keys(*keys)
        terminal.settle(0.1)
    for key in (
        "ctrl+g",
        "g",
        "l",
        "o",
        "y",
        "esc",
        "p",
        "esc",
        "b",
        "esc",
        "esc",
        "ctrl+s",
        "esc",
        "ctrl+p",
        "esc",
        F3,
        "esc",
        F4,
        "owned",
        "esc",
        "esc",
    ):
        terminal.keys(key)
        terminal.settle(0.1)


def test_a_saved_chat_of_attacks_is_shown_with_marks(open_terminal: Open, tmp_path: Path) -> None:
    hostile_chat(tmp_path)
    hostile_config(tmp_path)
    terminal = open_terminal("--resume", *QUICK, columns=160, rows=50)
    walk(terminal)
    terminal.resize(80, 24)
    terminal.settle(0.2)
    assert "␛".encode() in terminal.output
    assert b"<U+202E>" in terminal.output
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    clean(terminal)


def test_what_is_typed_pasted_and_said_by_the_model_is_shown_with_marks_and_copied_as_it_is(
    open_terminal: Open, tmp_path: Path
) -> None:
    """The model says the attacks because it is made to: whatever it would say, its next tokens are those of a text."""
    terminal = open_terminal(*QUICK, "--max-tokens", "40", "--seed", "1")
    terminal.wait(lambda: terminal.is_ready)
    pasted = "look: " + re.sub("[\x00\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", "", ALL)  # without line breaks of any kind
    terminal.paste(pasted)
    terminal.settle()
    # Shift+Up selects to the beginning, row by row; what is copied is the text itself.
    terminal.keys(*["\x1b[1;2A"] * 20, "ctrl+c")
    terminal.wait(lambda: b"\x1b]52;c;" in terminal.output)
    terminal.settle(0.2)
    copied = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", bytes(terminal.output))
    assert base64.b64decode(copied[-1]).decode() == pasted
    terminal.keys("enter")
    terminal.wait(lambda: over(tmp_path) == 1 and terminal.is_ready)
    for replies, attack in enumerate(SAID, 2):
        terminal.keys("ctrl+g")
        terminal.wait("hjkl move")
        terminal.keys("g", "t")
        terminal.wait("Enter accept")
        terminal.paste(attack)
        terminal.settle(0.2)
        terminal.keys("enter")
        terminal.wait(lambda replies=replies: over(tmp_path) == replies and terminal.is_ready)
        terminal.settle()
        terminal.keys("ctrl+l", "ctrl+l", "esc", "ctrl+end")
        terminal.settle(0.2)
    file = tmp_path / f"saved{NAMED}.md"
    terminal.keys("ctrl+s")
    terminal.wait("Save transcript")
    terminal.keys("ctrl+a", "ctrl+k")
    for path, said in (
        (f"~{NAMED}/chat.md", "home"),
        ("/nowhere/" + NAMED * 9 + ".md", "the folder"),
        (str(file), "saved "),
    ):
        terminal.keys("ctrl+a", "ctrl+k")
        terminal.paste(path)
        terminal.settle(0.2)
        terminal.keys("enter")
        terminal.wait(said)
    terminal.wait(file.exists)
    assert "[@click=app.quit]x[/] [red]red[/red]" in " ".join(line[:73].strip() for line in terminal.text.splitlines())
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    clean(terminal)
    assert "␛]0;owned␇".encode() in re.sub(rb"\x1b\[[0-9;]*m", b"", bytes(terminal.output))


@pytest.fixture(scope="module")
def hostile_model(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return attacked(model_path, tmp_path_factory.mktemp("models"))


def test_a_model_file_of_attacks_chats_and_its_template_is_refused_with_the_app_alive(
    open_terminal: Open, tmp_path: Path, hostile_model: Path
) -> None:
    folder = str(hostile_model.parent)
    terminal = open_terminal(*QUICK, "--max-tokens", "12", "--model", str(hostile_model), "--model-folders", folder)
    terminal.wait(lambda: terminal.is_ready)
    for message, answer in ((REFUSES, "refuses the chat"), (LOOPS, "took longer than")):
        terminal.keys("ctrl+a", "ctrl+k", message, "enter")
        terminal.wait(answer)
        terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+a", "ctrl+k", "Hello", "enter")
    terminal.wait(lambda: over(tmp_path) == 1 and terminal.is_ready)
    terminal.keys(F3)
    terminal.wait("owned␇")
    terminal.keys("esc", "ctrl+g", "h", "p", "esc", "esc")
    terminal.settle()
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    clean(terminal)


MARKS = "\N{SYMBOL FOR ESCAPE}|\N{REPLACEMENT CHARACTER}|<9B>|x1b|u001b|u202e".encode()


def test_commands_on_a_terminal_write_marks(open_terminal: Open, tmp_path: Path, hostile_model: Path) -> None:
    folder, file = str(hostile_model.parent), str(hostile_model)
    transcript = tmp_path / f"chat{NAMED}.jsonl"
    lines = [{"record": "start", "version": 1, "model": {"name": NAMED, "path": NAMED}}, {"record": NAMED}]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    likeliest = ("--temperature", "0", "--max-tokens", "30", *QUICK)  # dice could choose words without the escape
    commands = [
        (("run", "--raw", "Once\x1bupon a time", "--model", file, *likeliest), {}),
        (("run", "x", "--model", "/nowhere/" + NAMED), {}),
        (("run", "x", "--temperature", NAMED), {}),
        (("run", "x", "--seed", "1", "--" + NAMED), {}),
        ((NAMED,), {}),
        (("doctor", "--theme", NAMED), {}),
        (("doctor", "--model-folders", folder, "--model", NAMED), {"TERMCHAT_SYSTEM": NAMED}),
        (("models", "list", "--model-folders", folder), {"TERMCHAT_TOP_K": NAMED}),
        (("models", "show", file), {"TERMCHAT_THREADS": NAMED}),
        (("models", "show", NAMED), {}),
        (("replay", str(transcript)), {}),
        (("replay", "/nowhere/" + NAMED), {}),
    ]
    for args, variables in commands:
        terminal = open_terminal(*args, **variables)
        terminal.ended(60)
        found = outside_the_grammar(bytes(terminal.output).replace(b"\r\n", b"\n"))
        assert not found, (args, found[:3])
        assert re.search(MARKS, bytes(terminal.output)), args


COMMANDS = """
import json, pathlib, sys
from termchat.cli import main
config = pathlib.Path(sys.argv[1])
for number, (content, words) in enumerate(json.loads(sys.argv[2])):
    print(f"\\n=== {number}", flush=True)
    if content:
        config.write_bytes(bytes.fromhex(content))
    try:
        main(words, "termchat")
    except SystemExit:
        pass
"""


def test_chats_that_are_taken_in_and_settings_that_are_read_are_told_with_marks(
    open_terminal: Open, tmp_path: Path
) -> None:
    """All of it by one process: a command after the other, on a terminal."""
    hostile_chat(tmp_path)
    attack = ALL + "\n".join(MARKUP.values())
    turns = [("user", "human", attack), ("assistant", "gpt", "red " + attack)]
    files = {
        "openai": {"messages": [{"role": role, "content": text} for role, _, text in turns], "model": NAMED},
        "sharegpt": {"conversations": [{"from": speaker, "value": text} for _, speaker, text in turns]},
        "role": {"messages": [{"role": NAMED, "content": "x"}]},
        "part": {"messages": [{"role": "user", "content": [{"type": NAMED}]}]},
        "speaker": {"conversations": [{"from": NAMED, "value": "x"}]},
        "unknown": {NAMED: NAMED},
    }
    paths = []
    for name, content in files.items():
        paths.append(str(tmp_path / f"{name}{NAMED}.json"))
        Path(paths[-1]).write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    for name, data in (("raw", json.dumps(ALL).encode() + ALL.encode()), ("bytes", b"{" + b"".join(BYTES.values()))):
        paths.append(str(tmp_path / f"{name}{NAMED}.jsonl"))
        Path(paths[-1]).write_bytes(data)
    ours = str(tmp_path / f"ours{NAMED}.jsonl")
    config = hostile_config(tmp_path)
    settings = [
        config.read_bytes(), b"theme = '" + ALL.encode() + b"'\n", b"theme = '" + b"".join(BYTES.values()) + b"'\n",
    ]  # fmt: skip
    commands = [
        *((content.hex(), ["doctor"]) for content in settings),
        (b"\n".hex(), ["sessions", "export", "last", "-o", ours]),
        *(("", ["sessions", *words]) for words in (
            ["export", "last", "--format", "csv"],  # what is taken in without dates is the last from then on
            ["import", *paths, ours], ["import", "/nowhere/" + NAMED], ["import", "--format", NAMED, ours],
            ["list"], ["search", "red"], ["search", NAMED], ["show", "last"], ["show", NAMED],
            *(["export", "last", "--format", form] for form in ("md", "html", "openai", "sharegpt")),
            ["export", "last", "-o", "/nowhere/" + NAMED], ["export", "last", "-o", NAMED],
            ["rename", "last", NAMED], ["list"], ["rm", NAMED], ["rm", "last"], ["list", "--deleted"], ["restore", NAMED],
        )),
    ]  # fmt: skip
    terminal = open_terminal(str(config), json.dumps(commands), program=("-c", COMMANDS), columns=200)
    terminal.take = lambda _: None  # type: ignore[method-assign]  # nobody looks at the screen
    assert terminal.ended(120) == 0
    told = re.split(rb"\n=== \d+\n", bytes(terminal.output).replace(b"\r\n", b"\n"))[1:]
    assert len(told) == len(commands)
    for (_, words), said in zip(commands, told, strict=True):
        found = outside_the_grammar(said)
        assert not found, (words, found[:3])
    silent = [words for (_, words), said in zip(commands, told, strict=True) if not re.search(MARKS, said)]
    nothing_to_mark = (["search", NAMED], ["rename", "last", NAMED], ["rm", "last"])
    assert silent == [
        ["doctor"],
        *(["sessions", *words] for words in nothing_to_mark),
    ]  # of what is no UTF-8 it says where


def test_json_is_ascii_without_controls(tmp_path: Path, hostile_model: Path) -> None:
    for args in (
        ("run", "--json", "--raw", "Once\x1bupon a time", "--model", str(hostile_model), "--max-tokens", "12", *QUICK),
        ("run", "--json", "x", "--model", "/nowhere/" + NAMED),
        ("models", "list", "--json", "--model-folders", str(hostile_model.parent)),
        ("models", "show", "--json", str(hostile_model)),
        ("doctor", "--json", "--model", NAMED),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "termchat", *args], capture_output=True, env=environment(tmp_path, {}), timeout=120,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.stdout, (args, done.stderr[-300:])
        assert re.fullmatch(rb"[\n -~]*", done.stdout), args
        for line in done.stdout.splitlines() if "run" in args else (done.stdout,):
            json.loads(line)


def test_the_program_survives_a_terminal_that_answers_nonsense(open_terminal: Open) -> None:
    """What comes from the terminal is foreign too: invalid UTF-8, NUL, answers nobody asked for, halves of sequences."""
    terminal = open_terminal(*QUICK)
    terminal.wait(lambda: terminal.is_ready)
    for data in (
        b"\xff\xfe\xc3",
        b"\x00\x00",
        b"\x1b]11;rgb:zz\x1b\\",
        b"\x1b[999999;999999R",
        b"\x1bP1$r0m\x1b\\",
        b"\x9b31m",
    ):
        os.write(terminal.keyboard, data)
        terminal.settle(0.1)
    terminal.keys("esc", "ctrl+a", "ctrl+k", "still here")
    terminal.wait("still here")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    clean(terminal)
