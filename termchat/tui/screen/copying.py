"""Copying the last reply, its thoughts or code, or the reply under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termchat.chat.changes import Notice
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.tui.screen.parts import Parts

if TYPE_CHECKING:
    from termchat.tui.terminal.clipboard import Clipboard


class Copying:
    """Copies to the clipboard: the app's own, the terminal's, and the system's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clipboard: Clipboard | None = None
        self._code: tuple[list[str], int] = ([], 0)
        """The blocks of code that were there when one was copied last, and which one that was, from the end."""

    def copy(self, text: str, what: str = "") -> None:
        from termchat.tui.terminal.clipboard import Clipboard, keep  # not needed before the first frame

        write = keep(self._parts.screen.app, text)
        if self._clipboard is None and write is not None:
            self._clipboard = Clipboard(write, self._parts.tell)
        if self._clipboard is not None:
            self._clipboard.copy(text, what)

    def copy_reply(self) -> None:
        replies = self._replies()
        if replies:
            self.copy(replies[-1], "the last reply")
        else:
            self._parts.tell(Notice("no reply to copy yet"))

    def copy_json(self) -> None:
        """The last reply as JSON with a line for each value."""
        shown = self._json()
        if shown is not None:
            self.copy(shown, "the last reply as JSON")

    def show_json(self) -> None:
        from termchat.tui.constraint.json_view import JsonView  # rarely needed

        shown = self._json()
        if shown is not None:
            self._parts.open(JsonView(self._parts.palette(), shown))

    def _json(self) -> str | None:
        from termchat.decoding.verdict import format_json

        replies = self._replies()
        shown = format_json(replies[-1]) if replies else None
        if shown is None:
            self._parts.tell(Notice("the last reply is not JSON" if replies else "no reply yet"))
        return shown

    def copy_thoughts(self) -> None:
        thoughts = thoughts_of(self._parts.chat.conversation.find_reply())
        if thoughts is not None:
            self.copy(thoughts.text, "the thoughts")
        else:
            self._parts.tell(Notice("the last reply has no thoughts"))

    def copy_code(self) -> None:
        """The last code block; called again, the one before it."""
        from termchat.tui.transcript.markdown.code import blocks  # not needed before the first frame

        found = [block for reply in self._replies() for block in blocks(reply)]
        codes = [block.code for block in found]
        if not found:
            self._parts.tell(Notice("no code block to copy"))
            return
        before, back = self._code
        back = back % len(codes) + 1 if before == codes else 1
        self._code = codes, back
        at = len(codes) - back
        language = f" ({found[at].language})" if found[at].language else ""
        self.copy(codes[at], f"code block {at + 1} of {len(codes)}{language}")

    def copy_message(self) -> None:
        """Copies the reply under the cursor, else the last one."""
        spans = self._parts.tokens.transcript.cursor_reply
        if spans:
            self.copy(answer_of(spans), "the reply")
        else:
            self.copy_reply()

    def _replies(self) -> list[str]:
        from termchat.tui.screen.editing import messages_of

        messages = messages_of(self._parts.chat.conversation)
        return [answer_of(said) for said in messages if said[0].node.role == "assistant"]
