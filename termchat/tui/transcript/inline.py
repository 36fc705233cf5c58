"""Inline Markdown to runs: emphasis, code, links with their address, line breaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from termchat.tui.transcript.ink import Ink, Run

if TYPE_CHECKING:
    from markdown_it.token import Token as MarkdownToken

STEP = 64
"""Characters by which `closed_part` moves on."""

CODE = Ink("code")
ADDRESS = Ink("muted")

_FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?,;:] (?=\S)")

_OPENS: dict[str, dict[str, bool | str]] = {
    "strong_open": {"bold": True},
    "em_open": {"italic": True},
    "s_open": {"strike": True},
    "link_open": {"color": "link", "underline": True},
}


def runs_of(tokens: Sequence[MarkdownToken], ink: Ink) -> list[Run]:
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
        elif token.type == "code_inline":
            runs.append((token.content, CODE._replace(bold=inks[-1].bold, italic=inks[-1].italic)))
        elif token.type == "image":
            runs.append((token.content or "image", inks[-1]))
            _add_address(runs, str(token.attrs.get("src", "")), len(runs))
        elif token.type == "softbreak":
            runs.append((" ", inks[-1]))
        elif token.type == "hardbreak":
            runs.append(("\n", inks[-1]))
        elif token.content:
            runs.append((token.content, inks[-1]))
    return runs


def _add_address(runs: list[Run], address: str, begin: int) -> None:
    """The address behind a link's text, unless it is the text."""
    if address and "".join(text for text, _ in runs[begin:]) not in (address, address.removeprefix("mailto:")):
        runs.append((f" ({address})", ADDRESS))


def mended(source: str) -> str:
    """The source of a paragraph that still streams, with the emphasis or code that is open at its end closed."""
    start = source.rfind("\n\n") + 1
    tail = source[start:].rstrip()
    if _FENCE.search(source):
        return source
    outside = tail.split("`")
    if len(outside) % 2 == 0:
        return source.rstrip().removesuffix("`") if tail.endswith("`") else source.rstrip() + "`"
    plain = "".join(outside[::2])
    for marker in ("**", "~~"):
        if plain.count(marker) % 2:
            return source.rstrip().removesuffix(marker) if tail.endswith(marker) else source.rstrip() + marker
    return source


def closed_part(source: str) -> int:
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
