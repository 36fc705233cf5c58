"""Why two replies differ: replies of a model of 300 tokens, drawn by llama.cpp's own chain, with one or two things changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.conversation.causes import (
    Cause,
    WhyDifferent,
    first_difference,
    measure_lead,
    total_variation,
    why_different,
)
from termchat.conversation.causes_text import cause_lines, distribution_lines, tie_lines, why_dict
from termchat.conversation.recorded_reply import RecordedReply, ReplyPiece
from termchat.conversation.tree import Node
from termchat.decoding import dice
from termchat.decoding.conditions import Length, Stop
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import ABSENT, Candidate, Finished, SettingsRecord, Shape, Stage, Start, Token
from termchat.decoding.samplers import ORDER, SamplerSettings
from termchat.engine.llama.chain import Chain
from tests.made_records import start

N_VOCAB = 300
GRAMMAR = frozenset(range(0, N_VOCAB, 2))
NAMES = ("left", "right")


def model(context: list[int], weights: int, drift: float) -> NDArray[np.float32]:
    """Logits after a context: five likely tokens of 300."""
    draw = np.random.default_rng([weights, *context[-4:], len(context), sum(context)])
    logits = draw.normal(0, 1, N_VOCAB).astype(np.float32)
    logits[draw.integers(0, N_VOCAB, 5)] += np.float32(9)
    return logits + np.float32(drift) * draw.normal(0, 1, N_VOCAB).astype(np.float32)


def reply(
    *,
    prompt: tuple[int, ...] = (1, 2, 3),
    length: int = 24,
    knobs: Mapping[str, Any] | None = None,
    later: Mapping[int, Mapping[str, Any]] | None = None,
    forced: Mapping[int, int] | None = None,
    seed: int = 5,
    weights: int = 1,
    drift: tuple[int, float] = (0, 0.0),
    refused: frozenset[int] = frozenset(),
    on_record: bool = True,
    shapes: list[Shape] | None = None,
    end: Finished | None = None,
    conditions: tuple[Any, ...] = (),
    **starts: Any,
) -> RecordedReply:
    """A reply as an engine would write it: `later` knobs and `forced` ids by step; from `drift[0]` on the logits are off."""
    node = Node(2, 1, 0, "assistant")
    begun: Start = msgspec.structs.replace(start(list(prompt), seed), **starts)
    node.add(begun)
    samplers = SamplerSettings(**(knobs or {}))
    node.add(SettingsRecord(0, samplers, conditions, {}, 2))
    context, tokens = list(prompt), list[Token]()
    for step in range(length):
        if later and step in later:
            samplers = msgspec.structs.replace(samplers, **later[step])
            node.add(SettingsRecord(node.settings[-1].number + 1, samplers, conditions, {}, 2))
        logits = model(context, weights, drift[1] if step >= drift[0] else 0.0)
        token = drawn(logits, context, samplers, seed, step, refused, (forced or {}).get(step), len(node.settings) - 1)
        tokens.append(token)
        node.add(token)
        context.append(token.id)
    if end is not None:
        node.add(end)
    known = shapes if shapes is not None else [Shape(len(prompt) - 1, 2), Shape(1, 2)]
    return RecordedReply(
        [ReplyPiece(node, length, list(prompt), known)], lambda _, at: tokens[at] if on_record else None
    )


def drawn(
    logits: NDArray[np.float32],
    past: list[int],
    samplers: SamplerSettings,
    seed: int,
    step: int,
    refused: frozenset[int],
    forced: int | None,
    number: int,
) -> Token:
    wide = logits.astype(np.float64)
    logprobs = wide - np.logaddexp.reduce(wide)
    masked = logits.copy()
    masked[list(refused)] = -np.inf
    chain = Chain(samplers, N_VOCAB, past)
    left = chain.apply_stages(masked, None, [], seed, step)
    alive = np.isfinite(left.logits)
    ids, scores = left.ids[alive].copy(), left.logits[alive].astype(np.float64)
    chain.close()
    probability = dict(zip(ids.tolist(), np.exp(scores - np.logaddexp.reduce(scores)).tolist(), strict=True))
    winner = int(ids[(scores + dice.draw_gumbel(seed, step, ids)).argmax()]) if forced is None else forced
    order = [int(i) for i in np.argsort(-logits, kind="stable")]
    listed = order[:20] + ([winner] if winner not in order[:20] else [])
    noise = dice.draw_gumbel(seed, step, np.array(listed, np.int32)).tolist()
    candidates = [
        Candidate(
            i, f" w{i}", float(logits[i]), float(logprobs[i]), probability.get(i, 0.0), noise[at],
            "grammar" if i in refused else None if i in probability else "min_p",
        )
        for at, i in enumerate(listed)
    ]  # fmt: skip
    entropy = float(-(np.exp(logprobs) * logprobs).sum())
    return Token(
        step, len(past), winner, b"x", f" w{winner}", float(logits[winner]), float(logprobs[winner]), order.index(winner),
        probability.get(winner, 0.0), entropy, 0.0, number, forced is not None,
        [Stage("temperature", len(ids))], candidates, {}, 0, 0,
    )  # fmt: skip


def found(left: RecordedReply, right: RecordedReply) -> WhyDifferent:
    why = why_different(left, right)
    assert why is not None
    assert why.index == first_difference(left, right)
    assert left.ids[: why.index] == right.ids[: why.index]
    return why


def shown(why: WhyDifferent) -> set[str]:
    return {cause.name for cause in why.causes if cause.evidence == "shown"}


def cause(why: WhyDifferent, name: str) -> Cause:
    return next(cause for cause in why.causes if cause.name == name)


OTHER_ORDER = (*ORDER[::-1],)
ALONE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "temperature": ({}, {"knobs": {"temperature": 1.6}}),
    "top_k": ({}, {"knobs": {"top_k": 1}}),
    "top_p": ({}, {"knobs": {"top_p": 0.2}}),
    "min_p": ({}, {"knobs": {"min_p": 0.9}}),
    "typical_p": ({}, {"knobs": {"typical_p": 0.2}}),
    "repeat_penalty": ({}, {"knobs": {"repeat_penalty": 8.0}}),
    "xtc_probability": ({}, {"knobs": {"xtc_probability": 1.0}}),
    "order": ({"knobs": {"temperature": 4.0}}, {"knobs": {"temperature": 4.0, "order": OTHER_ORDER}}),
    "seed": ({}, {"seed": 6}),
    "constraint": ({}, {"refused": GRAMMAR}),
    "prompt": ({}, {"prompt": (1, 9, 3)}),
    "threads": ({}, {"threads": 4, "drift": (3, 0.1)}),
    "KV type": ({}, {"kv_type": "q8_0", "drift": (0, 0.1)}),
    "micro-batch": ({}, {"ubatch": 512, "drift": (0, 0.1)}),
    "llama-cpp-python": ({}, {"llama_cpp": "9.9", "drift": (0, 0.1)}),
    "batch shape": ({}, {"shapes": [Shape(1, 2)] * 3, "drift": (0, 0.1)}),
    "model file (fingerprint)": ({}, {"weights": 2}),
    "forced token": ({}, {"forced": {4: 298}}),
}


def made(side: dict[str, Any]) -> RecordedReply:
    """A reply that is long enough for small changes of the logits to change a draw."""
    starts = {"model": msgspec.structs.replace(start([1]).model, sha256="cd" * 32)} if side.get("weights") == 2 else {}
    replied = reply(**{"length": 150, **side, **starts})
    return with_constraint(replied) if "refused" in side else replied


@pytest.mark.parametrize("name", ALONE)
def test_each_cause_alone_is_named_and_shown(name: str) -> None:
    one, other = ALONE[name]
    why = found(made(one), made(other))
    assert name in shown(why), [*cause_lines(why, NAMES)]
    assert shown(why) <= {name, "near tie"}
    assert why.causes[0].name == name
    assert (why.logits is None) == (name not in COMPUTED)


COMPUTED = {
    "prompt", "threads", "KV type", "micro-batch", "llama-cpp-python", "batch shape", "model file (fingerprint)",
}  # fmt: skip
"""What changes logits; a draw with other settings from the same logits has them in common."""


def with_constraint(made: RecordedReply) -> RecordedReply:
    """Its settings name one."""
    node = made._pieces[0].node
    held_to = Constraint("regex", "a+")
    node.settings = [msgspec.structs.replace(record, constraint=held_to) for record in node.settings]
    return made


PAIRED = (
    "temperature",
    "top_p",
    "typical_p",
    "repeat_penalty",
    "xtc_probability",
    "seed",
    "constraint",
    "threads",
    "prompt",
)


@pytest.mark.parametrize(("name", "with_it"), combinations(PAIRED, 2))
def test_of_two_causes_each_is_shown_or_excluded_as_the_whole_row_of_logits_says(name: str, with_it: str) -> None:
    sides = ({}, _together(ALONE[name][1], ALONE[with_it][1]))
    why = found(*map(made, sides))
    assert {cause.name for cause in why.causes} >= {name, with_it}
    rows = [_row(why, side, left) for side, left in zip(sides, (True, False), strict=True)]
    ids = (why.left.id, why.right.id)
    assert tuple(_throw(row, side, why) for row, side in zip(rows, sides, strict=True)) == ids
    for factor in (name, with_it):
        told = cause(why, factor).evidence
        if factor in COMPUTED:  # exchanged with the logits go the ids before them
            swapped = [_throw(rows[1], sides[0], why), _throw(rows[0], sides[1], why)]
        else:
            swapped = [
                _throw(rows[0], _together(sides[0], ALONE[factor][1]), why),
                _throw(rows[1], _without(sides[1], factor), why),
            ]
        if told == "shown":
            assert swapped[0] == ids[1] or swapped[1] == ids[0]
        if told == "excluded":
            assert tuple(swapped) == ids
    assert shown(why) or all(each.evidence == "recorded" for each in why.causes)


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**one, **other, "knobs": {**one.get("knobs", {}), **other.get("knobs", {})}}


def _without(side: dict[str, Any], factor: str) -> dict[str, Any]:
    gone = ALONE[factor][1]
    kept = {key: value for key, value in side.items() if key not in gone or key == "knobs"}
    return {**kept, "knobs": {key: value for key, value in kept["knobs"].items() if key not in gone.get("knobs", {})}}


def _row(why: WhyDifferent, side: dict[str, Any], left: bool) -> tuple[NDArray[np.float32], list[int]]:
    context = list((why.left if left else why.right).context)
    begin, drift = side.get("drift", (0, 0.0))
    return model(context, 1, drift if why.index >= begin else 0.0), context


def _throw(row: tuple[NDArray[np.float32], list[int]], side: dict[str, Any], why: WhyDifferent) -> int:
    """What is drawn of a whole row."""
    samplers, refused = SamplerSettings(**side.get("knobs", {})), side.get("refused", frozenset())
    return drawn(*row, samplers, side.get("seed", 5), why.index, refused, None, 0).id


def test_two_knobs_that_only_together_change_the_draw_are_both_named() -> None:
    """Alone, neither excludes the other's effect: greedy hides the seed."""
    greedy = {"temperature": 0.0}
    same = why_different(reply(knobs=greedy), reply(knobs=greedy, seed=6))
    assert same is None
    why = found(reply(knobs=greedy, seed=6), reply())
    assert cause(why, "temperature").evidence == "shown"
    assert {each.name for each in why.causes} == {"temperature", "seed"}


def test_a_knob_says_since_which_token() -> None:
    why = found(reply(length=60), reply(length=60, later={9: {"temperature": 3.0}}))
    assert why.index >= 9
    assert cause(why, "temperature").since == 9
    assert "cause: temperature: left 0.8, right 3.0, from token 9 on (" in next(iter(cause_lines(why, NAMES)))
    turned_back = reply(length=60, later={2: {"min_p": 0.06}, 3: {"min_p": 0.05}, 9: {"temperature": 3.0}})
    assert [each.name for each in found(reply(length=60), turned_back).causes] == ["temperature"]


def test_what_differs_but_does_nothing_is_excluded() -> None:
    why = found(reply(), reply(seed=6, threads=4, knobs={"dynatemp_exponent": 2.0}))
    assert shown(why) == {"seed"}
    assert cause(why, "dynatemp_exponent").evidence == "excluded"
    assert cause(why, "threads").evidence == "excluded"
    lines = [*cause_lines(why, NAMES)]
    assert lines[0].startswith("cause: seed: left 5, right 6")
    assert "not the cause: threads: left 2, right 4 (the logits are the same)" in lines
    assert lines[-1] == "the model's logits are the same here"


def test_of_several_ways_of_computing_none_is_told_from_the_others() -> None:
    why = found(reply(length=150), reply(length=150, threads=4, kv_type="q8_0", drift=(5, 0.1)))
    assert {cause(why, name).evidence for name in ("threads", "KV type")} == {"recorded"}
    assert shown(why) == {"near tie"}
    tie = cause(why, "near tie")
    assert why.logits is not None
    assert why.logits.since == tie.since == 5
    largest = max(
        abs(one.logit - other.logit)
        for one in why.left.token.candidates  # type: ignore[union-attr]
        for other in why.right.token.candidates  # type: ignore[union-attr]
        if one.id == other.id
    )
    assert why.logits.largest == pytest.approx(largest)
    assert f"the logits differ by up to {largest:.3g}" in tie.detail


def test_the_logits_without_a_cause_on_record() -> None:
    near = found(reply(length=150), reply(length=150, drift=(0, 0.1)))
    assert [each.name for each in near.causes] == ["near tie", "no recorded setting differs"]
    far = found(reply(), reply(weights=2))
    assert [each.name for each in far.causes] == ["different weights"]
    assert "far apart" in far.causes[0].detail


def known(one: RecordedReply, near_tie: bool | None, change: float = 0.5) -> RecordedReply:
    """The reply as if its engine had measured the largest change, and had said this of each draw."""
    node, told = one._pieces[0].node, one._token
    assert node.start is not None
    node.start = msgspec.structs.replace(node.start, largest_change=change)
    one._token = lambda of, at: msgspec.structs.replace(told(of, at), near_tie=near_tie)  # type: ignore[type-var]
    return one


def test_a_near_tie_is_told_where_the_record_of_either_knows_one() -> None:
    drifted = {"length": 150, "drift": (0, 0.1)}
    for left, right, told in ((True, False, 1), (None, True, 1), (False, False, 0), (False, None, 0)):
        why = found(known(reply(length=150), left), known(reply(**drifted), right))  # type: ignore[arg-type]
        assert [cause.name for cause in why.causes].count("near tie") == told
    same = found(known(reply(length=60), True), known(reply(length=60, seed=6), True))
    assert "near tie" not in [cause.name for cause in same.causes]  # the logits are the same


def test_how_far_apart_logits_may_be_is_the_measured_change_where_it_is_known() -> None:
    one, other = reply(length=150), reply(length=150, drift=(0, 0.1))
    why = found(one, other)
    assert why.logits is not None
    assert why.logits.apart is not None
    for change, name in ((why.logits.apart * 1.01, "no recorded setting differs"), (0.01, "different weights")):
        told = found(known(one, False, change), known(other, False, change))
        assert [cause.name for cause in told.causes] == [name]


def test_another_way_of_computing_is_no_other_model_however_far_apart_the_numbers_are() -> None:
    far = found(reply(), reply(weights=2, kv_type="q4_0"))
    assert [each.name for each in far.causes] == ["KV type"]


def test_of_lists_too_short_to_tell_nothing_is_said_of_the_logits() -> None:
    """Two runs of one file, of which the drawn tokens alone are on record."""
    one, other = reply(length=150), reply(length=150, seed=6)
    for made in (one, other):
        made._token = lambda node, at, all_=made._token: shortened(all_(node, at), 0)
    why = found(one, other)
    assert [(each.name, each.evidence) for each in why.causes] == [("seed", "recorded")]
    assert not [line for line in cause_lines(why, NAMES) if "logits" in line]


def test_a_record_that_does_not_make_its_token_was_edited() -> None:
    right = reply()
    token = right.step(6).token
    assert token is not None
    other = next(c.id for c in token.candidates if c.id != token.id)
    right._pieces[0].node.tokens.ids[6] = right.ids[6] = other
    edited = RecordedReply(right._pieces, lambda *_: msgspec.structs.replace(token, id=other))
    right_why = found(reply(), edited)
    assert [(each.kind, each.right) for each in right_why.causes] == [("edited", "does not follow from its record")]


def test_an_end_is_told_with_what_made_it() -> None:
    full = Finished("length", "max_tokens 10", "", 10, None, 0.0, 0.0, None)
    why = found(reply(length=10, end=full, conditions=(Length(10),)), reply(conditions=(Stop("q"),)))
    assert [(each.name, each.evidence) for each in why.causes] == [
        ("end of the reply", "shown"), ("max_tokens", "shown"), ("stop", "excluded"),
    ]  # fmt: skip
    assert (why.causes[0].left, why.causes[0].right) == ("length max_tokens 10", "goes on")
    assert why.left.id is None
    by_hand = Finished("user", "", "", 10, None, 0.0, 0.0, None)
    assert found(reply(length=10, end=by_hand), reply()).causes[0].left == "user"
    assert found(reply(length=10), reply()).causes[0].left == "cut off"


def test_without_the_records_of_tokens_what_differs_is_named_and_nothing_shown() -> None:
    why = found(reply(on_record=False), reply(on_record=False, seed=6, threads=4))
    assert {(each.name, each.evidence) for each in why.causes} == {("seed", "recorded"), ("threads", "recorded")}


def test_the_same_replies_have_no_cause() -> None:
    assert why_different(reply(), reply()) is None
    assert why_different(reply(), reply(threads=4)) is None


def test_words_and_values_are_those_of_the_records() -> None:
    why = found(reply(), reply(seed=6))
    told = why_dict(why, NAMES)
    assert told["step"] == why.index
    assert told["left"]["id"] == why.left.id
    assert told["causes"][0] == {
        "kind": "dice", "name": "seed", "left": "5", "right": "6", "evidence": "shown", "since": 0,
        "detail": "with it exchanged, either reply draws the other's token",
    }  # fmt: skip
    lines = [*distribution_lines(why.left, why.right, NAMES)]
    (row,) = (line for line in lines if line.endswith("< left"))
    assert why.left.token is not None
    chosen = next(c for c in why.left.token.candidates if c.id == why.left.id)
    assert row.split()[1:4] == [f"({chosen.id})", f"{np.exp(chosen.logprob):.6f}", f"{chosen.probability:.6f}"]
    assert max(map(len, lines)) <= 100


def test_the_lead_and_the_distance_are_those_of_the_definitions() -> None:
    token = reply().step(0).token
    assert token is not None
    one, other = [c for c in token.candidates if c.probability > 0][:2]
    expected = (one.logit / 0.8 + one.noise) - (other.logit / 0.8 + other.noise)
    assert measure_lead(token, one.id, other.id) == pytest.approx(expected, abs=1e-5)
    assert measure_lead(token, one.id, 9999) is None
    assert total_variation(token, token) == 0
    gone = msgspec.structs.replace(token, candidates=[])
    assert total_variation(token, gone) == 0  # anything may be off the record

    moved = reply(drift=(0, 2.0)).step(0).token
    assert moved is not None
    told = [total_variation(shortened(token, count), shortened(moved, count)) for count in (20, 5, 2, 1, 0)]
    assert told == sorted(told, reverse=True)
    assert told[0] > 0


def shortened(token: Token, count: int) -> Token:
    """The same with so many candidates, and the drawn one."""
    kept = [c for at, c in enumerate(token.candidates) if at < count or c.id == token.id]
    return msgspec.structs.replace(token, candidates=kept)


def untold(made: RecordedReply) -> RecordedReply:
    """The same as a server that draws tells it: the model's candidates, and neither the chain nor the dice."""
    pieces = list(made._pieces)
    node = pieces[0].node
    told = []
    for at in range(len(made.ids)):
        token = made.step(at).token
        assert token is not None
        listed = [
            msgspec.structs.replace(c, logit=ABSENT, probability=ABSENT, noise=ABSENT, removed_by=None)
            for c in token.candidates
        ]
        told.append(msgspec.structs.replace(token, logit=ABSENT, probability=ABSENT, stages=[], candidates=listed))
    again = Node(node.number, node.parent, node.at, "assistant")
    assert node.start is not None
    for record in (msgspec.structs.replace(node.start, dice=0, exact=False), *node.settings, *told):
        again.add(record)
    return RecordedReply([piece._replace(node=again) for piece in pieces], lambda _, at: told[at])


def test_of_replies_that_a_server_drew_only_what_is_known_is_said() -> None:
    one, other = untold(reply(seed=5)), untold(reply(seed=6))
    why = why_different(one, other)
    assert why is not None
    assert why.logits is None  # they are the same as far as the log-probabilities tell
    lines = [
        *cause_lines(why, ("left", "right")),
        *distribution_lines(why.left, why.right, ("left", "right")),
        *tie_lines(why.left, why.right, ("left", "right")),
    ]
    said = "\n".join(lines)
    assert "seed: left 5, right 6" in said
    assert "nan" not in said
    assert "was not a candidate" not in said
    assert "cut" not in said


def test_random_numbers_of_a_server_are_the_cause_and_no_near_tie_is_claimed() -> None:
    here, there = reply(length=60, kv_type="", drift=(0, 0.1)), untold(reply(length=60, seed=6, kv_type="", ubatch=0))
    node = there._pieces[0].node
    assert node.start is not None
    node.start = msgspec.structs.replace(node.start, seed=5)
    lines = [*cause_lines(found(here, there), NAMES)]
    assert "possible cause: random numbers: left those of the seed, right a server's own" in lines
    assert not [line for line in lines if "dice version" in line or "near tie" in line or "micro-batch" in line]


def test_a_server_and_this_machine_differ_in_the_engine_and_not_in_the_file() -> None:
    server = msgspec.structs.replace(start([1]).model, sha256="cd" * 32)
    served = reply(length=150, kv_type="", ubatch=0, threads=0, model=server, drift=(0, 0.1))
    why = found(reply(length=150), served)
    assert [cause.name for cause in why.causes if cause.name != "near tie"] == ["engine"]
    assert cause(why, "engine").left == "smollm2 Q4_1 on termchat's worker"
    assert cause(why, "engine").right == "smollm2 Q4_1 on a server"


def test_logits_are_not_compared_with_log_probabilities() -> None:
    one = reply(length=150)
    other = reply(length=150, kv_type="", seed=6)
    told = other._token
    other._token = lambda node, at: as_log_probabilities(told(node, at))
    why = found(one, other)
    assert why.logits is None or why.logits.largest == 0


def as_log_probabilities(token: Token | None) -> Token | None:
    """As a server tells them."""
    if token is None:
        return None
    listed = [msgspec.structs.replace(c, logit=c.logprob) for c in token.candidates]
    return msgspec.structs.replace(token, logit=token.logprob, candidates=listed)
