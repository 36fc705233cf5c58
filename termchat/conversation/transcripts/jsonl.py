"""Our own JSON Lines: the whole tree, every record kept. `transcript.schema.json` beside this file says what a line holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import termchat
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.transcripts.facts import file_name, without_folder
from termchat.conversation.transcripts.jsonl_lines import LONGEST_NAME, NodeLine, SessionLine
from termchat.conversation.transcripts.transcript import VERSION, Records, Transcript, TranscriptError
from termchat.conversation.tree import Conversation
from termchat.decoding.records import FORMAT, Token, to_dict, to_json


def lines(conversation: Conversation, info: Session, records: Records) -> Iterator[str]:
    """Yield a session line, then each node's line followed by the records of its reply.

    A node's `ids` are its own (see `Node`); `text` is what is shown of it. A name longer than any that is taken in is cut.

    Raises:
        TranscriptError: records are gone, so that nobody could take the file in again.
    """
    session = SessionLine(
        version=VERSION, format=FORMAT, termchat=termchat.__version__, id=info.id,
        title=conversation.title[:LONGEST_NAME], system=conversation.first_system, raw=conversation.raw,
        leaf=conversation.leaf, created=_to_iso(info.created), updated=_to_iso(info.updated), model=_portable(info.model),
        tuning=info.tuning, breakpoints=info.breakpoints, view=info.view,
    )  # fmt: skip
    yield _format_json(to_dict(session))
    for number in sorted(conversation.nodes):
        node = conversation.nodes[number]
        line = NodeLine(
            number, node.parent, node.at, node.role, node.text(), list(node.ids), node.whole, node.name[:LONGEST_NAME],
            node.deleted, node.omitted, node.system,
        )  # fmt: skip
        optional = ("omitted", "system")
        yield _format_json(
            {name: value for name, value in to_dict(line).items() if name not in optional or value is not None}
        )
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


def _portable(model: ModelRef) -> ModelRef:
    """Return the model as another machine may know it: its file without the folder."""
    identity = without_folder(model.identity)
    # A chat that was taken in knows no path of its own.
    return ModelRef(model.name, file_name(model.path) or (identity.path if identity is not None else ""), identity)


def _to_iso(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _format_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
