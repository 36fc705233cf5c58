"""The line at the head of a turn: who speaks, which version of the turn this is, and a remark."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.markdown.code import LABEL

_END = Ink("border")
"""The arrow behind which there is no other version."""
_BETWEEN = " · "


class TitledWalk(NamedTuple):
    """Which walk a reply is, from 0, of how many, and the number of its group."""

    walk: int
    size: int
    group: int


class Title(NamedTuple):
    """What a title says. `number` of `versions`, counted from 1, is the one shown; `node` is a node of the turn."""

    name: str
    remark: str
    node: int
    number: int
    versions: int
    walk: TitledWalk | None = None


class TitleBlock(Block):
    """A title, laid out. A click on the name edits the turn. The version, if there are others, is never cut, and a click on its
    arrows goes to another one; it stands before the remark, so that it stays under the mouse whatever the remark is. A click on
    which walk it is shows all of them."""

    def __init__(self, title: Title | None, ink: Ink, *, gap: bool, ground: str = "") -> None:
        super().__init__(-1, -1, gap=gap and title is not None, ground=ground)
        self.title, self._ink = title, ink

    def estimate(self, width: int) -> int:
        return 0 if self.title is None else super().estimate(width)

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        title, wrapper = self.title, Wrapper(width)
        if title is None:  # something else says who speaks
            return [], []
        marks = render_version(title)
        taken = len(_BETWEEN) + sum(cell_len(text) for text, _ in marks)
        wrapper.feed(
            one_line(title.name, width - taken) if marks else title.name, self._ink._replace(does=f"edit({title.node})")
        )
        if marks:
            for text, ink in ((_BETWEEN if title.name else "", LABEL), *marks):
                wrapper.feed(text, ink)
        if title.walk is not None:
            does = f"open_walks({title.walk.group})"
            wrapper.feed(_BETWEEN if title.name or marks else "", LABEL)
            wrapper.feed(f"walk {title.walk.walk + 1} of {title.walk.size}", LABEL._replace(does=does))
        if title.remark:
            wrapper.feed(f"{_BETWEEN if title.name or marks or title.walk is not None else ''}{title.remark}", LABEL)
        return wrapper.lines, None


def render_version(title: Title) -> list[Run]:
    """`‹ 2/3 ›`, its arrows to be clicked where they lead anywhere; nothing for the only version."""
    if title.versions < 2:
        return []
    return [
        *_arrow("‹ ", -1, title.node, leads=title.number > 1),
        (f"{title.number}/{title.versions}", LABEL),
        *_arrow(" ›", 1, title.node, leads=title.number < title.versions),
    ]


def _arrow(text: str, by: int, node: int, *, leads: bool) -> list[Run]:
    return doing(f"version({by}, {node})", [(text, LABEL)]) if leads else [(text, _END)]
