"""The loop's rules: what a knob, a stop, a limit, a cancel do, and what is decoded again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from termchat.decoding.conditions import Length, Stop
from termchat.decoding.records import Finished, Prefill, Record, Settings, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import Session
from termchat.engine.port import Adjust, Cancel, EngineError, Generate, Inspect, ModelSpec, Scripted
from tests.engine.conftest import lasting, prompt, records, request, tokens


def after(count: int, *commands: Adjust | Cancel) -> Callable[[], Adjust | Cancel | None]:
    """A poll that gives the commands once it has been asked `count` times in vain: once or twice before the first token."""
    waiting = list(commands)
    asked = 0

    def poll() -> Adjust | Cancel | None:
        nonlocal asked
        asked += 1
        return waiting.pop(0) if asked > count and waiting else None

    return poll


def adjust(tuning: Tuning) -> Adjust:
    return Adjust(tuning.samplers(), tuning.conditions())


def only(stream: list[Record], kind: type) -> Record:
    found = [record for record in stream if isinstance(record, kind)]
    assert len(found) == 1
    return found[0]


def test_order_of_the_stream(session: Session) -> None:
    stream = records(session, request(prompt(session, "Tell me a story."), Tuning(max_tokens=5)))
    assert [type(record) for record in stream] == [Start, Settings, Prefill, *[Token] * 5, Finished]
    assert [t.step for t in tokens(stream)] == list(range(5))
    start = stream[0]
    assert isinstance(start, Start)
    assert [t.position for t in tokens(stream)] == list(range(len(start.prompt_ids), len(start.prompt_ids) + 5))
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.detail, finished.tokens) == ("length", "max_tokens 5", 5)
    assert finished.ttft_ms is not None
    assert finished.ttft_ms > finished.prefill_ms > 0
    assert finished.tokens_per_second == pytest.approx(4 / finished.decode_ms * 1e3)


def test_a_knob_turned_in_mid_reply_rules_the_next_token(session: Session) -> None:
    ids = prompt(session, "Write a poem about rain.")
    hot, cold = Tuning(temperature=1.5, max_tokens=40), Tuning(temperature=0, max_tokens=40)
    stream = records(session, request(ids, hot), after(12, adjust(cold)))
    changes = [record for record in stream if isinstance(record, Settings)]
    assert [change.samplers for change in changes] == [hot.samplers(), cold.samplers()]
    at = stream.index(changes[1])
    before, later = tokens(stream[:at]), tokens(stream[at:])
    assert len(before) == 10
    assert len(later) == 30
    assert {t.settings for t in before} == {0}
    assert {t.settings for t in later} == {1}
    assert all(t.probability == 1.0 and t.rank == 0 and t.stages[-2].survivors == 1 for t in later)
    assert any(t.probability < 1.0 for t in before)
    # What came before the change is what it would have been without it.
    assert [t.id for t in tokens(records(session, request(ids, hot)))][:10] == [t.id for t in before]


def test_penalties_keep_their_memory_over_a_change(session: Session) -> None:
    ids = prompt(session, "Write a long story about a tree, a tall tree.")
    plain = Tuning(temperature=0, max_tokens=50)
    strong = Tuning(temperature=0, max_tokens=50, repeat_penalty=1.8, repeat_last_n=512)
    stream = records(session, request(ids, plain), after(14, adjust(strong)))
    turned = tokens(stream)[12]
    assert turned.settings == 1
    again = records(session, request([*ids, *(t.id for t in tokens(stream)[:12])], strong, done=12))
    assert [t.id for t in tokens(again)] == [t.id for t in tokens(stream)[12:]]
    assert tokens(again)[0].candidates[0].probability == turned.candidates[0].probability


def test_limit_and_stops_can_be_changed_in_mid_reply(session: Session) -> None:
    ids = prompt(session, "Count from one to fifty in words.")
    stream = records(
        session, request(ids, Tuning(temperature=0)), after(10, adjust(Tuning(temperature=0, max_tokens=9)))
    )
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.tokens) == ("length", 9)


def test_stop_sequence_across_token_borders(session: Session) -> None:
    ids = prompt(session, "Tell me a long story about a fox.")
    free = records(session, request(ids, Tuning(max_tokens=60)))
    text = "".join(t.text for t in tokens(free))
    stop = text[70:81]  # begins and ends wherever
    assert stop not in text[:70]
    stream = records(session, request(ids, Tuning(max_tokens=60, stop=(stop, "never said"))))
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.detail) == ("stop", stop)
    assert "".join(t.text for t in tokens(stream)) == text[: text.index(stop)]
    assert finished.held.startswith(stop)
    # Swallowed tokens have their records, and no other token than without the stop was drawn.
    assert [t.id for t in tokens(stream)] == [t.id for t in tokens(free)][: len(tokens(stream))]
    assert b"".join(t.bytes for t in tokens(stream)).decode().endswith(finished.held)


def test_the_end_token_is_a_record_without_text(session: Session) -> None:
    ending = (Scripted(5, session.model.eos),)
    stream = records(session, request(prompt(session, "Tell me a story."), Tuning(max_tokens=200), script=ending))
    finished, last = only(stream, Finished), tokens(stream)[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "end"
    assert last.id == session.model.eos
    assert (last.text, last.bytes) == ("", b"")
    assert finished.detail == "<|im_end|>"


def test_cancel_ends_before_the_next_token_and_can_be_continued(session: Session) -> None:
    ids = prompt(session, "Tell me about the moon.")
    tuning = Tuning(max_tokens=60, repeat_penalty=1.1, temperature=0.9)
    whole = tokens(records(session, request(ids, tuning)))
    cut = records(session, request(ids, tuning), after(22, Cancel()))
    finished = only(cut, Finished)
    assert isinstance(finished, Finished)
    done = len(tokens(cut))
    assert 20 <= done <= 21
    assert (finished.reason, finished.tokens) == ("user", done)
    path = [*ids, *(t.id for t in tokens(cut))]
    rest = records(session, request(path, tuning, done=done))
    start, prefill = rest[0], only(rest, Prefill)
    assert isinstance(start, Start)
    assert isinstance(prefill, Prefill)
    assert start.exact
    assert (prefill.reused, prefill.shapes) == (len(path) - 1, [1])
    joined = tokens(cut) + tokens(rest)
    assert [(t.step, t.id, t.logit, t.probability) for t in joined] == [
        (t.step, t.id, t.logit, t.probability) for t in whole
    ]


def test_only_new_tokens_are_decoded(session: Session) -> None:
    ids = prompt(session, "What is a river?")
    first = records(session, request(ids, Tuning(max_tokens=30)))
    path = [*ids, *(t.id for t in tokens(first))]
    more = session.model.tokenize(" And a lake?", special=False)
    second = only(records(session, request([*path, *more], Tuning(max_tokens=2))), Prefill)
    assert isinstance(second, Prefill)
    assert second.tokens == len(path) + len(more)
    assert second.reused == len(path) - 1  # the last drawn token was never decoded
    assert sum(second.shapes) == len(more) + 1


def test_prompts_are_decoded_in_batches_of_63_and_the_last_token_alone(session: Session) -> None:
    ids = session.model.tokenize("one two three four five six seven eight nine ten " * 25, special=False)
    stream = records(session, request(ids, Tuning(max_tokens=1)))
    prefill = only(stream, Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.shapes == [63] * ((len(ids) - 1) // 63) + [(len(ids) - 1) % 63, 1]


def test_rebuilt_in_the_recorded_shapes_a_reply_goes_on_bit_for_bit(session: Session) -> None:
    tuning = Tuning(max_tokens=120)
    ids = lasting(session, "Describe a small town by the sea in winter.", tuning)
    whole = records(session, request(ids, tuning))
    prefill = only(whole, Prefill)
    assert isinstance(prefill, Prefill)
    path = [*ids, *(t.id for t in tokens(whole)[:90])]
    records(session, request(prompt(session, "Something else"), Tuning(max_tokens=1)))
    session.cache.rewind(0)
    shapes = [*prefill.shapes, *[1] * 89]
    again = records(session, request(path, tuning, done=90, shapes=shapes, rebuild_exactly=True))
    assert isinstance(again[0], Start)
    assert again[0].exact
    assert [(t.id, t.logit) for t in tokens(again)] == [(t.id, t.logit) for t in tokens(whole)[90:]]


def test_cells_that_were_made_otherwise_since_are_not_taken_for_the_recorded_ones(session: Session) -> None:
    tuning = Tuning(max_tokens=60)
    ids = lasting(session, "Describe a small town by the sea in winter.", tuning)
    whole = records(session, request(ids, tuning))
    prefill = only(whole, Prefill)
    assert isinstance(prefill, Prefill)
    path = [*ids, *(t.id for t in tokens(whole)[:50])]
    shapes = [*prefill.shapes, *[1] * 49]
    for exactly in (False, True):
        session.cache.rewind(0)
        records(session, request([*path, 1], Tuning(max_tokens=1)))  # the same ids, in large batches
        again = records(session, request(path, tuning, done=50, shapes=shapes, rebuild_exactly=exactly))
        assert isinstance(again[0], Start)
        assert again[0].exact is exactly
        made = only(again, Prefill)
        assert isinstance(made, Prefill)
        assert made.reused == (len(ids) - 1 if exactly else len(path) - 1)
        assert set(made.shapes) == {1}
    assert [(t.id, t.logit) for t in tokens(again)] == [(t.id, t.logit) for t in tokens(whole)[50:]]


def test_context_full_ends_the_reply(model_path: object) -> None:
    small = Session(ModelSpec(str(model_path), "smollm2", context=256, threads=1), lambda _: None)
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


def test_an_empty_prompt_is_refused(session: Session) -> None:
    with pytest.raises(EngineError, match="prompt is empty"):
        records(session, request([], Tuning()))


def test_bytes_of_long_and_partial_tokens(session: Session) -> None:
    model = session.model
    text = "naïve 😀 漢字 " + "\n" + " " * 60 + "x = 1\n\t\t\ty"
    ids = model.tokenize(text, special=False)
    assert b"".join(model.piece(i) for i in ids).decode() == text
    longest = max(range(model.n_vocab), key=lambda i: len(model.piece(i)))
    assert len(model.piece(longest)) > 32
    assert any(b"\xf0" in model.piece(i) and model.name(i).endswith("\ufffd") for i in range(model.n_vocab))


def test_inspect_needs_no_pass_for_the_last_step_and_one_for_any_other(session: Session) -> None:
    ids = prompt(session, "Tell me about the wind.")
    tuning = Tuning(max_tokens=30)
    stream = tokens(records(session, request(ids, tuning)))
    path = [*ids, *(t.id for t in stream)]
    cells = list(session.cache.ids)
    for step, recomputed in ((29, False), (12, True), (0, True)):
        ask = Inspect(path[: len(ids) + step], tuning.samplers(), 7, step)
        seen, fresh = session.inspect(ask, alone=True, wanted=lambda: False)
        assert fresh is recomputed
        assert (seen.id, seen.step) == (stream[step].id, step)
        assert seen.logit == pytest.approx(stream[step].logit, abs=0.2)
        assert [c.id for c in seen.candidates][:3] == [c.id for c in stream[step].candidates][:3]
        colder, still = session.inspect(
            Inspect(ask.ids, Tuning(temperature=0).samplers(), 7, step), alone=True, wanted=lambda: False
        )
        assert colder.rank == 0
        assert still is recomputed
    assert session.cache.ids == cells
    longer = records(session, request(path, Tuning(max_tokens=40), done=30))
    prefill = only(longer, Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.reused == len(path) - 1


def test_conditions_travel_in_the_settings_record(session: Session) -> None:
    stream = records(
        session, request(prompt(session, "Hi"), Tuning(max_tokens=3, stop=("\n",)), origin={"top_k": "flag"})
    )
    settings = only(stream, Settings)
    assert isinstance(settings, Settings)
    assert settings.conditions == (Stop("\n"), Length(3))
    assert settings.origin == {"top_k": "flag"}


def test_generate_command_defaults_to_twenty_candidates(session: Session) -> None:
    command = Generate([1], Tuning().samplers(), (), 1, {})
    assert command.candidates == 20
    token = tokens(records(session, request(prompt(session, "Hi"), Tuning(max_tokens=1, temperature=0))))[0]
    assert len(token.candidates) == 20


def test_a_rewound_cache_has_no_logits_at_hand(session: Session) -> None:
    ids = prompt(session, "Tell me about the fog.")
    stream = tokens(records(session, request(ids, Tuning(max_tokens=12))))
    path = [*ids, *(t.id for t in stream)]
    session.cache.rewind(len(ids) + 4)
    seen, recomputed = session.inspect(
        Inspect(path[: len(ids) + 4], Tuning().samplers(), 7, 4), alone=True, wanted=lambda: False
    )
    assert recomputed
    assert (seen.id, seen.candidates[0].id) == (stream[4].id, stream[4].candidates[0].id)


def test_much_that_is_not_cached_is_decoded_for_the_next_turn_and_can_be_given_up(session: Session) -> None:
    ids = session.model.tokenize("a b c d e f g h i j k l m n o p q r s t u v w x y z " * 12, special=False)
    session.cache.rewind(0)
    with pytest.raises(EngineError, match="given up"):
        session.inspect(Inspect(ids, Tuning().samplers(), 7, 0), alone=True, wanted=lambda: True)
    assert len(session.cache.ids) == 63
    session.inspect(Inspect(ids, Tuning().samplers(), 7, 0), alone=True, wanted=lambda: False)
    assert session.cache.ids == ids
    prefill = only(records(session, request(ids, Tuning(max_tokens=1))), Prefill)
    assert isinstance(prefill, Prefill)
    assert prefill.shapes == [1]


@pytest.mark.parametrize("bad", [-1, 49152])
def test_ids_of_another_vocabulary_are_refused(session: Session, bad: int) -> None:
    with pytest.raises(EngineError, match=f"token {bad} is not in this model's vocabulary"):
        records(session, request([1, bad, 3], Tuning(max_tokens=1), done=2))


def test_the_end_token_never_carries_text(session: Session) -> None:
    """What a stop could have begun with, and did not, comes out with the end: in `held`."""
    ids, ending = prompt(session, "Tell me a story."), (Scripted(5, session.model.eos),)
    free = records(session, request(ids, Tuning(temperature=0), script=ending))
    text = "".join(t.text for t in tokens(free))
    stream = records(session, request(ids, Tuning(temperature=0, stop=(text[-1] + "zzz",)), script=ending))
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.held, tokens(stream)[-1].text) == ("end", text[-1], "")
    assert "".join(t.text for t in tokens(stream)) + finished.held == text
