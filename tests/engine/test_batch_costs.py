"""What batches cost and which bits they have is measured on real models, and leaves all as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

import msgspec
import numpy as np
import pytest

from termchat.config import per_model
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import batch_costs
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import (
    BatchesMeasured,
    EngineError,
    Finished,
    MeasureBatches,
    Measurement,
    ModelSpec,
    Prefill,
)
from tests.engine.conftest import Driver, prompt, records, request, tokens


@pytest.fixture(scope="module")
def spec(small_model_path: Path) -> ModelSpec:
    return ModelSpec(str(small_model_path), "small", context=512, threads=1)


@pytest.fixture(scope="module")
def session(spec: ModelSpec) -> Iterator[ModelSession]:
    with closing(ModelSession(spec, lambda _: None)) as made:
        yield made


def test_rows_of_these_weights_are_alike_in_any_batch(session: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_costs, "process_time", perf_counter)  # else another program may have the times left out
    measured = session.measure_batches(MeasureBatches(0.2))
    assert measured.rows_alike == 63
    assert set(measured.changes.values()) == {0.0}
    assert measured.largest_change == 0.0
    assert measured.positions >= 6
    assert sorted(measured.batch_times) == [2, 3, 4, 8, 16]
    assert 0 < measured.batch_times[2] < measured.batch_times[16] < 32
    assert session.cache.measured == measured
    assert session.build_info().measured == measured


def test_cells_and_logits_at_hand_stay_as_they_were(session: ModelSession) -> None:
    command = request(prompt(session, "What is the sea?"), Tuning(max_tokens=6))
    before = [token.id for token in tokens(records(session, command))]
    cells, row = list(session.cache.ids), session.cache.read_logits().copy()
    session.measure_batches(MeasureBatches(0.1))
    assert session.cache.ids == cells
    assert np.array_equal(session.cache.read_logits(), row)
    again = records(session, command)
    prefill = next(record for record in again if isinstance(record, Prefill))
    assert prefill.tokens - prefill.reused == 1, "the prompt is not read again"
    assert [token.id for token in tokens(again)] == before


def test_weights_whose_rows_depend_on_the_batch_are_found(made_model: Callable[[str], Path]) -> None:
    with closing(
        ModelSession(ModelSpec(str(made_model("half")), "half", context=256, threads=1), lambda _: None)
    ) as other:
        measured = other.measure_batches(MeasureBatches(0.2))
        assert measured.rows_alike == 1
        assert measured.changes["2 rows"] > 0
        assert measured.largest_change > 1.2 * max(measured.changes.values())
        # The reference: the difference between any two logits of a row, by hand.
        ids = other.model.tokenize(batch_costs._TEXT, special=False)
        one = other.cache.read_aside(ids[:1], 0, 1)[0].astype(np.float64)
        two = other.cache.read_aside(ids[:2], 0, 1)[0].astype(np.float64)
        top = np.argsort(one)[-300:]
        moved = (two - one)[top]
        assert batch_costs._largest_change([one], [two])[0] == pytest.approx((moved[:, None] - moved[None]).max())


def test_threads_change_bits_where_both_kv_types_are_f16(small_model_path: Path) -> None:
    spec = ModelSpec(str(small_model_path), "small", context=512, threads=2, kv_type="f16")
    with closing(ModelSession(spec, lambda _: None)) as other:
        measured = other.measure_batches(MeasureBatches(0.1))
    assert measured.changes["threads"] > 0
    assert measured.rows_alike == 63, "rows have the bits of one thread"


def test_times_of_a_busy_machine_are_not_kept_and_bits_are(
    session: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_costs, "process_time", lambda: perf_counter() / 2)
    measured = session.measure_batches(MeasureBatches(0.1))
    assert measured.batch_times == {}
    assert measured.rows_alike == 63


def test_other_work_goes_first_unless_it_is_needed(spec: ModelSpec) -> None:
    driver = Driver(spec)
    try:
        ids = driver.prompt("What is the sea?")
        slow = driver.engine.send(MeasureBatches(1000.0))
        reply = driver.engine.send(request(ids, Tuning(max_tokens=3)))
        (busy,) = driver.until(slow, BatchesMeasured)
        assert getattr(busy, "kind", "") == "busy"
        assert isinstance(driver.until(reply, Finished)[-1], Finished)
        needed = driver.engine.send(MeasureBatches(0.1, needed=True))
        reply = driver.engine.send(request(ids, Tuning(max_tokens=3)))
        (answer,) = driver.until(needed, BatchesMeasured)
        assert isinstance(answer, BatchesMeasured)
        assert isinstance(driver.until(reply, Finished)[-1], Finished)
    finally:
        driver.engine.close()


def test_a_context_without_room_is_refused(spec: ModelSpec) -> None:
    with (
        closing(ModelSession(msgspec.structs.replace(spec, context=64), lambda _: None)) as other,
        pytest.raises(EngineError, match="no room"),
    ):
        other.measure_batches(MeasureBatches(0.1))


def test_what_is_kept_is_known_to_the_next_load_of_the_same_kind(
    spec: ModelSpec, session: ModelSession, tmp_path: Path
) -> None:
    file, measured = tmp_path / "tuned.json", session.measure_batches(MeasureBatches(0.1))
    per_model.keep_rows(measured, "abc", "small", file)
    per_model.keep_rows(msgspec.structs.replace(measured, how="another way"), "abc", "small", file)
    kept = msgspec.structs.replace(spec, measured=per_model.find_rows("abc", file))
    assert len(kept.measured) == 2
    for more, known in (({}, measured), ({"threads": 2}, None), ({"kv_type": "f16"}, None)):
        with closing(ModelSession(msgspec.structs.replace(kept, **more), lambda _: None)) as other:
            assert other.build_info().measured == known


def test_two_measurements_tell_the_largest_change() -> None:
    few = Measurement("so", 2, {2: 1.5}, 3, {"4 rows": 0.2, "8 rows": 0.5}, 6)
    many = Measurement("so", 2, {}, 63, {"4 rows": 0.4}, 25)
    both = few.join_with(many)
    assert both == Measurement("so", 2, {2: 1.5}, 3, {"4 rows": 0.4, "8 rows": 0.5}, 25)
    assert both.largest_change == pytest.approx(0.5 * 1.4)
