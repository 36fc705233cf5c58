"""Records and conversations for tests, of the size and shape that the engine makes."""

from __future__ import annotations

from array import array

import msgspec

from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Length, Stop, TextGate
from termchat.decoding.records import (
    Candidate,
    Finished,
    ModelIdentity,
    Prefill,
    Reason,
    Record,
    SettingsRecord,
    Stage,
    Start,
    Token,
)
from termchat.decoding.samplers import SamplerSettings

MODEL = ModelIdentity("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "ab" * 32, "llama", "Q4_1")


def start(prompt_ids: list[int], seed: int = 42) -> Start:
    return Start(1, "0.1", "0.3.36", MODEL, prompt_ids, False, seed, 1, 2, 2, 63, "f16", True)


def settings(
    number: int = 0,
    *,
    stops: tuple[str, ...] = (),
    max_tokens: int = 0,
    threads: int = 2,
    **samplers: float,
) -> SettingsRecord:
    conditions = (*(Stop(text) for text in stops), *((Length(max_tokens),) if max_tokens else ()))
    return SettingsRecord(number, SamplerSettings(**samplers), conditions, {"temperature": "flag"}, threads)


def token(step: int, piece: bytes, text: str, *, number: int = 0, token_id: int | None = None) -> Token:
    candidates = [Candidate(i, f" c{i}", 18.25 - i, -0.5 - i, 0.5 / (i + 1), 0.125 * i, None) for i in range(19)]
    candidates.append(Candidate(49151, " cut", -3.0, -21.5, 0.0, -1.25, "min_p"))
    stages = [Stage("penalties", 49152), Stage("top_k", 40), Stage("min_p", 4), Stage("temperature", 4)]
    chosen = 1000 + step if token_id is None else token_id
    return Token(
        step, 30 + step, chosen, piece, text, 18.25, -0.62, 0, 0.44, 3.9, 0.002, number, False, stages, candidates,
        {"mu": 9.5}, 6100, 310,
    )  # fmt: skip


def finished(reason: Reason = "end", detail: str = "", held: str = "", tokens: int = 0) -> Finished:
    return Finished(reason, detail, held, tokens, 84.5, 80.25, 1200.5, 118.2)


def stream(
    prompt_ids: list[int],
    pieces: list[bytes],
    *,
    stops: tuple[str, ...] = (),
    reason: Reason | None = "end",
    seed: int = 42,
    turned: dict[int, SettingsRecord] | None = None,
    done: bytes = b"",
) -> list[Record]:
    """The records of a reply, its texts let out by the real gate; `turned` holds settings by the token they come before."""
    gate = TextGate(stops)
    gate.resume(done)
    records: list[Record] = [start(prompt_ids, seed), settings(stops=stops), Prefill(len(prompt_ids), 0, [3, 1], 12.5)]
    number = 0
    for step, piece in enumerate(pieces):
        if turned and step in turned:
            records.append(turned[step])
            number = turned[step].number
        text = gate.push_bytes(piece)
        records.append(token(step, piece, text, number=number))
        if gate.stopped_by is not None:
            gate.finish_reply()
            records.append(finished("stop", gate.stopped_by, gate.held, step + 1))
            return records
    if reason is not None:
        gate.finish_reply()
        records.append(finished(reason, "", gate.held, len(pieces)))
    return records


def with_margins(records: list[Record], largest_change: float = 0.5) -> list[Record]:
    """The records of a reply with margins, of which every second one is a near tie and the third token's is not known."""
    told: list[Record] = []
    for record in records:
        if isinstance(record, Start):
            record = msgspec.structs.replace(record, largest_change=largest_change)
        elif isinstance(record, Token) and record.step != 2:
            record = msgspec.structs.replace(record, margin=0.25 * record.step, near_tie=record.step % 2 == 0)
        told.append(record)
    return told


def user(conversation: Conversation, text: str, ids: list[int]) -> Node:
    """The next turn of a person."""
    parent = conversation.leaf
    at = conversation.nodes[parent].count_kept() if parent is not None else 0
    node = conversation.grow_node("user", parent=parent, at=at, text=text)
    node.prompt_ids = array("i", ids)
    return node


def reply(conversation: Conversation, *, parent: Node | None = None) -> Node:
    """A reply that is still empty."""
    before = parent or conversation.nodes[conversation.leaf or 0]
    return conversation.grow_node("assistant", parent=before.number, at=before.count_kept())


def add_all(node: Node, records: list[Record]) -> None:
    for record in records:
        node.add(record)


def step(**fields: object) -> Token:
    """A token with other values in some fields."""
    made = token(0, b"x", "x")
    return Token(**{name: fields.get(name, getattr(made, name)) for name in Token.__struct_fields__})  # type: ignore[arg-type]
