"""A text field in which a long paste is a label: it is drawn, moved over and deleted as one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location

from termchat.chat.changes import Notice
from termchat.text import sanitize
from termchat.tui.attachments import LARGEST, Attachments, drawn, is_editable, is_long
from termchat.tui.keys.tables import name_of

_LABEL = Style(italic=True, underline=True)


class LabelledArea(TextArea):
    """What was pasted stays as it is, and is drawn with marks for foreign characters; `attachments` are the long pastes.

    `text` has a label for each of them, `message` is the whole.
    """

    @dataclass
    class Refused(Message):
        """Something cannot be done, and why."""

        notice: Notice

    def __init__(self, text: str = "", *, placeholder: str = "") -> None:
        self._joined: str | None = None
        super().__init__(text, placeholder=placeholder, show_line_numbers=False, highlight_cursor_line=False)
        self.attachments = Attachments()

    @property
    def text(self) -> str:
        """All that is written, attachments as labels. Joined once for each text: every line that is drawn asks for it."""
        if self._joined is None:
            self._joined = self.document.text
        return self._joined

    @text.setter
    def text(self, value: str) -> None:
        self.load_text(value)

    def load_text(self, text: str) -> None:
        """Another text, which cannot be undone."""
        super().load_text(text)
        self._joined = None

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        super()._undo_batch(edits)
        self._joined = None

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        super()._redo_batch(edits)
        self._joined = None

    @property
    def message(self) -> str:
        """All that is written, attachments too."""
        return self.attachments.unfold(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is written."""
        return self.document.line_count == 1 and not self.document.get_line(0)

    @property
    def selected_text(self) -> str:
        """What is selected, attachments too."""
        return self.attachments.unfold(super().selected_text)

    # --- labels ------------------------------------------------------------------------------------------------------

    def on_paste(self, event: events.Paste) -> None:
        """Makes a long text an attachment; a short one is written."""
        if not is_long(event.text):
            return
        event.prevent_default()
        if len(event.text) > LARGEST:
            self._refuse(f"the paste has {len(event.text):,} characters", f"at most {LARGEST:,} can be attached")
            return
        label = self.attachments.hold(event.text, self.text)
        self.replace(label, *sorted(self.selection), maintain_selection_offset=False)

    def action_unfold(self) -> None:
        """Puts the text of the attachment at the cursor, else of the last one, in the place of its label."""
        row, column = self.cursor_location
        at = next((span for span in self._spans(row) if span[0] <= column <= span[1]), None)
        if at is None:
            rows = (row for row in range(self.document.line_count - 1, -1, -1) if self._spans(row))
            row = next(rows, -1)
            if row < 0:
                return
            at = self._spans(row)[-1]
        held = self.attachments.held(self.document.get_line(row)[slice(*at)])
        if not is_editable(held):
            hint = f"{name_of('editor')} has it changed in your editor"
            self._refuse(f"{len(held):,} characters are too many to be shown here", hint)
            return
        self.replace(held, (row, at[0]), (row, at[1]), maintain_selection_offset=False)

    def _refuse(self, message: str, hint: str) -> None:
        self.post_message(self.Refused(Notice(message, hint, "warning")))

    def _spans(self, row: int) -> list[tuple[int, int]]:
        return self.attachments.spans(self.document.get_line(row))

    def _outside(self, location: Location, *, after: bool) -> Location:
        """The place itself, or the end of the label in which it lies. What deletes a line asks for the one below it, which
        the last does not have."""
        row, column = location
        if row >= self.document.line_count:
            return location
        for begin, end in self._spans(row):
            if begin < column < end:
                return row, end if after else begin
        return location

    def get_cursor_left_location(self) -> Location:
        """A label is one step."""
        return self._outside(super().get_cursor_left_location(), after=False)

    def get_cursor_right_location(self) -> Location:
        """A label is one step."""
        return self._outside(super().get_cursor_right_location(), after=True)

    def edit(self, edit: Edit) -> EditResult:
        """What is taken away takes labels as a whole."""
        begin, end = sorted((edit.from_location, edit.to_location))
        wider = self._outside(begin, after=begin == end), self._outside(end, after=True)
        if wider != (begin, end):
            edit = Edit(edit.text, *wider, edit.maintain_selection_offset)
        result = super().edit(edit)
        self._joined = None
        return result

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn: a foreign character is one mark, so that the cursor stays where it is."""
        line = self.document.get_line(line_index)
        shown = drawn(line)
        if sanitize(shown) is not shown:
            shown = "".join(map(_mark, shown))
        text = Text(shown, end="", no_wrap=True)
        for begin, end in self.attachments.spans(line):
            text.stylize(_LABEL, begin, end)
        return text


def _mark(char: str) -> str:
    shown = sanitize(char)
    return shown if len(shown) == 1 else "\N{REPLACEMENT CHARACTER}"
