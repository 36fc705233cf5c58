"""One model in detail, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.port import ModelInfo
from termchat.models.errors import ModelError
from termchat.options import OPTIONS, OptionValue
from termchat.settings import DEFAULT, Config
from termchat.text import home, one_line, size
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, prose
from termchat.tui.views.models import Fit, Item

if TYPE_CHECKING:
    from termchat.tui.facts import Facts

_LABEL = 10
_ROOMY = 16
"""Lines from which a description and a blank line are worth their room."""
_VERDICTS: Mapping[Fit, str] = {"fits": "it fits", "tight": "tight", "too large": "too large"}
_TOLD = ("threads", "threads_batch", "prefill_batch", "context", "kv_type")
"""What is said of every model that runs; what else is set is said where it is."""
_LINES: Mapping[str, Ink] = {"problem": Ink("error"), "runs with": Ink("success")}


class Running(NamedTuple):
    """The loaded model as it runs, and how it was to be run, as far as that is known."""

    info: ModelInfo
    config: Config | None = None


class Known(NamedTuple):
    """What is known of a model beside its row: what its file says, or why it cannot be used; what is recommended for it, by
    knob name; how it runs, if it does."""

    facts: Facts | ModelError | None = None
    recommended: Mapping[str, Value] = {}
    running: Running | None = None


def model_lines(item: Item, known: Known, width: int, height: int) -> list[Line]:
    """The highlighted model. Where there is little room a fact takes one line, and what matters least is left out."""
    row = item.row
    roomy = height >= _ROOMY
    lines = [Line(((one_line(row.name, width), STRONG),))]
    if row.description and row.description != row.name:
        lines += prose(row.description, width, MUTED) if roomy else [Line(((one_line(row.description, width), MUTED),))]
    lines += [BLANK] if roomy else []
    for name, text in _told(item, known):
        if text:
            lines += _fact(name, text, width, most=8 if roomy else 1)
    return lines[:height]


def _fact(name: str, text: str, width: int, *, most: int) -> list[Line]:
    ink = _LINES.get(name, TEXT)
    room = max(width - _LABEL - 1, 8)
    texts = [one_line(text, room)] if most == 1 else [line.text for line in prose(text, room)][:most]
    label = f"{name:<{_LABEL}} "
    return [Line(((label if at == 0 else " " * len(label), MUTED), (said, ink))) for at, said in enumerate(texts)]


def _told(item: Item, known: Known) -> Iterator[tuple[str, str]]:
    """What there is to say, what matters most first."""
    row, facts = item.row, known.facts
    problem = item.download.problem if item.download is not None and item.download.problem is not None else facts
    if isinstance(problem, ModelError):
        yield "problem", f"{problem.message}. {problem.hint}".strip()
    elif item.download is not None and item.download.now is not None and item.download.now.note:
        yield "waits", item.download.now.note
    elif item.state in ("broken", "not installed"):
        yield "problem", row.problem
    if known.running is not None:
        yield "runs with", _running(known.running)
    yield "memory", memory_text(item, facts)
    if facts is not None and not isinstance(facts, ModelError):
        header = facts.header
        layers = f", {header.block_count} layers" if header.block_count else ""
        parts = f" in the first of {header.split_count} files" if header.split_count > 1 else ""
        yield "model", f"{header.architecture}, {_weights(header.parameters)} parameters{parts}{layers}"
        trained = header.context_length or row.context
        yield "context", f"{facts.context:,} tokens of {trained:,}" if trained else f"{facts.context:,} tokens"
        yield "template", "yes" if header.template is not None else "none: it can complete text (raw), not chat"
    elif row.architecture or row.size_label:
        yield "model", " ".join(part for part in (row.architecture, row.size_label, row.quantization) if part)
    yield "recommends", ", ".join(f"{name} {KNOBS[name].show(value)}" for name, value in known.recommended.items())
    yield "licence", row.license
    yield "needs", row.needs if facts is None else ""
    yield "from", row.source
    yield "file", home(row.path) if row.path is not None else ""


def _running(running: Running) -> str:
    info, config = running
    device = f"{info.gpu_layers} of {info.layers + 1} layers on {info.device}" if info.gpu_layers else info.device
    found: dict[str, OptionValue] = {name: getattr(info, name) for name in _TOLD}
    asked = config.engine if config is not None else {}
    origin = config.origin if config is not None else {}
    set_ = {name: value for name, value in asked.items() if origin[name] != DEFAULT}
    found |= {name: value for name, value in set_.items() if not hasattr(info, name)}
    texts = [
        f"{name} {OPTIONS[name].show(value)}" + (f" ({origin[name]})" if set_.get(name) == value else "")
        for name, value in found.items()
    ]
    return ", ".join([device, *texts])


def memory_text(item: Item, facts: Facts | ModelError | None) -> str:
    """What a model takes, beside what there is; "" if nothing is known."""
    there = f" of {size(item.spare)} free" if item.spare is not None else ""
    verdict = f": {_VERDICTS[item.fit]}" if item.fit is not None else ""
    if facts is not None and not isinstance(facts, ModelError):
        memory = facts.memory
        parts = f"weights {size(memory.weights)}, cache {size(memory.kv)}, computing {size(memory.compute)}"
        return f"{size(memory.total)}{there}{verdict} ({parts})"
    return f"about {size(item.need.total)}{there}{verdict}" if item.need is not None else ""


def _weights(number: int) -> str:
    """A number of weights as people say it: 135M, 1.2B."""
    for unit, least in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= least:
            return f"{number / least:.3g}{unit}"
    return str(number)
