"""`termchat compare`: replies of the real model with one thing changed, which is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from termchat.commands.compare_transcripts import compare
from termchat.decoding.conditions import Length
from termchat.decoding.records import RECORD_NAMES, to_json
from termchat.decoding.samplers import ORDER, SamplerSettings
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Generate,
    Load,
    ModelSpec,
    ReplyRequest,
    Scripted,
)
from tests import made_records
from tests.asked_engine import answers

PROMPT = [*range(900, 940)]
WARM = SamplerSettings(temperature=1.3)
BASE = ReplyRequest(ids=PROMPT, samplers=WARM, conditions=(Length(40),), seed=3)


@pytest.fixture(scope="module")
def made(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """The record stream of a reply of the model, in a file."""
    folder = tmp_path_factory.mktemp("replies")
    plain = ModelSpec(str(model_path), "smollm2", context=512, threads=1)
    engines: dict[str, LocalEngine] = {}

    def make(name: str, request: ReplyRequest = BASE, **spec: Any) -> Path:
        loaded = str(spec)
        if loaded not in engines:
            engines[loaded] = LocalEngine()
            answers(engines[loaded], Load(msgspec.structs.replace(plain, **spec)))
        records = [event for event in answers(engines[loaded], Generate([request])) if type(event) in RECORD_NAMES]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(to_json(record) + "\n" for record in records))  # type: ignore[arg-type]
        return path

    yield make
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="module")
def base(made: Callable[..., Path]) -> Path:
    return made("base")


def compared(left: Path, right: Path | None, *nodes: int | None) -> tuple[int, dict[str, Any], list[str]]:
    """The exit code, the report as an object and as lines."""
    told: list[str] = []
    both = (nodes[0], nodes[1]) if nodes else (None, None)
    code = compare((left, right), both, told.append, told.append, as_json=True)
    lines: list[str] = []
    assert compare((left, right), both, lines.append, lines.append, as_json=False) == code
    return code, json.loads(told[0]), lines


def with_(**knobs: Any) -> ReplyRequest:
    return msgspec.structs.replace(BASE, samplers=msgspec.structs.replace(WARM, **knobs))


CHANGED: dict[str, tuple[str, ReplyRequest, dict[str, Any]]] = {
    "temperature": ("knob", with_(temperature=0.4), {}),
    "top_k": ("knob", with_(top_k=2), {}),
    "top_p": ("knob", with_(top_p=0.3), {}),
    "min_p": ("knob", with_(min_p=0.5), {}),
    "repeat_penalty": ("knob", with_(repeat_penalty=2.0), {}),
    "dry_multiplier": ("knob", with_(dry_multiplier=5.0, dry_allowed_length=1), {}),
    "xtc_probability": ("knob", with_(xtc_probability=1.0), {}),
    "mirostat": ("knob", with_(mirostat=2, mirostat_tau=1.0), {}),
    "order": ("order", with_(order=(*ORDER[::-1],)), {}),
    "seed": ("dice", msgspec.structs.replace(BASE, seed=4), {}),
    "forced token": ("forced", msgspec.structs.replace(BASE, script=(Scripted(5, id=4242),)), {}),
    "prompt": ("prompt", msgspec.structs.replace(BASE, ids=[*PROMPT[:20], 77, *PROMPT[21:]]), {}),
    "KV type": ("engine", BASE, {"kv_type": "q8_0"}),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_changed_is_the_first_cause(made: Callable[..., Path], base: Path, name: str) -> None:
    kind, request, spec = CHANGED[name]
    code, report, lines = compared(base, made("changed", request, **spec))
    first = report["causes"][0]
    assert (code, report["identical"]) == (1, False)
    assert (first["kind"], first["evidence"]) == (kind, "shown"), lines
    names = [cause["name"] for cause in report["causes"] if cause["evidence"] == "shown"]
    assert name in names, lines
    assert (report["logits"] is None) == (kind not in ("prompt", "engine"))
    assert any(line.startswith(f"  cause: {first['name']}") for line in lines)
    assert lines[0].startswith(f"different from token {report['step']} on: left (node 2) ")
    assert sum("< left" in line for line in lines) == sum("< right" in line for line in lines) == 1


def test_a_knob_that_was_turned_in_mid_reply_says_from_where(made: Callable[..., Path], base: Path) -> None:
    turned = msgspec.structs.replace(BASE, script=(Scripted(12, samplers=with_(top_k=1).samplers),))
    _, report, _ = compared(base, made("turned", turned))
    assert report["step"] >= 12
    assert (report["causes"][0]["name"], report["causes"][0]["since"]) == ("top_k", 12)


def test_a_shorter_limit_is_told_as_the_end(made: Callable[..., Path], base: Path) -> None:
    short = msgspec.structs.replace(BASE, conditions=(Length(9),))
    code, report, lines = compared(base, made("short", short))
    assert (code, report["step"], report["right"]) == (1, 9, None)
    assert [cause["name"] for cause in report["causes"]] == ["end of the reply", "max_tokens"]
    assert lines[0].endswith("right (node 2) the end")


def test_the_same_reply_is_identical(made: Callable[..., Path], base: Path) -> None:
    code, report, lines = compared(base, made("again"))
    assert (code, report, lines) == (
        0, {"identical": True, "nodes": [2, 2], "tokens": [40, 40]}, ["identical, 40 tokens"],
    )  # fmt: skip


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """Two replies to one prompt each, in one stream."""
    records = [
        record
        for seed in (1, 2)
        for record in made_records.stream([1, 2, 3], [b"a", b" b", b"c" if seed == 1 else b"d"], seed=seed)
    ]
    last = records[-2]
    records[-2] = msgspec.structs.replace(last, id=7)  # type: ignore[type-var]
    path = tmp_path / "versions.jsonl"
    path.write_text("".join(to_json(record) + "\n" for record in records))
    return path


def test_of_one_file_the_last_reply_is_compared_with_the_one_before(versions: Path) -> None:
    code, report, _ = compared(versions, None)
    assert (code, report["nodes"], report["step"]) == (1, [2, 4], 2)
    assert compared(versions, None, 4, 2)[1]["nodes"] == [4, 2]
    assert compared(versions, versions, None, 2)[1]["nodes"] == [4, 2]


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((1, None), ["termchat: node 1 is not a reply", "  Replies in this transcript: 2, 4."]),
        ((9, None), ["termchat: node 9 is not a reply", "  Replies in this transcript: 2, 4."]),
        (
            (None, 2),
            ["termchat: this transcript contains one reply only", "  Pass another transcript to compare it with."],
        ),
    ],
)
def test_what_cannot_be_compared_is_said(versions: Path, nodes: tuple[int | None, int | None], told: list[str]) -> None:
    if nodes[1] == 2:
        versions.write_text("".join(versions.read_text().splitlines(keepends=True)[:7]))
    said: list[str] = []
    assert compare((versions, None), nodes, said.append, said.append, as_json=False) == 1
    assert said == told
