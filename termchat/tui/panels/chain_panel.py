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
    """A title, a line per knob, one of what set them (`origin` by knob), one for the `rules`, one where sampling takes long,
    and one for the stages that are off; `brief` has only those of knobs and rules. `selected` is the knob that TUNE is on,
    `typed` what is being typed for it; with `unfolded` every knob has its line. A `constraint` has its line where its stage
    stands. Knobs that the engine `lacks` are grey; `order` is that of its own chain, if it has one, and `unseen` is why it does
    not tell what the stages left."""
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
        lines.append(_constraint(constraint, effects.get(GRAMMAR), width))
    for name in names:
        if constraint is not None and constraint.after_chain and KNOBS[name].stage is None:
            lines.append(_constraint(constraint, effects.get(GRAMMAR), width))
            constraint = None
        stage = STAGES.get(KNOBS[name].stage or "")
        effect = effects.get(stage.name) if stage is not None and last[stage.name] == name else None
        chosen = name == selected
        after = KNOBS[name].show(tuple(rule.pattern for rule in kept)) if kept and name == "stop" else ""
        instead = "by the model's file" if models and name == LOGIT_BIAS else _instead(stage, tuning)
        instead = _LACKING if name in lacks else instead
        runs = _knob(name, getattr(tuning, name), width, typed if chosen else None, chosen, instead, after)
        tail = _tail(effect, before, width)
        before = effect.survivors if effect is not None else before
        lines.append(Line(spread(runs, tail, width), "panel" if chosen else ""))
    if not brief and (came := _origins(names, origin)):
        lines.append(Line(tuple(doing("dialog('presets')", [(one_line(f"from {came}", width), MUTED)]))))
    if others := [rule for rule in rules if rule not in kept]:
        lines.append(_rules(others, width))
    off = sum(not any(name in names for name in stage.knobs) for stage in STAGES.values() if stage.knobs)
    if unseen is not None and not effects and not brief:
        lines += prose(unseen.message, width, MUTED)
    whole = needs_all(tuning)
    if whole and not brief:
        took = f"{token.sample_us / 1000:.1f} ms/token" if token is not None and token.sample_us else ""
        lines.append(Line(spread([(f"{whole} needs all tokens", MUTED)], [(took, MUTED)], width)))
    if (off and not brief) or unfolded:
        lines.append(_fold(off, width))
    return lines


def _constraint(constraint: Constraint, effect: Stage | None, width: int) -> Line:
    """Its name, how much of the mass its stage left, and how many tokens."""
    tail: list[Run] = []
    if effect is not None:
        mass = (
            "" if effect.mass is None or width < _MASS_FROM else f"{effect.mass:.0%}" if effect.mass >= 0.005 else "<1%"
        )
        forced = "forced " if effect.forced else ""
        tail = [(forced, Ink("stamp")), (mass, MUTED), (str(effect.survivors).rjust(_LEFT), STRONG)]
    name = constraint.name or constraint.kind.replace("_", " ")
    head: list[Run] = [("J ", Ink("accent")), (column(GRAMMAR, _LABEL), TEXT)]
    head.append((one_line(name, max(width - length(head) - length(tail) - 1, 4)), TEXT))
    return Line(spread(doing("dialog('constraint')", head), tail, width))


def around_selected(lines: list[Line], rows: int) -> list[Line]:
    """As many lines as there is room for, the selected one among them; the last one says which key folds them."""
    if len(lines) <= rows:
        return lines
    at = next((i for i, line in enumerate(lines) if line.ground), 0)
    first = min(max(at - rows // 2, 0), len(lines) - rows)
    return [*lines[first : first + rows - 1], lines[-1]]


def shown_knobs(
    tuning: Tuning, selected: str | None = None, *, unfolded: bool = False, order: Sequence[str] = ()
) -> list[str]:
    """The knobs that have a line, in the order of the chain: those of stages that act, and the familiar ones. `order` is as in
    `chain_lines`."""
    first = [name for name, stage in STAGES.items() if stage.first]
    chain = [name for name in order if name in STAGES and name not in first] or tuning.order
    out = [name for name in STAGES if name not in (*first, *chain)]
    stages = [STAGES[name] for name in (*first, *chain, *out)]
    names = [name for stage in stages for name in stage.knobs]
    names += [name for name, knob in KNOBS.items() if knob.stage is None]
    return [name for name in names if unfolded or name in (*FAMILIAR, selected) or _acts(name, tuning)]


def _origins(names: list[str], origin: Mapping[str, str]) -> str:
    """What set knobs, as "preset code; model: top_k temp": not those that a person set here, or nobody."""
    found: dict[str, list[str]] = {}
    for name in names:
        if (place := origin.get(name, DEFAULT)) not in _UNTOLD:
            found.setdefault(place, []).append(KNOBS[name].label)
    return "; ".join(
        place if place.startswith(PRESET) else f"{place}: {' '.join(labels)}" for place, labels in found.items()
    )


def _acts(name: str, tuning: Tuning) -> bool:
    """Whether a knob has an effect, or would have one if it were turned."""
    knob, stage = KNOBS[name], STAGES.get(KNOBS[name].stage or "")
    if knob.needs:
        return not KNOBS[knob.needs].is_off(getattr(tuning, knob.needs))
    if stage is None:
        return bool(getattr(tuning, name) != knob.default)
    if not stage.is_active(tuning):
        return False
    return stage.optional or name == stage.remembers or not knob.is_off(getattr(tuning, name))


def _instead(stage: SamplerStage | None, tuning: Tuning) -> str:
    """Why a stage does not act though its knobs may be turned."""
    if stage is None or stage.draws:
        return ""
    sole = replaced_by(stage, tuning)
    if sole:
        return f"{sole} instead"
    return "" if stage.first or stage.last or stage.name in tuning.order else "left out"


def _tail(effect: Stage | None, before: int, width: int) -> list[Run]:
    """How much of the mass a stage left, where it took some, and how many tokens."""
    if effect is None:
        return []
    cut = effect.survivors < before or (effect.mass is not None and effect.mass < _ALL)
    mass = ""
    if cut and effect.mass is not None and width >= _MASS_FROM:
        mass = "<1%" if effect.mass < 0.005 else ">99%" if effect.mass >= 0.995 else f"{effect.mass:.0%}"
    return [(mass, MUTED), (str(effect.survivors).rjust(_LEFT), STRONG if cut else MUTED)]


@lru_cache(maxsize=256)
def _knob(
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
        head.append((column(_biases(value) or instead or "off", room - _LEFT - _MASS).rstrip(), ink))
    elif knob.stage is None or knob.kind == "texts":
        shown = [
            *([knob.show(value)] if not after or not knob.is_off(value) else []),
            *([f"after {after}"] if after else []),
        ]
        head.append((column(", ".join(shown), room).rstrip(), ink))
    elif instead:
        head.append((column(knob.show(value), _VALUE), ink))
        head.append((column(instead, room - _VALUE - _LEFT).rstrip(), MUTED))
    else:
        head.append((column(knob.show(value), _VALUE), ink))
        mass = _MASS if width >= _MASS_FROM else 0
        bars = bar(0.0 if off else knob.fraction(value), room - _VALUE - mass - _LEFT)
    return tuple((text, ink._replace(knob=name)) for text, ink in (*doing(f"tune_knob('{name}')", head), *bars))


def _biases(value: Value) -> str:
    """How many, then which; "" for none."""
    assert isinstance(value, tuple)
    if not value:
        return ""
    return f"{len(value)} bias{'es' if len(value) > 1 else ''}  {' '.join(value)}"


def _rules(rules: Sequence[Condition], width: int) -> Line:
    """What else ends or pauses a reply."""
    shown = one_line(", ".join(map(format_condition, rules)), max(width - _LABEL - 2, 1))
    return Line(tuple(doing("dialog('breakpoints')", [("  " + column("rules", _LABEL), TEXT), (shown, TEXT)])))


def _fold(off: int, width: int) -> Line:
    """How many stages have no line, and the key that shows them."""
    said = f"{off} more stage{'s are' if off != 1 else ' is'} off" if off else "every stage"
    runs: list[Run] = [(f"+ {said}" if off else said, MUTED)]
    tail: list[Run] = [(f"{UNFOLD} ", Ink("accent")), ("shows" if off else "folds", MUTED)]
    return Line(spread(doing("all_knobs", runs), doing("all_knobs", tail), width))
