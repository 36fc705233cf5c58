"""Compiles grammars on trial, in a process that may take too long or too much: some texts of a line take gigabytes.

A line of stdin is a grammar as JSON; the answer is a line with [error, warnings, milliseconds]. The process ends without an
answer when a limit is hit, and with its input.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from termchat.decoding.constraint_check import byte_tokenizer
from termchat.engine.llama import sandbox

SECONDS = 5
BYTES = 1 << 30


class Trial:
    """The process, started when it is needed."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def compile_grammar(self, grammar: str) -> tuple[str, list[str], float]:
        """Compile a grammar; return its fault ("": none), warnings, and the milliseconds it took."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(grammar).encode() + b"\n")
            process.stdin.flush()
            error, warnings, ms = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            return f"it takes more than {self._seconds} seconds or {BYTES >> 20} MiB to compile", [], 0.0
        return error, warnings, ms

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def greedy_tokenizer(tokens: Sequence[bytes], end_ids: list[int]) -> Any:
    """One of these tokens, which takes a text apart by the longest ones; the names of control tokens begin with 0xFF."""
    from llguidance import LLTokenizer, TokenizerWrapper

    by_text = {text: i for i, text in reversed(list(enumerate(tokens)))}
    longest = max(map(len, tokens))

    class Greedy:
        eos_token_id, bos_token_id = end_ids[0], None
        special_token_ids = tuple(i for i, text in enumerate(tokens) if text.startswith(b"\xff"))

        def __init__(self) -> None:
            self.tokens = tokens

        def __call__(self, text: bytes | str) -> list[int]:
            data, ids = text.encode() if isinstance(text, str) else text, []
            while data:
                length = next((length for length in range(longest, 0, -1) if data[:length] in by_text), 0)
                ids += [by_text[data[:length]]] if length else []
                data = data[length or 1 :]
            return ids

    return LLTokenizer(TokenizerWrapper(Greedy()), eos_token=end_ids)


def build_limits() -> Any:
    """What a matcher may take: llguidance's own limits, but 50 milliseconds a mask and not 3 for ambiguous grammars."""
    from llguidance import LLParserLimits

    return LLParserLimits(step_max_items=1_000_000, max_items_in_row=20_000, verbose_errors=False)


def main() -> None:
    """Answers until the input ends."""
    from llguidance import LLMatcher

    tokenizer = byte_tokenizer()
    with sandbox.limit_memory(BYTES):
        for line in sys.stdin:
            with sandbox.last_resort(float(sys.argv[1])):
                begun = perf_counter()
                matcher = LLMatcher(tokenizer, json.loads(line), log_level=0, limits=build_limits())
                matcher.compute_bitmask()
                answer = (matcher.get_error(), matcher.get_grammar_warnings(), (perf_counter() - begun) * 1e3)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
