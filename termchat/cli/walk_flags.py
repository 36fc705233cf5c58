"""The flags for several replies at once: `--walks`, `--grid`, `--best-of`, `--vote` and `--beams`, one of which may be given,
and what goes with each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import flag_of
from termchat.cli.help import Grouped
from termchat.decoding.group import MOST_BEAMS, MOST_WALKS

if TYPE_CHECKING:
    from termchat.decoding.walk_plan import WalkPlan

_VOTES = 8
"""Walks of a vote that is not told how many."""

_SEVERAL = click.IntRange(2, MOST_WALKS)
_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--walks",
        {"type": _SEVERAL, "metavar": "N", "help": "print N replies, decoded together, each with the next seed"},
    ),
    (
        "--exact",
        {
            "is_flag": True,
            "help": "with --walks, --best-of or --vote: decode so that each reply equals the one that its seed gives alone,"
            " though that may be slower; --grid does",
        },
    ),
    ("--same-dice", {"is_flag": True, "help": "with --walks or --grid: use the same seed for all replies"}),
    (
        "--grid",
        {
            "metavar": "KNOB=VALUES",
            "multiple": True,
            "shell_complete": completers.grids,
            "help": "print a reply for each value, for example temperature=0,0.5,1; give it twice for each pair of values",
        },
    ),
    (
        "--runs",
        {
            "type": click.IntRange(1, MOST_WALKS),
            "metavar": "N",
            "help": "with --grid: print N replies for each value, each with the next seed  [default: 1]",
        },
    ),
    (
        "--best-of",
        {
            "type": _SEVERAL,
            "metavar": "N",
            "help": "make N replies and print the one with the highest score"
            " (its mean logprob, unless --length-penalty changes it)",
        },
    ),
    (
        "--vote",
        {
            "metavar": "REGEX|$.PATH",
            "help": "print a reply with the most common answer: the last match of REGEX (its first group, if it has one), or"
            f" the value at a JSON path; --walks sets the number of replies  [default: {_VOTES}]",
        },
    ),
    (
        "--beams",
        {
            "type": click.IntRange(2, MOST_BEAMS),
            "metavar": "W",
            "help": "search with W beams and print the reply with the highest score",
        },
    ),
    (
        "--length-penalty",
        {
            "type": float,
            "metavar": "X",
            "help": "with --best-of or --beams: score = sum of logprobs / tokens^X; a higher X favours longer replies"
            "  [default: 1]",
        },
    ),
    (
        "--n-best",
        {
            "type": click.IntRange(1, MOST_BEAMS),
            "metavar": "N",
            "help": "with --beams: print the N best replies  [default: 1]",
        },
    ),
    ("--early-stopping", {"is_flag": True, "help": "with --beams: stop as soon as W beams have ended"}),
    (
        "--after-chain",
        {
            "is_flag": True,
            "help": "with --beams: score tokens by their probability after the chain, not by the model's own",
        },
    ),
)
_ALSO = {"--best-of": ("--best",)}
"""What the slash command is called."""
_GOES_WITH: dict[str, tuple[str, ...]] = {
    "--walks": ("--same-dice", "--exact"),
    "--grid": ("--same-dice", "--runs"),
    "--best-of": ("--length-penalty", "--exact"),
    "--vote": ("--walks", "--exact"),
    "--beams": ("--length-penalty", "--n-best", "--early-stopping", "--after-chain"),
}
"""What makes several replies, and the other flags that it takes."""


def walk_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags; their values go through `plan_of`."""
    for flag, how in reversed(_FLAGS):
        command = click.option(flag, *_ALSO.get(flag, ()), cls=Grouped, group="Walk", **how)(command)
    return command


def plan_of(given: dict[str, Any]) -> WalkPlan | None:
    """The replies that the flags ask for, None for a single one; they are taken out of what is given.

    Raises:
        click.UsageError: they do not go together, or with the flags of knobs, or a value is faulty.
    """
    values = {flag: given.pop(_name(flag), None) for flag, _ in _FLAGS}
    wanted = {flag: value for flag, value in values.items() if value is not None and value is not False and value != ()}
    asked = [flag for flag in _GOES_WITH if flag in wanted]
    if "--vote" in asked and "--walks" in asked:
        asked.remove("--walks")
    if len(asked) > 1:
        raise click.UsageError(f"choose one of {', '.join(asked[:-1])} and {asked[-1]}")
    for flag in wanted:
        takers = [taker for taker, taken in _GOES_WITH.items() if flag in taken]
        if flag not in asked and not set(takers) & set(asked):
            not_with = f", not with {asked[0]}" if asked else ""
            raise click.UsageError(f"{flag} goes with {' or '.join(takers)}{not_with}")
    if not asked:
        return None
    import msgspec

    from termchat.decoding.walk_plan import PlanError

    try:
        exact = wanted.pop("--exact", False)
        plan = _plan(asked[0], wanted)
        plan = msgspec.structs.replace(plan, exact=plan.exact or exact)
    except PlanError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}".removesuffix("; "), param_hint=asked[0]) from None
    for knob in plan.group.knobs:
        if given.get(knob.name) is not None:
            raise click.UsageError(f"{flag_of(knob.name)} and --grid both set {knob.name}: leave one out")
    return plan


def _plan(asked: str, wanted: dict[str, Any]) -> WalkPlan:
    """Raises:
    PlanError: a value is faulty.
    """
    from termchat.decoding import walk_plan
    from termchat.decoding.group import BeamSettings

    if asked == "--grid":
        knobs = walk_plan.parse_grid(wanted["--grid"])
        return walk_plan.grid(knobs, wanted.get("--runs", 1), same_dice="--same-dice" in wanted)
    if asked == "--best-of":
        return walk_plan.best(wanted["--best-of"], wanted.get("--length-penalty", 1.0))
    if asked == "--vote":
        return walk_plan.vote(wanted.get("--walks", _VOTES), wanted["--vote"])
    if asked == "--beams":
        search = {_name(flag): value for flag, value in wanted.items() if flag != "--beams"}
        return walk_plan.beams(BeamSettings(wanted["--beams"], **search))
    return walk_plan.walks(wanted["--walks"], same_dice="--same-dice" in wanted)


def _name(flag: str) -> str:
    return flag[2:].replace("-", "_")
