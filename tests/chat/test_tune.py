"""Tuning: what is tried, what is chosen from it, where it is kept, and what goes before it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from termchat.chat.opening import choose_model, find_model
from termchat.commands import bench, tune
from termchat.commands.bench import BenchRun, Result, Series, TuneReport
from termchat.config import per_model
from termchat.config.settings import load
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.local import LocalEngine
from termchat.engine.port import EngineError, Measurement, ModelInfo, ModelSpec
from tests.tui import fake_engine
from tests.tui.fake_engine import FakeEngine

STEADY = Series(4, [100.0, 101.0, 99.0, 100.0])


def series(value: int, *ratios: float) -> Series:
    return Series(value, [rate * ratio for rate, ratio in zip(STEADY.rates, ratios, strict=True)])


@pytest.mark.parametrize(
    ("cores", "threads", "counts"),
    [
        (1, 1, [1]),
        (2, 2, [1, 2]),
        (2, 4, [1, 2, 3, 4]),
        (8, 16, [1, 2, 4, 6, 7, 8, 16]),
        (64, 64, [1, 2, 16, 32, 48, 62, 63, 64]),
    ],
)
def test_few_counts_are_all_tried_of_many_the_likely(cores: int, threads: int, counts: list[int]) -> None:
    assert bench.thread_counts(cores, threads) == counts


@pytest.mark.parametrize(
    ("ratios", "chosen"),
    [
        ((1.10, 1.11, 1.09, 1.10), 3),
        ((1.02, 1.02, 1.02, 1.02), 4),  # steady, but too little
        ((1.60, 0.80, 1.50, 0.90), 4),  # much in the middle, but noise
        ((0.90, 0.90, 0.90, 0.90), 4),
    ],
)
def test_the_default_stays_unless_another_beats_it_beyond_the_noise(ratios: tuple[float, ...], chosen: int) -> None:
    result = bench.choose("threads", 4, [series(3, *ratios), STEADY])
    assert result.chosen == chosen


def test_of_those_that_beat_it_the_fastest_is_chosen() -> None:
    assert bench.choose("threads", 4, [series(2, *[1.1] * 4), series(3, *[1.3] * 4), STEADY]).chosen == 3


def test_what_is_not_exact_is_told_and_not_chosen() -> None:
    exact, fast = Series(63, STEADY.rates), Series(512, [150.0] * 4)
    result = bench.choose("prefill_batch", 63, [exact, fast], 63)
    assert (result.chosen, result.fastest) == (63, 512)
    report = TuneReport("m", "here", "cpu", [result], 1.0, 1.0)
    assert report.settings == {}
    assert "--fast-prefill would be 1.50 times as fast, but is not exact" in "\n".join(tune.lines(report))


def test_what_speculation_can_gain_is_told() -> None:
    result = bench.choose("threads", 4, [STEADY])
    times = {2: 1.82, 4: 2.37, 8: 4.18, 16: 7.62}
    measured = Measurement("", 2, times, 3, {"threads": 0.0, "4 rows": 0.2}, 25)
    found = bench.VerifyCosts.of(measured)
    assert found is not None
    assert (found.tokens, found.threads) == (15, 2)
    assert found.ceiling == pytest.approx(16 / 7.62)
    report = TuneReport("m", "here", "cpu", [result], 1.0, 1.0, measured)
    told = "\n".join(tune.lines(report))
    assert "speculation pays from 66 % accepted on, and is at most 2.10 times as fast" in told
    assert "a draft of 15 tokens costs 7.6 tokens" in told
    assert "threads change no bit" in told
    assert "up to 3 rows have the bits of rows one by one" in told
    assert "by up to 0.28" in told
    dear = msgspec.structs.replace(measured, batch_times={rows: float(rows) for rows in times}, changes={"2 rows": 0.0})
    told = "\n".join(tune.lines(msgspec.structs.replace(report, measured=dear)))
    assert "speculation never pays" in told
    assert "change no bit: the same seed gives the same reply" in told
    busy = msgspec.structs.replace(measured, batch_times={})
    told = "\n".join(tune.lines(msgspec.structs.replace(report, measured=busy)))
    assert "speculation" not in told
    assert "the cost of batches was not measured" in told


def test_a_round_that_stalls_does_not_move_the_median() -> None:
    stalled = Series(3, [120.0, 4.0, 121.0, 119.0, 120.0])
    assert stalled.median == 120.0
    assert stalled.spread == (119.0, 120.0)


# --- what is kept ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def kept(sha256: str, settings: dict[str, int], machine: str = "") -> None:
    per_model.keep_measured(per_model.Tuned(sha256, "m", machine or per_model.machine(), settings, 1.0, 1.0, 0.0))


def test_what_was_measured_goes_before_the_default_and_after_the_person(model_path: Path, tmp_path: Path) -> None:
    none = tmp_path / "none.toml"
    sha = find_model(load({"model": str(model_path)}, {}, none))[1].sha256
    kept(sha, {"threads": 7, "threads_batch": 5, "prefill_batch": 32})

    config, spec = find_model(load({"model": str(model_path)}, {}, none))
    assert (spec.threads, spec.threads_batch, spec.prefill_batch) == (7, 5, 32)
    assert config.origin["threads"] == "tuned"

    file = tmp_path / "config.toml"
    file.write_text("[engine]\nthreads = 2\nfast_prefill = true\n")
    config, spec = find_model(load({"model": str(model_path)}, {}, file))
    assert (spec.threads, spec.threads_batch, spec.prefill_batch) == (2, 0, 0)  # who sets one of two means both
    assert config.origin["threads"] == "config.toml"
    assert choose_model(load({"threads_batch": "3"}, {}, none), str(model_path)).spec.threads_batch == 3


def test_what_was_measured_of_batches_goes_along_with_the_model(model_path: Path, tmp_path: Path) -> None:
    none, flags = tmp_path / "none.toml", {"model": str(model_path)}
    sha = find_model(load(flags, {}, none))[1].sha256
    measured = Measurement("one way", 3, {2: 1.8, 8: 4.2}, 63)
    per_model.keep_rows(measured, sha, "m")
    assert find_model(load(flags, {}, none))[1].measured == (measured,)
    kept(sha, {"threads": 3})
    assert find_model(load(flags, {}, none))[1].measured == (), "it was tuned anew"


def test_another_model_or_machine_has_its_own(model_path: Path, tmp_path: Path) -> None:
    flags, none = {"model": str(model_path)}, tmp_path / "none.toml"
    _, spec = find_model(load(flags, {}, none))
    kept(spec.sha256, {"threads": 7}, "another machine")
    kept("another model", {"threads": 6})
    assert find_model(load(flags, {}, none))[1].threads == 0
    kept(spec.sha256, {"threads": 3})
    tuned_config, tuned_spec = find_model(load(flags, {}, none))
    assert tuned_spec.threads == 3
    assert len(per_model.entries()) == 3
    again = tuned_config.with_tuned({})  # a model without measurements follows
    assert again.value("threads") == 0
    assert again.origin["threads"] == "default"


@pytest.mark.parametrize(
    "content", [b"{", b'{"version":9,"tuned":[]}', b'{"version":1,"tuned":[{"sha256":1}]}', b"\xff"]
)
def test_a_file_that_cannot_be_read_is_empty_and_is_made_new(state: Path, content: bytes) -> None:
    file = state / "termchat" / "tuned.json"
    file.parent.mkdir()
    file.write_bytes(content)
    assert per_model.entries() == []
    kept("sha", {"threads": 1})
    assert per_model.find("sha") is not None


def test_numbers_that_an_option_refuses_are_left_out(tmp_path: Path) -> None:
    before = load({}, {}, tmp_path / "none.toml")
    after = before.with_tuned({"threads": -4, "nonsense": 1, "temperature": 2})
    assert (after.model_dump(), after.origin) == (before.model_dump(), before.origin)


# --- measured --------------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_MOST_ROUNDS", 1)
    monkeypatch.setattr(bench, "_LONGEST_BATCHES", 0.3)
    monkeypatch.setattr(bench, "_prompt", lambda *_: bench._SHORTEST)
    monkeypatch.setattr(bench, "all_threads", lambda: 2)
    monkeypatch.setattr(bench, "default_threads", lambda: 1)


@pytest.mark.usefixtures("short")
def test_a_real_model_is_measured_with_every_thread_count(
    state: Path, small_model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load({"model": str(small_model_path)}, {}, state / "none.toml")
    assert tune.tune(config, seconds=3600, dry_run=False, as_json=True) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    results = {result["setting"]: result for result in report["results"]}
    assert [s["value"] for s in results["threads"]["series"]] == [1, 2]
    assert [s["value"] for s in results["prefill_batch"]["series"]] == [32, 63, 512]
    assert all(s["median"] > 0 for result in results.values() for s in result["series"])
    assert report["kept"]
    assert "round 1" in err
    found = per_model.find(find_model(config)[1].sha256)
    assert found is not None
    assert found.settings == report["settings"]
    (measured,) = found.rows
    assert measured.rows_alike == 63
    assert measured.largest_change == 0
    assert report["measured"] == msgspec.to_builtins(measured, str_keys=True)
    if measured.batch_times:  # no other program kept the machine busy
        assert 0 < report["speculation"]["break_even"] <= 1
    chosen = msgspec.structs.replace(find_model(config)[1], context=256, threads=report["settings"].get("threads", 0))
    with closing(ModelSession(chosen, lambda _: None)) as session:
        assert session.build_info().measured == measured


@pytest.mark.parametrize(
    ("prompt_rate", "rate", "left_out"),
    [(2000, 100, 0), (40, 8, 1), (10, 2, 2)],
)
def test_a_slow_model_is_measured_in_the_time_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, prompt_rate: float, rate: float, left_out: int
) -> None:
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Slow:
        """A model of these rates that takes two seconds to load, on a clock of its own."""

        model = msgspec.structs.replace(fake_engine.INFO, context=2048, can_rewind=True)
        loading = 2.0

        def __init__(self, *_: object) -> None:
            self.load()

        def load(self, *_: object) -> ModelInfo:
            spend(self.loading)
            return self.model

        def run(self, threads: int, prompt: int, reply: int) -> BenchRun:
            spend(prompt / prompt_rate + reply / rate)
            return BenchRun(prompt_rate, rate)

        def batches(self, seconds: float, _cells: int = 0) -> Measurement:
            spend(seconds)
            return Measurement("", 1, {2: 2.0, 8: 2.0})

    monkeypatch.setattr(bench, "Bench", Slow)
    monkeypatch.setattr(bench, "monotonic", lambda: now)
    monkeypatch.setattr(bench, "all_threads", lambda: 2)
    monkeypatch.setattr(bench, "default_threads", lambda: 2)
    told: list[str] = []
    report = bench.measure(FakeEngine(), ModelSpec("/m.gguf", "m"), 60, told.append)
    assert now < 70
    assert sum("left out" in line for line in told) == left_out
    assert report.decode == rate
    assert (report.measured is None) == (left_out > 0)
    assert "\n".join(tune.lines(report))


def test_a_dry_run_keeps_nothing(monkeypatch: pytest.MonkeyPatch, state: Path, model_path: Path) -> None:
    report = TuneReport(
        "m", per_model.machine(), "cpu", [Result("threads", 4, 3, [series(3, *[1.1] * 4), STEADY])], 110.0, 1.0
    )
    monkeypatch.setattr(tune, "measure", lambda *_: report)
    config = load({"model": str(model_path)}, {}, state / "none.toml")
    assert tune.tune(config, seconds=1, dry_run=True, as_json=False) == 0
    assert per_model.entries() == []
    assert tune.tune(config, seconds=1, dry_run=False, as_json=False) == 0
    assert find_model(config)[1].threads == 3


@pytest.mark.usefixtures("short")
def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    engine = LocalEngine()
    with pytest.raises(EngineError, match=r"gone\.gguf could not be loaded"):
        bench.measure(engine, ModelSpec(str(tmp_path / "gone.gguf"), "gone"), 1, lambda _: None)
    engine.close()
