"""A reply that is being written: what is drawn stays, unless the Markdown itself makes it something else."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from termchat.decoding.constraint import Constraint
from termchat.tui.transcript.chunks import Splitter, close_marks, complete_table
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.markdown import ChunkBlock
from tests.tui.transcripts import PROSE, chat_of, finished, settings_record, source_of, start, token

WIDTH = 60


def drawn(text: str, *, done: bool = False) -> list[str]:
    """The lines of a reply that has come so far."""
    splitter, lines, source = Splitter(), list[str](), source_of(text)
    splitter.feed(text)
    blocks = [ChunkBlock(source, chunk) for chunk in splitter.finished()]
    blocks += [ChunkBlock(source, chunk, open=not done) for chunk in splitter.open(done=done)]
    for block in blocks:
        block.lay(WIDTH)
        lines += [line.text.rstrip() for line in block.lines]
    return lines


@pytest.mark.parametrize(
    "text",
    [
        f"# A *fox* project\n\n{PROSE * 3}\n\n## And `more`\n\n{PROSE}",
        "Steps:\n\n1. Make **an environment** now\n   - `python -m venv`\n   - then *activate* it\n2. [ ] Write it\n- [x] done",
        "```python\ndef f(x):\n    return x ** 2\n```\n\nDone, with ***all of it*** and ~~some~~ of `it`.",
        "> A bear **met** the fox\n> in the woods.\n\nSee [the guide](https://example.org/g) for _more of that_.",
        "Text\n\n$$\n\\int_0^1 x^2\n+ a_1\n$$\n\nmore",
    ],
    ids=["prose", "list", "code", "quote", "mathematics"],
)
def test_lines_that_are_drawn_stay(text: str) -> None:
    before: list[str] = []
    for end in range(1, len(text) + 1):
        now = drawn(text[:end])
        # The newest word may go to the next line, and with it what stands on the last two lines.
        assert now[: max(len(before) - 2, 0)] == before[:-2], text[:end]
        assert len(now) >= len(before) - 1, text[:end]
        before = now
    assert drawn(text, done=True) == before


def test_signs_of_emphasis_are_not_seen_before_what_they_emphasise_is_whole() -> None:
    text = "one **two three** and *four five* or ***six*** `seven` ~~eight~~ __nine__ end"
    for end in range(1, len(text) + 1):
        assert not set("*`~_") & set("".join(drawn(text[:end]))), text[:end]


def test_a_table_is_one_from_its_first_bar_on() -> None:
    text = "| animal | legs |\n|:---|---:|\n| fox | 4 |\n| bear | 4 |\n"
    for end in range(3, len(text) + 1):
        assert "|" not in "".join(drawn(text[:end])), text[:end]
    assert drawn(text[:18]) == drawn(text[:24]) == ["animal │ legs", "───────┼─────"]


@pytest.mark.parametrize("text", ["|x| is a value", "| a | b |\nno table"])
def test_what_only_begins_like_a_table_is_text_in_the_end(text: str) -> None:
    assert drawn(text, done=True) == text.split("\n")


@pytest.mark.parametrize(
    ("source", "whole"),
    [
        ("a **b", "a **b**"),
        ("a **b*", "a **b**"),
        ("a ***b", "a ***b***"),
        ("a **b *c", "a **b *c***"),
        ("a **", "a"),
        ("2*3 and 4 * 5", "2*3 and 4 * 5"),
        ("snake_case_name", "snake_case_name"),
        ("- a **b\n- c", "- a **b\n- c"),
        ("| **a", "| **a**"),
        ("`a*b` *c", "`a*b` *c*"),
        ("[t](http://x", "[t](http://x)"),
        ("```\n**a", "```\n**a"),
    ],
)
def test_what_is_open_is_closed(source: str, whole: str) -> None:
    assert close_marks(source) == whole


def test_a_head_of_a_table_is_known_by_its_bars() -> None:
    assert complete_table("| a | b") == "| a | b|\n|-|-|\n"
    assert complete_table("a | b") is None
    assert complete_table("| a |\n| b |") is None


BOMBS = {
    "stars": "*" * 1500,
    "open emphasis": "*a _b **c __d " * 110,
    "brackets": "[" * 1500,
    "links": "[a](" * 400,
    "quotes": ">" * 1000 + " a",
    "nested lists": "\n".join(" " * (2 * depth) + "- a" for depth in range(50)),
    "backticks": "`a``b```c" * 150,
    "dollars": "$a $$b \\[c \\(d " * 90,
    "bars": "|" * 1500 + "\n" + "|-" * 700,
    "rules": "|a|\n" + "|:-" * 500,
    "tags": "<a <b <c" * 180,
    "combining": "e" + "\u0301" * 1500,
    "joiners": "👩\u200d" * 700,
    "flags": "🇩🇪" * 700,
    "references": "[^" + "a" * 1500,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_hostile_markdown_is_drawn_whole_within_its_width(text: str) -> None:
    for open_end in (True, False):
        lines = drawn(text, done=not open_end)
        assert len(lines) < 3000
        assert all(cell_len(line) <= WIDTH or line.lstrip("▎• ◦▪").strip() in ("a", "") for line in lines)


@pytest.mark.parametrize(
    "text", ["👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "1️⃣", "e\u0301", "नमस्ते", "ที่นี่", "漢字かな", "שלום", "مرحبا", "🏽", "👍🏽"]
)
def test_whatever_the_script_a_table_stays_straight(text: str) -> None:
    shown = drawn(f"| a | b |\n|---|---|\n| {text} | x |\n| {text * 9} | y |\n\n{text * 60}\n", done=True)
    bars = {cell_len(line[: line.index(bar)]) for line in shown for bar in "│┼" if bar in line}
    assert len(bars) == 1
    assert all(cell_len(line) <= WIDTH for line in shown)


def test_marks_that_turn_text_round_are_shown_and_letters_are_left() -> None:
    (line,) = drawn("שלום \u202eabc\u2066 \u200f עולם", done=True)
    assert line == "שלום <U+202E>abc<U+2066> <U+200F> עולם"


def test_a_reply_under_a_schema_is_drawn_as_the_json_that_it_is() -> None:
    text = '{\n  "list": [\n    1,\n    2\n  ],\n  "# no *heading*": "```"\n}'
    chat = chat_of("Go")
    node = chat.grow_node("assistant", parent=chat.leaf, at=0)
    node.add(start())
    node.add(msgspec.structs.replace(settings_record(0.8), constraint=Constraint("json_schema", "{}")))
    document = Document(WIDTH, "reading")
    document.show(chat, running=True)
    for step, character in enumerate(text):
        node.add(token(step, character))
        document.update(node.number)
        now = "\n".join(line.rstrip("▌ ") for line in bodies(document)[1:])
        assert now.rstrip() == text[: step + 1].rstrip()
    node.add(finished())
    document.update(node.number)
    assert bodies(document) == ["json", *text.split("\n")]
    free = Document(WIDTH, "reading")
    free.show(chat_of("Go", text), running=False)
    assert '{ "list": [ 1, 2' in " ".join(bodies(free))


def bodies(document: Document) -> list[str]:
    """The lines below the head of the last turn."""
    document.rows = 100
    document.show_end()
    lines = [line.text.rstrip() for y in range(document.height) if (line := document.line(y)) is not None]
    return lines[max(at for at, line in enumerate(lines) if line.startswith("smollm2")) + 1 :]
