"""What a person asks to be walked: how it is written, which walks it makes, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.group import MOST_WALKS, BeamSettings, GridKnob, Group
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.decoding.walk_plan import (
    PRESETS,
    PlanError,
    WalkPlan,
    beams,
    best,
    compare,
    grid,
    parse_grid,
    vote,
    walks,
)


def labels(plan: WalkPlan) -> list[str]:
    return [plan.label_walk(walk) for walk in range(plan.group.size)]


def seeds(plan: WalkPlan, first: int = 40) -> list[int]:
    return [plan.choose_seed(first, walk) for walk in range(plan.group.size)]


def tuning(plan: WalkPlan, base: Tuning, first_seed: int, walk: int) -> Tuning:
    return base.turn_knobs(plan.changes[walk] | {"seed": plan.choose_seed(first_seed, walk)})


def test_each_walk_has_the_next_seed_or_all_the_same() -> None:
    assert seeds(walks(4)) == seeds(best(4)) == seeds(vote(4, r"\d+")) == [40, 41, 42, 43]
    assert seeds(walks(4, same_dice=True)) == [40] * 4
    assert seeds(compare({}, {"top_k": 1})) == [40, 40]
    assert seeds(beams(BeamSettings(4, n_best=2))) == [40, 40]


def test_a_grid_is_in_the_order_given_the_last_knob_fastest_and_runs_innermost() -> None:
    plan = grid(parse_grid(["temperature=0.5,0", "top_p=0.95,0.5"]), runs=2)
    assert labels(plan) == [
        "temp 0.5 · top_p 0.95 · run 1", "temp 0.5 · top_p 0.95 · run 2",
        "temp 0.5 · top_p 0.5 · run 1", "temp 0.5 · top_p 0.5 · run 2",
        "temp 0 · top_p 0.95 · run 1", "temp 0 · top_p 0.95 · run 2",
        "temp 0 · top_p 0.5 · run 1", "temp 0 · top_p 0.5 · run 2",
    ]  # fmt: skip
    assert seeds(plan) == [40, 41] * 4
    assert seeds(grid(plan.group.knobs, runs=2, same_dice=True)) == [40] * 8


def test_a_walk_is_the_chats_settings_with_its_own_knobs_and_seed() -> None:
    base = Tuning(min_p=0.2, top_k=7, seed=3)
    plan = grid(parse_grid(["top_k 1 off"]), runs=2)
    assert tuning(plan, base, 11, 3) == Tuning(min_p=0.2, top_k=0, seed=12)
    assert tuning(plan, base, 11, 0) == Tuning(min_p=0.2, top_k=1, seed=11)
    assert type(tuning(plan, base, 11, 0).top_k) is int


def test_the_group_says_all_that_the_plan_says() -> None:
    plan = grid(parse_grid(["temp 0 1"]), runs=3, same_dice=True)
    assert plan.set_number(5).group == Group(5, "grid", 6, (GridKnob("temperature", (0, 1)),), 3, True)
    assert vote(8, "$.a").set_number(6).group == Group(6, "vote", 8, (), 8, False, "$.a")
    settings = BeamSettings(4, n_best=2)
    assert beams(settings).set_number(7).group == Group(7, "beams", 2, (), 2, beams=settings)


@pytest.mark.parametrize(
    ("texts", "knobs"),
    [
        (["temperature=0,0.5,1,1.5"], {"temperature": (0, 0.5, 1, 1.5)}),
        (["temperature 0 0.5 1"], {"temperature": (0, 0.5, 1)}),
        (["temp 0, 1", "top-p=.5 off"], {"temperature": (0, 1), "top_p": (0.5, 1)}),
        (["temperature 0 1 top_k 1 none"], {"temperature": (0, 1), "top_k": (1, 0)}),
        (["top_n_sigma -1 2"], {"top_n_sigma": (-1, 2)}),
        (["p_less on off"], {"p_less": (1, 0)}),
        (["think auto off on 64"], {"think": (-1, 0, 1_000_000, 64)}),
    ],
)
def test_both_spellings_of_a_grid(texts: list[str], knobs: dict[str, tuple[float, ...]]) -> None:
    assert parse_grid(texts) == grid(parse_grid(texts)).group.knobs == tuple(GridKnob(*one) for one in knobs.items())


@given(
    st.lists(
        st.floats(0, 2).map(lambda v: round(v, 2)).filter(lambda v: v == 0 or v >= 0.01),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True),
    st.integers(1, 2),
)
def test_what_is_written_is_what_is_walked(temperatures: list[float], tops: list[int], runs: int) -> None:
    texts = [f"temperature={','.join(map(str, temperatures))}", "top_k " + " ".join(map(str, tops))]
    cells = [pair for pair in product(temperatures, tops) for _ in range(runs)]
    if len(cells) < 2:
        return
    plan = grid(parse_grid(texts), runs)
    assert [(one["temperature"], one["top_k"]) for one in plan.changes] == cells
    assert [tuning(plan, Tuning(), 0, walk).temperature for walk in range(plan.group.size)] == [
        cell[0] for cell in cells
    ]


def test_the_classic_exercises() -> None:
    temperature = PRESETS["temperature"]()
    assert temperature.group.size == 12
    assert [one["temperature"] for one in temperature.changes] == [0] * 3 + [0.5] * 3 + [1] * 3 + [1.5] * 3
    assert labels(PRESETS["top_k"]()) == ["top_k 1", "top_k 10", "top_k 50", "top_k off"]
    assert [one["top_p"] for one in PRESETS["top_p"]().changes] == [0.5, 0.9, 0.95, 1]
    assert set(PRESETS) <= set(KNOBS)


def test_two_settings_differ_and_are_checked() -> None:
    plan = compare({"temp": 1, "top_k": 5}, {"stop": ["\n"]})
    assert plan.changes == ({"temperature": 1.0, "top_k": 5}, {"stop": ("\n",)})
    assert labels(plan) == ["temp 1 · top_k 5", 'stop "\\n"']


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (lambda: walks(1), "the number of walks is 2 to 32, not 1", ""),
        (lambda: best(33), "not 33", ""),
        (lambda: grid(parse_grid(["temp 0 .5 1 1.5", "top_p .1 .5 1"]), 3),
         "12 cells with 3 runs each are 36 walks; the most is 32", "leave out values or runs"),
        (lambda: grid(parse_grid(["temp 1"])), "this grid has only one walk", "more values or more runs"),
        (lambda: grid(parse_grid(["temp 0 1"]), 0), "at least 1 run per cell, not 0", ""),
        (lambda: grid([]), "a grid needs a knob and its values", "temperature 0 0.5 1"),
        (lambda: grid(parse_grid(["temp 0 1", "top_k 1 2", "top_p 0 1"])),
         "a grid has 2 knobs at most, not 3: temperature, top_k, top_p", "leave one out"),
        (lambda: grid(parse_grid(["temp 0 1", "temperature 0.5"])), "temperature is given twice", "name it once"),
        (lambda: grid(parse_grid(["temp 0 1 1.0"])), "temperature 1 is given twice", "leave one out"),
        (lambda: parse_grid(["tempe 0 1"]), r"unknown knob 'tempe' \(did you mean temperature\?\)", ""),
        (lambda: parse_grid(["temp 0 topp 1"]),
         r"'topp' is neither a value of temperature nor a knob \(did you mean top_p\?\)", ""),
        (lambda: parse_grid(["temp 0 nan"]), "'nan' is neither a value of temperature nor a knob", ""),
        (lambda: parse_grid(["top_p"]), "top_p has no values", "for example"),
        (lambda: parse_grid(["top_p 2"]), "top_p must be a number from 0 to 1, not 2.0", ""),
        (lambda: grid([GridKnob("top_k", (1.5, 2))]), "top_k must be a whole number", ""),
        (lambda: parse_grid(["seed 1 2"]), "seed cannot be a knob of a grid", "number of runs"),
        (lambda: parse_grid(["stop a"]), "stop cannot be a knob of a grid", "one with numbers"),
        (lambda: compare({"top_k": 4}, {"top_k": 4.0}), "both settings are the same", "change a knob"),
        (lambda: compare({"draft": "off"}, {"draft": "ngram"}), "draft cannot be a knob of a grid", "for all"),
        (lambda: parse_grid(["draft_max 3 7"]), "draft_max cannot be a knob of a grid", "for all"),
        (lambda: compare({}, {"topk": 4}), r"unknown knob 'topk' \(did you mean top_k\?\)", ""),
        (lambda: vote(8, "("), r"'\(' is not a valid regular expression", r"\$\.answer"),
        (lambda: vote(8, ""), "a vote needs a regular expression or a JSON path", ""),
        (lambda: vote(8, r"\d*"), "matches empty text", "at least one character"),
        (lambda: vote(8, "$.a..b"), r"is not a JSON path \(at character 4\)", r"\$\.steps\[0\]"),
        (lambda: beams(BeamSettings(1)), "a search with 1 beam is greedy", "temperature to 0"),
        (lambda: beams(BeamSettings(17)), "not 17", ""),
        (lambda: beams(BeamSettings(4, n_best=5)), "4 beams give 1 to 4 replies, not 5", ""),
        (lambda: beams(BeamSettings(4, length_penalty=float("nan"))), "the length penalty is from -", ""),
        (lambda: tuning(walks(2), Tuning(), 2**53 - 1, 1), "seed of walk 2 would be larger than", "a smaller seed"),
    ],
)  # fmt: skip
def test_what_cannot_be_walked_is_refused_with_the_reason(asked: object, message: str, hint: str) -> None:
    assert callable(asked)
    with pytest.raises(PlanError, match=message) as refused:
        asked()
    assert hint.replace("\\", "") in refused.value.hint


@given(st.lists(st.text(max_size=40), max_size=3))
def test_whatever_is_typed_is_a_grid_or_refused(texts: list[str]) -> None:
    with suppress(PlanError):
        assert 2 <= grid(parse_grid(texts)).group.size <= MOST_WALKS
