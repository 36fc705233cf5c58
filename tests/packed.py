"""Requests for one reply, many or a beam search, packed as the port sends them."""

from __future__ import annotations

import msgspec

from termchat.engine import port
from termchat.engine.llama.requests import Generate, GenerateWalks, Join, SearchBeams, ToWalk


def pack(command: object) -> port.Command:
    """Return the port's command for a request; any other command as it is."""
    if isinstance(command, ToWalk):
        return msgspec.structs.replace(command.command, reply=command.walk)
    if isinstance(command, Join):
        return port.Join(_reply(command.walk, command.walk.ids))
    if not isinstance(command, Generate | GenerateWalks | SearchBeams):
        return command  # type: ignore[return-value]
    replies = (
        [_reply(walk, command.ids, command) for walk in command.walks]
        if isinstance(command, GenerateWalks)
        else [_reply(command, command.ids)]
    )
    return port.Generate(replies, **_common(command, port.Generate))


def _reply(one: object, ids: list[int], group: object = None) -> port.ReplyRequest:
    fields = (_common(group, port.ReplyRequest) if group is not None else {}) | _common(one, port.ReplyRequest)
    return port.ReplyRequest(**fields | {"ids": ids})


def _common(one: object, kind: type[msgspec.Struct]) -> dict[str, object]:
    return {name: getattr(one, name) for name in kind.__struct_fields__ if hasattr(one, name)}


def send(engine: port.Engine, command: object) -> int:
    """Send a request to an engine; return its number."""
    return engine.send(pack(command))
