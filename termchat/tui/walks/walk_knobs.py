"""The knobs of one walk, as TUNE turns them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from termchat.chat.service import Chat
from termchat.chat.walk_group import WalkGroup
from termchat.conversation.session import Breakpoint
from termchat.conversation.setting_changes import values
from termchat.decoding.samplers import Tuning, Value


class WalkKnobs:
    """What a walk is drawn with: its newest settings, and what was turned here, which the engine may not have said yet. Rules
    are those of the chat, for all walks."""

    def __init__(self, chat: Chat, group: WalkGroup, walk: int) -> None:
        self._chat, self._node = chat, group.nodes[walk]
        self.walk = walk
        self._turned: dict[str, Value] = {}

    own_order = ()

    @property
    def tuning(self) -> Tuning:
        settings = self._node.settings
        known = values(settings[-1]) if settings else {}
        return self._chat.tuning.turned(known | self._turned)

    @property
    def origin(self) -> Mapping[str, str]:
        settings = self._node.settings
        return self._chat.origin | (settings[-1].origin if settings else {}) | dict.fromkeys(self._turned, "panel")

    @property
    def breakpoints(self) -> tuple[Breakpoint, ...]:
        return self._chat.breakpoints

    def adjust(self, name: str, value: object) -> None:
        self.adjust_all({name: value}, {})

    def adjust_all(self, values: Mapping[str, object], _places: Mapping[str, str]) -> None:
        turned = self.tuning.turned(values)
        self._chat.walks.adjust(values, self.walk)
        self._turned |= {name: getattr(turned, name) for name in values}

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> None:
        self._chat.set_breakpoints(breakpoints)
