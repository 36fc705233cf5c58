"""A chunk of Markdown to lines: headings, paragraphs, nested lists, quotes, code, rules and tables.

Line breaks are kept as they are written, and nothing that was written is left out. Tables are aligned text; columns that do not
fit are narrowed and their cells wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len

from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import FAINT, MUTED, TEXT
from termchat.tui.draw.wrap import wrap_runs
from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.chunks import Chunk, close_marks, complete_table, dedent
from termchat.tui.transcript.code import render_code, render_label
from termchat.tui.transcript.turn_source import TurnSource

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token as MarkdownToken

QUOTE = Ink("quote", italic=True)
QUOTE_BAR: Run = ("▎ ", FAINT)
MARKER = Ink("accent")
BULLETS = "•◦▪"
DONE = Ink("success", bold=True)
BOXES = {"[ ]": MUTED, "[x]": DONE, "[X]": DONE}
"""What a task begins with, and its ink."""
HEADINGS = (
    Ink("heading", bold=True, underline=True),
    Ink("heading", bold=True),
    Ink("heading", bold=True, italic=True),
    Ink("heading", italic=True),
    Ink("heading"),
    Ink("muted", bold=True),
)
"""The inks of headings of level 1 to 6."""
CODE = Ink("code")
LINK: dict[str, bool | str] = {"color": "link", "underline": True}
NOTE: dict[str, bool | str] = {"color": "link"}

_APART = re.compile(r"(?P<address>https?://[^\s<>]*[^\s<>.,:;!?'\")\]}*_])|\[\^[^\]\s]{1,40}\]")
"""What text holds that is painted otherwise: an address that stands there as it is, and the sign of a footnote."""
_MATH = re.compile(
    r"\$\$[^$]{1,2000}\$\$|\$(?![\s$])[^$\n]{0,400}(?<![\s\\$])\$(?!\d)|\\\([^\n]{1,400}?\\\)|\\\[.{1,2000}?\\\]",
    re.DOTALL,
)
"""LaTeX within text, by the signs that models put around it; a price is none."""

_OPENS: dict[str, dict[str, bool | str]] = {
    "strong_open": {"bold": True},
    "em_open": {"italic": True},
    "s_open": {"strike": True},
    "link_open": LINK,
}
BAR: Run = (" │ ", FAINT)
NARROWEST = 4
TableCell = tuple[tuple[Run, ...], str]
"""A cell's runs, and "left", "right", "center" or ""."""


@lru_cache(maxsize=1)
def _make_parser() -> MarkdownIt:
    """Make the parser of blocks; the text within them is left to `_parse_runs`, which remembers.

    HTML and link definitions are left as the text they are: nothing that was written may vanish from the screen.
    """
    from markdown_it import MarkdownIt  # here and not above: the first frame has no Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["reference", "inline"])
    parser.inline.ruler.before("escape", "math", _parse_math)
    return parser


def find_code(text: str) -> list[tuple[str, str]]:
    """Find all fenced blocks with something in them, in order: the code without its fences, and the name of its language, ""
    without. The last may still be open."""
    fences = [token for token in _make_parser().parse(text) if token.type == "fence" and token.content]
    return [(fence.content.removesuffix("\n"), (fence.info.split() or [""])[0]) for fence in fences]


def _parse_math(state: StateInline, silent: bool) -> bool:
    """Leave LaTeX as it is, so that no sign in it means anything; a rule for the parser."""
    if state.src[state.pos] not in "$\\" or (match := _MATH.match(state.src, state.pos, state.posMax)) is None:
        return False
    if not silent:
        state.push("math", "", 0).content = match[0]
    state.pos = match.end()
    return True


@lru_cache(maxsize=128)
def _parse_runs(source: str, ink: Ink) -> tuple[Run, ...]:
    """Parse inline Markdown, painted in variations of `ink`. Of a list or table that streams all but the newest is known."""
    parser, tokens, runs = _make_parser(), list["MarkdownToken"](), list[Run]()
    parser.inline.parse(source, parser, {}, tokens)
    inks, addresses = [ink], list[tuple[str, int]]()
    for token in tokens:
        if token.type in _OPENS:
            inks.append(inks[-1]._replace(**_OPENS[token.type]))  # type: ignore[arg-type]
            if token.type == "link_open":
                addresses.append((str(token.attrs.get("href", "")), len(runs)))
        elif token.type.endswith("_close"):
            inks.pop()
            if token.type == "link_close":
                _add_address(runs, *addresses.pop())
        elif token.type in ("code_inline", "math"):
            runs.append((token.content, CODE._replace(bold=inks[-1].bold, italic=inks[-1].italic)))
        elif token.type == "image":
            runs.append((token.content or "image", inks[-1]))
            _add_address(runs, str(token.attrs.get("src", "")), len(runs))
        elif token.type in ("softbreak", "hardbreak"):  # a line break is one: poems and signatures have lines
            runs.append(("\n", inks[-1]))
        elif addresses:
            runs.append((token.content, inks[-1]))
        else:
            at = 0
            for match in _APART.finditer(token.content):
                runs.append((token.content[at : match.start()], inks[-1]))
                runs.append((match[0], inks[-1]._replace(**(LINK if match["address"] else NOTE))))  # type: ignore[arg-type]
                at = match.end()
            runs.append((token.content[at:], inks[-1]))
    return tuple(run for run in runs if run[0])


def _add_address(runs: list[Run], address: str, begin: int) -> None:
    """Add the address behind a link's text, unless it is the text."""
    if address and "".join(text for text, _ in runs[begin:]) not in (address, address.removeprefix("mailto:")):
        runs.append((f" ({address})", MUTED))


def render_markdown(source: str, width: int, indent: int = 0, hidden: int = 0) -> list[Line]:
    """Render one chunk, `indent` cells to the right; of a table not the first `hidden` rows, which only have a say in its
    columns' widths."""
    return _Writer(width, indent, hidden).write(_make_parser().parse(source))


class _Writer:
    """Writes the lines of parsed blocks."""

    def __init__(self, width: int, indent: int, hidden: int) -> None:
        self.lines: list[Line] = []
        self._width, self._hidden = width, hidden
        self._prefixes = [[(" " * indent, TEXT)]] if indent else list[list[Run]]()
        """The cells before the lines of a list item or quote: of the first line, while there is none, and of the others."""
        self._inks = [TEXT]
        self._lists: list[str] = []
        self._written_to: int | None = None
        self._box = ""

    def write(self, tokens: Sequence[MarkdownToken]) -> list[Line]:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.type in ("inline", "fence", "code_block", "hr", "table_open"):
                begin, end = token.map or [0, 0]
                if self._written_to is not None and begin > self._written_to:  # the source has a blank line, too
                    self.lines.append(Line(tuple(prefix[0] for prefix in self._prefixes if len(prefix) == 1)))
                self._written_to = end
            match token.type:
                case "heading_open":
                    self._inks.append(HEADINGS[int(token.tag[1]) - 1])
                case "blockquote_open":
                    self._prefixes.append([QUOTE_BAR, QUOTE_BAR])
                    self._inks.append(QUOTE)
                case "bullet_list_open" | "ordered_list_open":
                    self._lists.append(token.type)
                case "list_item_open":
                    self._prefixes.append(self._make_marker(token, tokens[index + 2 : index + 3]))
                case "inline":
                    self._write_text(_parse_runs(token.content.removeprefix(self._box), self._inks[-1]))
                    self._box = ""
                case "fence" | "code_block":
                    self._write_code(token)
                case "hr":
                    self._write_text([("─" * max(self._room, 2), FAINT)])
                case "table_open":
                    index = self._write_table(tokens, index)
                case "heading_close":
                    self._inks.pop()
                case "blockquote_close":
                    self._inks.pop()
                    self._prefixes.pop()
                case "list_item_close":
                    if len(self._prefixes[-1]) > 1:
                        self._write_text([])
                    self._prefixes.pop()
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
            index += 1
        return self.lines

    @property
    def _room(self) -> int:
        return self._width - sum(len(prefix[-1][0]) for prefix in self._prefixes)

    def _take_prefix(self) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
        first = tuple(prefix[0] for prefix in self._prefixes)
        self._prefixes = [prefix[-1:] for prefix in self._prefixes]
        return first, tuple(prefix[0] for prefix in self._prefixes)

    def _make_marker(self, item: MarkdownToken, texts: Sequence[MarkdownToken]) -> list[Run]:
        """Make the marker of an item and the blank below it; its text begins with a box if it is a task."""
        marker, ink = f"{item.info}{item.markup} ", MARKER
        if self._lists[-1] == "bullet_list_open":
            marker = BULLETS[min(self._lists.count("bullet_list_open"), len(BULLETS)) - 1] + " "
        for text in texts:
            if text.type == "inline" and text.content[:3] in BOXES and text.content[3:4] == " ":
                self._box = marker = text.content[:4]
                ink = BOXES[marker[:3]]
        return [(marker, ink), (" " * len(marker), TEXT)]

    def _write_text(self, runs: Sequence[Run]) -> None:
        self.lines += wrap_runs(runs, self._width, *self._take_prefix())

    def _write_code(self, token: MarkdownToken) -> None:
        language = token.info.split()[0] if token.info.strip() else ""
        first, rest = self._take_prefix()
        lines = [render_label(language, rest)] if language else []
        lines += render_code(token.content, language, self._width, rest)
        if lines and first != rest:
            runs = lines[0].runs
            shared = len(rest) if runs[: len(rest)] == rest else 0
            lines[0] = lines[0]._replace(runs=(*first, *runs[shared:]))
        self.lines += lines

    def _write_table(self, tokens: Sequence[MarkdownToken], index: int) -> int:
        """Write a table; return the index of its last token."""
        rows: list[list[TableCell]] = []
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                ink = TEXT._replace(bold=token.type == "th_open")
                align = str(token.attrs.get("style", "")).removeprefix("text-align:")
                rows[-1].append((_parse_runs(tokens[index + 1].content, ink), align))
            index += 1
        first, rest = self._take_prefix()
        for number, line in enumerate(_render_table(rows, self._room, self._hidden)):
            self.lines.append(Line((*(rest if number else first), *line.runs)))
        return index


def _render_table(rows: list[list[TableCell]], width: int, hidden: int) -> Iterator[Line]:
    """Render a table in `width` cells but for the first `hidden` rows; the first row is its head.

    Where there are too many columns to stand beside each other each row is listed cell by cell, with the names of the columns.
    """
    widths = [
        max(1, *(cell_len(line.text) for runs, _ in column for line in _wrap_cell(runs, 10_000)))
        for column in zip_longest(*rows, fillvalue=((), ""))
    ]
    room = width - len(BAR[0]) * (len(widths) - 1)
    while sum(widths) > room and (widest := max(widths)) > NARROWEST:  # the widest give way first
        second = max((size for size in widths if size < widest), default=NARROWEST)
        target = max(second, widest - max((sum(widths) - room) // widths.count(widest), 1), NARROWEST)
        widths = [target if size == widest else size for size in widths]
    if sum(widths) <= room:
        for number, row in enumerate(rows[hidden:], hidden):
            yield from _render_row(row, widths)
            if number == 0:
                yield Line((("─┼─".join("─" * size for size in widths), FAINT),))
        return
    for row in rows[max(hidden, 1) :]:
        yield Line((("─" * max(width, 1), FAINT),))
        for (name, _), (runs, _) in zip(rows[0], row, strict=False):
            if runs:
                yield from wrap_runs((*name, (": ", FAINT), *runs), width, (), (("  ", Ink()),))
    if len(rows) == 1:  # a head without a row below it: one text
        yield from wrap_runs([run for runs, _ in rows[0] for run in (BAR, *runs)][1:], width)


@lru_cache(maxsize=256)
def _wrap_cell(runs: tuple[Run, ...], width: int) -> tuple[Line, ...]:
    """Wrap a cell; those of a table that streams are asked for again and again."""
    return tuple(wrap_runs(runs, width))


def _render_row(row: list[TableCell], widths: list[int]) -> Iterator[Line]:
    columns = [_wrap_cell(runs, size) for (runs, _), size in zip(row, widths, strict=False)]
    for parts in zip_longest(*columns, fillvalue=BLANK):
        runs: list[Run] = []
        for index, (part, size) in enumerate(zip(parts, widths, strict=False)):
            space = max(size - cell_len(part.text), 0)
            left = {"right": space, "center": space // 2}.get(row[index][1], 0)
            runs += [BAR] if index else []
            runs += [(" " * left, Ink()), *part.runs, (" " * (space - left), Ink())]
        yield Line(tuple(run for run in runs if run[0]))


_FAR = 400
"""Characters within which a word that is on the screen is looked for in the source."""
_LINE_END = re.compile(r"[^\S\n]*\n?")


class ChunkBlock(Block):
    """A chunk of Markdown. `open`: it may still change."""

    def __init__(self, source: TurnSource, chunk: Chunk, *, open: bool = False) -> None:
        super().__init__(source, chunk.start, chunk.end, gap=chunk.gap)
        self.chunk, self.open, self.fence, self.lead = chunk, open, chunk.fence, chunk.lead
        is_labelled = chunk.kind == "code" and chunk.first and chunk.language
        self._label = [render_label(chunk.language)] if is_labelled else []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkBlock) and self.open == other.open and self.chunk == other.chunk

    __hash__ = Block.__hash__

    def content(self, width: int) -> list[Line]:
        chunk = self.chunk
        if chunk.kind == "code":
            return self._label + render_code(chunk.source, chunk.language, width)
        if chunk.kind == "math":
            return wrap_runs([(chunk.source.rstrip("\n"), CODE)], width)
        if self.open and not chunk.head and (table := complete_table(chunk.source)) is not None:
            return render_markdown(table, width, chunk.indent)
        source = close_marks(chunk.source) if self.open else chunk.source
        if chunk.indent:
            source = "\n".join(dedent(line, chunk.indent) for line in source.split("\n"))
        return render_markdown(chunk.head + source, width, chunk.indent, hidden=2 if chunk.head else 0)

    def align(self, lines: Sequence[Line]) -> list[int]:
        offsets, at, source = [], 0, self.chunk.source
        for line in lines:
            # The line with the fence, which is not shown, goes with the first line of the code.
            offsets.append(min(self.start + (self.lead + at if at else 0), self.end))
            if line in self._label:
                continue
            for word in line.text.split():
                place = source.find(word, at, at + _FAR)
                at = place + len(word) if place >= 0 else at
            ending = _LINE_END.match(source, at)
            at = ending.end() if ending is not None else at
        return offsets
