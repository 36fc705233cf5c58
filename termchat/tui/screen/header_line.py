"""The header line: which model, how full its context, which chat, and what is going on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from termchat.chat.service import Chat
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.samplers import THINK_ON
from termchat.engine.port import ModelInfo
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, bar, count, length
from termchat.tui.models.downloads import Pull

_GAP = "   "
_ORDER = ("name", "model", "draws", "device", "context", "drafts", "title")
_GAUGE = 8
_NAMED_MODEL = 40
"""Cells of the names of engine and model, at most."""
_MODELS = "dialog('models')"
_CLICKED = {
    "name": "app.command_palette",
    "model": _MODELS,
    "draws": _MODELS,
    "device": _MODELS,
    "title": "dialog('sessions')",
    "drafts": "page('drafts')",
}
"""What a click does."""
_STATE_CLICKED = {"no model": _MODELS, "failed": "continue", "paused": "continue"}
_SAID = 32
"""Cells of what ended a reply."""
_LEAST = {"model": 8, "title": 12}
"""Cells of a name that are worth showing where there is no room for all of it."""
_BAR = 10
_NAMED, _NAMES_FROM = 20, 100
"""Cells of the name of what is downloaded, and cells of a line that has room for it."""


def context_used(conversation: Conversation) -> int | None:
    """Tokens on the path from the root to the leaf. Of a reply without ids they are what its engine told; None where it did
    not."""
    used: int | None = 0
    for span in conversation.find_path():
        node = span.node
        before = 0 if node.whole or used is None else used
        used = before + span.count if node.tokens.has_ids else _told(node)
    return used


def _told(node: Node) -> int | None:
    """How many tokens a reply and all before it have, as the engine counted them."""
    if node.prefill is None or node.finished is None or node.finished.tokens < 0:
        return None
    return node.prefill.tokens + node.finished.tokens


def header_line(chat: Chat, width: int, downloads: Sequence[Pull] = (), drafts: Sequence[Run] = ()) -> Line:
    """State and downloads at the right; at the left as much of name, model, context, title and device as there is room for.

    What has a screen of its own is opened by a click. `drafts` is what drafts do for the reply that runs.
    """
    right = [*_unsaved(chat), *_downloads(downloads, width), *state_runs(chat), (" ", TEXT)]
    room = width - length(right) - len(_GAP)
    parts = {"name": [(" termchat ", Ink("accent", bold=True))], "model": _model(chat), "draws": _draws(chat)}
    parts |= {"context": _context(chat)}
    parts |= {"drafts": list(drafts), "title": _title(chat), "device": _device(chat)}
    shown: dict[str, list[Run]] = {}
    for name, part in parts.items():  # the most telling first
        if not part:
            continue
        if _LEAST.get(name, width) + len(_GAP) <= room < length(part) + len(_GAP):
            part = [(one_line(part[0][0], room - len(_GAP)), part[0][1])]
        room -= length(part) + len(_GAP)
        if room >= 0:
            shown[name] = part
    left: list[Run] = []
    for name in filter(shown.__contains__, _ORDER):
        left += [*([(_GAP, TEXT)] if left else []), *doing(_CLICKED.get(name, ""), shown[name])]
    return Line((*left, (" " * max(width - length(left) - length(right), 0), TEXT), *right), "surface")


def _unsaved(chat: Chat) -> list[Run]:
    """Shown for as long as it lasts: the notice about it goes when the next message is sent."""
    return [("not saved", Ink("warning", bold=True)), (_GAP, TEXT)] if chat.saving_problem else []


def _downloads(downloads: Sequence[Pull], width: int) -> list[Run]:
    """The progress of the first download, and how many others there are."""
    if not downloads:
        return []
    first, others = downloads[0], len(downloads) - 1
    name = f"{one_line(first.wanted, _NAMED)} " if width >= _NAMES_FROM else ""
    far = f"{first.now.done / first.now.total:.0%}" if first.now is not None and first.now.total else "…"
    more = f" +{others}" if others else ""
    return [("↓ ", Ink("stamp", bold=True)), (f"{name}{far}{more}", TEXT), (_GAP, TEXT)]


def state_runs(chat: Chat) -> list[Run]:
    """What the chat is doing, in a word or two."""
    queued: list[Run] = [(f"  +{len(chat.turns.queue)} queued", Ink("stamp"))] if chat.turns.queue else []
    state = _STATES[chat.phase](chat)
    if chat.phase == "idle" and chat.host.drafter_progress is not None:
        state = _loading(chat)
    if not chat.session.is_own and chat.phase == "idle":
        state = [("○ ", MUTED), ("read-only", TEXT)]
    does = _STATE_CLICKED.get(chat.phase)
    return [*(doing(does, state) if does else state), *queued]


def _loading(chat: Chat) -> list[Run]:
    """Of the model, or of the one that is to draft for it, which comes after it."""
    drafter = chat.host.drafter_progress
    share = chat.host.progress if drafter is None else drafter
    what = "loading " if drafter is None else "loading draft model "
    return [(what, MUTED), *bar(share, _BAR), (f" {share:>4.0%}", TEXT)]


def _prefill(chat: Chat) -> list[Run]:
    live = chat.live
    share = live.prefill_done / live.prefill_total if live.prefill_total else 0.0
    return [("reading ", MUTED), *bar(share, _BAR), (f" {share:>4.0%}", TEXT)]


def _decoding(chat: Chat) -> list[Run]:
    rate = chat.live.tokens_per_second
    return [("● ", Ink("success")), *_doing(chat), (f" {rate:.0f} t/s" if rate else "", MUTED)]


def _doing(chat: Chat) -> list[Run]:
    """Writing, or thinking: how many tokens, and of how many."""
    if (thought := chat.thinking) is None:
        return [("writing", TEXT)]
    budget = chat.tuning.think
    return [("thinking", TEXT), (f" {thought:,}" + (f" / {budget:,}" if 0 < budget < THINK_ON else ""), MUTED)]


def _paused(chat: Chat) -> list[Run]:
    why = chat.paused.why if chat.paused is not None else ""
    return [("❚❚ ", Ink("stamp")), ("paused", TEXT), (f": {one_line(why, 24)}" if why else "", MUTED)]


def _idle(chat: Chat) -> list[Run]:
    """That the next reply can begin; or what ended the one that is shown, until something new begins."""
    leaf, failure = chat.conversation.leaf, chat.failure
    failed = chat.conversation.nodes[leaf].failed if leaf is not None else None
    if failed is None or failure is None or failed.message != failure.message:  # it was not just now
        return [("ready", MUTED)]
    return [(_cause(chat) or "interrupted", Ink("warning", does="continue"))]


_STATES: dict[str, Callable[[Chat], list[Run]]] = {
    "no model": lambda _: [("no model", Ink("warning"))],
    "loading": _loading,
    "idle": _idle,
    "rendering": lambda _: [("reading", MUTED)],
    "prefill": _prefill,
    "decoding": _decoding,
    "paused": _paused,
    "failed": lambda chat: [(_cause(chat) or "engine stopped", Ink("error"))],
}


def _cause(chat: Chat) -> str:
    """What the engine elsewhere did, in a few words and without its name, which stands before that of the model; "" where the
    failure is not one of the engine."""
    if chat.failure is None or chat.spec is None or not chat.spec.engine.url:
        return ""
    name = re.escape(chat.spec.engine.shown)
    said, named = re.subn(rf"^{name} | (?:to|on) {name}(?!\w)", "", chat.failure.message, count=1)
    return one_line(re.split(r"[:,] ", said)[0], _SAID) if named else ""


def _model(chat: Chat) -> list[Run]:
    """Its name, after that of the engine where that is on another machine."""
    model, spec = chat.model, chat.spec
    if spec is None and model is None:
        return []
    name = spec.name if model is None and spec is not None else _titled(model) if model is not None else ""
    engine = spec.engine if spec is not None and spec.engine.url else None
    if engine is None or name == engine.shown:
        return [(one_line(name, _NAMED_MODEL), TEXT)]
    return [(one_line(f"{one_line(engine.shown, 24)}: {name}", _NAMED_MODEL), TEXT)]


def _titled(model: ModelInfo) -> str:
    """With its quantization, unless the name has that already."""
    quantization = model.quantization
    return model.name if quantization.lower() in model.name.lower() else f"{model.name} {quantization}"


def _draws(chat: Chat) -> list[Run]:
    """A mark where not everything works: a server draws by itself, or tells texts alone."""
    abilities = chat.model.abilities if chat.model is not None else None
    return [(abilities.manner, Ink("stamp"))] if abilities is not None and not abilities.client_draw else []


def _device(chat: Chat) -> list[Run]:
    model = chat.model
    if model is None or (chat.spec is not None and chat.spec.engine.url and model.device == chat.spec.engine.shown):
        return []  # what a server computes with, it does not tell
    now = chat.live.threads or model.threads
    threads = f", {now} thread" + ("s" if now != 1 else "") if now else ""  # a server does not tell
    layers = f" {model.gpu_layers}/{model.layers + 1} layers" if model.gpu_layers else ""
    return [(f"{one_line(model.device, 16)}{layers}{threads}", MUTED)]


def _context(chat: Chat) -> list[Run]:
    if chat.model is None:
        return []
    used, size = context_used(chat.conversation), chat.model.context
    told = used or chat.model.abilities.ids or chat.conversation.leaf is None
    if used is None or not size or not told:  # an engine that tells texts alone
        return []
    share = used / size
    ink = ACCENT if share < 0.8 else Ink("warning")
    return [("context ", MUTED), *bar(share, _GAUGE, ink), (f" {count(used)}/{count(size)}", TEXT)]


def _title(chat: Chat) -> list[Run]:
    title = one_line(chat.conversation.title, 32)
    raw = "raw" if chat.conversation.raw else ""
    return [(" · ".join(filter(None, (title, raw))), MUTED)] if title or raw else []
