"""The chain panel: the knobs that act, in the order of the chain, with what each stage left of the tokens and of their mass."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from termchat.config.origins import DEFAULT, FLAG, PRESET
from termchat.decoding.conditions import Condition, Text, format_condition
from termchat.decoding.constraint import GRAMMAR, Constraint
from termchat.decoding.records import Stage, Token
from termchat.decoding.samplers import KNOBS, Tuning, Value
from termchat.decoding.stages import LOGIT_BIAS, STAGES, SamplerStage, needs_all, replaced_by
from termchat.engine.abilities import Refused
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, bar, column, length, prose, spread
from termchat.tui.pages.scene import first_in_view

_LABEL, _VALUE, _MASS, _LEFT = 9, 8, 5, 7
_MASS_FROM = 40
"""The width from which there is room for the mass."""

_ALL = 1 - 1e-6
"""A larger share of the mass is all of it, but for rounding."""

FAMILIAR = ("repeat_penalty", "top_k", "top_p", "min_p", "temperature", "stop", "max_tokens", "seed")
"""The knobs that are shown though they are off."""
_UNTOLD = (DEFAULT, FLAG, "panel", "session")
_LACKING = "not there"
UNFOLD = "v"
"""The key of TUNE that shows all knobs, or hides those that do nothing."""


def chain_lines(
    tuning: Tuning,
    token: Token | None,
    width: int,
    *,
    selected: str | None = None,
    typed: str | None = None,
    unfolded: bool = False,
    origin: Mapping[str, str] = {},
    rules: Sequence[Condition] = (),
    constraint: Constraint | None = None,
    lacks: Collection[str] = (),
    order: Sequence[str] = (),
    unseen: Refused | None = None,
    brief: bool = False,
) -> list[Line]:
    """Render the chain: a title, a line per knob, one of the origins of knobs, one for the `rules`, one where sampling
    takes long, and one for the stages that are off; `brief` has only those of knobs and rules. `selected` is the knob of
    TUNE, `typed` the text typed for it; `unfolded` shows every knob. A `constraint` has its line at the place of its stage.
    Knobs that the engine `lacks` are grey; `order` is that of its own chain, and `unseen` the reason for which it reports
    no stages."""
    names = shown_knobs(tuning, selected, unfolded=unfolded, order=order)
    effects = {stage.name: stage for stage in token.stages} if token else {}
    models = LOGIT_BIAS in effects and not tuning.logit_bias
    if models and LOGIT_BIAS not in names:
        names.insert(0, LOGIT_BIAS)
    last = {KNOBS[name].stage: name for name in names}
    before = max((stage.survivors for stage in effects.values()), default=0)
    kept = [rule for rule in rules if isinstance(rule, Text) and not rule.regex and rule.action == "stop"]
    lines = [Line(spread([("CHAIN", TITLE)], [("mass   left" if width >= _MASS_FROM else "left", MUTED)], width))]
    if constraint is not None and not constraint.after_chain:
        lines.append(_render_constraint(constraint, effects.get(GRAMMAR), width))
    for name in names:
        stage = STAGES.get(KNOBS[name].stage or "")
        if constraint is not None and constraint.after_chain and stage is None:
            lines.append(_render_constraint(constraint, effects.get(GRAMMAR), width))
            constraint = None
        effect = effects.get(stage.name) if stage is not None and last[stage.name] == name else None
        chosen = name == selected
        after = KNOBS[name].show(tuple(rule.pattern for rule in kept)) if kept and name == "stop" else ""
        instead = "by the model's file" if models and name == LOGIT_BIAS else _explain_inactive(stage, tuning)
        instead = _LACKING if name in lacks else instead
        knob = _render_knob(name, getattr(tuning, name), width, typed if chosen else None, chosen, instead, after)
        lines.append(Line(spread(knob, _render_effect(effect, before, width), width), "panel" if chosen else ""))
        before = effect.survivors if effect is not None else before
    if not brief and (came := _summarize_origins(names, origin)):
        lines.append(Line(tuple(doing("dialog('presets')", [(one_line(f"from {came}", width), MUTED)]))))
    if others := [rule for rule in rules if rule not in kept]:
        what = one_line(", ".join(map(format_condition, others)), max(width - _LABEL - 2, 1))
        runs = doing("dialog('breakpoints')", [(f"  {column('rules', _LABEL)}", TEXT), (what, TEXT)])
        lines.append(Line(tuple(runs)))
    off = sum(not any(name in names for name in stage.knobs) for stage in STAGES.values() if stage.knobs)
    if unseen is not None and not effects and not brief:
        lines += prose(unseen.message, width, MUTED)
    whole = needs_all(tuning)
    if whole and not brief:
        took = f"{token.sample_us / 1000:.1f} ms/token" if token is not None and token.sample_us else ""
        lines.append(Line(spread([(f"{whole} needs all tokens", MUTED)], [(took, MUTED)], width)))
    if (off and not brief) or unfolded:
        lines.append(_render_fold(off, width))
    return lines


def _render_constraint(constraint: Constraint, effect: Stage | None, width: int) -> Line:
    """Render its name, how much of the mass its stage left, and how many tokens."""
    tail: list[Run] = []
    if effect is not None:
        mass = _format_mass(effect.mass, width)
        forced = "forced " if effect.forced else ""
        tail = [(forced, Ink("stamp")), (mass, MUTED), (str(effect.survivors).rjust(_LEFT), STRONG)]
    name = constraint.name or constraint.kind.replace("_", " ")
    head: list[Run] = [("J ", Ink("accent")), (column(GRAMMAR, _LABEL), TEXT)]
    head.append((one_line(name, max(width - length(head) - length(tail) - 1, 4)), TEXT))
    return Line(spread(doing("dialog('constraint')", head), tail, width))


def _format_mass(mass: float | None, width: int) -> str:
    """Format the mass that a stage left; "" where it is not known, or has no room."""
    if mass is None or width < _MASS_FROM:
        return ""
    return "<1%" if mass < 0.005 else ">99%" if mass >= 0.995 and mass != 1 else f"{mass:.0%}"


def around_selected(lines: list[Line], rows: int) -> list[Line]:
    """Cut lines to `rows` of them, with the selected one; the last one names the key that folds them."""
    if len(lines) <= rows:
        return lines
    at = next((i for i, line in enumerate(lines) if line.ground), 0)
    first = first_in_view(at, len(lines), rows)
    return [*lines[first : first + rows - 1], lines[-1]]


def shown_knobs(
    tuning: Tuning, selected: str | None = None, *, unfolded: bool = False, order: Sequence[str] = ()
) -> list[str]:
    """List the knobs that have a line, in the order of the chain: of stages that act, and familiar ones. `order` is as in
    `chain_lines`."""
    first = [name for name, stage in STAGES.items() if stage.first]
    chain = [name for name in order if name in STAGES and name not in first] or tuning.order
    out = [name for name in STAGES if name not in (*first, *chain)]
    stages = [STAGES[name] for name in (*first, *chain, *out)]
    names = [name for stage in stages for name in stage.knobs]
    names += [name for name, knob in KNOBS.items() if knob.stage is None]
    return [name for name in names if unfolded or name in (*FAMILIAR, selected) or _has_effect(name, tuning)]


def _summarize_origins(names: list[str], origin: Mapping[str, str]) -> str:
    """Summary of knob origins, as "preset code; model: top_k temp"; defaults and manual changes are left out."""
    labels_by: dict[str, list[str]] = {}
    for name in names:
        if (place := origin.get(name, DEFAULT)) not in _UNTOLD:
            labels_by.setdefault(place, []).append(KNOBS[name].label)
    return "; ".join(
        place if place.startswith(PRESET) else f"{place}: {' '.join(labels)}" for place, labels in labels_by.items()
    )


def _has_effect(name: str, tuning: Tuning) -> bool:
    """Return whether a knob has an effect, or would have one if it were turned."""
    knob, stage = KNOBS[name], STAGES.get(KNOBS[name].stage or "")
    if knob.needs:
        return not KNOBS[knob.needs].is_off(getattr(tuning, knob.needs))
    if stage is None:
        return bool(getattr(tuning, name) != knob.default)
    if not stage.is_active(tuning):
        return False
    return stage.optional or name == stage.remembers or not knob.is_off(getattr(tuning, name))


def _explain_inactive(stage: SamplerStage | None, tuning: Tuning) -> str:
    """Explain why a stage does not act though its knobs may be turned."""
    if stage is None or stage.draws:
        return ""
    sole = replaced_by(stage, tuning)
    if sole:
        return f"{sole} instead"
    return "" if stage.first or stage.last or stage.name in tuning.order else "left out"


def _render_effect(effect: Stage | None, before: int, width: int) -> list[Run]:
    """Render how much of the mass a stage left, where it took some, and how many tokens."""
    if effect is None:
        return []
    cut = effect.survivors < before or (effect.mass is not None and effect.mass < _ALL)
    mass = _format_mass(min(effect.mass, _ALL), width) if cut and effect.mass is not None else ""
    return [(mass, MUTED), (str(effect.survivors).rjust(_LEFT), STRONG if cut else MUTED)]


@lru_cache(maxsize=256)
def _render_knob(
    name: str, value: Value, width: int, typed: str | None, chosen: bool, instead: str, after: str
) -> tuple[Run, ...]:
    """`after`: the texts that end the reply and stay, unlike those of the knob."""
    knob = KNOBS[name]
    off = (knob.is_off(value) and not after) or bool(instead)
    head: list[Run] = [
        (knob.key + " ", Ink("accent", bold=chosen)),
        (column(knob.label, _LABEL), MUTED if off and not chosen else TEXT),
    ]
    room = width - length(head)
    ink = MUTED if off else STRONG if chosen else TEXT
    bars: list[Run] = []
    if typed is not None:
        head.append((column(typed + "▏", room), Ink("accent", bold=True)))
    elif knob.kind == "biases":
        assert isinstance(value, tuple)
        count = f"{len(value)} bias{'es' if len(value) > 1 else ''}"
        what = f"{count}  {' '.join(value)}" if value else instead or "off"
        head.append((column(what, room - _LEFT - _MASS).rstrip(), ink))
    elif knob.stage is None or knob.kind == "texts":
        shown = [] if after and knob.is_off(value) else [knob.show(value)]
        shown += [f"after {after}"] if after else []
        head.append((column(", ".join(shown), room).rstrip(), ink))
    elif instead:
        head.append((column(knob.show(value), _VALUE), ink))
        head.append((column(instead, room - _VALUE - _LEFT).rstrip(), MUTED))
    else:
        head.append((column(knob.show(value), _VALUE), ink))
        mass = _MASS if width >= _MASS_FROM else 0
        bars = bar(0.0 if off else knob.fraction(value), room - _VALUE - mass - _LEFT)
    return tuple((text, ink._replace(knob=name)) for text, ink in (*doing(f"tune_knob('{name}')", head), *bars))


def _render_fold(off: int, width: int) -> Line:
    """Render how many stages have no line, and the key that shows them."""
    text = f"{off} more stage{'s are' if off != 1 else ' is'} off" if off else "every stage"
    runs: list[Run] = [(f"+ {text}" if off else text, MUTED)]
    tail: list[Run] = [(f"{UNFOLD} ", Ink("accent")), ("shows" if off else "folds", MUTED)]
    return Line(spread(doing("all_knobs", runs), doing("all_knobs", tail), width))
