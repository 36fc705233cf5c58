"""One turn of the chat as blocks: its title, its text, and why it ended."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rich.cells import cell_len

from termchat.conversation.thoughts import count_thought, is_thinking, thoughts_of
from termchat.conversation.tree import Span
from termchat.tui.draw.ink import Ink, Run, doing
from termchat.tui.draw.marks import FAINT, MUTED
from termchat.tui.transcript.blocks import Block, NoteBlock, TextBlock
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.turn_source import Part, TurnSource, describe_ending

if TYPE_CHECKING:
    from termchat.tui.transcript.chunks import Splitter

ENOUGH = 1000
"""Characters after which a block of plain text ends with its line."""

MUCH = 200_000
"""Characters of a turn after which its blocks are longer, so that there are never many thousands: a line ends one after"""

LONGEST = 4000
"""characters. After as many any block ends at a space; at twice as many it ends anywhere."""

MOST_READ = 500_000
"""Characters of the longest reply that is read as Markdown: that takes some tens of milliseconds."""
TOO_LONG = f"shown as plain text: more than {MOST_READ:,} characters, too long for Markdown"

TITLES = {"user": Ink("user", bold=True), "assistant": Ink("reply")}
ENDING = MUTED._replace(italic=True)
THOUGHT = MUTED._replace(italic=True)
THOUGHT_BAR: Run = ("▎ ", FAINT)
_BETWEEN: Run = (" · ", MUTED)


class Turn:
    """A turn of the chat as blocks in one look; until `read` nothing but an estimate.

    A turn of a `raw` chat is a piece of one text: its title, if it has one, says only what is not as usual.

    Blocks before `_settled` never change again; those after them may with every `read`.
    """

    def __init__(self, parts: tuple[Part, ...], number: int, *, titled: bool = True, raw: bool = False) -> None:
        self.titled, self.raw = titled, raw
        self.version = (1, 1)
        """Which of how many versions of the turn it is."""
        self.unfolded = False
        """Whether a person opened the thoughts."""
        self.source = TurnSource(parts, number)
        self.reset()

    def reset(self) -> None:
        """Drop all blocks."""
        self.is_read = False
        self.blocks: list[Block] = [Block(self.source, -1, self.parts[-1].end)]
        self._settled = 0
        self._text: TextBlock | None = None
        """The block of plain text or thoughts that may still grow."""
        self._splitter: Splitter | None = None
        """What cuts the answer, once it has begun."""
        self._folded: bool | None = None
        self._is_markdown = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.source.parts

    def read(self, look: Look, *, running: bool) -> int:
        """Read on into blocks; return the index of the first block that may have changed."""
        if self.is_read and self._is_markdown and self._folded != self._fold():  # the thoughts are over
            self.reset()
        if not self.is_read:
            self.is_read = True
            self.source = TurnSource(self.parts, self.source.number, look)
            wanted = look == "reading" and self.source.role == "assistant"
            self._is_long = wanted and self.parts[-1].end > MOST_READ
            self._is_markdown = wanted and not self._is_long
            self.blocks = [self._make_title()]
            if not self._is_markdown:
                self._text = TextBlock(self.source, 0)
            elif (folded := self._fold()) is not None:
                self._folded = folded
                self.blocks.append(self._make_fold(folded=folded))
            self._settled = len(self.blocks)
            self._read_on(running)
            return 0
        keep = min(self._settled, len(self.blocks))
        title, before = self._make_title(), self.blocks[0]
        if not isinstance(before, NoteBlock) or title.runs != before.runs:
            self.blocks[0] = title
            keep = 0
        self._read_on(running)
        return keep - 1 if keep > 1 else keep  # a mark may have come behind the last character of a finished block

    def toggle_thoughts(self) -> bool:
        """Open or fold its thoughts; return False without any."""
        if self._fold() is None:
            return False
        self.unfolded = not self.unfolded
        self.reset()
        return True

    def _fold(self) -> bool | None:
        """Return True if its thoughts are folded; None without any, or while they are not over."""
        if self.source.role == "user" or not any(count_thought(part.node, part.shown) for part in self.parts):
            return None
        return None if is_thinking(self.parts[-1].node) else not self.unfolded

    def _make_fold(self, *, folded: bool) -> NoteBlock:
        """Make the line in place of the thoughts, or above them; a click opens or folds them."""
        spans = [Span(part.node, part.shown) for part in self.parts]
        ink = MUTED._replace(does=f"thoughts({self.parts[-1].node.number})")
        block = NoteBlock(self.source, 0, [(f"{'▸' if folded else '▾'} {thoughts_of(spans)}", ink)])
        block.end = self.source.thought_end if folded else 0
        return block

    def show_version(self, number: int, versions: int) -> None:
        """Show in its head that it is version `number` of so many."""
        if self.version != (number, versions):
            self.version = number, versions
            if self.is_read:
                self.blocks[0] = self._make_title()

    def _make_title(self) -> NoteBlock:
        """Make the head: who speaks, which version of the turn this is, which walk, and a remark.

        A click on the name edits the turn. The version, if there are others, is never cut, and a click on its arrows goes to
        another one; it stands before the remark, so that it stays under the mouse whatever the remark is. A click on which walk
        it is shows all of them.
        """
        last, (number, versions) = self.parts[-1].node, self.version
        name, remark = self.source.describe_speaker(raw=self.raw)
        pieces: list[list[Run]] = (
            [[(name, TITLES[self.source.role]._replace(does=f"edit({last.number})"))]] if name else []
        )
        kept = 0
        if versions > 1:
            back, on = (f"version({by}, {last.number})" for by in (-1, 1))
            pieces.append([
                *(doing(back, [("‹ ", MUTED)]) if number > 1 else [("‹ ", FAINT)]),
                (f"{number}/{versions}", MUTED),
                *(doing(on, [(" ›", MUTED)]) if number < versions else [(" ›", FAINT)]),
            ])  # fmt: skip
            kept = sum(cell_len(text) for text, _ in (_BETWEEN, *pieces[-1])) if name else 0
        grouped = (part.node for part in reversed(self.parts) if part.node.group is not None)
        if (node := next(grouped, None)) is not None and (group := node.group) is not None:  # the newest one
            walk = node.walk or 0
            text, does = f"walk {walk + 1} of {max(group.size, walk + 1)}", f"open_walks({group.number})"
            pieces.append([(text, MUTED._replace(does=does))])
        if remark:
            pieces.append([(remark, MUTED)])
        runs = [run for piece in pieces for run in (_BETWEEN, *piece)][1:] if self.titled else []
        title = NoteBlock(self.source, -1, runs, kept=kept)
        title.gap = self.source.number > 0 and not self.raw and bool(runs)
        return title

    def _read_on(self, running: bool) -> None:
        """Read on, and put new blocks in the place of open ones."""
        source = self.source
        old_settled, was_open = self._settled, self.blocks[self._settled :]
        del self.blocks[self._settled :]
        begin = len(source.text)
        source.read()
        end = len(source.text)
        answer = begin if self._splitter is not None else end
        if self._is_markdown and self._splitter is None:
            answer = min(max(begin, source.thought_end), end)
        if begin < answer:
            self._grow_text(answer)
        if answer < end:
            if self._splitter is None:
                from termchat.tui.transcript.chunks import Splitter

                self.blocks += self._open_text(done=True)
                self._text = None
                self._splitter = Splitter(answer, code=source.language)
            self._splitter.feed(source.text[answer:])
        done = source.done or not running
        if self._splitter is None:
            self._settled, opened = len(self.blocks), self._open_text(done=done)
        else:
            # Here and not above: the first frame has no Markdown.
            from termchat.tui.transcript.markdown import ChunkBlock

            self.blocks += [ChunkBlock(source, chunk) for chunk in self._splitter.finished()]
            self._settled = len(self.blocks)
            opened = [ChunkBlock(source, chunk, open=not done) for chunk in self._splitter.open(done=done)]
        for index, block in enumerate(opened):  # what did not change is laid out already
            before = was_open[index] if index < len(was_open) else block
            self.blocks.append(before if before == block else block)
        if len(self.blocks) > 1 and old_settled == 1:
            self.blocks[1].gap = False
        if not done and len(self.blocks) == self._settled:
            self.blocks.append(TextBlock(source, len(source.text)))
        for block in self.blocks[old_settled:]:
            caret = not done and block is self.blocks[-1]
            if block.caret != caret:
                block.caret, block.width = caret, 0
        self._put_marks(max(old_settled - 1, 1))
        last = self.parts[-1]
        ends = done and source.role != "user" and last.taken is None
        for word in (TOO_LONG if self._is_long else "", describe_ending(last.node) if ends else ""):
            if word:
                self.blocks.append(NoteBlock(source, end, [(word, ENDING)], first=(("╌ ", ENDING),)))

    def _grow_text(self, end: int) -> None:
        """Let the open block take in the text up to a character; where it is long enough it ends, and another begins."""
        text, block = self.source.text[:end], self._text
        if block is None or (self._is_markdown and not text[: block.end].strip()):
            # Thoughts begin, without the blank lines before their first word.
            begin = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
            block = TextBlock(self.source, begin, THOUGHT, (THOUGHT_BAR,))
        while cut := _find_cut(text, block.start):
            block.grow(cut, done=True)
            self.blocks += [] if self._folded else [block]
            block = TextBlock(self.source, cut, block.ink, block.bar)
        block.grow(len(text))
        self._text = block

    def _open_text(self, *, done: bool) -> list[Block]:
        """Return the block of text at the end; once the text is done, without the empty line behind a last line break."""
        block = self._text
        if block is None or self._folded:
            return []
        block.grow(block.end, done=done)
        return [] if done and block.end == block.start > 0 else [block]

    def _put_marks(self, since: int) -> None:
        """Give each block the marks that come after its first character and not after the next block's."""
        marks = self.source.marks
        for index in range(since, len(self.blocks)):
            block = self.blocks[index]
            begin = bisect_right(marks, block.start, key=lambda mark: mark.offset) if index > 1 else 0
            end = len(marks)
            if index + 1 < len(self.blocks):
                end = bisect_right(marks, self.blocks[index + 1].start, key=lambda mark: mark.offset)
            if tuple(block.marks) != tuple(marks[begin:end]):
                block.marks, block.width = tuple(marks[begin:end]), 0


def _find_cut(text: str, start: int) -> int:
    """Find where a block of text that begins at `start` ends; 0 if it goes on."""
    ends = (
        text.find("\n", start + (ENOUGH if start < MUCH else LONGEST), start + 2 * LONGEST) + 1,
        text.find(" ", start + LONGEST, start + 2 * LONGEST) + 1,
        start + 2 * LONGEST if len(text) >= start + 2 * LONGEST else 0,
    )
    return min(filter(None, ends), default=0)
