"""The field for the message: it grows, walks through earlier messages and offers completions; and the line above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message

from termchat.text import one_line
from termchat.tui.composer.completion import Completion, CompletionSource, Offer, Popup
from termchat.tui.composer.history import History, Recall, matches
from termchat.tui.composer.labelled import LabelledArea
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.draw.marks import length
from termchat.tui.keys.tables import COMPOSER

_FOUND = Style(bold=True, underline=True)
_LEAST = 6
"""Lines that the field may always grow to, where"""
_OTHERS = 6
"""rows are left for all else."""
_UNASKED = 0.4
"""Seconds after offers came late, as from a slow disk, in which only Tab is for them: other keys were pressed before they were
seen."""
_GOES_ON = ("/", " ")
"""What an offer ends with behind which there is more to choose, or nothing to add."""


class Composer(LabelledArea):
    """A text field that grows, walks through earlier messages and offers completions.

    What others do for it is set from outside:

    - `sources` know what can be completed; `popup` shows it.
    - `earlier` is the message history.
    - `commands` gets each text before it is sent; True if it was a command, which is done by then.
    - `beyond` is called where Up leaves the first line (-1) or Down the last (1); True if it went somewhere.
    - `before_all` is asked of each key first, with the character that it writes; True if the key was for it.
    - `sends_blank`: an empty text may be sent, too.
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

    @dataclass
    class Submitted(Message):
        """A person sent what they had written; `written` is the same with labels for what was attached."""

        text: str
        written: str = ""

    class Learnt(Message):
        """A source of completions knows more now."""

    def __init__(self, text: str = "", *, placeholder: str = "", keymap: Mapping[str, str] | None = None) -> None:
        super().__init__(text, placeholder=placeholder)
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self.earlier = History()
        self.sources: Sequence[CompletionSource] = ()
        self.commands: Callable[[str], bool] = lambda _: False
        self.popup = Popup()
        self.beyond: Callable[[int], bool] = lambda _: False
        self.before_all: Callable[[str, str | None], bool] = lambda *_: False
        self.aside: str | None = None
        """The draft, while something else is being written: an earlier message anew."""
        self.sends_blank = False
        self._walk: Recall | None = None
        self._walked = ""
        self._let_be: tuple[int, int] | None = None
        self._came_late = -_UNASKED
        remapped = keymap or {}
        self._own = {name.strip(): key.action for key in COMPOSER for name in remapped.get(key.id, key.keys).split(",")}
        self._back = {name.strip() for name in remapped.get("back", "escape").split(",")}

    # --- what is written ---------------------------------------------------------------------------------------------

    def put(self, text: str) -> None:
        """Replace the text; undo brings it back."""
        self.replace(self.attachments.fold(text), (0, 0), self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    @property
    def draft(self) -> str:
        """The draft with its attachments in full, also while another message is edited."""
        return self.message if self.aside is None else self.aside

    def open(self, draft: str) -> None:
        """Show another chat's draft; undo does not lead out of it."""
        self.load_text(self.attachments.fold(draft))
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """Put a text that could not be sent before the draft."""
        if self.aside is not None:
            self.aside = "\n".join(filter(None, (text, self.aside)))
            return
        text, written, (row, column) = self.attachments.fold(text), self.text, self.cursor_location
        self.load_text(f"{text}\n{written}" if written else text)
        self.move_cursor((row + text.count("\n") + 1, column) if written else self.document.end)

    def fit(self, rows: int) -> None:
        """Grow to a third of `rows`, those of the screen, or to a few lines if that leaves some to the chat."""
        self.styles.max_height = max(min(max(_LEAST, rows // 3), rows - _OTHERS), 1)

    def take_back(self) -> bool:
        """Put the last queued message into the empty field; False if there is none."""
        return False

    # --- keys --------------------------------------------------------------------------------------------------------

    def watch_has_focus(self, _has_focus: bool) -> None:
        # Only the cursor comes or goes: Textual would make all styles again, which takes milliseconds.
        self.notify_style_update()  # drops the lines that were drawn with the cursor, or without it
        self.refresh()

    def on_key(self, event: events.Key) -> None:
        # At once: a binding would act before the keys that were pressed just before it have been written.
        if self.before_all(event.key, event.character) or self._choose(event.key) or self._move(event.key):
            event.stop()
            event.prevent_default()
            return
        action = self._own.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            getattr(self, f"action_{action}")()

    def action_send(self) -> None:
        written = self.text
        if not written.strip() and not self.sends_blank:
            return
        text = self.attachments.unfold(written)
        self.earlier.add(text)
        self.clear()  # at once: the next key is for the next message
        if not self.commands(text):
            self.post_message(self.Submitted(text, written))

    def action_newline(self) -> None:
        self.insert("\n")

    def _move(self, key: str) -> bool:
        """Walk through earlier messages by Up on the first line and Down on the last; return False for other steps."""
        if key not in ("up", "down") or not self.selection.is_empty:
            return False
        _, y = self.wrapped_document.location_to_offset(self.cursor_location)
        if (key == "up" and y == 0 and self.beyond(-1)) or (
            key == "down" and y == self.wrapped_document.height - 1 and self.beyond(1)
        ):
            return True
        if key == "up" and y == 0:
            if self._walk is not None or not (self.is_blank and self.take_back()):
                self._go(older=True)
            return True
        if key == "down" and self._walk is not None and y == self.wrapped_document.height - 1:
            self._go(older=False)
            return True
        return False

    def _go(self, *, older: bool) -> None:
        if self._walk is None:
            self._walk = self.earlier.walk(self.message)
            self._walked = self.text
        walk = self._walk
        if not walk.move(older):
            return
        self.put(walk.text)
        self._walked = self.text
        line = 0 if older and not walk.is_back else self.document.line_count - 1
        self.move_cursor((line, len(self.document.get_line(line))))
        if walk.is_back:
            self._walk = None

    # --- completion --------------------------------------------------------------------------------------------------

    def on_text_area_changed(self) -> None:
        self._let_be = None
        if self._walk is not None and self.text != self._walked:
            self._walk = None
        self.complete()

    def on_text_area_selection_changed(self) -> None:
        if self.popup.completion is not None:
            self.complete()

    def complete(self) -> None:
        offered = None if self._walk is not None else self._completion()
        row, _ = self.cursor_location
        if offered is not None and self._let_be == (row, offered.start):
            offered = None
        if offered != self.popup.completion:
            self.popup.put(offered)

    def on_composer_learnt(self) -> None:
        before = self.popup.completion
        self.complete()
        if before is None and self.popup.completion is not None:
            self._came_late = monotonic()

    def _completion(self) -> Completion | None:
        row, column = self.cursor_location
        if not self.selection.is_empty or not self.sources:
            return None
        line = self.document.get_line(row)
        for source in self.sources:
            found = source.complete(line, column, first=row == 0)
            if found is not None and found.offers:
                return found
        return None

    def _choose(self, key: str) -> bool:
        """Give a key to the offers; return whether it was for them."""
        if key != "tab" and monotonic() - self._came_late < _UNASKED:
            return False
        if self.popup.completion is not None:
            self.complete()  # what was typed just before it has not been looked at yet
        completion, offer = self.popup.completion, self.popup.offer
        if completion is None or offer is None:
            return False
        row, column = self.cursor_location
        if key in ("up", "down"):
            self.popup.move(1 if key == "down" else -1)
        elif key in self._back:
            self._let_be = row, completion.start
            self.popup.put(None)
        elif key == "tab" or (self._own.get(key) == "send" and self._typed(completion, row, column) != offer.text):
            self._take(offer)
        else:
            return False
        return True

    def take(self, number: int) -> None:
        """Insert an offer, counted from 0."""
        if self.popup.completion is not None:
            self._take(self.popup.completion.offers[number])

    def _typed(self, completion: Completion, row: int, column: int) -> str:
        return self.document.get_line(row)[completion.start : column]

    def _take(self, offer: Offer) -> None:
        completion = self.popup.completion
        assert completion is not None
        row, column = self.cursor_location
        after = self.document.get_line(row)[column : column + 1]
        gap = "" if offer.text.endswith(_GOES_ON) or after.isspace() else " "
        self.replace(offer.text + gap, (row, completion.start), (row, column), maintain_selection_offset=False)

    # --- how it is drawn ---------------------------------------------------------------------------------------------

    def get_line(self, line_index: int) -> Text:
        text = super().get_line(line_index)
        if self._walk is not None and not self._walk.is_back and self._walk.typed:
            self._mark_found(text, self.document.get_line(line_index))
        return text

    def _mark_found(self, text: Text, line: str) -> None:
        assert self._walk is not None
        typed = self._walk.typed
        if typed.islower() and matches(line, typed):
            line = line.lower()
        at = line.find(typed)
        while at >= 0:
            text.stylize(_FOUND, at, at + len(typed))
            at = line.find(typed, at + len(typed))


_RULE, _FADED = Ink("border"), Ink("border", italic=True)
_BEHIND = 2
"""Cells of the line behind the word."""


class Edge(LinesView):
    def __init__(self) -> None:
        super().__init__(id="edge")
        self._said, self._ink = "", _RULE
        self._head = ""

    def head(self, words: str) -> None:
        """Show words at the left; "" for none."""
        if words != self._head:
            self._head = words
            self._draw()

    def say(self, said: str, color: str = "muted") -> None:
        """Show a text at the right, which may be foreign; "" for none."""
        self._said, self._ink = said, Ink(color)
        self._draw()

    def fade(self) -> None:
        """Mark the text as out of date."""
        if self._said and self._ink is not _FADED:
            self._said, self._ink = self._said + " …", _FADED
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        head = one_line(self._head, max(self.room - 2 * _BEHIND - 4, 0))
        runs = [("─" * _BEHIND + " ", _RULE), (head, Ink("muted")), (" ", _RULE)] if head else []
        room = self.room - length(runs)
        said = one_line(self._said, max(room - _BEHIND - 4, 0))
        if said:
            before = "─" * (room - _BEHIND - cell_len(said) - 2)
            runs += [(f"{before} ", _RULE), (said, self._ink), (" " + "─" * _BEHIND, _RULE)]
        else:
            runs.append(("─" * room, _RULE))
        self.show_lines([Line(tuple(runs))])
