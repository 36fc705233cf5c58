"""What is decoded, and what is decoded again, by a real model."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from termchat.decoding.records import Finished, Prefill, Record, Shape, Start
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import MOST_CONTEXT, EngineError, Inspect, ModelSpec
from tests.engine.conftest import lasting, prompt, records, request, tokens


def only(stream: list[Record], kind: type) -> Record:
    found = [record for record in stream if isinstance(record, kind)]
    assert len(found) == 1
    return found[0]


def test_only_new_tokens_are_decoded(session: ModelSession) -> None:
    ids = prompt(session, "What is a river?")
    first = records(session, request(ids, Tuning(max_tokens=30)))
    path = [*ids, *(t.id for t in tokens(first))]
    more = session.model.tokenize(" And a lake?", special=False)
    second = only(records(session, request([*path, *more], Tuning(max_tokens=2))), Prefill)
    assert isinstance(second, Prefill)
    assert second.tokens == len(path) + len(more)
    assert second.reused == len(path) - 1  # the last drawn token was never decoded
    assert sum(second.shapes) == len(more) + 1


def test_prompts_are_decoded_in_batches_of_63_and_the_last_token_alone(session: ModelSession) -> None:
    ids = session.model.tokenize("one two three four five six seven eight nine ten " * 25, special=False)
    stream = records(session, request(ids, Tuning(max_tokens=1)))
    prefill = only(stream, Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.shapes == [63] * ((len(ids) - 1) // 63) + [(len(ids) - 1) % 63, 1]


def test_rebuilt_in_the_recorded_shapes_a_reply_goes_on_bit_for_bit(session: ModelSession) -> None:
    tuning = Tuning(max_tokens=120)
    ids = lasting(session, "Describe a small town by the sea in winter.", tuning)
    whole = records(session, request(ids, tuning))
    prefill = only(whole, Prefill)
    assert isinstance(prefill, Prefill)
    path = [*ids, *(t.id for t in tokens(whole)[:90])]
    records(session, request(prompt(session, "Something else"), Tuning(max_tokens=1)))
    session.cache.rewind_to(0)
    shapes = [*map(Shape, prefill.shapes, prefill.threads), *[Shape(1, 1)] * 89]
    again = records(session, request(path, tuning, done=90, shapes=shapes, rebuild_exactly=True))
    assert isinstance(again[0], Start)
    assert again[0].exact
    assert [(t.id, t.logit) for t in tokens(again)] == [(t.id, t.logit) for t in tokens(whole)[90:]]


def test_cells_that_were_made_otherwise_since_are_not_taken_for_the_recorded_ones(session: ModelSession) -> None:
    tuning = Tuning(max_tokens=60)
    ids = lasting(session, "Describe a small town by the sea in winter.", tuning)
    whole = records(session, request(ids, tuning))
    prefill = only(whole, Prefill)
    assert isinstance(prefill, Prefill)
    path = [*ids, *(t.id for t in tokens(whole)[:50])]
    shapes = [*map(Shape, prefill.shapes, prefill.threads), *[Shape(1, 1)] * 49]
    for exactly in (False, True):
        session.cache.rewind_to(0)
        records(session, request([*path, 1], Tuning(max_tokens=1)))  # the same ids, in large batches
        again = records(session, request(path, tuning, done=50, shapes=shapes, rebuild_exactly=exactly))
        assert isinstance(again[0], Start)
        assert again[0].exact is exactly
        made = only(again, Prefill)
        assert isinstance(made, Prefill)
        assert made.reused == (len(ids) - 1 if exactly else len(path) - 1)
        assert set(made.shapes) == {1}
    assert [(t.id, t.logit) for t in tokens(again)] == [(t.id, t.logit) for t in tokens(whole)[50:]]


def test_bytes_of_long_and_partial_tokens(session: ModelSession) -> None:
    model = session.model
    text = "naïve 😀 漢字 " + "\n" + " " * 60 + "x = 1\n\t\t\ty"
    ids = model.tokenize(text, special=False)
    assert b"".join(model.piece(i) for i in ids).decode() == text
    longest = max(range(model.n_vocab), key=lambda i: len(model.piece(i)))
    assert len(model.piece(longest)) > 32
    assert any(b"\xf0" in model.piece(i) and model.name(i).endswith("\ufffd") for i in range(model.n_vocab))


def test_inspect_needs_no_pass_for_the_last_step_and_one_for_any_other(session: ModelSession) -> None:
    ids = prompt(session, "Tell me about the wind.")
    tuning = Tuning(max_tokens=30)
    stream = tokens(records(session, request(ids, tuning)))
    path = [*ids, *(t.id for t in stream)]
    cells = list(session.cache.ids)
    for step, recomputed in ((29, False), (12, True), (0, True)):
        ask = Inspect(path[: len(ids) + step], tuning.samplers(), 7, step)
        seen, fresh = session.inspect_step(ask, alone=True, wanted=lambda: False)
        assert fresh is recomputed
        assert (seen.id, seen.step) == (stream[step].id, step)
        assert seen.logit == pytest.approx(stream[step].logit, abs=0.2)
        assert [c.id for c in seen.candidates][:3] == [c.id for c in stream[step].candidates][:3]
        colder, still = session.inspect_step(
            Inspect(ask.ids, Tuning(temperature=0).samplers(), 7, step), alone=True, wanted=lambda: False
        )
        assert colder.rank == 0
        assert still is recomputed
    assert session.cache.ids == cells
    longer = records(session, request(path, Tuning(max_tokens=40), done=30))
    prefill = only(longer, Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.reused == len(path) - 1


def test_a_rewound_cache_has_no_logits_at_hand(session: ModelSession) -> None:
    ids = prompt(session, "Tell me about the fog.")
    stream = tokens(records(session, request(ids, Tuning(max_tokens=12))))
    path = [*ids, *(t.id for t in stream)]
    session.cache.rewind_to(len(ids) + 4)
    seen, recomputed = session.inspect_step(
        Inspect(path[: len(ids) + 4], Tuning().samplers(), 7, 4), alone=True, wanted=lambda: False
    )
    assert recomputed
    assert (seen.id, seen.candidates[0].id) == (stream[4].id, stream[4].candidates[0].id)


def test_much_that_is_not_cached_is_decoded_for_the_next_turn_and_can_be_given_up(session: ModelSession) -> None:
    ids = session.model.tokenize("a b c d e f g h i j k l m n o p q r s t u v w x y z " * 12, special=False)
    session.cache.rewind_to(0)
    with pytest.raises(EngineError, match="interrupted by another request"):
        session.inspect_step(Inspect(ids, Tuning().samplers(), 7, 0), alone=True, wanted=lambda: True)
    assert len(session.cache.ids) == 63
    session.inspect_step(Inspect(ids, Tuning().samplers(), 7, 0), alone=True, wanted=lambda: False)
    assert session.cache.ids == ids
    prefill = only(records(session, request(ids, Tuning(max_tokens=1))), Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.shapes == [1]


def test_context_full_ends_the_reply(model_path: object) -> None:
    small = ModelSession(ModelSpec(str(model_path), "smollm2", context=256, threads=1), lambda _: None)
    try:
        raw = small.model.tokenize("1 2 3 4 5 6 7 8 9 10 11 12 13", special=False)
        filled = records(small, request(raw, Tuning(temperature=0)))
        finished = only(filled, Finished)
        assert isinstance(finished, Finished)
        assert (finished.reason, finished.detail) == ("context", "256 of 256")
        assert len(raw) + finished.tokens == 256
        with pytest.raises(EngineError, match="the prompt has 300 tokens, the context 256"):
            records(small, request(raw[:1] * 300, Tuning()))
    finally:
        small.close()


@pytest.mark.parametrize("written", [2**32 - 1, 2**31, 0])
def test_a_context_length_that_no_model_has_is_unknown_and_the_context_as_if_none_were_told(
    model_path: Path, tmp_path: Path, written: int
) -> None:
    data = bytearray(model_path.read_bytes())
    key = b"llama.context_length"
    struct.pack_into("<I", data, data.index(key) + len(key) + 4, written)
    (tmp_path / "model.gguf").write_bytes(data)
    session = ModelSession(ModelSpec(str(tmp_path / "model.gguf"), "x", threads=1), lambda _: None)
    try:
        info = session.build_info()
        assert (info.context_trained, info.context) == (0, MOST_CONTEXT)
    finally:
        session.close()
