"""The loop's rules: what a knob, a stop, a limit and a cancel do. On a fake cache: no model is loaded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from termchat.decoding.conditions import Condition, Every, Length, Stop
from termchat.decoding.records import Finished, Prefill, Record, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Adjust, Cancel, EngineError, Scripted
from tests.asking import ask_for
from tests.engine.conftest import prompt, records, request, tokens
from tests.engine.fake_cache import FakeModel, FakeSession


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


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


def test_order_of_the_stream(session: FakeSession) -> None:
    stream = records(session, request(prompt(session, "Tell me a story."), Tuning(max_tokens=5)))
    assert [type(record) for record in stream] == [Start, SettingsRecord, Prefill, *[Token] * 5, Finished]
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


def test_a_knob_turned_in_mid_reply_rules_the_next_token(session: FakeSession) -> None:
    ids = prompt(session, "Write a poem about rain.")
    hot, cold = Tuning(temperature=1.5, max_tokens=40), Tuning(temperature=0, max_tokens=40)
    stream = records(session, request(ids, hot), after(12, adjust(cold)))
    changes = [record for record in stream if isinstance(record, SettingsRecord)]
    assert [change.samplers for change in changes] == [hot.samplers(), cold.samplers()]
    at = stream.index(changes[1])
    before, later = tokens(stream[:at]), tokens(stream[at:])
    assert len(before) == 10
    assert len(later) == 30
    assert {t.settings for t in before} == {0}
    assert {t.settings for t in later} == {1}
    assert all(t.probability == 1.0 and t.rank == 0 and t.stages[-2].survivors == 1 for t in later)
    assert any(t.probability < 1.0 for t in before)
    # Greedy from the very next token on.
    path = [*ids, *(t.id for t in before)]
    session.cache.prepare_prompt([*path, 1])
    assert later[0].id == session.cache.read_logits().argmax()
    # What came before the change is what it would have been without it.
    assert [t.id for t in tokens(records(session, request(ids, hot)))][:10] == [t.id for t in before]


def test_penalties_keep_their_memory_over_a_change(session: FakeSession) -> None:
    ids = prompt(session, "Write a long story about a tree, a tall tree.")
    plain = Tuning(temperature=0, max_tokens=50)
    strong = Tuning(temperature=0, max_tokens=50, repeat_penalty=1.8, repeat_last_n=512)
    stream = records(session, request(ids, plain), after(14, adjust(strong)))
    turned = tokens(stream)[12]
    assert turned.settings == 1
    again = records(session, request([*ids, *(t.id for t in tokens(stream)[:12])], strong, done=12))
    assert [t.id for t in tokens(again)] == [t.id for t in tokens(stream)[12:]]
    assert tokens(again)[0].candidates[0].probability == turned.candidates[0].probability


def test_limit_and_stops_can_be_changed_in_mid_reply(session: FakeSession) -> None:
    ids = prompt(session, "Count from one to fifty in words.")
    stream = records(
        session, request(ids, Tuning(temperature=0)), after(10, adjust(Tuning(temperature=0, max_tokens=9)))
    )
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.tokens) == ("length", 9)


def test_stop_sequence_across_token_borders(session: FakeSession) -> None:
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


def test_the_end_token_is_a_record_without_text(session: FakeSession) -> None:
    ending = (Scripted(5, session.model.eos),)
    stream = records(session, request(prompt(session, "Tell me a story."), Tuning(max_tokens=200), script=ending))
    finished, last = only(stream, Finished), tokens(stream)[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "end"
    assert last.id == session.model.eos
    assert (last.text, last.bytes) == ("", b"")
    assert finished.detail == session.model.name(session.model.eos)


def test_cancel_ends_before_the_next_token_and_can_be_continued(session: FakeSession) -> None:
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


def test_context_full_ends_the_reply() -> None:
    small = FakeSession(capacity=64)
    ids = prompt(small, "a prompt of 21 tokens")
    finished = only(records(small, request(ids, Tuning())), Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.detail, finished.tokens) == ("context", "64 of 64", 64 - 21)
    with pytest.raises(EngineError, match="the prompt has 84 tokens, the context 64"):
        records(small, request(ids * 4, Tuning()))


def test_an_empty_prompt_is_refused(session: FakeSession) -> None:
    with pytest.raises(EngineError, match="prompt is empty"):
        records(session, request([], Tuning()))


def test_conditions_travel_in_the_settings_record(session: FakeSession) -> None:
    stream = records(
        session, request(prompt(session, "Hi"), Tuning(max_tokens=3, stop=("\n",)), origin={"top_k": "flag"})
    )
    settings = only(stream, SettingsRecord)
    assert isinstance(settings, SettingsRecord)
    assert settings.conditions == (Stop("\n"), Length(3))
    assert settings.origin == {"top_k": "flag"}


def test_generate_command_defaults_to_twenty_candidates(session: FakeSession) -> None:
    command = ask_for([1], Tuning().samplers(), (), 1, {})
    assert command.candidates == 20
    token = tokens(records(session, request(prompt(session, "Hi"), Tuning(max_tokens=1, temperature=0))))[0]
    assert len(token.candidates) == 20


@pytest.mark.parametrize(
    ("condition", "last", "held"),
    [
        (Length(2), b"a \xe2\x82", "\ufffd"),
        (Every(2, "stop"), b"a \xe2\x82", "\ufffd"),
        (Stop("END"), b"a END \xe2\x82", "END \ufffd"),
    ],
)
def test_a_reply_that_ends_within_a_character_ends_with_a_mark(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, condition: Condition, last: bytes, held: str
) -> None:
    """`text` and `held` are what the bytes decode to; the next token completes the character."""
    monkeypatch.setattr(session.model, "piece", {97: last, 98: b"\xac"}.get)
    ids, script = prompt(session, "Tell me a story."), (Scripted(0, 98), Scripted(1, 97), Scripted(2, 98))
    stream = records(session, ask_for(ids, Tuning().samplers(), (condition, Length(9)), 7, script=script[:2]))
    finished, said = only(stream, Finished), tokens(stream)
    assert isinstance(finished, Finished)
    assert (len(said), finished.held) == (2, held)
    whole = b"".join(t.bytes for t in said).decode("utf-8", "replace")
    assert "".join(t.text for t in said) + finished.held == whole
    more = [*ids, 98, 97]
    rest = records(session, ask_for(more, Tuning().samplers(), (Length(3),), 7, done=2, script=script[2:]))
    assert [t.text for t in tokens(rest)] == ["€"]


@pytest.mark.parametrize("bad", [-1, FakeModel.n_vocab])
def test_ids_of_another_vocabulary_are_refused(session: FakeSession, bad: int) -> None:
    with pytest.raises(EngineError, match=f"token {bad} is not in this model's vocabulary"):
        records(session, request([1, bad, 3], Tuning(max_tokens=1), done=2))


def test_the_end_token_never_carries_text(session: FakeSession) -> None:
    """What a stop could have begun with, and did not, comes out with the end: in `held`."""
    ids, ending = prompt(session, "Tell me a story."), (Scripted(5, session.model.eos),)
    free = records(session, request(ids, Tuning(temperature=0), script=ending))
    text = "".join(t.text for t in tokens(free))
    stream = records(session, request(ids, Tuning(temperature=0, stop=(text[-1] + "zzz",)), script=ending))
    finished = only(stream, Finished)
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.held, tokens(stream)[-1].text) == ("end", text[-1], "")
    assert "".join(t.text for t in tokens(stream)) + finished.held == text
