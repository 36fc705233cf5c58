"""Two replies of transcripts side by side: the first token that differs, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from termchat.conversation.causes import WhyDifferent, why_different
from termchat.conversation.causes_text import (
    Names,
    cause_lines,
    distribution_lines,
    step_name,
    tie_lines,
    why_dict,
)
from termchat.conversation.node import Node
from termchat.conversation.recorded_reply import RecordedReply, reply_on_record
from termchat.conversation.transcripts.importing import open_readable
from termchat.conversation.transcripts.jsonl_reader import read
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError
from termchat.conversation.versions import Versions
from termchat.decoding.records import Token
from termchat.text import sanitize

NAMES: Names = ("left", "right")

Tell = Callable[[str], None]


def compare(
    paths: tuple[Path, Path | None], nodes: tuple[int | None, int | None], tell: Tell, complain: Tell, *, as_json: bool
) -> int:
    """Compares two replies and reports on it; returns the exit code: 0 where their tokens are the same, else 1, also where that
    could not be found out.

    A reply is named by the number of the node that it ends in; None is the last one of the transcript, and of one transcript
    the version before it.
    """
    try:
        transcripts = [_read(path) for path in paths if path is not None]
        left, right = _ends(transcripts, nodes)
        replies = [
            _reply(chat, end) for chat, end in zip((transcripts[0], transcripts[-1]), (left, right), strict=True)
        ]
    except TranscriptError as error:
        complain(sanitize(f"termchat: {error.message}"))
        if error.hint:
            complain(sanitize(f"  {error.hint}"))
        return 1
    why = why_different(replies[0], replies[1])
    if as_json:
        found = {"identical": why is None, "nodes": [left, right], "tokens": [len(reply.ids) for reply in replies]}
        tell(json.dumps(found | (why_dict(why, NAMES) if why is not None else {}), allow_nan=False))
    elif why is None:
        tell(f"identical, {len(replies[0].ids)} tokens")
    else:
        for line in _lines(why, left, right):
            tell(line)
    return int(why is not None)


def _lines(why: WhyDifferent, left: int, right: int) -> Iterator[str]:
    sides = f"left (node {left}) {step_name(why.left)}, right (node {right}) {step_name(why.right)}"
    yield f"different from token {why.index} on: {sides}"
    yield ""
    yield from (f"  {line}" for line in distribution_lines(why.left, why.right, NAMES))
    yield ""
    if why.left.id is not None and why.right.id is not None:
        yield from (f"  {line}" for line in tie_lines(why.left, why.right, NAMES))
    yield from (f"  {line}" for line in cause_lines(why, NAMES))


def _read(path: Path) -> Transcript:
    with open_readable(path) as file:
        return read(file)


def _ends(transcripts: list[Transcript], nodes: tuple[int | None, int | None]) -> tuple[int, int]:
    """Where the two replies end."""
    first, last = transcripts[0], transcripts[-1]
    right = _last(last) if nodes[1] is None else nodes[1]
    if nodes[0] is not None:
        left = nodes[0]
    elif first is not last:
        left = _last(first)
    else:
        left = _version_before(last, right)
    for transcript, number in ((first, left), (last, right)):
        node = transcript.conversation.nodes.get(number)
        if node is None or node.role != "assistant":
            replies = ", ".join(str(other.number) for other in _replies(transcript)) or "none"
            raise TranscriptError(f"node {number} is not a reply", f"Replies in this transcript: {replies}.")
    return left, right


def _replies(transcript: Transcript) -> list[Node]:
    nodes = transcript.conversation.nodes
    return [nodes[number] for number in sorted(nodes) if nodes[number].role == "assistant"]


def _last(transcript: Transcript) -> int:
    """The reply that the chat ends in, else the newest one."""
    leaf, replies = transcript.conversation.leaf, _replies(transcript)
    if not replies:
        raise TranscriptError(
            "this transcript contains no reply", "Pass a chat saved as .jsonl or the output of run --json."
        )
    return leaf if leaf is not None and transcript.conversation.nodes[leaf].role == "assistant" else replies[-1].number


def _version_before(transcript: Transcript, right: int) -> int:
    """The other version of a reply that was begun before it, else after it; else the reply before it in the file."""
    conversation = transcript.conversation
    spans = conversation.find_reply(right) if right in conversation.nodes else []
    if spans:
        this, ends = Versions(conversation).find_versions(spans[0].node, spans[-1].node)
        if len(ends) > 1:
            return ends[this - 1 if this else 1]
    before = [node.number for node in _replies(transcript) if node.number < right]
    if not before:
        raise TranscriptError("this transcript contains one reply only", "Pass another transcript to compare it with.")
    return before[-1]


def _reply(transcript: Transcript, end: int) -> RecordedReply:
    def token(node: Node, index: int) -> Token | None:
        tokens = (record for record in transcript.records(node.number) if isinstance(record, Token))
        return next((record for at, record in enumerate(tokens) if at == index), None)

    return reply_on_record(transcript.conversation, end, token)
