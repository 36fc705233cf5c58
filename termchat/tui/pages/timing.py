"""The timing panel: how sure the model was, how fast it is, and what it is doing."""

from __future__ import annotations

import math
from itertools import islice

from termchat.chat.live import Live
from termchat.tui.draw.ink import Line, Run
from termchat.tui.draw.marks import (
    MUTED,
    TEXT,
    TITLE,
    UNKNOWN,
    at_most,
    bar,
    count,
    length,
    p_end_of,
    percent,
    sparkline,
    spread,
)


def timing_lines(live: Live, width: int) -> list[Line]:
    """Render a title and three lines, with dashes for unknown numbers."""
    token = live.shown
    missing = token.unlisted if token else 0.0
    entropy = p_end = UNKNOWN
    if token and not math.isnan(token.entropy):
        entropy = f"{at_most(token.entropy, missing)}{token.entropy:.2f} bit"
    if token:
        p_end = p_end_of(token.p_end, missing)
    title: list[Run] = [("STEP ", TITLE)]
    sure = [*_name_value("entropy ", entropy), *_name_value("   p(end) ", p_end)]
    unlisted: list[Run] = [(f"  {percent(missing, 2)} not listed", MUTED)] if missing else []
    if length([*title, *sure, *unlisted]) < width:
        sure += unlisted
    ttft = f"{live.ttft_ms:.0f} ms" if live.ttft_ms is not None else UNKNOWN
    reused = f"{count(live.prefill.reused)} reused" if live.prefill and live.prefill.reused >= 0 else ""
    rate = live.tokens_per_second
    share = live.sampling_share
    decode = _name_value("decode ", f"{rate:.0f} t/s" if rate else UNKNOWN)
    sampling = _name_value("sampling ", percent(share, 0) if share is not None else UNKNOWN)
    room = width - sum(len(text) for text, _ in [*decode, *sampling]) - 4
    return [
        Line(spread(title, sure, width)),
        Line(
            spread(
                [*_name_value("TTFT ", ttft), *_name_value("  prefill ", _prefill_rate(live))], [(reused, MUTED)], width
            )
        ),
        Line((*decode, ("  " + _step_sparks(live, room) + "  ", MUTED), *sampling)),
    ]


def prefill_line(live: Live, width: int) -> Line:
    numbers = f" {count(live.prefill_done)}/{count(live.prefill_total)}"
    share = live.prefill_done / live.prefill_total if live.prefill_total else 0.0
    return Line((("prefill ", MUTED), *bar(share, width - 8 - len(numbers)), (numbers, TEXT)))


def _name_value(name: str, value: str) -> list[Run]:
    return [(name, MUTED), (value, TEXT)]


def _prefill_rate(live: Live) -> str:
    rate = live.prefill_per_second
    return f"{rate:.0f} t/s" if rate else UNKNOWN


def _step_sparks(live: Live, room: int) -> str:
    """Times of the last steps, the newest at the right; of a round of drafting those of its rows."""
    if room <= 0:
        return ""
    steps = islice(zip(reversed(live.row_us), reversed(live.sample_us), strict=True), room)
    return sparkline([float(decode + sample) for decode, sample in steps][::-1], room)
