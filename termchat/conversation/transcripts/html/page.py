"""The page as a whole: what it allows, its head, the turns, and the panel that tells of a token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from math import ceil, isfinite
from pathlib import Path
from statistics import median

from termchat.conversation import setting_changes
from termchat.conversation.heat import MEASURES
from termchat.conversation.session import SessionInfo
from termchat.conversation.transcripts.facts import fact_line, facts, name_of, plain_line
from termchat.conversation.transcripts.html.token_spans import HEATS, SHOWN, data, spans, text
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation, Node, Place, Span

COLUMNS = 1200
"""The most that a plot has; of more tokens each column shows the highest of a few."""

HEIGHT = 100


def plot(kind: str, values: Sequence[float], most: float, label: str) -> str:
    """An SVG step plot from 0 to `most`, as wide as its place. `kind` is a class of the style sheet."""
    columns = highest(values)
    heights = [HEIGHT - round(min(value / most, 1.0) * (HEIGHT - 1)) if most else HEIGHT for value in columns]
    path = f"M0 {HEIGHT}" + "".join(f"V{height}h1" for height in heights) + f"V{HEIGHT}z"
    return (
        f'<svg class="plot {kind}" role="img" aria-label="{label}" viewBox="0 0 {max(len(columns), 1)} {HEIGHT}"'
        f' preserveAspectRatio="none"><path d="{path}"/></svg>'
    )


def highest(values: Sequence[float]) -> list[float]:
    """At most `COLUMNS` of the values: the highest of each few. What is no number counts as 0."""
    finite = [value if isfinite(value) and value > 0 else 0.0 for value in values]
    each = max(ceil(len(finite) / COLUMNS), 1)
    return [max(finite[begin : begin + each]) for begin in range(0, len(finite), each)]


def typical(values: Sequence[float]) -> float:
    return median(values) if values else 0.0


def lines(conversation: Conversation, info: SessionInfo, records: Records) -> Iterator[str]:
    """The page, a token or a few words of it at a time."""
    title = text(plain_line(conversation.title) or "Chat")
    yield from _head(title)
    yield f"<header><h1>{title}</h1><ul>"
    yield from (f"<li>{text(f'{name}: {value}' if name else value)}</li>" for name, value in facts(conversation, info))
    yield '</ul><p class="help">Hover over a token, or press → and ←, to see the candidates it was drawn from.</p></header>'
    yield from _switch(forced=any(1 in node.tokens.forced for node in conversation.nodes.values()))
    yield "<main>"
    if conversation.system:
        yield from _turn("system", "System", text(conversation.system))
    forks = setting_changes.forks(conversation)
    for role, group in groupby(conversation.pieces(), key=lambda piece: piece[0].node.role):
        if role == "user":
            for span, said in group:
                told = (forks.get(Place(span.node.number, 0)), span.node.omitted)
                marks = [f'<span class="mark">{text(str(mark))}</span>\n' for mark in told if mark]
                yield from _turn("user", "You", "".join(marks) + text(said))
        else:
            yield from _reply(list(group), forks, info, records)
    yield "</main>"
    yield '<aside id="panel" hidden aria-live="polite"></aside>'
    yield f"<script>{_asset('page.js')}</script>"
    yield "</body></html>"


def _head(title: str) -> Iterator[str]:
    script, style = _asset("page.js"), _asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
    yield f"<title>{title}</title><style>{style}</style></head><body>"


def _switch(*, forced: bool) -> Iterator[str]:
    """What the heat shows; only the style sheet reacts to it, not the script. `forced`: some tokens were."""
    yield '<form class="switch"><fieldset><legend>Heat</legend>'
    yield '<label><input type="radio" name="heat" id="heat-none">none</label>'
    for name in SHOWN:
        checked = " checked" if name == SHOWN[0] else ""
        yield f'<label><input type="radio" name="heat" id="heat-{name}"{checked}>{MEASURES[name].title}</label>'
    yield "</fieldset>"
    scale = "".join(f'<i class="h{heat}"></i>' for heat in range(HEATS))
    for name in SHOWN:
        measure = MEASURES[name]
        yield f'<span class="scale {name}">{measure.title} {measure.hot}<span>{scale}</span>{measure.calm}</span>'
    if forced:
        yield '<span class="key"><span class="f">underlined</span>: forced, not drawn</span>'
    yield "</form>"


def _turn(kind: str, heading: str, content: str) -> Iterator[str]:
    yield f'<section class="turn {kind}"><h2>{heading}</h2><div class="text">{content}</div></section>'


def _reply(
    pieces: Sequence[tuple[Span, str]], forks: dict[Place, str], info: SessionInfo, records: Records
) -> Iterator[str]:
    nodes = [span.node for span, _ in pieces]
    yield f'<section class="turn reply"><h2>{text(name_of(nodes[0], info))}</h2>'
    shown = (
        f'<span class="piece" data-node="{piece.span.node.number}">{"".join(spans(piece))}</span>'
        for piece in setting_changes.marked(pieces, forks)
    )
    yield f'<div class="text">{"".join(shown)}</div>'  # on one line: what stands between tags would be seen
    yield from _plots(nodes)
    yield from (f'<p class="facts">{text(fact)}</p>' for fact in map(fact_line, nodes) if fact)
    for node in nodes:
        if len(node.tokens):
            yield from data(node, iter(records(node.number)))
    yield "</section>"


def _plots(nodes: list[Node]) -> Iterator[str]:
    """Entropy and time of a reply of two tokens or more."""
    entropies = list(chain.from_iterable(node.tokens.entropies for node in nodes))
    times = [
        us / 1e3 for node in nodes for us in map(sum, zip(node.tokens.decode_us, node.tokens.sample_us, strict=True))
    ]
    if len(times) < 2:
        return
    bits, usual = max(highest(entropies)), typical(times)
    said = [f"median {usual:.1f} ms, slowest {max(times):.1f} ms"]
    first, ends = nodes[0].finished, [node.finished for node in nodes if node.finished is not None]
    if first is not None and first.ttft_ms is not None:
        said.append(f"first token after {first.ttft_ms:.0f} ms")
    if speeds := [f"{end.tokens_per_second:.1f}" for end in ends if end.tokens_per_second is not None]:
        said.append(f"{', then '.join(speeds)} tokens/s")
    yield '<div class="plots"><figure>'
    yield plot("ribbon", entropies, max(bits, 1.0), f"entropy of {len(entropies)} steps, up to {bits:.1f} bit")
    yield f"<figcaption>entropy, up to {bits:.1f} bit</figcaption></figure><figure>"
    yield plot("times", times, min(max(times), 4 * usual), f"time of {len(times)} steps, {said[0]}")
    yield f"<figcaption>time per step: {', '.join(said)}</figcaption></figure></div>"


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")
