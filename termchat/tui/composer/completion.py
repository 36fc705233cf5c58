"""Completion in the composer: the popup that shows what sources offer, and the source for paths behind @."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from time import monotonic
from typing import NamedTuple

from textual import events

from termchat.text import cells, one_line, sanitize
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.draw.ink import MARGIN, Ink, Line
from termchat.tui.draw.lines_view import Slip
from termchat.tui.draw.marks import MUTED

_ROWS = 8
_WIDEST = 40
"""Cells of the column of texts."""
_TEXT, _CHOSEN = Ink("text"), Ink("accent", bold=True)
_BEFORE = re.compile(r'(?:^|\s)@(?:"([^"]*)|([^\s"]*))$')
_LINE = 1_000
"""Characters before the cursor that are looked at."""
_MOST = 50
"""Offers at once."""
_ENTRIES = 200_000
"""Entries of a folder that are looked at."""
_LONGEST = 2.0
"""Seconds after which the entries that a slow disk has given by then have to do."""
_FRESH = 2.0
"""Seconds after which a folder is read again."""
_FOLDERS = 32
"""Folders whose entries are kept."""


class Offer(NamedTuple):
    """One suggestion: the `text` to insert, and its `help`. Both may be foreign, and are sanitised when they are drawn."""

    text: str
    help: str = ""


class Completion(NamedTuple):
    """Suggestions to replace `line[start:column]`, the best first."""

    start: int
    offers: tuple[Offer, ...]


class Popup(Slip):
    GROUND = "panel"

    def __init__(self, take: Callable[[int], None]) -> None:
        """`take` inserts an offer, counted from 0."""
        super().__init__(id="popup")
        self._take = take
        self.completion: Completion | None = None
        self.chosen = 0
        self._top = 0

    def put(self, completion: Completion | None) -> None:
        """Show a completion, its first offer selected; None closes the popup."""
        self.completion = completion
        self.chosen = self._top = 0
        self._draw()

    def move(self, rows: int) -> None:
        """Select another offer; after the last comes the first."""
        if self.completion is not None:
            self.chosen = (self.chosen + rows) % len(self.completion.offers)
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if self.completion is not None and self._top + event.y < len(self.completion.offers):
            self._take(self._top + event.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-1)

    def _draw(self) -> None:
        offers: Sequence[Offer] = self.completion.offers if self.completion is not None else ()
        self._top = min(max(self._top, self.chosen - _ROWS + 1), self.chosen)
        shown = offers[self._top : self._top + _ROWS]
        room = max(self.room or self.app.size.width - 2 * MARGIN, 1)
        texts = [_shorten(sanitize(offer.text, keep=""), min(_WIDEST, room)) for offer in shown]
        column = max(map(cells, texts), default=0) + 2
        lines = []
        for row, (offer, text) in enumerate(zip(shown, texts, strict=True)):
            ink = _CHOSEN if self._top + row == self.chosen else _TEXT
            more = ""
            if row == _ROWS - 1 and self._top + _ROWS < len(offers):
                more = f"  {len(offers) - self._top - _ROWS} more"
            help = one_line(offer.help, max(room - column - len(more), 0))
            lines.append(Line(((text + " " * (column - cells(text)), ink), (help + more, MUTED)), "panel"))
        self.show_lines(lines)


def _shorten(text: str, width: int) -> str:
    """Cut a text to `width` cells; a long one loses its start, as paths differ at the end."""
    if len(text) > 4 * width:  # a long one is not measured as a whole
        text = "…" + text[-4 * width :]
    while cells(text) > width:
        text = "…" + text[2:]
    return text


class _Entry(NamedTuple):
    """An entry of a folder, in the order in which entries are offered."""

    is_hidden: bool
    folded: str
    name: str
    is_folder: bool


class _Folder(NamedTuple):
    """A folder's entries, sorted, and the time at which it was read."""

    path: str
    read: float
    entries: Sequence[_Entry]


class Paths:
    """Completes paths. Folders are read in a thread; until one is read, nothing is suggested from it.

    Args:
        learnt: is called in that thread when a folder has been read: ask again.
    """

    def __init__(self, learnt: Callable[[], object]) -> None:
        self._learnt = learnt
        self._folders: dict[str, _Folder] = {}
        self._reading: BackgroundTask[_Folder] | None = None

    def complete(self, line: str, column: int) -> Completion | None:
        """Return files and folders whose names start with the draft's, ignoring case; hidden ones only after a dot."""
        match = _BEFORE.search(line[max(column - _LINE, 0) : column])
        if match is None:
            return None
        typed = match[1] if match[1] is not None else match[2]
        offers = []
        for path, help in self.paths(typed):
            quoted = f'"{path}' + ("" if path.endswith("/") else '"')
            offers.append(Offer(f"@{quoted if any(map(str.isspace, path)) else path}", help))
        return Completion(column - len(typed) - (2 if match[1] is not None else 1), tuple(offers)) if offers else None

    def paths(self, typed: str) -> list[Offer]:
        """Return the files and folders whose paths start as typed, as far as their folder is read."""
        name = typed.rpartition("/")[2]
        above = typed[: len(typed) - len(name)]
        if typed == "~":
            return [Offer("~/", "home folder")]
        start = name.startswith("."), name.casefold()
        entries = self._entries(os.path.expanduser(above) or ".")
        first = bisect_left(entries, start, key=lambda entry: entry[:2])
        offers = []
        for entry in entries[first : first + _MOST]:
            if entry.is_hidden != start[0] or not entry.folded.startswith(start[1]):
                break
            path = above + entry.name + ("/" if entry.is_folder else "")
            offers.append(Offer(path, "folder" if entry.is_folder else ""))
        return offers

    def _entries(self, path: str) -> Sequence[_Entry]:
        """Return the entries of a folder as far as they are known; start to read it if they are old."""
        for folder in self._reading.take() if self._reading is not None else ():
            self._reading = None
            self._folders.pop(folder.path, None)
            self._folders[folder.path] = folder
            if len(self._folders) > _FOLDERS:
                del self._folders[next(iter(self._folders))]
        known = self._folders.get(path)
        if self._reading is None and (known is None or monotonic() - known.read > _FRESH):
            self._reading = BackgroundTask(lambda: [_read_folder(path)], self._learnt)
        return known.entries if known is not None else ()


def _read_folder(path: str) -> _Folder:
    entries: list[_Entry] = []
    end = monotonic() + _LONGEST
    try:
        with os.scandir(path) as listing:
            entries += (
                _Entry(entry.name.startswith("."), entry.name.casefold(), entry.name, _is_folder(entry))
                for entry in takewhile(lambda _: monotonic() < end, islice(listing, _ENTRIES))
                if entry.name.isprintable() and '"' not in entry.name
            )
    except (OSError, ValueError):
        pass  # a folder that cannot be read has nothing to offer
    return _Folder(path, monotonic(), sorted(entries))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
