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
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from termchat.decoding.constraint import Constraint, TextError
from termchat.decoding.constraint_check import byte_tokenizer, grammar_of
from termchat.decoding.records import Misfit
from termchat.engine.llama.grammar_trial import Trial, greedy_tokenizer, limits
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


class ConstraintError(ValueError):
    """A constraint cannot be used; the message says why."""


class Grammars:
    """Compiles constraints for a vocabulary, which it holds on to: close it first. Texts of tokens are made by `piece`, control
    tokens by their name. The tokenizer is built when it is first needed, which takes a third of a second for 49,152 tokens.
    Without llama.cpp's `vocab` it takes texts apart by the longest tokens, which no mask depends on.
    """

    def __init__(
        self,
        vocab: Any,
        n_vocab: int,
        end_ids: Sequence[int],
        piece: Callable[[int], bytes],
        is_control: Callable[[int], bool],
    ) -> None:
        self._vocab, self._n_vocab, self._end_ids = vocab, n_vocab, list(end_ids)
        self._piece, self._is_control = piece, is_control
        self._tokenizer: Any = None
        self._trial = Trial()
        self._compiled: OrderedDict[tuple[str, str], llguidance.LLMatcher] = OrderedDict()
        self.thread = ThreadPoolExecutor(1, "mask")

    def close(self) -> None:
        self.thread.shutdown()
        self._trial.close()
        self._compiled.clear()
        self._tokenizer = None

    def check(self, constraint: Constraint) -> Checked:
        """Whether a constraint can be used."""
        try:
            error, warnings, _ = self._trial.compile(_grammar_of(constraint))
            ms = None if error else self.compile(constraint)
        except ConstraintError as refusal:
            return Checked(str(refusal))
        return Checked(_said(error), ms or 0.0, [_said(warning) for warning in warnings])

    def compile(self, constraint: Constraint) -> float | None:
        """Compiles a constraint, and says how many milliseconds that took; None where it had been done.

        Raises:
            ConstraintError: it cannot be used.
        """
        key = (constraint.kind, constraint.text)
        if key in self._compiled:
            self._compiled.move_to_end(key)
            return None
        grammar = _grammar_of(constraint)
        error, _, _ = self._trial.compile(grammar)
        if error:
            raise ConstraintError(_said(error))
        from llguidance import LLMatcher

        tokenizer = self._tokenizer = self._tokenizer or self._build()
        begun = perf_counter()
        matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=limits())
        if matcher.is_error():
            raise ConstraintError(_said(matcher.get_error()))
        self._check_spelling(constraint, matcher)
        self._compiled[key] = matcher
        while len(self._compiled) > _KEPT:
            self._compiled.popitem(last=False)
        return (perf_counter() - begun) * 1e3

    def _check_spelling(self, constraint: Constraint, matcher: llguidance.LLMatcher) -> None:
        """Check that the vocabulary can write what has to be written.

        Raises:
            ConstraintError: no token begins it, or the tokens of a text are not that text, as where "▁" means a space.
        """
        begun = matcher.deep_copy()
        bits = np.frombuffer(begun.compute_bitmask(), np.uint32)
        if begun.is_error() or not bits.any():
            raise ConstraintError("no token of this model can begin it")
        forced = [begun.compute_ff_bytes()]
        texts = [text.encode() for text in json.loads(constraint.text)] if constraint.kind == "choice" else forced
        for text in texts:
            written = self._tokenizer.decode_bytes(self._tokenizer.tokenize_bytes(text))
            if written != text:
                shown = (json.dumps(one.decode("utf-8", "replace"), ensure_ascii=False) for one in (text, written))
                raise ConstraintError("this model cannot write {}: its tokens for it are {}".format(*shown))

    def follow(self, constraint: Constraint, ids: Sequence[int]) -> Follower:
        """A follower that was told of these ids.

        Raises:
            ConstraintError: the constraint cannot be used.
        """
        ms = self.compile(constraint)
        matcher = self._compiled[constraint.kind, constraint.text].deep_copy()
        return Follower(matcher, constraint, self._n_vocab, self.thread, ids, self._name, ms)

    def followed(self, constraint: Constraint, ids: Sequence[int]) -> Follower:
        """`follow` for a question.

        Raises:
            EngineError: the constraint cannot be used.
        """
        try:
            return self.follow(constraint, ids)
        except ConstraintError as error:
            raise EngineError("constraint", f"the constraint cannot be used: {error}", "") from None

    def misfit(self, constraint: Constraint, ids: Sequence[int], token: int) -> Misfit | None:
        """Why the constraint does not allow a token after these ids, which match it; None if it does.

        Raises:
            EngineError: the constraint cannot be used.
        """
        if self.followed(constraint, ids).allows(token):
            return None
        matcher = _by_bytes(grammar_of(constraint))
        matcher.consume_tokens(list(b"".join(map(self._piece, ids))))
        data = b"" if self._is_control(token) else self._piece(token)
        fits = matcher.try_consume_tokens(list(data))
        found = Mask(np.frombuffer(matcher.compute_bitmask().ljust(36, b"\0"), np.uint32), after_chain=False).allowed(
            256
        )
        return Misfit(
            at=fits,
            byte=data[fits] if fits < len(data) else None,
            allowed=bytes(np.flatnonzero(found).tolist()),
            forced=matcher.compute_ff_bytes(),
            may_end=matcher.is_accepting(),
        )

    def _name(self, token: int) -> str:
        return self._piece(token).decode("utf-8", "replace")

    def _build(self) -> Any:
        from llguidance import LLTokenizer

        tokens = [(_SPECIAL if self._is_control(i) else b"") + self._piece(i) for i in range(self._n_vocab)]
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
            raise ConstraintError(f"it cannot be used with this model's vocabulary: {_said(str(error))}") from None


class Follower:
    """A constraint along a reply. `problem` says why it is no longer applied: "" where it is. `compile_ms` is None where it was
    compiled before.

    Of one matcher nothing else may be asked while its mask is computed.
    """

    def __init__(
        self,
        matcher: llguidance.LLMatcher,
        constraint: Constraint,
        n_vocab: int,
        thread: ThreadPoolExecutor,
        ids: Sequence[int],
        name: Callable[[int], str],
        compile_ms: float | None = None,
    ) -> None:
        self._matcher, self._thread, self._name = matcher, thread, name
        self._bits = np.zeros((n_vocab + 31) // 32, np.uint32)
        self._running: Future[None] | None = None
        self._known = False
        self._took = 0.0
        self._mask = Mask(self._bits, constraint.after_chain)
        self.compile_ms = compile_ms
        self.problem = ""
        taken = matcher.try_consume_tokens(list(ids))
        if matcher.is_error():
            self.problem = _said(matcher.get_error())
        elif taken < len(ids):
            self.problem = self._refused(ids[taken])

    def fork(self) -> Follower:
        """Another one, for a reply that is the same until now."""
        self._wait()
        made = copy(self)
        made._matcher, made._bits = self._matcher.deep_copy(), self._bits.copy()
        made._mask = self._mask._replace(bits=made._bits)
        return made

    def allows(self, token: int) -> bool:
        self._wait()
        return bool(self._matcher.validate_tokens([token]))

    def take(self, token: int) -> None:
        """The token joins the reply. One that does not fit is a problem, and ends nothing."""
        if self.problem:
            return
        if self.allows(token):
            self._matcher.consume_token(token)
            self._known = False
            self._look()
        else:
            self.problem = self._refused(token)

    @property
    def complete(self) -> bool:
        """Nothing can follow but an end token."""
        return not self.problem and bool(self._matcher.is_stopped())

    @property
    def accepting(self) -> bool:
        """The reply could end here."""
        self._wait()
        return not self.problem and bool(self._matcher.is_accepting())

    def begin(self) -> None:
        """Computes the mask for the next token in the meantime, if that is likely to take long."""
        if self._took > _LONG and not self.problem and not self._known and self._running is None:
            self._running = self._thread.submit(self._compute)

    def mask(self) -> Mask | None:
        """The mask for the next token, waiting for it; None where there is a problem."""
        self._wait()
        if not self.problem and not self._known:
            self._compute()
            self._look()
        return None if self.problem else self._mask

    def _compute(self) -> None:
        begun = perf_counter()
        self._matcher.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.nbytes)
        self._took = perf_counter() - begun
        self._known = True

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()
            self._look()

    def _look(self) -> None:
        if self._matcher.is_error():
            self.problem = _said(self._matcher.get_error())
        elif self._known and not self._bits.any():
            self.problem = "no token fits"

    def _refused(self, token: int) -> str:
        return f"the token {json.dumps(self._name(token), ensure_ascii=False)} does not fit"


def _grammar_of(constraint: Constraint) -> str:
    """See `grammar_of`.

    Raises:
        ConstraintError: the constraint is not of its kind.
    """
    try:
        return grammar_of(constraint)
    except TextError as error:
        raise ConstraintError(str(error)) from None


def _by_bytes(grammar: str) -> llguidance.LLMatcher:
    """A matcher whose tokens are the bytes, by their numbers, and one that ends."""
    from llguidance import LLMatcher

    return LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=limits())


def _said(error: str) -> str:
    """An error of llguidance for people."""
    return error.replace("<non-verbose/>", "").strip().replace("NoExtensionBias", "no token fits")
