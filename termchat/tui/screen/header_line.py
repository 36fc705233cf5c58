"""The header line: which model, how full its context, which chat, and what is going on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from termchat.chat.service import Chat
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import THINK_ON
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, bar, count, length
from termchat.tui.lists.gather import Pull
from termchat.tui.screen.notices import new_failure

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
_CAUSE = 32
"""Cells of what ended a reply."""
_LEAST = {"model": 8, "title": 12}
"""Cells of a name that are worth showing where there is no room for all of it."""
_BAR = 10
_NAMED, _NAMES_FROM = 20, 100
"""Cells of the name of what is downloaded, and cells of a line that has room for it."""


def context_used(conversation: Conversation) -> int | None:
    """Count the tokens on the path from the root to the leaf: of a reply without ids as its engine reported, None if it did
    not."""
    used: int | None = 0
    for span in conversation.find_path():
        node = span.node
        if node.tokens.has_ids:
            used = (0 if node.whole or used is None else used) + span.count
        elif node.prefill is None or node.finished is None or node.finished.tokens < 0:
            used = None
        else:  # the engine counted the reply and all before it
            used = node.prefill.tokens + node.finished.tokens
    return used


def header_line(chat: Chat, width: int, downloads: Sequence[Pull] = (), drafts: Sequence[Run] = ()) -> Line:
    """Render state and downloads at the right; at the left as much of name, model, context, title and device as fits.

    What has a screen of its own is opened by a click. `drafts` is what drafts do for the reply that runs.
    """
    # The notice that nothing is saved goes when the next message is sent; this stays.
    right = [("not saved", Ink("warning", bold=True)), (_GAP, TEXT)] if chat.saving_problem else []
    if downloads:
        first, others = downloads[0], len(downloads) - 1
        name = f"{one_line(first.wanted, _NAMED)} " if width >= _NAMES_FROM else ""
        far = f"{first.now.done / first.now.total:.0%}" if first.now is not None and first.now.total else "…"
        right += [
            ("↓ ", Ink("stamp", bold=True)),
            (f"{name}{far}{f' +{others}' if others else ''}", TEXT),
            (_GAP, TEXT),
        ]
    right += [*_state_runs(chat), (" ", TEXT)]
    room = width - length(right) - len(_GAP)
    title = " · ".join(filter(None, (one_line(chat.conversation.title, 32), "raw" if chat.conversation.raw else "")))
    abilities = chat.model.abilities if chat.model is not None else None
    # A mark if not everything works: a server draws by itself, or sends texts alone.
    draws = abilities.manner if abilities is not None and not abilities.client_draw else ""
    parts: dict[str, list[Run]] = {
        "name": [(" termchat ", Ink("accent", bold=True))],
        "model": [(_name_model(chat), TEXT)],
        "draws": [(draws, Ink("stamp"))],
        "context": _context_runs(chat),
        "drafts": list(drafts),
        "title": [(title, MUTED)],
        "device": [(_name_device(chat), MUTED)],
    }
    shown: dict[str, list[Run]] = {}
    for name, part in parts.items():  # the most telling first
        size = length(part)
        if not size:
            continue
        if _LEAST.get(name, width) + len(_GAP) <= room < size + len(_GAP):
            part = [(one_line(part[0][0], room - len(_GAP)), part[0][1])]
        room -= length(part) + len(_GAP)
        if room >= 0:
            shown[name] = part
    left: list[Run] = []
    for name in filter(shown.__contains__, _ORDER):
        left += [*([(_GAP, TEXT)] if left else []), *doing(_CLICKED.get(name, ""), shown[name])]
    return Line((*left, (" " * max(width - length(left) - length(right), 0), TEXT), *right), "surface")


def _state_runs(chat: Chat) -> list[Run]:
    """Render the activity of the chat in a word or two, and how many messages are queued."""
    phase, live, drafter = chat.phase, chat.live, chat.host.drafter_progress
    if phase == "idle" and not chat.session.is_own:
        state = [("○ ", MUTED), ("read-only", TEXT)]
    elif phase in ("idle", "loading") and drafter is not None:
        state = _progress_runs("loading draft model ", drafter)
    elif phase == "idle":
        ready = new_failure(chat) is None
        state = [("ready", MUTED) if ready else (_name_cause(chat) or "interrupted", Ink("warning", does="continue"))]
    elif phase == "loading":
        state = _progress_runs("loading ", chat.host.progress)
    elif phase == "rendering":
        state = [("reading", MUTED)]
    elif phase == "prefill":
        state = _progress_runs("reading ", live.prefill_done / live.prefill_total if live.prefill_total else 0.0)
    elif phase == "decoding":
        thought, budget, rate = chat.thinking, chat.tuning.think, live.tokens_per_second
        of = f" / {budget:,}" if 0 < budget < THINK_ON else ""
        doing_now = [("writing", TEXT)] if thought is None else [("thinking", TEXT), (f" {thought:,}{of}", MUTED)]
        state = [("● ", Ink("success")), *doing_now, (f" {rate:.0f} t/s" if rate else "", MUTED)]
    elif phase == "paused":
        why = chat.paused.why if chat.paused is not None else ""
        state = [("❚❚ ", Ink("stamp")), ("paused", TEXT), (f": {one_line(why, 24)}" if why else "", MUTED)]
    elif phase == "failed":
        state = [(_name_cause(chat) or "engine stopped", Ink("error"))]
    else:
        state = [("no model", Ink("warning"))]
    if does := _STATE_CLICKED.get(phase):
        state = doing(does, state)
    return [*state, (f"  +{len(chat.turns.queue)} queued", Ink("stamp"))] if chat.turns.queue else state


def _progress_runs(what: str, share: float) -> list[Run]:
    return [(what, MUTED), *bar(share, _BAR), (f" {share:>4.0%}", TEXT)]


def _name_cause(chat: Chat) -> str:
    """Return the failure of a remote engine in a few words, without the engine's name, which the model's has before it; "" for
    other failures."""
    if chat.failure is None or chat.spec is None or not chat.spec.engine.url:
        return ""
    name = re.escape(chat.spec.engine.shown)
    cause, names = re.subn(rf"^{name} | (?:to|on) {name}(?!\w)", "", chat.failure.message, count=1)
    return one_line(re.split(r"[:,] ", cause)[0], _CAUSE) if names else ""


def _name_model(chat: Chat) -> str:
    """Return the name of the model with its quantization, after that of an engine on another machine."""
    model, spec = chat.model, chat.spec
    name = spec.name if spec is not None else ""
    if model is not None:
        has_it = model.quantization.lower() in model.name.lower()
        name = model.name if has_it else f"{model.name} {model.quantization}"
    engine = spec.engine.shown if spec is not None and spec.engine.url else name
    return one_line(name if name == engine else f"{one_line(engine, 24)}: {name}", _NAMED_MODEL)


def _name_device(chat: Chat) -> str:
    """Return the device with its layers and threads; "" where a server computes, which does not tell."""
    model = chat.model
    if model is None or (chat.spec is not None and chat.spec.engine.url and model.device == chat.spec.engine.shown):
        return ""
    now = chat.live.threads or model.threads
    threads = f", {now} thread" + ("s" if now != 1 else "") if now else ""  # a server does not tell
    layers = f" {model.gpu_layers}/{model.layers + 1} layers" if model.gpu_layers else ""
    return f"{one_line(model.device, 16)}{layers}{threads}"


def _context_runs(chat: Chat) -> list[Run]:
    if chat.model is None:
        return []
    used, size = context_used(chat.conversation), chat.model.context
    is_known = used or chat.model.abilities.ids or chat.conversation.leaf is None
    if used is None or not size or not is_known:  # an engine that tells texts alone
        return []
    share = used / size
    ink = ACCENT if share < 0.8 else Ink("warning")
    return [("context ", MUTED), *bar(share, _GAUGE, ink), (f" {count(used)}/{count(size)}", TEXT)]
