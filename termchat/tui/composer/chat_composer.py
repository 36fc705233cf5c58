"""The composer of a chat: it walks through earlier messages, completes, sends messages with the files they name, counts their
tokens, and keeps the draft with the chat; and the line above it.

A message names a file as `@path`. The model gets the message as it was written, then each file in a fenced block under its
name; the chat shows just that. A word behind an @ that names no file is a word. A file that is in the message already is not
added twice.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.timer import Timer

from termchat import regular_files
from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.conversation.session import SessionStore
from termchat.conversation.store.store import HISTORY, StoreError
from termchat.text import one_line, size
from termchat.tui.composer.completion import Completion, Paths, Popup
from termchat.tui.composer.composer import Composer
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.draw.marks import length
from termchat.tui.keys.key import keys_of
from termchat.tui.keys.tables import COMPOSER, KEYS, actions
from termchat.tui.transcript import TranscriptView

if TYPE_CHECKING:
    from termchat.chat.sizing import Size, Sizing

_MATCH = Style(bold=True, underline=True)
_LEAST = 6
"""Lines that the field may always grow to, where"""
_OTHERS = 6
"""rows are left for all else."""
_UNASKED = 0.4
"""Seconds after offers came late, as from a slow disk, in which only Tab is for them: other keys were pressed before they were
seen."""
_GOES_ON = ("/", " ")
"""What an offer ends with behind which there is more to choose, or nothing to add."""
_AT_REST = 0.25
"""Seconds without a key after which a message is counted."""
_KEPT_AFTER = 0.4
"""Seconds after a key in which the draft is kept, so that a kill loses no more."""

_LARGEST_FILE = 1_000_000
"""Bytes of the largest file that is put into a message."""
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_STOPS = ".,;:!?)]}'"
_PROBED = 8192
"""Bytes at the beginning of a file that show whether it is text."""


class CommandRefused(ValueError):
    """A command cannot be done; its text stays in the composer. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def split_command(text: str) -> tuple[str, str] | None:
    """Return the name and the argument of a command, None if the text is a message.

    A first word with a second slash in it is a path, and with nothing behind its slash it is no name: both are messages.
    """
    word, _, rest = text[1:].partition("\n" if "\n" in text.split(" ", 1)[0] else " ")
    if not text.startswith("/") or "/" in word or (not word and rest.strip()):
        return None
    return word.strip(), rest.strip()


def matches(text: str, typed: str) -> bool:
    """Return whether a message contains a typed text; small letters stand for capitals, too."""
    return typed in text or (typed.islower() and typed in text.lower())


class History:
    """Earlier messages, with commands, names of files and messages that were taken back, in a table of the store.

    Each text is there once, the oldest first. With a `store` they are kept between sessions; a thread reads them from it.
    """

    def __init__(self, store: SessionStore | None = None) -> None:
        self._store = store
        self._texts: dict[str, None] = {}
        self._reading: BackgroundTask[str] | None = None

    def begin(self) -> None:
        if (store := self._store) is not None:
            self._reading = BackgroundTask(lambda: _read_messages(store))

    def add(self, text: str) -> None:
        texts = self.texts
        if text.strip():
            self._put([text])
            if self._store is not None and texts[:1] != [text]:
                self._store.add_message(text)

    @property
    def texts(self) -> list[str]:
        """The messages, the newest first."""
        if self._reading is not None:
            self._reading.join(0.05)  # it is read long before anybody asks
            if not self._reading.running:
                newer, self._texts = self._texts, {}
                self._put([*self._reading.take(), *newer])
                self._reading = None
        return list(reversed(self._texts))

    def _put(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.pop(text, None)
            self._texts[text] = None
        while len(self._texts) > HISTORY:
            del self._texts[next(iter(self._texts))]


def _read_messages(store: SessionStore) -> Iterator[str]:
    with suppress(StoreError):  # without a history the chat is the same
        yield from store.messages()


class Unreadable(Exception):
    """A file cannot be put into a message; the message says which and why."""


class IncludedFile(NamedTuple):
    """A file of a message: its name, its size in bytes, and the block that the model gets behind the message."""

    name: str
    size: int
    block: str


def include(written: str, message: str) -> list[IncludedFile]:
    """Read the files that a text names, except those already in the message.

    Args:
        written: where names are looked for.
        message: the same with all attachments.

    Raises:
        Unreadable: a file that is named cannot be put in.
    """
    files = []
    for mention in dict.fromkeys(quoted or plain for quoted, plain in _MENTION.findall(written)):
        name = next((one for one in (mention, mention.rstrip(_STOPS)) if _is_there(one)), "")
        if not name or f"\n\n{name}\n```" in message:
            continue
        text, length = _read_file(name)
        longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
        fence = "`" * (longest + 1)
        end = "" if text.endswith("\n") else "\n"
        files.append(IncludedFile(name, length, f"\n\n{name}\n{fence}\n{text}{end}{fence}"))
    return files


def _is_there(name: str) -> bool:
    try:
        Path(name).expanduser().lstat()
    except (OSError, RuntimeError, ValueError):  # the last two: an unknown ~user, a NUL
        return False
    return bool(name)


def _read_file(name: str) -> tuple[str, int]:
    """Return the text of a file and its size in bytes.

    Raises:
        Unreadable: it is no text, or too large.
    """
    path = Path(name).expanduser()
    try:
        with regular_files.opened(path) as opened:
            length, data = os.fstat(opened.fileno()).st_size, opened.read(_LARGEST_FILE + 1)
    except regular_files.NotAFile as error:
        instead = "; name a file inside it" if path.is_dir() else ", not a regular file"
        raise Unreadable(f"@{name} is {error.kind}{instead}") from error
    except OSError as error:
        raise Unreadable(f"@{name} cannot be read: {error.strerror or error}") from error
    if len(data) > _LARGEST_FILE:
        raise Unreadable(f"@{name} is too large: {size(max(length, len(data)))}, at most {size(_LARGEST_FILE)}")
    if b"\0" in data[:_PROBED]:
        raise Unreadable(f"@{name} is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), len(data)
    except UnicodeDecodeError as error:
        raise Unreadable(f"@{name} is not UTF-8 text (byte {error.start})") from error


class ChatComposer(Composer):
    """Sends messages in order. The draft is kept with the chat that is shown, and comes back with that.

    What others do for it is set from outside:

    - `complete_command` completes a first line that begins with a slash, at a column; called at every key.
    - `commands` gets each text before it is sent; True if it was a command, which is done by then.
    - `beyond` is called where Up leaves the first line (-1) or Down the last (1); True if it went somewhere.
    - `before_all` is asked of each key first, with the character that it writes; True if the key was for it.
    """

    class Learnt(Message):
        """More is known of what can be completed."""

    def __init__(self, chat: Chat, transcript: TranscriptView, *, placeholder: str) -> None:
        super().__init__(placeholder=placeholder)
        self._chat, self._transcript = chat, transcript
        self._session = chat.session
        """The session whose draft is shown."""
        self.earlier = History(chat.session.store)
        self.complete_command: Callable[[str, int], Completion | None] = lambda *_: None
        self.commands: Callable[[str], bool] = lambda _: False
        self.beyond: Callable[[int], bool] = lambda _: False
        self.before_all: Callable[[str, str | None], bool] = lambda *_: False
        self.aside: str | None = None
        """The draft, while an earlier message is edited."""
        self.paths = Paths(lambda: self.post_message(self.Learnt()))
        self.popup, self.edge = Popup(self.take), Edge()
        self._let_be: tuple[int, int] | None = None
        """The row and column from which a completion was declined."""
        self._came_late = -_UNASKED
        self._walk: list[str] = []
        """The message from which one walks back, then earlier ones that contain it; `_at` is the one that is shown."""
        self._at = 0
        self._walked = ""
        self._sending: deque[tuple[str, str, Callable[[str], object]]] = deque()
        """Messages, the same with labels, and who takes them."""
        self._reading: BackgroundTask[list[IncludedFile]] | None = None
        self._sizing: Sizing | None = None
        self._counting: Timer | None = None
        self._counted: tuple[object, ...] = ()
        """The state of the chat that the number of tokens depends on."""
        self._keeping: Timer | None = None

    def on_mount(self) -> None:
        if self._session.conversation.unsent.draft:  # before anything can be typed, since this takes its place
            self.open(self._session.conversation.unsent.draft)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        from termchat.chat.sizing import Sizing  # not needed before the first frame

        self._sizing = Sizing(self._chat)
        self._counting = self.set_interval(_AT_REST, self._count, pause=True)
        self.earlier.begin()
        store = self._chat.session.store
        if store is None or self._chat.lesson:
            return

        def give_back() -> None:
            self._chat.blank.give_back(*abandoned.take())
            self.follow_chat()

        # What was left in a chat without a message:
        abandoned = BackgroundTask(lambda: [store.abandoned()], lambda: self.call_later(give_back))

    def fit(self, rows: int) -> None:
        """Grow to a third of `rows`, those of the screen, or to a few lines if that leaves some to the chat."""
        self.styles.max_height = max(min(max(_LEAST, rows // 3), rows - _OTHERS), 1)

    # --- the draft ---------------------------------------------------------------------------------------------------

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

    def keep_draft(self) -> None:
        self._keeping = None
        self._session.keep_draft(self.draft)

    def follow_chat(self) -> None:
        """Switch drafts if another chat is shown, take in what could not be sent, and count again if the number may differ."""
        shown, chat = self._chat.session, self._chat
        unsent = shown.conversation.unsent
        if shown is not self._session:
            self.keep_draft()
            self._session = shown
            if unsent.draft != self.draft:
                self.open(unsent.draft)
        if unsent.returned:
            self.give_back(unsent.returned)
            unsent.returned = ""
            self.keep_draft()
        is_ready = chat.phase in ("idle", "no model", "failed")
        counted = (is_ready, chat.conversation, chat.conversation.leaf, chat.host.loaded)
        if counted != self._counted:
            self._counted = counted
            self._count_later()

    def on_text_area_changed(self) -> None:
        self._let_be = None
        if self.text != self._walked:
            self._at = 0
        self.complete()
        self._count_later()
        if self._keeping is None:
            self._keeping = self.set_timer(_KEPT_AFTER, self.keep_draft)

    # --- keys --------------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self.before_all(event.key, event.character) or self._choose(event.key) or self._move(event.key):
            event.stop()
            event.prevent_default()

    def action_send(self) -> None:
        written, text = self.text, self.message
        if not written.strip() and not self.sends_blank:
            return
        self.earlier.add(text)
        self.clear()  # at once: the next key is for the next message
        if not self.commands(text):
            self.post_message(self.Submitted(text, written))

    def _move(self, key: str) -> bool:
        """Leave the text by Up on its first line or Down on its last, for other messages; return False for other steps."""
        if key not in ("up", "down") or not self.selection.is_empty:
            return False
        _, y = self.wrapped_document.location_to_offset(self.cursor_location)
        if y != (0 if key == "up" else self.wrapped_document.height - 1):
            return False
        if self.beyond(-1 if key == "up" else 1):
            return True
        queue = self._chat.turns.queue
        if key == "up" and not self._at and self.is_blank and queue:
            self.put(self._chat.turns.take_back(len(queue) - 1))
        elif key == "up" or self._at:
            self._recall(1 if key == "up" else -1)
        else:
            return False
        return True

    def _recall(self, by: int) -> None:
        """Show an older or a newer message; the newest is the draft."""
        if not self._at:
            typed = self.message
            self._walk = [typed, *(text for text in self.earlier.texts if text != typed and matches(text, typed))]
        if not 0 <= self._at + by < len(self._walk):
            return
        self._at += by
        self.put(self._walk[self._at])
        self._walked = self.text
        line = 0 if by > 0 else self.document.line_count - 1
        self.move_cursor((line, len(self.document.get_line(line))))

    def get_line(self, line_index: int) -> Text:
        text = super().get_line(line_index)
        if self._at and (typed := self._walk[0]):
            flags = re.IGNORECASE if typed.islower() else re.NOFLAG
            for match in re.finditer(re.escape(typed), self.document.get_line(line_index), flags):
                text.stylize(_MATCH, *match.span())
        return text

    # --- completion --------------------------------------------------------------------------------------------------

    def on_text_area_selection_changed(self) -> None:
        if self.popup.completion is not None:
            self.complete()

    def on_chat_composer_learnt(self) -> None:
        before = self.popup.completion
        self.complete()
        if before is None and self.popup.completion is not None:
            self._came_late = monotonic()

    def complete(self) -> None:
        """Show what can be put in at the cursor."""
        row, column = self.cursor_location
        completion = None
        if self.selection.is_empty and not self._at:
            line = self.document.get_line(row)
            completion = (self.complete_command(line, column) if row == 0 else None) or self.paths.complete(
                line, column
            )
            if completion is not None and self._let_be == (row, completion.start):
                completion = None
        if completion != self.popup.completion:
            self.popup.put(completion)

    def _choose(self, key: str) -> bool:
        """Give a key to the offers; return whether it was for them."""
        if self.popup.completion is not None:
            self.complete()  # what was typed just before it has not been looked at yet
        completion = self.popup.completion
        if completion is None or (key != "tab" and monotonic() - self._came_late < _UNASKED):
            return False
        row, column = self.cursor_location
        typed = self.document.get_line(row)[completion.start : column]
        if key in ("up", "down"):
            self.popup.move(1 if key == "down" else -1)
        elif key in keys_of(KEYS["back"]):
            self._let_be = row, completion.start
            self.popup.put(None)
        elif key == "tab" or (
            actions(COMPOSER).get(key) == "send" and typed != completion.offers[self.popup.chosen].text
        ):
            self.take(self.popup.chosen)
        else:
            return False
        return True

    def take(self, number: int) -> None:
        """Insert an offer, counted from 0."""
        completion, (row, column) = self.popup.completion, self.cursor_location
        if completion is None:
            return
        text, after = completion.offers[number].text, self.document.get_line(row)[column : column + 1]
        gap = "" if text.endswith(_GOES_ON) or after.isspace() else " "
        self.replace(text + gap, (row, completion.start), (row, column), maintain_selection_offset=False)

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, text: str, written: str) -> None:
        """Send a message; `written` is the text with labels for its attachments."""
        self.hand_over(text, self._say, written)

    def hand_over(self, text: str, to: Callable[[str], object], written: str = "") -> None:
        """Add the files that a text names, and call `to` with the whole."""
        self._sending.append((text, written or self.attachments.fold(text), to))
        self._send_next()

    def _say(self, text: str) -> None:
        self._transcript.follow()  # whoever sends a message wants to see where it goes
        self._chat.send(text)

    def _send_next(self) -> None:
        """Send messages in order: one whose files are being read delays all behind it."""
        while self._sending and self._reading is None:
            text, written, _ = self._sending[0]
            if "@" in written:
                self._read_files(text, written, self._send)
            else:
                self._send([])

    def _read_files(self, text: str, written: str, take: Callable[[list[IncludedFile] | Unreadable], object]) -> None:
        """Read the files that a text names, in a thread, since the disk may be slow; `take` gets them."""

        def finish() -> None:
            self._reading = None
            try:
                (files,) = reading.take()
            except Unreadable as problem:
                take(problem)
            else:
                take(files)
            self._send_next()

        reading = self._reading = BackgroundTask(lambda: [include(written, text)], lambda: self.call_later(finish))

    def _send(self, files: list[IncludedFile] | Unreadable) -> None:
        """Send the next message with its files, or give it back to the person."""
        message, _, to = self._sending.popleft()
        hint = "nothing was sent"
        if isinstance(files, Unreadable):
            problem = str(files)
        else:
            blocks = [file.block for file in files]
            text = "".join((message, *blocks))
            if not is_too_large(text):
                self.attachments.hide(blocks)
                to(text)
                return
            problem = f"message too long: {len(text):,} characters"
            hint = f"at most {LARGEST_MESSAGE:,}; shorten it or send it in parts"
        self.give_back(message)
        self._chat.add_changes(Notice(problem, hint, "warning"))

    # --- counting ----------------------------------------------------------------------------------------------------

    def _count_later(self) -> None:
        if self._counting is None:
            return
        if self.is_blank:
            self.edge.say("")
            self._counting.pause()
        else:
            self.edge.fade()
            self._counting.reset()
            self._counting.resume()

    def _count(self) -> None:
        assert self._counting is not None
        self._counting.pause()
        written, message = self.text, self.message
        if not written.strip() or split_command(written) is not None:  # a command is for nobody but us
            self.edge.say("")
        elif "@" not in written:
            self._ask_size(written, message, [])
        elif self._reading is None:
            self._read_files(message, written, lambda files: self._ask_size(written, message, files))

    def _ask_size(self, written: str, message: str, files: list[IncludedFile] | Unreadable) -> None:
        """Show the tokens of a message with its files, if that is still written when they are counted."""
        if isinstance(files, Unreadable):
            self.edge.say(str(files), "warning")
            return
        named = "".join(f", with {PurePath(file.name).name} {size(file.size)}" for file in files)

        def hear(counted: Size | None) -> None:
            if self.text == written and counted is None:
                self.edge.say("")
            elif self.text == written and counted is not None:
                self.edge.say(_describe_size(counted) + named, "muted" if counted.fits else "error")

        assert self._sizing is not None
        self._sizing.ask_size("".join((message, *(file.block for file in files))), hear)


def _describe_size(counted: Size) -> str:
    tokens = f"{'about ' if counted.about else ''}{counted.tokens:,} token{'s' * (counted.tokens != 1)}"
    if counted.around != "nothing":
        tokens += f" with {counted.around}"
    if not counted.fits:
        return f"{tokens}, {counted.tokens - counted.free:,} over the free context"
    share = 100 * counted.tokens / max(counted.free, 1)
    return f"{tokens}, {f'{share:.0f}' if share >= 1 else 'under 1'}% of the free context"


_RULE, _FADED = Ink("border"), Ink("border", italic=True)
_BEHIND = 2
"""Cells of the line behind the word."""


class Edge(LinesView):
    """The line above the composer: who else gets letters at its left, the tokens of the message at its right."""

    def __init__(self) -> None:
        super().__init__(id="edge")
        self._words, self._ink = "", _RULE
        self._head = ""

    def head(self, words: str) -> None:
        """Show words at the left; "" for none."""
        self._head = words
        self._draw()

    def say(self, words: str, color: str = "muted") -> None:
        """Show a text at the right, which may be foreign; "" for none."""
        self._words, self._ink = words, Ink(color)
        self._draw()

    def fade(self) -> None:
        """Mark the text as out of date."""
        if self._words and self._ink is not _FADED:
            self._words, self._ink = self._words + " …", _FADED
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        head = one_line(self._head, max(self.room - 2 * _BEHIND - 4, 0))
        runs = [("─" * _BEHIND + " ", _RULE), (head, Ink("muted")), (" ", _RULE)] if head else []
        room = self.room - length(runs)
        words = one_line(self._words, max(room - _BEHIND - 4, 0))
        if words:
            before = "─" * (room - _BEHIND - cell_len(words) - 2)
            runs += [(f"{before} ", _RULE), (words, self._ink), (" " + "─" * _BEHIND, _RULE)]
        else:
            runs.append(("─" * room, _RULE))
        self.show_lines([Line(tuple(runs))])
