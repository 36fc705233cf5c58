"""A turn of the path as it is read: its text with what belongs to each piece, the changes of settings, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from termchat.conversation.setting_changes import describe_changes, model_change
from termchat.conversation.token_marks import TokenMark, TokenMarks
from termchat.conversation.tree import HEAD, Node, Role, Span, TokenColumns
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import escape

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
    """A node of the turn, and how many of its tokens are shown: None is all there are and will be. `reach`: how many of
    them the path takes; where a stop sequence swallowed tokens and the chat goes on, all are read but not all reached."""

    node: Node
    taken: int | None
    reach: int | None = None

    @property
    def shown(self) -> int:
        """How many of the node's tokens are shown as yet."""
        there = len(self.node.tokens)
        return there if self.taken is None else min(self.taken, there)


class TurnText(NamedTuple):
    """Text of a turn. Where tokens make it, `tokens` are those of their node, and `begin` is how many characters of theirs
    come before it. `thought`: it is a part of the thoughts, which stand before all else. `language`: that of code, where a
    constraint has the reply be code and no Markdown."""

    text: str
    tokens: TokenColumns | None = None
    begin: int = 0
    thought: bool = False
    language: str = ""


class Mark(NamedTuple):
    """A change of settings: after how many characters and tokens of the turn, and what changed. `token` is -1 where it is
    anything else."""

    offset: int
    token: int
    text: str


def parts_of(spans: list[Span]) -> tuple[Part, ...]:
    """Make parts of the spans of one turn; the same nodes with the same counts compare equal."""
    return tuple(_part(span.node, span.count) for span in spans)


def _part(node: Node, count: int) -> Part:
    if node.role == "user" or count >= len(node.ids):
        return Part(node, None)
    return Part(node, None if count >= node.count_kept() else count, count)


class TurnSource:
    """One turn, read as far as it has come. A reply that was stopped and continued is one turn in several parts.

    `whole`: it looks for loops and for end tokens that were ignored, too.
    """

    def __init__(self, parts: tuple[Part, ...], *, whole: bool = False) -> None:
        self.parts = parts
        self.length = 0
        self.tokens = 0
        self.marks: list[Mark] = []
        self.forced: list[tuple[int, int]] = []
        """The first character of each text that a person forced, and the one behind it."""
        self._part = self._part_begin = 0
        self._taken = 0
        self._settings_seen = 0
        self._drawn_with: SettingsRecord | None = None
        self._newest: SettingsRecord | None = None
        self._pending_read = False
        self._model_read = False
        self._token_marks = TokenMarks() if whole else None

    @property
    def role(self) -> Role:
        return self.parts[0].node.role

    @property
    def done(self) -> bool:
        node, taken, _ = self.parts[-1]
        return node.done or taken is not None

    def read(self) -> Iterator[TurnText]:
        """Yield the text that came since the last time, whole tokens at a time."""
        while True:
            node, taken, _ = self.parts[self._part]
            if node.role == "user" and not self._taken:
                self._taken = 1
                self.length += len(node.written)
                yield TurnText(node.written)
            tokens = node.tokens
            stop = self.parts[self._part].shown
            if tokens.unsure and not node.done:
                stop = 0  # what follows says whether it is a thought
            self._read_settings(node, self._taken)
            while (begin := self._taken) < stop:  # as far as the settings are the same, and the phase
                self._drawn_with = self._newest
                thought = begin < tokens.thought
                ends = [tokens.thought] if thought else []
                self._taken = min([*node.settings_at[self._settings_seen :][:1], *ends, stop])
                self.tokens += self._taken - begin
                text = tokens.texts.join_texts(self._taken, begin)
                told = TurnText(text, tokens, self.length - self._part_begin, thought, self._language)
                self._read_forced(tokens, begin)
                if self._token_marks is not None:
                    self._mark(self._token_marks.read(tokens, begin, self._taken, self._part_begin))
                self.length += len(text)
                yield told
                self._read_settings(node, self._taken)
            if self._part == len(self.parts) - 1:
                break
            if rest := read_rest(self.parts[self._part]):
                self.length += len(rest)
                yield TurnText(rest)
            self._part, self._taken, self._settings_seen = self._part + 1, 0, 0
            self._part_begin = self.length
        if self.done and self._token_marks is not None:
            self._mark(self._token_marks.finish_marks())
        if node.role == "assistant" and node.done and taken is None and not self._pending_read:
            self._pending_read = True
            self.length += len(node.pending)
            yield TurnText(node.pending)

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        """The first character of each repeated text, and the one behind it."""
        return self._token_marks.list_loops() if self._token_marks is not None else ()

    def title(self, *, raw: bool = False) -> tuple[str, str]:
        """Return the speaker and a remark; for a piece of a raw text only the unusual."""
        if self.parts[0].node.number == HEAD:
            return "system prompt", "" if self.parts[0].node.written else "none"
        if self.role == "user":
            omitted = self.parts[0].node.omitted
            return "" if raw else "you", str(omitted) if omitted is not None else ""
        node = self.parts[0].node
        if node.start is None:
            return "" if raw else "model", ""
        drawn = not raw and (not node.done or node.settings)  # a reply that was taken in as text was drawn elsewhere
        told = [f"seed {node.start.seed}"] if drawn else []
        if forced := sum(bytes(part.node.tokens.by_hand[: part.shown]).count(1) for part in self.parts):
            told.append(f"{forced} forced token{'s' if forced > 1 else ''}")
        if near := sum(part.node.tokens.near_ties[: part.shown].count(1) for part in self.parts):
            of = sum(len(part.node.tokens.near_ties[: part.shown]) for part in self.parts)
            told.append(f"{near} of {of} tokens {'are near ties' if near > 1 else 'is a near tie'}")
        return "" if raw else node.start.model.name, " · ".join(told)

    def ending(self, *, running: bool) -> str:
        """Describe an end that is not the model's own; `running` says whether a turn that is not done still grows."""
        node, taken, _ = self.parts[-1]
        if node.role == "user" or taken is not None or (running and not node.done):
            return ""
        return describe_ending(node)

    def _read_forced(self, tokens: TokenColumns, begin: int) -> None:
        """Note the forced ones among the newest tokens, from `begin` on; `length` is where their text begins."""
        forced = tokens.by_hand[begin : self._taken]
        if 1 not in forced:
            return
        at = self.length
        for chosen, size in zip(forced, map(len, tokens.texts[begin : self._taken]), strict=True):
            if chosen and size:
                joins = bool(self.forced) and self.forced[-1][1] == at
                self.forced.append((self.forced.pop()[0] if joins else at, at + size))
            at += size

    @property
    def _language(self) -> str:
        """That of the next token, see `TurnText`."""
        newest = self._newest
        constraint = newest.constraint if newest is not None and not newest.constraint_dropped else None
        return "json" if constraint is not None and constraint.kind == "json_schema" else ""

    def _mark(self, marks: Iterable[TokenMark]) -> None:
        self.marks += (Mark(mark.offset, -1, mark.text) for mark in marks)

    def _read_settings(self, node: Node, upto: int) -> None:
        """Mark the changes that came before token `upto` of the node; several between two tokens are one."""
        if node.start is not None and not self._model_read:
            self._model_read = True
            if (other := model_change(node)) is not None:
                self.marks.append(Mark(0, -1, other))
        while self._settings_seen < len(node.settings) and node.settings_at[self._settings_seen] <= upto:
            self._newest = node.settings[self._settings_seen]
            self._settings_seen += 1
            if not self.tokens or self._drawn_with is None:
                self._drawn_with = self._newest
                continue
            if self.marks and self.marks[-1].token == self.tokens:
                self.marks.pop()
            changed = describe_changes(self._drawn_with, self._newest)
            if changed:
                text = f"{', '.join(changed)} at token {self.tokens}"
                self.marks.append(Mark(self.length, self.tokens, text))


def describe_ending(node: Node) -> str:
    """Describe why a reply that no longer runs ended, unless by the model's own end."""
    if node.failed is not None:
        return f"interrupted: {node.failed.message}"
    if node.finished is None:
        return "interrupted"
    detail = escape(node.finished.detail)
    return ENDINGS[node.finished.reason][0 if detail else 1].format(detail=detail)


def count_characters(parts: Sequence[Part]) -> int:
    """Count the characters of a whole turn."""
    shown = sum(len(part.node.written) + part.node.tokens.texts.start(part.shown) for part in parts)
    return shown + sum(len(read_rest(part)) for part in parts)


def read_rest(part: Part) -> str:
    """Return the text behind the last token."""
    return part.node.pending if part.taken is None else ""
