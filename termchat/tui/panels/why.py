"""Why a token was not drawn: its way through the chain, what cut it, and what it would have taken."""

from __future__ import annotations

import math
from collections.abc import Sequence

from termchat.chat.questions import WhyNot
from termchat.decoding.records import Explanation, Misfit, Remedy, TokenBias
from termchat.decoding.stages import LOGIT_BIAS
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, again, column, flowing, percent, prose, signed
from termchat.tui.panels.record import ORIGINAL, WITH_KNOBS

_LOGIT, _SHARE, _LEFT = 10, 9, 8
_SIGNS = {">=": "≥", "<=": "≤", "=": "="}
_MOST_CAUSES = 6
_STAMP = Ink("stamp")


def why_lines(why: WhyNot, width: int, tolerance: float | None = None) -> list[Line]:
    """`tolerance`: see `again`."""
    it, recomputed = why.explained.explanation, why.explained.recomputed
    drawn = it.id == it.winner
    title = "WHY " if drawn else "WHY NOT "
    head: list[Run] = [(title, TITLE), (one_line(show_piece(it.text), max(width - len(title), 4)), STRONG)]
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
        *_table(it, width),
        *prose(_verdict(it), width, STRONG),
        *(line for sentence in _sentences(why) for line in prose(sentence, width)),
    ]


def remedies(ways: Sequence[Remedy]) -> list[str]:
    """What it would take, in sentences: each remedy adds to those before it; a penalty that is off does it alone."""
    needs = [_bound(way) for way in ways if way.sign != "=" and not way.wins and way.value is not None]
    said = [f"To survive it needs {', '.join(needs)}"] if needs else []
    for way in ways:
        if way.sign == "=":
            said.append(f"With {_bound(way)} it {'wins with these dice' if way.wins else 'survives'}")
        elif way.wins and way.value is None:
            said.append(f"{'Even then it' if needs else 'It'} wins at no {way.knob} with these dice")
        elif way.wins:
            said.append(f"{'Then it' if needs else 'It'} wins with {_bound(way)} and these dice")
        elif way.value is None:
            said.append(f"No {way.knob} keeps it")
    return said


def _bound(way: Remedy) -> str:
    """Such as "top_k ≥ 46"."""
    assert way.value is not None
    if way.knob == LOGIT_BIAS:
        return f"no {LOGIT_BIAS}"
    if way.until is not None:
        return f"{way.knob} from {_number(min(way.value, way.until))} to {_number(max(way.value, way.until))}"
    return f"{way.knob} {'=' if way.value == 0 else _SIGNS[way.sign]} {_number(way.value)}"


def _number(value: float) -> str:
    return f"{round(value, 4):g}" if abs(value) >= 0.0001 else f"{value:.2g}"


def _table(it: Explanation, width: int) -> list[Line]:
    """Logit and probability after each stage; nothing more is said of it once it is cut."""
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
            word = f"{'cut here' if stage.cut else '–':>{_LOGIT + _SHARE}}"
            lines.append(Line((name, (word, Ink("error") if stage.cut else MUTED), left)))
    return lines


def _verdict(it: Explanation) -> str:
    if it.id == it.winner:
        return f"The dice picked it, at {percent(it.probability)} after the chain."
    other = f'"{show_piece(it.winner_text)}"'
    if it.removed_by is not None:
        return f"Cut by {it.removed_by}; the dice picked {other}."
    return f"It survived with {percent(it.probability)} after the chain, but the dice picked {other}."


def _misfit(misfit: Misfit, text: str) -> str:
    """`"x" cannot stand here: byte 0x78; allowed are 0-9 and space`."""
    from termchat.decoding.verdict import AllowedBytes, described_bytes  # rarely needed

    allowed = described_bytes(AllowedBytes(misfit.allowed, misfit.forced, misfit.may_end))
    if misfit.byte is None:
        return f"A control token cannot stand here; allowed: {allowed}"
    place = f" (byte {misfit.at + 1} of it)" if misfit.at else ""
    return f'"{show_piece(text)}" cannot stand here: byte 0x{misfit.byte:02x}{place}; allowed: {allowed}'


def _biased(bias: TokenBias) -> str:
    if bias.model:
        return "The model's file bans it (suppress_tokens)"
    return "A logit bias bans it" if bias.bias is None else f"A logit bias adds {bias.bias:+.6g} to its logit"


def _sentences(why: WhyNot) -> list[str]:
    it = why.explained.explanation
    said = remedies(it.remedies)
    if it.misfit is not None:
        said.insert(0, _misfit(it.misfit, it.text))
    if it.bias is not None:
        said.insert(0, _biased(it.bias))
    if it.penalised is not None:
        last = it.penalised.positions[-_MOST_CAUSES:]
        found = [f"{show_piece(why.pieces.get(position, ''))} at {position}" for position in last]
        more = len(it.penalised.positions) - len(found)
        tail = f" and {more} more" if more > 0 else ""
        loss = it.penalised.loss
        what = f"took {loss:.2f} from" if loss >= 0 else f"added {-loss:.2f} to"
        said.append(f"Penalties {what} its logit, because of {', '.join(found)}{tail}")
    if why.more:
        tail = "s" if why.more > 1 else ""
        said.append(f"Your text starts with this token; {why.more} more would follow")
    return [sentence + "." for sentence in said]
