"""What batches cost is measured on the real model, and leaves it as usable as before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import Session
from termchat.engine.port import EngineError, MeasureBatches, ModelSpec
from tests.engine.conftest import prompt, records, request, tokens


@pytest.fixture(scope="module")
def spec(small_model_path: Path) -> ModelSpec:
    return ModelSpec(str(small_model_path), "small", context=256, threads=1)


def test_batches_are_measured_and_what_comes_after_is_as_before(spec: ModelSpec) -> None:
    with closing(Session(spec, lambda _: None)) as session:
        command = request(prompt(session, "What is the sea?"), Tuning(max_tokens=6))
        before = [token.id for token in tokens(records(session, command))]
        found = session.measure_batches(MeasureBatches([2, 8, 16], seconds=2.0, cells=64), lambda: False)
        assert found.threads == 1
        assert sorted(found.us) == [1, 2, 8, 16]
        assert 0 < found.us[1] < found.us[16] < 32 * found.us[1]
        assert found.us[2] < found.us[16], "those next to each other may change places on a busy machine"
        assert [token.id for token in tokens(records(session, command))] == before


def test_it_ends_early_for_other_work_and_refuses_what_does_not_fit(spec: ModelSpec) -> None:
    with closing(Session(msgspec.structs.replace(spec, context=128), lambda _: None)) as session:
        found = session.measure_batches(MeasureBatches([4], seconds=1000.0, cells=5000), lambda: True)
        assert found.us[4] > found.us[1] > 0
        assert sorted(session.measure_batches(MeasureBatches([], 0.1, 8), lambda: False).us) == [1]
        with pytest.raises(EngineError, match="a batch of 99 rows does not fit"):
            session.measure_batches(MeasureBatches([99]), lambda: False)
