"""The field in which texts are written: long pastes are labels, and characters are those that a reader counts."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import SuspendNotSupported
from textual.geometry import Region
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from termchat import regular_files
from termchat.chat.changes import Notice
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.external_editor import EditorError, editor_command
from termchat.text import character_around, sanitize, size, word_letters
from termchat.tui.keys.tables import COMPOSER, actions, name_of

_LINES = 10
"""A paste of more lines becomes an attachment,"""
_CHARACTERS = 2_000
"""or of more characters."""
_EDITABLE = 200_000
"""The most characters that the field shows as text,"""
_LONGEST_LINE = 10_000
"""and of one line: beyond that a key takes longer than a frame."""
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_LABEL = re.compile(f"{_OPEN}[^{_OPEN}{_CLOSE}\n]*#([0-9]+){_CLOSE}")
_DRAWN = str.maketrans({_OPEN: "[", _CLOSE: "]"})
_RUN, _NEXT = re.compile(r"\w+|\W+"), re.compile(r"\s*(?:\w+|\W+)?")
"""A word or what stands between two, and the way to the end of the next one."""
_NEXT_WORD = re.compile(r"\s*\w+")
_LABEL_STYLE = Style(italic=True, underline=True)
Suspend = Callable[[], AbstractContextManager[None]]
"""Leaves the terminal to another program while the context lasts; raises SuspendNotSupported."""


def is_editable(text: str) -> bool:
    """Return whether the field stays quick with the text in it."""
    return len(text) <= _EDITABLE and (len(text) <= _LONGEST_LINE or max(map(len, text.split("\n"))) <= _LONGEST_LINE)


class Attachments:
    """The texts that labels stand for, and the blocks of files: a message that comes back is as it was written."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        """By text its label; "" for the block of a file, whose name is in the message."""
        self._numbers = count(1)

    def hold(self, text: str) -> str:
        """Keep a text and return its label."""
        if not self._labels.get(text):
            lines = text.count("\n") + (not text.endswith("\n"))
            name = f"pasted {size(len(text.encode('utf-8', 'surrogatepass')))}, {lines:,} line{'s' * (lines != 1)}"
            self._labels[text] = f"{_OPEN}{name} #{next(self._numbers)}{_CLOSE}"
        return self._labels[text]

    def hide(self, blocks: Iterable[str]) -> None:
        """Keep the blocks of files that were sent behind a message, so that `fold` takes them away again."""
        self._labels = dict.fromkeys(blocks, "") | self._labels

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return where the labels of a line begin and end."""
        if _OPEN not in line:
            return []
        return [match.span() for match in _LABEL.finditer(line) if match[0] in self._labels.values()]

    def unfold(self, written: str) -> str:
        """Replace labels by the texts that they stand for."""
        if _OPEN not in written:
            return written
        texts = {label: text for text, label in self._labels.items()}
        return _LABEL.sub(lambda match: texts.get(match[0], match[0]), written)

    def fold(self, text: str) -> str:
        """Replace attachments by their labels; a text that is still too long for the composer becomes an attachment."""
        for attached in sorted(self._labels, key=len, reverse=True):
            text = text.replace(attached, self._labels[attached])
        return text if is_editable(text) else self.hold(text)


class Composer(TextArea):
    """A text field that grows. It keeps pastes unchanged, and draws marks for foreign characters.

    `text` has a label for each long paste, `message` is the whole. `sends_blank`: an empty text may be sent, too.
    """

    DEFAULT_CSS = """
    Composer {
        height: auto; max-height: 6; width: 1fr; padding: 0 1 0 0; border: none;
        background: $background; color: $text;
        &:focus { border: none; }
        .text-area--cursor-line { background: $background; }
        .text-area--placeholder { color: $muted; }
    }
    """
    BINDINGS = [key.binding for key in COMPOSER]  # noqa: RUF012
    sends_blank = False

    @dataclass
    class Submitted(Message):
        """A person sent a text; `written` is the same with labels for its attachments."""

        text: str
        written: str

    @dataclass
    class Refused(Message):
        """Something cannot be done, and why."""

        notice: Notice

    def __init__(self, text: str = "", *, placeholder: str = "") -> None:
        self._drawn: str | None = None
        self.attachments = Attachments()
        super().__init__(text, placeholder=placeholder, show_line_numbers=False, highlight_cursor_line=False)
        self.cursor_blink = False
        self.match_cursor_bracket = False

    @property
    def text(self) -> str:
        """All that is written, attachments as labels."""
        return self.document.text if self._drawn is None else self._drawn

    @text.setter
    def text(self, value: str) -> None:
        self.load_text(value)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Join the text once: Textual asks for it with every line that it draws."""
        self._drawn = self.document.text
        strips = super().render_lines(crop)
        self._drawn = None
        return strips

    def edit(self, edit: Edit) -> EditResult:
        """Apply an edit; one that deletes takes labels and characters as a whole."""
        begin, end = sorted((edit.from_location, edit.to_location))
        wider = self._outside(begin, after=begin == end), self._outside(end, after=True)
        if wider != (begin, end):
            edit = Edit(edit.text, *wider, edit.maintain_selection_offset)
        return super().edit(edit)

    @property
    def message(self) -> str:
        """The text with the attachments in place of their labels."""
        return self.attachments.unfold(self.text)

    @property
    def is_blank(self) -> bool:
        return self.document.end == (0, 0)

    @property
    def selected_text(self) -> str:
        return self.attachments.unfold(super().selected_text)

    def put(self, text: str) -> None:
        """Replace the text; undo brings it back."""
        self.replace(self.attachments.fold(text), (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    # --- keys --------------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        # At once: a binding would act before the keys that were pressed just before it have been written.
        action = actions(COMPOSER).get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            getattr(self, f"action_{action}")()

    def action_send(self) -> None:
        if self.sends_blank or self.text.strip():
            self.post_message(self.Submitted(self.message, self.text))

    def action_newline(self) -> None:
        self.insert("\n")

    def action_unfold(self) -> None:
        """Show the text of the attachment at the cursor, else of the last one, in the place of its label."""
        row, column = self.cursor_location
        at = next((span for span in self._spans(row) if span[0] <= column <= span[1]), None)
        if at is None:
            row = next((row for row in range(self.document.line_count - 1, -1, -1) if self._spans(row)), -1)
            if row < 0:
                return
            at = self._spans(row)[-1]
        held = self.attachments.unfold(self.document.get_line(row)[slice(*at)])
        if is_editable(held):
            self.replace(held, (row, at[0]), (row, at[1]), maintain_selection_offset=False)
        else:
            self._refuse(f"{len(held):,} characters are too many to show here", f"edit it with {name_of('editor')}")

    def on_paste(self, event: events.Paste) -> None:
        text = event.text
        if len(text) <= _CHARACTERS and text.count("\n") < _LINES:
            return
        event.prevent_default()
        if is_too_large(text):
            hint = f"at most {LARGEST_MESSAGE:,}; save it to a file and paste the part that matters"
            self._refuse(f"paste too long: {len(text):,} characters", hint)
            return
        self.replace(self.attachments.hold(text), *sorted(self.selection), maintain_selection_offset=False)

    @work(group="editor", exclusive=True)
    async def edit_outside(self) -> None:
        """Have the text edited in the person's own editor."""
        before = self.message
        try:
            edited = await edit_text(before, self.app.suspend)
        except EditorError as problem:
            self._refuse(problem.message, problem.hint)
            return
        if edited != before:
            self.put(edited)
            if not edited.strip() and not self.sends_blank:
                self._refuse("the editor returned an empty message", "undo restores your text", "information")

    def _refuse(self, message: str, hint: str, severity: SeverityLevel = "warning") -> None:
        self.post_message(self.Refused(Notice(message, hint, severity)))

    # --- labels and characters ---------------------------------------------------------------------------------------

    def _spans(self, row: int) -> list[tuple[int, int]]:
        return self.attachments.spans(self.document.get_line(row))

    def _outside(self, location: Location, *, after: bool) -> Location:
        """Return the place itself, or the end of the label or the character in which it lies. What deletes a line asks for the
        one below it, which the last does not have."""
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
        """Return the end of the next match behind the cursor, or of its line; behind that, the next line."""
        row, column = self.selection.end
        line = self.document.get_line(row)
        if column == len(line):
            return super().get_cursor_word_right_location()
        match = words.search(word_letters(line), column)
        return self._outside((row, match.end() if match else len(line)), after=True)

    # --- how it is drawn ---------------------------------------------------------------------------------------------

    def watch_has_focus(self, _has_focus: bool) -> None:
        # Only the cursor comes or goes: Textual would make all styles again, which takes milliseconds.
        self.notify_style_update()  # drops the lines that were drawn with the cursor, or without it
        self.refresh()

    def get_line(self, line_index: int) -> Text:
        # A foreign character is one mark, so that the cursor stays where it is.
        line = self.document.get_line(line_index)
        shown = line.translate(_DRAWN) if _OPEN in line else line
        if sanitize(shown) is not shown:
            marks = map(sanitize, shown)
            shown = "".join(mark if len(mark) == 1 else "\N{REPLACEMENT CHARACTER}" for mark in marks)
        text = Text(shown, end="", no_wrap=True)
        for begin, end in self.attachments.spans(line):
            text.stylize(_LABEL_STYLE, begin, end)
        return text


async def edit_text(text: str, suspend: Suspend) -> str:
    """Have a text edited in the person's own editor, and return what that saved; the event loop runs meanwhile.

    Raises:
        EditorError: there is no editor, it failed, or its text cannot be read. The hint then names the file with the text, if
            anything was written.
    """
    words = editor_command()
    descriptor, name = tempfile.mkstemp(prefix="termchat-", suffix=".md")  # for its owner alone
    file, kept = Path(name), ""
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text.encode("utf-8", "surrogatepass"))
        before = file.stat().st_mtime_ns
        with suspend():
            code = await _run_editor([*words, name])
        if isinstance(code, OSError):
            raise EditorError(f"{words[0]} cannot be run: {code.strerror}", "see $VISUAL and $EDITOR")
        if file.exists() and file.stat().st_mtime_ns != before:
            kept = f"your text is in {file}"
        if code != 0:
            raise EditorError(f"{words[0]} exited with code {code}", kept)
        with regular_files.opened(file) as opened:
            data = opened.read(4 * LARGEST_MESSAGE + 1)
        edited = data.decode("utf-8", "surrogatepass").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
        if is_too_large(edited):
            raise EditorError(f"the edited text has more than {LARGEST_MESSAGE:,} characters", kept)
        kept = ""
    except SuspendNotSupported as error:
        raise EditorError("an editor cannot run in this terminal") from error
    except UnicodeDecodeError as error:
        raise EditorError("the edited text is not UTF-8", kept) from error
    except OSError as error:
        raise EditorError(f"{words[0]}: {error.strerror or error}", kept) from error
    finally:
        if not kept:
            with suppress(OSError):
                file.unlink()
    return edited if text.endswith("\n") else edited.removesuffix("\n")  # which most editors add


async def _run_editor(words: list[str]) -> int | OSError:
    """Return the exit code, or why the editor did not start: if raised here, Textual would not take the terminal back."""
    try:
        process = await asyncio.create_subprocess_exec(*words)
    except OSError as error:
        return error
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # the app ends
            with suppress(ProcessLookupError):
                process.terminate()
