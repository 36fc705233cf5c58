"""What is asked above the composer: what to find, how the next reply begins, another message to edit.

One of them is open at a time. What they take is made when it is first wanted: no frame waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.tui.context import ScreenContext
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import name_of

if TYPE_CHECKING:
    from termchat.tui.screen.asking import AskedField, Asking
    from termchat.tui.screen.editing import Rewriting
    from termchat.tui.screen.searching import Searching


class AskActions(ScreenContext):
    """The part of the chat's screen that asks for a text in a line above the composer."""

    _asking: Asking | None = None
    _rewriting: Rewriting | None = None
    _searching: Searching | None = None
    _query = ""
    """The text that was searched for last."""

    async def _open_asking(self) -> Asking:
        from termchat.tui.screen.asking import Asking  # not needed before the first frame

        if self._asking is None:
            self._asking = Asking()
            await self.mount(self._asking, before="BottomBar")
            self._asking.paint_with(self.palette)
        return self._asking

    @property
    def _asks(self) -> bool:
        """Whether the line is open."""
        return self._asking is not None and self._asking.is_open

    @property
    def asked_keys(self) -> list[Label]:
        """The keys of the line that is typed, or of the message that is edited; none where nothing is asked."""
        back = Label(name_of("back"), "back")
        if not self._asks:
            edits = self._rewriting is not None and self.focused is self.composer
            return [Label("Enter", "apply on a new branch"), back, Label(name_of("edit"), "earlier")] if edits else []
        if self._searching is None:
            return [Label("Enter", "accept"), back]
        return [Label("↑ ↓", "move"), Label("Enter", "stay there"), back]

    def close_asked(self) -> bool:
        """Close the innermost of them; False if none is open."""
        if self._searching is not None:
            self._end_search(stays=False)
        elif self._asking is not None and self._asking.is_open:
            self._asking.close()
            self.take_keyboard()
        elif self._rewriting is not None:
            self._rewriting.end(returns=True)
            self._rewriting = None
            self.show_asked()
        else:
            return False
        return True

    def leave_asked(self, widget: Widget) -> None:
        """Close the line if another widget has got the keyboard, as by a click; a search stays at its hit."""
        if self._asking is None or not self._asking.is_open or widget is self._asking.field:
            return
        if self._searching is not None:
            self._searching.end(stays=True)
            self._searching = None
        else:
            self._asking.close()

    def follow_asked(self) -> None:
        """Follow a change of the chat; another chat ends the edit of a message."""
        if self._searching is not None:
            self._searching.grew()
        if self._rewriting is not None and self._rewriting.is_stale:
            self._rewriting.end(returns=False)
            self._rewriting = None
        self.show_asked()

    def show_asked(self) -> None:
        if self._asking is None:
            if self.chat.prefill is not None:
                self.call_next(self._open_and_show)
            return
        from termchat.tui.screen.asking import strip_line

        room = self.size.width - 2
        lines = [self._rewriting.line(room)] if self._rewriting is not None else []
        if (text := self.chat.prefill) is not None:
            word = "next reply starts with" if text else "next reply starts freely"
            lines.append(strip_line(word, text, "/prefill changes it", room, "prefill"))
        self._asking.strip.show_lines(lines)

    async def _open_and_show(self) -> None:
        await self._open_asking()
        self.show_asked()

    # --- editing -----------------------------------------------------------------------------------------------------

    async def action_edit(self, node: int | None = None) -> None:
        """Open a message for editing: the one that a node is part of; without one your last, in token mode the reply under the
        cursor; again, the previous message."""
        if self._rewriting is not None:
            if node is None:
                self._rewriting.back()
            else:
                self._rewriting.open(node)
            return
        from termchat.tui.screen.editing import Rewriting  # not needed before the first frame

        place = self.tokens.mode.place
        rewriting = Rewriting(self, self.show_asked)
        await self._open_asking()
        if self.tokens.mode.open:
            self.tokens.leave()
        if node is None and place is not None:
            node = place.node.number
        if not rewriting.begin(node):
            self.tell(Notice("no message to edit yet"))
            return
        self._rewriting = rewriting
        self.set_focus(self.composer)  # not focus(): the very next key is for it
        self.show_asked()

    def send_edited(self, text: str) -> bool:
        """Send a text as the new version of the edited message; False if none is being edited."""
        rewriting, self._rewriting = self._rewriting, None
        if rewriting is None or rewriting.is_stale:
            return False
        rewriting.send(text)
        self.show_asked()
        return True

    # --- the line ----------------------------------------------------------------------------------------------------

    async def action_prefill(self) -> None:
        from termchat.decoding.escapes import escape

        asking = await self._open_asking()
        hint = "first words of the reply; \\n is a line break"
        asking.ask("next reply starts with", escape(self.chat.beginning), hint)

    async def action_find(self) -> None:
        """Open the search; pressed again, go to the next hit."""
        from termchat.tui.screen.searching import Searching  # not needed before the first frame

        if self._searching is not None:
            self._searching.step(1)
        elif self.chat.conversation.leaf is None:
            self.tell(Notice("the chat is empty"))
        else:
            asking = await self._open_asking()
            self._searching = Searching(self.tokens, asking)
            self._searching.begin(self._query)

    def _end_search(self, *, stays: bool) -> None:
        searching, self._searching = self._searching, None
        if searching is not None:
            self._query = searching.query
            searching.end(stays=stays)
            self.take_keyboard()

    @on(Input.Changed, "AskedField")
    def search_typed(self, event: Input.Changed) -> None:
        if self._searching is not None:
            self._searching.look_for(event.value)

    @on(Input.Submitted, "AskedField")
    def accept_asked(self, event: Input.Submitted) -> None:
        from termchat.decoding.escapes import unescape

        if self._searching is not None:
            self._end_search(stays=True)
        elif self._asking is not None and self._asking.is_open:
            self._asking.close()
            self.take_keyboard()
            self.chat.begin_with(unescape(event.value))

    def on_asked_field_walked(self, event: AskedField.Walked) -> None:
        if self._searching is not None:
            self._searching.step(event.by)
