"""Conversations made at random go out and in again, in every format, and not a byte of theirs is another."""

from __future__ import annotations

import csv
import json
from math import isfinite
from pathlib import Path

import jsonschema
import pytest

import termchat
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import FORMATS, importing
from termchat.decoding.escapes import unescape
from termchat.decoding.records import Token
from tests.formats.trees import tree

SCHEMA = json.loads(
    (Path(termchat.__file__).parent / "conversation/transcripts/transcript.schema.json").read_text("utf-8")
)
SEEDS = range(25)


@pytest.fixture(scope="module")
def check() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_comes_back_byte_by_byte(tmp_path: Path, check: jsonschema.Draft202012Validator, seed: int) -> None:
    made = tree(seed)
    lines = made.lines("jsonl")
    assert [error for line in lines for error in check.iter_errors(json.loads(line))] == []
    (found,) = importing.chats(made.write(tmp_path / "a.jsonl", "jsonl"))
    again = list(FORMATS["jsonl"].writer(found.conversation, found.info, found.records))
    if not found.halves:
        assert again == lines
        for form in ("md", "html", "csv", "openai", "sharegpt"):
            assert list(FORMATS[form].writer(found.conversation, found.info, found.records)) == made.lines(form)
    with_store = Store.open(tmp_path / "store.db")
    session = importing.keep_transcript(with_store, found)
    kept = with_store.load(session)
    stored = list(FORMATS["jsonl"].writer(kept.conversation, kept, lambda number: with_store.records(session, number)))
    with_store.close()
    assert stored[1:] == again[1:]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_table_has_every_token_of_a_tree(seed: int) -> None:
    made = tree(seed)
    tokens = [
        (number, token) for number in sorted(made.known) for token in made.known[number] if isinstance(token, Token)
    ]
    rows = list(csv.DictReader(made.lines("csv")))
    assert [(int(row["node"]), unescape(row["text"])) for row in rows] == [
        (number, each.text) for number, each in tokens
    ]
    assert [row["logit"] for row in rows] == [str(each.logit) if isfinite(each.logit) else "" for _, each in tokens]
