"""What the keys of the walks view do, and when the view is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from termchat.chat.changes import Change, Notice, PathChanged, WalksChanged, WalksGrew
from termchat.chat.reply_group import ReplyGroup
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.screen.parts import Parts
from termchat.tui.transcript import TokenRef
from termchat.tui.walks.arrangement import wanted_width
from termchat.tui.walks.walk_scene import TEXT_PAGE
from termchat.tui.walks.walks_view import WalksView

_FAR = 10**6
"""Lines, more than any text has."""


class Walking:
    """While a group is shown the view stands in the place of the transcript, and has the keyboard unless a person writes."""

    def __init__(self, parts: Parts, view: WalksView, open_tune: Callable[[Tune], None]) -> None:
        self._parts, self._view, self._open_tune = parts, view, open_tune
        self._chat, self._tokens, self._desk = parts.chat, parts.tokens, parts.desk

    @property
    def open(self) -> bool:
        return self._chat.walks.shown is not None

    @property
    def has_keyboard(self) -> bool:
        """Whether its keys work now."""
        return self._parts.screen.focused is self._view.head

    @property
    def words(self) -> Mapping[str, str]:
        """The keys that do something else on the page that is shown, by their ids, and what."""
        return self._view.words

    # --- what the chat says ------------------------------------------------------------------------------------------

    def heard(self, changes: Sequence[Change]) -> None:
        if any(isinstance(change, WalksChanged | PathChanged) for change in changes):
            self.show()
        elif any(isinstance(change, WalksGrew) for change in changes):
            self._view.grew()
        elif self.open:
            self._view.follow()

    def show(self) -> None:
        """Shows the chat's group as it is now, or closes the view where there is none."""
        was_open, group = self._view.group is not None, self._chat.walks.shown
        if group is None and not was_open:
            return
        self._view.show(group)
        self.look_at()
        self._parts.drawer.leave(wanted_width(len(group.nodes)) if group is not None else 0)
        if (group is not None) != was_open:
            self._desk.under = self._view.head if group is not None else None
            self._desk.take_keyboard()

    def look_at(self) -> None:
        """Token mode is about the walk under the cursor."""
        mode = self._tokens.mode
        was_open = mode.open
        mode.look_at(self._view.text if self.open else None)
        if was_open != mode.open:
            self._tokens.follow()

    def version(self, by: int) -> bool:
        """Goes to another walk; False where none are shown."""
        if self.open:
            self._go(by)
        return self.open

    def reopen(self, number: int | None) -> None:
        """Shows a group of the chat again: the one with that number, or of the last reply that belongs to one (None)."""
        path = self._chat.conversation.find_path()
        grouped = (span.node.group for span in reversed(path) if span.node.group is not None)
        last = next(grouped, None)
        if number is None and last is None:
            self._parts.tell(Notice("this branch has no walks", f"{name_of('walks')} starts some"))
        else:
            self._parts.do(lambda: self._chat.walks.open(number or (last.number if last is not None else 0)))

    def share_look(self) -> None:
        """All walks have the look that the one under the cursor has."""
        if self.open:
            self._view.look = self._tokens.transcript.look

    # --- keys --------------------------------------------------------------------------------------------------------

    def act(self, what: str, *arguments: object) -> None:
        if self.open and not self._view.act(what, *arguments):
            self._DOES[what](self, *arguments)

    def back(self) -> bool:
        """Goes from the composer to the walks, ends those that run, or closes the view; False where there is none."""
        if not self.open:
            return False
        walks = self._chat.walks
        if not self.has_keyboard:
            self._desk.take_keyboard()
        elif walks.running:
            self._parts.do(self._chat.replies.stop)
        else:
            self._parts.do(walks.leave_group)
        return True

    def _choose(self, number: int) -> None:
        """The walk with that number, from 1."""
        group = self._chat.walks.shown
        if group is not None and number - 1 in group.nodes:
            self._select(group, number - 1)
        elif group is not None:
            self._parts.tell(Notice(f"there are {len(group.nodes)} walks"))

    def _go(self, by: int) -> None:
        group, walks = self._chat.walks.shown, self._view.walks
        if group is not None and walks:
            self._select(group, walks[(walks.index(self._view.cursor) + by) % len(walks)])

    def _select(self, group: ReplyGroup, walk: int) -> None:
        """In token mode the cursor goes to the same step of the other walk, or to its last one."""
        tokens, ref = self._tokens, self._tokens.transcript.cursor
        if not tokens.mode.open or ref is None:
            self._parts.do(lambda: self._chat.walks.select_reply(walk))
            return
        step = group.step_of(ref.node, ref.index)
        tokens.leave()
        self._parts.do(lambda: self._chat.walks.select_reply(walk))
        if tokens.enter() and (place := group.place_of(walk, step)) is not None:
            tokens.transcript.set_cursor(TokenRef(*place))
            tokens.follow()

    def _line(self, by: int) -> None:
        if self._view.is_list and self._view.page == TEXT_PAGE:
            self._go(by)
        else:
            self._view.scroll_by(by)

    def _jump(self, by: int) -> None:
        self._view.scroll_by(by * _FAR)

    def _keep(self) -> None:
        self._parts.do(lambda: self._chat.walks.keep_reply(self._view.cursor))

    def _keep_all(self) -> None:
        self._parts.do(self._chat.walks.keep_all)

    def _stop(self) -> None:
        self._parts.do(lambda: self._chat.replies.stop(self._view.cursor))

    def _pause(self, one: bool = False) -> None:
        replies, group = self._chat.replies, self._chat.walks.shown
        if group is None or replies.run is None:
            self._parts.tell(Notice("no walk is running"))
        elif one:
            walk = self._view.cursor
            self._parts.do(lambda: (replies.resume if walk in group.paused else replies.pause)(walk))
        else:
            waits = all(walk in group.paused for walk in group.running)
            self._parts.do(replies.resume if waits else replies.pause)

    def _step(self, one: bool = False) -> None:
        group = self._chat.walks.shown
        if group is None or not group.paused:
            self._parts.tell(Notice("pause the walks before stepping", f"{name_of('walk-pause')} pauses them"))
        else:
            self._parts.do(lambda: self._chat.replies.step("token", self._view.cursor if one else None))

    def _tune(self) -> None:
        """TUNE with the knobs of this walk."""
        run, walk = self._chat.replies.run, self._view.cursor
        if run is not None and run.group is self._chat.walks.shown and walk in run.group.running:
            self._open_tune(Tune(self._chat, run, walk))
        else:
            self._parts.tell(
                Notice(
                    "this walk has ended",
                    f"{name_of('tune')} turns the knobs of the running walks, or of the next reply",
                )
            )

    def _fork(self) -> None:
        """By way of token mode, where a candidate is chosen."""
        if self._tokens.enter():
            self._parts.tell(Notice("choose the token to fork at", "1-9 takes a candidate, x redraws from there"))

    def _turn(self, by: int) -> None:
        self._view.turn(by)

    def _page(self, name: str) -> None:
        self._view.turn_to(name)

    _DOES: dict[str, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        "choose": _choose,
        "go": _go,
        "line": _line,
        "jump": _jump,
        "keep": _keep,
        "keep_all": _keep_all,
        "stop": _stop,
        "pause": _pause,
        "step": _step,
        "tune": _tune,
        "fork": _fork,
        "turn": _turn,
        "page": _page,
    }
