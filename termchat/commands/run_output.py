"""What `run` prints: replies on stdout, as text or as the record stream, and what else there is to say on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from termchat.commands.ranking_report import ranking_lines
from termchat.conversation.tree import Node
from termchat.decoding.records import UNKNOWN, Beams, Failed, Finished, Ranking, Record, Start, Token, to_json
from termchat.decoding.thinking import Phase
from termchat.decoding.walk_plan import WalkPlan
from termchat.text import sanitize


class Printer:
    """Writes replies to stdout as they come. `number` is that of the reply, from 1, and `of` how many there will be one after
    the other."""

    def __init__(self, of: int = 1) -> None:
        self.number, self.of = 1, of

    def record(self, node: Node, record: Record) -> None:
        """Write a record of a reply, if it is to be seen."""

    def failed(self, failure: Failed) -> None:
        """Writes a failure, unless the last record told it; what is there of replies goes before it."""

    def ranked(self, nodes: Mapping[int, Node], ranking: Ranking) -> None:
        """Writes what is to be known of walks that are over; the ranking was a record, too."""


class JsonPrinter(Printer):
    """Writes every record as a line of JSON: of several replies one after the other with their number, of a grid with the
    values of its cell."""

    _newest: Record | None = None

    def __init__(self, of: int = 1, plan: WalkPlan | None = None) -> None:
        super().__init__(of)
        self._cells = plan.changes if plan is not None and plan.group.kind == "grid" else ()

    def record(self, node: Node, record: Record) -> None:
        self._newest = record
        more: dict[str, Any] = {"reply": self.number} if self.of > 1 else {}
        if self._cells and not isinstance(record, (Beams, Ranking)) and record.walk is not None:
            more["cell"] = self._cells[record.walk]
        sys.stdout.write(to_json(record, **more) + "\n")
        sys.stdout.flush()

    def failed(self, failure: Failed) -> None:
        newest = self._newest
        told = isinstance(newest, Failed) and msgspec.structs.replace(newest, walk=None) == failure
        if not told:
            self.record(Node(0, None, 0, "assistant"), failure)


class TextPrinter(Printer):
    """Writes the text; on a terminal it is sanitised. Several replies have a heading each, as `head` writes several files."""

    def __init__(self, of: int = 1) -> None:
        super().__init__(of)
        self._terminal = sys.stdout.isatty()
        self._last = ""
        self._phase: Phase | None = None

    def record(self, node: Node, record: Record) -> None:
        if isinstance(record, Start) and self.of > 1:
            self._write(self._heading(f"reply {self.number} of {self.of}, seed {record.seed}", first=self.number == 1))
        elif isinstance(record, Token):
            if record.id == UNKNOWN and (self._phase, record.phase) == ("thinking", "answer"):
                self._write("" if record.text[:1] == "\n" else "\n\n")  # a server may keep the two apart
            self._phase = record.phase
            self._write(record.text)
        elif isinstance(record, Finished):
            self._write(node.pending)
            self._end(several=self.of > 1)

    def _heading(self, title: str, *, first: bool) -> str:
        gap = "" if first else "\n"
        return f"{gap}==> {title} <==\n"

    def _end(self, *, several: bool) -> None:
        if (self._terminal or several) and not self._last.endswith("\n"):
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            shown = sanitize(text) if self._terminal else text
            sys.stdout.buffer.write(shown.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
            self._last = text


class WalksPrinter(TextPrinter):
    """Writes walks one after the other: the first as it comes, the others when it is their turn."""

    def __init__(self, plan: WalkPlan) -> None:
        super().__init__()
        self._plan = plan
        self._turn = 0
        self._waiting: defaultdict[int, list[str]] = defaultdict(list)
        self._over: set[int] = set()

    def record(self, node: Node, record: Record) -> None:
        walk = None if isinstance(record, (Beams, Ranking)) else record.walk
        if walk is None:
            return
        if isinstance(record, Start):
            named = ", ".join(filter(None, (self._plan.label_walk(walk), f"seed {record.seed}")))
            self._waiting[walk].append(
                self._heading(f"walk {walk + 1} of {self._plan.group.size}, {named}", first=not walk)
            )
        elif isinstance(record, Token):
            self._waiting[walk].append(record.text)
        elif isinstance(record, (Finished, Failed)):
            self._waiting[walk].append(node.pending)
            self._over.add(walk)
        self._print()

    def failed(self, failure: Failed) -> None:
        """Walks that have no end are written as far as they came."""
        self._over |= set(range(self._plan.group.size))
        self._print()

    def _print(self) -> None:
        while self._turn < self._plan.group.size:
            self._write("".join(self._waiting.pop(self._turn, ())))
            if self._turn not in self._over:
                break
            self._end(several=True)
            self._turn += 1


class WinnerPrinter(TextPrinter):
    """Writes nothing but the best of the walks once they are over: one, or as many as the plan of a beam search says. Why they
    are the best goes to stderr."""

    def __init__(self, plan: WalkPlan) -> None:
        super().__init__()
        self._plan = plan

    def record(self, node: Node, record: Record) -> None:
        """Nothing yet."""

    def ranked(self, nodes: Mapping[int, Node], ranking: Ranking) -> None:
        searched = self._plan.group.beams is not None
        several = searched and self._plan.group.size > 1
        best = ranking.walks if searched else [walk for walk in ranking.walks[:1] if walk.score is not None]
        for place, walk in enumerate(best):
            if several:
                score = f", score {walk.score:.4f}" if walk.score is not None else ""
                self._write(self._heading(f"beam {place + 1} of {len(best)}{score}", first=not place))
            self._write(nodes[walk.walk].text())
            self._end(several=several)
        say(*ranking_lines(self._plan, nodes, ranking))


def printer_of(plan: WalkPlan | None, replies: int, *, as_json: bool) -> Printer:
    if as_json:
        return JsonPrinter(replies, plan)
    if plan is None:
        return TextPrinter(replies)
    return WalksPrinter(plan) if plan.group.kind in ("walks", "grid") else WinnerPrinter(plan)


def complain(message: str, hint: str = "") -> None:
    say(f"termchat: {message}", *([f"  {hint}"] if hint else []))


def say(*lines: str) -> None:
    """Lines on stderr."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        for line in lines:
            print(sanitize(line), file=sys.stderr)


def drop_stdout() -> None:
    """Discards what is still in the buffer, which would fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
