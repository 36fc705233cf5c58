"""One turn of the chat: title, body and end as blocks, stacked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from textual.strip import Strip

from termchat.conversation.thoughts import count_thought, is_thinking, thoughts_of
from termchat.conversation.tree import Role, Span
from termchat.tui.draw.ink import Ink, Line, Paint
from termchat.tui.transcript.blocks import Block, EndingBlock, FoldBlock, TextBlock
from termchat.tui.transcript.body import Body, PlainBody, ReadingBody
from termchat.tui.transcript.cursor.token_cells import BlockCells, Spot, TurnPlaces
from termchat.tui.transcript.heights import Heights
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.title import NoTitle, Title, TitleBlock, TitledWalk
from termchat.tui.transcript.turn_source import Part, TurnSource, size_of

USER_GROUND = "surface"
MOST_READ = 500_000
"""Characters of the longest reply that is read as Markdown: that takes some tens of milliseconds."""
TOO_LONG = f"shown as plain text: more than {MOST_READ:,} characters, too long for Markdown"
_MAY_CHANGE = 2
"""Blocks at the end of those that are finished which may still get a mark or lose the caret."""
TITLES = {"user": Ink("user", bold=True), "assistant": Ink("reply")}


class Turn:
    """A turn, laid out for one width and look. Until `build` it is nothing but a height: an estimate, or after `release` what
    it was.

    A turn of a `raw` chat is a piece of one text: its title, if it has one, says only what is not as usual.

    Blocks before `_settled` never change again; whatever stands after them is looked at anew by `update`.
    """

    def __init__(
        self, parts: tuple[Part, ...], look: Look, width: int, *, first: bool, titled: bool = True, raw: bool = False
    ) -> None:
        self.parts = parts
        self.first, self.titled, self.raw = first, titled, raw
        self.version = (1, 1)
        """Which of how many versions of the turn it is."""
        self.built = False
        self.unfolded = False
        """Whether a person opened the thoughts."""
        self._folded: bool | None = None
        self.blocks: list[Block] = []
        self.heights = Heights()
        self._look, self._width = look, width
        self._places: TurnPlaces | None = None
        self._read_by: TurnSource | None = None
        self._body: Body = PlainBody()
        self._text = ""
        self._settled = 0
        self._kept: tuple[int, ...] = ()
        self._is_read = self._is_long = False
        self._size = size_of(parts)
        """Characters, while it is not built: then it does not grow."""
        self._estimate = self._guess()

    @property
    def places(self) -> TurnPlaces:
        if self._places is None:
            self._places = TurnPlaces(self.parts)
        return self._places

    @property
    def _role(self) -> Role:
        return self.parts[0].node.role

    @property
    def _source(self) -> TurnSource:
        if self._read_by is None:
            self._read_by = TurnSource(self.parts, whole=True)
        return self._read_by

    @property
    def text(self) -> str:
        """The text of a turn that is built, put together when somebody wants it."""
        if len(self._text) != self._source.length:
            self._text = "".join(told.text for told in TurnSource(self.parts).read())
        return self._text

    @property
    def forced(self) -> Sequence[tuple[int, int]]:
        """The first character of each text that a person forced, and the one behind it."""
        return self._source.forced

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        """The same of each text that is there again and again."""
        return self._source.loops

    @property
    def height(self) -> int:
        """Its lines; an estimate as far as it never was laid out."""
        return self.heights.total if self.built else self._estimate

    def build(self, *, running: bool) -> None:
        """Reads the turn and makes its blocks, without laying them out."""
        if self.built:
            return
        self.built = True
        self._is_read, self._is_long = self._how()
        ground = USER_GROUND if self._role == "user" else ""
        self._folded = self._fold()
        self._body = self._reading() if self._is_read else PlainBody(self._look, ground=ground)
        self.blocks, self._settled = [self._title()], 1
        self._read(running)
        for block, height in zip(self.blocks, self._kept, strict=False):
            block.known = self._width, height
        self._kept = ()
        self._stack(0)

    @property
    def is_sure(self) -> bool:
        """Whether its height is no estimate."""
        return all(block.is_sure(self._width) for block in self.blocks) if self.built else bool(self._kept)

    def release(self) -> None:
        """Lets go of all but its height, which must be sure, and those of its blocks."""
        if not self.built:
            return
        self._kept = tuple(block.height(self._width) for block in self.blocks)
        self._drop()

    def forget(self, top: int, bottom: int) -> None:
        """Lets go of the lines of blocks that are not on these lines and will never change; all heights stay."""
        first, last = self.heights.at(top), self.heights.at(bottom)
        for index in (*range(1, first), *range(last + 1, self._settled - _MAY_CHANGE)):
            self.blocks[index].forget()

    def change_look(self, look: Look) -> None:
        """Another look: nothing is built, and the height is an estimate again. A person's message looks the same in all."""
        if self._role == "user":
            return
        self._look, self._kept = look, ()
        if self.built:
            self._drop()

    def toggle_thoughts(self) -> bool:
        """Opens or folds its thoughts, whose height is an estimate then; False where there are none to fold."""
        if self._fold() is None:
            return False
        self.unfolded, self._kept = not self.unfolded, ()
        if self.built:
            self._drop()
        return True

    def _fold(self) -> bool | None:
        """Whether its thoughts are folded; None while there are none, or while they are not over."""
        if self._role == "user" or not any(count_thought(part.node, part.shown) for part in self.parts):
            return None
        return None if is_thinking(self.parts[-1].node) else not self.unfolded

    def _reading(self) -> ReadingBody:
        spans = [Span(part.node, part.shown) for part in self.parts]
        thoughts = thoughts_of(spans) if self._folded is not None else None
        if thoughts is None:
            return ReadingBody()
        end = sum(span.node.tokens.texts.start(count_thought(span.node, span.count)) for span in spans)
        folded = bool(self._folded)
        return ReadingBody(FoldBlock(end, str(thoughts), self.parts[-1].node.number, folded=folded), folded=folded)

    def _drop(self) -> None:
        self._estimate, self._size = self.heights.total, size_of(self.parts)
        self.built, self.blocks, self.heights, self._settled = False, [], Heights(), 0
        self._places = self._read_by = None
        self._body, self._text = PlainBody(), ""

    def count_versions(self, number: int, versions: int) -> None:
        """It is this one of so many versions from now on; where that changes its head, it has to be laid out again."""
        if self.version == (number, versions):
            return
        self.version = number, versions
        if self.built:
            self.blocks[0] = self._title()
            self._stack(0)
        self._kept = ()

    def resize(self, width: int) -> None:
        """Another width: all heights are estimates again."""
        self._width, self._kept = width, ()
        if self.built:
            self._stack(0)
        else:
            self._estimate = self._guess()

    def update(self, paint: Paint, *, running: bool) -> int:
        """Takes in what is new and lays it out; returns the first line that is not what it was."""
        if self._is_read and self._folded != self._fold():  # the thoughts are over
            self._drop()
            self.build(running=running)
            for block in self.blocks:
                block.lay(self._width)
            self._stack(0)
            return 0
        keep = min(self._settled, len(self.blocks))
        title = self._titled()
        before: list[tuple[Line, Strip | None]] = []
        if title != (self.blocks[0].title if isinstance(self.blocks[0], TitleBlock) else None):
            self.blocks[0] = self._title()
            keep = 0
        if keep > 1:
            keep -= 1  # a mark may have come behind the last character of a block that was finished
        for block in self.blocks[keep:]:
            before += block.painted(paint)
        self._read(running)
        for block in self.blocks[keep:]:
            block.lay(self._width)
        self._stack(keep)
        return self.heights.top(keep) + self._adopt(keep, before, paint)

    def lay(self, top: int, bottom: int) -> bool:
        """Lays out what stands on these lines; whether that changed the turn's height."""
        height = self.heights.total
        index = self.heights.at(top)
        while index < len(self.blocks) and self.heights.top(index) < bottom:
            if self.blocks[index].width != self._width:
                self.blocks[index].lay(self._width)
                self._stack(index)
            index += 1
        return self.heights.total != height

    def lay_up(self, rows: int) -> None:
        """Lays out its last lines, at least so many where there are."""
        have = 0
        for index in range(len(self.blocks) - 1, -1, -1):
            if have >= rows:
                break
            self.blocks[index].lay(self._width)
            have += len(self.blocks[index].lines)
        self._stack(0)

    def lay_some(self, enough: Callable[[], bool]) -> bool:
        """Lays out blocks whose height is an estimate until it is enough; whether none is left."""
        for block in reversed(self.blocks):
            if not block.is_sure(self._width):
                block.lay(self._width)
                if enough():
                    break
        self._stack(0)
        return self.is_sure

    def is_laid(self, top: int, bottom: int) -> bool:
        """Whether it is sure what stands on these lines: it is laid out, or was and can be again without moving anything."""
        if not self.built:
            return bool(self._kept)
        first, last = self.heights.at(max(top, 0)), self.heights.at(bottom - 1)
        return all(block.is_sure(self._width) for block in self.blocks[first : last + 1])

    def find(self, y: int) -> tuple[Block, int]:
        """The block on a line, and which of its lines that is."""
        index = self.heights.at(y)
        block = self.blocks[index]
        if block.is_sure(self._width):
            block.lay(self._width)
        return block, y - self.heights.top(index)

    def spots(self, part: int, index: int) -> list[Spot]:
        """Where a token of a part is painted, in a token look; those blocks get laid out."""
        spots = self.places.spots(self.blocks, self._width, self.places.number(part, index))
        for spot in spots:
            spot.block.lay(self._width)
        self._stack(0)
        return spots

    def row(self, spot: Spot) -> int:
        return self.heights.top(self.blocks.index(spot.block)) + spot.block.row(spot.line)

    def cells(self, block: TextBlock) -> BlockCells:
        """Which cells of a block, which gets laid out, are which token's."""
        block.lay(self._width)
        self._stack(0)
        return self.places.of(block, self._width)

    def offset_at(self, y: int) -> int:
        """The character that begins a line; a guess where nothing is laid out. -1 is the title."""
        if not self.built:
            return self._size * y // self._estimate if y > 1 else -1
        block, line = self.find(y)
        return block.offset_at(line, self._width)

    def line_of(self, offset: int) -> int:
        """The line that holds a character; its block gets laid out."""
        index = max(bisect_right(self.blocks, offset, key=lambda block: block.start) - 1, 0)
        self.blocks[index].lay(self._width)
        self._stack(index)
        return self.heights.top(index) + self.blocks[index].line_of(offset)

    def _how(self) -> tuple[bool, bool]:
        """Whether it is shown as Markdown, and whether it would be if it were shorter."""
        wanted = self._look == "reading" and self._role == "assistant"
        is_long = size_of(self.parts) > MOST_READ
        return wanted and not is_long, wanted and is_long

    def _guess(self) -> int:
        return self._size // max(self._width, 1) + 3

    def _titled(self) -> Title | None:
        if not self.titled:
            return None
        title = Title(*self._source.title(raw=self.raw), self.parts[-1].node.number, *self.version, self._walk())
        return title if title.name or title.remark or title.versions > 1 or title.walk is not None else None

    def _walk(self) -> TitledWalk | None:
        """The newest group that a part of it belongs to."""
        grouped = (part.node for part in reversed(self.parts) if part.node.group is not None)
        node = next(grouped, None)
        if node is None or (group := node.group) is None:
            return None
        walk = node.walk or 0
        return TitledWalk(walk, max(group.size, walk + 1), group.number)

    def _title(self) -> Block:
        title = self._titled()
        if title is None:
            return NoTitle(-1, -1)
        user = self._role == "user"
        return TitleBlock(
            title,
            TITLES[self._role],
            gap=not self.first and not self.raw,
            ground=USER_GROUND if user else "",
        )

    def _read(self, running: bool) -> None:
        """Reads on, and puts new blocks in the place of those that were open."""
        source, body = self._source, self._body
        for told in source.read():
            body.feed(told)
        done = source.done or not running
        old_settled = self._settled
        was_open = self.blocks[self._settled :]
        del self.blocks[self._settled :]
        self.blocks += body.finished()
        self._settled = len(self.blocks)
        for index, block in enumerate(body.open(done=done)):  # what did not change is laid out already
            before = was_open[index] if index < len(was_open) else block
            self.blocks.append(before if before == block else block)
        if len(self.blocks) > 1 and self._look == "reading" and old_settled == 1:
            self.blocks[1].gap = False
        self._put_caret(old_settled, not done)
        self._put_marks(max(old_settled - 1, 1))
        for word in (TOO_LONG if self._is_long else "", source.ending(running=running)):
            if word:
                self.blocks.append(EndingBlock(source.length, word))

    def _put_caret(self, since: int, wanted: bool) -> None:
        if wanted and len(self.blocks) == self._settled:
            self.blocks.append(TextBlock(self._source.length))
        for block in self.blocks[since:]:
            caret = wanted and block is self.blocks[-1]
            if block.caret != caret:
                block.caret, block.width = caret, 0

    def _put_marks(self, since: int) -> None:
        """Gives each block the marks that come after its first character and not after the next block's."""
        marks = self._source.marks
        for index in range(since, len(self.blocks)):
            block = self.blocks[index]
            begin = bisect_right(marks, block.start, key=lambda mark: mark.offset) if index > 1 else 0
            end = len(marks)
            if index + 1 < len(self.blocks):
                end = bisect_right(marks, self.blocks[index + 1].start, key=lambda mark: mark.offset)
            if tuple(block.marks) != tuple(marks[begin:end]):
                block.marks, block.width = tuple(marks[begin:end]), 0

    def _adopt(self, since: int, before: list[tuple[Line, Strip | None]], paint: Paint) -> int:
        """Takes over the strips of lines that stayed; how many did, from the top."""
        same = 0
        for block in self.blocks[since:]:
            for index, line in enumerate(block.lines):
                if same >= len(before) or before[same][0] != line:
                    return same
                block.adopt(index, before[same][1], paint)
                same += 1
        return same

    def _stack(self, since: int) -> None:
        self.heights.replace(since, [block.height(self._width) for block in self.blocks[since:]])
