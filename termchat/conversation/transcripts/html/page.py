"""The page as a whole: what it allows, its head, the turns, and the panel that tells of a token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from math import ceil, isfinite
from pathlib import Path
from statistics import median

from termchat.conversation.heat import MEASURES
from termchat.conversation.session import Session
from termchat.conversation.transcripts.facts import fact_line, list_facts, name_of, plain_line
from termchat.conversation.transcripts.groups_on_page import GroupsOnPage
from termchat.conversation.transcripts.html.page_tree import PageTree, Way
from termchat.conversation.transcripts.html.token_spans import (
    HEATS,
    SHOWN,
    escape_text,
    write_block,
    write_data,
    write_spans,
)
from termchat.conversation.transcripts.html.walk_columns import write_group
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation, Node
from termchat.text import one_line, sanitize

COLUMNS = 1200
"""The most that a plot has; of more tokens each column shows the highest of a few."""

HEIGHT = 100

_SYSTEM, _NONE = "System", "System: none"
_LONGEST = 60
"""Cells of a branch's name."""


def draw_plot(kind: str, values: Sequence[float], most: float, label: str) -> str:
    """Return an SVG step plot from 0 to `most`, as wide as its place. `kind` is a class of the style sheet."""
    columns = list_highest(values)
    heights = [HEIGHT - round(min(value / most, 1.0) * (HEIGHT - 1)) if most else HEIGHT for value in columns]
    path = f"M0 {HEIGHT}" + "".join(f"V{height}h1" for height in heights) + f"V{HEIGHT}z"
    return (
        f'<svg class="plot {kind}" role="img" aria-label="{label}" viewBox="0 0 {max(len(columns), 1)} {HEIGHT}"'
        f' preserveAspectRatio="none"><path d="{path}"/></svg>'
    )


def list_highest(values: Sequence[float]) -> list[float]:
    """Return at most `COLUMNS` of the values: the highest of each few. Non-numbers count as 0."""
    finite = [value if isfinite(value) and value > 0 else 0.0 for value in values]
    each = max(ceil(len(finite) / COLUMNS), 1)
    return [max(finite[begin : begin + each]) for begin in range(0, len(finite), each)]


def lines(conversation: Conversation, info: Session, records: Records) -> Iterator[str]:
    """Yield the page, a node of the tree at a time: the branch that is shown, then the others, which only the script shows."""
    title = escape_text(plain_line(conversation.title) or "Chat")
    tree = PageTree(conversation)
    groups = GroupsOnPage(tree.chat)
    yield from _render_head(title)
    yield f"<header><h1>{title}</h1><ul>"
    told = [*list_facts(conversation, info)]
    if tree.branches > 1:
        all_held = tree.held == tree.branches
        left = "" if all_held else f"; this page has room for {tree.held:,}, a .jsonl transcript holds all"
        told.append(("branches", f"{tree.branches:,}{left}"))
    yield from (f"<li>{escape_text(f'{name}: {value}' if name else value)}</li>" for name, value in told)
    yield '</ul><p class="help">Hover over a token, or press → and ←, to see the candidates it was drawn from.'
    if tree.versions or len(tree.prompts) > 1:
        yield " ‹ and › beside a heading, or the keys &lt; and &gt;, switch to another version of a turn and what follows it."
    yield "</p></header>"
    nodes = conversation.nodes.values()
    forced = any(1 in node.tokens.by_hand for node in nodes)
    yield from _render_switch(forced=forced, thoughts=any(node.tokens.thought for node in nodes))
    yield "<main>"
    if _has_system(tree):
        prompt, which = tree.prompts[tree.prompt], _render_version(tree.prompt, len(tree.prompts))
        yield from _render_section("system", _SYSTEM if prompt.text else _NONE, which, escape_text(prompt.text))
    for turn in tree.chat.turn_spans():
        first, last = turn[0].node, turn[-1].node
        kind = "user" if first.role == "user" else "reply"
        shown = "".join(_write_piece(tree, span.node, span.count) for span in turn)
        feet = "".join(_write_foot(span.node, span.count) for span in turn if kind == "reply")
        if kind == "reply":
            feet += "".join(part for group in groups.of_turn(turn) for part in write_group(group))
        yield from _render_section(kind, _heading_of(first, info), _render_versions(tree, last.number), shown, feet)
    yield "</main>"
    for number in tree.shown:
        yield from write_data(tree.chat.nodes[number], records)
    yield '<template id="elsewhere">'
    for node in tree.list_others():
        yield _write_piece(tree, node, len(node.ids)) + (
            _write_foot(node, len(node.ids)) if node.role == "assistant" else ""
        )
        yield from write_data(node, records)
    for group in groups.list_elsewhere():
        yield from write_group(group)
    yield "</template>"
    yield f'<script type="application/json" id="tree">{write_block(_tree_data(tree, info))}</script>'
    yield '<aside id="panel" hidden aria-live="polite"></aside>'
    yield f"<script>{_read_asset('page.js')}</script>"
    yield "</body></html>"


def _tree_data(tree: PageTree, info: Session) -> dict[str, object]:
    """Return what the script needs to know to show another branch.

    `nodes`, by number: parent, at, how many tokens make it whole, length, heading. `versions`: lists of [end, leaf], and
    `turns`: by the node that a turn ends in, which of them. `ways`, by node and number of tokens: [node, leaf]. `prompts`, if
    any is shown: [text, heading, first nodes, leaf].
    """
    lists = list({id(ways): ways for ways in tree.versions.values()}.values())
    index = {id(ways): at for at, ways in enumerate(lists)}
    nodes = tree.chat.nodes
    ways = {number: found for number, node in nodes.items() if (found := tree.find_ways(node))}
    return {
        "leaf": tree.chat.leaf,
        "nodes": {
            number: [node.parent, node.at, node.count_kept(), len(node.ids), _heading_of(node, info)]
            for number, node in nodes.items()
        },
        "versions": lists,
        "turns": {end: index[id(ways)] for end, ways in tree.versions.items()},
        "ways": ways,
        "prompts": [
            [sanitize(prompt.text.replace("\r\n", "\n")), _SYSTEM if prompt.text else _NONE, prompt.firsts, prompt.leaf]
            for prompt in (tree.prompts if _has_system(tree) else ())
        ],
    }


def _has_system(tree: PageTree) -> bool:
    return len(tree.prompts) > 1 or any(prompt.text for prompt in tree.prompts)


def _render_head(title: str) -> Iterator[str]:
    script, style = _read_asset("page.js"), _read_asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash_source(script)}'; style-src '{_hash_source(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
    yield f"<title>{title}</title><style>{style}</style></head><body>"


def _render_switch(*, forced: bool, thoughts: bool) -> Iterator[str]:
    """Yield the choice of the heat, to which only the style sheet reacts, and the keys to `forced` tokens and `thoughts`."""
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
    if thoughts:
        yield '<span class="key"><span class="th">italic</span>: thoughts</span>'
    yield "</form>"


def _render_section(kind: str, heading: str, versions: str, content: str, feet: str = "") -> Iterator[str]:
    yield f'<section class="turn {kind}"><div class="head"><h2>{escape_text(heading)}</h2>{versions}</div>'
    yield f'<div class="text">{content}</div>{feet}</section>'  # the text on one line: what stands between tags would be seen


def _heading_of(node: Node, info: Session) -> str:
    return "You" if node.role == "user" else name_of(node, info)


def _render_versions(tree: PageTree, end: int) -> str:
    """Return which version of its turn is shown; the arrows are for the script."""
    ways = tree.versions.get(end)
    if ways is None:
        return ""
    return _render_version(next(at for at, way in enumerate(ways) if way.node == end), len(ways))


def _render_version(at: int, count: int) -> str:
    """Return the number of a version, and arrows to the others if there are any."""
    if count < 2:
        return ""
    before, after = (" disabled" if at == edge else "" for edge in (0, count - 1))
    return (
        f'<span class="versions"><button type="button" aria-label="previous version"{before}>‹</button>'
        f'<span>{at + 1}/{count}</span><button type="button" aria-label="next version"{after}>›</button></span>'
    )


def _write_piece(tree: PageTree, node: Node, shown: int) -> str:
    """Write a node as a part of its turn's text, of which a path takes so many ids."""
    if node.role == "user":
        mark = f'<span class="mark line">{escape_text(str(node.omitted))}</span>' if node.omitted is not None else ""
        content = mark + escape_text(node.written)
    else:
        piece, before = tree.find_piece(node)
        forks = {at: _describe_fork(tree, ways, before + at) for at, ways in tree.find_ways(node).items()}
        content = "".join(write_spans(piece, shown, forks))
    return f'<span class="piece" data-node="{node.number}">{content}</span>'


def _describe_fork(tree: PageTree, ways: list[Way], token: int) -> str:
    names = (one_line(tree.chat.nodes[way.node].name, _LONGEST) for way in ways[1:])
    named = [f'"{name}"' for name in names if name]
    return f"{len(ways)} branches at token {token}" + (f": {', '.join(named)}" if named else "")


def _write_foot(node: Node, shown: int) -> str:
    """Return plots and facts of a node of a reply; the plots are of the whole, and hidden where a path takes only a part."""
    part = " part" if shown < node.count_kept() else ""
    told = f'<p class="facts">{escape_text(fact)}</p>' if (fact := fact_line(node)) else ""
    return f'<div class="foot{part}" data-node="{node.number}">{"".join(_render_plots(node))}{told}</div>'


def _render_plots(node: Node) -> Iterator[str]:
    """Entropy and time of a node of two tokens or more."""
    tokens, end = node.tokens, node.finished
    times = [us / 1e3 for us in map(sum, zip(tokens.row_us(0, len(tokens)), tokens.sample_us, strict=True))]
    if len(times) < 2:
        return
    bits, usual = max(list_highest(tokens.entropies)), median(times)
    said = [f"median {usual:.1f} ms, slowest {max(times):.1f} ms"]
    if end is not None and end.ttft_ms is not None:
        said.append(f"first token after {end.ttft_ms:.0f} ms")
    if end is not None and end.tokens_per_second is not None:
        said.append(f"{end.tokens_per_second:.1f} tokens/s")
    yield '<div class="plots">'
    if any(map(isfinite, tokens.entropies)):
        unlisted = tokens.most_unlisted
        most = f"up to ≤{bits:.1f} bit, with up to {unlisted:.1%} not listed" if unlisted else f"up to {bits:.1f} bit"
        yield "<figure>"
        yield draw_plot("ribbon", tokens.entropies, max(bits, 1.0), f"entropy of {len(times)} steps, {most}")
        yield f"<figcaption>entropy, {most}</figcaption></figure>"
    yield "<figure>"
    yield draw_plot("times", times, min(max(times), 4 * usual), f"time of {len(times)} steps, {said[0]}")
    per = "step" if tokens.drafts is None else "row decoded"
    yield f"<figcaption>time per {per}: {', '.join(said)}</figcaption></figure></div>"


@cache
def _read_asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _hash_source(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode("ascii")
