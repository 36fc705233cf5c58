"""The table of stages: what goes by it, and that one entry is enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import termchat
from termchat.decoding import arithmetic, stages, whynot
from termchat.decoding.samplers import KNOBS, SamplerSettings, Tuning
from termchat.decoding.stages import DICE, STAGES, SamplerStage, chain_of
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Labels

OFF = SamplerSettings(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0)
TYPES = {
    "float": "number", "int": "integer", "switch": "integer", "texts": "array", "biases": "array", "order": "array",
    "seed": ["integer", "null"], "choice": "string",
}  # fmt: skip


def test_knobs_are_those_of_stages_in_their_order() -> None:
    assert [*(name for stage in STAGES.values() for name in stage.knobs), "order"] == list(
        SamplerSettings.__struct_fields__
    )
    assert {*SamplerSettings().order} == {
        stage.name for stage in STAGES.values() if not (stage.first or stage.last or stage.draws)
    }
    assert {knob.stage for knob in KNOBS.values()} <= {*STAGES, None}
    assert [stage.name for stage in STAGES.values() if stage.draws] == [DICE] == [list(STAGES)[-1]]


def test_every_stage_can_be_built_and_computed_again() -> None:
    for stage in STAGES.values():
        known = {*stage.knobs, stages.N_VOCAB, stages.BIASES}
        assert not stage.sampler or hasattr(LIB, f"llama_sampler_init_{stage.sampler}")
        assert {name for name in stage.arguments if isinstance(name, str)} <= known
        assert stage.draws or stage.name in arithmetic.APPLY


@pytest.mark.parametrize(
    ("changes", "active"),
    [
        ({}, []),
        ({"repeat_penalty": 1.1}, ["penalties"]),
        ({"presence_penalty": -0.1}, ["penalties"]),
        ({"repeat_penalty": 1.1, "repeat_last_n": 0}, []),
        ({"top_k": 3, "min_p": 0.1}, ["top_k", "min_p"]),
        ({"temperature": 0.0}, ["temperature"]),
    ],
)
def test_a_stage_is_active_when_it_can_change_anything(changes: dict[str, Any], active: list[str]) -> None:
    settings = Tuning(**{name: getattr(OFF, name) for name in OFF.__struct_fields__} | changes).samplers()
    assert [stage.name for stage in STAGES.values() if stage.is_active(settings)] == [*active, DICE]
    assert STAGES["penalties"].find_window(settings) == (64 if "penalties" in active else 0)
    masking = [stage.name for stage in STAGES.values() if stage.masks(settings) and stage.is_active(settings)]
    assert masking == active * ("temperature" in active)


def test_the_schema_of_transcripts_has_every_knob() -> None:
    file = Path(termchat.__file__).parent / "conversation/transcripts/transcript.schema.json"
    schema = json.loads(file.read_text("utf-8"))["$defs"]
    for kinds, part in (
        (KNOBS, schema["session"]["properties"]["tuning"]),
        (SamplerSettings.__struct_fields__, schema["settings"]["properties"]["samplers"]),
    ):
        assert list(part["properties"]) == part["required"] == list(kinds)
        assert {name: part["properties"][name]["type"] for name in kinds} == {
            name: TYPES[KNOBS[name].kind] for name in kinds
        }


# --- one entry more --------------------------------------------------------------------------------------------------

SIGMA = SamplerStage(name="sigma_cut", sampler="top_n_sigma", arguments=(1.5,), masks=lambda _: True, optional=True)
ORDER = ("penalties", SIGMA.name, "top_k", "top_p", "min_p", "temperature")


@pytest.fixture
def sigma(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage between the penalties and top_k that needs the whole vocabulary and masks, with a constant for a knob."""
    active = SamplerStage.is_active
    monkeypatch.setattr(SamplerStage, "is_active", lambda self, s: s.top_k == 40 if self is SIGMA else active(self, s))
    monkeypatch.setitem(stages.STAGES, SIGMA.name, SIGMA)

    def apply(row: arithmetic.Surviving, *_: object) -> arithmetic.Surviving:
        kept = row.logits >= row.logits.max() - np.float32(1.5) * row.logits.std()
        return arithmetic.Surviving(row.ids[kept], row.logits[kept])

    monkeypatch.setitem(arithmetic.APPLY, SIGMA.name, apply)


@pytest.mark.usefixtures("sigma")
def test_a_stage_more_is_in_the_chain_the_record_and_why_not() -> None:
    logits = np.random.default_rng(1).normal(0, 3, 50_000).astype(np.float32)
    settings = SamplerSettings(order=ORDER)
    chain = Chain(settings, len(logits), [])
    assert chain.count_needed() is None
    observer = Observer(len(logits), [2], Labels(len(logits), str), 20)
    drawn = observer.draw(logits, chain, seed=3, step=0)
    chain.close()
    assert [stage.name for stage in drawn.stages] == [*ORDER, "dice"]
    left = int((logits >= logits.max() - 1.5 * logits.std()).sum())
    assert [stage.survivors for stage in drawn.stages][:3] == [50_000, left, min(left, 40)]
    found = whynot.explain_token(logits, int(logits.argmin()), [], settings, 3, 0, str)
    assert [(stage.name, stage.survivors) for stage in found.stages] == [
        (stage.name, stage.survivors) for stage in drawn.stages
    ]
    assert SIGMA not in chain_of(SamplerSettings(order=ORDER, top_k=5))
    assert (found.removed_by, found.winner, found.remedies) == ("sigma_cut", drawn.id, [])


def test_mirostat_replaces_all_but_the_temperature() -> None:
    settings = SamplerSettings(mirostat=2, repeat_penalty=1.2, xtc_probability=0.5, adaptive_target=0.3)
    assert [stage.name for stage in chain_of(settings)] == ["temperature", "mirostat"]
    replaced = [stage.name for stage in STAGES.values() if stages.replaced_by(stage, settings) == "mirostat"]
    assert replaced == ["penalties", "top_k", "top_p", "min_p", "xtc", "adaptive_p"]
    assert stages.replaced_by(STAGES["top_k"], SamplerSettings()) == ""
