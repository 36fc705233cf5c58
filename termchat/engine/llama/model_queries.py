"""Answers to questions about a model: about texts and tokens, which take a `Vocabulary` alone, and about past positions, which
take `Cells`, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import whynot
from termchat.decoding.records import Token
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.cells import Aborted, Cells, ContextFull
from termchat.engine.llama.chain import NothingFits, Observer
from termchat.engine.llama.observe import Mask
from termchat.engine.llama.reply import complete_record
from termchat.engine.llama.scoring import Scorer
from termchat.engine.llama.spellings import Speller
from termchat.engine.llama.template import ChatTemplate, RenderedPrompt
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import (
    EngineError,
    Explain,
    Explained,
    Inspect,
    Message,
    Render,
    Rendered,
    Score,
    Scored,
    Tokenized,
)


class ModelQueries:
    """Answers about a model's tokens, prompts and past positions. Without `cells` a subclass overrides `inspect_step`,
    `explain_step` and `score_reply`. `larger_context`: see `EngineAbilities`."""

    model: Vocabulary
    cache: Cells
    larger_context = LOCAL.larger_context

    def __init__(self, model: Vocabulary, cells: Cells | None = None) -> None:
        self.model, self.speller = model, Speller(model)
        if cells is not None:
            self.cache, self._scorer = cells, Scorer(cells)
        self._asked: tuple[list[int], NDArray[np.float32], bool] | None = None

    # --- texts and tokens --------------------------------------------------------------------------------------------

    @property
    def has_switch(self) -> bool:
        """Whether the template can turn the model's thoughts on and off."""
        if self.model.has_switch:
            return True
        with suppress(EngineError):  # it is told when a chat needs the template
            return self._template.has_switch
        return False

    @cached_property
    def _template(self) -> ChatTemplate:
        return ChatTemplate(self.model)

    def render(self, command: Render) -> Rendered:
        """Return prompt ids; see `Render`."""
        prompt, before = self.render_prompt(command.messages, command.think), command.before
        ids = prompt.ids
        if command.append and prompt.after is not None:
            added = ids[prompt.after :]
            ended = added[:1] == before[-1:] and added[0] in self.model.end_ids
            return Rendered(added[ended:], False, prompt.remark)
        if before and ids[: len(before)] == before:
            return Rendered(ids[len(before) :], False, prompt.remark)
        return Rendered(ids, True, prompt.remark)

    def render_prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt:
        """Return the whole prompt of these messages.

        Raises:
            EngineError: there is no template, or it refuses the messages.
        """
        return self._template.render_prompt(messages, think)

    def describe_ids(self, ids: list[int]) -> Tokenized:
        """Return the bytes and labels of ids.

        Raises:
            EngineError: one is not in the vocabulary.
        """
        model = self.model
        for token in ids:
            self._check_id(token)
        control = [index for index, i in enumerate(ids) if model.is_control(i)]
        return Tokenized(ids, [model.piece(i) for i in ids], [model.name(i) for i in ids], control)

    def _check_id(self, token: int) -> None:
        if not 0 <= token < self.model.n_vocab:
            raise EngineError("prompt", f"token {token} is not in this model's vocabulary", "")

    # --- past positions ----------------------------------------------------------------------------------------------

    def abort_decode(self) -> None:
        """Stop all decodes; may be called from any thread."""
        self.cache.abort.set()

    def inspect_step(self, command: Inspect, *, alone: bool, wanted: Callable[[], bool]) -> tuple[Token, bool]:
        """Return what would be drawn after `command.ids`, and whether a fresh forward pass was needed.

        With `alone`, no reply is running: much that is not in the cache is then decoded where the next turn can reuse it,
        unless walks are still there. That is given up once something else is `wanted`.

        Raises:
            EngineError: there is no room, it was given up, or llama.cpp failed.
        """
        logits, recomputed = self._logits_after(command.ids, alone, wanted)
        model = self.model
        chain = model.make_chain(command.samplers, command.ids, command.state)
        try:
            observer = Observer(model.n_vocab, model.end_ids, model.names, command.candidates)
            mask = self._build_mask(command)
            try:
                drawn = observer.draw(logits, chain, command.seed, command.done, mask=mask)
            except NothingFits:
                drawn = observer.draw(logits, chain, command.seed, command.done)
        finally:
            chain.close()
        return complete_record(drawn, model, len(command.ids)), recomputed

    def explain_step(self, command: Explain, *, alone: bool, wanted: Callable[[], bool]) -> Explained:
        """Return why a token was or was not drawn; `alone` and `wanted` as in `inspect_step`.

        Raises:
            EngineError: see `inspect_step`; or there is no such token.
        """
        self._check_id(command.id)
        logits, recomputed = self._logits_after(command.ids, alone, wanted)
        model = self.model
        chain = model.make_chain(command.samplers, command.ids)
        dry = chain.compute_dry_penalties()
        chain.close()
        mask, misfit = self._build_mask(command), None
        if mask is not None and command.constraint is not None:
            misfit = model.grammars.find_misfit(command.constraint, _list_matching(command), command.id)
        explanation = whynot.explain_token(
            logits, command.id, command.ids, command.samplers, command.seed, command.done, model.name,
            state=command.state, dry=dry, misfit=misfit, after_chain=mask is not None and mask.after_chain,
            allowed=None if mask is None else mask.unpack_allowed(model.n_vocab),
            biases=model.token_biases(command.samplers.logit_bias),
        )  # fmt: skip
        return Explained(explanation, recomputed)

    def score_reply(
        self, command: Score, *, alone: bool, progress: Callable[[int, int], None], wanted: Callable[[], bool]
    ) -> Scored:
        """Draw a reply again with its own past; see `Scorer.score_reply`. `alone`: no reply is running.

        Raises:
            EngineError: no such reply, no room, it was given up, or llama.cpp failed.
        """
        if alone:
            self.cache.abort.clear()
        with _refuse("rescore this reply", self.larger_context, "ask again to continue where it stopped"):
            return self._scorer.score_reply(command, progress, wanted)

    def _build_mask(self, command: Inspect | Explain) -> Mask | None:
        """Return the tokens that the constraint allows there; None where it does not apply."""
        if command.constraint is None or command.done < command.constraint_begun:
            return None
        return self.model.grammars.follow_ids(command.constraint, _list_matching(command)).wait_mask()

    def _logits_after(
        self, ids: list[int], alone: bool, wanted: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], bool]:
        """Return the logits after `ids`, and whether a fresh forward pass was needed; the last ones are kept."""
        if not ids or not all(0 <= i < self.model.n_vocab for i in ids):
            raise EngineError("prompt", "no such position", "")
        if self._asked is None or self._asked[0] != ids:
            with _refuse("inspect this position"):
                self._asked = (ids, *self._compute_logits(ids, alone, wanted))
        return self._asked[1:]

    def _compute_logits(
        self, ids: list[int], alone: bool, wanted: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], bool]:
        """Compute the logits after `ids`; return whether a fresh forward pass was needed, too. See `inspect_step`."""
        raise NotImplementedError


@contextmanager
def _refuse(what: str, hint: str = "", again: str = "") -> Iterator[None]:
    """Turn a failed decode for a question into the words of a refusal."""
    try:
        yield
    except ContextFull:
        raise EngineError("context", f"not enough free context to {what}", hint) from None
    except Aborted:
        raise EngineError("busy", "interrupted by another request", again) from None


def _list_matching(command: Inspect | Explain) -> list[int]:
    """Return the ids that match the constraint."""
    return command.ids[len(command.ids) - command.done + command.constraint_begun :]
