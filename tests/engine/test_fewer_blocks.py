"""The models that tests make from the real one compute what they are made for, in the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import ModelSpec, Score
from tests.engine.conftest import prompt, records, request, tokens
from tests.fewer_blocks import ModelFile, with_idle_blocks, with_vocabulary, without_blocks

TUNING = Tuning(temperature=0.8, max_tokens=48)
SEEDS = (1, 2, 3)


def loaded(path: Path) -> ModelSession:
    return ModelSession(ModelSpec(str(path), path.stem, context=512, threads=1), lambda _: None)


@pytest.fixture(scope="module")
def replies(model_path: Path) -> Iterator[dict[int, tuple[list[int], list[int]]]]:
    """The real model's prompt and reply, by seed."""
    with closing(loaded(model_path)) as real:
        ids = prompt(real, "Write a story about a fox and a bear.")
        yield {seed: (ids, [token.id for token in tokens(records(real, request(ids, TUNING, seed)))]) for seed in SEEDS}


def agreement(path: Path, replies: dict[int, tuple[list[int], list[int]]]) -> float:
    """The share of the real model's tokens that this one would have taken in their places, with the same dice."""
    same = count = 0
    with closing(loaded(path)) as draft:
        for seed, (ids, reply) in replies.items():
            asked = Score([*ids, *reply], len(reply), TUNING.samplers(), seed)
            scored = draft.score_reply(asked, alone=True, progress=lambda *_: None, wanted=lambda: True)
            same += sum(one == other for one, other in zip(scored.ids, reply, strict=True))
            count += len(reply)
    return same / count


@pytest.mark.parametrize(("left_out", "least", "most"), [((14,), 0.6, 0.95), ((12, 13, 14, 15), 0.15, 0.6)])
def test_without_middle_blocks_it_is_often_right(
    model_path: Path,
    tmp_path: Path,
    replies: dict[int, tuple[list[int], list[int]]],
    left_out: tuple[int, ...],
    least: float,
    most: float,
) -> None:
    path = without_blocks(model_path, tmp_path / "fewer.gguf", *left_out)
    assert least < agreement(path, replies) < most


def test_idle_blocks_change_no_bit(
    model_path: Path, tmp_path: Path, replies: dict[int, tuple[list[int], list[int]]]
) -> None:
    path = with_idle_blocks(model_path, tmp_path / "more.gguf", 10)
    assert ModelFile(path).blocks == 40
    with closing(loaded(path)) as larger, closing(loaded(model_path)) as real:
        for seed, (ids, reply) in replies.items():
            made, expected = (tokens(records(one, request(ids, TUNING, seed))) for one in (larger, real))
            assert [token.id for token in made] == reply
            assert [token.logit for token in made] == [token.logit for token in expected]


def test_another_vocabulary_is_another_in_the_engine(model_path: Path, tmp_path: Path) -> None:
    changed = with_vocabulary(model_path, tmp_path / "renamed.gguf", renamed={260: "Ġtho"}, end=0)
    cut = with_vocabulary(model_path, tmp_path / "cut.gguf", size=49000)
    with closing(loaded(model_path)) as real, closing(loaded(changed)) as renamed, closing(loaded(cut)) as shorter:
        assert [one.model.piece(260) for one in (real, renamed, shorter)] == [b" the", b" tho", b" the"]
        assert [one.model.eos for one in (real, renamed, shorter)] == [2, 0, 2]
        assert [one.model.n_vocab for one in (real, renamed, shorter)] == [49152, 49152, 49000]
        assert all(tokens(records(one, request([260, 42], TUNING, 1))) for one in (renamed, shorter))
