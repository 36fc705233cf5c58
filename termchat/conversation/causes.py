"""Why two replies differ: the first token that is not the same, and what caused it, the best evidence first.

A draw follows from the model's logits, the knobs, what stages remember, a constraint and the dice. Each of these that differs
is exchanged alone, and the step drawn again from its record (`decoding.redraw`): where the other reply's token comes out, the
cause is shown. Logits cannot be computed again here; what they depend on is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, Literal, NamedTuple

import msgspec

from termchat.conversation.recorded_reply import RecordedReply, RecordedStep
from termchat.conversation.setting_changes import list_values
from termchat.decoding import dice
from termchat.decoding.biases import BANNED
from termchat.decoding.conditions import format_condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.constraint import format_constraint as constraint_shown
from termchat.decoding.records import TAIL, Finished, SettingsRecord, Token
from termchat.decoding.redraw import redraw_step
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
    """Distance of the model's logits at the step: the `largest` difference of a token that both have on record (None: none),
    the total variation of the model's distributions, 0 to 1, and the first differing token. `apart` is the largest change of
    the difference between two candidates' logits.
    """

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
    """Find the first place where the tokens differ; where one reply is longer, the end of the other.

    Of two models the texts are compared, since ids mean other tokens.
    """
    of_one_model = left.start is None or right.start is None or left.start.model.sha256 == right.start.model.sha256
    both = (left.ids, right.ids) if of_one_model else (left.texts, right.texts)
    pairs = zip_longest(*both)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), None)


def why_different(left: RecordedReply, right: RecordedReply, index: int | None = None) -> WhyDifferent | None:
    """Explain the first difference, or the one at token `index`, where only the numbers may differ."""
    if index is None and (index := first_difference(left, right)) is None:
        return None
    one, other = left.step(index), right.step(index)
    shift = _find_shift(left, right, index, one, other)
    found = [*_not_drawn(left, right, one, other)]
    settings = (
        msgspec.structs.replace(cause, since=_find_beginning(left, right, index, cause.name))
        if cause.kind in _SETTINGS
        else cause
        for cause in _compare_inputs(one, other)
    )
    factors = [*settings, *_compare_origins(one, other)]
    if found:
        found += (msgspec.structs.replace(cause, evidence="excluded") for cause in factors)
    else:
        found = _weigh_causes(one, other, factors, shift)
    found.sort(key=lambda cause: _ORDER.index(cause.evidence))
    return WhyDifferent(index, one, other, tuple(found), shift)


_ORDER: tuple[Evidence, ...] = ("shown", "recorded", "excluded")


def _cause_of(kind: Kind, name: str, values: Iterable[str] = ("", ""), **more: Any) -> Cause:
    """Return a cause with its values in both replies."""
    left, right = values
    return Cause(kind=kind, name=name, left=left, right=right, **more)


# --- what no draw decided --------------------------------------------------------------------------------------------


def _not_drawn(left: RecordedReply, right: RecordedReply, one: RecordedStep, other: RecordedStep) -> Iterator[Cause]:
    steps = (one, other)
    if one.id is None or other.id is None:
        yield from _compare_ends(left, right, one, other)
    elif one.id != other.id and (one.forced or other.forced):
        values = ("drawn" if not step.forced else "prescribed" if step.prescribed else "forced" for step in steps)
        yield _cause_of("forced", "forced token", values, evidence="shown")
    elif one.id != other.id and contradicts(one) != contradicts(other):
        values = ("does not follow from its record" if contradicts(step) else "follows" for step in steps)
        yield _cause_of("edited", "the record was edited", values, evidence="shown")


def contradicts(step: RecordedStep) -> bool:
    """Return whether a step's token was not drawn by the dice that are on record with it."""
    token = step.token
    if token is None or token.forced:
        return False
    alive = [candidate for candidate in token.candidates if candidate.probability > 0]
    scores = {candidate.id: math.log(candidate.probability) + candidate.noise for candidate in alive}
    if not scores:
        return False
    return scores.get(token.id, -math.inf) < max(scores.values())


def _compare_ends(left: RecordedReply, right: RecordedReply, one: RecordedStep, other: RecordedStep) -> Iterator[Cause]:
    ends = (
        _describe_end(reply.finished) if step.id is None else "goes on" for reply, step in ((left, one), (right, other))
    )
    yield _cause_of("ended", "end of the reply", ends, evidence="shown")
    end = left.finished if one.id is None else right.finished
    if one.settings is None or other.settings is None or end is None:
        return
    before, after = list_values(one.settings), list_values(other.settings)
    settings = [
        (name, reason, (KNOBS[name].show(before[name]), KNOBS[name].show(after[name])))
        for name, reason in (("stop", "stop"), ("max_tokens", "length"))
        if before[name] != after[name]
    ]
    if (rules := (_rule_texts(one.settings), _rule_texts(other.settings)))[0] != rules[1]:
        settings.append(("rules", "rule", rules))
    for name, reason, both in settings:
        yield _cause_of("knob", name, both, evidence="shown" if end.reason == reason else "excluded")


def _describe_end(finished: Finished | None) -> str:
    return "cut off" if finished is None else f"{finished.reason} {finished.detail}".strip()


def _rule_texts(settings: SettingsRecord) -> str:
    rules = (rule for rule in settings.conditions if rule.__struct_config__.tag not in ("stop", "length"))
    return ", ".join(format_condition(rule) for rule in rules if rule.action == "stop") or "none"


# --- what the draw was made with -------------------------------------------------------------------------------------


class _DrawInputs(NamedTuple):
    """What a step is drawn with, beside the logits."""

    samplers: SamplerSettings
    seed: int
    state: Mapping[str, float]
    refused: frozenset[int]
    bias: Mapping[int, float]


def _read_inputs(step: RecordedStep) -> _DrawInputs | None:
    if step.token is None or step.start is None or step.settings is None or step.start.dice != dice.VERSION:
        return None
    if step.settings.constraint is not None and step.settings.constraint.after_chain:  # only what came as far is marked
        return None
    refused = frozenset(c.id for c in step.token.candidates if c.removed_by == "grammar")
    biases = {bias.id: BANNED if bias.bias is None else bias.bias for bias in step.settings.biases}
    return _DrawInputs(step.settings.samplers, step.start.seed, step.token.state, refused, biases)


_SETTINGS: tuple[Kind, ...] = ("knob", "order", "constraint")


def _compare_inputs(one: RecordedStep, other: RecordedStep) -> Iterator[Cause]:
    """Yield the differences in what the draw was made with."""
    if one.settings is not None and other.settings is not None:
        yield from _compare_knobs(one.settings.samplers, other.settings.samplers)
        if (constraints := [_applied_constraint(step.settings) for step in (one, other)])[0] != constraints[1]:
            yield _cause_of("constraint", "constraint", (constraint_shown(one) or "none" for one in constraints))
    if one.start is not None and other.start is not None:
        starts = (one.start, other.start)
        if one.start.seed != other.start.seed:
            yield _cause_of("dice", "seed", (str(start.seed) for start in starts), since=0)
        if one.start.dice != other.start.dice and not all(start.dice for start in starts):
            names = ("those of the seed" if start.dice else "a server's own" for start in starts)
            yield _cause_of("dice", "random numbers", names, since=0)
        elif one.start.dice != other.start.dice:
            yield _cause_of("dice", "dice version", (str(start.dice) for start in starts))
    if one.token is not None and other.token is not None:
        states = (one.token.state, other.token.state)
        # What is on in one reply only is a matter of its knobs.
        if any(states[0][name] != states[1][name] for name in states[0].keys() & states[1].keys() - {TAIL}):
            texts = (", ".join(f"{k} {v:.6g}" for k, v in state.items() if k != TAIL) or "none" for state in states)
            yield _cause_of("state", "what stages remember", texts)


def _compare_knobs(one: SamplerSettings, other: SamplerSettings) -> Iterator[Cause]:
    """Yield the knobs that differ. Of a stage that is off in one of the replies, only what turns it on."""
    told: set[str | None] = set()
    names = [name for name in SamplerSettings.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    switches = {name for stage in STAGES.values() for name in stage.switches}
    for name in sorted(names, key=lambda name: name not in switches):
        stage = KNOBS[name].stage
        if stage in told:
            continue
        if stage is not None and STAGES[stage].is_active(one) != STAGES[stage].is_active(other):
            told.add(stage)
        shown = (KNOBS[name].show(getattr(samplers, name)) for samplers in (one, other))
        yield _cause_of("order" if name == "order" else "knob", name, shown)


def _applied_constraint(settings: SettingsRecord | None) -> Constraint | None:
    """Return the constraint that is applied."""
    return settings.constraint if settings is not None and not settings.constraint_dropped else None


def _find_beginning(left: RecordedReply, right: RecordedReply, index: int, name: str) -> int:
    """Return the first token from which on a setting was another one in the two replies, up to `index`."""

    def value(settings: SettingsRecord | None) -> object:
        if settings is None or name == "constraint":
            return _applied_constraint(settings)
        return getattr(settings.samplers, name)

    pairs = [*zip(left.iterate_settings(), right.iterate_settings(), strict=False)][: index + 1]
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


def _compare_origins(one: RecordedStep, other: RecordedStep) -> list[Cause]:
    """List the differences in how the logits were computed; what changes them most comes first."""
    causes: list[Cause] = []
    if list(one.context) != list(other.context):
        pairs = enumerate(zip_longest(one.context, other.context))
        at, ids = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        shown = ("ends" if i is None else f"#{i}" for i in ids)
        causes.append(_cause_of("prompt", "prompt", shown, detail=f"first at token {at} of the context"))
    if one.start is None or other.start is None:
        return causes
    starts = (one.start, other.start)
    models = [f"{start.model.name} {start.model.quantization}".strip() for start in starts]
    if one.start.is_served != other.start.is_served:
        engines = ("a server" if start.is_served else "termchat's worker" for start in starts)
        return [*causes, _cause_of("engine", "engine", map("{} on {}".format, models, engines))]
    if one.start.model.fingerprint != other.start.model.fingerprint:
        files = [start.model.sha256[:16] for start in starts]
        alike = models[0] == models[1]
        causes.append(_cause_of("model", *(("model file (fingerprint)", files) if alike else ("model", models))))
    if one.said or other.said or not all(start.dice for start in starts):  # a server that draws tells nothing of how
        return causes
    for kind, name, field in _COMPUTED:
        if getattr(one.start, field) != getattr(other.start, field):
            causes.append(_cause_of(kind, name, (str(getattr(start, field)) for start in starts)))
    if not all(start.exact for start in starts):
        ways = ("exact" if start.exact else "not exact" for start in starts)
        why = "fast prefill, GPU layers, rebuilt cells or drafts"
        causes.append(_cause_of("shapes", "exactness", ways, detail=why))
    if not causes or causes[0].kind != "prompt":
        causes += _compare_shapes(one, other, {cause.name for cause in causes})
    return causes


def _compare_shapes(one: RecordedStep, other: RecordedStep, told: set[str]) -> Iterator[Cause]:
    if one.shapes is None or other.shapes is None:
        known = ("unknown" if step.shapes is None else "known" for step in (one, other))
        yield _cause_of("shapes", "batch shape", known)
        return
    batches = [[shape.rows for shape in shapes] for shapes in (one.shapes, other.shapes)]
    threads = [[shape.threads for shape in shapes] for shapes in (one.shapes, other.shapes)]
    if batches[0] != batches[1]:
        yield _cause_of("shapes", "batch shape", map(_describe_runs, batches))
    elif "threads" not in told and any(a and b and a != b for a, b in zip(*threads, strict=False)):
        yield _cause_of("threads", "threads", map(_describe_runs, threads))


def _describe_runs(numbers: Sequence[int]) -> str:
    """ "63×2 12 1×40": each number with how often it comes in a row."""
    runs = [(number, len(list(run))) for number, run in groupby(numbers)]
    shown = [f"{number}×{count}" if count > 1 else str(number) for number, count in runs]
    return " ".join(shown if len(shown) <= _MOST_RUNS else [*shown[:_MOST_RUNS], "…"])


_MOST_RUNS = 8


def _find_shift(
    left: RecordedReply, right: RecordedReply, index: int, one: RecordedStep, other: RecordedStep
) -> LogitShift | None:
    """Measure how far the logits are apart; None where they are the same, as far as they are on record."""
    if one.token is None or other.token is None:
        return None
    # Of one that tells log-probabilities alone these are its logits, but for a constant.
    alike = one.start is None or other.start is None or one.start.is_served == other.start.is_served
    logits = []
    for token in (one.token, other.token):
        numbers = {c.id: c.logit if alike and not math.isnan(c.logit) else c.logprob for c in token.candidates}
        logits.append({i: number for i, number in numbers.items() if not math.isnan(number)})
    common = logits[0].keys() & logits[1].keys()
    moved = [logits[0][i] - logits[1][i] for i in common]
    fewest = min(len(token.candidates) for token in (one.token, other.token))
    same = common and not any(moved) and one.token.candidates[0].id == other.token.candidates[0].id
    distance = total_variation(one.token, other.token)
    if not common and not distance:  # lists too short to tell
        return None
    if same and len(common) >= fewest - 1:  # a drawn token beyond the highest may be in one alone
        return None
    pairs = zip(left.iterate_numbers(), right.iterate_numbers(), strict=False)
    since = next((at for at, (a, b) in enumerate(pairs) if at < index and a != b), index)
    apart = max(moved) - min(moved) if moved else None
    return LogitShift(max(map(abs, moved), default=None), distance, since, apart)


def total_variation(one: Token, other: Token) -> float:
    """Return how far apart the model's own distributions are at least, 0 to 1, by the recorded candidates."""
    before, now = (
        {c.id: math.exp(c.logprob) for c in token.candidates if not math.isnan(c.logprob)} for token in (one, other)
    )
    common = sum(abs(before[i] - now[i]) for i in before.keys() & now.keys())
    before_alone = sum(max(before[i] - _most_unlisted(other, now), 0.0) for i in before.keys() - now.keys())
    now_alone = sum(max(now[i] - _most_unlisted(one, before), 0.0) for i in now.keys() - before.keys())
    return (common + before_alone + now_alone) / 2


def _most_unlisted(token: Token, listed: Mapping[int, float]) -> float:
    """Return the highest probability that a token off the record can have. The drawn one may be listed below it."""
    highest = [p for i, p in listed.items() if i != token.id or token.rank < len(listed) - 1]
    return min(max(1 - sum(listed.values()), 0.0), min(highest, default=1.0))


def is_comparable(one: RecordedStep, other: RecordedStep) -> bool:
    """Return whether the records tell if the logits of two steps are the same."""
    listed = [{c.id for c in step.token.candidates} if step.token is not None else set() for step in (one, other)]
    return bool(listed[0] & listed[1])


def measure_lead(token: Token, winner: int, other: int) -> float | None:
    """Return by how much `winner` was ahead of `other` in a step: in log probability after the chain plus noise, which the dice
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


def _weigh_causes(
    one: RecordedStep, other: RecordedStep, factors: Sequence[Cause], shift: LogitShift | None
) -> list[Cause]:
    """Return the causes with their evidence, as far as steps can be drawn again."""
    drawn = [_test_exchange(one, other, cause) for cause in factors if cause.kind in _EXCHANGES]
    origins = [cause for cause in factors if cause.kind not in _EXCHANGES]
    known = shift is not None or is_comparable(one, other)
    logits = [] if shift is None else [_test_exchange(one, other, None)]
    weighed = _settle_evidence([*drawn, *logits]) if known else drawn
    found = weighed[: len(drawn)]
    if shift is None:
        found += (_exclude(cause, cause.detail or "the logits are the same") if known else cause for cause in origins)
    else:
        found += _weigh_origins(one, other, origins, shift, weighed[-1])
    if one.id == other.id and shift is None and known:
        changed = "the model's logits are unchanged, but not what follows from them"
        found.append(_cause_of("edited", "the record was edited", evidence="shown", detail=changed))
    if all(cause.evidence == "excluded" for cause in found):
        found.append(_cause_of("unknown", "nothing on record explains it"))
    return found


def _settle_evidence(factors: list[Cause]) -> list[Cause]:
    """Call the only difference the cause; one that seems to change nothing alone may do so together with others."""
    if len(factors) == 1 and factors[0].evidence == "recorded":
        why = "nothing else differs that the draw depends on"
        return [msgspec.structs.replace(factors[0], evidence="shown", detail=why)]
    if any(cause.evidence == "shown" for cause in factors):
        return factors
    return [msgspec.structs.replace(cause, evidence="recorded") for cause in factors]


def _exclude(cause: Cause, detail: str = "") -> Cause:
    return msgspec.structs.replace(cause, evidence="excluded", detail=detail)


def _weigh_origins(
    one: RecordedStep,
    other: RecordedStep,
    origins: Sequence[Cause],
    shift: LogitShift,
    logits: Cause,
) -> list[Cause]:
    """Weigh why the logits differ. Of several ways of computing none can be preferred; a prompt or a model weighs more."""
    evidence, detail = logits.evidence, logits.detail
    strong = [cause for cause in origins if cause.kind in _ALONE]
    found = []
    for cause in origins:
        sole = cause in strong or len(origins) == 1
        mine: Evidence = evidence if sole or evidence == "excluded" else "recorded"
        told = "; ".join(filter(None, (cause.detail, detail if mine == "shown" else "")))
        since = None if cause in strong else shift.since
        found.append(msgspec.structs.replace(cause, evidence=mine, detail=told, since=since))
    if strong or evidence == "excluded":
        return found
    exact = all(step.start is not None and step.start.exact for step in (one, other))
    changes = [step.start.largest_change for step in (one, other) if step.start is not None]
    measured = [change for change in changes if change is not None]
    far = shift.distance > FAR if not measured or shift.apart is None else shift.apart > max(measured)
    if far and not origins and exact:
        away = f"the model's own distributions are far apart ({shift.distance:.3f} in total variation)"
        found.append(_cause_of("weights", "different weights", evidence=evidence, since=shift.since, detail=away))
    elif one.id != other.id and all(step.start is None or step.start.dice for step in (one, other)):
        ties = [step.token.near_tie for step in (one, other) if step.token is not None]
        if any(ties) or (set(ties) <= {None} and not far):
            found.append(_make_near_tie(one, other, shift, evidence))
    if not found or (not origins and not far):
        away = (
            "probably another machine or llama.cpp build, or different weights behind the same header (the model's own "
            f"distributions are {shift.distance:.2g} apart in total variation)"
        )
        found.append(_cause_of("unknown", "no recorded setting differs", since=shift.since, detail=away))
    return found


def _make_near_tie(one: RecordedStep, other: RecordedStep, shift: LogitShift, evidence: Evidence) -> Cause:
    margins = []
    for step, rival in ((one, other), (other, one)):
        ahead = None
        if step.token is not None and step.id is not None and rival.id is not None:
            ahead = measure_lead(step.token, step.id, rival.id)
        margins.append("the other was cut" if ahead is None else f"{ahead:.3g} ahead")
    moved = f"the logits differ by up to {shift.largest:.3g}" if shift.largest is not None else ""
    return _cause_of("near tie", "near tie", margins, evidence=evidence, since=shift.since, detail=moved)


_EXCHANGES: tuple[Kind, ...] = ("knob", "order", "constraint", "dice", "state")


def _test_exchange(one: RecordedStep, other: RecordedStep, cause: Cause | None) -> Cause:
    """Return the cause, `shown` if with it alone one of the steps draws the other's token; None stands for the logits.

    `excluded` is said of what changes neither step's draw.
    """
    found = cause or _cause_of("unknown", "logits")
    sides = [(step, _read_inputs(step)) for step in (one, other)]
    steps = [(step, made) for step, made in sides if made is not None]
    if len(steps) < 2 or any(_draw_again(step, made) != step.id for step, made in steps):
        return found
    told, unchanged = [], 0
    for (step, made), (rival, theirs), side in zip(steps, reversed(steps), ("left", "right"), strict=True):
        drawn = _draw_again(rival, made) if cause is None else _draw_again(step, _exchange_input(made, theirs, cause))
        # The rival's logits with this step's knobs are this step with the logits exchanged.
        if drawn == rival.id:
            told.append(side)
        unchanged += drawn == step.id
    if told:
        which = "either reply" if len(told) == 2 else f"the {told[0]} reply"
        detail = f"with it exchanged, {which} draws the other's token"
        return msgspec.structs.replace(found, evidence="shown", detail=detail)
    return _exclude(found) if unchanged == 2 else found


def _draw_again(step: RecordedStep, made: _DrawInputs) -> int | None:
    assert step.token is not None
    return redraw_step(step.token, step.context, made.samplers, made.seed, made.state, made.refused, made.bias)


def _exchange_input(made: _DrawInputs, theirs: _DrawInputs, cause: Cause) -> _DrawInputs:
    if cause.kind == "constraint":
        return made._replace(refused=theirs.refused)
    if cause.kind == "dice":
        return made._replace(seed=theirs.seed)
    if cause.kind == "state":
        return made._replace(state=theirs.state)
    stage = STAGES.get(KNOBS[cause.name].stage or "")
    turned = stage is not None and stage.is_active(made.samplers) != stage.is_active(theirs.samplers)
    names = stage.knobs if stage is not None and turned else (cause.name,)
    if cause.name == "logit_bias":
        made = made._replace(bias=theirs.bias)
    taken = {name: getattr(theirs.samplers, name) for name in names}
    return made._replace(samplers=msgspec.structs.replace(made.samplers, **taken), state={**theirs.state, **made.state})
