"""Thoughts in each transcript: apart from the answer, or marked."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec
import pytest

from termchat.conversation.thoughts import thoughts_of
from termchat.conversation.transcripts.jsonl_reader import read
from termchat.decoding.records import Record, Start, Token
from tests.formats.example_chats import ExampleChat
from tests.made_records import stream

PIECES = [b"<think>", b"\nHm", b"</think>", b"\n\n", b"Hello", b"!"]


@pytest.fixture
def chat() -> ExampleChat:
    """A reply whose first three tokens are thoughts."""
    made = ExampleChat()
    made.say("hi")
    made.reply([_thinking(record) for record in stream([1, 2, 3], PIECES)])
    return made


def _thinking(record: Record) -> Record:
    if isinstance(record, Start):
        return msgspec.structs.replace(record, thinking=("<think>", "</think>"))
    if isinstance(record, Token) and record.step < 3:
        return msgspec.structs.replace(record, phase="thinking" if record.step else None)
    return record


def test_messages_have_them_apart(chat: ExampleChat) -> None:
    said = json.loads("\n".join(chat.lines("openai")))["messages"][-1]
    assert said == {"role": "assistant", "content": "Hello!", "reasoning_content": "Hm"}
    said = json.loads("\n".join(chat.lines("sharegpt")))["conversations"][-1]
    assert said == {"from": "gpt", "value": "<think>\nHm\n</think>\n\nHello!"}


def test_markdown_marks_where_they_begin_and_end(chat: ExampleChat) -> None:
    page = "\n".join(chat.lines("md"))
    begin, end, answer = page.index("⟦thinking⟧"), page.index("⟦thought for 3 tokens, 0.0 s⟧"), page.index("Hello!")
    assert begin < page.index("Hm") < end < answer
    assert "· thought for 3 tokens, 0.0 s" in page


def test_a_page_sets_them_off(chat: ExampleChat) -> None:
    page = "\n".join(chat.lines("html"))
    assert page.count(' th" data-n=') == 3
    assert ": thoughts</span>" in page


def test_a_table_has_the_phase_of_each_token(chat: ExampleChat) -> None:
    rows = list(csv.DictReader(chat.lines("csv")))
    assert [row["phase"] for row in rows] == ["", "thinking", "thinking", "answer", "answer", "answer"]


def test_our_own_lines_keep_them(chat: ExampleChat, tmp_path: Path) -> None:
    back = read(chat.write(tmp_path / "chat.jsonl", "jsonl")).conversation
    thoughts = thoughts_of(back.find_reply())
    assert thoughts is not None
    assert (thoughts.tokens, thoughts.text) == (3, "Hm")
