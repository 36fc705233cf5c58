"""Answers to questions about past positions of a loaded model. They take a `Vocabulary` and `Cells` alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import whynot
from termchat.decoding.records import Token
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.asked_vocabulary import AskedVocabulary
from termchat.engine.llama.cells import Aborted, Cells, ContextFull
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.observe import Mask
from termchat.engine.llama.reply import token_record
from termchat.engine.llama.scoring import Scorer
from termchat.engine.llama.spellings import Speller
from termchat.engine.port import EngineError, Explain, Explained, Inspect, Score, Scored


class AskedModel(AskedVocabulary, ABC):
    """Whoever derives from it sets `model` and `cache` first. `larger_context`: see `EngineAbilities`."""

    cache: Cells
    larger_context = LOCAL.larger_context

    def __init__(self, scorer: Scorer, speller: Speller) -> None:
        super().__init__()
        self._scorer, self.speller = scorer, speller
        self._asked: tuple[list[int], NDArray[np.float32], bool] | None = None

    def abort(self) -> None:
        """Ends what is computed; may be called from any thread."""
        self.cache.abort.set()

    @abstractmethod
    def _logits(self, ids: list[int], alone: bool, wanted: Callable[[], bool]) -> tuple[NDArray[np.float32], bool]:
        """The logits after `ids`, and whether a fresh forward pass was needed; see `inspect`."""

    def inspect(self, command: Inspect, *, alone: bool, wanted: Callable[[], bool]) -> tuple[Token, bool]:
        """What would be drawn after `command.ids`, and whether a fresh forward pass was needed.

        With `alone`, no reply is running: much that is not in the cache is then decoded where the next turn can reuse it,
        unless walks are still there. That is given up once something else is `wanted`.

        Raises:
            EngineError: there is no room, it was given up, or llama.cpp failed.
        """
        logits, recomputed = self._after(command.ids, alone, wanted)
        ids, model = command.ids, self.model
        bias = model.bias(command.samplers.logit_bias)
        chain = Chain(command.samplers, model.n_vocab, ids, state=command.state, breakers=model.breakers, bias=bias)
        try:
            observer = Observer(model.n_vocab, model.end_ids, model.names, command.candidates)
            mask = self._mask(command)
            try:
                drawn = observer.draw(logits, chain, command.seed, command.done, mask=mask)
            except NothingFits:
                drawn = observer.draw(logits, chain, command.seed, command.done)
        finally:
            chain.close()
        return token_record(drawn, command.done, len(ids), "", model, -1, 0, 0), recomputed

    def explain(self, command: Explain, *, alone: bool, wanted: Callable[[], bool]) -> Explained:
        """Why a token was or was not drawn; `alone` and `wanted` as in `inspect`.

        Raises:
            EngineError: see `inspect`; or there is no such token.
        """
        if not 0 <= command.id < self.model.n_vocab:
            raise EngineError("prompt", f"token {command.id} is not in this model's vocabulary", "")
        logits, recomputed = self._after(command.ids, alone, wanted)
        model = self.model
        chain = Chain(command.samplers, model.n_vocab, command.ids, breakers=model.breakers)
        dry = chain.compute_dry_penalties()
        chain.close()
        mask, misfit = self._mask(command), None
        if mask is not None and command.constraint is not None:
            misfit = model.grammars.misfit(command.constraint, _matching(command), command.id)
        explanation = whynot.explain(
            logits, command.id, command.ids, command.samplers, command.seed, command.done, model.name,
            state=command.state, dry=dry, misfit=misfit, after_chain=mask is not None and mask.after_chain,
            allowed=None if mask is None else mask.allowed(model.n_vocab),
            biases=model.token_biases(command.samplers.logit_bias),
        )  # fmt: skip
        return Explained(explanation, recomputed)

    def score(
        self, command: Score, *, alone: bool, progress: Callable[[int, int], None], wanted: Callable[[], bool]
    ) -> Scored:
        """A reply drawn again with its own past; see `Scorer.score`. `alone`: no reply is running.

        Raises:
            EngineError: no such reply, no room, it was given up, or llama.cpp failed.
        """
        if alone:
            self.cache.abort.clear()
        try:
            return self._scorer.score(command, progress, wanted)
        except ContextFull:
            raise EngineError(
                "context",
                "not enough free context to rescore this reply",
                self.larger_context,
            ) from None
        except Aborted:
            raise EngineError(
                "busy", "interrupted by another request", "ask again to continue where it stopped"
            ) from None

    def _mask(self, command: Inspect | Explain) -> Mask | None:
        """What the constraint allows there; None where it does not apply."""
        if command.constraint is None or command.done < command.constraint_begun:
            return None
        return self.model.grammars.followed(command.constraint, _matching(command)).mask()

    def _after(self, ids: list[int], alone: bool, wanted: Callable[[], bool]) -> tuple[NDArray[np.float32], bool]:
        """The logits after `ids`, and whether a fresh forward pass was needed; those last asked for are kept."""
        if not ids or not all(0 <= i < self.model.n_vocab for i in ids):
            raise EngineError("prompt", "no such position", "")
        if self._asked is None or self._asked[0] != ids:
            try:
                self._asked = (ids, *self._logits(ids, alone, wanted))
            except ContextFull:
                raise EngineError("context", "not enough free context to inspect this position", "") from None
            except Aborted:
                raise EngineError("busy", "interrupted by another request", "") from None
        return self._asked[1:]


def _matching(command: Inspect | Explain) -> list[int]:
    """The ids that the constraint was told of."""
    return command.ids[len(command.ids) - command.done + command.constraint_begun :]
