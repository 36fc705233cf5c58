"""The flags for several replies at once: what they come to, and what does not go together."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from termchat.cli import main
from termchat.cli.tasks import run
from termchat.cli.walk_flags import plan_of
from termchat.decoding.group import BeamSettings, GridKnob


def test_a_single_reply_is_no_plan() -> None:
    given = {"walks": None, "grid": (), "same_dice": False, "top_k": 3}
    assert plan_of(given) is None
    assert given == {"top_k": 3}


@pytest.mark.parametrize(
    ("given", "kind", "size", "more"),
    [
        ({"walks": 4}, "walks", 4, {"same_dice": False}),
        ({"walks": 4, "same_dice": True}, "walks", 4, {"same_dice": True}),
        (
            {"grid": ("temperature=0,0.5", "top_k=1,off"), "runs": 3, "same_dice": True},
            "grid",
            12,
            {"knobs": (GridKnob("temperature", (0, 0.5)), GridKnob("top_k", (1, 0))), "runs": 3, "same_dice": True},
        ),
        ({"best_of": 5}, "best", 5, {"length_penalty": 1.0}),
        ({"best_of": 5, "length_penalty": 0.0}, "best", 5, {"length_penalty": 0.0}),
        ({"vote": r"\d+"}, "vote", 8, {"answer": r"\d+"}),
        ({"vote": "$.a[0]", "walks": 3}, "vote", 3, {"answer": "$.a[0]"}),
        ({"beams": 4}, "beams", 1, {"beams": BeamSettings(4)}),
        (
            {"beams": 4, "length_penalty": 0.0, "n_best": 2, "early_stopping": True, "after_chain": True},
            "beams",
            2,
            {"beams": BeamSettings(4, 0.0, 2, True, True)},
        ),
    ],
)
def test_flags_become_a_plan(given: dict[str, Any], kind: str, size: int, more: dict[str, Any]) -> None:
    plan = plan_of(given)
    assert plan is not None
    assert (plan.group.kind, plan.group.size, {name: getattr(plan.group, name) for name in more}) == (kind, size, more)
    assert given == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--walks", "1"], "2<=x<=32"),
        (["--walks", "4", "--best-of", "4"], "choose one of --walks and --best-of"),
        (["--grid", "top_k=1,2", "--vote", "x", "--beams", "2"], "choose one of --grid, --vote and --beams"),
        (["--best-of", "4", "--same-dice"], "--same-dice goes with --walks or --grid, not with --best-of"),
        (["--vote", "x", "--same-dice"], "--same-dice goes with --walks or --grid, not with --vote"),
        (["--runs", "3"], "--runs goes with --grid"),
        (
            ["--walks", "3", "--length-penalty", "0"],
            "--length-penalty goes with --best-of or --beams, not with --walks",
        ),
        (["--early-stopping"], "--early-stopping goes with --beams"),
        (["--grid", "temprature=0,1"], "for --grid: unknown knob 'temprature'"),
        (["--grid", "temperature=0,9"], "temperature must be a number from 0 to 5"),
        (["--grid", "top_k=1,2,3,4", "--runs", "9"], "36 walks"),
        (["--grid", "top_k=1,2", "--top-k", "3"], "--top-k and --grid both set top_k"),
        (["--vote", "a(b"], "for --vote: 'a(b' is not a valid regular expression"),
        (["--vote", "$.a["], "is not a JSON path"),
        (["--beams", "2", "--n-best", "3"], "2 beams give 1 to 2 replies, not 3"),
        (["--best-of", "2", "--length-penalty", "nan"], "the length penalty is from -10 to 10, not nan"),
        (["--beams", "17"], "2<=x<=16"),
        (["--beams", "2", "--rule", "loop"], "--beams does not work with --rule"),
        (["--beams", "2", "--prefill", "Sure"], "not work with --rule, --ignore-eos or --prefill"),
        (
            ["-n", "2", "--walks", "2"],
            "-n makes replies one after the other, the walk options make them together: leave one out",
        ),
        (["--walks", "3", "--seed", "9007199254740990"], "the seed of the last reply would be larger"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_model_is_loaded(args: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["run", "hi", "--model", "/nowhere.gguf", *args])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_seeds_that_all_are_the_same_may_be_the_largest() -> None:
    largest = ["--seed", "9007199254740991", "--walks", "3", "--same-dice"]
    done = CliRunner().invoke(main, ["run", "hi", "--model", "/nowhere.gguf", *largest])
    assert done.exit_code == 1
    assert "/nowhere.gguf" in done.stderr


def test_a_shell_offers_the_knobs_of_a_grid() -> None:
    option = next(parameter for parameter in run.params if parameter.name == "grid")
    offered = option.shell_complete(click.Context(run), "top_")
    assert [item.value for item in offered] == ["top_n_sigma=", "top_k=", "top_p=", "top_h="]
