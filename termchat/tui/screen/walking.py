"""What the keys of the walks view do, and when the view is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from termchat.chat.changes import Change, Notice, PathChanged, WalksChanged, WalksGrew
from termchat.chat.reply_group import ReplyGroup
from termchat.tui.context import ScreenContext
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.shown_group import TEXT_PAGE
from termchat.tui.pages.tune import Tune
from termchat.tui.pages.walks_view import WalksView, wanted_width
from termchat.tui.transcript import TokenRef

_FAR = 10**6
"""Lines, more than any text has."""


class Walking:
    """The keys of a group. While one is shown its view replaces the transcript, and has the keyboard unless the composer
    does."""

    def __init__(self, parts: ScreenContext, view: WalksView) -> None:
        self._parts, self._view = parts, view
        self._chat, self._tokens = parts.chat, parts.tokens

    @property
    def open(self) -> bool:
        return self._chat.walks.shown is not None

    @property
    def has_keyboard(self) -> bool:
        """Whether its keys work now."""
        return self._parts.focused is self._view.head

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
        """Show the chat's group as it is now, or close the view."""
        was_open, group = self._view.group is not None, self._chat.walks.shown
        if group is None and not was_open:
            return
        self._view.show(group)
        self.look_at()
        self._parts.panels.make_room(wanted_width(len(group.nodes)) if group is not None else 0)
        if (group is not None) != was_open:
            self._parts.under = self._view.head if group is not None else None
            self._parts.take_keyboard()

    def look_at(self) -> None:
        """Token mode is about the walk under the cursor."""
        mode = self._tokens.mode
        was_open = mode.open
        mode.look_at(self._view.text if self.open else None)
        if was_open != mode.open:
            self._tokens.follow()

    def version(self, by: int) -> bool:
        """Go to another walk; False where none are shown."""
        if self.open:
            self.do_go(by)
        return self.open

    def reopen(self, number: int | None) -> None:
        """Show a group of the chat again: the one with that number, or of the last reply that belongs to one (None)."""
        path = self._chat.conversation.find_path()
        grouped = (span.node.group for span in reversed(path) if span.node.group is not None)
        last = next(grouped, None)
        if number is None and last is None:
            self._parts.tell(Notice("this branch has no walks", f"{name_of('walks')} starts some"))
        else:
            self._chat.walks.open(number or (last.number if last is not None else 0))

    def share_look(self) -> None:
        """All walks have the look that the one under the cursor has."""
        if self.open:
            self._view.look = self._tokens.transcript.look

    # --- keys --------------------------------------------------------------------------------------------------------

    def act(self, what: str, *arguments: object) -> None:
        """Run the action of a key: by its page, else by the method `do_NAME`."""
        if self.open and not self._view.act(what, *arguments):
            getattr(self, f"do_{what}")(*arguments)

    def back(self) -> bool:
        """Move from the composer to the walks, end running ones, or close the view; False if none is open."""
        if not self.open:
            return False
        walks = self._chat.walks
        if not self.has_keyboard:
            self._parts.take_keyboard()
        elif walks.running:
            self._chat.replies.stop()
        else:
            walks.leave_group()
        return True

    def do_choose(self, number: int) -> None:
        """The walk with that number, from 1."""
        group = self._chat.walks.shown
        if group is not None and number - 1 in group.nodes:
            self._select_walk(group, number - 1)
        elif group is not None:
            self._parts.tell(Notice(f"there are {len(group.nodes)} walks"))

    def do_go(self, by: int) -> None:
        group, walks = self._chat.walks.shown, self._view.walks
        if group is not None and walks:
            self._select_walk(group, walks[(walks.index(self._view.cursor) + by) % len(walks)])

    def _select_walk(self, group: ReplyGroup, walk: int) -> None:
        """In token mode the cursor goes to the same step of the other walk, or to its last one."""
        tokens, ref = self._tokens, self._tokens.transcript.cursor
        if not tokens.mode.open or ref is None:
            self._chat.walks.select_reply(walk)
            return
        step = group.step_of(ref.node, ref.index)
        tokens.leave()
        self._chat.walks.select_reply(walk)
        self._parts.tick()
        if tokens.enter() and (place := group.place_of(walk, step)) is not None:
            tokens.transcript.set_cursor(TokenRef(*place))
            tokens.follow()

    def do_line(self, by: int) -> None:
        if self._view.is_list and self._view.page == TEXT_PAGE:
            self.do_go(by)
        else:
            self._view.scroll_by(by)

    def do_jump(self, by: int) -> None:
        self._view.scroll_by(by * _FAR)

    def do_keep(self) -> None:
        self._chat.walks.keep_reply(self._view.cursor)

    def do_keep_all(self) -> None:
        self._chat.walks.keep_all()

    def do_stop(self) -> None:
        self._chat.replies.stop(self._view.cursor)

    def do_pause(self, one: bool = False) -> None:
        replies, group = self._chat.replies, self._chat.walks.shown
        if group is None or replies.run is None:
            self._parts.tell(Notice("no walk is running"))
        elif one:
            walk = self._view.cursor
            (replies.resume if walk in group.paused else replies.pause)(walk)
        else:
            waits = all(walk in group.paused for walk in group.running)
            (replies.resume if waits else replies.pause)()

    def do_step(self, one: bool = False) -> None:
        group = self._chat.walks.shown
        if group is None or not group.paused:
            self._parts.tell(Notice("pause the walks before stepping", f"{name_of('walk-pause')} pauses them"))
        else:
            self._chat.replies.step("token", self._view.cursor if one else None)

    def do_tune(self) -> None:
        """TUNE with the knobs of this walk."""
        run, walk = self._chat.replies.run, self._view.cursor
        if run is not None and run.group is self._chat.walks.shown and walk in run.group.running:
            self._parts.open_tune(Tune(self._chat, run, walk))
        else:
            self._parts.tell(
                Notice(
                    "this walk has ended",
                    f"{name_of('tune')} turns the knobs of the running walks, or of the next reply",
                )
            )

    def do_fork(self) -> None:
        """By way of token mode, where a candidate is chosen."""
        if self._tokens.enter():
            self._parts.tell(Notice("choose the token to fork at", "1-9 takes a candidate, x redraws from there"))

    def do_turn(self, by: int) -> None:
        self._view.turn(by)

    def do_page(self, name: str) -> None:
        self._view.turn_to(name)
