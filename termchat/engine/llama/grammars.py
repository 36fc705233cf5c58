"""Constraints by llguidance: which tokens may come next, so that a reply matches what it has to.

`Grammars` compiles constraints for one vocabulary, after a trial in a process of its own (`grammar_trial`). A `Follower` keeps
to a reply: it is told of each token, and computes the mask for the next one, a slow one in a thread of its own, beside
`llama_decode`, which leaves the interpreter to others. Its state follows from the ids since the step with which the
constraint began, and is made again from them.

llguidance never raises for what a grammar or a token does; its matchers go into an error state for good, whose mask allows the
end tokens only. So that is looked at after each mask, and no token is consumed that was not validated.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from termchat.decoding.constraint import Constraint, TextError
from termchat.decoding.constraint_check import byte_tokenizer, grammar_of
from termchat.decoding.records import Misfit
from termchat.engine.llama.grammar_trial import Trial, build_limits, greedy_tokenizer
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Mask
from termchat.engine.port import Checked, EngineError

if TYPE_CHECKING:
    import llguidance

_KEPT = 8
"""Compiled grammars; a large one takes a quarter of a megabyte."""
_LONG = 0.0005
"""Seconds of a mask from which on the next one is computed beside `llama_decode`; for a shorter one, changing threads costs
more than waiting."""
_SPECIAL = b"\xff"
"""What llguidance wants before the name of a control token."""


class Grammars:
    """Compiles constraints for a vocabulary; close it before the model. `piece` makes the texts of tokens, control tokens
    have their name. The tokenizer is built on first use, in a third of a second for 49,152 tokens. Without llama.cpp's
    `vocab` it splits texts by the longest tokens, which affects no mask.
    """

    def __init__(
        self,
        vocab: Any,
        n_vocab: int,
        end_ids: Sequence[int],
        piece: Callable[[int], bytes],
        is_control: Callable[[int], bool],
    ) -> None:
        self._vocab, self.n_vocab, self._end_ids = vocab, n_vocab, list(end_ids)
        self.piece, self._is_control = piece, is_control
        self._tokenizer: Any = None
        self._trial = Trial()
        self._compiled: dict[tuple[str, str], llguidance.LLMatcher] = {}
        self.thread = ThreadPoolExecutor(1, "mask")

    def close(self) -> None:
        self.thread.shutdown()
        self._trial.close()
        self._compiled.clear()
        self._tokenizer = None

    def check(self, constraint: Constraint) -> Checked:
        """Check whether a constraint can be used."""
        try:
            error, warnings, _ = self._trial.compile_grammar(grammar_of(constraint))
            ms = None if error else self.compile_constraint(constraint)
        except TextError as refusal:
            return Checked(str(refusal))
        return Checked(_clean(error), ms or 0.0, [_clean(warning) for warning in warnings])

    def compile_constraint(self, constraint: Constraint) -> float | None:
        """Compile a constraint; return how many milliseconds that took, None where it had been done.

        Raises:
            TextError: it cannot be used.
        """
        key = (constraint.kind, constraint.text)
        if key in self._compiled:
            self._compiled[key] = self._compiled.pop(key)
            return None
        grammar = grammar_of(constraint)
        error, _, _ = self._trial.compile_grammar(grammar)
        if error:
            raise TextError(_clean(error))
        from llguidance import LLMatcher

        tokenizer = self._tokenizer = self._tokenizer or self._build_tokenizer()
        begun = perf_counter()
        matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=build_limits())
        if matcher.is_error():
            raise TextError(_clean(matcher.get_error()))
        self._check_spelling(constraint, matcher)
        self._compiled[key] = matcher
        if len(self._compiled) > _KEPT:
            del self._compiled[next(iter(self._compiled))]
        return (perf_counter() - begun) * 1e3

    def _check_spelling(self, constraint: Constraint, matcher: llguidance.LLMatcher) -> None:
        """Check that the vocabulary can write what has to be written.

        Raises:
            TextError: no token begins it, or the tokens of a text are not that text, as where "▁" means a space.
        """
        begun = matcher.deep_copy()
        bits = np.frombuffer(begun.compute_bitmask(), np.uint32)
        if begun.is_error() or not bits.any():
            raise TextError("no token of this model can begin it")
        forced = [begun.compute_ff_bytes()]
        texts = [text.encode() for text in json.loads(constraint.text)] if constraint.kind == "choice" else forced
        for text in texts:
            written = self._tokenizer.decode_bytes(self._tokenizer.tokenize_bytes(text))
            if written != text:
                shown = (json.dumps(one.decode("utf-8", "replace"), ensure_ascii=False) for one in (text, written))
                raise TextError("this model cannot write {}: its tokens for it are {}".format(*shown))

    def follow_ids(self, constraint: Constraint, ids: Sequence[int]) -> Follower:
        """Return a follower that has consumed these ids.

        Raises:
            EngineError: of kind "constraint": it cannot be used.
        """
        try:
            ms = self.compile_constraint(constraint)
        except TextError as error:
            raise EngineError("constraint", f"the constraint cannot be used: {error}", "") from None
        matcher = self._compiled[constraint.kind, constraint.text].deep_copy()
        return Follower(self, matcher, constraint, ids, ms)

    def find_misfit(self, constraint: Constraint, ids: Sequence[int], token: int) -> Misfit | None:
        """Return why the constraint does not allow a token after these ids, which match it; None if it does.

        Raises:
            EngineError: the constraint cannot be used.
        """
        if self.follow_ids(constraint, ids).allows_token(token):
            return None
        from llguidance import LLMatcher

        # Its tokens are the bytes, by their numbers, and one that ends.
        matcher = LLMatcher(byte_tokenizer(), grammar_of(constraint), log_level=0, limits=build_limits())
        matcher.consume_tokens(list(b"".join(map(self.piece, ids))))
        data = b"" if self._is_control(token) else self.piece(token)
        fits = matcher.try_consume_tokens(list(data))
        bits = np.frombuffer(matcher.compute_bitmask().ljust(36, b"\0"), np.uint32)
        return Misfit(
            at=fits,
            byte=data[fits] if fits < len(data) else None,
            allowed=bytes(np.flatnonzero(Mask(bits, after_chain=False).unpack_allowed(256)).tolist()),
            forced=matcher.compute_ff_bytes(),
            may_end=matcher.is_accepting(),
        )

    def _build_tokenizer(self) -> Any:
        from llguidance import LLTokenizer

        tokens = [(_SPECIAL if self._is_control(i) else b"") + self.piece(i) for i in range(self.n_vocab)]
        tokenize = LIB._lib.llama_tokenize
        try:
            if self._vocab is None:
                return greedy_tokenizer(tokens, self._end_ids)
            return LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]  # its stubs lack it
                tokens=tokens,
                vocab_ptr=ctypes.cast(self._vocab, ctypes.c_void_p).value,
                tokenize_fptr=ctypes.cast(tokenize, ctypes.c_void_p).value,
                eos_token=self._end_ids,
            )
        except ValueError as error:
            raise TextError(f"it cannot be used with this model's vocabulary: {_clean(str(error))}") from None


class Follower:
    """A constraint along a reply. `problem` says why it is no longer applied: "" where it is. `compile_ms` is None where it was
    compiled before.

    Of one matcher nothing else may be asked while its mask is computed.
    """

    def __init__(
        self,
        grammars: Grammars,
        matcher: llguidance.LLMatcher,
        constraint: Constraint,
        ids: Sequence[int],
        ms: float | None,
    ) -> None:
        self._grammars, self._matcher = grammars, matcher
        self._bits = np.zeros((grammars.n_vocab + 31) // 32, np.uint32)
        self._running: Future[None] | None = None
        self._known = False
        self._took = 0.0
        self._mask = Mask(self._bits, constraint.after_chain)
        self.compile_ms = ms
        self.problem = ""
        taken = matcher.try_consume_tokens(list(ids))
        if matcher.is_error():
            self.problem = _clean(matcher.get_error())
        elif taken < len(ids):
            self.problem = self._explain(ids[taken])

    def fork_follower(self) -> Follower:
        """Return another follower, for a reply that is the same until now."""
        self._wait_for_mask()
        made = copy(self)
        made._matcher, made._bits = self._matcher.deep_copy(), self._bits.copy()
        made._mask = self._mask._replace(bits=made._bits)
        return made

    def allows_token(self, token: int) -> bool:
        self._wait_for_mask()
        return bool(self._matcher.validate_tokens([token]))

    def take_token(self, token: int) -> None:
        """Take a token of the reply. One that does not fit is a problem, and ends nothing."""
        if self.problem:
            return
        if self.allows_token(token):
            self._matcher.consume_token(token)
            self._known = False
            self._check_state()
        else:
            self.problem = self._explain(token)

    @property
    def complete(self) -> bool:
        """Whether nothing can follow but an end token."""
        return not self.problem and bool(self._matcher.is_stopped())

    @property
    def accepting(self) -> bool:
        """Whether the reply could end here."""
        self._wait_for_mask()
        return not self.problem and bool(self._matcher.is_accepting())

    def begin_mask(self) -> None:
        """Compute the mask for the next token beside the decode, if that is likely to take long."""
        if self._took > _LONG and not self.problem and not self._known and self._running is None:
            self._running = self._grammars.thread.submit(self._compute_mask)

    def wait_mask(self) -> Mask | None:
        """Return the mask for the next token; None if the follower has a problem."""
        self._wait_for_mask()
        if not self.problem and not self._known:
            self._compute_mask()
            self._check_state()
        return None if self.problem else self._mask

    def _compute_mask(self) -> None:
        begun = perf_counter()
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        self._took = perf_counter() - begun
        self._known = True

    def _wait_for_mask(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()
            self._check_state()

    def _check_state(self) -> None:
        if self._matcher.is_error():
            self.problem = _clean(self._matcher.get_error())
        elif self._known and not self._bits.any():
            self.problem = "no token fits"

    def _explain(self, token: int) -> str:
        name = self._grammars.piece(token).decode("utf-8", "replace")
        return f"the token {json.dumps(name, ensure_ascii=False)} does not fit"


def _clean(error: str) -> str:
    """Return an error of llguidance as people read it."""
    return error.replace("<non-verbose/>", "").strip().replace("NoExtensionBias", "no token fits")
