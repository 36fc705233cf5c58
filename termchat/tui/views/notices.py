"""Notices, the queue and the first words of an empty chat, as lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.text import one_line, sanitize
from termchat.tui.keys import CHAT, shown
from termchat.tui.transcript.ink import BLANK, Ink, Line
from termchat.tui.views.marks import ACCENT, MUTED, STRONG, TEXT

_INKS = {"information": Ink("accent"), "warning": Ink("warning"), "error": Ink("error", bold=True)}
_MOST_LINES = 4
_MOST_QUEUED = 3
_KEY = {key.id: shown(key.keys) for key in CHAT}
_AGAIN = f"{_KEY['continue']} starts the engine again"


def notice_lines(notices: Sequence[Notice], width: int, *, dead: bool = False) -> list[Line]:
    """What happened, and what to do about it; long texts are cut. `dead` adds the key that starts the engine again."""
    lines = [line for notice in notices for line in _notice(notice, width)]
    if dead and lines:
        lines.append(_barred(_AGAIN, ACCENT, lines[-1].runs[0][1]))
    return lines


def _notice(notice: Notice, width: int) -> list[Line]:
    ink = _INKS[notice.severity]
    said = [(line, ink) for line in wrapped(notice.message, width - 2)]
    said += [(line, TEXT) for line in wrapped(notice.hint, width - 2)]
    return [_barred(line, shade, ink) for line, shade in said]


def _barred(text: str, ink: Ink, bar: Ink) -> Line:
    return Line((("▌ ", bar), (text, ink)), "panel")


def queue_lines(queue: Iterable[str], width: int) -> list[Line]:
    """The texts that wait, the next one first."""
    texts = list(queue)
    lines = [Line((("queued  ", Ink("stamp")), (one_line(text, width - 8), MUTED))) for text in texts[:_MOST_QUEUED]]
    if len(texts) > _MOST_QUEUED:
        lines.append(Line(((f"        and {len(texts) - _MOST_QUEUED} more", MUTED),)))
    return lines


def welcome_lines(chat: Chat, width: int) -> list[Line]:
    """What an empty chat says."""
    if chat.conversation.raw:
        what = ["Raw completion: the model goes on from exactly the text you write, without a chat template."]
    else:
        what = ["Write a message below and press Enter. While the model is loading, the message waits for it."]
    if chat.conversation.system:
        what.append(f"System prompt: {chat.conversation.system}")
    lines = [BLANK, Line((("A new chat", STRONG),)), BLANK]
    lines += [Line(((line, TEXT),)) for text in what for line in wrapped(text, width)]
    lines.append(BLANK)
    for key, does in (
        (_KEY["tune"], "turn the knobs of the decoding chain, also while a reply streams"),
        (_KEY["look"], "colour every token by its probability"),
        (_KEY["sessions"], "saved chats: search them, go on with one"),
        (_KEY["models"], "models: change it in mid-chat, download more"),
        (_KEY["setup"], "system prompt, or raw completion without a template"),
        ("Ctrl+P", "everything else"),
    ):
        lines.append(Line(((f"{key:<8}", ACCENT), (one_line(does, width - 8), MUTED))))
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Foreign text on a few lines; what does not fit them is cut."""
    lines = textwrap.wrap(sanitize(text, keep=""), max(width, 10))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [lines[_MOST_LINES - 1] + " …"]
    return [one_line(line, width) for line in lines]
