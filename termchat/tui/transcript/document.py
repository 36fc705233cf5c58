"""All turns of a chat as one stack of blocks: which line is what, what of it is laid out, and which lines are in view.

Only what is looked at is read and laid out at once; the rest has estimated heights until `lay_more` gets to it. What is laid
out stays so. The line at the top of the view stays there when heights above it change: `top` is its number now.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from termchat.conversation.tree import HEAD, Conversation, Span
from termchat.conversation.versions import Versions
from termchat.tui.draw.ink import MARGIN, Line
from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.tokens import Track
from termchat.tui.transcript.turn import Turn
from termchat.tui.transcript.turn_source import Part, parts_of


class Anchor(NamedTuple):
    """A character: the number of its turn, and how far into the turn's text; -1 is the title."""

    turn: int
    offset: int


class Document:
    """The chat as lines of `width` cells in one look, of which the `rows` from line `top` on are in view."""

    def __init__(self, width: int, look: Look) -> None:
        self.width = width
        self.look: Look = look
        self.rows, self.top = 1, 0
        self.running = True
        self.conversation: Conversation | None = None
        self.turns: list[Turn] = []
        self.blocks: list[Block] = []
        self.tops = [0]
        """The first line of each block, and behind them the number of lines."""
        self.track = Track(())

    @property
    def height(self) -> int:
        """Lines in all; partly an estimate while not everything is laid out."""
        return self.tops[-1]

    def show(self, conversation: Conversation, *, running: bool) -> None:
        """Read the path; turns that have been read stay as they are. `running`: the last one may still grow."""
        versions = Versions(conversation)
        groups = groupby(conversation.find_path(), key=lambda span: span.node.role)
        parts = [parts_of(list(spans)) for _, spans in groups]
        if parts and (conversation.system or len(versions.of_prompt()[1]) > 1):
            parts.insert(0, (Part(conversation.head, None),))
        self.conversation = conversation
        self._show_turns(parts, running=running, versions=versions, raw=conversation.raw)

    def show_reply(self, spans: Sequence[Span], *, running: bool) -> None:
        """Show one reply alone, or the end of one, without a title."""
        self._show_turns([parts_of(spans)] if spans else [], running=running)

    def _show_turns(
        self, parts: list[tuple[Part, ...]], *, running: bool, versions: Versions | None = None, raw: bool = False
    ) -> None:
        """Replace the turns from the first that differs on. Without `versions` they have no titles."""
        same = 0
        for turn, part in zip(self.turns, parts, strict=False):
            if [(one.node, one.taken) for one in turn.parts] != [(one.node, one.taken) for one in part]:
                break
            turn.source.parts = part  # how far they are reached may be other
            same += 1
        self.running = running
        self.turns[same:] = [
            Turn(part, number, titled=versions is not None, raw=raw) for number, part in enumerate(parts[same:], same)
        ]
        if versions is not None:
            for turn in self.turns:
                first, last = turn.parts[0].node, turn.parts[-1].node
                this, every = versions.of_prompt() if first.number == HEAD else versions.find_versions(first, last)
                turn.show_version(this + 1, len(every))
        self.track = Track(parts)
        self._stack_turns()
        if same and self.turns[same - 1].is_read:  # it may have been the last one until now, and running
            self._read_on(same - 1)

    def resize(self, width: int) -> None:
        self.width = width
        self._stack(0)

    def change_look(self, look: Look) -> None:
        self.look = look
        for turn in self.turns:
            if turn.source.role != "user":  # a person's message looks the same in all
                turn.reset()
        self._stack_turns()

    def toggle_thoughts(self, number: int | None) -> bool:
        """Open or fold the thoughts of the turn with a node, or of the last turn that has some (None); False without any."""
        for turn in reversed(self.turns):
            if (number is None or any(part.node.number == number for part in turn.parts)) and turn.toggle_thoughts():
                self._stack_turns()
                return True
        return False

    def update(self, number: int) -> int | None:
        """Read on in a node; return the first line that changed, None if the node is not shown."""
        for turn in reversed(self.turns):
            if any(part.node.number == number for part in turn.parts):
                return self._read_on(turn.source.number)
        return None

    def _read_on(self, number: int) -> int:
        """Read on in a turn, and lay out its new blocks if it was read before; return the first line that changed."""
        turn, begin, behind = self.turns[number], self._first(number), self._first(number + 1)
        was_read, before, end = turn.is_read, turn.blocks[:], self.tops[behind]
        keep = turn.read(self.look, running=self.running and number == len(self.turns) - 1)
        old = [line for block in before[keep:] for line in block.lines]
        for block in turn.blocks[keep:] if was_read else ():
            block.lay(self._room)
        self.blocks[begin + keep : behind] = turn.blocks[keep:]
        self._stack(begin + keep)
        if end <= self.top:
            self.top += self.tops[self._first(number + 1)] - end
        same = 0
        for block in turn.blocks[keep:]:  # lines that are as before stay the same, and painted
            for row, line in enumerate(block.lines):
                if same == len(old) or old[same] != line:
                    return self.tops[begin + keep] + same
                block.lines[row] = old[same]
                same += 1
        return self.tops[begin + keep] + same

    # --- blocks ------------------------------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """Cells for text: there is a margin at each side."""
        return max(self.width - 2 * MARGIN, 4)

    def _stack_turns(self) -> None:
        self.blocks = [block for turn in self.turns for block in turn.blocks]
        self._stack(0)

    def _first(self, number: int) -> int:
        """Return the index of a turn's first block."""
        return bisect_left(self.blocks, number, key=lambda block: block.source.number)

    def _stack(self, since: int) -> None:
        room = self._room
        heights = [len(b.lines) if b.width == room else b.estimate(room) for b in self.blocks[since:]]
        self.tops[since:] = accumulate(heights, initial=self.tops[since])

    def index_on(self, y: int) -> int:
        """Return the index of the block on line `y`; of the nearest, where `y` is outside."""
        return min(max(bisect_right(self.tops, y) - 1, 0), max(len(self.blocks) - 1, 0))

    def index_of(self, block: Block) -> int:
        return self.blocks.index(block, self._first(block.source.number))

    def line_of(self, block: Block, row: int) -> int:
        return self.tops[self.index_of(block)] + row

    def index_at(self, anchor: Anchor) -> int:
        """Read the turn of a character; return the index of the block with it."""
        self.read(anchor.turn)
        at = bisect_right(self.blocks, anchor, key=lambda block: Anchor(block.source.number, block.start)) - 1
        return max(at, self._first(anchor.turn))

    def read(self, number: int) -> None:
        """Read a turn into blocks, unless it has been."""
        if not self.turns[number].is_read:
            self._read_on(number)

    def lay(self, index: int) -> None:
        """Lay out a block of a turn that has been read."""
        self.blocks[index].lay(self._room)
        end = self.tops[index + 1]
        if by := self.tops[index] + len(self.blocks[index].lines) - end:
            self.tops[index + 1 :] = [top + by for top in self.tops[index + 1 :]]
            self.top += by if end <= self.top else 0

    def walk(self, index: int, step: int) -> Iterator[tuple[int, Block]]:
        """Go from a block down (1) or up (-1), read turns on the way, and yield each block with its index."""
        while 0 <= index < len(self.blocks):
            turn = self.turns[self.blocks[index].source.number]
            if not turn.is_read:
                self.read(turn.source.number)
                index += len(turn.blocks) - 1 if step < 0 else 0
            yield index, self.blocks[index]
            index += step

    # --- lines -------------------------------------------------------------------------------------------------------

    def find(self, y: int) -> tuple[Block, int] | None:
        """Return the block on a line, and which of its lines that is; None where nothing is laid out."""
        if not 0 <= y < self.height:
            return None
        index = self.index_on(y)
        block, row = self.blocks[index], y - self.tops[index]
        return (block, row) if block.width == self._room and row < len(block.lines) else None

    def is_laid(self, block: Block) -> bool:
        return block.width == self._room

    def line(self, y: int) -> Line | None:
        place = self.find(y)
        return place[0].lines[place[1]] if place is not None else None

    def anchor(self, y: int | None = None) -> Anchor:
        """Return the character that begins a line; without one, the first in view."""
        if not self.blocks:
            return Anchor(0, -1)
        y = self.top if y is None else y
        index = self.index_on(y)
        block = self.blocks[index]
        return Anchor(block.source.number, block.offset_at(y - self.tops[index], self._room))

    def find_line(self, anchor: Anchor) -> int:
        """Lay out the line of a character; return its number."""
        if not self.turns:
            return 0
        index = self.index_at(anchor._replace(turn=min(anchor.turn, len(self.turns) - 1)))
        self.lay(index)
        return self.tops[index] + self.blocks[index].row_of(anchor.offset)

    # --- the lines in view: all of them are laid out -----------------------------------------------------------------

    def show_line(self, y: int) -> None:
        """Bring a line to the top of the view, or as near as the end allows."""
        self.top = y if self.find(y) is not None else self.find_line(self.anchor(y))
        for index, _ in self.walk(self.index_on(self.top), 1):
            self.lay(index)
            if self.tops[index + 1] >= self.top + self.rows:
                return
        self.show_end()

    def show_end(self) -> None:
        """Bring the last lines into view."""
        for index, _ in self.walk(len(self.blocks) - 1, -1):
            self.lay(index)
            if self.height - self.tops[index] >= self.rows:
                break
        self.top = max(self.height - self.rows, 0)

    def lay_more(self, enough: Callable[[], bool]) -> bool:
        """Lay out blocks out of sight, from the last one up, until it is enough; return True once everything is laid out."""
        place, room = self.find(self.top), self._room
        last = next((at for at in range(len(self.blocks) - 1, -1, -1) if self.blocks[at].width != room), -1)
        done, first = True, 0
        for index, block in self.walk(last, -1):
            if block.width != room:
                block.lay(room)
                if enough():
                    done, first = False, index
                    break
        self._stack(first)
        if place is not None:
            self.top = self.line_of(*place)
        return done
