"""What the transcripts for people say of a chat and of a reply beside the text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

import termchat
from termchat.conversation import setting_changes
from termchat.conversation.session import Session
from termchat.conversation.thoughts import thoughts_of
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.draft_figures import DraftFigures
from termchat.decoding.records import ModelIdentity
from termchat.decoding.samplers import escape
from termchat.text import sanitize

_ENDINGS = {
    "end": "",
    "length": "cut at {detail}",
    "stop": 'ended by stop sequence "{detail}"',
    "rule": "ended by {detail}",
    "user": "stopped by the user",
    "context": "context full, {detail} tokens",
}
"""Why a reply ended, where that is worth a word."""


def list_facts(conversation: Conversation, info: Session) -> Iterator[tuple[str, str]]:
    """Yield names and values; the name is "" where the value speaks for itself."""
    starts = (span.node.start for span in conversation.find_path() if span.node.start is not None)
    wrote = list({(start.model.sha256, start.model.name): start.model for start in starts}.values())
    if len(wrote) > 1:
        yield "models", "; ".join(_describe_model(identity.name, identity) for identity in wrote)
    else:
        identity = wrote[0] if wrote else info.model.identity
        yield "model", _describe_model((identity.name if identity else "") or info.model.name, identity)
    if info.created:
        yield "date", f"{datetime.fromtimestamp(info.created).astimezone():%Y-%m-%d %H:%M %z}"
    if conversation.raw:
        yield "mode", "raw mode, no chat template"
    yield "", f"written by termchat {termchat.__version__}"


def name_of(reply: Node, info: Session) -> str:
    return plain_line(reply.start.model.name if reply.start is not None else info.model.name) or "Model"


def fact_line(node: Node) -> str:
    """Join seed, first settings, length, drafts and a remarkable end of a reply on one line."""
    told = [f"seed {node.start.seed}"] if node.start is not None and node.settings else []
    told += setting_changes.in_force(node.settings[0]) if node.settings else []
    if node.size is not None and (node.size or not node.pending):  # of a reply from elsewhere nobody knows the tokens
        told.append("1 token" if node.size == 1 else f"{node.size} tokens")
    told += [drafts] if (drafts := drafts_of(node)) else []
    told += [str(thoughts)] if (thoughts := thoughts_of([Span(node, len(node.ids))])) is not None else []
    return " · ".join(fact for fact in (*told, ending_of(node)) if fact)


def drafts_of(node: Node) -> str:
    """Describe the drafts of a reply, as "drafted 120 tokens, 83 % accepted, 2.1 tokens a pass"; "" without drafts."""
    if node.tokens.drafts is None:
        return ""
    figures = DraftFigures.count_tokens(node.tokens)
    count = f"drafted {figures.drafted:,} token{'s' if figures.drafted != 1 else ''}"
    accepted = f"{figures.acceptance:.0%} accepted".replace("%", " %") if figures.acceptance is not None else ""
    passes = f"{figures.tokens_per_pass:.1f} tokens a pass" if figures.tokens_per_pass is not None else ""
    return ", ".join(filter(None, (count, accepted, passes)))


def ending_of(node: Node) -> str:
    """Explain why a reply ended; "" for a normal end."""
    if node.failed is not None:
        return f"failed: {plain_line(node.failed.message)}"
    if node.finished is None:
        return "unfinished"
    return _ENDINGS[node.finished.reason].format(detail=escape(node.finished.detail))


def file_name(path: str) -> str:
    """Return a file's name without its folder, which is this machine's business; also of another system's path."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def without_folder(identity: ModelIdentity | None) -> ModelIdentity | None:
    """Return a model's identity with its file's name alone."""
    return None if identity is None else msgspec.structs.replace(identity, path=file_name(identity.path))


def plain_line(text: str) -> str:
    """Return foreign text on one line, sanitised."""
    return " ".join(sanitize(text).split())


def _describe_model(name: str, identity: ModelIdentity | None) -> str:
    details = [identity.architecture, identity.quantization, file_name(identity.path)] if identity else []
    known = ", ".join(detail for detail in details if detail)
    return plain_line(name or "unknown") + (f" ({plain_line(known)})" if known else "")
