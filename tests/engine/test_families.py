"""What is promised of one model, on the families of models that people have: weights whose rows depend on the batch, a sliding
window, large vocabularies, a template that thinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Prefill, Record, Start
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import speculation
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.softmax import Row
from termchat.engine.port import Message, ModelSpec, Render, Scripted
from tests.engine.bare_loop import BareContext
from tests.engine.conftest import know_rows, records, request, tokens
from tests.engine.drafting import Knowing, same
from tests.engine.float64 import numbers_of
from tests.engine.steered import numbers, shapes_of, start_of
from tests.engine.walking import ask, of, walk, walked
from tests.made_models import BYTES, CHARACTERS, FAMILIES, SPECIAL, texts_of

TEXT = "The ship sailed on over the wide, quiet water; nobody said a word. "
BEFORE, LENGTH, SEED = SPLIT - 20, 40, 7
"""Cells of the prompt, tokens of a reply: it goes on past the border behind which threads can count, and past the window."""
TUNING = Tuning(temperature=1.0, max_tokens=LENGTH)
WALK = Tuning(temperature=1.0, max_tokens=10)
MOST_ROWS = 16


@pytest.fixture(scope="module", params=FAMILIES)
def session(request: pytest.FixtureRequest, made_model: Callable[[str], Path]) -> Iterator[ModelSession]:
    """A model of the family."""
    spec = ModelSpec(str(made_model(request.param)), request.param, context=400, threads=1)
    with closing(ModelSession(spec, lambda _: None)) as made:
        yield made


@pytest.fixture(scope="module")
def bare(session: ModelSession) -> Iterator[BareContext]:
    with closing(BareContext(session)) as made:
        yield made


def prompt_of(session: ModelSession, count: int = BEFORE) -> list[int]:
    return session.model.tokenize(TEXT * 20, special=False)[:count]


def replied(session: ModelSession, tuning: Tuning, seed: int = SEED, **more: object) -> list[Record]:
    """A reply from an empty cache."""
    session.cache.rewind_to(0)
    return records(session, request(prompt_of(session), tuning, seed, **more))


@pytest.fixture(scope="module")
def stream(session: ModelSession) -> list[Record]:
    made = replied(session, TUNING)
    assert len(tokens(made)) == LENGTH
    assert start_of(made).exact
    return made


def forked(session: ModelSession, stream: list[Record], count: int, length: int, **more: object) -> list[Record]:
    """The same reply from its token `count` on, for so many tokens."""
    ids = [*prompt_of(session), *(token.id for token in tokens(stream)[:count])]
    tuning = TUNING.turn_knobs({"max_tokens": count + length})
    shapes = shapes_of(stream, count)
    made = records(session, request(ids, tuning, SEED, done=count, shapes=shapes, rebuild_exactly=True, **more))
    assert start_of(made).exact
    return made


# --- one reply -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(session: ModelSession, bare: BareContext, stream: list[Record]) -> list[Row]:
    """The logits of each step in llama.cpp alone, with one thread and the shapes on record."""
    prefill = next(record for record in stream if isinstance(record, Prefill))
    ids = [*prompt_of(session), *(token.id for token in tokens(stream))]
    made = list(bare.read(ids, [*prefill.shapes, *[1] * (LENGTH - 1)]))
    return made[len(prefill.shapes) - 1 :]


def test_numbers_are_those_of_llama_cpp_in_float64(
    session: ModelSession, stream: list[Record], rows: list[Row]
) -> None:
    samplers = TUNING.samplers()
    for token, logits in zip(tokens(stream), rows, strict=True):
        expected = numbers_of(logits, token, samplers, SEED, session.model.end_ids)
        assert (token.id, token.rank) == (expected.id, expected.rank)
        assert token.logit == logits[token.id]
        assert token.logprob == pytest.approx(expected.logprob, abs=1e-5)
        assert token.entropy == pytest.approx(expected.entropy, abs=1e-5)
        assert token.p_end == pytest.approx(expected.p_end, rel=1e-5, abs=1e-9)
        assert token.probability == pytest.approx(expected.probability, rel=2e-5)
        assert token.margin == pytest.approx(expected.margin, abs=1e-5)
        best = np.argsort(-logits, kind="stable")[:20]
        assert [candidate.id for candidate in token.candidates][:20] == best.tolist()
        assert [candidate.logit for candidate in token.candidates][:20] == logits[best].tolist()


def test_it_is_as_sure_as_a_real_model(stream: list[Record]) -> None:
    entropies = [token.entropy * np.log(2) for token in tokens(stream)]
    assert 1.5 < np.median(entropies) < 5
    assert 0.1 < np.mean([token.rank == 0 for token in tokens(stream)]) < 0.8


def test_threads_change_no_bit(session: ModelSession, stream: list[Record]) -> None:
    begin = SPLIT - BEFORE
    made = forked(session, stream, begin, 6, script=(Scripted(begin, threads=2),))
    assert start_of(made).threads == 2
    assert numbers(made) == numbers(stream)[begin : begin + 6]


@pytest.mark.parametrize("kept", [True, False], ids=["cells kept", "cells made again"])
def test_a_fork_goes_on_bit_for_bit(session: ModelSession, stream: list[Record], kept: bool) -> None:
    assert numbers(replied(session, TUNING)) == numbers(stream)
    for count in (LENGTH - 4, 3):
        if not kept:
            session.cache.rewind_to(0)
        assert numbers(forked(session, stream, count, 4)) == numbers(stream)[count : count + 4]


# --- rows of a batch -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def equal_rows(session: ModelSession, bare: BareContext) -> int:
    """Up to how many rows of a batch have the bits of each alone, on this machine."""
    count = bare.count_equal_rows(prompt_of(session), MOST_ROWS)
    know_rows(session, count)
    return count


@pytest.fixture(scope="module")
def alone(session: ModelSession) -> list[list[Record]]:
    """Replies by themselves, by seed."""
    return [replied(session, WALK, seed) for seed in range(8)]


def test_exact_walks_are_their_seeds_alone(session: ModelSession, equal_rows: int, alone: list[list[Record]]) -> None:
    for count in sorted({2, min(equal_rows, 8), min(equal_rows + 1, 8), 8} - {1}):
        session.cache.rewind_to(0)
        said = walked(session, ask(prompt_of(session), [walk(seed, WALK, seed) for seed in range(count)]))
        exact = [event.exact for event in said if isinstance(event, Start)]
        assert len(exact) == count
        assert all(exact) or count > equal_rows
        for seed in range(count):
            if exact[seed]:
                assert numbers(of(said, seed)) == numbers(alone[seed]), (count, equal_rows)


@pytest.mark.usefixtures("equal_rows")
def test_an_exact_reply_with_drafts_is_the_one_without(
    session: ModelSession, alone: list[list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculation, "Ngrams", Knowing)
    for seed in (0, 1):
        monkeypatch.setattr(Knowing, "said", [token.id for token in tokens(alone[seed])])
        monkeypatch.setattr(Knowing, "begin", BEFORE)
        made = replied(session, WALK, seed, draft=DraftSettings("ngram"))
        if start_of(made).exact:
            assert same(made) == same(alone[seed])


# --- vocabularies and templates --------------------------------------------------------------------------------------

PROMPTS = {
    "gemma": "<bos><start_of_turn>user\nHello, you.<end_of_turn>\n<start_of_turn>model\n",
    "qwen": "<|im_start|>user\nHello, you.<|im_end|>\n<|im_start|>assistant\n",
}


texts = cache(texts_of)


def text_of(session: ModelSession, token: int) -> str:
    """The text of a token by what the file has, control tokens by their name."""
    family = FAMILIES[session.model.spec.name]
    text = texts(family)[token]
    if text in SPECIAL[family.spm] or text.startswith("<unused"):
        return text
    if family.spm:
        return bytes([BYTES.index(text)]).decode("utf-8", "replace") if text in BYTES else text.replace("▁", " ")
    return bytes(map(CHARACTERS.index, text)).decode("utf-8", "replace")


@pytest.mark.parametrize(
    "text", [TEXT, "  a  b\n\n\tc ", "é and ÿ, 日本 and 🙂🙃", "<end_of_turn><|im_end|></think>", "\x00\x7f", ""]
)
def test_a_text_comes_back_from_its_ids(session: ModelSession, text: str) -> None:
    ids = session.model.tokenize(text, special=False)
    assert b"".join(map(session.model.piece, ids)).decode() == text
    assert len(ids) < len(TEXT) * 0.6 or text != TEXT


def test_candidates_have_the_texts_of_the_file(session: ModelSession, stream: list[Record]) -> None:
    shown = {candidate.id: candidate.text for token in tokens(stream)[:12] for candidate in token.candidates}
    assert len(shown) > 100
    assert max(shown) > 0.9 * session.model.n_vocab
    assert shown == {token: text_of(session, token) for token in shown}


def test_a_prompt_is_what_the_template_says(session: ModelSession) -> None:
    family = FAMILIES[session.model.spec.name]
    rendered = session.render(Render([Message("user", "Hello, you.")]))
    spelled = b"".join(map(session.model.spell_token, rendered.ids)).decode()
    assert spelled == PROMPTS["gemma" if family.spm else "qwen"]
    assert [text_of(session, token) for token in session.model.end_ids] == (
        ["<eos>", "<end_of_turn>"] if family.spm else ["<|endoftext|>", "<|im_end|>"]
    )


def test_thoughts_are_told_from_the_answer(session: ModelSession) -> None:
    thinks = "<think>" in FAMILIES[session.model.spec.name].template
    info = session.build_info()
    assert (info.thinking is not None, info.thinking_switch) == (thinks, thinks)
    said = [Message("user", "Why is the sky blue?")]
    ids = session.render(Render(said)).ids
    if not thinks:
        assert {token.phase for token in tokens(records(session, request(ids, WALK)))} == {"answer"}
        return
    off = session.render(Render(said, think=False)).ids
    assert b"".join(map(session.model.spell_token, off[len(ids) :])) == b"<think>\n\n</think>\n\n"
    opening, closing = (session.model.tokenize(tag, special=True) for tag in ("<think>", "</think>"))
    assert (len(opening), len(closing)) == (1, 1)
    script = (Scripted(0, id=opening[0]), Scripted(5, id=closing[0]))
    made = records(session, request(ids, WALK, script=script))
    assert start_of(made).thinking == ("<think>", "</think>")
    assert [token.phase for token in tokens(made)] == ["thinking"] * 6 + ["answer"] * 4
    assert {token.phase for token in tokens(records(session, request(off, WALK)))} == {"answer"}
