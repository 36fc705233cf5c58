"""The list of models as lines: a model a line, what it takes beside what there is, a download where its numbers were."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from termchat.text import duration, one_line, size
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, bar, column, count, length

if TYPE_CHECKING:
    from termchat.models.download.progress import Pulling
    from termchat.models.errors import ModelError
    from termchat.models.listing import Row

State = Literal["loaded", "loading", "on disk", "not downloaded", "not installed", "broken", "downloading"]
Fit = Literal["fits", "tight", "too large"]

COMFORT = 0.85
"""Of the memory there is: what takes more leaves too little for everything else."""
_TOLD_FROM = 100
"""Cells from which there is room for the state in words."""

_SIGNS: Mapping[State, Run] = {
    "loaded": ("●", Ink("success", bold=True)),
    "loading": ("◌", Ink("success", bold=True)),
    "on disk": ("○", ACCENT),
    "downloading": ("↓", Ink("stamp", bold=True)),
    "not downloaded": ("↓", MUTED),
    "not installed": ("↓", MUTED),
    "broken": ("✗", Ink("error")),
}
_ORDER: Mapping[State, int] = {
    "loaded": 0, "loading": 0, "on disk": 1, "downloading": 2, "not downloaded": 3,
    "not installed": 4, "broken": 5,
}  # fmt: skip
_FITS: Mapping[Fit, Ink] = {"fits": Ink("success"), "tight": Ink("warning"), "too large": Ink("error")}
_SIZE, _QUANT, _CONTEXT, _FIT, _STATE = 8, 8, 8, 11, 15
_LEAST_SOURCE = 10
_WHOLE_FROM = 58
"""Cells from which there is room for every column; below, a model is its name, its size and whether it fits."""
_STAGES: Mapping[str, str] = {
    "asking": "asking for it", "waiting": "waiting", "checking": "checking what is here", "downloading": "",
    "placing": "checking it",
}  # fmt: skip
_GIGABYTES = re.compile(r"(\d+(?:\.\d+)?) GB")


class Download(NamedTuple):
    """A download as a row shows it; `now` is None before anything is known of it."""

    now: Pulling | None
    running: bool
    problem: ModelError | None


class Need(NamedTuple):
    """Bytes of memory that a model takes; `about` where only the catalogue says so."""

    total: int
    about: bool


class Item(NamedTuple):
    """A model as the list shows it. `need` is None while unknown, `spare` bytes of memory that it may take, if known."""

    row: Row
    state: State
    need: Need | None = None
    spare: int | None = None
    download: Download | None = None

    @property
    def fit(self) -> Fit | None:
        """Whether there is memory for it; None where that cannot be said."""
        if self.need is None or self.spare is None:
            return None
        if self.need.total > self.spare:
            return "too large"
        return "tight" if self.need.total > self.spare * COMFORT else "fits"


def need_told(row: Row) -> Need | None:
    """What the catalogue says that a model needs, or what its size alone says: it takes no less."""
    told = _GIGABYTES.search(row.needs)
    return Need(round(float(told[1]) * 10**9), about=True) if told else None


def text_of(row: Row) -> str:
    """What a filter looks at."""
    parts = (row.name, row.source, row.quantization, row.architecture, row.size_label, row.description, row.license)
    return " ".join(parts).lower()


def matches(text: str, words: Iterable[str]) -> bool:
    """Whether a text (see `text_of`) has all words, which are lower case, in it."""
    return all(word in text for word in words)


def rank(state: State, row: Row, at: int) -> tuple[int, str, int]:
    """Where a model stands in the list: what is loaded, what is here by name, then what can be had in the catalogue's order."""
    here = state in ("loaded", "loading", "on disk")
    return _ORDER["not downloaded" if state == "downloading" else state], row.name.lower() if here else "", at


def heading(width: int, longest: int) -> Line:
    """The names of the columns; `longest` is the longest name below, in cells."""
    columns = _Columns.of(width, longest)
    titles = "  " + column("NAME", columns.name) + columns.numbers("SIZE", "QUANT", "CONTEXT")
    titles += column("MEMORY", _FIT) + column("STATE", columns.state) + column("FROM", columns.source)
    return Line(((titles, TITLE),), "surface")


def model_line(item: Item, width: int, longest: int, *, chosen: bool) -> Line:
    """A model on one line; `longest` is the longest name of all, in cells."""
    row, columns = item.row, _Columns.of(width, longest)
    sign, ink = _SIGNS[item.state]
    runs: list[Run] = [(sign + " ", ink), (column(row.name, columns.name), _name_ink(item))]
    if item.download is not None and (item.download.running or item.download.problem is not None):
        runs += [(" ", TEXT), *download_runs(item.download, width - length(runs) - 1)]
    else:
        amount = ("~" if row.about else "") + size(row.size)
        runs.append((columns.numbers(amount, row.quantization, count(row.context) if row.context else ""), TEXT))
        runs += [
            _fit_run(item),
            (column(item.state, columns.state), MUTED),
            (column(row.source, columns.source), MUTED),
        ]
    return Line(tuple(runs), "panel" if chosen else "")


def download_runs(download: Download, width: int) -> list[Run]:
    """How far a download is: a bar, bytes, rate and time left, as much as there is room for; or why it ended."""
    now, problem = download.now, download.problem
    if problem is not None:
        kept = f"{size(now.done)} are kept  " if now is not None and now.done else ""
        return [(column(kept + problem.message, width), Ink("warning"))]
    if now is None or (now.done == 0 and now.stage != "downloading"):
        return [(column(now.note or _STAGES[now.stage] if now is not None else _STAGES["asking"], width), MUTED)]
    share = now.done / now.total if now.total else 0.0
    runs: list[Run] = [*bar(share, min(max(width // 4, 8), 24), Ink("stamp")), (f" {share:>4.0%}", TEXT)]
    here = f"{size(now.done)} of {size(now.total)}" if now.total else size(now.done)
    what = now.note or (f"{size(now.rate)}/s" if now.rate else _STAGES[now.stage])
    left = f"{duration(now.left)} left" if now.left is not None else ""
    for text in (part for part in (here, what, left) if part):
        room = width - length(runs) - 2
        if room > 0:
            runs.append(("  " + one_line(text, room), MUTED))
    return [*runs, (" " * (width - length(runs)), TEXT)]


class _Columns(NamedTuple):
    """Cells of the columns; 0 for those there is no room for."""

    name: int
    whole: bool
    state: int
    source: int

    @classmethod
    def of(cls, width: int, longest: int) -> _Columns:
        """The columns of a list this wide."""
        whole = width >= _WHOLE_FROM
        state = _STATE if width >= _TOLD_FROM else 0
        left = width - 2 - (_SIZE + 1 + (_QUANT + _CONTEXT + 1 if whole else 0) + _FIT) - state
        if not whole:
            return cls(max(left, 1), whole, state, 0)
        name = min(max(longest, 12), left - _LEAST_SOURCE)
        return cls(name, whole, state, left - name)

    def numbers(self, amount: str, quantization: str, context: str) -> str:
        """Size, and where there is room quantisation and context, and the gap behind them."""
        text = column(amount, _SIZE, right=True) + " "
        return text + column(quantization, _QUANT) + column(context, _CONTEXT, right=True) + " " if self.whole else text


def _fit_run(item: Item) -> Run:
    if item.fit is None or item.need is None:
        return column("", _FIT), TEXT
    return column(("~" if item.need.about else "") + item.fit, _FIT), _FITS[item.fit]


def _name_ink(item: Item) -> Ink:
    if item.state in ("loaded", "loading"):
        return STRONG
    return TEXT if item.state in ("on disk", "downloading") else MUTED
