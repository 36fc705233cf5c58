"""What stands above the composer by itself: notices, the queue, a full context, where a reply stands in its constraint, the
message that is edited, and how the next reply begins."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from time import monotonic

from termchat.chat.changes import Full, Notice
from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.decoding.records import Failed
from termchat.text import one_line, sanitize
from termchat.tui.context import ScreenContext
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.lines_view import Slip
from termchat.tui.draw.marks import ACCENT, TEXT
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.ask_line import MessageEdit, strip_line

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
    lines: list[Line] = []
    for at, notice in enumerate(notices):
        ink = _INKS[notice.severity]
        lines += _render_block([(notice.message, ink), (notice.hint, TEXT)], ink, f"forget_notice({at})", width)
    if again and lines:
        lines += _render_block([(f"{name_of('continue')} {again}", ACCENT)], lines[-1].runs[0][1], "continue", width)
    return lines


def _render_block(texts: Iterable[Run], bar: Ink, does: str, width: int) -> list[Line]:
    """Render texts behind a bar; a click on any of them does the same."""
    runs = [(line, ink._replace(does=does)) for text, ink in texts for line in wrapped(text, width - 2)]
    return [Line((("▌ ", bar._replace(does=does)), run), "panel") for run in runs]


def what_continues(chat: Chat) -> str:
    """Say what the key that continues does about the failure of an engine; "" without one."""
    server = chat.spec is not None and chat.spec.engine.is_server
    if chat.phase == "failed":
        return "tries again" if server else "starts the engine again"
    failure = new_failure(chat) if chat.phase == "idle" and server else None
    return "continues the reply" if failure is not None and failure.kind == "server" else ""


def new_failure(chat: Chat) -> Failed | None:
    """Return the failure that ended the reply on the screen, until something new begins."""
    leaf, failure = chat.conversation.leaf, chat.failure
    failed = chat.conversation.nodes[leaf].failed if leaf is not None else None
    return failure if failed is not None and failure is not None and failed.message == failure.message else None


def queue_lines(queue: Iterable[str], width: int, *, held: bool = False) -> list[Line]:
    """Render the queue, the next text first; a `held` queue waits for the next message. A click opens the queue."""
    texts, take_back = list(queue), _HELD if held else _TAKE_BACK
    more = len(texts) - _MOST_QUEUED
    lines: list[Line] = []
    for number, text in enumerate(texts[:_MOST_QUEUED], 1):
        hint = take_back if number == len(texts) else ""
        start = one_line(text[:_LOOKED_AT], width - 8 - len(hint))
        lines.append(Line((("queued  ", Ink("stamp", does=_QUEUE)), (start, _QUEUED), (hint, _HINT))))
    if more > 0:
        lines.append(Line(((f"        and {more} more", _QUEUED), (take_back, _HINT))))
    return lines


def _hidden_line(group: ReplyGroup) -> Line:
    """Render the replies that run out of sight, and the key that shows them; a click does, too."""
    count, beams = len(set(group.running) - {group.kept}), group.group.beams is not None
    what = "a beam search" if beams else f"{count} more {'reply' if count == 1 else 'replies'}"
    shows = f"  {name_of('walks')} shows {'it' if beams or count == 1 else 'them'}"
    runs = [("running ", Ink("stamp")), (what, _QUEUED), (shows, _HINT)]
    return Line(tuple(doing(f"open_walks({group.group.number})", runs)))


def _full_lines(full: Full, width: int, *, asks: bool) -> list[Line]:
    """Render a full context; with `asks` also the keys that make room, for which a click does, too."""
    oldest = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
    room = f"{name_of('continue')} drops {'or summarises ' if full.can_summarise else ''}{oldest} and"
    bar = _INKS["warning"]
    if full.failure is not None:
        texts = [(f"The context is full: {full.failure.message}.", bar)]
        texts.append((f"Not sent: {one_line(full.text[:_LOOKED_AT], width - 12)}", TEXT))
        keys = f"{room} sends it; {name_of('back')} puts it back"
    else:
        texts = [("The context is full: the reply was cut off.", bar)]
        keys = f"{room} regenerates it; {name_of('back')} leaves it"
    return _render_block([*texts, (keys, ACCENT)] if asks else texts, bar, "continue", width)


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
    """Shorten the mistakes in the configuration to the room `beside` so many other notices."""
    room = max(_MOST_TOLD - beside, 1)
    shown = list(mistakes if len(mistakes) <= room else mistakes[: room - 1])
    if len(shown) < len(mistakes):
        more = f"{len(mistakes) - len(shown)} {'more ' if shown else ''}configuration mistakes"
        shown.append(Notice(more, "termchat config check lists them all", "warning"))
    return shown


class NoticeSlip(Slip):
    """The newest notices, with the queue and the like below; information disappears after a while."""

    def __init__(self, context: ScreenContext, edit: MessageEdit) -> None:
        super().__init__(id="notice")
        self.context, self._edit = context, edit
        self._notices: list[Notice] = []
        self._question: tuple[Notice, float] | None = None
        """What asks whether to quit, and since when."""
        self._shows_constraint = False

    def __bool__(self) -> bool:
        return bool(self._notices)

    def tell(self, notice: Notice) -> None:
        """Show a notice; one that is shown already becomes the newest."""
        others = [other for other in self._notices if other != notice]
        self._notices = [*others[1 - _MOST_TOLD :], notice]
        if notice.severity == "information":
            seconds = max(_GLANCE, len(notice.message + notice.hint) / _READ_PER_SECOND)
            self.set_timer(seconds, lambda: self.forget([other for other in self._notices if other is not notice]))
        self.draw()

    def forget(self, kept: Sequence[Notice] = ()) -> None:
        """Remove all but `kept`."""
        self._notices = list(kept)
        self.draw()

    def withdraw(self, message: str) -> None:
        self.forget([notice for notice in self._notices if notice.message != message])

    def forget_problems(self, *, warnings: bool = True) -> None:
        """Remove errors and by default warnings, as something new has begun."""
        gone = ("error", "warning") if warnings else ("error",)
        self.forget([notice for notice in self._notices if notice.severity not in gone])

    def drop(self, at: int) -> None:
        """Remove one notice, counted from the oldest."""
        self.forget([notice for place, notice in enumerate(self._notices) if place != at])

    def ask_to_quit(self, notice: Notice) -> bool:
        """Ask with this notice; return True if that was asked a moment ago."""
        if self._question is not None and monotonic() - self._question[1] < _QUIT_WITHIN:
            return True
        self.withdraw_question()
        self._question = notice, monotonic()
        self.tell(notice)
        return False

    def withdraw_question(self) -> None:
        """Withdraw the question: the person carried on."""
        if self._question is not None:
            (question, _), self._question = self._question, None
            self.forget([notice for notice in self._notices if notice is not question])

    def draw(self) -> None:
        chat, mode, room = self.context.chat, self.context.tokens, self.context.room
        lines = notice_lines(self._notices, room, what_continues(chat))
        if (hidden := chat.walks.hidden) is not None:
            lines.append(_hidden_line(hidden))
        lines += queue_lines(chat.turns.queue, room, held=chat.replies.held)
        if chat.full is not None:
            lines += _full_lines(chat.full, room, asks=chat.phase == "idle")
        if self._shows_constraint or chat.constraint is not None or chat.busy or mode.is_open:
            from termchat.tui.constraint.constraint_line import constraint_line  # rarely needed

            place = mode.place if mode.is_open else None
            line = constraint_line(chat, (place.node, place.at) if place is not None else None, room)
            self._shows_constraint = line is not None
            lines += [line] if line is not None else []
        lines += self._edit.render_lines(room)
        if (text := chat.prefill) is not None:
            word = "next reply starts with" if text else "next reply starts freely"
            lines.append(strip_line(word, text, "/prefill changes it", room, "prefill"))
        self.show_lines(lines)
