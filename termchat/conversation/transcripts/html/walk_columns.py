"""Replies that were made together, side by side on the page, and the steps of a beam search as a table.

The tokens are there a second time, without their data: hovering tells of them as of those in the chat. The script moves a group
to the turn that it belongs to on another branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from termchat.conversation import setting_changes
from termchat.conversation.transcripts.groups_on_page import GroupOnPage, WalkOnPage, format_figure
from termchat.conversation.transcripts.html.token_spans import escape_text, write_spans
from termchat.conversation.tree import Span
from termchat.decoding.records import Beam, Beams
from termchat.text import show_piece

MOST_STEPS = 400
"""Of a beam search: a table of more is for nobody's eyes."""


def write_group(group: GroupOnPage) -> Iterator[str]:
    yield f'<details class="walks" open data-node="{group.origin.number}" data-at="{group.at}">'
    yield f'<summary><h3>{escape_text(group.title)}</h3></summary><div class="columns">'
    for walk in group.walks:
        yield from _render_walk(walk)
    yield "</div>"
    if group.beams:
        yield from _render_steps(group.beams)
    yield "</details>"


def _render_walk(walk: WalkOnPage) -> Iterator[str]:
    node = walk.node
    (piece,) = setting_changes.mark_pieces([(Span(node, len(node.ids)), node.text())], {})
    label = f' <span class="label">{escape_text(walk.label)}</span>' if walk.label else ""
    hidden = "" if walk.goes_on else " hidden"
    yield f'<article class="walk" data-node="{node.number}"><h4>Walk {walk.number}{label}</h4>'
    yield f'<div class="text">{"".join(write_spans(piece, len(node.ids), {}))}</div>'
    yield f'<p class="on"{hidden}>The chat continues from this walk.</p>'
    yield f'<p class="facts">{escape_text(walk.told)}</p></article>'


def _render_steps(steps: Sequence[Beams]) -> Iterator[str]:
    """Yield a row for each step."""
    shown = steps[:MOST_STEPS]
    most = max(len(step.beams) for step in shown)
    cut = f", the first {len(shown)} of them" if len(shown) < len(steps) else ""
    yield f'<details class="beams"><summary>{len(steps)} steps of the search{cut}</summary><div class="wide"><table>'
    yield "<caption>Each cell: a token, the score of its beam, and ← the beam of the previous step that it continues.</caption>"
    heads = ("step", *(f"beam {place + 1}" for place in range(most)), "dropped")
    yield "<thead><tr>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead><tbody>"
    for at, step in enumerate(shown):
        cells = [_render_beam(beam, begins=not at) for beam in step.beams] + [""] * (most - len(step.beams))
        dropped = " &nbsp; ".join(_render_beam(beam, begins=not at) for beam in step.dropped)
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{step.step + 1}</th>{row}<td class="dropped">{dropped}</td></tr>'
    yield "</tbody></table></div></details>"


def _render_beam(beam: Beam, *, begins: bool) -> str:
    parent = "" if begins else f" ← {beam.parent + 1}"
    ended = ", ended" if beam.finished else ""
    return f"<b>{escape_text(show_piece(beam.text))}</b> <span>{format_figure(beam.score)}{parent}{ended}</span>"
