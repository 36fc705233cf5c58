"""What `Chat.pump` reports to whoever shows the chat: small, frozen, and safe to merge or drop."""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["no model", "loading", "idle", "rendering", "prefill", "decoding", "paused", "failed"]


class PathChanged(msgspec.Struct, frozen=True):
    """The path is another one (a turn was added, a reply regenerated, a chat opened): read `conversation.path()`."""


class ReplyGrew(msgspec.Struct, frozen=True):
    """Node `number` has new tokens, settings changes, or its end."""

    number: int


class StatusChanged(msgspec.Struct, frozen=True):
    """Phase, progress, model or queue changed: read them from the chat."""


class LiveChanged(msgspec.Struct, frozen=True):
    """There is a newer token or a reshaped distribution to look at: read `chat.live`."""


class TuningChanged(msgspec.Struct, frozen=True):
    """A knob was turned."""


class Answered(msgspec.Struct, frozen=True):
    """There is an answer, or none for a reason: read them from `chat.questions`."""


class BreakpointsChanged(msgspec.Struct, frozen=True):
    """A breakpoint was set, toggled or taken away."""


class RoomWanted(msgspec.Struct, frozen=True):
    """The context is full, and a person should say what is to be done: read `chat.full`, answer with `chat.make_room`."""


class Notice(msgspec.Struct, frozen=True):
    """Something a person should read. The text may hold foreign text: sanitise it before it is shown."""

    message: str
    hint: str = ""
    severity: Literal["information", "warning", "error"] = "information"


Change = (
    PathChanged
    | ReplyGrew
    | StatusChanged
    | LiveChanged
    | TuningChanged
    | Answered
    | BreakpointsChanged
    | RoomWanted
    | Notice
)
