"""Notices and the queue, as lines."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from termchat.chat.changes import Full, Notice
from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.text import one_line, sanitize
from termchat.tui.draw.ink import Ink, Line, doing
from termchat.tui.draw.lines_view import Slip
from termchat.tui.draw.marks import ACCENT, TEXT
from termchat.tui.keys.tables import name_of

_INKS = {"information": Ink("accent"), "warning": Ink("warning"), "error": Ink("error", bold=True)}
_MOST_LINES = 4
_MOST_QUEUED = 3
_LOOKED_AT = 2_000
"""Characters of a text that are drawn, at most."""
_TAKE_BACK = "  Up edits it"
_HELD = "  waits for your next message; Up edits it"
_QUEUE = "dialog('queue')"
_QUEUED, _HINT = Ink("muted", does=_QUEUE), Ink("border")


def notice_lines(notices: Sequence[Notice], width: int, again: str = "") -> list[Line]:
    """Render notices; `again` says what the key that continues does about a failure. Long texts are cut; a click closes a
    notice."""
    lines = [
        Line(tuple(doing(f"forget_notice({at})", line.runs)), line.ground)
        for at, notice in enumerate(notices)
        for line in _notice(notice, width)
    ]
    if again and lines:
        does = ACCENT._replace(does="continue")
        lines.append(_barred(f"{name_of('continue')} {again}", does, lines[-1].runs[0][1]))
    return lines


def what_continues(chat: Chat) -> str:
    """Say what the key that continues does about the failure of an engine; "" without one."""
    server, failure, leaf = chat.spec is not None and chat.spec.engine.is_server, chat.failure, chat.conversation.leaf
    if chat.phase == "failed":
        return "tries again" if server else "starts the engine again"
    failed = chat.conversation.nodes[leaf].failed if leaf is not None else None
    if chat.phase != "idle" or failed is None or failure is None or failed.message != failure.message:
        return ""
    return "continues the reply" if server and failure.kind == "server" else ""


def _notice(notice: Notice, width: int) -> list[Line]:
    ink = _INKS[notice.severity]
    said = [(line, ink) for line in wrapped(notice.message, width - 2)]
    said += [(line, TEXT) for line in wrapped(notice.hint, width - 2)]
    return [_barred(line, shade, ink) for line, shade in said]


def _barred(text: str, ink: Ink, bar: Ink) -> Line:
    return Line((("▌ ", bar), (text, ink)), "panel")


def queue_lines(queue: Iterable[str], width: int, *, held: bool = False) -> list[Line]:
    """Render the queue, the next text first; `held` ones wait for the next message. A click opens the queue."""
    texts, take_back = list(queue), _HELD if held else _TAKE_BACK
    shown, more = texts[:_MOST_QUEUED], len(texts) - _MOST_QUEUED
    lines: list[Line] = []
    for number, text in enumerate(shown, 1):
        hint = take_back if number == len(texts) else ""
        said = one_line(text[:_LOOKED_AT], width - 8 - len(hint))
        lines.append(Line((("queued  ", Ink("stamp", does=_QUEUE)), (said, _QUEUED), (hint, _HINT))))
    if more > 0:
        lines.append(Line(((f"        and {more} more", _QUEUED), (take_back, _HINT))))
    return lines


def hidden_lines(group: ReplyGroup | None) -> list[Line]:
    """Render the replies that run out of sight, and the key that shows them; a click does, too."""
    if group is None:
        return []
    does = f"open_walks({group.group.number})"
    count = len(set(group.running) - {group.kept})
    what = "a beam search" if group.group.beams is not None else f"{count} more {'reply' if count == 1 else 'replies'}"
    shows = f"  {name_of('walks')} shows {'it' if group.group.beams is not None or count == 1 else 'them'}"
    return [
        Line(
            (("running ", Ink("stamp", does=does)), (what, Ink("muted", does=does)), (shows, Ink("border", does=does)))
        )
    ]


def full_lines(full: Full, width: int, *, asks: bool = True) -> list[Line]:
    """Render that the context is full; with `asks` the keys that decide what is done, and a click does, too."""
    bar, does = _INKS["warning"], "continue"
    oldest = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
    room = f"{name_of('continue')} drops {'or summarises ' if full.can_summarise else ''}{oldest} and"
    if full.failure is not None:
        said = [
            f"The context is full: {full.failure.message}.",
            f"Not sent: {one_line(full.text[:_LOOKED_AT], width - 12)}",
        ]
        keys = f"{room} sends it; {name_of('back')} puts it back"
    else:
        said = ["The context is full: the reply was cut off."]
        keys = f"{room} regenerates it; {name_of('back')} leaves it"
    lines = [(line, bar) for line in wrapped(said[0], width - 2)] + [(line, TEXT) for line in said[1:]]
    lines += [(line, ACCENT) for line in wrapped(keys, width - 2) if asks]
    return [_barred(line, ink._replace(does=does), bar._replace(does=does)) for line, ink in lines]


def wrapped(text: str, width: int) -> list[str]:
    """Wrap foreign text on a few lines; the rest is cut."""
    lines = textwrap.wrap(sanitize(text[:_LOOKED_AT], keep=""), max(width, 10))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [lines[_MOST_LINES - 1] + " …"]
    return [one_line(line, width) for line in lines]


_GLANCE, _READ_PER_SECOND = 6.0, 15
"""Seconds that a notice stays at least which asks for nothing, and characters that are read in one of them."""
_MOST_TOLD = 3
"""Notices shown at once."""
_QUIT_WITHIN = 3.0
"""Seconds in which whoever was asked whether to quit can say so."""


def in_short(mistakes: Sequence[Notice], beside: int = 0) -> list[Notice]:
    """Shorten the mistakes in the configuration to the room there is besides so many other notices."""
    room = max(_MOST_TOLD - beside, 1)
    shown = list(mistakes if len(mistakes) <= room else mistakes[: room - 1])
    if len(shown) < len(mistakes):
        more = f"{len(mistakes) - len(shown)} {'more ' if shown else ''}configuration mistakes"
        shown.append(Notice(more, "termchat config check lists them all", "warning"))
    return shown


class NoticeSlip(Slip):
    """The newest notices, which `draw` makes lines of, with others below; a notice that asks for nothing goes by itself."""

    def __init__(self, draw: Callable[[Sequence[Notice]], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._shown: list[Notice] = []
        self._asking: tuple[Notice, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._shown)

    def tell(self, notice: Notice) -> None:
        """Show a notice; one that is shown already becomes the newest."""
        others = [told for told in self._shown if told != notice]
        self._shown = [*others[1 - _MOST_TOLD :], notice]
        if notice.severity == "information":
            seconds = max(_GLANCE, len(notice.message + notice.hint) / _READ_PER_SECOND)
            self.set_timer(seconds, lambda: self.forget([told for told in self._shown if told is not notice]))
        self.draw()

    def forget(self, kept: Sequence[Notice] = ()) -> None:
        """Remove all but `kept`."""
        self._shown = list(kept)
        self.draw()

    def withdraw(self, message: str) -> None:
        if any(told.message == message for told in self._shown):
            self.forget([told for told in self._shown if told.message != message])

    def forget_problems(self, *, warnings: bool = True) -> None:
        """Remove errors and, unless told otherwise, warnings: something new has begun."""
        gone = ("error", "warning") if warnings else ("error",)
        self.forget([told for told in self._shown if told.severity not in gone])

    def drop(self, at: int) -> None:
        """Remove one notice, counted from the oldest."""
        self.forget([told for place, told in enumerate(self._shown) if place != at])

    def draw(self) -> None:
        self.show_lines(self._draw(self._shown))

    def ask_to_quit(self, notice: Notice) -> bool:
        """Ask with this notice; return True if that was asked a moment ago."""
        if self._asking is not None and monotonic() - self._asking[1] < _QUIT_WITHIN:
            return True
        self.withdraw_question()
        self._asking = notice, monotonic()
        self.tell(notice)
        return False

    def withdraw_question(self) -> None:
        """Withdraw the question: the person carried on."""
        if self._asking is not None:
            asked, self._asking = self._asking[0], None
            self.forget([told for told in self._shown if told is not asked])
