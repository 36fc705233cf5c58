"""What people of other chats are used to: editing a message, making a reply again, copying, finding, going by turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widget import Widget

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.desk import Desk
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.token_bar import Tokens
from termchat.tui.transcript import TranscriptView

if TYPE_CHECKING:
    from termchat.tui.screen.asking import Asking
    from termchat.tui.screen.editing import Rewriting
    from termchat.tui.screen.searching import Searching
    from termchat.tui.terminal.clipboard import Clipboard


class Habits:
    """Stands between the chat's screen and them. What they take is made when it is first wanted: no frame waits for it.

    Args:
        do: does something to the chat and has the screen take in what came of it.
        tell: shows a notice.
    """

    def __init__(
        self,
        screen: Screen[None],
        chat: Chat,
        transcript: TranscriptView,
        tokens: Tokens,
        desk: Desk,
        do: Callable[[Callable[[], object]], None],
        tell: Callable[[Notice], None],
    ) -> None:
        self._screen, self._chat, self._transcript, self._tokens, self._desk = screen, chat, transcript, tokens, desk
        self._do, self._tell = do, tell
        self._palette: Palette | None = None
        self._asking: Asking | None = None
        self._rewriting: Rewriting | None = None
        self._searching: Searching | None = None
        self._sought = ""
        self._clipboard: Clipboard | None = None
        self._code: tuple[list[str], int] = ([], 0)

    # --- what they have in common ------------------------------------------------------------------------------------

    async def _open(self) -> Asking:
        """The line in which something is asked, and the strip above it."""
        from termchat.tui.screen.asking import Asking  # not needed before the first frame

        if self._asking is None:
            self._asking = Asking()
            await self._screen.mount(self._asking, before=self._desk)
            assert self._palette is not None, "painted before anybody can press a key"
            self._asking.paint_with(self._palette)
        return self._asking

    def paint_with(self, palette: Palette) -> None:
        """Draws in other colours from now on."""
        self._palette = palette
        if self._asking is not None:
            self._asking.paint_with(palette)

    @property
    def asked(self) -> list[Label]:
        """The keys of the line that is typed, or of the message that is edited; none where nothing is asked."""
        back = Label(name_of("back"), "back")
        if self._asking is None or not self._asking.is_open:
            edits = self._rewriting is not None and self._desk.composer.has_focus
            return [Label("Enter", "sends a new branch"), back, Label(name_of("edit"), "before")] if edits else []
        if self._searching is None:
            return [Label("Enter", "takes it"), back]
        return [Label("Enter ↓", "the next"), Label("↑", "the one before"), back, Label(name_of("find"), "stay there")]

    def back(self) -> bool:
        """Closes the innermost of them; False where none is open."""
        if self._searching is not None:
            self._end_search(stays=False)
        elif self._asking is not None and self._asking.is_open:
            self._asking.close()
            self._desk.take_keyboard()
        elif self._rewriting is not None:
            self._rewriting.end(returns=True)
            self._rewriting = None
            self.show()
        else:
            return False
        return True

    def focused(self, widget: Widget) -> None:
        """Whoever clicks elsewhere has found what there was to find."""
        if self._asking is None or not self._asking.is_open or widget is self._asking.field:
            return
        if self._searching is not None:
            self._searching.end(stays=True)
            self._searching = None
        else:
            self._asking.close()

    def heard(self) -> None:
        """The chat has changed."""
        if self._searching is not None:
            self._searching.grew()
        if self._rewriting is not None and self._rewriting.is_stale:
            self._rewriting.end(returns=False)
            self._rewriting = None
        self.show()

    def show(self) -> None:
        """Says what goes on, and how the next reply begins."""
        if self._asking is None:
            if self._chat.prefill:
                self._screen.call_next(self._open_and_show)
            return
        from termchat.tui.screen.asking import strip_line

        room = self._screen.size.width - 2
        lines = [self._rewriting.line(room)] if self._rewriting is not None else []
        if self._chat.prefill:
            lines.append(
                strip_line("the next reply begins with", self._chat.prefill, "/prefill changes it", room, "prefill")
            )
        self._asking.say(lines)

    async def _open_and_show(self) -> None:
        await self._open()
        self.show()

    # --- messages ----------------------------------------------------------------------------------------------------

    async def edit(self) -> None:
        """Opens a message to be written anew: a person's last, in token mode the reply of the token; again, the one before."""
        if self._rewriting is not None:
            self._rewriting.back()
            return
        from termchat.tui.screen.editing import Rewriting  # not needed before the first frame

        place = self._tokens.mode.place
        rewriting = Rewriting(self._chat, self._transcript, self._desk.composer, self._do, self.show)
        await self._open()
        if self._tokens.mode.open:
            self._tokens.leave()
        if not rewriting.begin(place.node.number if place is not None else None):
            self._tell(Notice("there is no message to edit yet"))
            return
        self._rewriting = rewriting
        self._screen.set_focus(self._desk.composer)  # not focus(): the very next key is for it
        self.show()

    def submitted(self, text: str) -> bool:
        """A text was sent; whether it was that of an earlier message."""
        rewriting, self._rewriting = self._rewriting, None
        if rewriting is None or rewriting.is_stale:
            return False
        rewriting.send(text)
        self.show()
        return True

    async def prefill(self) -> None:
        """Asks how the next reply begins."""
        from termchat.decoding.escapes import escape, unescape

        def entered(text: str) -> None:
            asking.close()
            self._desk.take_keyboard()
            self._do(lambda: self._chat.begin_with(unescape(text)))

        asking = await self._open()
        hint = "its first words, \\n is a line break"
        asking.ask("the next reply begins with", escape(self._chat.prefill), hint, entered=entered)

    def regenerate(self, *, same: bool = False) -> None:
        """Another reply to the last message; says so where the dice are not other ones."""
        seed = self._chat.tuning.seed
        spans = self._chat.conversation.reply()
        start = spans[0].node.start if spans else None
        before = len(self._chat.conversation.nodes)
        self._do(lambda: self._chat.regenerate(same=same))
        if not same and start is not None and start.seed == seed and len(self._chat.conversation.nodes) > before:
            self._tell(
                Notice(f"seed {seed} is set: the same dice as before", "only other knobs, or no seed, change the reply")
            )

    # --- copying -----------------------------------------------------------------------------------------------------

    def copy(self, text: str, what: str = "") -> None:
        """Copies a text to the clipboard: the app's own, the terminal's, and the system's."""
        from termchat.tui.terminal.clipboard import Clipboard, keep  # not needed before the first frame

        write = keep(self._screen.app, text)
        if self._clipboard is None and write is not None:
            self._clipboard = Clipboard(write, self._tell)
        if self._clipboard is not None:
            self._clipboard.copy(text, what)

    def copy_reply(self) -> None:
        """Copies the last reply as the model wrote it."""
        replies = self._replies()
        if replies:
            self.copy(replies[-1], "the last reply")
        else:
            self._tell(Notice("there is no reply to copy yet"))

    def copy_code(self) -> None:
        """Copies the last block of code; again, the one before it."""
        from termchat.tui.transcript.markdown.code import blocks  # not needed before the first frame

        found = [block for reply in self._replies() for block in blocks(reply)]
        codes = [block.code for block in found]
        if not found:
            self._tell(Notice("there is no block of code to copy"))
            return
        before, back = self._code
        back = back % len(codes) + 1 if before == codes else 1
        self._code = codes, back
        at = len(codes) - back
        language = f" ({found[at].language})" if found[at].language else ""
        self.copy(codes[at], f"code block {at + 1} of {len(codes)}{language}")

    def copy_message(self) -> None:
        """Copies the reply of the token under the cursor."""
        spans = self._transcript.cursor_reply
        if spans:
            self.copy("".join(span.node.text(span.count) for span in spans), "the reply")
        else:
            self.copy_reply()

    def _replies(self) -> list[str]:
        from termchat.tui.screen.editing import messages_of, text_of

        messages = messages_of(self._chat.conversation)
        return [text_of(said) for said in messages if said[0].node.role == "assistant"]

    # --- finding one's way -------------------------------------------------------------------------------------------

    async def find(self) -> None:
        """Asks what to find; once more, stays at what was found."""
        from termchat.tui.screen.searching import Searching  # not needed before the first frame

        if self._searching is not None:
            self._end_search(stays=True)
        elif self._chat.conversation.leaf is None:
            self._tell(Notice("there is nothing to find yet"))
        else:
            asking = await self._open()
            acted = self._tokens.show
            self._searching = Searching(self._transcript, self._tokens, asking, acted)
            self._searching.begin(self._sought)

    def _end_search(self, *, stays: bool) -> None:
        searching, self._searching = self._searching, None
        if searching is not None:
            self._sought = searching.query
            searching.end(stays=stays)
            self._desk.take_keyboard()

    def turn(self, by: int) -> None:
        """Goes to the beginning of the turn, or of the one before or after; in token mode of a reply."""
        if self._tokens.mode.open:
            self._tokens.action_move("turn_down" if by > 0 else "turn_up")
        else:
            self._transcript.jump(by)
