"""A person constrains replies with the real model: a schema, dropped in mid-reply, forked, and said again by replay."""

from __future__ import annotations

import json
import re
from pathlib import Path

from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.records import SettingsRecord, Token
from tests.whole.chat_steps import FLAGS, Open, over, ready, replayed, stop, stored

LIST = {
    "type": "object",
    "properties": {
        "numbers": {"type": "array", "minItems": 400, "items": {"type": "integer", "minimum": 0, "maximum": 99}}
    },
    "required": ["numbers"],
    "additionalProperties": False,
}
"""A reply that does not end by itself."""


def test_apply_a_schema_stream_drop_it_fork_and_replay(open_terminal: Open, tmp_path: Path) -> None:
    schema, pair = tmp_path / "numbers.json", tmp_path / "pair.json"
    schema.write_text(json.dumps(LIST))
    pair.write_text(
        '{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}'
    )
    terminal = open_terminal(*FLAGS, "--max-tokens", "400")
    ready(terminal)

    # A whole reply under a schema is valid.
    terminal.keys(f"/schema {pair}", "enter")
    terminal.wait("replies match pair.json")
    terminal.keys("Is water wet?", "enter")
    terminal.wait(lambda: over(tmp_path) == 1 and "valid · cost" in terminal.text)

    # Another one while nothing runs, dropped in mid-reply.
    terminal.keys(f"/schema {schema}", "enter")
    terminal.wait("the next reply matches it")
    terminal.keys("Count.", "enter")
    terminal.wait(lambda: "numbers[" in terminal.text and "J grammar" in terminal.text)
    terminal.keys("f11")
    terminal.wait("no longer match numbers.json")
    terminal.wait("┊ constraint json_schema numbers.json → none at token")
    stop(terminal)
    terminal.wait(lambda: over(tmp_path) == 2)
    assert "J grammar" not in terminal.text
    records = stored(tmp_path)
    kinds = [record.constraint is not None for record in records if isinstance(record, SettingsRecord)]
    assert kinds == [True, True, False]
    replies = [record for record in records if isinstance(record, Token)]
    assert {stage.name for stage in replies[0].stages} >= {GRAMMAR}
    assert GRAMMAR not in {stage.name for stage in replies[-1].stages}

    # Put back, then a shorter fork in the middle of the JSON: what follows goes on from there, and matches.
    terminal.keys("f11")
    terminal.wait("replies match numbers.json")
    terminal.keys("/max_tokens 60", "enter")
    terminal.wait(lambda: re.search(r"a max +60\b", terminal.text))
    terminal.keys("ctrl+g", "{", "l", "l", "l", "l", "x")
    terminal.wait(lambda: over(tmp_path) == 3 and terminal.is_ready)
    fork = [record for record in stored(tmp_path)[len(records) :] if isinstance(record, Token)]
    assert fork
    assert all(GRAMMAR in {stage.name for stage in token.stages} for token in fork)

    again = replayed(terminal, tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "identical" in again.stdout

    # And opened again, the chat has its constraint.
    resumed = open_terminal("--resume", *FLAGS)
    ready(resumed)
    resumed.wait("numbers.json  incomplete: ends")
    resumed.keys("ctrl+q")
    assert resumed.ended() == 0
