"""What made two replies differ, in words and as plain values: for `termchat replay`, `termchat compare` and the chat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from termchat.conversation.causes import Cause, Evidence, WhyDifferent, is_comparable, is_greedy, measure_lead
from termchat.conversation.recorded_reply import RecordedStep
from termchat.decoding.records import Candidate, Token, is_taken, to_dict
from termchat.decoding.stages import TEMPERATURE
from termchat.text import cells, show_piece

SHOWN = 8
"""Candidates in the table."""

_WEIGHT: dict[Evidence, str] = {
    "shown": "cause",
    "recorded": "possible cause",
    "excluded": "not the cause",
}

Names = tuple[str, str]
"""What the two replies are called: "recorded" and "now", "left" and "right"."""


def cause_line(cause: Cause, names: Names) -> str:
    """One cause, free of control characters."""
    values = (f"{name} {show_piece(value)}" for value, name in zip((cause.left, cause.right), names, strict=True))
    told = f": {', '.join(values)}" if cause.left or cause.right else ""
    since = f", from token {cause.since} on" if cause.since else ""
    detail = f" ({_insert_names(cause.detail, names)})" if cause.detail else ""
    return f"{_WEIGHT[cause.evidence]}: {cause.name}{told}{since}{detail}"


def _insert_names(detail: str, names: Names) -> str:
    return detail.replace("the left reply", f"the {names[0]} reply").replace("the right reply", f"the {names[1]} reply")


def cause_lines(why: WhyDifferent, names: Names) -> Iterator[str]:
    """Yield the causes, then the logits, free of control characters."""
    yield from (cause_line(cause, names) for cause in why.causes)
    shift = why.logits
    if shift is not None and shift.largest is not None:
        yield (
            f"the model's logits differ by up to {shift.largest:.3g} here, first at token {shift.since} "
            f"(total variation {shift.distance:.2g})"
        )
    elif shift is None and is_comparable(why.left, why.right):
        yield "the model's logits are the same here"


# --- the distributions -----------------------------------------------------------------------------------------------


def distribution_lines(left: RecordedStep, right: RecordedStep, names: Names) -> Iterator[str]:
    """Yield the likeliest candidates of both steps and the two tokens: probability of the model, after the chain, and noise."""
    tokens = (left.token, right.token)
    columns = [{c.id: c for c in token.candidates} if token is not None else {} for token in tokens]
    merged = columns[1] | columns[0]
    if not merged:
        return
    chosen = [step.id for step in (left, right)]
    likely = {i: max(_likely_share(c[i]) for c in columns if i in c) for i in merged}
    by_probability = [i for i in sorted(likely, key=lambda i: -likely[i]) if likely[i] > 0]
    rows = list(dict.fromkeys([*by_probability[:SHOWN], *(i for i in chosen if i is not None)]))
    pieces = {i: f"{show_piece(merged[i].text)} ({i})" if i in merged else f"({i})" for i in rows}
    width = max(5, *map(cells, pieces.values()))
    yield f"{'':<{width}}  {names[0]:<27}   {names[1]}".rstrip()
    head = f"{'model':>9}{'after':>9}{'noise':>9}"
    yield f"{'token':<{width}}  {head}   {head}"
    marks = [f"< {name}" for name in names]
    for i in rows:
        padding = " " * (width - cells(pieces[i]))
        told = " ".join(mark for mark, one in zip(marks, chosen, strict=True) if one == i)
        yield f"{pieces[i]}{padding}  {_render_cell(columns[0].get(i))}   {_render_cell(columns[1].get(i))}  {told}".rstrip()


def _render_cell(candidate: Candidate | None) -> str:
    if candidate is None:
        return f"{'-':>9}{'-':>9}{'-':>9}"
    model, noise = _format_number(math.exp(candidate.logprob), ".6f"), _format_number(candidate.noise, ".4f")
    kept = candidate.probability > 0 or math.isnan(candidate.probability) or candidate.removed_by == TEMPERATURE
    after = _format_number(candidate.probability, ".6f") if kept else (candidate.removed_by or "cut")[:8]
    return f"{model:>9}{after:>9}{noise:>9}"


def _format_number(number: float, form: str) -> str:
    return "-" if math.isnan(number) else format(number, form)


def _likely_share(candidate: Candidate) -> float:
    """Return a candidate's probability after the chain; the model's own where a server does not report that."""
    shares = (candidate.probability, math.exp(candidate.logprob))
    return next((share for share in shares if not math.isnan(share)), 0.0)


def tie_lines(left: RecordedStep, right: RecordedStep, names: Names) -> Iterator[str]:
    """Yield by how much each token was ahead of the other."""
    if left.token is None or right.token is None:
        return
    measure = "in logits" if is_greedy(left.token) else "in logit/temperature + noise"
    pairs = ((names[0], left.token, right.token), (names[1], right.token, left.token))
    for name, token, other in pairs:
        ahead = measure_lead(token, token.id, other.id)
        if ahead is not None:
            side = "ahead of" if ahead >= 0 else "behind"
            yield f"{name}: {token_name(token)} {abs(ahead):.6g} {side} {token_name(other)} {measure}"
        else:
            found = next((c for c in token.candidates if c.id == other.id), None)
            if found is not None and math.isnan(found.probability):
                continue  # what the chain made of it is not known
            stage = found.removed_by if found is not None else None
            lost = f"was cut by {show_piece(stage)}" if stage else "was not a candidate"
            yield f"{name}: {token_name(other)} {'did not have the highest logit' if stage == TEMPERATURE else lost}"


def token_name(token: Token) -> str:
    text = next((c.text for c in token.candidates if is_taken(c, token)), token.text)
    return f"{show_piece(text)} ({token.id})"


def step_name(step: RecordedStep) -> str:
    """Name a step by its token, or by the end of the reply."""
    if step.id is None:
        return "the end"
    if step.said:
        return show_piece(step.said)
    return token_name(step.token) if step.token is not None else f"({step.id})"


# --- as plain values -------------------------------------------------------------------------------------------------


def why_dict(why: WhyDifferent, names: Names) -> dict[str, Any]:
    """Build the object for `--json`: the step, each reply's token with its candidates, and the causes."""
    sides = zip(names, (why.left, why.right), strict=True)
    return {
        "step": why.index,
        **{name: side_dict(step) for name, step in sides},
        "logits": to_dict(why.logits),
        "causes": [cause_dict(cause, names) for cause in why.causes],
    }


def side_dict(step: RecordedStep) -> dict[str, Any] | None:
    if step.id is None:
        return None
    if step.said:
        return {"text": step.said, "forced": step.forced}
    token = to_dict(step.token) if step.token is not None else {}
    kept = ("text", "logit", "logprob", "rank", "probability", "entropy", "stages", "candidates", "state")
    return {"id": step.id, "forced": step.forced, **{name: token[name] for name in kept if name in token}}


def cause_dict(cause: Cause, names: Names) -> dict[str, Any]:
    found = {"kind": cause.kind, "name": cause.name, names[0]: cause.left, names[1]: cause.right}
    return {**found, "evidence": cause.evidence, "since": cause.since, "detail": _insert_names(cause.detail, names)}
