"""`termchat run --draft`: the same reply as without, its records say what was drafted, and `replay` makes it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from termchat.conversation import transcripts
from tests.fewer_blocks import with_vocabulary, without_blocks
from tests.scripts import said, termchat

PROMPT = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)
RUN = ("--threads", "1", "--temperature", "0", "--seed", "3", "--context", "2048", "--max-tokens", "30", "--json")
SCHEMA = json.loads((Path(transcripts.__file__).parent / "transcript.schema.json").read_text("utf-8"))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_drafted_reply_is_the_plain_one_and_can_be_replayed(tmp_path: Path) -> None:
    drafted = said(
        termchat(tmp_path, "run", PROMPT, *RUN, "--draft", "ngram", "--draft-max", "7", "--draft-always", "on")
    )
    records = lines(drafted)
    for record in records:
        jsonschema.validate(record, SCHEMA)
    settings = next(record for record in records if record["record"] == "settings")
    assert settings["draft"] == {"by": "ngram", "most": 7, "always": True}
    tokens = [record for record in records if record["record"] == "token"]
    taken = [token for token in tokens if "draft" in token and token["draft"]["accepted"]]
    end = records[-1]
    assert end["drafted"] >= end["accepted"] == len(taken) >= end["rounds"] > 0
    assert all(token["draft"]["tokens"][0]["id"] == token["id"] for token in taken)

    plain = lines(said(termchat(tmp_path, "run", PROMPT, *RUN)))
    assert [record["id"] for record in plain if record["record"] == "token"] == [token["id"] for token in tokens]
    assert not [record for record in plain if {"draft", "drafting", "drafted"} & set(record)]

    path = tmp_path / "drafted.jsonl"
    path.write_text(drafted)
    assert said(termchat(tmp_path, "replay", path)) == f"identical, {len(tokens)} tokens\n"


def test_walks_draft_from_their_own_words_and_can_be_replayed(tmp_path: Path) -> None:
    walks = ("--walks", "2", *RUN)
    drafted = said(termchat(tmp_path, "run", PROMPT, *walks, "--draft", "ngram", "--draft-always", "on"))
    plain = lines(said(termchat(tmp_path, "run", PROMPT, *walks)))
    records = lines(drafted)
    assert [end["accepted"] > 0 for end in records if end["record"] == "finished"] == [True, True]
    for walk in (0, 1):
        ids, without = (
            [record["id"] for record in found if record["record"] == "token" and record["walk"] == walk]
            for found in (records, plain)
        )
        assert ids == without
    path = tmp_path / "walks.jsonl"
    path.write_text(drafted)
    assert "identical" in said(termchat(tmp_path, "replay", path))


@pytest.mark.parametrize(
    ("flags", "why"),
    [(("--walks", "2", "--draft", "model"), "one reply at a time"), (("--beams", "2", "--draft", "ngram"), "--beams")],
)
def test_several_replies_refuse_what_cannot_draft_for_them(tmp_path: Path, flags: tuple[str, ...], why: str) -> None:
    refused = termchat(tmp_path, "run", "hi", *flags)
    assert refused.returncode == 2
    assert why in refused.stderr


def test_a_reply_is_drafted_by_the_model_that_a_flag_names_or_a_file_sets(model_path: Path, tmp_path: Path) -> None:
    small = without_blocks(model_path, tmp_path / "small.gguf", 14)
    plain = lines(said(termchat(tmp_path, "run", PROMPT, *RUN)))
    drafted = lines(said(termchat(tmp_path, "run", PROMPT, *RUN, "--draft", small, "--draft-always", "on")))
    for record in drafted:
        jsonschema.validate(record, SCHEMA)
    assert [record["id"] for record in drafted if record["record"] == "token"] == [
        record["id"] for record in plain if record["record"] == "token"
    ]
    settings = next(record for record in drafted if record["record"] == "settings")
    assert (settings["draft"], settings["origin"]["draft"]) == (
        {"by": "model", "most": 15, "always": True},
        "flag",
    )
    assert {token["draft"]["by"] for token in drafted if "draft" in token and token["record"] == "token"} <= {"small"}

    termchat(tmp_path, "config", "set", "draft_model", small)
    by_file = lines(said(termchat(tmp_path, "run", PROMPT, *RUN, "--draft", "model", "--draft-always", "on")))
    assert next(record for record in by_file if record["record"] == "settings")["draft"]["by"] == "model"


def test_why_nothing_was_drafted_is_told_unless_it_always_drafts(model_path: Path, tmp_path: Path) -> None:
    large = without_blocks(model_path, tmp_path / "large.gguf", 14)  # it costs nearly as much as the model
    run = ("--max-tokens", "8", "--threads", "1", "--seed", "1", "--json")
    told = termchat(tmp_path, "run", "hi", "--draft", "ngram", *run)
    end = lines(told.stdout)[-1]
    jsonschema.validate(end, SCHEMA)
    assert end["not_drafted"] == "no guess was likely enough to pay"
    assert told.stderr.startswith(f"termchat: nothing was drafted: {end['not_drafted']}\n  --draft-always on ")

    drafts = ("--draft", large, *run)
    always = termchat(tmp_path, "run", "hi", *drafts, "--draft-always", "on")
    for record in lines(always.stdout):
        jsonschema.validate(record, SCHEMA)
    settings, *_, end = (record for record in lines(always.stdout) if record["record"] in ("settings", "finished"))
    assert settings["draft"] == {"by": "model", "most": 15, "always": True}
    assert (end["drafted"] > 0, "not_drafted" in end, always.stderr) == (True, False, "")
    without = [record["id"] for record in lines(told.stdout) if record["record"] == "token"]
    assert [record["id"] for record in lines(always.stdout) if record["record"] == "token"] == without

    words = termchat(tmp_path, "run", "hi", "--draft", "ngram", *drafts[2:], "--draft-always", "on")
    assert "nothing was drafted: no text repeats" in words.stderr


def test_a_draft_model_of_another_vocabulary_is_named(small_model_path: Path, tmp_path: Path) -> None:
    other = with_vocabulary(small_model_path, tmp_path / "other.gguf", renamed={4200: "zzz"})
    refused = termchat(tmp_path, "run", "hi", *RUN, "--draft", other)
    assert refused.returncode == 1
    assert "other has another vocabulary" in refused.stderr
    assert [record["record"] for record in lines(refused.stdout)] == ["failed"]

    termchat(tmp_path, "config", "set", "draft_model", other)
    told = termchat(tmp_path, "run", "hi", *RUN, "--draft", "auto", "--draft-always", "on")
    assert told.returncode == 0
    assert "other has another vocabulary" in told.stderr
    assert lines(told.stdout)[-1]["record"] == "finished"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--draft", "ngram", "--draft-max", "16"), "from 1 to 15"),
        (("--draft", "ngrm"), "no model named 'ngrm'"),
        (("--draft", "model"), "no draft model is chosen"),
        (("--draft", "small", "--draft-model", "large"), "draft_model is 'large' already"),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    refused = termchat(tmp_path, "run", "hi", *flags)
    assert refused.returncode == 2
    assert message in refused.stderr
