"""The record stream's format: names that scripts depend on, and a round trip."""

from __future__ import annotations

import base64
import json
import math

import msgspec
import pytest

from termchat.decoding.conditions import Length, Stop
from termchat.decoding.records import (
    ABSENT,
    UNKNOWN,
    Candidate,
    Failed,
    Finished,
    ModelIdentity,
    Prefill,
    Record,
    SettingsRecord,
    Stage,
    Start,
    Token,
    drop_impossible,
    to_dict,
    to_json,
)
from termchat.decoding.samplers import SamplerSettings

IDENTITY = ModelIdentity("m", "m.gguf", "00", "llama", "Q4_1")
TOKEN = Token(
    3, 9, 5, b"\xff\x1b", "é", 1.5, -0.5, 0, 0.25, 2.0, 0.001, 0, False, [Stage("top_k", 40, 0.5)],
    [Candidate(5, "é", 1.5, -0.5, 0.25, 0.1, None), Candidate(6, "x", 1.0, -1.0, 0.0, 0.2, "min_p")], {}, 6000, 200,
)  # fmt: skip
STREAM: list[Record] = [
    Start(1, "0", "0.3", IDENTITY, [1, 2], False, 7, 1, 2, 2, 63, "f16", True),
    SettingsRecord(0, SamplerSettings(), (Stop("\n6."), Length(9)), {"top_k": "flag"}, 2),
    Prefill(9, 3, [5, 1], 12.5, [2, 1]),
    TOKEN,
    Finished("stop", "\n6.", "\n6.", 4, 20.0, 12.5, 40.0, 100.0),
    Failed("engine", "gone", "restart"),
]
FIELDS = {
    "start": "version termchat llama_cpp model prompt_ids raw seed dice threads threads_batch ubatch kv_type exact",
    "settings": "number samplers conditions origin threads",
    "prefill": "tokens reused shapes ms threads",
    "token": "step position id bytes text logit logprob rank probability entropy p_end settings forced stages "
    "candidates state decode_us sample_us",
    "finished": "reason detail held tokens ttft_ms prefill_ms decode_ms tokens_per_second",
    "failed": "kind message hint",
}


def test_field_names_are_the_contract() -> None:
    for record in STREAM:
        line = to_json(record)
        assert line.isascii()
        assert "\n" not in line
        named = json.loads(line)
        assert set(FIELDS[named["record"]].split()) <= set(named)
    token = json.loads(to_json(TOKEN))
    assert base64.b64decode(token["bytes"]) == b"\xff\x1b"
    assert set(token["candidates"][0]) == {"id", "text", "logit", "logprob", "probability", "noise", "removed_by"}
    assert token["stages"] == [{"name": "top_k", "survivors": 40, "mass": 0.5}]
    assert json.loads(to_json(STREAM[0]))["model"] == {
        "name": "m", "path": "m.gguf", "sha256": "00", "architecture": "llama", "quantization": "Q4_1",
    }  # fmt: skip
    assert json.loads(to_json(STREAM[1]))["conditions"] == [
        {"condition": "stop", "text": "\n6.", "action": "stop"},
        {"condition": "length", "tokens": 9, "action": "stop", "extra": 0},
    ]


def test_json_has_no_word_for_what_is_no_number() -> None:
    token = msgspec.structs.replace(TOKEN, entropy=math.inf, logit=-math.inf, state={"mu": math.inf, "tau": 5.0})
    named = json.loads(to_json(token), parse_constant=lambda word: pytest.fail(word))
    assert (named["entropy"], named["logit"], named["state"]) == (None, None, {"mu": None, "tau": 5.0})


def test_json_lacks_what_an_engine_does_not_tell() -> None:
    whole = json.loads(to_json(TOKEN))
    told = msgspec.structs.replace(TOKEN, logit=ABSENT, probability=ABSENT, rank=UNKNOWN, stages=[])
    assert json.loads(to_json(told)) == {
        name: value for name, value in whole.items() if name not in ("logit", "probability", "rank", "stages")
    }
    one = msgspec.structs.replace(TOKEN.candidates[0], probability=ABSENT, noise=ABSENT, removed_by=None)
    assert set(to_dict(one)) == {"id", "text", "logit", "logprob"}
    kept = msgspec.structs.replace(TOKEN.candidates[0], removed_by=None)
    assert to_dict(kept)["removed_by"] is None


@pytest.mark.parametrize("margin", [-0.5, math.nan, math.inf])
def test_an_impossible_margin_is_none(margin: float) -> None:
    token = msgspec.structs.replace(TOKEN, margin=margin, near_tie=True)
    assert drop_impossible(token) == TOKEN
    assert drop_impossible(msgspec.structs.replace(token, margin=0.0)).near_tie


def test_binary_round_trip() -> None:
    decoder = msgspec.msgpack.Decoder(list[Record])
    assert decoder.decode(msgspec.msgpack.encode(STREAM)) == STREAM
