"""The one gate for what a server answers: bytes of JSON become values of ours, and nothing behind it checks them again.

A number that makes no sense is absent, a structure that does is `BadAnswer`, which says what is wrong and where. Texts are
valid Unicode. `http_client` bounds the sizes of answers and events.

A log-probability is at most 0: up to `LIKELIEST` above it is the rounding of a server's normalizer. Below `_ZERO` it stands for
a probability of zero, as do -Infinity, llama-server's null and the -9999 of OpenAI and vLLM.
"""

from __future__ import annotations

import codecs
import json
import math
from abc import ABC
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.records import ABSENT, LIKELIEST
from termchat.text import one_line

T = TypeVar("T")

MOST = 2**53
"""The largest whole number that is believed: JSON's numbers are exact up to here."""
_ZERO = -700.0
_TOO_MUCH = 2.0
"""What the probabilities of a step never add up to, however they are rounded."""
_LABEL = 80
_DIGITS = 20
"""Of a whole number; one with more is as good as infinite."""
_SHOWN = 200

Name = Annotated[str, msgspec.Meta(max_length=1000)]
"""What a model is asked for with."""
Byte = Annotated[int, msgspec.Meta(ge=0, lt=256)]
Total = Annotated[int, msgspec.Meta(ge=0, le=MOST)]


if TYPE_CHECKING:
    Count: TypeAlias = int
    Phrase: TypeAlias = str
else:
    # msgspec asks `_read` for fields of these types, and takes what is registered for one of them.
    class Count(ABC):  # noqa: B024
        """A whole number up to `MOST`, 0 where the server does not tell one."""

    class Phrase(ABC):  # noqa: B024
        """A few words on one line, "" where the server does not tell them."""

    Count.register(int)
    Phrase.register(str)


class BadAnswer(ValueError):
    """An answer is not what it should be; the message says why."""


def decode(data: bytes, as_: type[T]) -> T:
    """Read a whole answer.

    Raises:
        BadAnswer: it is no JSON, or of another type.
    """
    with suppress(ValueError, RecursionError):
        decoder: msgspec.json.Decoder[T] = _decoder_of(as_)  # type: ignore[arg-type]
        return decoder.decode(data)
    return convert(read_json(data), as_)


def convert(value: Any, as_: type[T]) -> T:
    """Read a part of an answer; lone surrogates become U+FFFD.

    Raises:
        BadAnswer: it is of another type.
    """
    try:
        return msgspec.convert(_without_surrogates(value), as_, dec_hook=_read)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(one_line(str(error), _SHOWN)) from None


def read_json(data: bytes) -> Any:
    """Read an answer of any type. NaN and infinite numbers pass, bytes that are not UTF-8 become U+FFFD, and halves of
    surrogate pairs stay in its texts.

    Raises:
        BadAnswer: it is no JSON, or nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        why = str(error)
    with suppress(ValueError, RecursionError):
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else float(digits))
    raise BadAnswer(one_line(why, _SHOWN))


def read_part(value: Any, name: str) -> Any:
    """Return a field of an object, None where there is neither."""
    return value.get(name) if isinstance(value, dict) else None


def read_text(value: Any) -> str:
    """Read a text, "" where the value is none; halves of a surrogate pair are joined, and a lone one becomes U+FFFD."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else ""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_phrase(value: Any) -> str:
    """Read a few words on one line."""
    return one_line(read_text(value), _LABEL)


def read_count(value: Any) -> int | None:
    """Read a whole number up to `MOST`."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST else None


def read_amount(value: Any) -> float | None:
    """Read a number above 0, of milliseconds or the like."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= MOST else None


def read_logprob(value: Any) -> float:
    """Read a log-probability, -inf for a probability of zero."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value <= LIKELIEST:
        return ABSENT
    return min(float(value), 0.0) if value >= _ZERO else -math.inf


def read_drawn_logprob(value: Any) -> float:
    """Read the log-probability of a token that was drawn: its probability was not zero."""
    logprob = read_logprob(value)
    return logprob if math.isfinite(logprob) else ABSENT


def read_candidates(
    ids: Sequence[int], values: Iterable[float | None]
) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
    """Read the tokens that a server lists of one step, best first, and their log-probabilities, null for zero: shape (n,) each.
    None where these cannot be right: one is too high, they add up to far more than 1, or a token is listed twice."""
    found = np.fromiter(ids, np.int32, len(ids))
    numbers = np.fromiter((-math.inf if value is None else value for value in values), np.float64, len(ids))
    numbers[numbers < _ZERO] = -math.inf
    if not (numbers <= LIKELIEST).all():
        return None
    numbers = np.minimum(numbers, 0.0)
    if np.exp(numbers).sum() > _TOO_MUCH or len(np.unique(found)) < len(found):
        return None
    if (numbers[1:] > numbers[:-1]).any():
        order = np.argsort(-numbers, kind="stable")
        found, numbers = found[order], numbers[order]
    return found, numbers


@lru_cache
def _decoder_of(as_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(as_, dec_hook=_read)


def _read(kind: type, value: Any) -> int | str:
    """Read a `Count` or a `Phrase`."""
    return read_count(value) or 0 if kind is Count else read_phrase(value)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_without_surrogates, value)]
    if isinstance(value, dict):
        return {read_text(name): _without_surrogates(one) for name, one in value.items()}
    return read_text(value) if isinstance(value, str) else value
