"""What the panels show of the token that is looked at: its record, or the answer to what was asked about it or its reply."""

from __future__ import annotations

from typing import Literal, NamedTuple

from termchat.chat.position import position_of
from termchat.chat.questions import reply_with
from termchat.chat.service import Chat
from termchat.conversation.setting_changes import changes
from termchat.conversation.tree import Node
from termchat.decoding.records import SettingsRecord, Token
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED, again, prose
from termchat.tui.panels.chain_panel import chain_lines
from termchat.tui.panels.record import Shown, from_columns, record_lines
from termchat.tui.panels.tune_mode import Tune

View = Literal["record", "asked", "why", "what-if", "ending"]
_WHOLE_CHAIN = 32
"""Rows from which TUNE shows the whole chain above the panel; else only the knob it is on."""


class At(NamedTuple):
    """A reply and the place of one of its tokens; `pending`: of the one behind its last, which is not taken yet."""

    node: Node
    at: int
    pending: bool = False


class TokenPanel:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._recorded: tuple[Node, int, Token] | None = None

    def shown(self, place: At, view: View) -> Shown | None:
        """The step to show; None while the model is asked for it."""
        chat = self._chat
        if place.pending and chat.paused is not None:
            return Shown(chat.paused.token, "PENDING", chat.paused.why, None, pending=True)
        if view == "asked":
            if (asked := chat.questions.inspected) is None:
                return None
            token, recomputed = asked.inspected.token, asked.inspected.recomputed
            return Shown(
                token, "ASKED NOW" if asked.now else "ASKED", again(chat.tolerance) if recomputed else "", None
            )
        settings = _settings_of(place)
        return Shown(self._record(place), samplers=settings.samplers if settings is not None else None)

    def lines(self, place: At | None, view: View, width: int, rows: int, tune: Tune | None) -> list[Line]:
        """At most `rows` lines; with `tune`, its knobs are above."""
        head: list[Line] = []
        if tune is not None:
            shown = self._chat.paused.token if self._chat.paused is not None else None
            chain = chain_lines(self._chat.tuning, shown, width, selected=tune.selected, typed=tune.typed)
            head = chain if rows >= _WHOLE_CHAIN else [line for line in chain if line.ground]
        body = self._body(place, view, width, rows - len(head)) if place is not None else []
        return [*head, *body][:rows]

    def _body(self, place: At, view: View, width: int, rows: int) -> list[Line]:
        questions = self._chat.questions
        # Each of the views is loaded when it is first asked for; the first frame has none of them.
        if view == "ending":
            from termchat.tui.panels.whatif import ending_lines

            return ending_lines(reply_with(self._chat.conversation, place.node), width, rows)
        if view == "what-if":
            from termchat.tui.panels.whatif import whatif_lines

            return whatif_lines(questions.scored, self._turned(place), width, rows, self._chat.tolerance)
        if view == "why" and questions.explained is not None:
            from termchat.tui.panels.why import why_lines

            return why_lines(questions.explained, width, self._chat.tolerance)
        shown = self.shown(place, view) if view != "why" else None
        return record_lines(shown, width, rows) if shown is not None else prose("asking the model …", width, MUTED)

    def _turned(self, place: At) -> list[str]:
        """The knobs that are not as they were, for the first of the reply's tokens for which one is not."""
        now = self._chat.tuning.samplers()
        for span in reply_with(self._chat.conversation, place.node):
            for then, at in zip(span.node.settings, span.node.settings_at, strict=True):
                turned = changes(then, SettingsRecord(0, now, then.conditions, {}, then.threads))
                if turned and at < span.count:
                    return turned
        return []

    def _record(self, place: At) -> Token:
        """The record of a token, read from the store once."""
        node, at = place.node, place.at
        if self._recorded is None or self._recorded[:2] != (node, at):
            record = self._chat.record(node, at)
            if record is None:  # not kept, or not yet
                return from_columns(node, at, position_of(self._chat.conversation, node, at).done)
            self._recorded = node, at, record
        return self._recorded[2]


def _settings_of(place: At) -> SettingsRecord | None:
    number = place.node.tokens.settings[place.at]
    return next((settings for settings in place.node.settings if settings.number == number), None)
