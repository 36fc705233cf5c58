"""Token mode: the reply under the cursor on one line, which has the keyboard, the line that is typed below it, and what keys do
to the token under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Answered, Change, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.questions import Questions
from termchat.chat.service import Chat
from termchat.conversation.heat import MEASURES
from termchat.conversation.session import View as Kept
from termchat.conversation.tree import Node, Place, Span
from termchat.conversation.unsent import Wish
from termchat.decoding.draft_figures import round_at
from termchat.decoding.escapes import unescape
from termchat.decoding.records import Token
from termchat.engine.port import Unit
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import HEATS, MARGIN, Line, Run
from termchat.tui.draw.lines_view import Column, LinesView, Slip
from termchat.tui.draw.marks import MUTED, describe_recomputed
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import TOKENS, name_of
from termchat.tui.pages.record import ORIGINAL, WITH_KNOBS, Shown, from_columns, settings_of
from termchat.tui.pages.scene import HERE, index_of, locate_token
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.cursor import Move
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS, TokenLook, heats, legend_line, next_look
from termchat.tui.transcript.tokens import TokenRef

if TYPE_CHECKING:
    from termchat.tui.pages.drafts import ShownRound

View = Literal["record", "asked", "why", "what-if", "ending"]
Typing = Literal["text", "why"]

_PROMPTS: dict[Typing, str] = {
    "text": "replacement from here on; a leading space counts, \\n is a line break",
    "why": "why not … ? text or #id; a leading space counts",
}
_ONWARDS = frozenset[Move]({"right", "down", "last", "line_end", "turn_down"})
_BACKWARDS = frozenset[Move]({"left", "up", "first", "line_start", "turn_up"})

BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_DRAWN = "·"


def ribbon_line(reply: Sequence[Span], look: TokenLook, cursor: TokenRef | None, width: int) -> Line:
    """Render a whole reply on a line of at most `width` cells; the cursor's cell is marked.

    A cell stands for as many tokens as any other, and shows the hottest of them, so that no surprise gets lost. It is as high
    as the measure: low where a probability is. Tokens that a person forced, which have no such measure, are a dot. A longer
    reply has more tokens in a cell, never less than half of the line's cells.
    """
    heat, each = _read_heats(reply, look), _tokens_per_cell(reply, width)
    rises = look != "drafts" and MEASURES[look].rises
    forced = b"".join(span.node.tokens.by_hand[: span.count].tobytes() for span in reply) if rises else bytes(len(heat))
    cells = ""
    for begin in range(0, len(heat) if width > 0 else 0, each):
        hottest = min(heat[begin : begin + each])
        height = hottest if rises else HEATS - 1 - hottest
        cells += BLOCKS[height * len(BLOCKS) // HEATS] if 0 in forced[begin : begin + each] else _NOT_DRAWN
    here = index_of(reply, cursor)
    at = here // each if here is not None else len(cells)
    runs: list[Run] = [(cells[:at], MUTED), (cells[at : at + 1], HERE), (cells[at + 1 :], MUTED)]
    return Line(tuple(run for run in runs if run[0]))


def token_at(reply: Sequence[Span], look: TokenLook, column: int, width: int) -> TokenRef | None:
    """Find the token that gives a cell of the ribbon its height; None beside it."""
    heat, each = _read_heats(reply, look), _tokens_per_cell(reply, width)
    places = range(column * each, min((column + 1) * each, len(heat)))
    if column < 0 or not places:
        return None
    node, at = locate_token(reply, min(places, key=heat.__getitem__))
    return TokenRef(node.number, at)


def _read_heats(reply: Sequence[Span], look: TokenLook) -> bytes:
    return b"".join(bytes(heats(span.node.tokens, look)[: span.count]) for span in reply)


def _tokens_per_cell(reply: Sequence[Span], width: int) -> int:
    return max(-(-sum(span.count for span in reply) // max(width, 1)), 1)


@runtime_checkable
class ShowsAnswers(Protocol):
    """A dialog that takes in the answers to questions."""

    def hear(self, questions: Questions) -> None: ...


class Ribbon(LinesView, can_focus=True):
    """The reply under the cursor on one line, and the meaning of its colours on another if it fits."""


class At(NamedTuple):
    """A reply and the place of one of its tokens, or of the one behind its last, which a paused reply waits with."""

    node: Node
    at: int


class Tokens(Column):
    """What token mode puts under the transcript. Its keys work while the ribbon has the keyboard.

    While it is `is_open`, `view` is what the panels show, `typing` what a line is being typed for.
    """

    DEFAULT_CSS = """
    Tokens { height: auto; }
    Tokens.-tall Ribbon { height: 2; }
    Tokens Input, Tokens Input:focus { height: 1; border: none; padding: 0 1; background: $panel; }
    """
    BINDINGS = [key.binding for key in TOKENS]  # noqa: RUF012

    class Acted(Message):
        """A key did something, or the mode was opened or closed."""

    def __init__(self, chat: Chat, transcript: TranscriptView) -> None:
        super().__init__()
        self._chat, self._whole = chat, transcript
        self.transcript = transcript
        """The view of the reply that is looked at."""
        self.ribbon = Ribbon()
        self._input = Field(select_on_focus=False)  # it may get the keyboard back in mid word
        self.display = self._input.display = False  # not by a class: that costs as much as all the lines in view
        self.is_open = False
        self.view: View = "record"
        self.typing: Typing | None = None
        self._behind = self._forked = False
        self._branch: int | None = None
        self._at: TokenRef | None = None
        self._before_tuning: View | None = None
        """What was shown when TUNE was opened; None while it is closed."""
        self._found: tuple[int | None, Place | None] | None = None

    def compose(self) -> ComposeResult:
        yield self.ribbon
        yield self._input

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.screen.focused is not self._input

    def paint_with(self, palette: Palette) -> None:
        self.ribbon.paint_with(palette)

    # --- in and out --------------------------------------------------------------------------------------------------

    def look_at(self, view: TranscriptView | None) -> None:
        """Move to the view of a single reply, or back to the whole chat (None). Token mode closes if it is open in another."""
        view = view or self._whole
        if view is not self.transcript:
            if self.is_open:
                self.leave()
            self.transcript = view

    def enter(self) -> bool:
        """Put the cursor on a token; False for a chat without tokens. The first time, and if nothing has happened since, it is
        where it was when the chat was last open; else on the newest token in view."""
        if not self.is_open:
            restored, self._found = self._found, None
            place = self._chat.session.view.cursor
            kept = restored == (self._chat.conversation.leaf, place) and not self._chat.busy
            if place is not None and kept and self.transcript.cursor is None:  # else a token was clicked
                self.transcript.set_cursor(TokenRef(*place))
            else:
                self.transcript.open_cursor()
            self._behind = self._chat.paused is not None  # before the first token there is nothing else to look at
            self.is_open = self._behind or self.transcript.cursor is not None
            if not self.is_open:
                self._notify("no tokens yet", "send a message first")
                return False
            if self._behind:
                self.transcript.move_cursor("last")
            self._at = self.transcript.cursor
            self._follow_knobs()
        self.follow()
        self.screen.set_focus(self.ribbon)  # not focus(): the very next key is for it
        return True

    def leave(self) -> None:
        self.keep()
        self.is_open, self.typing = False, None
        self._go_to("record")
        self.transcript.close_cursor()
        self.follow()

    def back(self) -> bool:
        """Close the innermost thing; False if nothing was open."""
        if not self.is_open:
            return False
        if self.typing is None and self.view == "record":
            self.leave()
            return True
        if self.typing is not None:
            self.typing = None
        else:
            self._go_to("record")
        self.follow()
        self.screen.set_focus(self.ribbon)
        return True

    def keep(self) -> None:
        """Have the chat keep the cursor and the looks, for when it is opened again."""
        cursor = self.transcript.cursor
        place = Place(*cursor) if cursor is not None else self._chat.session.view.cursor
        self._chat.set_view(Kept(place, *self._whole.looks))

    def find(self) -> None:
        """Take the looks that were kept with another chat; its cursor will be where it was."""
        view = self._chat.session.view
        self._found = (self._chat.conversation.leaf, view.cursor)
        if view.look in LOOKS and view.token_look in TOKEN_LOOKS:
            self._whole.looks = view.look, view.token_look

    def next_look(self) -> None:
        """Turn to the next look of tokens, and save it with the chat."""
        replies = (span.node for span in self.transcript.cursor_reply)
        self.transcript.look = next_look(TOKEN_LOOKS, self.transcript.look, replies)
        self.keep()

    @property
    def place(self) -> At | None:
        """The token under the cursor, or the one that a paused reply waits with."""
        ref = self.transcript.cursor
        if not self.is_open:
            return None
        if self.pending and (leaf := self._chat.conversation.leaf) is not None:
            node = self._chat.conversation.nodes[leaf]
            return At(node, len(node.ids))
        if ref is None:
            return None
        node = self._chat.conversation.nodes[ref.node]
        return At(node, min(ref.index, len(node.ids) - 1))

    @property
    def pending(self) -> bool:
        """Whether that is the token which a paused reply waits with."""
        return self._behind and self._chat.paused is not None

    @property
    def home(self) -> Widget:
        """What has the keyboard: the line while one is typed, else the ribbon."""
        return self._input if self.typing is not None else self.ribbon

    @property
    def asked(self) -> list[Label]:
        """The keys of the line while one is typed."""
        return [Label("Enter", "accept"), Label(name_of("back"), "back")] if self.typing is not None else []

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_move(self, how: Move, times: int = 1) -> None:
        """Move the cursor; from the last token on to the one that a paused reply waits with."""
        for _ in range(times):
            was_pending, before = self.pending, self.transcript.cursor
            if not (was_pending and how == "left"):  # the token before the pending one has the cursor already
                self.transcript.move_cursor(how)
            stayed = before == self.transcript.cursor
            self._behind = stayed and (how in _ONWARDS or (was_pending and how not in _BACKWARDS))
            self._follow_cursor()
        self.follow()

    def action_half_page(self, how: Literal["up", "down"]) -> None:
        self.action_move(how, max(self.transcript.size.height // 2, 1))

    def action_choose(self, number: int) -> None:
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
            self.follow()
        else:
            self._fork_at(place, ids=[chosen])

    def action_type(self, what: Typing) -> None:
        self._input.placeholder = _PROMPTS[what]
        self.typing = what
        self.follow()
        self.screen.set_focus(self._input)  # not focus(): the very next key is for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.set_focus(self.ribbon)
        typing, text, place = self.typing, event.value, self.place
        self.typing = None
        if text and place is not None:
            if typing == "why":
                what = int(text[1:]) if text[:1] == "#" and text[1:].isdecimal() else unescape(text)
                self._chat.questions.explain_token(place.node, place.at, what, now=self.pending)
                self.view = "why"
            elif self.pending:
                self._chat.replies.force_text(unescape(text))
            else:
                self._fork_at(place, text=unescape(text))
        self.follow()

    def action_cut(self, paused: bool = False) -> None:
        """Draw on from before the token, with the same dice; `paused` waits there."""
        if self.pending:
            self._notify("the reply is already paused here")
        elif (place := self.place) is not None:
            self._fork_at(place, paused=paused)

    def action_ask(self, now: bool) -> None:
        """Ask the model for this position again, with its original settings or the current knobs."""
        self._inspect_token(now=now)
        self.follow()

    def action_show(self, view: View) -> None:
        """Show another view of the reply, or close it."""
        if self.is_open or self.enter():
            self._go_to("record" if self.view == view else view)
            if self.view == "what-if" and (place := self.place) is not None:
                self._chat.questions.score_reply(place.node)
            self.follow()

    def action_fork_there(self) -> None:
        """Fork, from what-if, at the first token that differs under the current knobs."""
        replay = self._chat.questions.scored
        if self.view != "what-if" or replay is None:
            return
        if replay.summary.first is None:
            self._notify("every token would stay the same", f"{name_of('tune')} turns the knobs")
            return
        number, index = replay.places[replay.summary.first]
        self._fork_at(At(self._chat.conversation.nodes[number], index))

    def action_pause(self) -> None:
        if self._chat.phase == "paused":
            self._chat.replies.resume()
        elif self._chat.busy:
            self._behind = True
            self._chat.replies.pause()
        else:
            finished = [span.node.finished for span in self._chat.conversation.find_reply()[-1:]]
            has_ended = any(end is not None and end.reason == "end" for end in finished)
            onward = "" if has_ended else f"{name_of('continue')} continues it; "
            self._notify("no reply is running", f"{onward}{name_of('cut-paused')} restarts from here, paused")
        self.follow()

    def action_step(self, unit: Unit) -> None:
        """Continue a paused reply for one unit."""
        if self._chat.phase == "paused":
            self._behind = True
            self._chat.replies.step(unit)
            self.follow()
        else:
            onward = f"{name_of('pause')} pauses; {name_of('cut-paused')} restarts from here, paused"
            self._notify("pause the reply before stepping", onward)

    async def action_bias(self, how: str) -> None:
        await self.app.run_action(f"bias({how!r})", self.screen)

    async def action_dialog(self, name: str) -> None:
        await self.app.run_action(f"dialog({name!r})", self.screen)

    # --- what the screen says ----------------------------------------------------------------------------------------

    def pointed(self) -> bool:
        """Follow the cursor, which a click may have moved; return whether a token has it, or soon will."""
        if self.transcript.cursor != self._at:
            self._behind = False
            self._follow_cursor()
        return self._at is not None or self._forked or self._branch is not None or self.pending

    def tune(self, tuning: bool) -> None:
        """Follow TUNE, which was opened or closed. While it is open, a record gives way to what the knobs make of the token."""
        before = self._before_tuning
        if tuning and before is None:
            self._before_tuning = self.view
            self._follow_knobs()
        elif not tuning and before is not None:
            self._before_tuning = None
            if self.view == "asked" and before != "asked":
                self._go_to("record")

    def heard(self, news: Sequence[Change]) -> None:
        if news and self.is_open:
            self._follow_chat(news)
            self.show()
        if any(isinstance(change, Answered) for change in news):
            for dialog in self.app.screen_stack:
                if isinstance(dialog, ShowsAnswers):
                    dialog.hear(self._chat.questions)

    def _follow_chat(self, news: Sequence[Change]) -> None:
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
        if self.is_open and self.transcript.cursor is None:  # a branch from the very first token has none for a moment
            self.transcript.open_cursor()
            self._at = self.transcript.cursor
        if any(isinstance(change, Answered) for change in news) and (failed := self._chat.questions.failed):
            self._notify(failed)
            self.view = "record"

    # --- what it shows -----------------------------------------------------------------------------------------------

    def show(self) -> None:
        look = self.transcript.look
        if self.is_open and look != "reading":
            line = ribbon_line(self.transcript.cursor_reply, look, self.transcript.cursor, self.ribbon.room)
            self.ribbon.show_lines([line, legend_line(look, self.transcript.cursor_reply)])

    def follow(self) -> None:
        """Show what is open, and post `Acted`."""
        typing = self.typing is not None
        self.display = self.is_open
        if typing != self._input.display:
            self._input.display = typing
            self._input.clear()
        self.show()
        self.post_message(self.Acted())

    def on_click(self, event: events.Click) -> None:
        look, ribbon = self.transcript.look, self.ribbon
        if event.button == 1 and event.widget is ribbon and event.y == 0 and look != "reading":
            ref = token_at(self.transcript.cursor_reply, look, event.x - MARGIN, ribbon.room)
            if ref is not None:
                self.transcript.set_cursor(ref)

    # --- what the panels show ----------------------------------------------------------------------------------------

    def shown(self) -> Shown | None:
        """Return the step to show; None while the model is asked for it, and without a token."""
        if (place := self.place) is None:
            return None
        chat, node, paused = self._chat, place.node, self._chat.paused
        now, start = chat.tuning.samplers(), node.start or self._begin_of(node)[0].start
        seed = start.seed if start is not None else None
        if self.pending and paused is not None:
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
        note = describe_recomputed(chat.tolerance) if asked.inspected.recomputed else ""
        return Shown(asked.inspected.token, "RECOMPUTED", time, note, knobs, asked.now, seed=seed, node=node.number)

    def round(self) -> ShownRound | None:
        """Return the round of drafting of the token; None if it was decoded alone."""
        if (place := self.place) is None:
            return None
        node, tokens, paused = place.node, place.node.tokens, self._chat.paused
        pending = paused.token if self.pending and paused is not None else None
        drafted = round_at(tokens, place.at, pending)
        if drafted is None:
            return None
        from termchat.tui.pages.drafts import ShownRound  # not needed before the first frame

        end, ending = drafted.begin + drafted.accepted, None
        if drafted.corrected is not None:
            ending = pending if end == len(tokens) else self._read_record(node, end)
        return ShownRound(drafted, place.at, self._begin_of(node)[1], ending, pending is not None, node.done)

    def _read_record(self, node: Node, at: int) -> Token:
        """Read the record of a token; one that was not kept, or not yet, is made from memory."""
        return self._chat.session.read_token(node, at) or from_columns(node, at, self._begin_of(node)[1] + at)

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
        """In TUNE, ask about the token with the current knobs, and again whenever one turns, if the model can be asked."""
        chat, place = self._chat, self.place
        if self._before_tuning is None or place is None or self.pending or chat.model is None:
            return
        explained = chat.questions.explained
        if self.view == "why" and explained is not None and "explain" in chat.offers:
            what = explained.text or explained.explained.explanation.id
            chat.questions.explain_token(place.node, place.at, what, now=True)
        elif self.view in ("record", "asked") and "inspect" in chat.offers:
            self._inspect_token(now=True)

    def _inspect_token(self, *, now: bool) -> None:
        if (place := self.place) is not None and not self.pending:
            self._chat.questions.inspect_token(place.node, place.at, now=now)
            self.view = "asked"

    def _go_to(self, view: View) -> None:
        """Show another view; a closed one is not asked again when knobs turn."""
        self.view = view
        self._chat.questions.forget_answers()

    def _fork_at(self, place: At, *, ids: list[int] | None = None, text: str = "", paused: bool = False) -> None:
        """Fork a reply before a token. While walks run the fork is one more of them, and the cursor stays."""
        self._go_to("record")
        walks = self._chat.walks
        walk = walks.shown.walk_of(place.node.number) if walks.shown is not None and walks.shown.running else None
        if walk is not None:
            walks.fork_reply(walk, place.at, ids or (), text=text, paused=paused)
        else:
            self._forked = True
            wish = Wish(then="wait" if paused else "go on")
            self._chat.forks.fork_reply(place.node, place.at, ids=ids or (), text=text, wish=wish)
        self.follow()

    def _notify(self, message: str, hint: str = "") -> None:
        self._chat.add_changes(Notice(message, hint))


class Legend(Slip):
    """What the colours of a token look mean, outside of token mode. `reply` is the one that the chat ends in."""

    def __init__(self, transcript: TranscriptView, reply: Callable[[], Sequence[Span]]) -> None:
        super().__init__(id="legend")
        self._transcript, self._reply = transcript, reply

    def on_mount(self) -> None:
        self.watch(self._transcript, "look", self.draw)

    def draw(self) -> None:
        look = self._transcript.look
        shows = look != "reading" and not self._transcript.pointing
        self.show_lines([legend_line(look, self._reply())] if look != "reading" and shows else [])
