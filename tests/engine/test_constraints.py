"""A reply keeps to its constraint, whatever is done to it: against jsonschema, `re`, numpy and llama.cpp's own grammar."""

from __future__ import annotations

import ctypes
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding.conditions import Length, ThinkingBudget
from termchat.decoding.constraint import GRAMMAR, NOT_YET, Constraint, make_choice
from termchat.decoding.records import Finished, Record, SettingsRecord, Stage, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.thinking import tags_of
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.grammar_trial import Trial
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Labels, Mask
from termchat.engine.port import (
    Adjust,
    Check,
    Checked,
    EngineError,
    Explain,
    Failed,
    Force,
    Generate,
    Inspect,
    ModelSpec,
    Score,
    Scripted,
    Steer,
)
from tests.asking import ask_for
from tests.engine.conftest import Driver, prompt, records, tokens
from tests.fewer_blocks import with_marked_spaces

WILD = SamplerSettings(temperature=1.5)
PERSON = Constraint(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
            },
            "required": ["name", "age", "tags"],
            "additionalProperties": False,
        }
    ),
)
DATE = Constraint("regex", r"\d{4}-\d{2}-\d{2}")
WORDS = Constraint("regex", "([a-z]{1,9} ){200}")


@pytest.fixture(scope="module")
def small(small_model_path: Path) -> Iterator[ModelSession]:
    made = ModelSession(ModelSpec(str(small_model_path), "small", context=2048, threads=1), lambda _: None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def ids(session: ModelSession) -> list[int]:
    return prompt(session, "Describe a person.")


def asked(ids: list[int], constraint: Constraint | None, seed: int = 1, limit: int = 60, **more: Any) -> Generate:
    samplers = more.pop("samplers", WILD)
    return ask_for(ids, samplers, (Length(limit),), seed, constraint=constraint, **more)


def text_of(stream: list[Record]) -> str:
    return b"".join(token.bytes for token in tokens(stream)).decode("utf-8", "replace")


def end_of(stream: list[Record]) -> Finished:
    assert isinstance(stream[-1], Finished)
    return stream[-1]


def dropped(stream: list[Record]) -> list[str]:
    return [record.constraint_dropped for record in stream if isinstance(record, SettingsRecord)]


def grammar_of(token: Token) -> Stage:
    return next(stage for stage in token.stages if stage.name == GRAMMAR)


# --- what finishes is valid ------------------------------------------------------------------------------------------


def schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    kinds = ["string", "integer", "number", "boolean", "enum", "pattern", "format"] + ["object", "array"] * (depth > 0)
    kind = rng.choice(kinds)
    if kind == "object":
        names = rng.sample(["a", "bc", "name", "größe", "x y", "id"], rng.randint(1, 3))
        properties = {name: schema(rng, depth - 1) for name in names}
        wanted = rng.sample(names, rng.randint(0, len(names)))
        return {"type": "object", "properties": properties, "required": wanted, "additionalProperties": False}
    if kind == "array":
        return {"type": "array", "items": schema(rng, depth - 1), "minItems": rng.randint(0, 1), "maxItems": 2}
    if kind == "string":
        return {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 8)}
    if kind == "integer":
        low = rng.randint(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)}
    if kind == "number":
        return {"type": "number", "minimum": 0, "maximum": rng.choice([1, 10.5])}
    if kind == "boolean":
        return {"type": rng.choice(["boolean", "null"])}
    if kind == "enum":
        return {"enum": rng.sample(["one", "two", 3, None, True, "drei\n", "四"], 3)}
    if kind == "pattern":
        return {"type": "string", "pattern": "^" + expression(rng, 1) + "$"}
    return {"type": "string", "format": rng.choice(["date", "time", "ipv4", "uuid"])}


def expression(rng: random.Random, depth: int = 2) -> str:
    if depth == 0:
        return rng.choice(["a", "[0-9]", "[a-f]{2}", "x?", "é", "(foo|bar)", r"\d{1,3}", "[^a-z ]"])
    parts = [expression(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return rng.choice(["({})", "({}){{1,3}}", "({}|z)"]).format("".join(parts))


def test_200_schemas_and_expressions_hold_for_every_finished_reply(small: ModelSession) -> None:
    rng = random.Random(1)
    start = prompt(small, "Hello")
    finished = 0
    for number in range(100):
        pattern, described = expression(rng), schema(rng)
        for seed in range(2):
            stream = records(small, asked(start, Constraint("regex", pattern), seed, 24))
            assert set(dropped(stream)) == {""}, pattern
            if end_of(stream).reason == "end":
                finished += 1
                assert re.fullmatch(pattern, text_of(stream)), (pattern, text_of(stream))
            else:
                assert end_of(stream).reason == "length"
        constraint = Constraint("json_schema", json.dumps(described), after_chain=bool(number % 2))
        for seed in range(2):
            stream = records(small, asked(start, constraint, seed, 40))
            assert set(dropped(stream)) == {""}, described
            if end_of(stream).reason == "end":
                finished += 1
                jsonschema.validate(
                    json.loads(text_of(stream)), described, format_checker=jsonschema.FormatChecker(["date", "ipv4"])
                )
            else:
                assert "incomplete" in end_of(stream).detail or is_valid(text_of(stream), described)
    assert finished > 250


def is_valid(text: str, described: dict[str, Any]) -> bool:
    try:
        jsonschema.validate(json.loads(text), described)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


@pytest.mark.parametrize("after_chain", [False, True])
def test_the_real_model_finishes_what_it_is_asked_for(session: ModelSession, ids: list[int], after_chain: bool) -> None:
    for seed in range(3):
        stream = records(session, asked(ids, msgspec.structs.replace(PERSON, after_chain=after_chain), seed, 200))
        assert (end_of(stream).reason, end_of(stream).detail) == ("end", "nothing can follow (grammar)")
        jsonschema.validate(json.loads(text_of(stream)), json.loads(PERSON.text))
        places = (-2, 0) if after_chain else (0,)  # where nothing is left behind the chain it stands in front
        assert all(GRAMMAR in {token.stages[place].name for place in places} for token in tokens(stream))


def test_a_choice_is_one_of_its_texts(small: ModelSession) -> None:
    texts = ["yes", "no", "maybe", "maybe not", 'a "quoted"\n\\ line', "日本"]
    start = prompt(small, "Well?")
    said = {text_of(records(small, asked(start, make_choice(texts), seed))) for seed in range(25)}
    assert said <= set(texts)
    assert len(said) > 2


def test_at_the_limit_it_is_said_to_be_incomplete(session: ModelSession, ids: list[int]) -> None:
    stream = records(session, asked(ids, PERSON, limit=5))
    assert (end_of(stream).reason, end_of(stream).detail) == ("length", "max_tokens 5; grammar: incomplete")


# --- what is drawn from ----------------------------------------------------------------------------------------------

N_VOCAB = 5_003


def mask_of(allowed: NDArray[np.bool_], *, after_chain: bool = False) -> Mask:
    bits = np.packbits(np.append(allowed, np.zeros(-len(allowed) % 32, bool)), bitorder="little")
    return Mask(bits.view(np.uint32).copy(), after_chain)


def cases() -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.bool_], SamplerSettings, list[int]]]:
    for seed in range(120):
        rng = np.random.default_rng(seed)
        logits = rng.normal(0, 4, N_VOCAB).astype(np.float32)
        allowed = rng.random(N_VOCAB) < rng.choice([0.0005, 0.003, 0.05, 0.5, 0.999])
        allowed[rng.integers(N_VOCAB)] = True
        settings = SamplerSettings(
            temperature=float(rng.choice([0.0, 0.7, 1.5])),
            top_k=int(rng.choice([0, 5, 40])),
            top_p=float(rng.choice([0.5, 0.95, 1.0])),
            min_p=float(rng.choice([0.0, 0.1])),
            repeat_penalty=float(rng.choice([1.0, 1.3])),
            xtc_probability=float(rng.choice([0.0, 1.0])),
        )
        yield seed, logits, allowed, settings, rng.integers(0, N_VOCAB, 30).tolist()


def observer(*, native: bool) -> Observer:
    return Observer(N_VOCAB, [0], Labels(N_VOCAB, str), 20, native=native)


def test_without_stages_the_distribution_is_the_models_own_renormalised() -> None:
    off = SamplerSettings(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0)
    for seed, logits, allowed, _, _ in cases():
        chain = Chain(off, N_VOCAB, [])
        drawn = observer(native=True).draw(logits, chain, seed, 0, mask=mask_of(allowed))
        chain.close()
        own = np.exp(logits.astype(np.float64) - logits.max())
        own /= own.sum()
        kept = own[allowed].sum()
        for candidate in drawn.candidates:
            expected = own[candidate.id] / kept if allowed[candidate.id] else 0.0
            assert candidate.probability == pytest.approx(expected, rel=1e-5)
            assert candidate.removed_by == (None if allowed[candidate.id] else GRAMMAR)
            assert candidate.logprob == pytest.approx(np.log(own[candidate.id]), abs=1e-5)
        grammar = drawn.stages[0]
        assert (grammar.survivors, grammar.forced) == (allowed.sum(), allowed.sum() == 1)
        assert grammar.mass == pytest.approx(kept, rel=1e-5)
        assert grammar.removed_mass == pytest.approx(1 - kept, abs=1e-6)


@pytest.mark.parametrize("after_chain", [False, True])
def test_native_code_and_numpy_say_the_same(after_chain: bool) -> None:
    for seed, logits, allowed, settings, past in cases():
        found = []
        for native in (True, False):
            chain = Chain(settings, N_VOCAB, past)
            drawn = observer(native=native).draw(logits, chain, seed, 3, mask=mask_of(allowed, after_chain=after_chain))
            chain.close()
            found.append(drawn)
        one, other = found
        assert (one.id, one.rank) == (other.id, other.rank)
        assert [(stage.name, stage.survivors, stage.forced) for stage in one.stages] == [
            (stage.name, stage.survivors, stage.forced) for stage in other.stages
        ]
        for stage, twin in zip(one.stages, other.stages, strict=True):
            assert stage.mass == pytest.approx(twin.mass, rel=1e-4)
            assert stage.removed_mass == pytest.approx(twin.removed_mass, abs=1e-5)
        for candidate, twin in zip(one.candidates, other.candidates, strict=True):
            assert (candidate.id, candidate.removed_by) == (twin.id, twin.removed_by)
            assert candidate.probability == pytest.approx(twin.probability, rel=1e-4)
        assert allowed[one.id]


def test_behind_the_chain_it_masks_what_that_left() -> None:
    """Where that leaves nothing it stands in front, as in llama.cpp."""
    fallen_back = 0
    for seed, logits, allowed, settings, past in cases():
        chain = Chain(settings, N_VOCAB, past)
        free = observer(native=True).draw(logits, chain, seed, 3)
        left = chain.apply_stages(logits, None, [], seed, 3)
        stays = left.ids[allowed[left.ids] & np.isfinite(left.logits)]  # a copy: the next draw writes over these
        drawn = observer(native=True).draw(logits, chain, seed, 3, mask=mask_of(allowed, after_chain=True))
        chain.close()
        if drawn.stages[0].name == GRAMMAR:
            fallen_back += 1
            assert len(stays) == 0
            continue
        assert drawn.stages[-2].survivors == len(stays)
        assert drawn.id in stays
        if allowed[free.id]:  # the dice stay: who won among all wins among fewer
            assert drawn.id == free.id
    assert 0 < fallen_back < 120


def test_mass_that_is_nearly_nothing_is_not_lost() -> None:
    logits = np.zeros(N_VOCAB, np.float32)
    logits[7] = 60.0
    allowed = np.zeros(N_VOCAB, bool)
    allowed[[11, 12]] = True
    for native in (True, False):
        chain = Chain(SamplerSettings(), N_VOCAB, [])
        drawn = observer(native=native).draw(logits, chain, 1, 0, mask=mask_of(allowed))
        chain.close()
        assert drawn.stages[0].mass == pytest.approx(2 * np.exp(-60), rel=1e-5)
        assert drawn.stages[0].removed_mass == pytest.approx(1)


def test_what_the_model_masks_itself_cannot_be_drawn() -> None:
    logits = np.zeros(N_VOCAB, np.float32)
    allowed = np.zeros(N_VOCAB, bool)
    allowed[5] = True
    logits[5] = -np.inf
    for after_chain in (False, True):
        chain = Chain(SamplerSettings(), N_VOCAB, [])
        with pytest.raises(NothingFits):
            observer(native=True).draw(logits, chain, 1, 0, mask=mask_of(allowed, after_chain=after_chain))
        chain.close()


# --- against llama.cpp's own grammar ---------------------------------------------------------------------------------

GRAMMARS = (
    "root ::= [a-z ]{1,400}",
    'root ::= ([0-9a-f]+ ", "?)+',
    'root ::= (("yes" | "no" | [A-Z] [a-z]*) [ .,\\n]?)+',
)


def theirs(
    model: Any, text: str, logits: NDArray[np.float32], samplers: list[Any], taken: list[int]
) -> dict[int, float]:
    """What llama.cpp's grammar and then these samplers leave of the whole vocabulary."""
    grammar = LIB.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
    for token in taken:
        LIB.llama_sampler_accept(grammar, token)
    data = (LIB.llama_token_data * len(logits))()
    view = np.ctypeslib.as_array(data)
    view["id"], view["logit"] = np.arange(len(logits)), logits
    array = LIB.llama_token_data_array(data, len(logits), -1, False)
    LIB.llama_sampler_apply(grammar, ctypes.byref(array))
    control = [i for i in range(len(logits)) if model.is_control(i)]  # which it lets into texts
    view["logit"][[i for i in control if i not in model.end_ids]] = -np.inf
    for sampler in samplers:
        LIB.llama_sampler_apply(sampler, ctypes.byref(array))
    left = {array.data[i].id: array.data[i].logit for i in range(array.size)}
    LIB.llama_sampler_free(grammar)
    return {i: logit for i, logit in left.items() if np.isfinite(logit)}


@pytest.mark.parametrize("text", GRAMMARS)
def test_mask_then_chain_is_llama_cpps_grammar_then_chain_to_the_bit(
    session: ModelSession, ids: list[int], text: str
) -> None:
    model = session.model
    follower = model.grammars.follow_ids(Constraint("gbnf", text), [])
    samplers = [
        LIB.llama_sampler_init_top_k(30),
        LIB.llama_sampler_init_top_p(0.9, 1),
        LIB.llama_sampler_init_temp(1.3),
    ]
    settings = SamplerSettings(top_k=30, top_p=0.9, min_p=0.0, temperature=1.3)
    taken: list[int] = []
    compared = 0
    for step in range(12):
        row = session._logits_after([*ids, *taken], alone=True, wanted=lambda: False)[0]
        mask = follower.wait_mask()
        assert mask is not None
        chain = Chain(settings, model.n_vocab, [*ids, *taken])
        allowed = mask.unpack_allowed(model.n_vocab)
        ours = chain.apply_stages(
            np.where(allowed, row, np.float32(-np.inf)),
            None,
            [],
            1,
            step,
            1.0,
            np.flatnonzero(allowed).astype(np.int32),
        )
        drawn = observer_of(session).draw(row, chain, 1, step, mask=mask)
        chain.close()
        if allowed.sum() > 1:  # one alone is the canonical spelling of what is forced
            compared += 1
            native = theirs(model, text, row, samplers, taken)
            assert dict(zip(ours.ids.tolist(), ours.logits.tolist(), strict=True)) == native
            assert {c.id for c in drawn.candidates if c.probability} <= set(native)
            assert drawn.stages[-2].survivors == len(native)
        if drawn.id in model.end_ids:
            break
        taken.append(drawn.id)
        follower.take_token(drawn.id)
    for sampler in samplers:
        LIB.llama_sampler_free(sampler)
    assert compared > 3


def observer_of(session: ModelSession) -> Observer:
    model = session.model
    return Observer(model.n_vocab, model.end_ids, model.names, 20)


# --- set, changed, dropped -------------------------------------------------------------------------------------------


def at(steps: dict[int, Steer]) -> Callable[[], Steer | None]:
    """Commands that come before so many polls."""
    count = -1

    def poll() -> Steer | None:
        nonlocal count
        count += 1
        return steps.pop(count, None)

    return poll


def said_by_step(stream: list[Record]) -> list[int]:
    return [token.id for token in tokens(stream)]


def test_it_is_set_changed_and_dropped_in_mid_reply(session: ModelSession, ids: list[int]) -> None:
    ends = (Length(40),)
    deeds: dict[int, Steer] = {
        # One poll before the prompt is decoded, then one a step, and one more for each command.
        6: Adjust(WILD, ends, constraint=WORDS),
        17: Adjust(WILD, ends, constraint=DATE),
        20: Adjust(WILD, ends),
    }
    stream = records(session, asked(ids, None, limit=40), at(deeds))
    settings = [record for record in stream if isinstance(record, SettingsRecord)]
    assert [record.constraint for record in settings] == [None, WORDS, DATE, None]
    begun = [record.constraint_begun for record in settings]
    numbered = tokens(stream)
    words = "".join(token.text for token in numbered[begun[1] : begun[2]])
    date = "".join(token.text for token in numbered[begun[2] : begun[3]])
    assert re.fullmatch("([a-z]{1,9} )*[a-z]*", words)
    assert words
    assert re.fullmatch(r"\d{1,4}-?", date)
    assert [token.settings for token in numbered] == sorted(token.settings for token in numbered)
    assert {token.stages[0].name for token in numbered[begun[3] :]} == {"penalties"}


def test_another_knob_does_not_begin_it_anew(session: ModelSession, ids: list[int]) -> None:
    other = msgspec.structs.replace(WILD, min_p=0.0)
    stream = records(session, asked(ids, DATE, samplers=WILD), at({4: Adjust(other, (Length(60),), constraint=DATE)}))
    assert re.fullmatch(DATE.text, text_of(stream))
    assert [r.constraint_begun for r in stream if isinstance(r, SettingsRecord)] == [0, 0]


def test_a_token_that_does_not_fit_drops_it_and_harms_nothing(session: ModelSession, ids: list[int]) -> None:
    wrong = session.model.tokenize("Hello", special=False)
    stream = records(session, asked(ids, DATE, limit=12), at({4: Force(wrong)}))
    assert dropped(stream) == ["", 'the token "Hello" does not fit']
    assert len(tokens(stream)) == 12
    assert end_of(stream).reason == "length"
    assert "incomplete" not in end_of(stream).detail
    after = [token for token in tokens(stream) if token.settings == 1]
    assert after
    assert all(stage.name != GRAMMAR for token in after for stage in token.stages)
    again = records(session, asked(ids, DATE))
    assert re.fullmatch(DATE.text, text_of(again))


def test_forced_tokens_that_fit_move_it_on(session: ModelSession, ids: list[int]) -> None:
    begun = session.model.tokenize("2026-1", special=False)
    script = tuple(Scripted(step, i) for step, i in enumerate(begun))
    stream = records(session, asked(ids, DATE, script=script))
    assert re.fullmatch(r"2026-1\d-\d{2}", text_of(stream))


def test_a_matcher_in_error_drops_it_and_ends_nothing(session: ModelSession, ids: list[int]) -> None:
    """Its mask would allow the end tokens only."""
    many = "|".join(f'"{number}"' for number in range(21_000))
    constraint = Constraint("lark", f'start: "The " ({many})')
    stream = records(session, asked(ids, constraint, limit=20))
    assert text_of(stream).startswith("The")
    assert dropped(stream)[0] == ""
    assert "20000" in dropped(stream)[-1]
    assert (end_of(stream).reason, len(tokens(stream))) == ("length", 20)


# --- again, from somewhere else --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_chain", [False, True])
def test_rewound_and_gone_on_with_it_is_the_same_reply(
    session: ModelSession, ids: list[int], after_chain: bool
) -> None:
    constraint = msgspec.structs.replace(PERSON, after_chain=after_chain)
    whole = records(session, asked(ids, constraint, seed=5))
    said = said_by_step(whole)
    for done in (1, 2, len(said) // 2, len(said) - 1):
        command = asked([*ids, *said[:done]], constraint, seed=5, done=done)
        assert said_by_step(records(session, command)) == said[done:]


def test_one_that_began_in_mid_reply_goes_on_from_there(session: ModelSession, ids: list[int]) -> None:
    whole = records(session, asked(ids, None, limit=30), at({6: Adjust(WILD, (Length(60),), constraint=DATE)}))
    begun = max(record.constraint_begun for record in whole if isinstance(record, SettingsRecord))
    said = said_by_step(whole)
    assert begun > 0
    for done in (begun, begun + 3):
        command = asked([*ids, *said[:done]], DATE, done=done, constraint_begun=begun)
        assert said_by_step(records(session, command)) == said[done:]


def test_what_a_reply_says_already_may_not_fit(session: ModelSession, ids: list[int]) -> None:
    begun = session.model.tokenize("Hello there", special=False)
    command = asked([*ids, *begun], DATE, done=len(begun), limit=len(begun) + 3)
    stream = records(session, command)
    assert dropped(stream) == ['the token "Hello" does not fit']
    assert len(tokens(stream)) == 3


def test_a_question_about_it_gets_what_was_drawn(session: ModelSession, ids: list[int]) -> None:
    stream = records(session, asked(ids, PERSON, seed=3))
    said = said_by_step(stream)
    scored = session.score_reply(
        Score([*ids, *said], len(said), WILD, 3, 0, PERSON), alone=True, progress=lambda *_: None, wanted=lambda: False
    )
    assert scored.ids == said
    assert scored.probabilities == pytest.approx([token.probability for token in tokens(stream)], rel=1e-5)
    free = session.score_reply(
        Score([*ids, *said], len(said), WILD, 3, 0), alone=True, progress=lambda *_: None, wanted=lambda: False
    )
    assert free.ids != said
    for step in (0, 4):
        command = Inspect([*ids, *said[:step]], WILD, 3, step, constraint=PERSON)
        inspected = session.inspect_step(command, alone=True, wanted=lambda: False)[0]
        assert inspected.id == said[step]
        assert grammar_of(inspected) == grammar_of(tokens(stream)[step])


def test_why_not_names_the_byte_that_does_not_fit(session: ModelSession, ids: list[int]) -> None:
    def why(said: str, text: str | int, constraint: Constraint = DATE) -> Any:
        before = session.model.tokenize(said, special=False)
        token = text if isinstance(text, int) else session.model.tokenize(text, special=False)[0]
        command = Explain([*ids, *before], token, WILD, 1, len(before), constraint=constraint)
        return session.explain_step(command, alone=True, wanted=lambda: False).explanation

    refused = why("20", "x")
    assert refused.removed_by == GRAMMAR
    assert (refused.misfit.at, refused.misfit.byte, refused.misfit.may_end) == (0, ord("x"), False)
    assert refused.misfit.allowed == b"0123456789"
    assert why("2026", "x").misfit.forced == b"-"
    assert why("2026", "-").misfit is None
    assert why("2026-10-1", session.model.eos).misfit.byte is None
    late = why("", "today", make_choice(["tomorrow", "tonight"]))
    assert (late.misfit.at, late.misfit.byte, late.misfit.allowed) == (2, ord("d"), b"mn")
    assert late.stages[0].name == GRAMMAR
    assert late.remedies == []


def test_thoughts_are_free_and_the_answer_matches(session: ModelSession) -> None:
    model = session.model
    ids = model.tokenize("<|im_start|>assistant\n<think>\n", special=True)
    model.thinking = tags_of("<think></think>")
    try:
        ends = (Length(60), ThinkingBudget(8))
        stream = records(session, ask_for(ids, WILD, ends, 2, constraint=DATE))
        settings = [record for record in stream if isinstance(record, SettingsRecord)]
        assert dropped(stream) == [""] * len(settings)
        assert settings[0].constraint_begun == NOT_YET
        said, begun = tokens(stream), settings[-1].constraint_begun
        assert begun > 8
        assert re.fullmatch(DATE.text, b"".join(token.bytes for token in said[begun:]).decode())
        assert all(stage.name != GRAMMAR for token in said[:8] for stage in token.stages)
        for done, at in ((4, NOT_YET), (begun + 2, begun)):  # gone on with, from the thoughts and from the answer
            taken = [*ids, *(token.id for token in said[:done])]
            again = records(session, ask_for(taken, WILD, ends, 2, done=done, constraint=DATE, constraint_begun=at))
            assert said_by_step(again) == [token.id for token in said[done:]]
    finally:
        model.thinking = None


# --- what cannot be used ---------------------------------------------------------------------------------------------

WRONG = {
    "regex": ["a(b", "a(?=b)", "", "(" * 5000 + "a" + ")" * 5000],
    "json_schema": [
        "{",
        "[]",
        '{"type": "strin"}',
        '{"not": {}}',
        '{"type":"array","items":' * 9000 + "{}" + "}" * 9000,
    ],
    "choice": ["[]", '[""]', '["a", 1]', '"a"'],
    "lark": ["start: foo", "start", "start: " + "(" * 9000 + '"a"' + ")" * 9000],
    "gbnf": ["root ", 'roo ::= "a"'],
}
HOSTILE = [
    Constraint("regex", "a{1,99999}"),
    Constraint("regex", "((a{1,100}){1,100}){1,100}"),
    Constraint("regex", "(a|b)*a(a|b){2000}"),
    Constraint("regex", "(a|b)" * 20_000),
    Constraint("regex", "x" * 300_000),
    make_choice([f"word number {number}" for number in range(7_000)]),
    Constraint("json_schema", json.dumps({"type": "string", "minLength": 50_000, "maxLength": 100_000})),
    Constraint("json_schema", json.dumps({"allOf": [{"pattern": f".*{letter}.*"} for letter in "abcdefghijkl"]})),
    Constraint("json_schema", json.dumps({"properties": {f"k{number}": {} for number in range(3_000)}})),
    Constraint("json_schema", json.dumps({"$ref": "#"})),
    Constraint("json_schema", json.dumps({"type": "integer", "multipleOf": 99_999_989})),
    Constraint("lark", "start: start"),
    Constraint("lark", 'start: a\na: a a | "x" |'),
    Constraint("lark", "start: a0\n" + "\n".join(f"a{n}: a{n + 1} a{n + 1}" for n in range(3000)) + '\na3000: "x"'),
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WRONG.items() for text in texts])
def test_what_is_wrong_is_said_before_the_reply(small: ModelSession, kind: Any, text: str) -> None:
    assert small.model.grammars.check(Constraint(kind, text)).error
    with pytest.raises(EngineError, match="cannot be used") as refusal:
        records(small, asked(prompt(small, "Hello"), Constraint(kind, text)))
    assert refusal.value.kind == "constraint"


def test_what_the_vocabulary_cannot_write_is_said_before_the_reply(model_path: Path, tmp_path: Path) -> None:
    made = with_marked_spaces(model_path, tmp_path / "marked.gguf")
    session = ModelSession(ModelSpec(str(made), "marked", context=512, threads=1), lambda _: None)
    try:
        start = prompt(session, "Hello")
        for constraint in (make_choice(["over", "▁under"]), Constraint("regex", "▁under")):
            refused = 'this model cannot write "▁under": its tokens for it are " under"'
            assert session.model.grammars.check(constraint).error == refused
            with pytest.raises(EngineError, match=refused):
                records(session, asked(start, constraint))
        assert text_of(records(session, asked(start, make_choice([" under"])))) == " under"
    finally:
        session.close()


def test_in_mid_reply_it_is_said_in_the_record(session: ModelSession, ids: list[int]) -> None:
    wrong = Constraint("regex", "a(b")
    stream = records(session, asked(ids, DATE, limit=8), at({4: Adjust(WILD, (Length(8),), constraint=wrong)}))
    assert "unclosed group" in dropped(stream)[-1]
    assert len(tokens(stream)) == 8


def test_hostile_constraints_end_no_worker(small_model_path: Path) -> None:
    driver = Driver(ModelSpec(str(small_model_path), "small", context=1024, threads=1))
    try:
        start = [1, 2, 3]
        for constraint in HOSTILE:
            begun = perf_counter()
            (answer,) = driver.ask(Check(constraint), Checked)
            assert isinstance(answer, Checked)
            events = driver.ask(asked(start, constraint, limit=6))
            assert isinstance(events[-1], (Finished, Failed))
            if answer.error:
                assert isinstance(events[-1], Failed)
                assert events[-1].kind == "constraint"
            assert perf_counter() - begun < 60
        assert driver.engine.alive
        assert re.fullmatch(DATE.text, text_of(driver.ask(asked(start, DATE))))  # type: ignore[arg-type]
    finally:
        driver.engine.close()


def test_a_trial_that_takes_too_long_is_given_up() -> None:
    from llguidance import LLMatcher

    trial = Trial(seconds=1)
    endless = LLMatcher.grammar_from_json_schema('{"type": "integer", "multipleOf": 99999989}')
    try:
        assert "more than 1 seconds" in trial.compile_grammar(endless)[0]
        assert trial.compile_grammar(LLMatcher.grammar_from_regex("a+"))[0] == ""
    finally:
        trial.close()
