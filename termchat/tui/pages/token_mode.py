"""Token mode: what its keys do to the token under the cursor. No widget of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from termchat.chat.changes import Answered, Change, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.service import Chat
from termchat.conversation.session import View as Kept
from termchat.conversation.tree import Node, Place, TokenColumns
from termchat.conversation.unsent import Wish
from termchat.decoding.draft_figures import DraftedStep, round_at
from termchat.decoding.escapes import unescape
from termchat.decoding.records import Token
from termchat.engine.port import Unit
from termchat.tui.draw.marks import again
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.record import ORIGINAL, WITH_KNOBS, Shown, from_columns, settings_of
from termchat.tui.pages.rounds import ShownRound
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.cursor import Move
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS
from termchat.tui.transcript.tokens import TokenRef

View = Literal["record", "asked", "why", "what-if", "ending"]
_KEPT = 8
"""Records that are not read again at once."""


class At(NamedTuple):
    """A reply and the place of one of its tokens; `pending`: of the one behind its last, which is not drawn yet."""

    node: Node
    at: int
    pending: bool = False


class _AndPending:
    """The tokens of a reply and the pending one behind them."""

    def __init__(self, tokens: TokenColumns, pending: Token) -> None:
        self._tokens, self._pending = tokens, pending

    def __len__(self) -> int:
        return len(self._tokens) + 1

    def __getitem__(self, index: int) -> DraftedStep:
        return self._pending if index == len(self._tokens) else self._tokens[index]


Typing = Literal["text", "why"]
PROMPTS: dict[Typing, str] = {
    "text": "replacement from here on; a leading space counts, \\n is a line break",
    "why": "why not … ? text or #id; a leading space counts",
}


class TokenMode:
    """`view` is what the panels show, `typing` what a line is being typed for."""

    def __init__(self, chat: Chat, transcript: TranscriptView) -> None:
        self._chat, self._whole = chat, transcript
        self.transcript = transcript
        """The view of the reply that is looked at."""
        self.open = False
        self.view: View = "record"
        self.typing: Typing | None = None
        self._behind = self._forked = False
        self._branch: int | None = None
        self._at: TokenRef | None = None
        self._recorded: dict[tuple[Node, int], Token] = {}
        self._tuning = False
        self._before_tuning: View = "record"
        self._found: tuple[int | None, Place | None] | None = None

    # --- in and out --------------------------------------------------------------------------------------------------

    def look_at(self, view: TranscriptView | None) -> None:
        """Move token mode to the view of a single reply, or back to the whole chat (None). It closes if it is open in
        another."""
        view = view or self._whole
        if view is not self.transcript:
            if self.open:
                self.leave()
            self.transcript = view

    def enter(self) -> bool:
        """Put the cursor on a token; False for a chat without tokens."""
        if not self.open:
            self._put_cursor()
            self._behind = self._chat.paused is not None  # before the first token there is nothing else to look at
            self.open = self._behind or self.transcript.cursor is not None
            if self._behind:
                self.transcript.move_cursor("last")
            self._at = self.transcript.cursor
            self._follow_knobs()
        return self.open

    def leave(self) -> None:
        self.keep()
        self.open, self.typing = False, None
        self._go_to("record")
        self.transcript.close_cursor()

    def back(self) -> bool:
        """Close the innermost thing; False when that was token mode itself."""
        if self.typing is not None:
            self.typing = None
        elif self.view != "record":
            self._go_to("record")
        else:
            self.leave()
            return False
        return True

    def keep(self) -> None:
        """Have the chat keep the cursor and the looks, for when it is opened again."""
        cursor = self.transcript.cursor
        place = Place(*cursor) if cursor is not None else self._chat.session.view.cursor
        self._chat.set_view(Kept(place, *self._whole.looks))

    def find(self) -> None:
        """Another chat is shown, in the looks that were kept with it; the cursor will be where it was."""
        view = self._chat.session.view
        self._found = (self._chat.conversation.leaf, view.cursor)
        if view.look in LOOKS and view.token_look in TOKEN_LOOKS:
            self._whole.looks = view.look, view.token_look

    def _put_cursor(self) -> None:
        """The first time, and if nothing has happened since, where it was when the chat was last open; else on the newest token
        in view."""
        restored, self._found = self._found, None
        place = self._chat.session.view.cursor
        kept = place is not None and restored == (self._chat.conversation.leaf, place) and not self._chat.busy
        if place is not None and kept and self.transcript.cursor is None:  # else a token was clicked
            self.transcript.set_cursor(TokenRef(*place))
        else:
            self.transcript.open_cursor()

    @property
    def place(self) -> At | None:
        """The token under the cursor, or the one that a paused reply waits with."""
        ref = self.transcript.cursor
        if not self.open:
            return None
        if self.pending and (leaf := self._chat.conversation.leaf) is not None:
            node = self._chat.conversation.nodes[leaf]
            return At(node, len(node.ids), pending=True)
        if ref is None:
            return None
        node = self._chat.conversation.nodes[ref.node]
        return At(node, min(ref.index, len(node.ids) - 1))

    @property
    def cursor(self) -> TokenRef | None:
        return self.transcript.cursor

    @property
    def pending(self) -> bool:
        """Whether that is the token which a paused reply waits with."""
        return self._behind and self._chat.paused is not None

    # --- keys --------------------------------------------------------------------------------------------------------

    def move(self, how: Move) -> None:
        """Move the cursor; from the last token on to the one that a paused reply waits with."""
        was_pending, before = self.pending, self.transcript.cursor
        if not (was_pending and how == "left"):  # the token before the pending one has the cursor already
            self.transcript.move_cursor(how)
        stayed = before == self.transcript.cursor
        self._behind = stayed and (how in _ONWARDS or (was_pending and how not in _BACKWARDS))
        self._follow_cursor()

    def pointed(self) -> bool:
        """Follow the cursor, which may have been moved by a click; whether there still is one, or soon will be."""
        if self.transcript.cursor != self._at:
            self._behind = False
            self._follow_cursor()
        return self._at is not None or self._forked or self._branch is not None or self.pending

    def choose(self, number: int) -> None:
        """Go on with candidate `number`, from 1: a paused reply takes it, else it begins a branch."""
        shown, place = self.shown(), self.place
        if shown is None or place is None:
            return
        if number > len(shown.token.candidates):
            self._notify(f"no candidate {number}", f"{name_of('ask-again')} asks the model for candidates")
            return
        chosen = shown.token.candidates[number - 1].id
        if shown.pending:
            self._chat.replies.force_tokens([chosen])
        else:
            self._fork_at(place, ids=[chosen])

    def submit(self, text: str) -> None:
        typing, self.typing = self.typing, None
        place = self.place
        if not text or place is None:
            return
        if typing == "why":
            what = int(text[1:]) if text[:1] == "#" and text[1:].isdecimal() else unescape(text)
            self._chat.questions.explain_token(place.node, place.at, what, now=self.pending)
            self.view = "why"
        elif self.pending:
            self._chat.replies.force_text(unescape(text))
        else:
            self._fork_at(place, text=unescape(text))

    def cut(self, paused: bool = False) -> None:
        """Draw on from before the token, with the same dice; `paused` waits there."""
        if self.pending:
            self._notify("the reply is already paused here")
        elif (place := self.place) is not None:
            self._fork_at(place, paused=paused)

    def ask(self, now: bool) -> None:
        """Ask the model for this position again, with its original settings or the current knobs."""
        if (place := self.place) is not None and not self.pending:
            self._chat.questions.inspect_token(place.node, place.at, now=now)
            self.view = "asked"

    def tune(self, tuning: bool) -> None:
        """TUNE was opened or closed. While it is open, a token's record gives way to what the knobs make of the token."""
        if tuning == self._tuning:
            return
        self._tuning = tuning
        if tuning:
            self._before_tuning = self.view
            self._follow_knobs()
        elif self.view == "asked" and self._before_tuning != "asked":
            self._go_to("record")

    def show(self, view: View) -> None:
        """Show another view of the reply, or closes it."""
        self._go_to("record" if self.view == view else view)
        if self.view == "what-if" and (place := self.place) is not None:
            self._chat.questions.score_reply(place.node)

    def fork_there(self) -> None:
        """Fork, from what-if, at the first token that differs under the current knobs."""
        replay = self._chat.questions.scored
        if self.view != "what-if" or replay is None:
            return
        if replay.summary.first is None:
            self._notify("every token would stay the same", f"{name_of('tune')} turns the knobs")
            return
        number, index = replay.places[replay.summary.first]
        self._fork_at(At(self._chat.conversation.nodes[number], index))

    def pause(self) -> None:
        if self._chat.phase == "paused":
            self._chat.replies.resume()
        elif self._chat.busy:
            self._behind = True
            self._chat.replies.pause()
        else:
            spans = self._chat.conversation.find_reply()
            finished = spans[-1].node.finished if spans else None
            onward = (
                "" if finished is not None and finished.reason == "end" else f"{name_of('continue')} continues it; "
            )
            self._notify("no reply is running", onward + f"{name_of('cut-paused')} restarts from here, paused")

    def step(self, unit: Unit) -> None:
        """Continue a paused reply for one unit."""
        if self._chat.phase == "paused":
            self._behind = True
            self._chat.replies.step(unit)
        else:
            onward = f"{name_of('pause')} pauses; {name_of('cut-paused')} restarts from here, paused"
            self._notify("pause the reply before stepping", onward)

    # --- what the chat says ------------------------------------------------------------------------------------------

    def heard(self, news: Sequence[Change]) -> None:
        """Follow the chat to a new branch, and to the token at which a reply is paused."""
        if self._forked and any(isinstance(change, PathChanged) for change in news):
            self._forked, self._behind, self._branch = False, True, self._chat.conversation.leaf
            self.transcript.move_cursor("last")  # what it branches off from, until it has a token of its own
            self._at = self.transcript.cursor
        if self.pending and any(isinstance(change, StatusChanged | ReplyGrew) for change in news):
            self._behind, self._branch = True, None
            self.transcript.move_cursor("last")
            self._at = self.transcript.cursor
        elif self._branch is not None and self._chat.conversation.nodes[self._branch].ids:
            self.transcript.set_cursor(TokenRef(self._branch, 0))
            self._branch, self._at = None, self.transcript.cursor
        if self.open and self.transcript.cursor is None:  # a branch from the very first token has none for a moment
            self.transcript.open_cursor()
            self._at = self.transcript.cursor
        if any(isinstance(change, Answered) for change in news) and (failed := self._chat.questions.failed):
            self._notify(failed)
            self.view = "record"

    # --- what the panels show ----------------------------------------------------------------------------------------

    def shown(self) -> Shown | None:
        """Return the step to show; None while the model is asked for it, and without a token."""
        if (place := self.place) is None:
            return None
        chat, node, paused = self._chat, place.node, self._chat.paused
        now, start = chat.tuning.samplers(), node.start or self._begin_of(node)[0].start
        seed = start.seed if start is not None else None
        if place.pending and paused is not None:
            waits = f"waiting: {paused.why}" if paused.why else "waiting"
            return Shown(paused.token, "PENDING", waits, "", now, True, True, seed, node.number, self.round())
        then = settings_of(node, node.tokens.settings[place.at])
        if self.view != "asked":
            return Shown(
                self._read_record(node, place.at), samplers=then, seed=seed, node=node.number, round=self.round()
            )
        if (asked := chat.questions.inspected) is None:
            return None
        time, knobs = (WITH_KNOBS, now) if asked.now else (ORIGINAL, then)
        note = again(chat.tolerance) if asked.inspected.recomputed else ""
        return Shown(asked.inspected.token, "RECOMPUTED", time, note, knobs, asked.now, seed=seed, node=node.number)

    def round(self) -> ShownRound | None:
        """Return the round of drafting of the token; None if it was decoded alone."""
        if (place := self.place) is None:
            return None
        node, tokens, waits = place.node, place.node.tokens, self._chat.paused
        pending = waits.token if place.pending and waits is not None else None
        drafted = round_at(tokens if pending is None else _AndPending(tokens, pending), place.at)
        if drafted is None:
            return None
        end, ending = drafted.begin + drafted.accepted, None
        if drafted.corrected is not None:
            ending = pending if end == len(tokens) else self._read_record(node, end)
        return ShownRound(drafted, place.at, self._begin_of(node)[1], ending, pending is not None, node.done)

    def _read_record(self, node: Node, at: int) -> Token:
        """Read the record of a token from the store, once."""
        if (node, at) not in self._recorded:
            record = self._chat.session.read_token(node, at)
            if record is None:  # not kept, or not yet
                return from_columns(node, at, self._begin_of(node)[1] + at)
            if len(self._recorded) >= _KEPT:
                self._recorded.clear()
            self._recorded[node, at] = record
        return self._recorded[node, at]

    def _begin_of(self, node: Node) -> tuple[Node, int]:
        """Find the first piece of the reply that a node is a piece of, and count the tokens between their beginnings."""
        before = 0
        while node.parent is not None and (parent := self._chat.conversation.nodes[node.parent]).role == "assistant":
            before += node.at
            node = parent
        return node, before

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _follow_cursor(self) -> None:
        """Answers about one token go when the cursor leaves it; those about a reply stay until another one is reached."""
        self._at, self._branch = self.transcript.cursor, None
        replay, place = self._chat.questions.scored, self.place
        if self.view in ("asked", "why"):
            self._go_to("record")
        elif self.view == "what-if" and place is not None and replay is not None:
            reached = any(number == place.node.number for number, _ in replay.places)
            if not reached:
                self._chat.questions.score_reply(place.node)
        self._follow_knobs()

    def _follow_knobs(self) -> None:
        """In TUNE: asks about the token with the current knobs, and again whenever one turns, if the model can be asked."""
        chat, place = self._chat, self.place
        if not self._tuning or place is None or self.pending or chat.model is None:
            return
        explained = chat.questions.explained
        if self.view == "why" and explained is not None and "explain" in chat.offers:
            what = explained.text or explained.explained.explanation.id
            chat.questions.explain_token(place.node, place.at, what, now=True)
        elif self.view in ("record", "asked") and "inspect" in chat.offers:
            self.ask(now=True)

    def _go_to(self, view: View) -> None:
        """Show another view; a closed one is not asked again when knobs turn."""
        self.view = view
        self._chat.questions.forget_answers()

    def _fork_at(self, place: At, *, ids: list[int] | None = None, text: str = "", paused: bool = False) -> None:
        """While walks run it is one more of them, and the cursor stays."""
        self._go_to("record")
        walks = self._chat.walks
        walk = walks.shown.walk_of(place.node.number) if walks.shown is not None and walks.shown.running else None
        if walk is not None:
            walks.fork_reply(walk, place.at, ids or (), text=text, paused=paused)
            return
        self._forked = True
        self._chat.forks.fork_reply(
            place.node, place.at, ids=ids or (), text=text, wish=Wish(then="wait" if paused else "go on")
        )

    def _notify(self, message: str, hint: str = "") -> None:
        self._chat.add_changes(Notice(message, hint))


_ONWARDS = frozenset[Move]({"right", "down", "last", "line_end", "turn_down"})
_BACKWARDS = frozenset[Move]({"left", "up", "first", "line_start", "turn_up"})
