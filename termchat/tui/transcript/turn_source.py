"""A turn of the path as it is read: its text, the changes of settings and other marks in it, and its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from termchat.conversation.setting_changes import describe_changes, model_change
from termchat.conversation.thoughts import count_thought
from termchat.conversation.token_marks import TokenMark, TokenMarks
from termchat.conversation.tree import HEAD, Node, Role, Span, TokenColumns
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import escape
from termchat.tui.draw.ink import Ink, Run
from termchat.tui.transcript.looks import Look, TokenLook, token_inks

ENDINGS: dict[str, tuple[str, str]] = {
    "end": ("", ""),
    "length": ("reached {detail}", "reached max_tokens"),
    "stop": ('stop sequence "{detail}"', "stop sequence"),
    "rule": ("ended by {detail}", "ended by a rule"),
    "user": ("stopped", "stopped"),
    "context": ("context full: {detail} tokens", "context full"),
}
"""Why a reply ended: with its detail, and without. What ends normally needs no word."""


class Part(NamedTuple):
    """A node of the turn, and how many of its tokens are shown: None is all, also later ones. `reach`: how many of
    them the path takes; where a stop sequence swallowed tokens and the chat goes on, all are read but not all reached.
    `begin`: how many characters of the turn come before it."""

    node: Node
    taken: int | None
    reach: int | None = None
    begin: int = 0

    @property
    def shown(self) -> int:
        """How many of the node's tokens are shown as yet: none while the next ones decide whether they are thoughts."""
        tokens = self.node.tokens
        if tokens.unsure and not self.node.done:
            return 0
        return len(tokens) if self.taken is None else min(self.taken, len(tokens))

    @property
    def reached(self) -> int:
        """How many of the node's tokens the path takes."""
        count = len(self.node.tokens)
        return count if self.reach is None else min(self.reach, count)

    @property
    def rest(self) -> str:
        """The text behind the last token."""
        return self.node.pending if self.taken is None else ""

    @property
    def end(self) -> int:
        """How many characters of the turn come before the next part."""
        return self.begin + len(self.node.written) + self.node.tokens.texts.start(self.shown) + len(self.rest)


def parts_of(spans: Sequence[Span]) -> tuple[Part, ...]:
    """Make parts of the spans of one turn; the same nodes with the same counts compare equal."""
    parts: list[Part] = []
    for span in spans:
        node, taken, reach = span.node, None, None
        if node.role == "assistant" and span.count < len(node.ids):
            taken, reach = (None if span.count >= node.count_kept() else span.count), span.count
        parts.append(Part(node, taken, reach, parts[-1].end if parts else 0))
    return tuple(parts)


def join_parts(parts: Sequence[Part]) -> str:
    """Join the text of a whole turn, as far as it has come."""
    return "".join(part.node.written + part.node.tokens.texts.join_texts(part.shown) + part.rest for part in parts)


def join_rest(part: Part, since: int) -> str:
    """Join the text of the last part of a turn from character `since` of the turn on, which begins a token."""
    if since >= part.end:
        return ""
    texts, at = part.node.tokens.texts, since - part.begin - len(part.node.written)
    begin = texts.find_text(at) if at < texts.start(part.shown) else part.shown
    return texts.join_texts(part.shown, begin) + part.rest


class TurnSource:
    """One turn in a look, read as far as it has come. A reply that was stopped and continued is one turn in several parts.

    `number` is its place among the turns, from 0.
    """

    def __init__(self, parts: tuple[Part, ...], number: int = 0, look: Look = "reading") -> None:
        self.parts, self.number, self.look = parts, number, look
        self.text = ""
        """The text that has been read."""
        self.marks: list[TokenMark] = []
        self.forced: list[tuple[int, int]] = []
        """The first character of each text that a person forced, and the one behind it."""
        self._part = self._taken = 0
        """The part that is read, and how many of its tokens have been."""
        self._token_reader = TokenMarks()
        self._token_marks: list[TokenMark] = []
        self._changes: list[TokenMark] = []
        self._records = [(False, 0)]
        """Of each part whether it has begun, and its number of settings records, as of `_changes`."""

    @property
    def role(self) -> Role:
        return self.parts[0].node.role

    @property
    def done(self) -> bool:
        return self.parts[-1].node.done or self.parts[-1].taken is not None

    @property
    def thought_end(self) -> int:
        """How many characters of the text are thoughts, which stand before all else."""
        counts = [(part, count_thought(part.node, part.shown)) for part in self.parts]
        return max((part.begin + part.node.tokens.texts.start(count) for part, count in counts if count), default=0)

    @property
    def language(self) -> str:
        """The language of an answer that a constraint has be code and no Markdown, else ""."""
        for part in self.parts:
            if (thought := count_thought(part.node, part.shown)) < part.shown:
                settings = part.node.settings_before(thought)
                constraint = settings.constraint if settings is not None and not settings.constraint_dropped else None
                return "json" if constraint is not None and constraint.kind == "json_schema" else ""
        return ""

    def read(self) -> None:
        """Read the text that came since the last time, whole tokens at a time."""
        self.text = self.text or self.parts[0].node.written
        while True:
            part, begin = self.parts[self._part], self._taken
            self._taken = part.shown
            if begin < self._taken:
                self._read_forced(part.node.tokens, begin)
                self._token_marks += self._token_reader.read(part.node.tokens, begin, self._taken, part.begin)
            self.text += join_rest(part, len(self.text))
            if self._part == len(self.parts) - 1:
                break
            self._part, self._taken = self._part + 1, 0
        if self.done:
            self._token_marks += self._token_reader.finish_marks()
        nodes = [(part.node, part.shown) for part in self.parts]
        records = [(node.start is not None, bisect_right(node.settings_at, shown)) for node, shown in nodes]
        if records != self._records:
            self._records, self._changes = records, list(self._mark_changes())
        self.marks = sorted((*self._changes, *self._token_marks), key=itemgetter(0))

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        """The first character of each repeated text, and the one behind it."""
        return self._token_reader.list_loops()

    def make_runs(self, begin: int, end: int, ink: Ink) -> Iterator[Run]:
        """Yield the characters from `begin` to `end`; in a token look each token, or part of one, in the ink of its heat."""
        for part, after in zip(self.parts, [*(part.begin for part in self.parts[1:]), end], strict=True):
            tokens, stop = part.node.tokens, min(after, end)
            behind = min(part.begin + tokens.texts.start(part.shown), stop)
            if self.look != "reading" and begin < behind:
                yield from self._make_token_runs(tokens, begin - part.begin, behind - part.begin, self.look)
                begin = behind
            if begin < stop:
                yield self.text[begin:stop], ink
                begin = stop

    def _make_token_runs(self, tokens: TokenColumns, begin: int, end: int, look: TokenLook) -> Iterator[Run]:
        """Yield the texts of a node's tokens from one of its characters to another; forced tokens and near ties are marked."""
        texts = tokens.texts
        first, last = texts.find_text(begin), texts.find_text(end - 1) + 1
        pieces = texts[first:last]
        pieces[-1] = pieces[-1][: end - texts.start(last - 1)]
        pieces[0] = pieces[0][begin - texts.start(first) :]
        yield from (run for run in zip(pieces, token_inks(tokens, look, first, last), strict=True) if run[0])

    def describe_speaker(self, *, raw: bool = False) -> tuple[str, str]:
        """Return the speaker and a remark; for a piece of a raw text only the unusual."""
        node = self.parts[0].node
        if node.number == HEAD:
            return "system prompt", "" if node.written else "none"
        if self.role == "user":
            return "" if raw else "you", str(node.omitted) if node.omitted is not None else ""
        if node.start is None:
            return "" if raw else "model", ""
        drawn = not raw and (not node.done or node.settings)  # a reply that was taken in as text was drawn elsewhere
        remarks = [f"seed {node.start.seed}"] if drawn else []
        if forced := sum(bytes(part.node.tokens.by_hand[: part.shown]).count(1) for part in self.parts):
            remarks.append(f"{forced} forced token{'s' if forced > 1 else ''}")
        if near := sum(part.node.tokens.near_ties[: part.shown].count(1) for part in self.parts):
            of = sum(len(part.node.tokens.near_ties[: part.shown]) for part in self.parts)
            remarks.append(f"{near} of {of} tokens {'are near ties' if near > 1 else 'is a near tie'}")
        return "" if raw else node.start.model.name, " · ".join(remarks)

    def _read_forced(self, tokens: TokenColumns, begin: int) -> None:
        """Note the forced ones among the newest tokens, from `begin` on, whose text is read next."""
        forced = tokens.by_hand[begin : self._taken]
        if 1 not in forced:
            return
        at = len(self.text)
        for chosen, size in zip(forced, map(len, tokens.texts[begin : self._taken]), strict=True):
            if chosen and size:
                joins = bool(self.forced) and self.forced[-1][1] == at
                self.forced.append((self.forced.pop()[0] if joins else at, at + size))
            at += size

    def _mark_changes(self) -> Iterator[TokenMark]:
        """Mark another model, and the changes of settings; several between two tokens are one."""
        if (other := model_change(self.parts[0].node)) is not None:
            yield TokenMark(0, 0, other)
        newest: dict[int, tuple[int, SettingsRecord]] = {}
        drawn = 0
        for part in self.parts:
            texts = part.node.tokens.texts
            for at, settings in zip(part.node.settings_at, part.node.settings, strict=True):
                if at <= part.shown:
                    newest[drawn + at] = part.begin + texts.start(at), settings
            drawn += part.shown
        before = None
        for number, (offset, settings) in newest.items():
            if before is not None and number and (changed := describe_changes(before, settings)):
                yield TokenMark(number, offset, f"{', '.join(changed)} at token {number}")
            before = settings


def describe_ending(node: Node) -> str:
    """Describe why a reply that no longer runs ended, unless by the model's own end."""
    if node.failed is not None:
        return f"interrupted: {node.failed.message}"
    if node.finished is None:
        return "interrupted"
    detail = escape(node.finished.detail)
    return ENDINGS[node.finished.reason][0 if detail else 1].format(detail=detail)
