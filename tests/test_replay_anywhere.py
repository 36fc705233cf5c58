"""`termchat replay --anywhere`: other threads, batches and KV type; certain draws come out equal, near ties are pinned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from termchat.commands.replay import replay
from termchat.config.origins import FLAG
from termchat.config.settings import Settings, load
from termchat.decoding.conditions import Length
from termchat.decoding.records import RECORD_NAMES, Candidate, Start, Token, to_json
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Generate,
    Load,
    ModelSpec,
    ReplyRequest,
    Scripted,
)
from termchat.models.gguf.header import read_header
from tests.asked_engine import answers
from tests.scripts import said, termchat

PROMPT = [*range(400, 440)]
TOKENS = 30
FORCED = Scripted(7, id=1234)


@pytest.fixture(scope="module")
def engine(small_model_path: Path) -> Iterator[LocalEngine]:
    made, identity = LocalEngine(), read_header(small_model_path).identity()
    answers(
        made, Load(ModelSpec(str(small_model_path), "small", context=1024, threads=2, kv_type="f16", sha256=identity))
    )
    yield made
    made.close()


def asked(*script: Scripted, tokens: int = TOKENS, **more: Any) -> Generate:
    samplers = SamplerSettings(temperature=1.0, top_k=40)
    return Generate([ReplyRequest(PROMPT, samplers, (Length(tokens),), 5, script=script)], **more)


@pytest.fixture(scope="module")
def records(engine: LocalEngine) -> list[Any]:
    """A reply of two blocks with f16 and two threads, one token of it forced."""
    request = asked(FORCED)
    return [event for event in answers(engine, request) if type(event) in RECORD_NAMES]


Again = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def again(records: list[Any], small_model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Again:
    """Replays the records anywhere, with flags; returns the exit code and what it printed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(changed: list[Any] = records, *, as_json: bool = False, **flags: Any) -> tuple[int, list[str]]:
        path, told = tmp_path / "told.jsonl", list[str]()
        path.write_text("".join(to_json(record) + "\n" for record in changed))
        given = {"model": str(small_model_path), **flags}
        chosen: Settings = load(given, {}, tmp_path / "no.toml")
        assert {chosen.origin[name] for name in given} == {FLAG}
        return replay(chosen, path, told.append, told.append, as_json=as_json, anywhere=True), told

    return run


def tokens_of(records: list[Any]) -> list[Token]:
    return [record for record in records if isinstance(record, Token)]


def known(records: list[Any], largest_change: float | None) -> list[Any]:
    """The records with a measured change, and near ties by their margins."""
    told = []
    for record in records:
        if isinstance(record, Start):
            record = msgspec.structs.replace(record, largest_change=largest_change)
        elif isinstance(record, Token) and largest_change is not None and not record.forced:
            tie = record.margin is not None and record.margin <= largest_change
            record = msgspec.structs.replace(record, near_tie=tie)
        told.append(record)
    return told


def score(candidate: Candidate) -> float:
    return candidate.logit + candidate.noise if candidate.probability > 0 else float("-inf")


def tampered(records: list[Any], *, near: bool) -> list[Any]:
    """The records up to a token that is not the drawn one, but the next best: that of the closest draw, or the clearest."""
    drawn = [token for token in tokens_of(records) if token.margin is not None and token.step > 10]
    chosen = (min if near else max)(drawn, key=lambda token: token.margin or 0.0)
    second = sorted(chosen.candidates, key=score)[-2]
    assert abs(score(max(chosen.candidates, key=score)) - score(second)) - (chosen.margin or 0.0) == pytest.approx(
        0, abs=1e-4
    )
    place = records.index(chosen)
    return [*records[:place], msgspec.structs.replace(chosen, id=second.id)]


def test_other_threads_another_kv_type_and_other_batches_give_the_same_tokens(again: Again) -> None:
    for flags in ({"threads": 1}, {"threads": 1, "kv_type": "q8_0"}, {"threads": 1, "prefill_batch": 512}):
        code, told = again(**flags)
        assert (code, told[-1].split(" · ")[0]) == (0, f"same tokens: {TOKENS} of {TOKENS}"), told


def test_the_program_says_it_in_one_line_and_as_json(
    records: list[Any], small_model_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "told.jsonl"
    path.write_text("".join(to_json(record) + "\n" for record in known(records, 0.0)))
    args = ("replay", "--anywhere", "--kv-type", "f16", "--threads", "1", "--model", small_model_path, path)
    assert said(termchat(tmp_path, *args)) == f"same tokens: {TOKENS} of {TOKENS} · 0 near ties\n"
    found = json.loads(said(termchat(tmp_path, *args, "--json")))
    counts = {"tokens": TOKENS, "recorded": TOKENS, "near_ties": 0, "turned": 0}
    assert found == {"identical": True, **counts}


def test_an_id_that_a_certain_draw_does_not_give_is_a_difference(again: Again, records: list[Any]) -> None:
    changed = tampered(known(records, 0.0), near=False)
    wrong = changed[-1]
    code, told = again(changed, kv_type="f16", threads=1)
    assert code == 1
    assert told[0].startswith(f"same tokens: {len(tokens_of(changed)) - 1} of {len(tokens_of(changed))} · 0 near ties")
    assert told[1].startswith(f"different at node 2, step {wrong.step}: recorded ")
    found = json.loads(again(changed, as_json=True, kv_type="f16", threads=1)[1][0])
    assert (found["identical"], found["step"], found["recorded"]["id"]) == (False, wrong.step, wrong.id)


def test_another_id_at_a_recorded_near_tie_is_pinned_and_counted(again: Again, records: list[Any]) -> None:
    smallest = min(token.margin for token in tokens_of(records) if token.margin is not None and token.step > 10)
    changed = tampered(known(records, smallest * 1.01), near=True)
    ties = sum(token.near_tie is True for token in tokens_of(changed))
    code, told = again(changed, kv_type="f16", threads=1)
    tokens = len(tokens_of(changed))
    plural = "" if ties == 1 else "s"
    assert (code, told) == (
        0,
        [f"same tokens: {tokens} of {tokens} · {ties} near tie{plural}, 1 turned here and was pinned"],
    )


def test_what_nobody_measured_is_measured_by_the_recorded_numbers(again: Again, records: list[Any]) -> None:
    moved = []
    for record in known(records, None):
        if isinstance(record, Token) and record.step == 3:  # as if the numbers had been computed otherwise
            first, second, *rest = record.candidates
            listed = [msgspec.structs.replace(first, logit=first.logit + 50), second, *rest]
            record = msgspec.structs.replace(record, candidates=listed)
        moved.append(record)
    assert again(tampered(known(records, None), near=True), kv_type="f16", threads=1)[0] == 1
    code, told = again(tampered(moved, near=True), kv_type="f16", threads=1)
    assert (code, "1 turned here and was pinned" in told[-1]) == (0, True)


def test_a_pinned_token_is_taken_only_in_a_near_tie(engine: LocalEngine, records: list[Any]) -> None:
    def made(pinned: bool, change: float) -> Token:
        pin = Scripted(5, id=77, pinned=pinned)
        return tokens_of(answers(engine, asked(pin, tokens=6, largest_change=change)))[5]

    drawn = tokens_of(records)[5]
    certain, near, there = made(False, 0.0), made(False, 1e3), made(True, 0.0)
    assert (certain.id, certain.forced, certain.near_tie) == (drawn.id, False, False)
    assert (near.id, near.forced, near.near_tie) == (77, True, True)
    assert (there.id, there.forced, there.near_tie) == (77, True, False)
    assert [token.margin for token in (certain, near, there)] == [pytest.approx(drawn.margin)] * 3
    same = tokens_of(answers(engine, asked(Scripted(5, id=drawn.id, pinned=True), tokens=6, largest_change=1e3)))[5]
    assert (same.id, same.forced) == (drawn.id, False)
