"""Transcripts out: Markdown for people, JSON Lines without loss for programs (`reader` takes them in again)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import termchat
from termchat.conversation import stamps
from termchat.conversation.session import SessionInfo
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.records import FORMAT, ModelIdentity, Record, Settings, to_dict, to_json
from termchat.decoding.samplers import escape
from termchat.text import sanitize

VERSION = 1
"""Of the JSON Lines transcript; its records have `format`, the version of the record stream."""

Records = Callable[[int], Iterable[Record]]
"""The records of the reply in a node, in order."""

ENDINGS = {
    "end": "",
    "length": "cut at {detail}",
    "stop": 'ended by stop "{detail}"',
    "rule": "ended by {detail}",
    "user": "stopped by hand",
    "context": "context full, {detail} tokens",
}
"""Why a reply ended, where that is worth a word."""


class TranscriptError(Exception):
    """A transcript cannot be written or read. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


# --- Markdown --------------------------------------------------------------------------------------------------------


def to_markdown(conversation: Conversation, info: SessionInfo) -> str:
    """The chat from root to leaf as people read it, free of control characters.

    A change of settings stands in the text as ⟦temperature 0.8 → 1.2 at token 143⟧, where it was made.
    """
    parts = [f"# {_line(conversation.title) or 'Chat'}", "\n".join(_facts(conversation, info))]
    if conversation.system:
        parts += ["## System", _block(conversation.system)]
    for role, pieces in groupby(conversation.pieces(), key=lambda piece: piece[0].node.role):
        if role == "user":
            parts += ["## You", _block("".join(text for _, text in pieces))]
        else:
            parts += _reply(list(pieces), info.model.name)
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(conversation: Conversation, info: SessionInfo) -> Iterator[str]:
    starts = (span.node.start for span in conversation.path() if span.node.start is not None)
    wrote = list({start.model.sha256: start.model for start in starts}.values())
    if len(wrote) > 1:
        yield "- models: " + "; ".join(_model(identity.name, identity) for identity in wrote)
    else:
        identity = wrote[0] if wrote else info.model.identity
        yield f"- model: {_model((identity.name if identity else '') or info.model.name, identity)}"
    if info.created:
        yield f"- date: {datetime.fromtimestamp(info.created).astimezone():%Y-%m-%d %H:%M %z}"
    if conversation.raw:
        yield "- mode: raw completion, no chat template"
    yield f"- written by termchat {termchat.__version__}"


def _model(name: str, identity: ModelIdentity | None) -> str:
    details = [identity.architecture, identity.quantization, identity.path] if identity else []
    known = ", ".join(detail for detail in details if detail)
    return _line(name or "unknown") + (f" ({_line(known)})" if known else "")


def _reply(pieces: list[tuple[Span, str]], model: str) -> list[str]:
    """Heading, text with its marks, and a line of facts for each piece."""
    text, drawn = "", 0
    before: Settings | None = None
    for span, shown in pieces:
        node, whole = span.node, span.count == len(span.node.ids)
        marks = [stamp for stamp in stamps.stamps(node, drawn) if whole or stamp[0] < span.count]
        if before is not None and node.settings and (changed := stamps.changes(before, node.settings[0])):
            marks.insert(0, (0, f"{', '.join(changed)} at token {drawn}"))
        if (other := stamps.model_change(node)) is not None:
            marks.insert(0, (0, other))
        text += _marked(node, shown, marks)
        drawn += span.count
        reached = (s for s, at in zip(node.settings, node.settings_at, strict=True) if whole or at < span.count)
        before = max(reached, key=lambda settings: settings.number, default=before)
    first = pieces[0][0].node.start
    name = first.model.name if first is not None else model
    facts = "\n".join(f"*{sanitize(_fact_line(span.node))}*  " for span, _ in pieces)
    return [f"## {_line(name) or 'Model'}", _block(text), facts.rstrip()]


def _marked(node: Node, shown: str, marks: list[tuple[int, str]]) -> str:
    """The shown text with marks after so many tokens."""
    text, done = "", 0
    for at, mark in marks:
        length = min(len("".join(node.tokens.texts[:at])), len(shown))
        text += f"{shown[done:length]}⟦{mark}⟧"
        done = length
    return text + shown[done:]


def _fact_line(node: Node) -> str:
    """Seed, first settings, length and a remarkable end of a reply, on one line."""
    facts = [f"seed {node.start.seed}"] if node.start is not None else []
    facts += stamps.in_force(node.settings[0]) if node.settings else []
    facts.append("1 token" if len(node.tokens) == 1 else f"{len(node.tokens)} tokens")
    if node.failed is not None:
        facts.append(f"failed: {_line(node.failed.message)}")
    elif node.finished is None:
        facts.append("interrupted")
    else:
        facts.append(ENDINGS[node.finished.reason].format(detail=escape(node.finished.detail)))
    return " · ".join(fact for fact in facts if fact)


def _line(text: str) -> str:
    return " ".join(sanitize(text).split())


def _block(text: str) -> str:
    """A turn's text; a code fence that it leaves open is closed, so that it does not swallow the turns after it."""
    text = sanitize(text.replace("\r\n", "\n")).strip("\n")
    fence = ""
    for found in re.finditer(r"^ {0,3}(`{3,}|~{3,})(.*)$", text, re.MULTILINE):
        run, rest = found.groups()
        if not fence:
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run[0] == fence[0] and len(run) >= len(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def to_json_lines(conversation: Conversation, info: SessionInfo, records: Records) -> Iterator[str]:
    """The whole tree, every record kept: a session line, then each node's line followed by the records of its reply.

    A node's `ids` are its own (see `Node`); `text` is what is shown of it.
    """
    yield _json(_session_line(conversation, info))
    for number in sorted(conversation.nodes):
        node = conversation.nodes[number]
        yield _json(
            {
                "record": "node",
                "number": node.number,
                "parent": node.parent,
                "at": node.at,
                "role": node.role,
                "text": node.text(),
                "ids": list(node.ids),
                "whole": node.whole,
                "name": node.name,
                "deleted": node.deleted,
            }
        )
        if node.role == "assistant":
            yield from (to_json(record) for record in records(number))


def _session_line(conversation: Conversation, info: SessionInfo) -> dict[str, Any]:
    return {
        "record": "session",
        "version": VERSION,
        "format": FORMAT,
        "termchat": termchat.__version__,
        "id": info.id,
        "title": conversation.title,
        "system": conversation.system,
        "raw": conversation.raw,
        "leaf": conversation.leaf,
        "created": _iso(info.created),
        "updated": _iso(info.updated),
        # The folder of the model's file is this machine's business.
        "model": to_dict(info.model) | {"path": Path(info.model.path).name},
        "tuning": to_dict(info.tuning),
        "breakpoints": to_dict(info.breakpoints),
        "view": to_dict(info.view),
    }


def _iso(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


# --- files -----------------------------------------------------------------------------------------------------------


def _markdown_lines(conversation: Conversation, info: SessionInfo, _: Records) -> Iterable[str]:
    return to_markdown(conversation, info).removesuffix("\n").split("\n")


FORMATS: dict[str, Callable[[Conversation, SessionInfo, Records], Iterable[str]]] = {
    ".md": _markdown_lines,
    ".jsonl": to_json_lines,
}
"""The lines of a transcript, by the suffix of its file."""


def write(path: Path, conversation: Conversation, info: SessionInfo, records: Records) -> Path:
    """Writes a transcript in the format of the path's suffix; returns the path really written.

    The file is there whole or not at all; one that was there is replaced.

    Raises:
        TranscriptError: it cannot be written; the message says what and where, the hint what to do.
    """
    try:
        path = path.expanduser().resolve()
        if path.is_dir():
            raise TranscriptError(f"{path} is a folder", f"Add a file name, such as {path / 'chat.md'}.")
        lines = FORMATS.get(path.suffix.lower())
        if lines is None:
            raise TranscriptError(f"{path.name} has no suffix of a transcript", f"End it with {' or '.join(FORMATS)}.")
        if not path.parent.is_dir():
            raise TranscriptError(f"there is no folder {path.parent}", "Make it first, or choose another one.")
        _replace(path, lines(conversation, info, records))
    except PermissionError as error:
        raise TranscriptError(f"no permission to write {path}", "Choose a folder that is yours.") from error
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise TranscriptError(f"{path} cannot be written: {reason}", "Choose another place.") from error
    return path


def _replace(path: Path, lines: Iterable[str]) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            for line in lines:
                file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
