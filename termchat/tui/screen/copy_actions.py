"""Copying the last reply, its thoughts or code, or the reply under the cursor: to the app's clipboard, the terminal's, and
the system's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.tui.context import ScreenContext

if TYPE_CHECKING:
    from termchat.tui.terminal.clipboard import Clipboard


class CopyActions(ScreenContext):
    """The part of the chat's screen that copies."""

    _clipboard: Clipboard | None = None
    _code: tuple[list[str], int] = ([], 0)
    """The blocks of code that were there when one was copied last, and which one that was, from the end."""

    def copy_to_clipboard(self, text: str, what: str = "") -> None:
        from termchat.tui.terminal.clipboard import Clipboard  # not needed before the first frame

        self._clipboard = self._clipboard or Clipboard(self.app, self.tell)
        self._clipboard.copy(text, what)

    def action_copy_reply(self) -> None:
        if replies := self._replies():
            self.copy_to_clipboard(replies[-1], "the last reply")
        else:
            self.tell(Notice("no reply to copy yet"))

    def action_copy_message(self) -> None:
        """Copy the reply under the cursor, else the last one."""
        if spans := self.tokens.transcript.cursor_reply:
            self.copy_to_clipboard(answer_of(spans), "the reply")
        else:
            self.action_copy_reply()

    def action_copy_thoughts(self) -> None:
        thoughts = thoughts_of(self.chat.conversation.find_reply())
        if thoughts is not None:
            self.copy_to_clipboard(thoughts.text, "the thoughts")
        else:
            self.tell(Notice("the last reply has no thoughts"))

    def action_copy_code(self) -> None:
        """Copy the last code block; called again, the one before it."""
        from termchat.tui.transcript.markdown.code import blocks  # not needed before the first frame

        there = [block for reply in self._replies() for block in blocks(reply)]
        codes = [block.code for block in there]
        if not there:
            self.tell(Notice("no code block to copy"))
            return
        before, back = self._code
        back = back % len(codes) + 1 if before == codes else 1
        self._code = codes, back
        at = len(codes) - back
        language = f" ({there[at].language})" if there[at].language else ""
        self.copy_to_clipboard(codes[at], f"code block {at + 1} of {len(codes)}{language}")

    def action_copy_json(self) -> None:
        """Copy the last reply as JSON with a line for each value."""
        if (text := self._json()) is not None:
            self.copy_to_clipboard(text, "the last reply as JSON")

    def action_pretty_json(self) -> None:
        from termchat.tui.draw.list_dialog import ReadDialog  # rarely needed
        from termchat.tui.draw.marks import prose

        if (text := self._json()) is not None:
            rows = text.split("\n")
            title = "The last reply as JSON"
            self.open(
                ReadDialog(self.palette, title, lambda width: [line for row in rows for line in prose(row, width)])
            )

    def _json(self) -> str | None:
        from termchat.decoding.verdict import format_json

        replies = self._replies()
        text = format_json(replies[-1]) if replies else None
        if text is None:
            self.tell(Notice("the last reply is not JSON" if replies else "no reply yet"))
        return text

    def _replies(self) -> list[str]:
        from termchat.tui.screen.editing import messages_of

        messages = messages_of(self.chat.conversation)
        return [answer_of(message) for message in messages if message[0].node.role == "assistant"]
