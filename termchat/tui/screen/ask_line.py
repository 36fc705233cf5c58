"""The line above the composer in which a text is asked for: what to find, how the next reply begins, another message to edit.

One of them is open at a time. What they take is made when it is first wanted: no frame waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from termchat.chat.changes import Notice
from termchat.tui.context import ScreenContext
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import name_of
from termchat.tui.themes.theme_file import Palette

if TYPE_CHECKING:
    from termchat.tui.screen.asking import Asking
    from termchat.tui.screen.editing import Rewriting
    from termchat.tui.screen.searching import Searching


class AskLine:
    def __init__(self, parts: ScreenContext) -> None:
        self._parts = parts
        self._asking: Asking | None = None
        self._rewriting: Rewriting | None = None
        self._searching: Searching | None = None
        self._sought = ""

    async def _open(self) -> Asking:
        from termchat.tui.screen.asking import Asking  # not needed before the first frame

        if self._asking is None:
            self._asking = Asking()
            await self._parts.mount(self._asking, before="BottomBar")
            self._asking.paint_with(self._parts.palette)
        return self._asking

    def paint_with(self, palette: Palette) -> None:
        if self._asking is not None:
            self._asking.paint_with(palette)

    @property
    def asked(self) -> list[Label]:
        """The keys of the line that is typed, or of the message that is edited; none where nothing is asked."""
        back = Label(name_of("back"), "back")
        if self._asking is None or not self._asking.is_open:
            edits = self._rewriting is not None and self._parts.focused is self._parts.composer
            return [Label("Enter", "apply on a new branch"), back, Label(name_of("edit"), "earlier")] if edits else []
        if self._searching is None:
            return [Label("Enter", "accept"), back]
        return [Label("↑ ↓", "move"), Label("Enter", "stay there"), back]

    def back(self) -> bool:
        """Closes the innermost of them; False if none is open."""
        if self._searching is not None:
            self._end_search(stays=False)
        elif self._asking is not None and self._asking.is_open:
            self._asking.close()
            self._parts.take_keyboard()
        elif self._rewriting is not None:
            self._rewriting.end(returns=True)
            self._rewriting = None
            self.show()
        else:
            return False
        return True

    def focused(self, widget: Widget) -> None:
        """A click elsewhere closes the line; a search stays at what it found."""
        if self._asking is None or not self._asking.is_open or widget is self._asking.field:
            return
        if self._searching is not None:
            self._searching.end(stays=True)
            self._searching = None
        else:
            self._asking.close()

    def heard(self) -> None:
        """After a change of the chat; another chat ends the edit of a message."""
        if self._searching is not None:
            self._searching.grew()
        if self._rewriting is not None and self._rewriting.is_stale:
            self._rewriting.end(returns=False)
            self._rewriting = None
        self.show()

    def show(self) -> None:
        if self._asking is None:
            if self._parts.chat.prefill is not None:
                self._parts.call_next(self._open_and_show)
            return
        from termchat.tui.screen.asking import strip_line

        room = self._parts.size.width - 2
        lines = [self._rewriting.line(room)] if self._rewriting is not None else []
        if (text := self._parts.chat.prefill) is not None:
            word = "next reply starts with" if text else "next reply starts freely"
            lines.append(strip_line(word, text, "/prefill changes it", room, "prefill"))
        self._asking.say(lines)

    async def _open_and_show(self) -> None:
        await self._open()
        self.show()

    # --- who asks ----------------------------------------------------------------------------------------------------

    async def edit(self, node: int | None = None) -> None:
        """Opens a message for editing: the one that a node is part of; without one your last, in token mode the reply under the
        cursor; again, the previous message."""
        if self._rewriting is not None:
            if node is None:
                self._rewriting.back()
            else:
                self._rewriting.open(node)
            return
        from termchat.tui.screen.editing import Rewriting  # not needed before the first frame

        place = self._parts.tokens.mode.place
        rewriting = Rewriting(self._parts, self.show)
        await self._open()
        if self._parts.tokens.mode.open:
            self._parts.tokens.leave()
        if node is None and place is not None:
            node = place.node.number
        if not rewriting.begin(node):
            self._parts.tell(Notice("no message to edit yet"))
            return
        self._rewriting = rewriting
        self._parts.set_focus(self._parts.composer)  # not focus(): the very next key is for it
        self.show()

    def submitted(self, text: str) -> bool:
        """Sends a text as the new version of the edited message; False if none is being edited."""
        rewriting, self._rewriting = self._rewriting, None
        if rewriting is None or rewriting.is_stale:
            return False
        rewriting.send(text)
        self.show()
        return True

    async def prefill(self) -> None:
        from termchat.decoding.escapes import escape, unescape

        def entered(text: str) -> None:
            asking.close()
            self._parts.take_keyboard()
            self._parts.chat.begin_with(unescape(text))

        asking = await self._open()
        hint = "first words of the reply; \\n is a line break"
        asking.ask("next reply starts with", escape(self._parts.chat.beginning), hint, entered=entered)

    async def find(self) -> None:
        """Opens the search; pressed again, goes to the next hit."""
        from termchat.tui.screen.searching import Searching  # not needed before the first frame

        if self._searching is not None:
            self._searching.step(1)
        elif self._parts.chat.conversation.leaf is None:
            self._parts.tell(Notice("the chat is empty"))
        else:
            asking = await self._open()
            self._searching = Searching(self._parts, asking)
            self._searching.begin(self._sought, lambda _: self._end_search(stays=True))

    def _end_search(self, *, stays: bool) -> None:
        searching, self._searching = self._searching, None
        if searching is not None:
            self._sought = searching.query
            searching.end(stays=stays)
            self._parts.take_keyboard()
