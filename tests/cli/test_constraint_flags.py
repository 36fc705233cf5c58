"""The flags of a constraint, and what they come to in a reply that is run and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from termchat.cli.constraint_flags import constraint_of
from termchat.decoding.constraint import Constraint, make_choice
from tests.scripts import termchat

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}


def test_nothing_is_asked_for() -> None:
    given = {"json_schema": None, "regex": None, "choice": (), "grammar": None, "top_k": 3}
    assert constraint_of(given) is None
    assert given == {"top_k": 3}


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        ({"json_schema": '{"type": "object"}'}, Constraint("json_schema", '{"type": "object"}')),
        ({"regex": "a+"}, Constraint("regex", "a+")),
        ({"choice": ("yes", "nö")}, make_choice(["yes", "nö"])),
        ({"grammar": 'root ::= "a"'}, Constraint("gbnf", 'root ::= "a"')),
        ({"grammar": 'start: "a"'}, Constraint("lark", 'start: "a"')),
    ],
)
def test_a_text_is_taken_by_what_it_holds(given: dict[str, Any], constraint: Constraint) -> None:
    assert constraint_of(given) == constraint


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    schema, grammar = tmp_path / "person.json", tmp_path / "list.gbnf"
    schema.write_text("{}", "utf-8-sig")  # with the mark that some editors put at the start
    grammar.write_text('root ::= "é"', "utf-8")
    assert constraint_of({"json_schema": str(schema)}) == Constraint("json_schema", "{}", "person.json")
    assert constraint_of({"grammar": str(grammar)}) == Constraint("gbnf", 'root ::= "é"', "list.gbnf")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"regex": "a", "choice": ("b",)}, "choose one of --regex and --choice"),
        ({"json_schema": "person.json"}, "there is no file person.json"),
        ({"grammar": "list.gbnf"}, "there is no file list.gbnf"),
        ({"regex": ""}, "empty"),
        ({"choice": ("a", "")}, "empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        constraint_of(given)


def test_a_constrained_reply_is_replayed_to_the_bit(tmp_path: Path) -> None:
    schema, kept = tmp_path / "age.json", tmp_path / "reply.jsonl"
    schema.write_text(json.dumps(SCHEMA))
    flags = ("--json-schema", schema, "--temperature", "1.5", "--seed", "4", "--max-tokens", "60")
    done = termchat(tmp_path, "run", "How old is the moon?", *flags, "--json")
    assert done.returncode == 0, done.stderr
    kept.write_text(done.stdout)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    settings = next(line for line in lines if line["record"] == "settings")
    assert settings["constraint"] == {
        "kind": "json_schema", "text": json.dumps(SCHEMA), "name": "age.json", "after_chain": False,
    }  # fmt: skip
    assert settings["constraint_ms"] > 0
    tokens = [line for line in lines if line["record"] == "token"]
    for token in tokens:
        grammar = token["stages"][0]
        assert {*grammar} == {"name", "survivors", "mass", "removed_mass", "forced"}
        assert grammar["forced"] == (grammar["survivors"] == 1)
        assert grammar["removed_mass"] == pytest.approx(1 - grammar["mass"])
    jsonschema.validate(json.loads("".join(token["text"] for token in tokens)), SCHEMA)
    assert lines[-1]["detail"] == "nothing can follow (grammar)"
    again = termchat(tmp_path, "replay", kept)
    assert (again.returncode, again.stdout) == (0, f"identical, {len(tokens)} tokens\n"), again.stderr


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    done = termchat(tmp_path, "run", "Hello", "--regex", "a(b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unclosed group" in done.stderr


def test_a_reply_that_left_its_constraint_is_a_failure(tmp_path: Path) -> None:
    impossible = ("--choice", "7", "--logit-bias", '"7"=ban', "--max-tokens", "3")
    done = termchat(tmp_path, "run", "Name a number.", *impossible)
    assert done.returncode == 1
    assert "termchat: the reply does not match the constraint, which was dropped: " in done.stderr


def test_a_reply_that_is_cut_off_before_it_matches_says_so(tmp_path: Path) -> None:
    done = termchat(tmp_path, "run", "Hello", "--json-schema", json.dumps(SCHEMA), "--max-tokens", "3", "-n", "2")
    assert done.returncode == 3
    assert "termchat: reply 2 ended at max_tokens 3 before it matched the constraint: ends " in done.stderr
    assert "  Raise --max-tokens." in done.stderr
    whole = termchat(tmp_path, "run", "Hello", "--choice", "yes", "--max-tokens", "9")
    assert (whole.returncode, whole.stdout, whole.stderr) == (0, "yes", "")
