"""Transcripts: Markdown that people read, JSON Lines that lose nothing, and files that are whole or not there."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import markdown_it
import pytest

from termchat.conversation import setting_changes
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.transcripts import export, jsonl, md
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Failed, Finished, Record, SettingsRecord, to_json
from termchat.decoding.samplers import Tuning
from termchat.text import sanitize
from tests.made_records import MODEL, add_all, finished, reply, settings, stream, user

INFO = Session("20261103-154210-ab12cd34", 1.7e9, 1.7e9 + 60, ModelRef("smollm2", "/home/me/m/a.gguf", MODEL), Tuning())


def markdown(chat: Conversation, info: Session) -> str:
    return "".join(line + "\n" for line in md.lines(chat, info, lambda _: []))


class Recorded:
    """A conversation and the records of its replies."""

    def __init__(self, **kind: Any) -> None:
        self.chat = Conversation(**kind)
        self.records: dict[int, list[Record]] = {}

    def say(self, text: str, pieces: list[bytes], **kind: Any) -> Recorded:
        user(self.chat, text, [1, 2, 3])
        return self.answer(pieces, **kind)

    def answer(self, pieces: list[bytes], **kind: Any) -> Recorded:
        node = reply(self.chat)
        self.records[node.number] = stream(self.chat.ids_before(node.number), pieces, **kind)
        add_all(node, self.records[node.number])
        return self

    def of(self, number: int) -> list[Record]:
        return self.records[number]

    def markdown(self) -> str:
        return markdown(self.chat, INFO)


# --- what changed ----------------------------------------------------------------------------------------------------


def test_changes_are_told_in_the_knobs_own_words() -> None:
    before = settings(0, temperature=0.8, top_k=40, stops=("\n6.",))
    after = settings(1, temperature=1.2, top_k=0, max_tokens=512, threads=1)
    assert setting_changes.describe_changes(before, after) == [
        "top_k 40 → off",
        "temperature 0.8 → 1.2",
        'stop "\\n6." → off',
        "max_tokens off → 512",
    ]
    assert setting_changes.describe_changes(before, before) == []
    assert setting_changes.describe_changes(settings(0, threads=2), settings(1, threads=1)) == []


def test_only_knobs_that_do_something_are_in_force() -> None:
    assert setting_changes.in_force(
        settings(0, min_p=0.0, top_p=1.0, temperature=1.0, max_tokens=9, stops=("a", "b"))
    ) == [
        "top_k 40",
        "temperature 1.0",
        'stop "a" "b"',
        "max_tokens 9",
    ]


def test_stamps_say_after_how_many_tokens() -> None:
    turned = {2: settings(1, temperature=1.2), 3: settings(2, temperature=1.2, threads=1)}
    recorded = Recorded().say("hi", [b"a"] * 4, turned=turned)
    node = recorded.chat.nodes[2]
    assert list(setting_changes.list_stamps(node)) == [
        (2, "temperature 0.8 → 1.2 at token 2"),  # and nothing of the threads, which the engine changed by itself
    ]
    assert next(text for _, text in setting_changes.list_stamps(node, 10)) == "temperature 0.8 → 1.2 at token 12"


# --- Markdown --------------------------------------------------------------------------------------------------------


def test_markdown_is_the_chat_as_it_was_read() -> None:
    recorded = Recorded(system="Be brief.").say("Write\na story", [b"Once", b" upon", b" a time"], seed=42)
    recorded.chat.title = "fox and\nbear"
    recorded.say("and then?", [b"**bold** ", b"end"], seed=7)
    text = recorded.markdown()
    lines = text.splitlines()
    assert lines[0] == "# fox and bear"
    assert "- model: smollm2 (llama, Q4_1, SmolLM2-135M-Instruct.Q4_1.gguf)" in lines
    assert any(line.startswith("- date: 2023-11-1") for line in lines)
    assert "/home/me" not in text
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == ["## System", "## You", "## smollm2", "## You", "## smollm2"]
    assert (
        "## System\n\nBe brief.\n\n## You\n\nWrite  \na story\n\n## smollm2\n\nOnce upon a time\n\n*seed 42 · " in text
    )
    assert "**bold** end" in text
    assert "temperature 0.8 · 3 tokens*" in text
    assert "*seed 7 ·" in text
    assert text.endswith("*\n")


def test_a_change_stands_where_it_was_made() -> None:
    recorded = Recorded().say("hi", [b"He", b" was", b" old"], turned={2: settings(1, temperature=1.2, top_k=5)})
    assert "He was⟦top_k 40 → 5, temperature 0.8 → 1.2 at token 2⟧ old\n" in recorded.markdown()


def test_a_continued_reply_is_one_turn_with_its_changes_counted_through() -> None:
    recorded = Recorded().say("hi", [b"one", b" two"], reason="user")
    node = recorded.chat.grow_node("assistant", parent=2, at=2)
    add_all(node, stream([], [b" three", b" four"], turned={0: settings(1, temperature=1.1), 1: settings(2, top_k=9)}))
    text = recorded.markdown()
    assert (
        "one two⟦temperature 0.8 → 1.1 at token 2⟧ three⟦top_k 40 → 9, temperature 1.1 → 0.8 at token 3⟧ four\n" in text
    )
    assert text.count("## ") == 2
    assert text.count("*seed 42") == 2
    assert "stopped by the user" in text


def test_a_knob_turned_between_two_pieces_is_marked_at_the_join() -> None:
    recorded = Recorded().say("hi", [b"one"], reason="user")
    node = recorded.chat.grow_node("assistant", parent=2, at=1)
    records = stream([], [b" two"])
    records[1] = settings(0, temperature=0.0)
    add_all(node, records)
    assert "one⟦temperature 0.8 → 0.0 at token 1⟧ two\n" in recorded.markdown()


def test_what_was_cut_off_by_a_later_turn_is_not_in_the_chat() -> None:
    recorded = Recorded().say("hi", [b"one", b" two", b" three"], turned={2: settings(1, temperature=1.2)})
    recorded.chat.grow_node("user", parent=2, at=2, text="stop there")
    text = recorded.markdown()
    assert "one two\n" in text
    assert "1.2" not in text


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (finished("length", "max_tokens 64"), "cut at max_tokens 64"),
        (finished("stop", "\n6.", "\n6."), 'ended by stop sequence "\\n6."'),
        (finished("user"), "stopped by the user"),
        (finished("context", "2048 of 2048"), "context full, 2048 of 2048 tokens"),
        (Failed("engine", "the engine\ndied\x1b[0m"), "failed: the engine died␛[0m"),
        (None, "unfinished"),
    ],
)
def test_the_end_of_a_reply_is_told_if_it_is_not_the_usual(end: Finished | Failed | None, said: str) -> None:
    recorded = Recorded().say("hi", [b"x"], reason=None)
    if end is not None:
        recorded.chat.nodes[2].add(end)
    line = recorded.markdown().splitlines()[-1]
    assert line.endswith(f"1 token · {said}*")
    usual = Recorded().say("hi", [b"x"]).markdown().splitlines()[-1]
    assert usual.endswith("1 token*")


def test_foreign_text_cannot_steer_a_terminal() -> None:
    evil = "a\x1b]52;c;aGk=\x07\x9b31m\u202eb\r\x00"
    recorded = Recorded(system=evil).say(evil, [evil.encode()], reason=None)
    recorded.chat.title = evil
    recorded.chat.nodes[2].add(Failed("x", evil))
    recorded.chat.nodes[2].settings[0] = settings(0, stops=(evil,))
    text = markdown(recorded.chat, Session(model=ModelRef(evil)))
    assert sanitize(text) == text
    assert text.count("␛]52;c;aGk=") >= 5


def test_a_fence_left_open_does_not_swallow_the_turns_after_it() -> None:
    recorded = Recorded().say("code", [b"```python\nx = '``", b"`'\n~~~\n"], reason="user")
    recorded.say("thanks", [b"````\n```\nstill\n````\nout"])
    tokens = markdown_it.MarkdownIt().parse(recorded.markdown())
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert headings == ["Chat", "You", "smollm2", "You", "smollm2"]
    fences = [token.content for token in tokens if token.type == "fence"]
    assert fences == ["x = '```'\n~~~\n", "```\nstill\n"]


def test_line_breaks_are_breaks_for_a_viewer_too() -> None:
    recorded = Recorded().say(
        "Dear Ann,\n# best\nBob", [b"Roses *are\nred*,\nviolets\\\nblue\n\n- a\n- b\n```\nx\ny\n```"]
    )
    html = markdown_it.MarkdownIt().render(recorded.markdown())
    for lines in (
        "<p>Dear Ann,</p>\n<h1>best</h1>\n<p>Bob</p>",
        "<p>Roses <em>are<br />\nred</em>,<br />\nviolets<br />\nblue</p>",
        "<li>a</li>\n<li>b</li>",
        "<code>x\ny\n</code>",
    ):
        assert lines in html


def test_an_empty_and_a_raw_chat_are_written_too() -> None:
    assert markdown(Conversation(), Session()).startswith("# Chat\n\n- model: unknown\n")
    assert "raw mode" in markdown(Conversation(raw=True), INFO)


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def test_json_lines_hold_the_whole_tree_and_every_record() -> None:
    recorded = Recorded(system="Ä\x1b").say("hi\u202e", ["é".encode(), b"\xff"], turned={1: settings(1, top_k=1)})
    recorded.say("more", [b"x"])
    again = recorded.chat.grow_node("assistant", parent=1, at=3)
    recorded.records[5] = stream([1, 2, 3], [b"y"])
    add_all(again, recorded.records[5])
    lines = list(jsonl.lines(recorded.chat, INFO, recorded.of))
    assert all(line.isascii() and line.isprintable() for line in lines)
    header, *rest = [json.loads(line) for line in lines]
    assert header["record"] == "session"
    assert (header["version"], header["format"], header["id"], header["leaf"]) == (1, 1, INFO.id, 5)
    assert (header["system"], header["raw"], header["created"]) == ("Ä\x1b", False, "2023-11-14T22:13:20+00:00")
    assert header["model"]["path"] == "a.gguf"
    assert header["model"]["identity"]["sha256"] == MODEL.sha256
    assert header["tuning"]["temperature"] == 0.8

    nodes = [line for line in rest if line["record"] == "node"]
    assert [(n["number"], n["parent"], n["at"], n["role"]) for n in nodes] == [
        (1, None, 0, "user"),
        (2, 1, 3, "assistant"),
        (3, 2, 2, "user"),
        (4, 3, 3, "assistant"),
        (5, 1, 3, "assistant"),
    ]
    assert (nodes[0]["text"], nodes[0]["ids"]) == ("hi\u202e", [1, 2, 3])
    assert nodes[1]["ids"] == [1000, 1001]
    expected: list[str] = []
    for number in (1, 2, 3, 4, 5):
        expected.append("node")
        expected += [json.loads(to_json(record))["record"] for record in recorded.records.get(number, [])]
    assert [line["record"] for line in rest] == expected
    assert [json.dumps(line, separators=(",", ":")) for line in rest if line["record"] != "node"] == [
        to_json(record) for number in (2, 4, 5) for record in recorded.of(number)
    ]
    tokens = [line for line in rest if line["record"] == "token"]
    assert b"".join(base64.b64decode(token["bytes"]) for token in tokens[:2]) == "é".encode() + b"\xff"
    starts = [line for line in rest if line["record"] == "start"]
    assert starts[1]["prompt_ids"] == [1, 2, 3, 1000, 1001, 1, 2, 3]


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_suffix_picks_the_format(tmp_path: Path) -> None:
    recorded = Recorded().say("hi", ["é".encode()])
    written = export.write(tmp_path / "a.MD", recorded.chat, INFO, recorded.of)
    assert written.read_text("utf-8") == recorded.markdown()
    written = export.write(tmp_path / "a.jsonl", recorded.chat, INFO, recorded.of)
    expected = list(jsonl.lines(recorded.chat, INFO, recorded.of))
    assert written.read_text("utf-8").splitlines() == expected
    assert stat.S_IMODE(written.stat().st_mode) & 0o077 == 0
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.MD", "a.jsonl"]


def test_home_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert export.write(Path("~/chat.md"), Conversation(), INFO, lambda _: []) == tmp_path / "chat.md"


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to(tmp_path / "real.md")
    export.write(tmp_path / "link.md", Conversation(), INFO, lambda _: [])
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text().startswith("# Chat")


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        (".", "is a folder", "chat.md"),
        ("chat.txt", "chat.txt has no known transcript extension", "Use .md, .html, .jsonl, "),
        ("chat", "chat has no known transcript extension", "or .csv."),
        ("no/where/chat.md", "does not exist", "Create it first"),
        ("nul\0.md", "cannot be written: ", "Choose another location."),
        ("x" * 300 + ".md", "cannot be written: File name too long", "Choose another location."),
    ],
)
def test_a_place_that_will_not_do_is_told_with_what_to_do(tmp_path: Path, name: str, said: str, hint: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        export.write(tmp_path / name, Conversation(), INFO, lambda _: [])
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message or "extension" in said
    assert hint in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_no_permission_is_told() -> None:
    code = """
import os, sys
from pathlib import Path
from termchat.conversation import session, tree
from termchat.conversation.transcripts import export, md, transcript  # the other user may not read our code
folder = Path(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write anywhere
try:
    export.write(folder / "chat.md", tree.Conversation(), session.Session(), lambda _: [])
except transcript.TranscriptError as error:
    print(error.message, "|", error.hint)
"""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
        os.chmod(folder, 0o755)
    assert done.stdout == f"permission denied: {folder}/chat.md | Choose a folder you can write to.\n"


def test_an_old_transcript_survives_a_write_that_fails(tmp_path: Path) -> None:
    recorded = Recorded().say("hi", [b"x"])
    (tmp_path / "a.jsonl").write_text("old")

    def failing(_: int) -> Iterator[Record]:
        yield SettingsRecord(0, settings().samplers, (), {})
        raise OSError(5, "Input/output error")

    with pytest.raises(TranscriptError, match="Input/output error"):
        export.write(tmp_path / "a.jsonl", recorded.chat, INFO, failing)
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a.jsonl", "old")]
