"""All turns of a chat, stacked: which line is what, and what of it is laid out.

Only what is looked at is laid out at once; the rest has estimated heights until `work_on` gets to it. What is far from where
somebody looks is let go again: only its height is kept. Whenever heights
change, a method says where the line that it was asked about stands now, so that what is read does not move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from textual.strip import Strip

from termchat.conversation.tree import HEAD, Conversation, Span
from termchat.conversation.versions import Versions
from termchat.tui.draw.ink import Line, Paint
from termchat.tui.transcript.blocks import Block, body_width
from termchat.tui.transcript.cursor.token_order import Track
from termchat.tui.transcript.heights import Heights
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.turn import Turn
from termchat.tui.transcript.turn_source import Part, parts_of

NEAR = 300
"""Lines above and below the view whose turns are kept as they are laid out."""


class Anchor(NamedTuple):
    """A character: the number of its turn, and how far into the turn's text; -1 is the title."""

    turn: int
    offset: int


class Document:
    """The chat as lines of `width` cells in one look."""

    def __init__(self, width: int, look: Look) -> None:
        self.width = width
        self.look: Look = look
        self.running = True
        self.turns: list[Turn] = []
        self.heights = Heights()
        self.track = Track(())
        self._waiting: list[int] = []
        self._built: set[int] = set()
        self.pointed: int | None = None
        """The turn that the cursor is in."""

    @property
    def height(self) -> int:
        """Lines in all; partly an estimate while not everything is laid out."""
        return self.heights.total

    def show(self, conversation: Conversation, paint: Paint, *, running: bool) -> None:
        """Reads the path; turns that are there already stay as they are. `running`: the last one may still grow."""
        versions = Versions(conversation)
        groups = groupby(conversation.find_path(), key=lambda span: span.node.role)
        parts = [parts_of(list(spans)) for _, spans in groups]
        if parts and (conversation.system or len(versions.of_prompt()[1]) > 1):
            parts.insert(0, (Part(conversation.head, None),))
        self._take(parts, paint, running=running, versions=versions, raw=conversation.raw)

    def show_reply(self, spans: Sequence[Span], paint: Paint, *, running: bool) -> None:
        """Shows one reply alone, or the end of one, without a title."""
        self._take([parts_of(list(spans))] if spans else [], paint, running=running)

    def _take(
        self,
        parts: list[tuple[Part, ...]],
        paint: Paint,
        *,
        running: bool,
        versions: Versions | None = None,
        raw: bool = False,
    ) -> None:
        """Without `versions` the turns have no titles."""
        same = 0
        while same < min(len(parts), len(self.turns)) and _is_same(self.turns[same].parts, parts[same]):
            same += 1
        self.running = running
        for turn, part in zip(self.turns, parts[:same], strict=False):
            turn.parts = part  # how far they are reached may be other
        self.turns[same:] = [
            Turn(part, self.look, body_width(self.width), first=index == 0, titled=versions is not None, raw=raw)
            for index, part in enumerate(parts[same:], same)
        ]
        self._built = {index for index in self._built if index < same}
        if versions is not None:
            self._count_versions(versions)
        self.track = Track(parts)
        if same and self.turns[same - 1].built:  # it may have been the last one until now, and running
            self.turns[same - 1].update(paint, running=self._is_running(same - 1))
        self._wait()

    def _count_versions(self, versions: Versions) -> None:
        for turn in self.turns:
            first, last = turn.parts[0].node, turn.parts[-1].node
            this, every = versions.of_prompt() if first.number == HEAD else versions.find_versions(first, last)
            turn.count_versions(this + 1, len(every))

    def resize(self, width: int) -> None:
        self.width = width
        for turn in self.turns:
            turn.resize(body_width(width))
        self._wait()

    def change_look(self, look: Look) -> None:
        self.look = look
        for turn in self.turns:
            turn.change_look(look)
        self._built = {index for index in self._built if self.turns[index].built}
        self._wait()

    def toggle_thoughts(self, number: int | None) -> bool:
        """Opens or folds the thoughts of the turn with a node, or of the last turn that has some (None); False where there are
        none."""
        for index in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[index]
            if (number is None or any(part.node.number == number for part in turn.parts)) and turn.toggle_thoughts():
                self._built.discard(index)
                self._wait()
                return True
        return False

    def update(self, number: int, paint: Paint) -> int | None:
        """Takes in what is new in a node; returns the first line that is not what it was, None if it is not shown."""
        for index in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[index]
            if any(part.node.number == number for part in turn.parts):
                break
        else:
            return None
        changed = 0
        if turn.built:
            changed = turn.update(paint, running=self._is_running(index))
        else:
            self.build(index)
        self.stack(index)
        return self.heights.top(index) + changed

    def line(self, y: int) -> Line | None:
        found = self.find(y)
        return found[0].lines[found[1]] if found is not None else None

    def strip(self, y: int, paint: Paint) -> Strip | None:
        """A line, painted; None outside, and where nothing is laid out."""
        found = self.find(y)
        return found[0].strip(found[1], paint, self.width) if found is not None else None

    def anchor(self, y: int) -> Anchor:
        """The character that begins a line."""
        index = self.heights.at(y)
        if not self.turns:
            return Anchor(0, -1)
        if self.turns[index].is_sure:
            self.build(index)
        return Anchor(index, self.turns[index].offset_at(y - self.heights.top(index)))

    def reach(self, anchor: Anchor, rows: int) -> int:
        """Lays out what stands on the line of a character and on the lines below it; returns that line."""
        if not self.turns:
            return 0
        index = min(anchor.turn, len(self.turns) - 1)
        self.build(index)
        line = self.turns[index].line_of(anchor.offset)
        self.stack(index)
        y = self.heights.top(index) + line
        self._lay(y, y + rows)
        return y

    def reach_end(self, rows: int) -> int:
        """Lays out the last lines; returns the first of them."""
        have = 0
        for index in range(len(self.turns) - 1, -1, -1):
            if have >= rows:
                break
            turn = self.turns[index]
            self.build(index)
            turn.lay_up(rows - have)
            self.stack(index)
            have += turn.height
        return max(self.height - rows, 0)

    def settle(self, y: int, rows: int) -> int:
        """Lays out what stands on these lines; returns where the first of them stands now."""
        return y if self._is_laid(y, y + rows) else self.reach(self.anchor(y), rows)

    def work_on(self, y: int, enough: Callable[[], bool]) -> tuple[int, bool]:
        """Lays out what was not looked at yet, until it is enough.

        Returns where line `y`, which must be laid out, stands now, and whether everything is laid out.
        """
        index = self.heights.at(y)
        if not self.turns:
            return 0, True
        self.build(index)
        block, line = self.turns[index].find(y - self.heights.top(index))
        while self._waiting:
            turn = self.turns[self._waiting[-1]]
            if not turn.built and not turn.is_sure:  # it may have been looked at, and let go again
                self.build(self._waiting[-1])
                if enough():  # a long one takes as long as some blocks
                    break
            if turn.is_sure or turn.lay_some(enough):
                self._waiting.pop()
                self.stack(0)
                self.tidy(self._top(index, block) + line, 0)
            if enough():
                break
        self.stack(0)
        return self._top(index, block) + line, not self._waiting

    def find(self, y: int) -> tuple[Block, int] | None:
        """The block on a line, and which of its lines that is; None where nothing is laid out."""
        index = self.heights.at(y)
        if not 0 <= y < self.height or not (self.turns[index].built or self.turns[index].is_sure):
            return None
        self.build(index)
        block, line = self.turns[index].find(y - self.heights.top(index))
        return (block, line) if line < len(block.lines) else None

    def _is_running(self, index: int) -> bool:
        return self.running and index == len(self.turns) - 1

    def build(self, index: int) -> None:
        self._built.add(index)
        self.turns[index].build(running=self._is_running(index))

    def tidy(self, y: int, rows: int) -> None:
        """Lets go of what is far from these lines, but for the turn that is pointed at; of the last turn some is kept."""
        last = len(self.turns) - 1
        for index in self._built - {self.pointed}:
            turn, top = self.turns[index], self.heights.top(index)
            if index < last and (top > y + rows + NEAR or top + turn.height < y - NEAR) and turn.is_sure:
                turn.release()
                self._built.discard(index)
            else:
                turn.forget(y - NEAR - top, y + rows + NEAR - top)

    def _top(self, index: int, block: Block) -> int:
        turn = self.turns[index]
        return self.heights.top(index) + turn.heights.top(turn.blocks.index(block))

    def _lay(self, top: int, bottom: int) -> None:
        index = self.heights.at(top)
        while index < len(self.turns) and self.heights.top(index) < bottom:
            turn, begin = self.turns[index], self.heights.top(index)
            if not turn.built:
                self.build(index)
                self.stack(index)
            if turn.lay(max(top - begin, 0), bottom - begin):
                self.stack(index)
            index += 1

    def _is_laid(self, top: int, bottom: int) -> bool:
        first, last = self.heights.at(top), self.heights.at(bottom - 1)
        return all(
            self.turns[index].is_laid(top - self.heights.top(index), bottom - self.heights.top(index))
            for index in range(first, min(last + 1, len(self.turns)))
        )

    def _wait(self) -> None:
        self._waiting = [index for index, turn in enumerate(self.turns) if not turn.is_sure]
        self.stack(0)

    def stack(self, since: int) -> None:
        self.heights.replace(since, [turn.height for turn in self.turns[since:]])


def _is_same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a.node is b.node and a.taken == b.taken for a, b in pairs)
