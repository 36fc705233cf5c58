"""One turn of the chat: title, body and end as blocks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from termchat.conversation.thoughts import count_thought, is_thinking, thoughts_of
from termchat.conversation.tree import Role, Span
from termchat.tui.draw.ink import Ink
from termchat.tui.transcript.blocks import Block, EndingBlock, FoldBlock, TextBlock, TurnInks
from termchat.tui.transcript.body import Body, PlainBody, ReadingBody
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.title import Title, TitleBlock, TitledWalk
from termchat.tui.transcript.turn_source import Part, TurnSource, count_characters

USER_GROUND = "surface"
MOST_READ = 500_000
"""Characters of the longest reply that is read as Markdown: that takes some tens of milliseconds."""
TOO_LONG = f"shown as plain text: more than {MOST_READ:,} characters, too long for Markdown"
TITLES = {"user": Ink("user", bold=True), "assistant": Ink("reply")}


class UnreadBlock(Block):
    """A placeholder for the blocks of a turn that has not come near the view yet."""

    def estimate(self, width: int) -> int:
        return (self.end - self.start) // max(width, 1) + 3


class Turn:
    """A turn of the chat as blocks in one look; until `read` nothing but an estimate.

    A turn of a `raw` chat is a piece of one text: its title, if it has one, says only what is not as usual.

    Blocks before `_settled` never change again; those after them may with every `read`.
    """

    def __init__(
        self, parts: tuple[Part, ...], look: Look, *, first: bool, titled: bool = True, raw: bool = False
    ) -> None:
        self.parts = parts
        self.first, self.titled, self.raw = first, titled, raw
        self.version = (1, 1)
        """Which of how many versions of the turn it is."""
        self.unfolded = False
        """Whether a person opened the thoughts."""
        self._look = look
        self._reset()

    def _reset(self) -> None:
        """Drop all blocks."""
        self.is_read = False
        self._texts: list[str] = []
        self.blocks: list[Block] = [UnreadBlock(-1, count_characters(self.parts))]
        self._folded: bool | None = None
        self._is_markdown = False

    @property
    def role(self) -> Role:
        return self.parts[0].node.role

    @property
    def text(self) -> str:
        """The text that has been read."""
        if len(self._texts) != 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def forced(self) -> Sequence[tuple[int, int]]:
        """The first character of each text that a person forced, and the one behind it."""
        return self._source.forced

    @property
    def loops(self) -> Sequence[tuple[int, int]]:
        """The same of each text that is there again and again."""
        return self._source.loops

    def read(self, *, running: bool) -> int:
        """Read on into blocks; return the index of the first block that may have changed."""
        if self.is_read and self._is_markdown and self._folded != self._fold():  # the thoughts are over
            self._reset()
        if not self.is_read:
            self.is_read = True
            self._source = TurnSource(self.parts, whole=True)
            wanted = self._look == "reading" and self.role == "assistant"
            self._is_long = wanted and count_characters(self.parts) > MOST_READ
            self._is_markdown = wanted and not self._is_long
            self._folded = self._fold()
            ground = USER_GROUND if self.role == "user" else ""
            self._body: Body = self._reading() if self._is_markdown else PlainBody(self._look, ground=ground)
            self.blocks, self._settled = [self._title()], 1
            self._extend(running)
            return 0
        keep = min(self._settled, len(self.blocks))
        title = self.blocks[0]
        if self._titled() != (title.title if isinstance(title, TitleBlock) else None):
            self.blocks[0] = self._title()
            keep = 0
        self._extend(running)
        return keep - 1 if keep > 1 else keep  # a mark may have come behind the last character of a finished block

    def change_look(self, look: Look) -> None:
        """Show it in another look. A person's message looks the same in all."""
        self._look = look
        if self.role != "user":
            self._reset()

    def toggle_thoughts(self) -> bool:
        """Open or fold its thoughts; return False without any."""
        if self._fold() is None:
            return False
        self.unfolded = not self.unfolded
        self._reset()
        return True

    def _fold(self) -> bool | None:
        """Return True if its thoughts are folded; None without any, or while they are not over."""
        if self.role == "user" or not any(count_thought(part.node, part.shown) for part in self.parts):
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

    def count_versions(self, number: int, versions: int) -> None:
        """Show in its head that it is version `number` of so many."""
        if self.version != (number, versions):
            self.version = number, versions
            if self.is_read:
                self.blocks[0] = self._title()

    def _titled(self) -> Title | None:
        if not self.titled:
            return None
        title = Title(*self._source.title(raw=self.raw), self.parts[-1].node.number, *self.version, self._walk())
        return title if title.name or title.remark or title.versions > 1 or title.walk is not None else None

    def _walk(self) -> TitledWalk | None:
        """Find the newest group that a part of it belongs to."""
        grouped = (part.node for part in reversed(self.parts) if part.node.group is not None)
        node = next(grouped, None)
        if node is None or (group := node.group) is None:
            return None
        walk = node.walk or 0
        return TitledWalk(walk, max(group.size, walk + 1), group.number)

    def _title(self) -> TitleBlock:
        ground = USER_GROUND if self.role == "user" else ""
        return TitleBlock(self._titled(), TITLES[self.role], gap=not self.first and not self.raw, ground=ground)

    def _extend(self, running: bool) -> None:
        """Read on, and put new blocks in the place of open ones."""
        source, body = self._source, self._body
        for piece in source.read():
            self._texts.append(piece.text)
            body.feed(piece)
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
            self.blocks.append(TextBlock(TurnInks(), self._source.length))
        for block in self.blocks[since:]:
            caret = wanted and block is self.blocks[-1]
            if block.caret != caret:
                block.caret, block.width = caret, 0

    def _put_marks(self, since: int) -> None:
        """Give each block the marks that come after its first character and not after the next block's."""
        marks = self._source.marks
        for index in range(since, len(self.blocks)):
            block = self.blocks[index]
            begin = bisect_right(marks, block.start, key=lambda mark: mark.offset) if index > 1 else 0
            end = len(marks)
            if index + 1 < len(self.blocks):
                end = bisect_right(marks, self.blocks[index + 1].start, key=lambda mark: mark.offset)
            if tuple(block.marks) != tuple(marks[begin:end]):
                block.marks, block.width = tuple(marks[begin:end]), 0
