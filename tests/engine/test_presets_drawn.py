"""The presets that ship, drawn with by the real engine."""

from __future__ import annotations

import pytest

from termchat.config import presets
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from tests.engine.conftest import prompt, records, request, tokens

CHAINS = {
    "deterministic": ["penalties", "top_k", "top_p", "min_p", "temperature", "dice"],
    "extraction": ["penalties", "top_k", "top_p", "min_p", "temperature", "dice"],
    "code": ["penalties", "top_k", "top_p", "min_p", "temperature", "dice"],
    "balanced": ["penalties", "top_k", "top_p", "min_p", "temperature", "dice"],
    "creative": ["penalties", "dry", "top_k", "top_p", "min_p", "temperature", "dice"],
    "brainstorm": ["penalties", "top_k", "top_p", "min_p", "xtc", "temperature", "dice"],
}


@pytest.mark.parametrize("name", CHAINS)
def test_every_preset_builds_its_chain_and_draws(session: ModelSession, name: str) -> None:
    tuning = Tuning(max_tokens=12).turn_knobs(presets.load().get(name).knobs)
    drawn = tokens(records(session, request(prompt(session, "Tell me about the sea."), tuning)))
    assert drawn
    for token in drawn:
        assert [stage.name for stage in token.stages] == CHAINS[name]
        assert token.probability > 0
    if name == "deterministic":
        assert {(token.rank, token.probability) for token in drawn} == {(0, 1.0)}
