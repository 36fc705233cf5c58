"""Our own JSON Lines: the whole tree, every record kept. `transcript.schema.json` beside this file says what a line holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import termchat
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.transcripts.facts import file_name
from termchat.conversation.transcripts.jsonl_lines import LONGEST_NAME
from termchat.conversation.transcripts.transcript import VERSION, Records, Transcript, TranscriptError
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import FORMAT, Token, to_dict, to_json


def lines(conversation: Conversation, info: Session, records: Records) -> Iterator[str]:
    """Yield a session line, then each node's line followed by the records of its reply.

    A node's `ids` are its own (see `Node`); `text` is what is shown of it. A name longer than any that is taken in is cut.

    Raises:
        TranscriptError: records are gone, so that nobody could take the file in again.
    """
    yield _format_json(_build_session(conversation, info))
    for number in sorted(conversation.nodes):
        node = conversation.nodes[number]
        yield _format_json(_build_node(node))
        if node.role == "assistant":
            missing = len(node.ids)
            for record in records(number):
                missing -= isinstance(record, Token)
                yield to_json(record)
            if missing > 0:
                raise TranscriptError(
                    f"{missing:,} of a reply's {len(node.ids):,} token records are missing",
                    "Save the chat as .md or .openai.json instead.",
                )


def chats(path: Path) -> Iterator[Transcript]:
    """Yield the one chat of the file (see `jsonl_reader.read`)."""
    from termchat.conversation.transcripts.jsonl_reader import read

    yield read(path)


def _build_session(conversation: Conversation, info: Session) -> dict[str, Any]:
    return {
        "record": "session",
        "version": VERSION,
        "format": FORMAT,
        "termchat": termchat.__version__,
        "id": info.id,
        "title": conversation.title[:LONGEST_NAME],
        "system": conversation.first_system,
        "raw": conversation.raw,
        "leaf": conversation.leaf,
        "created": _format_iso(info.created),
        "updated": _format_iso(info.updated),
        "model": to_dict(_strip_folder(info.model)),
        "tuning": to_dict(info.tuning),
        "breakpoints": to_dict(info.breakpoints),
        "view": to_dict(info.view),
    }


def _strip_folder(model: ModelRef) -> ModelRef:
    """Return the model as another machine may know it: its file without the folder."""
    identity = model.identity
    if identity is not None:
        identity = msgspec.structs.replace(identity, path=file_name(identity.path))
    # A chat that was taken in knows no path of its own.
    path = file_name(model.path) or (identity.path if identity is not None else "")
    return ModelRef(model.name, path, identity)


def _build_node(node: Node) -> dict[str, Any]:
    said = {
        "record": "node",
        "number": node.number,
        "parent": node.parent,
        "at": node.at,
        "role": node.role,
        "text": node.text(),
        "ids": list(node.ids),
        "whole": node.whole,
        "name": node.name[:LONGEST_NAME],
        "deleted": node.deleted,
    }
    if node.omitted is not None:
        said["omitted"] = msgspec.to_builtins(node.omitted)
    return said if node.system is None else said | {"system": node.system}


def _format_iso(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _format_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
