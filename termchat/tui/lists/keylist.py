"""All keys, those of the place where it was opened first, filtered by the words typed."""

from __future__ import annotations

from collections.abc import Iterable

from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.draw.marks import ACCENT, MUTED, TITLE, column, prose
from termchat.tui.keys.key import displayed, families, keys_of
from termchat.tui.keys.tables import GROUPS, KeyGroup
from termchat.tui.themes.theme_file import Palette

_KEY = 14
"""Cells of the column with the keys."""


class KeyList(ReadDialog):
    """All keys. `place` is the title of the group that is listed first."""

    TITLE = "Keys"
    HINT = "Remap a key under [keys] in config.toml, using the id in [brackets]."
    FIELD = "filter"
    HINTS = (("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "LISTS"

    def __init__(self, palette: Palette, place: str) -> None:
        super().__init__(palette)
        here = [group for group in GROUPS if group.title == place]
        beside = [group for group in GROUPS if any(group.table in one.at for one in here)]
        self._groups = list({group.title: group for group in (*here, *beside, *GROUPS)}.values())

    def search(self, text: str) -> None:
        self.picker.scroll_by("first")
        self.lay_out()

    def render_text(self, width: int) -> list[Line]:
        """Render a line per key, or more if its help is long."""
        words = self.field.value.lower().split()
        lines: list[Line] = []
        for group in self._groups:
            matches = list(_lines(group, words, width))
            if matches:
                lines += [*[BLANK] * bool(lines), Line(((group.title, TITLE),)), *matches]
        return lines or [Line((("no key matches", MUTED),))]


def _lines(group: KeyGroup, words: list[str], width: int) -> Iterable[Line]:
    for family in families(group.table):
        first = family[0]
        names = displayed(family)
        ids = f"[{first.id}]" if first.action else ""
        searched = " ".join((group.title, names, first.help, *(key.id for key in family), *keys_of(first))).lower()
        if not all(word in searched for word in words):
            continue
        for at, line in enumerate(prose(f"{first.help} {ids}", max(width - _KEY, 1))):
            name = (names or "no key") if at == 0 else ""
            yield Line(((column(name, _KEY), ACCENT if names else MUTED), *line.runs))
