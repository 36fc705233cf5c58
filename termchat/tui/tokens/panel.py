"""What the panels show of the token that is looked at: its record, or the answer to what was asked about it or its reply."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec.structs import replace

from termchat.chat.questions import reply_with
from termchat.chat.service import Chat
from termchat.conversation.setting_changes import describe_changes
from termchat.conversation.tree import Conversation, Node, TokenColumns
from termchat.decoding.draft_figures import DraftedStep, round_at
from termchat.decoding.records import Token
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED, again, prose
from termchat.tui.panels.chain_panel import around_selected, chain_lines
from termchat.tui.panels.record import ORIGINAL, WITH_KNOBS, Shown, from_columns, record_lines, settings_of
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.speculation.round_lines import ShownRound

View = Literal["record", "asked", "why", "what-if", "ending"]
_KEPT = 8
"""Records that are not read again at once."""
_WHOLE_CHAIN = 32
"""Rows from which TUNE shows the whole chain above the panel; else only the knob it is on."""


class At(NamedTuple):
    """A reply and the place of one of its tokens; `pending`: of the one behind its last, which is not taken yet."""

    node: Node
    at: int
    pending: bool = False


class _AndPending:
    """The tokens of a reply and the one behind them that is not taken yet."""

    def __init__(self, tokens: TokenColumns, pending: Token) -> None:
        self._tokens, self._pending = tokens, pending

    def __len__(self) -> int:
        return len(self._tokens) + 1

    def __getitem__(self, index: int) -> DraftedStep:
        return self._pending if index == len(self._tokens) else self._tokens[index]


class TokenPanel:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._recorded: dict[tuple[Node, int], Token] = {}

    def shown(self, place: At, view: View) -> Shown | None:
        """The step to show; None while the model is asked for it."""
        chat, node = self._chat, place.node
        now, start = chat.tuning.samplers(), node.start or _begin_of(chat.conversation, node)[0].start
        seed = start.seed if start is not None else None
        if place.pending and chat.paused is not None:
            waits = f"waiting: {chat.paused.why}" if chat.paused.why else "waiting"
            return Shown(chat.paused.token, "PENDING", waits, "", now, True, True, seed, node.number, self.round(place))
        if view == "asked":
            if (asked := chat.questions.inspected) is None:
                return None
            token, note = asked.inspected.token, again(chat.tolerance) if asked.inspected.recomputed else ""
            if asked.now:
                return Shown(token, "RECOMPUTED", WITH_KNOBS, note, now, True, seed=seed, node=node.number)
            then = settings_of(node, node.tokens.settings[place.at])
            return Shown(token, "RECOMPUTED", ORIGINAL, note, then, seed=seed, node=node.number)
        then = settings_of(node, node.tokens.settings[place.at])
        return Shown(self._record(place), samplers=then, seed=seed, node=node.number, round=self.round(place))

    def round(self, place: At) -> ShownRound | None:
        """The round of drafting that the token came out of; None where it was decoded alone."""
        tokens, waits = place.node.tokens, self._chat.paused
        pending = waits.token if place.pending and waits is not None else None
        made = round_at(tokens if pending is None else _AndPending(tokens, pending), place.at)
        if made is None:
            return None
        end = made.begin + made.accepted
        ending = None
        if made.corrected is not None:
            ending = pending if end == len(tokens) else self._record(At(place.node, end))
        first = _begin_of(self._chat.conversation, place.node)[1]
        return ShownRound(made, place.at, first, ending, pending is not None, place.node.done)

    def lines(self, place: At | None, view: View, width: int, rows: int, tune: Tune | None) -> list[Line]:
        """At most `rows` lines; with `tune`, its knobs are above."""
        head: list[Line] = []
        if tune is not None:
            shown = self.shown(place, view) if place is not None and view in ("record", "asked") else None
            token = shown.token if shown is not None and shown.now else None
            chain = chain_lines(
                tune.tuning,
                token,
                width,
                selected=tune.selected,
                typed=tune.typed,
                unfolded=tune.unfolded,
                rules=self._chat.rules,
                constraint=self._chat.constraint,
                lacks=self._chat.abilities.lacks,
                order=tune.own_order,
                unseen=self._chat.find_refusal("stages"),
            )
            selected = [line for line in chain if line.ground]
            head = around_selected(chain, rows // 2) if rows >= _WHOLE_CHAIN else selected
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
        now, constraint = self._chat.tuning.samplers(), self._chat.constraint
        for span in reply_with(self._chat.conversation, place.node):
            for then, at in zip(span.node.settings, span.node.settings_at, strict=True):
                turned = describe_changes(
                    then, replace(then, samplers=now, constraint=constraint, constraint_dropped="")
                )
                if turned and at < span.count:
                    return turned
        return []

    def _record(self, place: At) -> Token:
        """The record of a token, read from the store once."""
        node, at = place.node, place.at
        if (node, at) not in self._recorded:
            record = self._chat.session.read_token(node, at)
            if record is None:  # not kept, or not yet
                return from_columns(node, at, _begin_of(self._chat.conversation, node)[1] + at)
            if len(self._recorded) >= _KEPT:
                self._recorded.clear()
            self._recorded[node, at] = record
        return self._recorded[node, at]


def _begin_of(conversation: Conversation, node: Node) -> tuple[Node, int]:
    """The first piece of the reply that a node is a piece of, and how many tokens stand between their beginnings."""
    before = 0
    while node.parent is not None and (parent := conversation.nodes[node.parent]).role == "assistant":
        before += node.at
        node = parent
    return node, before
