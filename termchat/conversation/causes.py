"""Why two replies differ: the first token that is not the same, and what caused it, the best evidence first.

A draw follows from the model's logits, the knobs, what stages remember, a constraint and the dice. Each of these that differs
is exchanged alone, and the step drawn again from its record (`decoding.redraw`): where the other reply's token comes out, the
cause is shown. Logits cannot be computed again here; what they depend on is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

import msgspec

from termchat.conversation.recorded_reply import RecordedReply, RecordedStep
from termchat.conversation.setting_changes import values
from termchat.decoding import dice
from termchat.decoding.biases import BANNED
from termchat.decoding.conditions import describe
from termchat.decoding.constraint import Constraint
from termchat.decoding.constraint import shown as constraint_shown
from termchat.decoding.records import TAIL, Candidate, Finished, SettingsRecord, Shape, Start, Token
from termchat.decoding.redraw import redrawn
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import STAGES

FAR = 0.2
"""Total variation above which the weights must differ where all was computed in one exact way, if it was not measured how far
ways of computing are apart: inexact ways were at most 0.13."""

Evidence = Literal["shown", "recorded", "excluded"]
"""`shown`: the token follows from it alone, by computing the step again or by what is on record. `recorded`: it differs and can
be the cause. `excluded`: it differs too, but the token does not depend on it."""

Kind = Literal[
    "forced", "edited", "ended", "prompt", "model", "constraint", "knob", "order", "dice", "state", "shapes", "threads",
    "engine", "weights", "near tie", "unknown",
]  # fmt: skip


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What differs, in both replies, and since which token of the reply (None: it has no beginning there)."""

    kind: Kind
    name: str
    left: str = ""
    right: str = ""
    evidence: Evidence = "recorded"
    since: int | None = None
    detail: str = ""


class LogitShift(msgspec.Struct, frozen=True):
    """How far the model's logits are apart at the step: the `largest` difference of a token that both have on record (None:
    there is none), the total variation of the model's distributions, 0 to 1, and the first token at which they differ. `apart`
    is how much the difference between two candidates' logits changed at most."""

    largest: float | None
    distance: float
    since: int
    apart: float | None = None


class WhyDifferent(msgspec.Struct, frozen=True):
    """`index` counts from the first token of the replies; `logits` is None where the model's are the same, or not on record."""

    index: int
    left: RecordedStep
    right: RecordedStep
    causes: tuple[Cause, ...]
    logits: LogitShift | None


def first_difference(left: RecordedReply, right: RecordedReply) -> int | None:
    """The first place where the tokens differ; where one reply is longer, the end of the other; None if they are the same.

    Of two models the texts are compared, since ids mean other tokens.
    """
    of_one_model = left.start is None or right.start is None or left.start.model.sha256 == right.start.model.sha256
    both = (left.ids, right.ids) if of_one_model else (left.texts, right.texts)
    pairs = zip_longest(*both)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), None)


def why_different(left: RecordedReply, right: RecordedReply, index: int | None = None) -> WhyDifferent | None:
    """What made the first difference, or the one at token `index`, where only the numbers may differ; None if there is none."""
    if index is None and (index := first_difference(left, right)) is None:
        return None
    one, other = left.step(index), right.step(index)
    shift = _shift(left, right, index, one, other)
    found = [*_not_drawn(left, right, one, other)]
    factors = [*_factors(left, right, index, one, other), *_origins(one, other)]
    if found:
        found += (msgspec.structs.replace(cause, evidence="excluded") for cause in factors)
    else:
        found = _weighed(one, other, factors, shift)
    found.sort(key=lambda cause: _ORDER.index(cause.evidence))
    return WhyDifferent(index, one, other, tuple(found), shift)


_ORDER: tuple[Evidence, ...] = ("shown", "recorded", "excluded")

_CONDITIONS = {"stop": "stop", "max_tokens": "length"}
"""Knob to the reason of an end that it makes."""


# --- what no draw decided --------------------------------------------------------------------------------------------


def _not_drawn(left: RecordedReply, right: RecordedReply, one: RecordedStep, other: RecordedStep) -> Iterator[Cause]:
    if one.id is None or other.id is None:
        yield from _ended(left, right, one, other)
    elif one.id != other.id and (one.forced or other.forced):
        yield Cause(kind="forced", name="forced token", left=_chosen(one), right=_chosen(other), evidence="shown")
    elif one.id != other.id and contradicts(one) != contradicts(other):
        told = ("does not follow from its record" if contradicts(step) else "follows" for step in (one, other))
        yield Cause(kind="edited", name="the record was edited", left=next(told), right=next(told), evidence="shown")


def _chosen(step: RecordedStep) -> str:
    return "drawn" if not step.forced else "prescribed" if step.prescribed else "forced"


def contradicts(step: RecordedStep) -> bool:
    """Whether a step's token was not drawn by the dice that are on record with it."""
    token = step.token
    if token is None or token.forced:
        return False
    alive = [candidate for candidate in token.candidates if candidate.probability > 0]
    scores = {candidate.id: math.log(candidate.probability) + candidate.noise for candidate in alive}
    if not scores:
        return False
    return scores.get(token.id, -math.inf) < max(scores.values())


def _ended(left: RecordedReply, right: RecordedReply, one: RecordedStep, other: RecordedStep) -> Iterator[Cause]:
    ends = [_end(reply.finished) if step.id is None else "goes on" for reply, step in ((left, one), (right, other))]
    yield Cause(kind="ended", name="end of the reply", left=ends[0], right=ends[1], evidence="shown")
    end = left.finished if one.id is None else right.finished
    if one.settings is None or other.settings is None or end is None:
        return
    before, after = values(one.settings), values(other.settings)
    for name, reason in _CONDITIONS.items():
        if before[name] != after[name]:
            both = (KNOBS[name].show(knobs[name]) for knobs in (before, after))
            evidence: Evidence = "shown" if end.reason == reason else "excluded"
            yield Cause(kind="knob", name=name, left=next(both), right=next(both), evidence=evidence)
    rules = [_rules(step.settings) for step in (one, other)]
    if rules[0] != rules[1]:
        evidence = "shown" if end.reason == "rule" else "excluded"
        yield Cause(kind="knob", name="rules", left=rules[0], right=rules[1], evidence=evidence)


def _end(finished: Finished | None) -> str:
    return "cut off" if finished is None else f"{finished.reason} {finished.detail}".strip()


def _rules(settings: SettingsRecord | None) -> str:
    knobs = ("stop", "length")
    rules = (
        rule
        for rule in (settings.conditions if settings else ())
        if rule.__struct_config__.tag not in knobs and rule.action == "stop"
    )
    return ", ".join(map(describe, rules)) or "none"


# --- what the draw was made with -------------------------------------------------------------------------------------


class _With(NamedTuple):
    """What a step is drawn with, beside the logits."""

    samplers: SamplerSettings
    seed: int
    state: Mapping[str, float]
    refused: frozenset[int]
    bias: Mapping[int, float]


def _with(step: RecordedStep) -> _With | None:
    if step.token is None or step.start is None or step.settings is None or step.start.dice != dice.VERSION:
        return None
    if step.settings.constraint is not None and step.settings.constraint.after_chain:  # only what came as far is marked
        return None
    refused = frozenset(c.id for c in step.token.candidates if c.removed_by == "grammar")
    return _With(step.settings.samplers, step.start.seed, step.token.state, refused, _bias(step.settings))


def _bias(settings: SettingsRecord) -> dict[int, float]:
    return {bias.id: BANNED if bias.bias is None else bias.bias for bias in settings.biases}


def _factors(
    left: RecordedReply, right: RecordedReply, index: int, one: RecordedStep, other: RecordedStep
) -> Iterator[Cause]:
    """All that differs in what the draw was made with."""
    if one.settings is not None and other.settings is not None:
        yield from _knobs(left, right, index, one.settings.samplers, other.settings.samplers)
        if (constraints := [_constraint(step.settings) for step in (one, other)])[0] != constraints[1]:
            since = _since(left, right, index, "constraint")
            told = [constraint_shown(constraint) or "none" for constraint in constraints]
            yield Cause(kind="constraint", name="constraint", left=told[0], right=told[1], since=since)
    if one.start is not None and other.start is not None:
        if one.start.seed != other.start.seed:
            yield Cause(kind="dice", name="seed", left=str(one.start.seed), right=str(other.start.seed), since=0)
        if not (one.start.dice and other.start.dice) and one.start.dice != other.start.dice:
            both = ["those of the seed" if step.start.dice else "a server's own" for step in (one, other) if step.start]
            yield Cause(kind="dice", name="random numbers", left=both[0], right=both[1], since=0)
        elif one.start.dice != other.start.dice:
            yield Cause(kind="dice", name="dice version", left=str(one.start.dice), right=str(other.start.dice))
    if one.token is not None and other.token is not None and _remember_otherwise(one.token.state, other.token.state):
        states = (
            ", ".join(f"{k} {v:.6g}" for k, v in token.state.items() if k != TAIL) for token in (one.token, other.token)
        )
        yield Cause(
            kind="state", name="what stages remember", left=next(states) or "none", right=next(states) or "none"
        )


def _remember_otherwise(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the same stages remember something else; what is on in one reply only is a matter of its knobs."""
    return any(one[name] != other[name] for name in one.keys() & other.keys() - {TAIL})


def _knobs(
    left: RecordedReply, right: RecordedReply, index: int, one: SamplerSettings, other: SamplerSettings
) -> Iterator[Cause]:
    """The knobs that differ. Of a stage that is off in one of the replies, only what turns it on."""
    told: set[str | None] = set()
    names = [name for name in SamplerSettings.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    for name in sorted(names, key=lambda name: name not in _SWITCHES):
        stage = KNOBS[name].stage
        if stage in told:
            continue
        if stage is not None and STAGES[stage].active(one) != STAGES[stage].active(other):
            told.add(stage)
        shown = [KNOBS[name].show(getattr(samplers, name)) for samplers in (one, other)]
        kind: Kind = "order" if name == "order" else "knob"
        yield Cause(kind=kind, name=name, left=shown[0], right=shown[1], since=_since(left, right, index, name))


_SWITCHES = {name for stage in STAGES.values() for name in stage.switches}


def _constraint(settings: SettingsRecord | None) -> Constraint | None:
    """The one that is applied."""
    return settings.constraint if settings is not None and not settings.constraint_dropped else None


def _since(left: RecordedReply, right: RecordedReply, index: int, name: str) -> int:
    """The first token from which on a setting was another one in the two replies, up to `index`."""

    def value(settings: SettingsRecord | None) -> object:
        if settings is None or name == "constraint":
            return _constraint(settings)
        return getattr(settings.samplers, name)

    pairs = [*zip(left.settings(), right.settings(), strict=False)][: index + 1]
    since = index
    while since and value(pairs[since - 1][0]) != value(pairs[since - 1][1]):
        since -= 1
    return since


# --- what the logits depend on ---------------------------------------------------------------------------------------

_COMPUTED: tuple[tuple[Kind, str, str], ...] = (
    ("engine", "llama-cpp-python", "llama_cpp"),
    ("engine", "KV type", "kv_type"),
    ("shapes", "micro-batch", "ubatch"),
    ("threads", "threads", "threads"),
    ("threads", "prompt threads", "threads_batch"),
)
"""Kind and name of a cause, and the field of `start`."""


def _origins(one: RecordedStep, other: RecordedStep) -> list[Cause]:
    """All that differs in how the logits were computed; what changes them most comes first."""
    found: list[Cause] = []
    if list(one.context) != list(other.context):
        found.append(_prompt(one, other))
    if one.start is None or other.start is None:
        return found
    if one.start.is_served != other.start.is_served:
        both = [_engine(step.start) for step in (one, other) if step.start is not None]
        found.append(Cause(kind="engine", name="engine", left=both[0], right=both[1]))
        return found
    if one.start.model.fingerprint != other.start.model.fingerprint:
        found.append(_model(one.start, other.start))
    if one.said or other.said or not (one.start.dice and other.start.dice):  # a server that draws tells nothing of how
        return found
    for kind, name, field in _COMPUTED:
        both = [str(getattr(step.start, field)) for step in (one, other)]
        if both[0] != both[1]:
            found.append(Cause(kind=kind, name=name, left=both[0], right=both[1]))
    if not (one.start.exact and other.start.exact):
        both = ["exact" if step.start.exact else "not exact" for step in (one, other) if step.start is not None]
        why = "fast prefill, GPU layers, rebuilt cells or drafts"
        found.append(Cause(kind="shapes", name="exactness", left=both[0], right=both[1], detail=why))
    if not found or found[0].kind != "prompt":
        found += _shapes(one, other, {cause.name for cause in found})
    return found


def _prompt(one: RecordedStep, other: RecordedStep) -> Cause:
    pairs = enumerate(zip_longest(one.context, other.context))
    at, ids = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
    shown = ["ends" if i is None else f"#{i}" for i in ids]
    return Cause(
        kind="prompt", name="prompt", left=shown[0], right=shown[1], detail=f"first at token {at} of the context"
    )


def _model(one: Start, other: Start) -> Cause:
    names = [_model_name(start) for start in (one, other)]
    if names[0] == names[1]:
        names = [start.model.sha256[:16] for start in (one, other)]
        return Cause(kind="model", name="model file (fingerprint)", left=names[0], right=names[1])
    return Cause(kind="model", name="model", left=names[0], right=names[1])


def _model_name(start: Start) -> str:
    return f"{start.model.name} {start.model.quantization}".strip()


def _engine(start: Start) -> str:
    return f"{_model_name(start)} on " + ("a server" if start.is_served else "termchat's worker")


def _shapes(one: RecordedStep, other: RecordedStep, told: set[str]) -> Iterator[Cause]:
    if one.shapes is None or other.shapes is None:
        known = ("unknown" if step.shapes is None else "known" for step in (one, other))
        yield Cause(kind="shapes", name="batch shape", left=next(known), right=next(known))
        return
    batches, threads = ([_flat(step.shapes or (), field) for step in (one, other)] for field in ("rows", "threads"))
    if batches[0] != batches[1]:
        yield Cause(kind="shapes", name="batch shape", left=_counts(batches[0]), right=_counts(batches[1]))
    elif "threads" not in told and any(a and b and a != b for a, b in zip(*threads, strict=False)):
        yield Cause(kind="threads", name="threads", left=_counts(threads[0]), right=_counts(threads[1]))


def _flat(shapes: Iterable[Shape], field: str) -> list[int]:
    return [getattr(shape, field) for shape in shapes]


def _counts(numbers: Sequence[int]) -> str:
    """ "63×2 12 1×40": each number with how often it comes in a row."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    shown = [f"{number}×{count}" if count > 1 else str(number) for number, count in runs]
    return " ".join(shown if len(shown) <= _MOST_RUNS else [*shown[:_MOST_RUNS], "…"])


_MOST_RUNS = 8


def _shift(
    left: RecordedReply, right: RecordedReply, index: int, one: RecordedStep, other: RecordedStep
) -> LogitShift | None:
    """None where the logits are the same, as far as they are on record."""
    if one.token is None or other.token is None:
        return None
    alike = one.start is None or other.start is None or one.start.is_served == other.start.is_served
    logits = [
        {c.id: number for c in token.candidates if (number := _told_logit(c, alike=alike)) is not None}
        for token in (one.token, other.token)
    ]
    common = logits[0].keys() & logits[1].keys()
    moved = [logits[0][i] - logits[1][i] for i in common]
    fewest = min(len(token.candidates) for token in (one.token, other.token))
    same = common and not any(moved) and one.token.candidates[0].id == other.token.candidates[0].id
    distance = total_variation(one.token, other.token)
    if not common and not distance:  # lists too short to tell
        return None
    if same and len(common) >= fewest - 1:  # a drawn token beyond the highest may be in one alone
        return None
    numbers = zip(left.numbers(), right.numbers(), strict=False)
    since = next((at for at, (a, b) in enumerate(numbers) if at < index and a != b), index)
    apart = max(moved) - min(moved) if moved else None
    return LogitShift(max(map(abs, moved), default=None), distance, since, apart)


def _told_logit(candidate: Candidate, *, alike: bool) -> float | None:
    """Its logit, or its log-probability where that is all that is told of one of the replies, which is one as well but for a
    constant."""
    number = candidate.logit if alike and not math.isnan(candidate.logit) else candidate.logprob
    return None if math.isnan(number) else number


def total_variation(one: Token, other: Token) -> float:
    """How far apart the model's own distributions are at least, 0 to 1, by the recorded candidates."""
    before, now = (
        {c.id: math.exp(c.logprob) for c in token.candidates if not math.isnan(c.logprob)} for token in (one, other)
    )
    common = sum(abs(before[i] - now[i]) for i in before.keys() & now.keys())
    before_alone = sum(max(before[i] - _most_unlisted(other, now), 0.0) for i in before.keys() - now.keys())
    now_alone = sum(max(now[i] - _most_unlisted(one, before), 0.0) for i in now.keys() - before.keys())
    return (common + before_alone + now_alone) / 2


def _most_unlisted(token: Token, listed: Mapping[int, float]) -> float:
    """The highest probability that a token off the record can have. The drawn one may be listed below it."""
    highest = [p for i, p in listed.items() if i != token.id or token.rank < len(listed) - 1]
    return min(max(1 - sum(listed.values()), 0.0), min(highest, default=1.0))


def is_comparable(one: RecordedStep, other: RecordedStep) -> bool:
    """Whether the records tell if the logits of two steps are the same."""
    listed = [{c.id for c in step.token.candidates} if step.token is not None else set() for step in (one, other)]
    return bool(listed[0] & listed[1])


def lead(token: Token, winner: int, other: int) -> float | None:
    """By how much `winner` was ahead of `other` in a step: in log probability after the chain plus noise, which the dice
    compare; at temperature 0 in the model's logits. None if a candidate was cut or not recorded."""
    found = {candidate.id: candidate for candidate in token.candidates}
    first, second = found.get(winner), found.get(other)
    if first is None or second is None:
        return None
    if is_greedy(token):
        return first.logit - second.logit
    if not (first.probability > 0 and second.probability > 0):
        return None
    return math.log(first.probability) + first.noise - math.log(second.probability) - second.noise


def is_greedy(token: Token) -> bool:
    return any(stage.name == "temperature" and stage.survivors == 1 for stage in token.stages)


# --- which of them it was --------------------------------------------------------------------------------------------

_ALONE = ("prompt", "model")
"""What changes logits by much more than the way of computing them does."""


def _weighed(one: RecordedStep, other: RecordedStep, factors: Sequence[Cause], shift: LogitShift | None) -> list[Cause]:
    """The causes with their evidence, as far as steps can be drawn again."""
    drawn = [_exchanged(one, other, cause) for cause in factors if cause.kind in _EXCHANGES]
    origins = [cause for cause in factors if cause.kind not in _EXCHANGES]
    known = shift is not None or is_comparable(one, other)
    logits = [] if shift is None else [_exchanged(one, other, None)]
    weighed = _certain([*drawn, *logits]) if known else drawn
    found = weighed[: len(drawn)]
    if shift is None:
        found += (_same_logits(cause) if known else cause for cause in origins)
    else:
        found += _of_logits(one, other, origins, shift, weighed[-1])
    if one.id == other.id and shift is None and known:
        changed = "the model's logits are unchanged, but not what follows from them"
        found.append(Cause(kind="edited", name="the record was edited", evidence="shown", detail=changed))
    if all(cause.evidence == "excluded" for cause in found):
        found.append(Cause(kind="unknown", name="nothing on record explains it"))
    return found


def _certain(factors: list[Cause]) -> list[Cause]:
    """What is the only thing that differs is the cause; what seems to change nothing alone may in company."""
    if len(factors) == 1 and factors[0].evidence == "recorded":
        return [
            msgspec.structs.replace(
                factors[0], evidence="shown", detail="nothing else differs that the draw depends on"
            )
        ]
    if any(cause.evidence == "shown" for cause in factors):
        return factors
    return [msgspec.structs.replace(cause, evidence="recorded") for cause in factors]


def _same_logits(cause: Cause) -> Cause:
    return msgspec.structs.replace(cause, evidence="excluded", detail=cause.detail or "the logits are the same")


def _of_logits(
    one: RecordedStep,
    other: RecordedStep,
    origins: Sequence[Cause],
    shift: LogitShift,
    logits: Cause,
) -> list[Cause]:
    """Why the logits differ. Of several ways of computing none can be told from the others; a prompt or a model weighs more."""
    evidence, detail = logits.evidence, logits.detail
    strong = [cause for cause in origins if cause.kind in _ALONE]
    found = []
    for cause in origins:
        sole = cause in strong or len(origins) == 1
        mine: Evidence = evidence if sole or evidence == "excluded" else "recorded"
        told = "; ".join(filter(None, (cause.detail, detail if mine == "shown" else "")))
        found.append(msgspec.structs.replace(cause, evidence=mine, detail=told, since=_beginning(cause, shift)))
    if strong or evidence == "excluded":
        return found
    exact = all(step.start is not None and step.start.exact for step in (one, other))
    far = _is_far(one, other, shift)
    if far and not origins and exact:
        away = f"the model's own distributions are far apart ({shift.distance:.3f} in total variation)"
        found.append(Cause(kind="weights", name="different weights", evidence=evidence, since=shift.since, detail=away))
    elif one.id != other.id and all(step.start is None or step.start.dice for step in (one, other)):
        ties = [step.token.near_tie for step in (one, other) if step.token is not None]
        if any(ties) or (set(ties) <= {None} and not far):
            found.append(_near_tie(one, other, shift, evidence))
    if not found or (not origins and not far):
        name = "no recorded setting differs"
        away = (
            "probably another machine or llama.cpp build, or different weights behind the same header (the model's own "
            f"distributions are {shift.distance:.2g} apart in total variation)"
        )
        found.append(Cause(kind="unknown", name=name, since=shift.since, detail=away))
    return found


def _is_far(one: RecordedStep, other: RecordedStep, shift: LogitShift) -> bool:
    """Whether logits are further apart than they are when computed in different ways, by what was measured if anything was."""
    changes = [step.start.largest_change for step in (one, other) if step.start is not None]
    measured = [change for change in changes if change is not None]
    if measured and shift.apart is not None:
        return shift.apart > max(measured)
    return shift.distance > FAR


def _beginning(cause: Cause, shift: LogitShift) -> int | None:
    return shift.since if cause.kind not in _ALONE else None


def _near_tie(one: RecordedStep, other: RecordedStep, shift: LogitShift, evidence: Evidence) -> Cause:
    margins = []
    for step, rival in ((one, other), (other, one)):
        ahead = None
        if step.token is not None and step.id is not None and rival.id is not None:
            ahead = lead(step.token, step.id, rival.id)
        margins.append("the other was cut" if ahead is None else f"{ahead:.3g} ahead")
    moved = f"the logits differ by up to {shift.largest:.3g}" if shift.largest is not None else ""
    return Cause(
        kind="near tie", name="near tie", left=margins[0], right=margins[1], evidence=evidence, since=shift.since,
        detail=moved,
    )  # fmt: skip


_EXCHANGES: tuple[Kind, ...] = ("knob", "order", "constraint", "dice", "state")


def _exchanged(one: RecordedStep, other: RecordedStep, cause: Cause | None) -> Cause:
    """The cause, `shown` if with it alone one of the steps draws the other's token; None stands for the logits.

    `excluded` is said of what changes neither step's draw.
    """
    found = cause or Cause(kind="unknown", name="logits")
    sides = [(step, _with(step)) for step in (one, other)]
    steps = [(step, made) for step, made in sides if made is not None]
    if len(steps) < 2 or any(_draw(step, made) != step.id for step, made in steps):
        return found
    told, unchanged = [], 0
    for (step, made), (rival, theirs), side in zip(steps, reversed(steps), ("left", "right"), strict=True):
        drawn = _draw(rival, made) if cause is None else _draw(step, _exchange(made, theirs, cause))
        # The rival's logits with this step's knobs are this step with the logits exchanged.
        if drawn == rival.id:
            told.append(side)
        unchanged += drawn == step.id
    if told:
        which = "either reply" if len(told) == 2 else f"the {told[0]} reply"
        detail = f"with it exchanged, {which} draws the other's token"
        return msgspec.structs.replace(found, evidence="shown", detail=detail)
    return msgspec.structs.replace(found, evidence="excluded", detail="") if unchanged == 2 else found


def _draw(step: RecordedStep, made: _With) -> int | None:
    assert step.token is not None
    return redrawn(step.token, step.context, made.samplers, made.seed, made.state, made.refused, made.bias)


def _exchange(made: _With, theirs: _With, cause: Cause) -> _With:
    if cause.kind == "constraint":
        return made._replace(refused=theirs.refused)
    if cause.kind == "dice":
        return made._replace(seed=theirs.seed)
    if cause.kind == "state":
        return made._replace(state=theirs.state)
    stage = STAGES.get(KNOBS[cause.name].stage or "")
    turned = stage is not None and stage.active(made.samplers) != stage.active(theirs.samplers)
    names = stage.knobs if stage is not None and turned else (cause.name,)
    if cause.name == "logit_bias":
        made = made._replace(bias=theirs.bias)
    taken = {name: getattr(theirs.samplers, name) for name in names}
    return made._replace(samplers=msgspec.structs.replace(made.samplers, **taken), state={**theirs.state, **made.state})
