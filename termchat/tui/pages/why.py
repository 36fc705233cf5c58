"""Why a token was not drawn: its way through the chain, what cut it, and what it would have taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from termchat.chat.questions import WhyNot
from termchat.decoding.records import UNKNOWN, DrawnThere, Explanation, Misfit, Remedy, TokenBias
from termchat.decoding.stages import LOGIT_BIAS, TEMPERATURE, loss_of
from termchat.engine.abilities import who_draws_here
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, again, column, flowing, percent, prose, signed, told
from termchat.tui.pages.record import ORIGINAL, WITH_KNOBS

_LOGIT, _SHARE, _LEFT = 10, 9, 8
_SIGNS = {">=": "≥", "<=": "≤", "=": "="}
_MOST_CAUSES = 6
_MOST_APART = 700.0
"""The difference of two log-probabilities of which there is still a ratio."""
_STAMP = Ink("stamp")


def why_lines(why: WhyNot, width: int, tolerance: float | None = None) -> list[Line]:
    """`tolerance`: see `again`."""
    it, recomputed = why.explained.explanation, why.explained.recomputed
    drawn = it.id == it.winner
    title = "WHY " if drawn else "WHY NOT "
    head: list[Run] = [(title, TITLE), (one_line(show_piece(it.text), max(width - len(title), 4)), STRONG)]
    if it.there is not None:
        return _drawn_there(why, it.there, head, width)
    time: list[Run] = [(WITH_KNOBS, _STAMP) if why.now else (ORIGINAL, MUTED)]
    note: list[Run] = [(again(tolerance), _STAMP)] if recomputed else []
    facts: list[list[Run]] = [
        [("as token ", MUTED), (str(why.index), TEXT)],
        [("id ", MUTED), (str(it.id), TEXT)],
        [("logit ", MUTED), (f"{it.logit:.2f}", TEXT)],
        [("rank ", MUTED), (str(it.rank + 1), TEXT)],
        [("model ", MUTED), (percent(math.exp(it.logprob)), TEXT)],
        [("dice ", MUTED), (signed(it.noise), TEXT)],
    ]
    return [
        *flowing([head, time, *([note] if note else [])], width),
        *flowing(facts, width),
        *_render_stages(it, width),
        *prose(_explain_draw(it), width, STRONG),
        *(line for sentence in _list_sentences(why) for line in prose(sentence, width)),
    ]


def _drawn_there(why: WhyNot, there: DrawnThere, head: list[Run], width: int) -> list[Line]:
    """Render the answer for a token that a server drew: the model's numbers depend on no knob, and its chain is not seen."""
    it = why.explained.explanation
    rank = f"> {there.listed:,}" if it.rank == UNKNOWN else str(it.rank + 1)
    facts: list[list[Run]] = [
        [("as token ", MUTED), (str(why.index), TEXT)],
        [("id ", MUTED), (str(it.id), TEXT)],
        [("rank ", MUTED), (rank, TEXT)],
        [("model ", MUTED), (percent(math.exp(it.logprob)), TEXT)],
        [("logprob ", MUTED), (told(it.logprob, ".2f"), TEXT)],
    ]
    sentences = [_compare_likeliest(it, there)]
    if it.rank == UNKNOWN:
        sentences.append(f"It is not among the {there.listed:,} likeliest tokens, which are all that the server lists.")
    if it.bias is not None:
        sentences.append(f"{'With the current knobs: ' if why.now else ''}{_explain_bias(it.bias)}.")
    unseen = f"The server does not tell what its sampler chain cut. An engine that draws here does: {who_draws_here()}."
    return [
        *flowing([head], width),
        *flowing(facts, width),
        *prose(_taken_there(why, there), width, STRONG),
        *(line for sentence in (*sentences, *_mention_rest(why)) if sentence for line in prose(sentence, width)),
        *prose(unseen, width, MUTED),
    ]


def _taken_there(why: WhyNot, there: DrawnThere) -> str:
    """Name the token there, and by how much the model preferred it."""
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


def _compare_likeliest(it: Explanation, there: DrawnThere) -> str:
    if there.best == UNKNOWN:
        return ""
    if it.id == there.best:
        return "It was the likeliest token."
    if it.winner == there.best:
        return "That was the likeliest token."
    share = percent(math.exp(there.best_logprob))
    return f'The likeliest was "{show_piece(there.best_text)}", with {share}{_format_ratio(there.best_logprob, it.logprob)}.'


def _format_ratio(other: float, own: float) -> str:
    """How much likelier one of the two is: ": 3.1 times as likely"; "" where that is not known."""
    apart = other - own
    if not math.isfinite(apart):
        return ""
    times = math.exp(min(abs(apart), _MOST_APART))
    number = f"{times:.1f}" if times < 10 else f"{times:,.0f}" if times < 1e6 else "over a million"
    if number == "1.0":
        return ": as likely"
    return f": {number} times as likely" if apart > 0 else f"; this token was {number} times as likely"


def remedies(ways: Sequence[Remedy]) -> list[str]:
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
    """Such as "top_k ≥ 46"."""
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
            numbers = f"{stage.logit:>{_LOGIT}.2f}{percent(stage.probability):>{_SHARE}}"
            lines.append(Line((name, (numbers, TEXT), left)))
        else:
            lost = loss_of(TEMPERATURE) if stage.name == TEMPERATURE else "cut here"
            word = f"{lost if stage.cut else '–':>{_LOGIT + _SHARE}}"
            lines.append(Line((name, (word, Ink("error") if stage.cut else MUTED), left)))
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
    """`"x" cannot stand here: byte 0x78; allowed are 0-9 and space`."""
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
    sentences = remedies(it.remedies)
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
    return [*(sentence + "." for sentence in sentences), *_mention_rest(why)]


def _mention_rest(why: WhyNot) -> list[str]:
    return [f"Your text starts with this token; {why.more} more would follow."] if why.more else []
