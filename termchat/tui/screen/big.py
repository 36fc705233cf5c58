"""The pages of the panels, and the big view, in which they take the place of the chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.conversation.tree import Conversation, Span
from termchat.tui.draw.ink import Run
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.rolls import can_roll, more
from termchat.tui.pages.shown_reply import shown_step
from termchat.tui.screen.parts import Parts
from termchat.tui.transcript.cursor.token_order import TokenRef

if TYPE_CHECKING:
    from textual.widget import Widget

    from termchat.tui.pages.drafts import ReplyDrafts

_ANSWERS = ("why", "what-if", "ending")
"""What token mode shows on the page of the token, when it is asked for."""


class Big:
    """Turns the pages. While the big view is open the panels have the keyboard, except in TUNE."""

    def __init__(self, parts: Parts, show_path: Callable[[], None]) -> None:
        self._parts, self._show_path = parts, show_path
        self._chat, self._panels, self._desk = parts.chat, parts.panels, parts.desk
        self._tokens = parts.tokens
        self._view = "record"
        self._drafts: ReplyDrafts | None = None

    @property
    def home(self) -> Widget | None:
        """What has the keyboard while nothing else is open in the big view; None while that is closed."""
        return self._panels if self._panels.big else None

    def show(self) -> None:
        if not self._panels.display:
            return
        mode = self._tokens.mode
        if mode.open:
            if mode.view != self._view and mode.view in _ANSWERS and not self._panels.big:
                self._panels.page = "chain"
            self._view = mode.view
            self._panels.point_at(self._tokens.transcript.cursor_reply, self._tokens.transcript.cursor)
        else:
            self._panels.point_at(newest_reply(self._chat.conversation), None)
        self._panels.show_chat(self._chat, self._desk.tune, mode if mode.open else None)

    def drafting(self, width: int) -> list[Run]:
        """What drafts do for the newest reply, for a header of so many cells; nothing where there are none, nor for one
        that was over when the chat was opened: to read all of it may take a while."""
        reply = newest_reply(self._chat.conversation)
        if not reply or not reply[-1].node.settings or reply[-1].node.settings[-1].draft is None:
            return []
        from termchat.tui.pages.drafts import ReplyDrafts, header_runs

        self._drafts = self._drafts or ReplyDrafts()
        if reply[-1].node.done and not self._drafts.knows(reply):
            return []
        self._drafts.follow(self._chat, reply)
        return header_runs(self._drafts.figures, reply, width)

    def turn(self, by: int) -> None:
        """Panels that are hidden are shown first."""
        if self._panels.display:
            self._panels.turn(by)
        else:
            self._parts.drawer.toggle()
        self.show()

    def go(self, page: str) -> None:
        """Panels that are hidden are shown."""
        self._panels.page = page
        if not self._panels.display:
            self._parts.drawer.toggle()
        self.show()

    def toggle(self, page: str | None = None) -> None:
        big = page is not None or not self._panels.big
        if page is not None:
            self._panels.page = page
        self._set(big)

    def back(self) -> bool:
        """Closes the big view; False if it is not open."""
        if not self._panels.big:
            return False
        self._set(False)
        return True

    def point(self, ref: TokenRef) -> None:
        self._tokens.transcript.set_cursor(ref)

    def roll(self, n: int = 0, first: int | None = None) -> None:
        """Rolls the dice at the step that is shown (see `rolls.more`), on a page that shows it. A reply that runs would take it
        out of sight, so that token mode holds it."""
        chat, tokens = self._chat, self._tokens
        if chat.busy and chat.paused is None and not tokens.mode.open:
            tokens.enter()
        shown = shown_step(chat, tokens.mode if tokens.mode.open else None)
        if shown is None or not shown.token.candidates:
            hint = "send a message first" if shown is None else f"{name_of('ask-again')} asks the model for them"
            self._parts.tell(Notice("no candidates to draw from", hint))
            return
        if not can_roll(shown.token):
            self._parts.tell(Notice("the server that drew this token does not tell what its sampler chain left"))
            return
        panels = self._panels
        panels.shown.rolls = more(panels.shown.rolls, shown.node, shown.token.step, n, first)
        if panels.here != "next" and not (panels.big and tokens.mode.open and panels.here == "chain"):
            panels.page = "next"
        if not panels.display:
            self._parts.drawer.toggle()
        self.show()

    def _set(self, big: bool) -> None:
        panels, desk = self._panels, self._desk
        panels.enlarge(big)
        panels.can_focus = big
        self._parts.screen.set_class(big, "-big")
        self._show_path()
        desk.home = self._tokens.home if self._tokens.mode.open else self.home
        desk.take_keyboard()
        self.show()


def newest_reply(conversation: Conversation) -> list[Span]:
    """The parts of the reply that the chat ends in, none where it ends in a message. The path before it is not walked."""
    parts: list[Span] = []
    number, count = conversation.leaf, None
    while number is not None and (node := conversation.nodes[number]).role == "assistant":
        parts.append(Span(node, len(node.tokens) if count is None else count))
        number, count = node.parent, node.at
    return parts[::-1]
