"""Which models can draft for which, told from their headers alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.engine.llama.model_session import ModelSession
from termchat.models.draft_pairs import DraftFacts, draft_facts, drafts_for, why_not_draft
from termchat.models.errors import ModelError
from termchat.models.gguf.brief import read_brief
from termchat.models.gguf.reader import HeaderError
from termchat.models.gguf.vocabulary_texts import read_texts
from tests.fewer_blocks import with_idle_blocks, with_vocabulary, without_blocks
from tests.models.gguf_files import ARCHITECTURES, ARRAY, BASE, I32, TEXT, U32, model, whole


def facts(path: Path) -> DraftFacts:
    return draft_facts(path, path.stat().st_size)


def made(path: Path, tokens: int = 300, tokenizer: str = "gpt2", size: int = 416, **changed: str) -> DraftFacts:
    """A tiny model with tokens t0, t1, …, of which some are `changed`: t7="seven"."""
    texts = [changed.get(f"t{number}", f"t{number}") for number in range(tokens)]
    path.write_bytes(
        model(
            {
                "tokenizer.ggml.model": (TEXT, tokenizer),
                "tokenizer.ggml.tokens": (ARRAY, (TEXT, texts)),
                "tokenizer.ggml.token_type": (ARRAY, (I32, [1] * tokens)),
            },
            data=size,
        )
    )
    return facts(path)


def test_each_token_is_spelled_as_llama_cpp_spells_it(model_path: Path, session: ModelSession) -> None:
    vocabulary = read_texts(model_path)
    data = model_path.read_bytes()[vocabulary.begin : vocabulary.end]
    spelled, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        spelled.append(vocabulary.shown(data[at + 8 : at + 8 + length]))
        at += 8 + length
    assert len(spelled) == vocabulary.size == session.model.n_vocab
    assert vocabulary.tokenizer == "gpt2"
    wanted = [session.model.spell_token(token).decode("utf-8", "replace")[:40] for token in range(vocabulary.size)]
    assert spelled == [repr(text) for text in wanted]


def test_models_made_from_the_real_one(model_path: Path, tmp_path: Path) -> None:
    real = facts(model_path)
    fewer = facts(without_blocks(model_path, tmp_path / "fewer.gguf", 14))
    more = facts(with_idle_blocks(model_path, tmp_path / "more.gguf", 2))
    ends = facts(with_vocabulary(model_path, tmp_path / "ends.gguf", end=0))
    cut = facts(with_vocabulary(model_path, tmp_path / "cut.gguf", size=49_100))
    named = {"real": real, "fewer": fewer, "ends": ends, "cut": cut}
    assert drafts_for(more, named.items()) == ["fewer", "cut", "ends", "real"]
    assert why_not_draft(more, real) == "it is not smaller than the model"
    assert why_not_draft(real, real) == "it is not smaller than the model"
    other = facts(with_vocabulary(model_path, tmp_path / "other.gguf", renamed={260: "Ġtho", 900: "x"}))
    assert why_not_draft(other, more) == "its vocabulary differs from token 260 on: ' tho' instead of ' the'"
    short = facts(with_vocabulary(model_path, tmp_path / "short.gguf", size=49_000))
    assert why_not_draft(short, more) == "its vocabulary has 49,000 tokens, not 49,152"


def test_only_what_ids_mean_counts(tmp_path: Path) -> None:
    large = made(tmp_path / "large.gguf", size=4160)
    assert why_not_draft(made(tmp_path / "a.gguf"), large) == ""
    assert why_not_draft(made(tmp_path / "b.gguf", t299="last"), large) == (
        "its vocabulary differs from token 299 on: 'last' instead of 't299'"
    )
    assert why_not_draft(made(tmp_path / "c.gguf", t0=""), large) == (
        "its vocabulary differs from token 0 on: '' instead of 't0'"
    )
    assert why_not_draft(made(tmp_path / "d.gguf", tokenizer="llama"), large) == "its tokenizer is llama, not gpt2"


@pytest.mark.parametrize(("tokens", "able"), [(172, True), (171, False), (428, True), (429, False)])
def test_vocabularies_may_be_filled_up(tmp_path: Path, tokens: int, able: bool) -> None:
    large = made(tmp_path / "large.gguf", size=9000)
    assert (why_not_draft(made(tmp_path / "small.gguf", tokens), large) == "") is able


def test_a_token_that_is_no_text_for_a_terminal_is_escaped(tmp_path: Path) -> None:
    large = made(tmp_path / "large.gguf", size=4160, tokenizer="llama")
    bad = made(tmp_path / "bad.gguf", tokenizer="llama", t3="\x1b[31m▁a\n" + "é" * 100)
    assert why_not_draft(bad, large) == (
        "its vocabulary differs from token 3 on: '\\x1b[31m a\\n" + "é" * 32 + "' instead of 't3'"
    )


def test_recurrent_models_neither_draft_nor_are_drafted_for(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    rewinds = {}
    for name, metadata in ARCHITECTURES.items():
        path.write_bytes(whole(metadata))
        rewinds[name] = read_brief(path).rewinds
    assert {name for name, one in rewinds.items() if not one} == {"qwen35", "mamba", "lfm2"}
    path.write_bytes(whole({"rwkv7.wkv.head_size": (U32, 64)} | BASE | {"general.architecture": (TEXT, "rwkv7")}))
    assert not read_brief(path).rewinds
    large, small = made(tmp_path / "large.gguf", size=4160), made(tmp_path / "small.gguf")
    recurrent = DraftFacts(small.size, False, small.tokens)
    assert why_not_draft(recurrent, large) == "it is recurrent, so it cannot take back rejected tokens"
    larger = DraftFacts(large.size, False, large.tokens)
    assert why_not_draft(small, larger) == "the model is recurrent, so it cannot take back rejected tokens"


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    before = made(path)
    assert facts(path) is before
    assert made(path, 301).tokens.size == 301


def test_a_file_without_a_vocabulary_or_without_anything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(model({"tokenizer.ggml.tokens": None}))
    with pytest.raises(HeaderError, match="has no vocabulary"):
        facts(path)
    path.write_bytes(model({"tokenizer.ggml.tokens": (ARRAY, (I32, [1, 2, 3]))}))
    with pytest.raises(HeaderError, match="has no vocabulary"):
        facts(path)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        draft_facts(path, 3)
