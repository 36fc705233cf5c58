"""`termchat replay` of drafted replies: without drafts it makes the same, also where the rounds changed bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from termchat.conversation import transcripts
from tests.scripts import said, termchat, use_model

TEXT = (
    "The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships that passed far"
    " away in the dark."
)
RUN = (
    "--raw", "--seed", "5", "--threads", "2", "--temperature", "0", "--context", "2048", "--max-tokens", "24", "--json",
    "--draft", "ngram", "--draft-always", "on",
)  # fmt: skip
SCHEMA = json.loads((Path(transcripts.__file__).parent / "transcript.schema.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("flags", "exact"),
    [(("--kv-type", "f16", "--repeat-penalty", "1.02"), False), (("--kv-type", "bf16"), True)],
    ids=["f16", "bf16"],
)
def test_a_drafted_reply_behind_256_cells_is_made_again(
    tmp_path: Path, small_model_path: Path, flags: tuple[str, ...], exact: bool
) -> None:
    use_model(tmp_path, small_model_path)
    drafted = said(termchat(tmp_path, "run", f"{TEXT} " * 10 + TEXT[:40], *RUN, *flags))
    records: list[dict[str, Any]] = [json.loads(line) for line in drafted.splitlines()]
    for record in records:
        jsonschema.validate(record, SCHEMA)
    assert records[0]["exact"] is exact
    assert len(records[0]["prompt_ids"]) > 256
    assert records[-1]["accepted"] > 0
    path = tmp_path / "drafted.jsonl"
    path.write_text(drafted)
    assert said(termchat(tmp_path, "replay", path)) == "identical, 24 tokens\n"
