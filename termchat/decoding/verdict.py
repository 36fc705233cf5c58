"""Whether a finished reply is what its constraint asked for, and the bytes that a constraint allows at a place."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from termchat.decoding.constraint import Constraint
from termchat.decoding.gbnf import to_lark
from termchat.decoding.partial_json import Standing, shown_path, standing

if TYPE_CHECKING:
    from llguidance import LLMatcher

_END = 256


class Judgement(NamedTuple):
    """`detail` is "" for what is valid; else it goes on from there: "incomplete: ends inside a string"."""

    kind: Literal["valid", "incomplete", "invalid", "unknown"]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class AllowedBytes(NamedTuple):
    """What may follow a text: one of `allowed`, and `forced` if nothing else can; or nothing where it `may_end`."""

    allowed: bytes
    forced: bytes
    may_end: bool


def verdict_on(constraint: Constraint, data: bytes) -> Judgement:
    """What is to be said of a reply that is over."""
    if constraint.kind == "json_schema":
        return _on_json(constraint, data)
    found = _followed(constraint, data)
    if found is None:
        return Judgement("unknown", "the constraint names tokens that are no text")
    matcher, fits = found
    if fits < len(data):
        return Judgement("invalid", f"{_character(data, fits)} does not fit")
    if matcher.is_accepting():
        return Judgement("valid")
    after = _allowed(matcher)
    return Judgement("incomplete", f"{described_bytes(after)} must follow" if after.allowed else "")


def allowed_after(constraint: Constraint, data: bytes) -> AllowedBytes | None:
    """What may follow these bytes; None where they do not fit, or where that is not known without the vocabulary."""
    found = _followed(constraint, data)
    return _allowed(found[0]) if found is not None and found[1] == len(data) else None


def _where_it_ends(at: Standing) -> str:
    place = shown_path(at.path)
    if at.next_value:
        return f"ends before a value ({place})" if place else "ends before a value"
    return f"ends inside {at.inside}" + (f" ({place})" if place else "")


def _on_json(constraint: Constraint, data: bytes) -> Judgement:
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        after = allowed_after(constraint, data)
        if after is not None and not after.may_end:
            return Judgement("incomplete", _where_it_ends(standing(text)))
        return Judgement("invalid", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}")
    except RecursionError:
        return Judgement("unknown", "nested too deeply")
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, best_match

    read = json.loads(constraint.text)
    checked = Draft202012Validator(read, format_checker=Draft202012Validator.FORMAT_CHECKER)
    try:
        fault = best_match(checked.iter_errors(value))
    except (SchemaError, RecursionError, ValueError, TypeError) as error:
        return Judgement("unknown", str(error).partition("\n")[0])
    if fault is None:
        return Judgement("valid")
    place = shown_path(tuple(fault.absolute_path))
    return Judgement("invalid", f"{place}: {fault.message}" if place else fault.message)


def pretty(text: str) -> str | None:
    """JSON with a line for each value; None where the text is not JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def described_bytes(after: AllowedBytes) -> str:
    """`"name"`, `0-9, - or the end`, `any text`: what may follow, as people read it."""
    if after.forced:
        return json.dumps(after.forced.decode("utf-8", "replace"), ensure_ascii=False)
    ranges: list[list[int]] = []
    for byte in after.allowed:
        if ranges and byte == ranges[-1][1] + 1 and (byte < 128) == (ranges[-1][0] < 128):
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    if sum(high - low + 1 for low, high in ranges if high < 128) > _MANY:
        missing = [byte for byte in range(32, 127) if byte not in after.allowed]
        shown = "any character" + (f" but {' '.join(map(_shown, missing))}" if missing else "")
        parts = [shown]
    else:
        spaces = all(byte in after.allowed for byte in b"\t\n\r ")
        parts = ["white space"] if spaces else []
        for low, high in ranges:
            if low < 128 and not (spaces and low in b"\t\n\r "):
                parts += _shown_range(low, high)
        if any(high >= 128 for _, high in ranges):
            parts.append("characters beyond ASCII")
    if after.may_end:
        parts.append("the end")
    return " ".join(parts[:-1]) + (" or " if len(parts) > 1 else "") + parts[-1] if parts else "nothing"


_MANY = 85
_NAMED = {9: "tab", 10: "newline", 13: "return", 32: "space", 44: '","'}


def _shown_range(low: int, high: int) -> list[str]:
    if high - low < 2 or low < 33 or high > 126:
        return [_shown(byte) for byte in range(low, high + 1)]
    return [f"{chr(low)}-{chr(high)}"]


def _shown(byte: int) -> str:
    return _NAMED.get(byte) or (chr(byte) if 32 < byte < 127 else f"0x{byte:02x}")


def _character(data: bytes, at: int) -> str:
    before = data[:at].decode("utf-8", "replace")
    rest = data[at : at + 4].decode("utf-8", "replace")[:1]
    return f"{json.dumps(rest, ensure_ascii=False)} at character {len(before) + 1}"


class _Followed:
    """A matcher that was told of `data`, of which `fits` bytes fit."""

    def __init__(self, base: LLMatcher) -> None:
        self._base, self.matcher, self.data, self.fits = base, base.deep_copy(), b"", 0

    def follow(self, data: bytes) -> None:
        """Reads on, where the data begin with those before."""
        if self.fits < len(self.data) or not data.startswith(self.data):
            self.matcher, self.data, self.fits = self._base.deep_copy(), b"", 0
        self.fits += int(self.matcher.try_consume_tokens(list(data[len(self.data) :])))
        self.data = data


def _followed(constraint: Constraint, data: bytes) -> tuple[LLMatcher, int] | None:
    """A matcher after as many of the bytes as fit, and how many do."""
    found = _following(constraint.kind, constraint.text)
    if found is None:
        return None
    found.follow(data)
    return found.matcher, found.fits


def _allowed(matcher: LLMatcher) -> AllowedBytes:
    import numpy as np

    may_end = bool(matcher.is_accepting())
    forced = bytes(matcher.compute_ff_bytes())
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")[:_END]
    allowed = bytes(np.flatnonzero(bits).tolist())
    return AllowedBytes(allowed, forced, may_end)


@lru_cache(8)
def _following(kind: str, text: str) -> _Followed | None:
    from llguidance import LLMatcher, LLParserLimits

    if kind == "json_schema":
        grammar = LLMatcher.grammar_from_json_schema(text)
    elif kind == "regex":
        grammar = LLMatcher.grammar_from_regex(text)
    elif kind == "choice":
        grammar = LLMatcher.grammar_from_lark("start: TEXT\nTEXT: " + "\n  | ".join(map(json.dumps, json.loads(text))))
    else:
        grammar = LLMatcher.grammar_from_lark(to_lark(text) if kind == "gbnf" else text)
    matcher = LLMatcher(_byte_tokenizer(), grammar, log_level=0, limits=LLParserLimits(verbose_errors=False))
    return None if matcher.is_error() else _Followed(matcher)


@lru_cache(1)
def _byte_tokenizer() -> Any:
    """One whose tokens are the bytes, by their numbers, and one that ends."""
    from llguidance import LLTokenizer, TokenizerWrapper

    class Bytes:
        eos_token_id, bos_token_id = _END, None
        tokens = (*(bytes([i]) for i in range(256)), b"\xff<end>")
        special_token_ids = (_END,)

        def __call__(self, text: bytes | str) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    return LLTokenizer(TokenizerWrapper(Bytes()))
