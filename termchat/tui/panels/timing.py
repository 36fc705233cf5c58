"""The timing panel: how sure the model was, how fast it is, and what it is doing."""

from __future__ import annotations

import math
from itertools import islice

from termchat.chat.live import Live
from termchat.decoding.records import Token
from termchat.tui.draw.ink import Line, Run
from termchat.tui.draw.marks import MUTED, TEXT, TITLE, UNKNOWN, bar, count, percent, sparkline, spread


def at_most(token: Token) -> str:
    """What stands before an entropy or a p(end) that is only a bound."""
    if math.isnan(token.entropy):
        return ""
    return "≤" if token.unlisted else ""


def timing_lines(live: Live, width: int) -> list[Line]:
    """A title and three lines; what is not known yet shows as a dash."""
    token = live.shown
    most = at_most(token) if token else ""
    entropy = f"{most}{token.entropy:.2f} bit" if token and not math.isnan(token.entropy) else UNKNOWN
    p_end = most + percent(token.p_end, 2) if token else UNKNOWN
    ttft = f"{live.ttft_ms:.0f} ms" if live.ttft_ms is not None else UNKNOWN
    reused = f"{count(live.prefill.reused)} reused" if live.prefill and live.prefill.reused >= 0 else ""
    rate = live.tokens_per_second
    share = live.sampling_share
    decode = _pair("decode ", f"{rate:.0f} t/s" if rate else UNKNOWN)
    sampling = _pair("sampling ", percent(share, 0) if share is not None else UNKNOWN)
    room = width - sum(len(text) for text, _ in [*decode, *sampling]) - 4
    return [
        Line(spread([("STEP ", TITLE)], [*_pair("entropy ", entropy), *_pair("   p(end) ", p_end)], width)),
        Line(spread([*_pair("TTFT ", ttft), *_pair("  prefill ", _prefill(live))], [(reused, MUTED)], width)),
        Line((*decode, ("  " + _spark(live, room) + "  ", MUTED), *sampling)),
    ]


def prefill_line(live: Live, width: int) -> Line:
    numbers = f" {count(live.prefill_done)}/{count(live.prefill_total)}"
    share = live.prefill_done / live.prefill_total if live.prefill_total else 0.0
    return Line((("prefill ", MUTED), *bar(share, width - 8 - len(numbers)), (numbers, TEXT)))


def _pair(name: str, value: str) -> list[Run]:
    return [(name, MUTED), (value, TEXT)]


def _prefill(live: Live) -> str:
    rate = live.prefill_per_second
    return f"{rate:.0f} t/s" if rate else UNKNOWN


def _spark(live: Live, room: int) -> str:
    """Times of the last steps, the newest at the right; of a round of drafting those of its rows."""
    if room <= 0:
        return ""
    steps = islice(zip(reversed(live.row_us), reversed(live.sample_us), strict=True), room)
    return sparkline([float(decode + sample) for decode, sample in steps][::-1], room)
