"""The text around a token: a few lines of its reply, so that no view hides the sentence whose tokens it explains."""

from __future__ import annotations

from collections.abc import Sequence

from termchat.conversation.tree import Conversation, Span
from termchat.decoding.records import Token
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import MUTED, TEXT
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.pages.record import piece_of
from termchat.tui.transcript.tokens import TokenRef

_HERE = Ink("cursor", ground="panel", bold=True)
_BLOCK = 64
"""Text begins at a multiple of so many tokens, one to two before the token: the lines stay while the cursor moves."""
_MOST = 2000
"""Characters that are wrapped on either side, at most: a token of an imported chat may be a page."""


def sentence_lines(
    conversation: Conversation,
    reply: Sequence[Span],
    cursor: TokenRef | None,
    pending: Token | None,
    width: int,
    rows: int,
) -> list[Line]:
    """Render `rows` lines of the reply around the token under the cursor, the newest without one, or the one that is
    `pending` behind it. The token has marks around it. The cost does not depend on the length of the reply."""
    count = sum(span.count for span in reply)
    at = count if pending is not None else count - 1 if cursor is None else _number_of(cursor, reply)
    begin = max((at // _BLOCK - 1) * _BLOCK, 0)
    wrapper = Wrapper(width)
    if begin == 0:
        message = _message_before(conversation, reply)
        wrapper.feed(message[-_MOST:], MUTED)
    wrapper.feed(_text_between(reply, begin, at)[-_MOST:], TEXT)
    if pending is not None:
        _feed_marked(wrapper, pending.text or piece_of(pending))
    elif count:
        _feed_marked(wrapper, _text_between(reply, at, at + 1))
        wrapper.feed(_text_between(reply, at + 1, at + 2 * _BLOCK)[:_MOST], TEXT)
    lines = wrapper.lines
    middle = next((row for row, line in enumerate(lines) if any(ink == _HERE for _, ink in line.runs)), len(lines) - 1)
    first = max(min(middle - rows // 2, len(lines) - rows), 0)
    shown = lines[first : first + rows]
    return shown + [BLANK] * (rows - len(shown))


def _feed_marked(wrapper: Wrapper, text: str) -> None:
    """Feed a token's text; spaces and line breaks around it stay outside of the marks."""
    word = text.strip()
    begin = text.find(word) if word else 0
    wrapper.feed(text[:begin], TEXT)
    wrapper.feed(f"▐{word or ('⏎' if text else '∅')}▌", _HERE)
    wrapper.feed(text[begin + len(word) :], TEXT)


def _message_before(conversation: Conversation, reply: Sequence[Span]) -> str:
    """Return the message before the reply, else the end of the chat."""
    number = reply[0].node.parent if reply else conversation.leaf
    if number is None:
        return ""
    return conversation.nodes[number].written + ("" if conversation.raw else "\n")


def _number_of(cursor: TokenRef, reply: Sequence[Span]) -> int:
    """The token's number in the reply, from 0."""
    passed = 0
    for span in reply:
        if span.node.number == cursor.node:
            return passed + min(cursor.index, span.count - 1)
        passed += span.count
    return passed - 1


def _text_between(reply: Sequence[Span], begin: int, end: int) -> str:
    """The text of the tokens from `begin` to before `end`, counted over all pieces."""
    texts: list[str] = []
    passed = 0
    for span in reply:
        first, last = max(begin - passed, 0), min(end - passed, span.count)
        texts += span.node.tokens.texts[first : max(first, last)]
        passed += span.count
    return "".join(texts)
