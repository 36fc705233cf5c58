"""Messages as a template gets them: names of control tokens in what people wrote are broken up by a character that nothing
else has, and replies whose ids are known stand between borders, by which they are found in what the template makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from termchat.engine.port import Message

_ALIKE = 5
"""Characters by which the ends of two texts are compared."""
_PRIVATE = (range(0xE000, 0xF8FF), range(0xF0000, 0xFFFFD))


def find_unused(texts: Iterable[str]) -> str:
    """Return a private-use character that no text has, nor the one that follows it."""
    used = set().union(*texts)
    return next(chr(c) for c in chain(*_PRIVATE) if not {chr(c), chr(c + 1)} & used)


def break_names(text: str, names: re.Pattern[str], mark: str) -> str:
    """Put the mark inside every name of a text."""
    # Breaking one name may leave another (a name inside or across a name), but none that begins before it.
    parts, at = [], 0
    while (match := names.search(text, at)) is not None:
        parts.append(text[at : match.start() + 1])
        at = match.start() + 1
    return mark.join([*parts, text[at:]])


class MarkedMessages:
    """`messages` with the `mark` inside every one of the `names`, and the replies with these numbers between borders."""

    def __init__(
        self, messages: Sequence[Message], names: re.Pattern[str] | None, replies: Mapping[int, Sequence[int]]
    ) -> None:
        self.mark = find_unused(message.content + message.thinking for message in messages)
        border = chr(ord(self.mark) + 1)
        self._border, self._bordered = border, re.compile(f"{border}([0-9]{{1,9}}){border}([^{border}]*){border}")
        self._contents: dict[int, str] = {}
        self.messages: list[Message] = []
        for number, message in enumerate(messages):
            content, thinking = (
                break_names(text, names, self.mark) if names is not None else text
                for text in (message.content, message.thinking)
            )
            if number in replies:
                self._contents[number] = content
                content = f"{border}{number}{border}{content}{border}"
            self.messages.append(msgspec.structs.replace(message, content=content, thinking=thinking))

    def cut_parts(self, text: str) -> list[str | int]:
        """Cut a rendered text where replies stand unchanged: text, the number of a reply, text, … text."""
        parts: list[str | int] = []
        at = 0
        for match in self._bordered.finditer(text):
            if self._contents.get(int(match[1])) == match[2]:
                parts += [text[at : match.start()], int(match[1])]
                at = match.end()
        return [*parts, text[at:]]

    def find_lost(self, parts: Iterable[str | int]) -> set[int]:
        """Return the replies that the template left out, repeated, or changed: their borders must not be there."""
        numbers = [part for part in parts if isinstance(part, int)]
        lost = {number for number in self._contents if numbers.count(number) != 1}
        stray = any(isinstance(part, str) and self._border in part for part in parts)
        return lost or set(self._contents if stray else ())


def ids_of_replies(messages: Iterable[Message], spell: Callable[[int], bytes], n_vocab: int) -> dict[int, list[int]]:
    """Return the ids of the contents of replies, by number: behind thoughts the last ids that spell just the content. Replies
    with ids that the vocabulary lacks, as a foreign transcript may have them, are left out."""
    ids_by_number = {}
    for number, message in enumerate(messages):
        if message.content and message.ids and min(message.ids) >= 0 and max(message.ids) < n_vocab:
            ids_by_number[number] = _find_spelling(message, spell) if message.thinking else message.ids
    return {number: ids for number, ids in ids_by_number.items() if ids}


def _find_spelling(message: Message, spell: Callable[[int], bytes]) -> list[int]:
    content, size = message.content.encode("utf-8", "surrogatepass"), 0
    for at in range(len(message.ids) - 1, -1, -1):
        size += len(spell(message.ids[at]))
        if size >= len(content):
            ids = message.ids[at:]
            return ids if b"".join(map(spell, ids)) == content else []
    return []


def as_drawn(before: str, prompt: str) -> str:
    """Replace the blanks at the end of a template's text before a reply by those of the `prompt`, behind which replies are
    drawn: a space that the template writes before the text of a reply is the reply's own."""
    end, drawn = before.rstrip(), prompt.rstrip()
    return end + prompt[len(drawn) :] if end[-_ALIKE:] == drawn[-_ALIKE:] else before
