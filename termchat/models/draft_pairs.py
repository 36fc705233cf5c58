"""Which models can draft for which: those that mean the same by every id, are smaller, and can take tokens back.

A draft model guesses ids, and the model that it drafts for decodes them ahead in one batch. A wrong guess costs time and
nothing else, so all that counts is that ids mean the same to both, that a guess is cheap, and that both can be cut back.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec

from termchat.models.errors import ModelError
from termchat.models.gguf.brief import read_brief
from termchat.models.gguf.vocabulary_texts import VocabularyTexts, difference, read_texts, same_ids

PADDING = 128
"""By how many tokens vocabularies may differ in size, where they are equal up to there: makers fill them up for their
machines. As llama.cpp allows (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE` in common/speculative.cpp)."""


class DraftFacts(msgspec.Struct, frozen=True):
    """What decides whether a model can draft, or have another draft for it. `size` is that of all its files, in bytes."""

    size: int
    rewinds: bool
    tokens: VocabularyTexts


def draft_facts(path: Path, size: int) -> DraftFacts:
    """Of the model whose first file this is; read again only where the file has changed.

    Raises:
        ModelError: it is no usable model.
    """
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    return _read(path, size, changed)


@lru_cache(maxsize=1024)
def _read(path: Path, size: int, _changed: int) -> DraftFacts:
    return DraftFacts(size, read_brief(path).rewinds, read_texts(path))


def can_draft(candidate: DraftFacts, model: DraftFacts) -> bool:
    """Whether `candidate` can draft for `model`.

    Raises:
        ModelError: a file cannot be read any more.
    """
    cheap = candidate.size < model.size and candidate.rewinds and model.rewinds
    its, wanted = candidate.tokens, model.tokens
    return cheap and abs(its.size - wanted.size) <= PADDING and same_ids(its, wanted)


def why_not_draft(candidate: DraftFacts, model: DraftFacts) -> str:
    """Why it cannot, as the end of a sentence about the candidate; "" if it can. Raises as `can_draft` does."""
    its, wanted = candidate.tokens, model.tokens
    if can_draft(candidate, model):
        return ""
    if not model.rewinds:
        return "the model is recurrent, so it cannot take back rejected tokens"
    if candidate.size >= model.size:
        return "it is not smaller than the model"
    if not candidate.rewinds:
        return "it is recurrent, so it cannot take back rejected tokens"
    if its.tokenizer != wanted.tokenizer:
        return f"its tokenizer is {its.tokenizer or 'unknown'}, not {wanted.tokenizer or 'unknown'}"
    if abs(its.size - wanted.size) > PADDING:
        return f"its vocabulary has {its.size:,} tokens, not {wanted.size:,}"
    found = difference(its, wanted)
    here, there = found.texts
    return f"its vocabulary differs from token {found.token} on: {here} instead of {there}"


def drafts_for(model: DraftFacts, candidates: Iterable[tuple[str, DraftFacts]]) -> list[str]:
    """The names of those that can draft for it, the smallest first; without those whose files cannot be read any more."""
    able = []
    for name, facts in candidates:
        with suppress(ModelError):
            if can_draft(facts, model):
                able.append((facts.size, name))
    return [name for _, name in sorted(able)]
