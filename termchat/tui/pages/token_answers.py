"""Answers about a token and its reply: why another token was not drawn, how likely the end was all along, and what if the
whole reply had been drawn with other settings and the same dice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from termchat.chat.questions import Rescored, WhyNot
from termchat.conversation.tree import Node, Span
from termchat.decoding.records import UNKNOWN, DrawnThere, Explanation, Misfit, Remedy, TokenBias
from termchat.decoding.samplers import escape
from termchat.decoding.stages import LOGIT_BIAS, TEMPERATURE, loss_of
from termchat.engine.abilities import who_draws_here
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    STRONG,
    TEXT,
    TITLE,
    bar,
    column,
    describe_recomputed,
    flowing,
    format_known,
    format_p_end,
    percent,
    prose,
    sparkline,
    spread,
)
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.record import ORIGINAL, WITH_KNOBS, label_values
from termchat.tui.pages.scene import locate_token
from termchat.tui.transcript.turn_source import describe_ending

_LOGIT, _SHARE, _LEFT = 10, 9, 8
"""Cells of the columns of stages."""
_SIGNS = {">=": "≥", "<=": "≤", "=": "="}
_MOST_CAUSES = 6
_MOST_APART = 700.0
"""The difference of two log-probabilities of which there is still a ratio."""
_STAMP = Ink("stamp")
_HIGHEST = 5
_NUMBER, _AFTER = 6, 8
"""Cells of the columns of changed tokens."""
_SAME = "No knob has changed yet; turn one with {}."
_TIES = "{}, in batches: near-ties may be decided differently."


# --- why not ---------------------------------------------------------------------------------------------------------


def why_lines(why: WhyNot, width: int, tolerance: float | None = None) -> list[Line]:
    """Render the way of a token through the chain, what cut it, and what it would have taken. Of a token that a server drew the
    model's numbers depend on no knob, and the chain is not seen. `tolerance`: see `again`."""
    it = why.explained.explanation
    there = it.there
    title = "WHY " if it.id == it.winner else "WHY NOT "
    head: list[list[Run]] = [[(title, TITLE), (one_line(show_piece(it.text), max(width - len(title), 4)), STRONG)]]
    rank = f"> {there.listed:,}" if there is not None and it.rank == UNKNOWN else str(it.rank + 1)
    facts = [label_values("as token ", str(why.index)), label_values("id ", str(it.id))]
    shares = [label_values("rank ", rank), label_values("model ", percent(math.exp(it.logprob)))]
    if there is not None:
        facts += [*shares, label_values("logprob ", format_known(it.logprob, ".2f"))]
        unseen = "The server does not tell what its sampler chain cut. An engine that draws here does: "
        body = prose(_explain_winner(why, there), width, STRONG)
        sentences, rest = _list_sentences_there(why, there), prose(f"{unseen}{who_draws_here()}.", width, MUTED)
    else:
        head.append([(WITH_KNOBS, _STAMP) if why.now else (ORIGINAL, MUTED)])
        head += [[(describe_recomputed(tolerance), _STAMP)]] if why.explained.recomputed else []
        facts += [
            label_values("logit ", f"{it.logit:.2f}"),
            *shares,
            label_values("dice ", format_known(it.noise, "+.2f")),
        ]
        body = [*_render_stages(it, width), *prose(_explain_draw(it), width, STRONG)]
        sentences, rest = _list_sentences(why), []
    if why.more:
        sentences.append(f"Your text starts with this token; {why.more} more would follow.")
    told_lines = [line for sentence in sentences if sentence for line in prose(sentence, width)]
    return [*flowing(head, width), *flowing(facts, width), *body, *told_lines, *rest]


def _explain_winner(why: WhyNot, there: DrawnThere) -> str:
    """Name the token that a server drew, and by how much the model preferred it."""
    it, place = why.explained.explanation, why.node.tokens
    forced = why.node.role == "user" or (why.index < len(place) and bool(place.forced[why.index]))
    if it.winner == UNKNOWN:
        return ""
    if it.id == it.winner:
        return "It was not drawn, but forced there." if forced else "The server drew it."
    other = f'"{show_piece(it.winner_text)}"'
    who = f"{other} was not drawn, but forced there" if forced else f"The server drew {other}"
    share = percent(math.exp(there.winner_logprob))
    return f"{who}, with {share} by the model{_format_ratio(there.winner_logprob, it.logprob)}."


def _list_sentences_there(why: WhyNot, there: DrawnThere) -> list[str]:
    it = why.explained.explanation
    sentences: list[str] = []
    if there.best != UNKNOWN and it.id == there.best:
        sentences.append("It was the likeliest token.")
    elif there.best != UNKNOWN and it.winner == there.best:
        sentences.append("That was the likeliest token.")
    elif there.best != UNKNOWN:
        share, ratio = percent(math.exp(there.best_logprob)), _format_ratio(there.best_logprob, it.logprob)
        sentences.append(f'The likeliest was "{show_piece(there.best_text)}", with {share}{ratio}.')
    if it.rank == UNKNOWN:
        sentences.append(f"It is not among the {there.listed:,} likeliest tokens, which are all that the server lists.")
    if it.bias is not None:
        sentences.append(f"{'With the current knobs: ' if why.now else ''}{_explain_bias(it.bias)}.")
    return sentences


def _format_ratio(other: float, own: float) -> str:
    """Format how much likelier one of the two is: ": 3.1 times as likely"; "" where that is not known."""
    apart = other - own
    if not math.isfinite(apart):
        return ""
    times = math.exp(min(abs(apart), _MOST_APART))
    number = f"{times:.1f}" if times < 10 else f"{times:,.0f}" if times < 1e6 else "over a million"
    if number == "1.0":
        return ": as likely"
    return f": {number} times as likely" if apart > 0 else f"; this token was {number} times as likely"


def list_remedies(ways: Sequence[Remedy]) -> list[str]:
    """List the remedies in sentences: each adds to the ones before; a penalty that is off does it alone."""
    needs = [_format_bound(way) for way in ways if way.sign != "=" and not way.wins and way.value is not None]
    sentences = [f"To survive it needs {', '.join(needs)}"] if needs else []
    for way in ways:
        if way.sign == "=":
            sentences.append(f"With {_format_bound(way)} it {'wins with these dice' if way.wins else 'survives'}")
        elif way.wins and way.value is None:
            sentences.append(f"{'Even then it' if needs else 'It'} wins at no {way.knob} with these dice")
        elif way.wins:
            sentences.append(f"{'Then it' if needs else 'It'} wins with {_format_bound(way)} and these dice")
        elif way.value is None:
            sentences.append(f"No {way.knob} keeps it")
    return sentences


def _format_bound(way: Remedy) -> str:
    """Format a bound such as "top_k ≥ 46"."""
    assert way.value is not None
    if way.knob == LOGIT_BIAS:
        return f"no {LOGIT_BIAS}"
    if way.until is not None:
        return f"{way.knob} from {_format_number(min(way.value, way.until))} to {_format_number(max(way.value, way.until))}"
    return f"{way.knob} {'=' if way.value == 0 else _SIGNS[way.sign]} {_format_number(way.value)}"


def _format_number(value: float) -> str:
    return f"{round(value, 4):g}" if abs(value) >= 0.0001 else f"{value:.2g}"


def _render_stages(it: Explanation, width: int) -> list[Line]:
    """Render logit and probability after each stage, up to the one that cut it."""
    name_room = max(width - _LOGIT - _SHARE - _LEFT, 8)
    heads = f"{'logit':>{_LOGIT}}{'after':>{_SHARE}}{'left':>{_LEFT}}"
    lines = [Line(((column("STAGE", name_room), TITLE), (heads, MUTED)))]
    for stage in it.stages:
        name: Run = (column(stage.name, name_room), Ink("error", bold=True) if stage.cut else MUTED)
        left: Run = (f"{stage.survivors:>{_LEFT}}", MUTED)
        if stage.logit is not None and stage.probability is not None:
            numbers: Run = (f"{stage.logit:>{_LOGIT}.2f}{percent(stage.probability):>{_SHARE}}", TEXT)
        else:
            lost = loss_of(TEMPERATURE) if stage.name == TEMPERATURE else "cut here"
            numbers = (f"{lost if stage.cut else '–':>{_LOGIT + _SHARE}}", Ink("error") if stage.cut else MUTED)
        lines.append(Line((name, numbers, left)))
    return lines


def _explain_draw(it: Explanation) -> str:
    greedy = any(
        one.name == TEMPERATURE and one.survivors == 1 < before.survivors for before, one in pairwise(it.stages)
    )
    if it.id == it.winner and greedy:
        return "It has the highest logit, which temperature 0 takes."
    if it.id == it.winner:
        return f"The dice picked it, at {percent(it.probability)} after the chain."
    other = f'"{show_piece(it.winner_text)}"'
    if it.removed_by == TEMPERATURE:
        return f"Temperature 0 takes the highest logit, which is that of {other}."
    if it.removed_by is not None:
        return f"Cut by {it.removed_by}; the dice picked {other}."
    return f"It survived with {percent(it.probability)} after the chain, but the dice picked {other}."


def _explain_misfit(misfit: Misfit, text: str) -> str:
    """Explain such as `"x" cannot stand here: byte 0x78; allowed are 0-9 and space`."""
    from termchat.decoding.verdict import AllowedBytes, described_bytes  # rarely needed

    allowed = described_bytes(AllowedBytes(misfit.allowed, misfit.forced, misfit.may_end))
    if misfit.byte is None:
        return f"A control token cannot stand here; allowed: {allowed}"
    place = f" (byte {misfit.at + 1} of it)" if misfit.at else ""
    return f'"{show_piece(text)}" cannot stand here: byte 0x{misfit.byte:02x}{place}; allowed: {allowed}'


def _explain_bias(bias: TokenBias) -> str:
    if bias.model:
        return "The model's file bans it (suppress_tokens)"
    return "A logit bias bans it" if bias.bias is None else f"A logit bias adds {bias.bias:+.6g} to its logit"


def _list_sentences(why: WhyNot) -> list[str]:
    it = why.explained.explanation
    sentences = list_remedies(it.remedies)
    if it.misfit is not None:
        sentences.insert(0, _explain_misfit(it.misfit, it.text))
    if it.bias is not None:
        sentences.insert(0, _explain_bias(it.bias))
    if it.penalised is not None:
        last = it.penalised.positions[-_MOST_CAUSES:]
        causes = [f"{show_piece(why.pieces.get(position, ''))} at {position}" for position in last]
        more = len(it.penalised.positions) - len(causes)
        tail = f" and {more} more" if more > 0 else ""
        loss = it.penalised.loss
        what = f"took {loss:.2f} from" if loss >= 0 else f"added {-loss:.2f} to"
        sentences.append(f"Penalties {what} its logit, because of {', '.join(causes)}{tail}")
    return [f"{sentence}." for sentence in sentences]


# --- the end ---------------------------------------------------------------------------------------------------------


def ending_lines(reply: Sequence[Span], width: int, rows: int) -> list[Line]:
    """Render the trace of p(end) over a whole reply, in all its pieces, its highest points, and why it ended."""
    import numpy as np  # which the other answers do without

    from termchat.tui.pages.plots import Trace

    trace, last = Trace(reply, width), reply[-1].node
    lines = flowing([[("P(END)", TITLE)], [(f"{trace.count} tokens, 0% to 100%", MUTED)]], width)
    if not trace.count:
        return [*lines, Line((("no tokens", MUTED),))]
    p_ends = trace.read_values("p_end")
    known = np.flatnonzero(~np.isnan(p_ends))
    if known.size:
        highest = trace.read_columns("p_end")[1]
        lines.append(Line(((sparkline(highest, width, top=1.0).lstrip(), Ink("accent")),)))
    else:
        lines.append(Line((("The engine does not tell how likely the end was.", MUTED),)))
    lines += prose(_explain_ending(last), width, STRONG)
    reason = last.finished.reason if last.finished is not None else ""
    if last.finished is not None and reason == "stop" and last.finished.held:
        lines += prose(f'not shown: "{escape(last.finished.held)}"', width)
    has_end = reason == "end" and known.size and known[-1] == trace.count - 1
    if has_end:
        of_end = f"The end token had rank {last.tokens.ranks[-1] + 1}; " if last.tokens.ranks[-1] != UNKNOWN else ""
        unlisted = last.tokens.read_unlisted(len(last.tokens) - 1)
        missing = f", {percent(unlisted, 2)} not listed" if unlisted else ""
        lines += prose(f"{of_end}p(end) was {format_p_end(last.tokens.p_ends[-1], unlisted)}{missing}.", width)
    if known.size:
        most = max(span.node.tokens.find_most_unlisted(span.count) for span in reply)
        missing = f"up to {percent(most, 2)} not listed"
        lines.append(Line(spread([("HIGHEST", TITLE)], [(missing, MUTED)] if most else [], width)))
    order = known[np.argsort(-p_ends[known], kind="stable")]
    for index in order[: max(min(_HIGHEST, rows - len(lines)), 1)].tolist():
        node, at = locate_token(reply, index)
        is_end = has_end and index == trace.count - 1
        piece = "the end token" if is_end else f"before {show_piece(node.tokens.texts[at])}"
        share = format_p_end(node.tokens.p_ends[at], node.tokens.read_unlisted(at))
        lines.append(
            Line(((f"{index:>5} ", MUTED), (column(piece, max(width - 14, 4)), TEXT), (f"{share:>8}", STRONG)))
        )
    return lines


def _explain_ending(node: Node) -> str:
    if not node.done:
        return "The reply has not ended yet."
    why = describe_ending(node) or "the model ended the reply"
    return f"{why[0].upper()}{why[1:]}."


# --- what if ---------------------------------------------------------------------------------------------------------


def whatif_lines(
    replay: Rescored | None, changed: Sequence[str], width: int, rows: int, tolerance: float | None = None
) -> list[Line]:
    """Render what a reply would be. `changed` are the knobs that are not as they were, as in "temp 0.8→1.2"; without `replay`
    the answer is still awaited. `tolerance`: see `again`."""
    size: list[Run] = [(f"same dice, {len(replay.ids)} tokens", MUTED)] if replay is not None else []
    title = Line((("WHAT IF  ", TITLE), *size))
    lines = [title, *prose(", ".join(changed) or _SAME.format(name_of("tune")), width, STRONG)]
    if replay is None:
        return [*lines, Line((("re-reading the reply …", MUTED),))]
    first, others, impossible, kept = replay.summary
    tail = f" {percent(kept)}"
    lines.append(Line((("stays ", MUTED), *bar(kept, max(width - 6 - len(tail), 4)), (tail, STRONG))))
    if first is None:
        lines += prose("Every token would stay the same.", width, STRONG)
    else:
        then, now = (one_line(show_piece(texts[first]), width // 2) for texts in (replay.texts, replay.scored.texts))
        place: list[Run] = [("differs at ", MUTED), (str(first), _STAMP._replace(bold=True))]
        lines += flowing([place, [(then, TEXT)], [("→ ", MUTED), (now, STRONG)]], width)
        lines.append(Line(((name_of("fork-there"), ACCENT), (" forks there, with these knobs", MUTED))))
    greedy = replay.settings.temperature <= 0
    lost: Run = ("not highest " if greedy else "would be cut ", MUTED)
    lines.append(Line((lost, (str(len(impossible)), STRONG), (f" of {len(replay.ids)}", MUTED))))
    if replay.scored.recomputed:
        lines += prose(_TIES.format(describe_recomputed(tolerance).capitalize()), width, MUTED)
    listed = sorted({*others, *impossible})
    if listed:
        lines.append(Line(spread([("CHANGED TOKENS", TITLE)], [(f"{'after':>{_AFTER}}", MUTED)], width)))
    half = max((width - _NUMBER - _AFTER - 3) // 2, 4)
    for index in listed[: max(rows - len(lines), 1)]:
        probability = replay.scored.probabilities[index]
        after = percent(probability) if probability > 0 or greedy else "cut"
        then, now = (column(show_piece(texts[index]), half) for texts in (replay.texts, replay.scored.texts))
        share: Run = (f"{after:>{_AFTER}}", MUTED if probability > 0 else Ink("error"))
        number: Run = (f"{index:>{_NUMBER - 1}} ", MUTED)
        lines.append(Line((number, (then, TEXT), (" → ", MUTED), (now, STRONG), share)))
    return lines
