"""The table of knobs: defaults, ranges, what a person may type."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.conditions import Length, Stop
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.samplers import KNOBS, ORDER, KnobError, SamplerSettings, Tuning, escape, unescape

NUMERIC = [name for name, knob in KNOBS.items() if knob.kind in ("float", "int")]


def test_names_and_defaults_are_llama_cpps() -> None:
    assert {name: knob.default for name, knob in KNOBS.items() if name != "order"} == {
        "logit_bias": (), "repeat_penalty": 1.0, "repeat_last_n": 64, "frequency_penalty": 0.0, "presence_penalty": 0.0,
        "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 64,
        "dry_sequence_breakers": ("\n", ":", '"', "*"), "top_n_sigma": -1.0, "top_k": 40, "typical_p": 1.0, "top_p": 0.95,
        "min_p": 0.05, "xtc_probability": 0.0, "xtc_threshold": 0.1, "p_less": 0, "top_h": 0.0, "min_k": 0.0,
        "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "mirostat": 0, "mirostat_tau": 5.0,
        "mirostat_eta": 0.1, "adaptive_target": -1.0, "adaptive_decay": 0.9, "stop": (), "max_tokens": 0,
        "think": -1, "step_by_step": 0, "draft": "off", "draft_max": 15, "draft_always": 0, "seed": None,
    }  # fmt: skip
    assert [name for name in ORDER if name not in ("p_less", "top_h", "min_k")] == [
        "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature",
    ]  # fmt: skip
    assert Tuning().samplers() == SamplerSettings()


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("top_k;temperature", ("top_k", "temperature")),
        ("typ_p; Top-K ,temp", ("typical_p", "top_k", "temperature")),
        ("temperature;top_p;temperature", ("temperature", "top_p")),
    ],
)
def test_an_order_is_understood_as_llama_cpp_writes_it(text: str, order: tuple[str, ...]) -> None:
    assert KNOBS["order"].parse(text) == KNOBS["order"].check(order) == order
    assert KNOBS["order"].parse(KNOBS["order"].show(order)) == order


def test_an_unknown_stage_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(KnobError, match=r"order: unknown stage 'top_x'; known stages: penalties, dry, .*temperature"):
        KNOBS["order"].parse("top_k;top_x")


def test_every_knob_has_its_own_letter() -> None:
    assert len({knob.key for knob in KNOBS.values()}) == len(KNOBS)


@pytest.mark.parametrize("name", NUMERIC)
def test_out_of_range_is_refused_with_the_range(name: str) -> None:
    knob = KNOBS[name]
    for bad in (knob.low - 1, knob.high + 1, math.nan, math.inf, 10**400, -(10**5000), "1", True, None):
        with pytest.raises(KnobError, match=rf"{name} must be .* from {knob.low:.16g} to {knob.high:.16g}"):
            knob.check(bad)
    assert knob.check(knob.low) == knob.low
    assert knob.check(knob.high) == knob.high


@pytest.mark.parametrize("name", [n for n in NUMERIC if KNOBS[n].kind == "int"])
def test_whole_numbers_only(name: str) -> None:
    with pytest.raises(KnobError, match="whole number"):
        KNOBS[name].check(1.5)
    with pytest.raises(KnobError, match="whole number"):
        KNOBS[name].parse("1.5")


@given(st.sampled_from(NUMERIC), st.lists(st.tuples(st.integers(-40, 40), st.booleans()), max_size=20))
def test_moves_stay_in_range(name: str, moves: list[tuple[int, bool]]) -> None:
    knob = KNOBS[name]
    value = knob.default
    for steps, coarse in moves:
        value = knob.moved(value, steps, coarse=coarse)
        assert knob.check(value) == value
        assert 0 <= knob.fraction(value) <= 1


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=20))
def test_a_choice_moves_from_word_to_word_and_stops_at_the_ends(moves: list[tuple[int, bool]]) -> None:
    knob = KNOBS["draft"]
    value, at = knob.default, 0
    for steps, coarse in moves:
        value, at = knob.moved(value, steps, coarse=coarse), min(max(at + steps, 0), 3)
        assert value == ("off", "ngram", "model", "auto")[at]
        assert knob.at(knob.fraction(value)) == knob.parse(knob.show(value)) == value


@pytest.mark.parametrize("bad", ["smollm2", "", 1, None, True])
def test_a_choice_takes_no_other_word(bad: object) -> None:
    with pytest.raises(KnobError, match="draft must be one of off, ngram, model, auto, not "):
        Tuning().turn_knobs({"draft": bad})
    assert KNOBS["draft"].parse(" Auto ") == "auto"


def test_who_drafts_is_told_only_while_somebody_does() -> None:
    assert Tuning().drafts is Tuning(draft_max=3).drafts is None
    assert Tuning().turn_knobs({"draft": "ngram", "draft_max": 3}).drafts == DraftSettings("ngram", 3)


@given(st.sampled_from(NUMERIC), st.integers(-30, 30))
def test_what_is_shown_can_be_typed(name: str, steps: int) -> None:
    knob = KNOBS[name]
    value = knob.moved(knob.default, steps)
    assert knob.parse(knob.show(value)) == value


@pytest.mark.parametrize("text", ["0.12345", "0.01", "1e-05", "0.3333333333333333", "2.0"])
def test_a_typed_number_is_shown_whole(text: str) -> None:
    knob = KNOBS["repeat_penalty"] if text != "1e-05" else KNOBS["min_p"]
    assert knob.show(knob.parse(text)) == text


def test_a_temperature_too_small_to_divide_by_is_refused_and_skipped_by_keys() -> None:
    knob = KNOBS["temperature"]
    for small in (1e-38, 0.001, 0.00999):
        with pytest.raises(KnobError, match=r"temperature must be 0 or at least 0\.01, not"):
            knob.check(small)
    assert (knob.check(0), knob.check(0.01)) == (0.0, 0.01)
    assert (knob.moved(0.055, -1), knob.moved(-0.045, 1)) == (0.0, 0.01)


def test_seed() -> None:
    seed = KNOBS["seed"]
    assert seed.parse("fresh") is None
    assert seed.parse("42") == 42
    assert seed.show(None) == "fresh"
    with pytest.raises(KnobError, match="9007199254740991"):
        seed.check(2**53)
    with pytest.raises(KnobError, match="whole number"):
        seed.check(-1)


def test_stops() -> None:
    stop = KNOBS["stop"]
    assert stop.parse(r"\n6.") == ("\n6.",)
    assert stop.check(["a", "b", "a"]) == ("a", "b")
    assert stop.show(("\n6.",)) == r'"\n6."'
    with pytest.raises(KnobError):
        stop.check([""])
    with pytest.raises(KnobError):
        stop.check([3])


@given(st.text())
def test_escape_and_back(text: str) -> None:
    assert escape(text).isprintable()
    assert unescape(escape(text)) == text


def test_turned_checks_names_and_values() -> None:
    tuning = Tuning().turn_knobs({"temperature": 0, "stop": ["x"], "max_tokens": 5})
    assert tuning.temperature == 0.0
    assert tuning.conditions() == (Stop("x"), Length(5))
    with pytest.raises(KnobError, match="temperature must be a number from 0 to 5, not 9"):
        tuning.turn_knobs({"temperature": 9})
    with pytest.raises(KnobError, match="unknown knob 'heat'"):
        tuning.turn_knobs({"heat": 1})


def test_a_knob_that_goes_below_nothing_steps_there() -> None:
    knob = KNOBS["frequency_penalty"]
    assert (knob.moved(0.0, -1), knob.moved(-0.05, 1)) == (-0.05, 0.0)
    assert (knob.fraction(0.0), knob.fraction(-1.0), knob.at(0.0)) == (0.0, 0.0, 0.0)
