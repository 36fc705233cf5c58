"""A chunk of Markdown to lines: headings, paragraphs, nested lists, quotes, code, rules and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.markdown.code import render_code, render_label
from termchat.tui.transcript.markdown.inline import close_marks, make_runs, math, measure_closed
from termchat.tui.transcript.markdown.table import TableCell, render_table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token as MarkdownToken

TEXT = Ink("text")
QUOTE = Ink("quote", italic=True)
QUOTE_BAR: Run = ("▎ ", Ink("border"))
RULE = Ink("border")
MARKER = Ink("accent")
BULLETS = "•◦▪"
DONE = Ink("success", bold=True)
BOXES = {"[ ]": Ink("muted"), "[x]": DONE, "[X]": DONE}
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
_LONG = 8192
"""Paragraphs of so many characters are made anew with every closed part: one made of another goes only so deep."""


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """The parser of blocks; what is within them is left to `_runs`, which remembers.

    HTML and link definitions are left as the text they are: nothing that was written may vanish from the screen.
    """
    from markdown_it import MarkdownIt  # here and not above: the first frame has no Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["reference", "inline"])
    parser.inline.ruler.before("escape", "math", math)
    return parser


@lru_cache(maxsize=128)
def _runs(source: str, ink: Ink) -> tuple[Run, ...]:
    """The runs of inline Markdown. Of a list or table that streams all but the newest of them are known already."""
    parser, tokens = _parser(), list["MarkdownToken"]()
    parser.inline.parse(source, parser, {}, tokens)
    return tuple(make_runs(tokens, ink))


def render_markdown(source: str, width: int, indent: int = 0, hidden: int = 0) -> list[Line]:
    """The lines of one chunk, `indent` cells to the right; of a table not the first `hidden` rows, which only have a say in
    its columns' widths."""
    writer = _Writer(width, indent, hidden)
    writer.write(_parser().parse(source))
    return writer.lines


def render_paragraph(source: str, width: int) -> list[Line]:
    """The lines of a plain paragraph that still streams; most of it is remembered from the last time."""
    cut = measure_closed(source)
    if not cut:
        return render_markdown(close_marks(source), width)
    wrapper = _begun(source[:cut], width).copy()
    _feed_inline(wrapper, close_marks(source[cut:]))
    return wrapper.lines


@lru_cache(maxsize=4)
def _begun(source: str, width: int) -> Wrapper:
    """What the closed part of a paragraph becomes; made from that of the closed part before it."""
    before = measure_closed(source[:-1]) if len(source) < _LONG else 0
    wrapper = _begun(source[:before], width).copy() if before else Wrapper(width)
    _feed_inline(wrapper, source[before:])
    return wrapper


def _feed_inline(wrapper: Wrapper, source: str) -> None:
    for text, ink in _runs(source, TEXT):
        wrapper.feed(text, ink)


class _Prefix:
    """What stands before the lines of a list item or quote: a marker at the first, then something as wide."""

    def __init__(self, first: Run, rest: Run) -> None:
        self.first: Run | None = first
        self.rest = rest

    def take(self) -> Run:
        first, self.first = self.first, None
        return first or self.rest


class _Writer:
    def __init__(self, width: int, indent: int, hidden: int) -> None:
        self.lines: list[Line] = []
        self._width, self._hidden = width, hidden
        self._prefixes = [_Prefix((" " * indent, TEXT), (" " * indent, TEXT))] if indent else []
        self._inks = [TEXT]
        self._lists: list[str] = []
        self._written_to: int | None = None
        self._box = ""

    def write(self, tokens: Sequence[MarkdownToken]) -> None:
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "heading_open":
                    self._inks.append(HEADINGS[int(token.tag[1]) - 1])
                case "blockquote_open":
                    self._prefixes.append(_Prefix(QUOTE_BAR, QUOTE_BAR))
                    self._inks.append(QUOTE)
                case "bullet_list_open" | "ordered_list_open":
                    self._lists.append(token.type)
                case "list_item_open":
                    self._prefixes.append(self._item(token, tokens[index + 2] if index + 2 < len(tokens) else token))
                case "inline":
                    self._space(token)
                    self._text(_runs(token.content.removeprefix(self._box), self._inks[-1]))
                    self._box = ""
                case "fence" | "code_block":
                    self._space(token)
                    self._code(token)
                case "hr":
                    self._space(token)
                    self._text([("─" * max(self._room(), 2), RULE)])
                case "table_open":
                    self._space(token)
                    index = self._table(tokens, index)
                case "heading_close":
                    self._inks.pop()
                case "blockquote_close":
                    self._inks.pop()
                    self._prefixes.pop()
                case "list_item_close":
                    if self._prefixes[-1].first is not None:
                        self._text([])
                    self._prefixes.pop()
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
            index += 1

    def _item(self, item: MarkdownToken, text: MarkdownToken) -> _Prefix:
        """What stands before an item, whose first `text` begins with a box if it is a task."""
        marker, ink = self._marker(item), MARKER
        if text.type == "inline" and text.content[:3] in BOXES and text.content[3:4] == " ":
            self._box = marker = text.content[:4]
            ink = BOXES[marker[:3]]
        return _Prefix((marker, ink), (" " * len(marker), TEXT))

    def _marker(self, item: MarkdownToken) -> str:
        if self._lists[-1] == "ordered_list_open":
            return f"{item.info}{item.markup} "
        depth = self._lists.count("bullet_list_open") - 1
        return BULLETS[min(depth, len(BULLETS) - 1)] + " "

    def _space(self, token: MarkdownToken) -> None:
        """A blank line where the source has one between this and what is written."""
        begin, end = token.map or [0, 0]
        if self._written_to is not None and begin > self._written_to:
            self.lines.append(Line(tuple(p.rest for p in self._prefixes if p.first is None)))
        self._written_to = end

    def _take_prefix(self) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
        return tuple(p.take() for p in self._prefixes), tuple(p.rest for p in self._prefixes)

    def _room(self) -> int:
        return self._width - sum(len(p.rest[0]) for p in self._prefixes)

    def _text(self, runs: Sequence[Run]) -> None:
        first, rest = self._take_prefix()
        wrapper = Wrapper(self._width, first, rest)
        for text, ink in runs:
            wrapper.feed(text, ink)
        self.lines += wrapper.lines

    def _code(self, token: MarkdownToken) -> None:
        language = token.info.split()[0] if token.info.strip() else ""
        first, rest = self._take_prefix()
        lines = [render_label(language, rest)] if language else []
        lines += render_code(token.content, language, self._width, rest)
        if lines and first != rest:
            runs = lines[0].runs
            shared = len(rest) if runs[: len(rest)] == rest else 0
            lines[0] = lines[0]._replace(runs=(*first, *runs[shared:]))
        self.lines += lines

    def _table(self, tokens: Sequence[MarkdownToken], index: int) -> int:
        rows: list[list[TableCell]] = []
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                ink = TEXT._replace(bold=token.type == "th_open")
                align = str(token.attrs.get("style", "")).removeprefix("text-align:")
                rows[-1].append(TableCell(_runs(tokens[index + 1].content, ink), align))
            index += 1
        first, rest = self._take_prefix()
        for number, line in enumerate(render_table(rows, self._room(), self._hidden)):
            self.lines.append(Line((*(rest if number else first), *line.runs)))
        return index
