"""Logit biases against llama.cpp's own sampler and against float64; with the real model, and those of a model's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from termchat.conversation.transcripts.jsonl_lines import decode
from termchat.decoding import whynot
from termchat.decoding.records import SettingsRecord, Token, TokenBias, to_dict, to_json
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.llama.chain import Chain, Observer, find_top
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Labels
from termchat.engine.port import Adjust, EngineError, Explain, ModelSpec, Score, Steer
from tests.engine.conftest import lasting, prompt, records, request, tokens
from tests.engine.native_chains import Left, Logits, row, sampler, some, theirs, with_
from tests.fewer_blocks import truncated

BAN = float("-inf")
SMALL = 49_153


def left_by(
    logits: Logits, settings: SamplerSettings, past: list[int], bias: Mapping[int, float], breakers: Breakers | None
) -> Left:
    chain = Chain(settings, len(logits), past, breakers=breakers, bias=bias)
    needs = chain.count_needed()
    left = chain.apply_stages(logits, None if needs is None else find_top(logits, needs), [])
    chain.close()
    return Left(zip(left.ids.tolist(), left.logits.tolist(), strict=True))


def drawn(
    logits: Logits,
    settings: SamplerSettings,
    bias: Mapping[int, float],
    *,
    native: bool = True,
    forced: int | None = None,
) -> Token:
    n_vocab = len(logits)
    chain = Chain(settings, n_vocab, [], bias=bias)
    found: Token = Observer(n_vocab, (2,), Labels(n_vocab, str), 20, native=native).draw(logits, chain, 5, 3, forced)
    chain.close()
    return found


def some_bias(rng: np.random.Generator, logits: Logits) -> dict[int, float]:
    """Of high tokens and of any."""
    ids = [*rng.choice(np.argsort(-logits)[:50], 6, replace=False).tolist(), *rng.integers(0, len(logits), 6).tolist()]
    return {int(i): float(rng.choice([BAN, -3.0, 0.7, 12.0])) for i in ids}


def test_any_chain_behind_it_leaves_what_llama_cpp_leaves(session: ModelSession) -> None:
    rng, n_vocab = np.random.default_rng(4), session.model.n_vocab
    rows = [row(seed, n_vocab, 4.0) for seed in range(8)]
    for trial in range(200):
        settings, logits = some(rng), rows[trial % 8]
        bias = some_bias(rng, logits)
        past = [*bias][:4] + rng.integers(0, n_vocab, 30).tolist()
        listed = (LIB.llama_logit_bias * len(bias))(*bias.items())
        first = LIB.llama_sampler_init_logit_bias(n_vocab, len(bias), listed)
        others = [sampler(name, settings, session) for name in settings.order]
        expected = theirs(logits, [first, *others], past)[0]
        assert left_by(logits, settings, past, bias, session.model.breakers) == expected, (settings, bias)


def test_probabilities_are_those_of_the_biased_logits() -> None:
    logits, bias = row(1), {3: 5.0, 40: -2.5, 7: BAN}
    wide = logits.astype(np.float64)
    for token, value in bias.items():
        wide[token] += value
    expected = np.exp(wide - wide.max())
    expected /= expected.sum()
    it = drawn(logits, with_(), bias)
    for candidate in it.candidates:
        assert candidate.probability == pytest.approx(expected[candidate.id], rel=1e-5)
    assert it.stages[0].name == "logit_bias"
    assert it.stages[0].survivors == len(logits) - 1
    raw = np.exp(logits.astype(np.float64) - logits.max())
    assert it.stages[0].mass == pytest.approx(1 - raw[7] / raw.sum(), rel=1e-6)


def test_the_compiled_step_says_what_numpy_says() -> None:
    rng = np.random.default_rng(6)
    rows = [row(seed, SMALL, 3.0) for seed in range(4)]
    for trial in range(60):
        logits = rows[trial % 4]
        bias = some_bias(rng, logits)
        settings = SamplerSettings(top_k=int(rng.choice([3, 40])), min_p=0.01)
        forced = int(rng.integers(SMALL)) if trial % 3 == 0 else None
        one, other = (drawn(logits, settings, bias, native=native, forced=forced) for native in (True, False))
        assert [(s.name, s.survivors) for s in one.stages] == [(s.name, s.survivors) for s in other.stages]
        assert [s.mass for s in one.stages] == pytest.approx([s.mass for s in other.stages], rel=1e-4, abs=1e-6)
        assert one.id == other.id
        banned = [i for i, value in bias.items() if value == BAN]
        assert one.stages[0].survivors == SMALL - len(banned)
        for mine, plain in zip(one.candidates, other.candidates, strict=True):
            assert (mine.id, mine.removed_by, mine.bias) == (plain.id, plain.removed_by, plain.bias)
            assert (mine.removed_by == "logit_bias") == (mine.id in banned)
            assert mine.bias == (None if mine.id in banned else bias.get(mine.id))


def test_a_bias_from_far_below_is_seen_though_the_chain_sees_few() -> None:
    logits = row(2, SMALL, 3.0)
    lowest = int(logits.argmin())
    it = drawn(logits, SamplerSettings(top_k=5), {lowest: 100.0})
    assert it.id == lowest
    assert it.rank == SMALL - 1
    assert it.probability == pytest.approx(1.0)
    assert it.candidates[-1].bias == 100.0
    listed = to_dict(list(it.candidates))
    assert [one.get("bias") for one in listed] == [None] * 20 + [100.0]


# --- why not ---------------------------------------------------------------------------------------------------------


def test_why_not_names_a_ban_and_what_is_without_it() -> None:
    logits = row(3, 300, 3.0)
    best = int(logits.argmax())
    settings = SamplerSettings(temperature=0.0, top_k=5, top_p=1.0, min_p=0.0, logit_bias=(f"{best}=ban",))
    biases = [TokenBias(best, "x", None)]
    found = whynot.explain_token(logits, best, [], settings, 1, 0, str, biases=biases)
    assert found.removed_by == "logit_bias"
    assert found.bias == biases[0]
    assert [(one.knob, one.value, one.wins) for one in found.remedies] == [("logit_bias", 0.0, True)]
    assert found.winner == drawn(logits, settings, {best: BAN}).id

    theirs_ = whynot.explain_token(
        logits, best, [], settings, 1, 0, str, biases=[TokenBias(best, "x", None, model=True)]
    )
    assert (theirs_.removed_by, theirs_.remedies) == ("logit_bias", [])

    below = [TokenBias(best, "x", -50.0)]
    lost = whynot.explain_token(logits, best, [], settings, 1, 0, str, biases=below)
    assert lost.removed_by == "top_k"
    assert lost.remedies[-1] == msgspec.structs.replace(lost.remedies[-1], knob="logit_bias", value=0.0, wins=True)


# --- the real model --------------------------------------------------------------------------------------------------


def test_a_banned_token_never_comes_and_a_boosted_one_always(session: ModelSession) -> None:
    (the,) = session.model.tokenize(" the", special=False)
    free, without = Tuning(max_tokens=80), Tuning(max_tokens=80, logit_bias=('" the"=ban',))
    ids = lasting(session, "Write a long story about the sea.", without)
    assert sum(token.id == the for token in tokens(records(session, request(ids, free)))) > 1
    banned = tokens(records(session, request(ids, without)))
    assert len(banned) == 80
    assert all(token.id != the and token.stages[0].survivors == session.model.n_vocab - 1 for token in banned)
    always = tokens(records(session, request(ids, free.turn_knobs({"logit_bias": [f"{the}=100"], "max_tokens": 50}))))
    assert {token.id for token in always} == {the}
    assert len(always) == 50


def test_it_can_change_in_mid_reply_and_the_reply_can_be_drawn_again(session: ModelSession) -> None:
    ids = prompt(session, "Tell me about Paris.")
    plain, banned = (Tuning(max_tokens=40, temperature=1.0, logit_bias=bias) for bias in ((), ('" Paris"=ban',)))
    waiting: list[Steer] = [Adjust(banned.samplers(), banned.conditions())]
    said = 0

    def poll() -> Steer | None:
        nonlocal said
        said += 1
        return waiting.pop() if said > 15 and waiting else None

    first = records(session, request(ids, plain), poll)
    before, after = (one for one in first if isinstance(one, SettingsRecord))
    (paris,) = session.model.tokenize(" Paris", special=False)
    assert before.biases == ()
    assert after.biases == (TokenBias(paris, " Paris", None),)
    assert after.order[0] == "logit_bias"
    told = json.loads(to_json(after))
    assert told["samplers"]["logit_bias"] == ['" Paris"=ban']
    assert decode(to_json(after).encode()) == after
    assert told["biases"] == [{"id": paris, "text": " Paris", "bias": None, "model": False}]

    drawn_first = tokens(records(session, request(ids, banned)))
    assert [token.id for token in tokens(records(session, request(ids, banned)))] == [one.id for one in drawn_first]
    reply = [token.id for token in drawn_first]
    done = 12
    onward = tokens(records(session, request([*ids, *reply[:done]], banned, done=done)))
    assert [token.id for token in onward] == reply[done:]
    scored = session.score_reply(
        Score([*ids, *reply], len(reply), banned.samplers(), 7),
        alone=True,
        progress=lambda *_: None,
        wanted=lambda: False,
    )
    assert scored.ids == reply


def test_every_token_of_a_text_is_biased_and_an_unknown_id_is_refused(session: ModelSession) -> None:
    model = session.model
    ids = model.tokenize("unbelievable story", special=False)
    assert len(ids) > 2
    assert dict(model.bias(('"unbelievable story"=-2', f"{ids[0]}=+5"))) == {ids[0]: 3.0} | dict.fromkeys(ids[1:], -2.0)
    with pytest.raises(EngineError, match="token 99999 is not in this model's vocabulary"):
        records(session, request(prompt(session, "Hi"), Tuning(logit_bias=("99999=ban",))))


# --- what a model's file bans ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suppressing(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelSession]:
    """A model of two blocks whose file suppresses what it would say first, and a token that it has not."""
    path = tmp_path_factory.mktemp("models") / "suppressing.gguf"
    plain = ModelSession(ModelSpec(str(truncated(model_path, path)), "small", context=256, threads=1), lambda _: None)
    greedy = request(plain.model.tokenize("Once upon a time", special=False), Tuning(max_tokens=1, temperature=0.0))
    (first,) = tokens(records(plain, greedy))
    plain.close()
    truncated(model_path, path, suppressed=[first.id, 77])
    made = ModelSession(ModelSpec(str(path), "small", context=256, threads=1), lambda _: None)
    yield made
    made.close()


def test_what_the_file_suppresses_is_banned_and_told_as_the_models(suppressing: ModelSession) -> None:
    model = suppressing.model
    banned = model.suppressed
    assert len(banned) == 2
    assert suppressing.build_info().suppressed == banned
    ids = model.tokenize("Once upon a time", special=False)
    settings, *reply = (
        one
        for one in records(suppressing, request(ids, Tuning(max_tokens=30, temperature=0.0)))
        if isinstance(one, (SettingsRecord, Token))
    )
    assert isinstance(settings, SettingsRecord)
    assert settings.samplers.logit_bias == ()
    assert settings.order[0] == "logit_bias"
    assert {bias.id: (bias.bias, bias.model) for bias in settings.biases} == dict.fromkeys(banned, (None, True))
    assert not {token.id for token in reply if isinstance(token, Token)} & set(banned)
    first = reply[0]
    assert isinstance(first, Token)
    assert first.candidates[0].removed_by == "logit_bias"
    token = first.candidates[0].id
    asked = Explain(ids, token, SamplerSettings(temperature=0.0), 7, 0)
    found = suppressing.explain_step(asked, alone=True, wanted=lambda: False).explanation
    assert found.removed_by == "logit_bias"
    assert found.bias is not None
    assert found.bias.model
    assert found.remedies == []


# --- spellings -------------------------------------------------------------------------------------------------------


def test_a_word_is_told_in_its_spellings_with_what_a_ban_of_a_first_piece_hits(session: ModelSession) -> None:
    found = {one.text: one for one in session.speller.spell_variants("  paris ")}
    assert list(found) == [" paris", "paris", " Paris", "Paris", " PARIS", "PARIS"]
    model = session.model
    for text, spelling in found.items():
        assert spelling.ids == model.tokenize(text, special=False)
        assert (spelling.begins > 0) == (len(spelling.ids) > 1)
    shared = found[" PARIS"]
    for word in shared.examples:
        assert model.tokenize(f" {word}", special=False)[0] == shared.ids[0]
        assert len(model.tokenize(f" {word}", special=False)) > 1
    assert len(shared.examples) == 4 < shared.begins
    assert session.speller.spell_variants(" ") == []


def test_a_file_that_bans_every_token_is_refused(small_model_path: Path, tmp_path: Path) -> None:
    path = truncated(small_model_path, tmp_path / "silent.gguf", suppressed=range(SMALL - 1))
    with pytest.raises(EngineError, match=r"silent.gguf bans all of its 49,152 tokens"):
        ModelSession(ModelSpec(str(path), "silent"), lambda _: None)
