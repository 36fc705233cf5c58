"""Token mode: what its keys do to the token under the cursor. No widget of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from termchat.chat.changes import Answered, Change, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.service import Chat
from termchat.conversation.session import View as Kept
from termchat.conversation.tree import Place
from termchat.conversation.unsent import Wish
from termchat.decoding.escapes import unescape
from termchat.engine.port import Unit
from termchat.tui.draw.ink import Line
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.record import Shown
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.speculation.round_lines import ShownRound
from termchat.tui.tokens.panel import At, TokenPanel, View
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.cursor.cursor import Move
from termchat.tui.transcript.cursor.token_order import TokenRef
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS

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
        self._panel = TokenPanel(chat)
        self._tuning = False
        self._before_tuning: View = "record"
        self._found: tuple[int | None, Place | None] | None = None

    # --- in and out --------------------------------------------------------------------------------------------------

    def look_at(self, view: TranscriptView | None) -> None:
        """From now on the cursor is in this view, for one in which a reply stands alone; None: in the whole chat again. Token
        mode closes where it is open in another."""
        view = view or self._whole
        if view is not self.transcript:
            if self.open:
                self.leave()
            self.transcript = view

    def enter(self) -> bool:
        """Puts the cursor on a token; False where there is none."""
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
        """Closes the innermost thing; False when that was token mode itself."""
        if self.typing is not None:
            self.typing = None
        elif self.view != "record":
            self._go_to("record")
        else:
            self.leave()
            return False
        return True

    def keep(self) -> None:
        """Has the chat keep the cursor and the looks, for when it is opened again."""
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
        found, self._found = self._found, None
        place = self._chat.session.view.cursor
        kept = place is not None and found == (self._chat.conversation.leaf, place) and not self._chat.busy
        if place is not None and kept and self.transcript.cursor is None:  # else a token was clicked
            self.transcript.set_cursor(TokenRef(*place))
        else:
            self.transcript.open_cursor()

    @property
    def place(self) -> At | None:
        """What is looked at: the token under the cursor, or the one that a paused reply waits with."""
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
    def pending(self) -> bool:
        """Whether that is the token which a paused reply waits with."""
        return self._behind and self._chat.paused is not None

    # --- keys --------------------------------------------------------------------------------------------------------

    def move(self, how: Move) -> None:
        """Moves the cursor; from the last token on to the one that a paused reply waits with."""
        was_pending, before = self.pending, self.transcript.cursor
        if not (was_pending and how == "left"):  # the token before the pending one has the cursor already
            self.transcript.move_cursor(how)
        stayed = before == self.transcript.cursor
        self._behind = stayed and (how in _ONWARDS or (was_pending and how not in _BACKWARDS))
        self._moved()

    def pointed(self) -> bool:
        """Follows the cursor, which may have been moved by a click; whether there still is one, or soon will be."""
        if self.transcript.cursor != self._at:
            self._behind = False
            self._moved()
        return self._at is not None or self._forked or self._branch is not None or self.pending

    def choose(self, number: int) -> None:
        """Goes on with candidate `number`, from 1: a paused reply takes it, else it begins a branch."""
        shown, place = self.shown(), self.place
        if shown is None or place is None:
            return
        if number > len(shown.token.candidates):
            self._tell(f"no candidate {number}", f"{name_of('ask-again')} asks the model for candidates")
            return
        chosen = shown.token.candidates[number - 1].id
        if shown.pending:
            self._chat.replies.force_tokens([chosen])
        else:
            self._fork(place, ids=[chosen])

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
            self._fork(place, text=unescape(text))

    def cut(self, *, paused: bool = False) -> None:
        """Draws on from before the token, with the same dice; `paused` waits there."""
        if self.pending:
            self._tell("the reply is already paused here")
        elif (place := self.place) is not None:
            self._fork(place, paused=paused)

    def ask(self, *, now: bool) -> None:
        """Asks the model for this position again, with its original settings or the current knobs."""
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
        """Shows another view of the reply, or closes it."""
        self._go_to("record" if self.view == view else view)
        if self.view == "what-if" and (place := self.place) is not None:
            self._chat.questions.score_reply(place.node)

    def fork_there(self) -> None:
        """From what-if: goes on from the first token that would be another one, under the knobs as they are."""
        replay = self._chat.questions.scored
        if self.view != "what-if" or replay is None:
            return
        if replay.summary.first is None:
            self._tell("every token would stay the same", f"{name_of('tune')} turns the knobs")
            return
        number, index = replay.places[replay.summary.first]
        self._fork(At(self._chat.conversation.nodes[number], index))

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
            self._tell("no reply is running", onward + f"{name_of('cut-paused')} restarts from here, paused")

    def step(self, unit: Unit) -> None:
        """Continues a paused reply for one unit."""
        if self._chat.phase == "paused":
            self._behind = True
            self._chat.replies.step(unit)
        else:
            onward = f"{name_of('pause')} pauses; {name_of('cut-paused')} restarts from here, paused"
            self._tell("pause the reply before stepping", onward)

    # --- what the chat says ------------------------------------------------------------------------------------------

    def heard(self, news: Sequence[Change]) -> None:
        """Follows the chat: to a branch that was made, and to where a reply is paused."""
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
            self._tell(failed)
            self.view = "record"

    # --- what the panels show ----------------------------------------------------------------------------------------

    def shown(self) -> Shown | None:
        return self._panel.shown(place, self.view) if (place := self.place) is not None else None

    def round(self) -> ShownRound | None:
        """The round of drafting that the token came out of."""
        return self._panel.round(place) if (place := self.place) is not None else None

    def panel(self, width: int, rows: int, tune: Tune | None) -> list[Line]:
        """The lines of the panels; with `tune`, its knobs are above."""
        return self._panel.lines(self.place, self.view, width, rows, tune)

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _moved(self) -> None:
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
        """Shows another view; a closed one is not asked again when knobs turn."""
        self.view = view
        self._chat.questions.forget_answers()

    def _fork(self, place: At, *, ids: list[int] | None = None, text: str = "", paused: bool = False) -> None:
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

    def _tell(self, message: str, hint: str = "") -> None:
        self._chat.add_changes(Notice(message, hint))


_ONWARDS = frozenset[Move]({"right", "down", "last", "line_end", "turn_down"})
_BACKWARDS = frozenset[Move]({"left", "up", "first", "line_start", "turn_up"})
