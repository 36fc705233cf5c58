"""Inline Markdown to runs: emphasis, code, mathematics as it is written, links with their address, line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from termchat.tui.draw.ink import Ink, Run

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token as MarkdownToken


STEP = 64
"""Characters by which `measure_closed` moves on."""

CODE = Ink("code")
ADDRESS = Ink("muted")
LINK: dict[str, bool | str] = {"color": "link", "underline": True}
NOTE: dict[str, bool | str] = {"color": "link"}

_APART = re.compile(r"(?P<address>https?://[^\s<>]*[^\s<>.,:;!?'\")\]}*_])|\[\^[^\]\s]{1,40}\]")
"""What text holds that is painted otherwise: an address that stands there as it is, and the sign of a footnote."""
_MATH = re.compile(
    r"\$\$[^$]{1,2000}\$\$|\$(?![\s$])[^$\n]{0,400}(?<![\s\\$])\$(?!\d)|\\\([^\n]{1,400}?\\\)|\\\[.{1,2000}?\\\]",
    re.DOTALL,
)
"""LaTeX within text, by the signs that models put around it; a price is none."""
_SENTENCE_END = re.compile(r"[.!?,;:] (?=\S)")

_OPENS: dict[str, dict[str, bool | str]] = {
    "strong_open": {"bold": True},
    "em_open": {"italic": True},
    "s_open": {"strike": True},
    "link_open": LINK,
}


def make_runs(tokens: Sequence[MarkdownToken], ink: Ink) -> list[Run]:
    """The runs of an inline token's children, painted in variations of `ink`."""
    runs: list[Run] = []
    inks, addresses = [ink], list[tuple[str, int]]()
    for token in tokens:
        if token.type in _OPENS:
            inks.append(inks[-1]._replace(**_OPENS[token.type]))  # type: ignore[arg-type]
            if token.type == "link_open":
                addresses.append((str(token.attrs.get("href", "")), len(runs)))
        elif token.type.endswith("_close"):
            inks.pop()
            if token.type == "link_close":
                address, begin = addresses.pop()
                _add_address(runs, address, begin)
        elif token.type in ("code_inline", "math"):
            runs.append((token.content, CODE._replace(bold=inks[-1].bold, italic=inks[-1].italic)))
        elif token.type == "image":
            runs.append((token.content or "image", inks[-1]))
            _add_address(runs, str(token.attrs.get("src", "")), len(runs))
        elif token.type in ("softbreak", "hardbreak"):  # a line break is one: poems and signatures have lines
            runs.append(("\n", inks[-1]))
        elif token.content:
            runs += [(token.content, inks[-1])] if addresses else _with_addresses(token.content, inks[-1])
    return runs


def _with_addresses(text: str, ink: Ink) -> Iterator[Run]:
    at = 0
    for found in _APART.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], ink
        yield found[0], ink._replace(**(LINK if found["address"] else NOTE))  # type: ignore[arg-type]
        at = found.end()
    if at < len(text):
        yield text[at:], ink


def math(state: StateInline, silent: bool) -> bool:
    """A rule for the parser: LaTeX is left as it is, so that no sign in it means anything."""
    if state.src[state.pos] not in "$\\" or (found := _MATH.match(state.src, state.pos, state.posMax)) is None:
        return False
    if not silent:
        state.push("math", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _add_address(runs: list[Run], address: str, begin: int) -> None:
    """The address behind a link's text, unless it is the text."""
    if address and "".join(text for text, _ in runs[begin:]) not in (address, address.removeprefix("mailto:")):
        runs.append((f" ({address})", ADDRESS))


def measure_closed(source: str) -> int:
    """How much of a paragraph that still streams can be read without the rest: whole sentences, nothing open in them.

    It moves on in steps, so that what was made of it can be kept for a while.
    """
    if "\n" in source.rstrip("\n"):
        return 0
    end = 0
    for found in _SENTENCE_END.finditer(source, 0, len(source) // STEP * STEP):
        end = found.end()
    return end if _is_closed(source[:end]) else 0


def _is_closed(text: str) -> bool:
    emphasis = text.replace("**", "").replace("__", "")
    return all(text.count(marker) % 2 == 0 for marker in ("`", "**", "__", "~~")) and (
        emphasis.count("*") % 2 == 0 and emphasis.count("_") % 2 == 0 and text.count("[") == text.count("]")
    )


_FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_BEGINS_BLOCK = re.compile(r"\n(?=\s*(?:[-*+>]|\d{1,9}[.)]|#{1,6})\s|\s*\n|\s*\|)")
"""A line break behind which nothing that was open before is open any more."""
_OPENING = re.compile(r"(?:(?<=[\s(\[\"'*_])|^)(\*{1,3}|_{1,3}|~~)(?=[^\s*_~])")
_BARE = re.compile(r"(?:(?<=\s)|^)(?:\*{1,3}|_{1,3}|~{1,2})$")
"""Signs of emphasis with nothing behind them yet."""
_ADDRESS = re.compile(r"\[[^\]\n]*\]\([^)\s]*$")
_BAR = re.compile(r"(?<!\\)\|")
_RULE_BEGUN = re.compile(r"[|:\-\s]*$")


def close_marks(source: str) -> str:
    """The source of a chunk that still streams, with the emphasis, code or link that is open at its end closed."""
    if _FENCE.search(source):
        return source
    source = source.rstrip()
    tail = source[_last_block(source) :]
    if tail.lstrip().startswith("|"):
        tail = tail[tail.rfind("|") + 1 :]
    outside = tail.split("`")
    if len(outside) % 2 == 0:
        return source.removesuffix("`") if tail.endswith("`") else source + "`"
    plain = "``".join(outside[::2])  # what is in code means nothing
    if bare := _BARE.search(plain):
        source, plain = source[: len(source) - len(bare[0])].rstrip(), plain[: bare.start()]
    if _ADDRESS.search(plain):
        source, plain = source + ")", plain + ")"
    return source + _closing(plain)


def _last_block(source: str) -> int:
    return max((found.end() for found in _BEGINS_BLOCK.finditer(source)), default=0)


def _closing(plain: str) -> str:
    """The signs that close what emphasis is open at the end, the innermost first."""
    opened: list[str] = []
    at = 0
    while found := _OPENING.search(plain, at):
        sign, at = found[1], found.end()
        end = _end_of(plain, sign, at)
        if end < 0:
            opened.insert(0, sign)
        else:
            at = end if len(sign) > 1 else at
    closing = "".join(opened)
    there = len(plain) - len(plain.rstrip(closing[:1] or " "))  # of the innermost sign, if a part of it has come
    return closing[there:] if there < len(closing) and not closing[:there].strip(closing[:1]) else closing


def _end_of(plain: str, sign: str, at: int) -> int:
    """Where emphasis with that sign ends that began before `at`; -1 where it is open."""
    alone = re.escape(sign) if len(sign) > 1 else rf"(?<!{re.escape(sign)}){re.escape(sign)}(?!{re.escape(sign)})"
    found = re.compile(rf"(?<=\S){alone}").search(plain, at)
    return found.end() if found is not None else -1


def complete_table(source: str) -> str | None:
    """A table for text that may be the begin of one: bars, and no whole line below them yet. None for other text."""
    head, _, rule = source.partition("\n")
    cells = _BAR.split(head.strip().removeprefix("|").removesuffix("|"))
    if not head.lstrip().startswith("|") or "\n" in rule or not _RULE_BEGUN.match(rule) or not "".join(cells).strip():
        return None
    return f"|{'|'.join(cells)}|\n|{'-|' * len(cells)}\n"


def widest(rows: list[str]) -> str:
    """A row of a table with, in each column, the longest cell of these rows."""
    columns: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in _BAR.split(row.strip().removeprefix("|").removesuffix("|"))]
        columns += [""] * (len(cells) - len(columns))
        columns = [max(pair, key=len) for pair in zip(columns, cells + [""] * len(columns), strict=False)]
    return f"|{'|'.join(columns)}|\n"
