"""The flags for several replies at once, made from the fields of plans: `--walks`, `--grid`, `--best-of`, `--vote` and
`--beams`, one of which may be given, and those that go with each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import flag_names, flag_of
from termchat.cli.help import Grouped
from termchat.decoding.plans import FLAGS, PLANS, PlanField

if TYPE_CHECKING:
    from termchat.decoding.walk_plan import WalkPlan

_KINDS = {plan.fields[0].name: kind for kind, plan in PLANS.items() if plan.fields[0].flag_help}
"""The flags that make several replies, and the kinds of plans that they ask for."""


def walk_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; their values go through `plan_of`."""
    for field in reversed(FLAGS):
        command = _make_option(field)(command)
    return command


def _make_option(field: PlanField) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    how: dict[str, Any] = {"cls": Grouped, "group": "Walk", "help": field.flag_help}
    if field.name not in _KINDS:
        how["help"] = f"with {' or '.join(', '.join(_find_takers(field.name)).rsplit(', ', 1))}: {field.flag_help}"
        if field.kind != "switch":
            how["help"] += f"  [default: {field.typed_default}]"
    if field.kind == "switch":
        how["is_flag"] = True
    else:
        how["metavar"] = field.metavar or "N"
    if field.kind == "int":
        how["type"] = click.IntRange(int(field.low), int(field.high))
    elif field.kind == "float":
        how["type"] = float
    elif field.kind == "texts":
        how |= {"multiple": True, "shell_complete": completers.grids}
    return click.option(*flag_names(field), **how)


def _find_takers(name: str) -> list[str]:
    """Return the flags that a flag goes with."""
    return [
        flag_of(plan.fields[0].name) for plan in PLANS.values() if name in (field.name for field in plan.fields[1:])
    ]


def plan_of(given: dict[str, Any]) -> WalkPlan | None:
    """Take the values of the flags out of `given`; return the plan they ask for, None for a single reply.

    Raises:
        click.UsageError: they do not go together, or with the flags of knobs, or a value is faulty.
    """
    values = {field.name: given.pop(field.name, None) for field in FLAGS}
    wanted = {name: value for name, value in values.items() if value is not None and value is not False and value != ()}
    asked = [name for name in _KINDS if name in wanted and (name != "walks" or "vote" not in wanted)]
    heads = [flag_of(name) for name in asked]
    if len(asked) > 1:
        raise click.UsageError(f"choose one of {', '.join(heads[:-1])} and {heads[-1]}")
    for name in wanted:
        if name not in asked and not set(_find_takers(name)) & set(heads):
            not_with = f", not with {heads[0]}" if asked else ""
            raise click.UsageError(f"{flag_of(name)} goes with {' or '.join(_find_takers(name))}{not_with}")
    if not asked:
        return None
    from termchat.decoding.walk_plan import PlanError, make_plan, parse_grid

    try:
        if "grid" in wanted:
            wanted["grid"] = parse_grid(wanted["grid"])
        plan = make_plan(_KINDS[asked[0]], wanted)
    except PlanError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}".removesuffix("; "), param_hint=heads[0]) from None
    for knob in plan.group.knobs:
        if given.get(knob.name) is not None:
            raise click.UsageError(f"{flag_of(knob.name)} and --grid both set {knob.name}: leave one out")
    return plan
