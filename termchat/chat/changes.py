"""What `Chat.pump_events` reports to whoever shows the chat: small, frozen, and safe to merge or drop."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import msgspec

from termchat.conversation.node import Node
from termchat.conversation.session import Session
from termchat.conversation.unsent import ALONE, Wish
from termchat.decoding.records import Failed

Phase = Literal["no model", "loading", "idle", "rendering", "prefill", "decoding", "paused", "failed"]
Way = Literal["stop", "drop", "summarise"]
WAYS: tuple[Way, ...] = get_args(Way)
"""What can be done about a full context."""


class PathChanged(msgspec.Struct, frozen=True):
    """The path is another one (a turn was added, a reply regenerated, a chat opened): read `conversation.path()`."""


class ReplyGrew(msgspec.Struct, frozen=True):
    """Node `number` has new tokens, settings changes, or its end."""

    number: int


class StatusChanged(msgspec.Struct, frozen=True):
    """Phase, progress, model, queue or `chat.full` changed: read them from the chat."""


class LiveChanged(msgspec.Struct, frozen=True):
    """`chat.live` has a newer token or a reshaped distribution."""


class TuningChanged(msgspec.Struct, frozen=True):
    """A knob was turned."""


class Answered(msgspec.Struct, frozen=True):
    """`chat.questions` has a new answer, or the reason for none."""


class BreakpointsChanged(msgspec.Struct, frozen=True):
    """A breakpoint was set, toggled or removed."""


class Full(NamedTuple):
    """A message that does not fit, and what can be done: `turns` is how many of the oldest would be left out, in all.

    `failure` says that it could not be sent; with None it was sent, and its reply was cut off where the context ended. `leaf`
    is the end of the path that is shown. In raw mode there is nobody to ask for a summary. `wish` is how it is to be
    answered.
    """

    session: Session
    text: str
    parent: Node | None
    at: int
    leaf: int | None
    turns: int
    failure: Failed | None = None
    wish: Wish = ALONE

    @property
    def can_summarise(self) -> bool:
        return not self.session.conversation.raw


class WalksChanged(msgspec.Struct, frozen=True):
    """Replies that run together began, ended or were paused, one joined or ended, or another one is looked at: read
    `chat.walks`."""


class WalksGrew(msgspec.Struct, frozen=True):
    """Replies that run together have new tokens: read `chat.walks.shown`."""


class DrafterChanged(msgspec.Struct, frozen=True):
    """Another model drafts for the model with this `sha256`, or none does; `draft_model` is its name or path, "" for none.
    Where it was chosen to stay so, that is kept."""

    sha256: str
    draft_model: str


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
    | WalksChanged
    | WalksGrew
    | DrafterChanged
    | Notice
)
