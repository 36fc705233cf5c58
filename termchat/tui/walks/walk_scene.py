"""What a page of the walks view is drawn from, and what a page is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.tui.draw.ink import Line
from termchat.tui.keys.tables import NOT_OTHERWISE
from termchat.tui.transcript.looks import Look
from termchat.tui.walks.walk_reader import WalkReader

TEXT_PAGE = "text"
"""The name of the page that the view has widgets for."""


class WalksScene(NamedTuple):
    """What a page is drawn from, and acts on. `cursor` is the number of the walk under the cursor; `width` are the cells of a
    line, `rows` those that can be seen at once: of more lines the rest is scrolled to. `reader` has read all tokens there are;
    `labels` say what sets each walk apart."""

    chat: Chat
    group: ReplyGroup
    reader: WalkReader
    labels: dict[int, str]
    cursor: int
    look: Look
    width: int
    rows: int
    turn_to: Callable[[str, Sequence[int]], None]
    """Turns to the page with that name, which shows only these walks; all, if there are none."""


class PageBody(Protocol):
    """A page while its group is shown; it may have a cursor of its own. `line_in_view` of what was drawn last is scrolled to,
    where it is not None. `words` are the keys that do something else here, by their ids, and what (see `tables.working`)."""

    line_in_view: int | None
    words: Mapping[str, str]

    def draw(self, scene: WalksScene) -> Sequence[Line]: ...

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        """Does what a key stands for (see `keys.tables.WALKS`: `what` and its arguments are those of `screen.walks`); False to
        have it do what it does on every page."""


class ReadPage:
    """A page that is only read."""

    line_in_view: int | None = None
    words: Mapping[str, str] = NOT_OTHERWISE

    def __init__(self, draw: Callable[[WalksScene], Sequence[Line]]) -> None:
        self._draw = draw

    def draw(self, scene: WalksScene) -> Sequence[Line]:
        return self._draw(scene)

    def act(self, scene: WalksScene, what: str, *arguments: object) -> bool:
        return False
