r"""Logit biases as they are written: `ID_OR_TEXT=±X|ban`.

A number is the id of a token; anything else is a text, each token of which is biased once. A text in quotes (`" Paris"`,
`"2024"`, `"\n"`) is what stands between them, with escapes; without quotes it is taken as it is, up to the last `=`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from termchat.decoding.escapes import escape, unescape, well_formed

MOST = 1000.0
"""The largest bias that is no ban."""
BANNED = -math.inf

_BANS = ("ban", "-inf", "-infinity")
_FORM = f"ID=X or TEXT=X, where X is a number from {-MOST:g} to {MOST:g}, or ban"


class BiasError(ValueError):
    """It is no bias; the message says what one looks like."""


class Bias(NamedTuple):
    """A value to add to the logit of a token, by its id, or of each token of a text; `BANNED` removes the token."""

    what: int | str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.amount or 0}"

    @property
    def name(self) -> str:
        """The token's id, or the text in quotes."""
        return str(self.what) if isinstance(self.what, int) else f'"{escape(self.what)}"'

    @property
    def amount(self) -> str:
        return format_bias(self.value)


def format_bias(value: float) -> str:
    """Format a value: "+5", "-0.25", "ban"; "" for 0."""
    return "ban" if value == BANNED else f"{value:+.6g}" if value else ""


def parse(text: str) -> Bias:
    """Parse a bias.

    Raises:
        BiasError: it is not written like one.
    """
    what, equals, amount = well_formed(text).rpartition("=")
    try:
        if not equals or not what or what == '""':
            raise BiasError
        if what.isascii() and what.isdecimal() and len(what) < 10:
            return Bias(int(what), parse_amount(amount))
        quoted = len(what) > 2 and what[0] == what[-1] == '"'
        return Bias(unescape(what[1:-1]) if quoted else what, parse_amount(amount))
    except BiasError:
        raise BiasError(f"must be {_FORM}, not {text!r}") from None


def parse_amount(text: str) -> float:
    """Parse the value of a bias.

    Raises:
        BiasError: it is no number in range, and not `ban`.
    """
    word = text.strip().lower()
    if word in _BANS:
        return BANNED
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not -MOST <= value <= MOST:
        raise BiasError(f"must be a number from {-MOST:g} to {MOST:g}, or ban, not {text.strip()!r}")
    return value


def check_biases(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the biases of a list as they are written: the last one of several for the same token or text, none of 0.

    Raises:
        BiasError: see `parse`.
    """
    by_token = {bias.what: bias for bias in map(parse, texts)}
    return tuple(str(bias) for bias in by_token.values() if bias.value)


def find_unknown(written: Iterable[str], n_vocab: int) -> int | None:
    """Return an id that a vocabulary of this size lacks."""
    ids = (bias.what for bias in map(parse, written) if isinstance(bias.what, int))
    return next((token for token in ids if token >= n_vocab), None)


def sum_biases(biases: Iterable[tuple[Iterable[int], float]]) -> Mapping[int, float]:
    """Sum the values of biases by token, given the ids and the value of each."""
    sums: dict[int, float] = {}
    for ids, value in biases:
        for token in dict.fromkeys(ids):
            sums[token] = sums.get(token, 0.0) + value
    return sums
