"""What a person does to the panels: turning pages, rolling dice, turning knobs with the mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.conversation.tree import Conversation, Span
from termchat.tui.context import ScreenContext
from termchat.tui.draw.ink import Run
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.candidates import can_roll, roll_more
from termchat.tui.pages.panel_pages import shown_step
from termchat.tui.pages.panels import Panels

if TYPE_CHECKING:
    from termchat.tui.pages.drafts import ReplyDrafts

_ANSWERS = ("why", "what-if", "ending")
"""What token mode shows on the page of the token, when it is asked for."""


class PanelActions(ScreenContext):
    """The part of the chat's screen that shows the panels, and turns what stands in them."""

    _token_view = "record"
    _drafts: ReplyDrafts | None = None

    def show_panels(self) -> None:
        if not self.panels.display:
            return
        mode = self.tokens.mode
        if mode.open:
            if mode.view != self._token_view and mode.view in _ANSWERS and not self.panels.big:
                self.panels.page = "chain"
            self._token_view = mode.view
        reply = self.tokens.transcript.cursor_reply if mode.open else newest_reply(self.chat.conversation)
        tuning = self.tune is not None
        self.panels.show_reply(reply, self.knobs, mode if mode.open else None, tuning=tuning)

    def on_panels_computed(self) -> None:
        self.show_panels()

    def draft_runs(self, width: int) -> list[Run]:
        """Render what drafts do for the newest reply, in so many cells; nothing for one that was over when the chat was opened:
        to read all of it may take a while."""
        reply = newest_reply(self.chat.conversation)
        if not reply or not reply[-1].node.settings or reply[-1].node.settings[-1].draft is None:
            return []
        from termchat.tui.pages.drafts import ReplyDrafts, header_runs

        self._drafts = self._drafts or ReplyDrafts()
        if reply[-1].node.done and not self._drafts.knows(reply):
            return []
        self._drafts.follow(self.chat, reply)
        return header_runs(self._drafts.figures, reply, width)

    # --- pages -----------------------------------------------------------------------------------------------------------

    def action_panels(self) -> None:
        self.panels.toggle()

    def action_turn_page(self, by: int) -> None:
        """Turn to another page; panels that are hidden are shown first."""
        if self.panels.display:
            self.panels.turn(by)
        else:
            self.panels.toggle()
        self.show_panels()

    def action_page(self, page: str) -> None:
        """Show a page, and the panels if they are hidden."""
        self.panels.page = page
        if not self.panels.display:
            self.panels.toggle()
        self.show_panels()

    def on_panels_pointed(self, event: Panels.Pointed) -> None:
        self.tokens.transcript.set_cursor(event.ref)

    def action_roll(self, n: int = 0, first: int | None = None) -> None:
        """Roll the dice at the step that is shown (see `roll_more`), on a page that shows it. A reply that runs would take it
        out of sight, so that token mode holds it."""
        chat, tokens, panels = self.chat, self.tokens, self.panels
        if chat.busy and chat.paused is None and not tokens.mode.open:
            tokens.enter()
        shown = shown_step(chat, tokens.mode if tokens.mode.open else None)
        if shown is None or not shown.token.candidates:
            hint = "send a message first" if shown is None else f"{name_of('ask-again')} asks the model for them"
            self.tell(Notice("no candidates to draw from", hint))
            return
        if not can_roll(shown.token):
            self.tell(Notice("the server that drew this token does not tell what its sampler chain left"))
            return
        panels.shown.rolls = roll_more(panels.shown.rolls, shown.node, shown.token.step, n, first)
        if panels.here != "next" and not (panels.big and tokens.mode.open and panels.here == "chain"):
            panels.page = "next"
        if not panels.display:
            panels.toggle()
        self.show_panels()

    def action_choose(self, number: int) -> None:
        """Do what the digit of a candidate does, counted from 1; outside of token mode a paused reply takes it."""
        paused = self.chat.paused
        if self.tokens.mode.open:
            self.tokens.action_choose(number)
        elif paused is not None and number <= len(paused.token.candidates):
            self.chat.replies.force_tokens([paused.token.candidates[number - 1].id])
        else:
            self.tell(Notice("no reply is paused", f"to fork with a click, open token mode ({name_of('tokens')})"))

    # --- knobs -----------------------------------------------------------------------------------------------------------

    def show_knobs(self) -> None:
        """Show what TUNE is about now, after a knob was turned or TUNE was opened or closed."""
        raise NotImplementedError

    def action_tune(self) -> None:
        if self.tune is not None:
            self.close_tune()
        else:
            self.open_tune()

    def action_tune_knob(self, knob: str) -> None:
        if self.tune is None:
            self.open_tune()
        self.knobs.select(knob)
        self.show_knobs()

    def action_all_knobs(self) -> None:
        """Open TUNE with every knob, or hide again those that do nothing."""
        knobs = self.knobs
        if self.tune is None:
            self.open_tune()
        knobs.unfolded = not knobs.unfolded
        self.show_knobs()

    def on_panels_turned(self) -> None:
        self.show_knobs()


def newest_reply(conversation: Conversation) -> list[Span]:
    """List the parts of the reply that the chat ends in, none if it ends in a message. The path before it is not walked."""
    parts: list[Span] = []
    number, count = conversation.leaf, None
    while number is not None and (node := conversation.nodes[number]).role == "assistant":
        parts.append(Span(node, len(node.tokens) if count is None else count))
        number, count = node.parent, node.at
    return parts[::-1]
