"""A text field in which a long paste is a label: drawn, moved over and deleted as one unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from termchat.chat.changes import Notice
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.text import character_around, sanitize, size, word_letters
from termchat.tui.keys.tables import name_of

LINES = 10
"""A paste of more lines becomes an attachment,"""
CHARACTERS = 2_000
"""or of more characters."""
EDITABLE = 200_000
"""The most characters that the field shows as text,"""
LONGEST_LINE = 10_000
"""and of one line: beyond that a key takes longer than a frame."""
_MEMORY = 8_000_000
"""Characters of attachments that are remembered; the oldest which are no longer in use go first."""
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_LABEL = re.compile(f"{_OPEN}[^{_OPEN}{_CLOSE}\n]*#([0-9]+){_CLOSE}")
_RUN, _NEXT = re.compile(r"\w+|\W+"), re.compile(r"\s*(?:\w+|\W+)?")
"""A word or what stands between two, and the way to the end of the next one."""
_NEXT_WORD = re.compile(r"\s*\w+")
_DRAWN = str.maketrans({_OPEN: "[", _CLOSE: "]"})


def is_long(text: str) -> bool:
    return len(text) > CHARACTERS or text.count("\n") >= LINES


def is_editable(text: str) -> bool:
    """Whether the field stays quick with the text in it."""
    return len(text) <= EDITABLE and (len(text) <= LONGEST_LINE or max(map(len, text.split("\n"))) <= LONGEST_LINE)


def drawn(text: str) -> str:
    """A text as it is shown, of the same length."""
    return text.translate(_DRAWN) if _OPEN in text else text


class Attachments:
    """What the labels stand for. Those that were sent are remembered, so that a message that comes back has them again."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        self._numbers = count(1)

    def hold(self, text: str, beside: str = "") -> str:
        """Keeps a text; returns the label that stands for it. `beside` is what is written by now."""
        known = next((label for label, held in self._texts.items() if held == text), None)
        if known is not None:
            return known
        lines = text.count("\n") + (not text.endswith("\n"))
        label = f"pasted {size(len(text.encode('utf-8', 'surrogatepass')))}, {lines:,} line{'s' * (lines != 1)}"
        label = f"{_OPEN}{label} #{next(self._numbers)}{_CLOSE}"
        self._texts[label] = text
        self._forget(beside + label)
        return label

    def held(self, label: str) -> str:
        return self._texts[label]

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where the labels of a line begin and end."""
        if _OPEN not in line:
            return []
        return [found.span() for found in _LABEL.finditer(line) if found[0] in self._texts]

    def unfold(self, written: str) -> str:
        """The text with what every label stands for in its place."""
        if _OPEN not in written:
            return written
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), written)

    def remember(self, sent: str, written: str) -> None:
        """This was sent for what was written; `fold` finds it again."""
        if sent != written:
            self._forget(written)
            self._sent.pop(sent, None)
            self._sent[sent] = written

    def fold(self, text: str) -> str:
        """The text as it was written, as far as it is known; what is too long for the field then is an attachment."""
        for sent, written in sorted(self._sent.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(sent, written)
        for label, held in sorted(self._texts.items(), key=lambda pair: -len(pair[1])):
            text = text.replace(held, label)
        return text if is_editable(text) else self.hold(text)

    def _forget(self, written: str) -> None:
        """Drops the oldest while there is too much; labels in `written` stay."""
        total = sum(map(len, self._texts.values())) + sum(map(len, self._sent))
        while total > _MEMORY and self._sent:
            oldest = next(iter(self._sent))
            total -= len(oldest)
            del self._sent[oldest]
        for label in [label for label in self._texts if label not in written]:
            if total > _MEMORY:
                total -= len(self._texts.pop(label))


_LABEL_STYLE = Style(italic=True, underline=True)


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
        self.attachments = Attachments()
        super().__init__(text, placeholder=placeholder, show_line_numbers=False, highlight_cursor_line=False)

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
        super().load_text(text)
        self._joined = None

    def undo(self) -> None:
        super().undo()
        self._joined = None

    def redo(self) -> None:
        super().redo()
        self._joined = None

    @property
    def message(self) -> str:
        """The text with the attachments in place of their labels."""
        return self.attachments.unfold(self.text)

    @property
    def is_blank(self) -> bool:
        return self.document.line_count == 1 and not self.document.get_line(0)

    @property
    def selected_text(self) -> str:
        return self.attachments.unfold(super().selected_text)

    # --- labels ------------------------------------------------------------------------------------------------------

    def on_paste(self, event: events.Paste) -> None:
        if not is_long(event.text):
            return
        event.prevent_default()
        if is_too_large(event.text):
            self._refuse(
                f"paste too long: {len(event.text):,} characters",
                f"at most {LARGEST_MESSAGE:,}; save it to a file and paste the part that matters",
            )
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
            hint = f"edit it with {name_of('editor')}"
            self._refuse(f"{len(held):,} characters are too many to show here", hint)
            return
        self.replace(held, (row, at[0]), (row, at[1]), maintain_selection_offset=False)

    def _refuse(self, message: str, hint: str) -> None:
        self.post_message(self.Refused(Notice(message, hint, "warning")))

    def _spans(self, row: int) -> list[tuple[int, int]]:
        return self.attachments.spans(self.document.get_line(row))

    def _outside(self, location: Location, *, after: bool) -> Location:
        """The place itself, or the end of the label or the character in which it lies. What deletes a line asks for the one
        below it, which the last does not have."""
        row, column = location
        if row >= self.document.line_count:
            return location
        inside = (span for span in self._spans(row) if span[0] < column < span[1])
        begin, end = next(inside, None) or character_around(self.document.get_line(row), column)
        return row, end if after else begin

    def validate_selection(self, selection: Selection) -> Selection:
        """Wherever the cursor is put, by key or by mouse, it is not within a label or a character."""
        return Selection(*(self._outside(place, after=True) for place in selection))

    def get_cursor_left_location(self) -> Location:
        return self._outside(super().get_cursor_left_location(), after=False)

    def get_cursor_right_location(self) -> Location:
        return self._outside(super().get_cursor_right_location(), after=True)

    def get_cursor_word_left_location(self) -> Location:
        row, column = self.cursor_location
        if not column:
            return super().get_cursor_word_left_location()
        runs = list(_RUN.finditer(word_letters(self.document.get_line(row)[:column].rstrip())))
        return self._outside((row, runs[-1].start() if runs else 0), after=False)

    def get_cursor_word_right_location(self) -> Location:
        return self._way_right(_NEXT)

    def action_delete_word_right(self) -> None:
        start, end = self.selection
        self.delete(start, end if start != end else self._way_right(_NEXT_WORD), maintain_selection_offset=False)

    def _way_right(self, words: re.Pattern[str]) -> Location:
        """The end of what is found behind the cursor, or of its line; behind that, the next line."""
        row, column = self.selection.end
        line = self.document.get_line(row)
        if column == len(line):
            return super().get_cursor_word_right_location()
        found = words.search(word_letters(line), column)
        return self._outside((row, found.end() if found else len(line)), after=True)

    def edit(self, edit: Edit) -> EditResult:
        # What is deleted takes labels as a whole.
        begin, end = sorted((edit.from_location, edit.to_location))
        wider = self._outside(begin, after=begin == end), self._outside(end, after=True)
        if wider != (begin, end):
            edit = Edit(edit.text, *wider, edit.maintain_selection_offset)
        result = super().edit(edit)
        self._joined = None
        return result

    def get_line(self, line_index: int) -> Text:
        # A foreign character is one mark, so that the cursor stays where it is.
        line = self.document.get_line(line_index)
        shown = drawn(line)
        if sanitize(shown) is not shown:
            shown = "".join(map(_mark, shown))
        text = Text(shown, end="", no_wrap=True)
        for begin, end in self.attachments.spans(line):
            text.stylize(_LABEL_STYLE, begin, end)
        return text


def _mark(char: str) -> str:
    shown = sanitize(char)
    return shown if len(shown) == 1 else "\N{REPLACEMENT CHARACTER}"
