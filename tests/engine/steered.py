"""A reply that is steered while it is made, and what of it is to be equal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from time import perf_counter

from hypothesis import strategies as st

from termchat.decoding.conditions import Condition, parse
from termchat.decoding.records import Finished, Prefill, Record, SettingsRecord, Shape, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import (
    Adjust,
    FirstToken,
    Force,
    Generate,
    Noted,
    Pause,
    Paused,
    Prefilling,
    Resume,
    Scripted,
    Steer,
)
from tests.asking import ask_for, change, events_of, only
from tests.engine.conftest import records, tokens
from tests.engine.fake_cache import FakeSession

TUNING = Tuning(max_tokens=48, temperature=1.0, repeat_penalty=1.1)


Said = Record | Paused | Noted


Numbers = list[tuple[object, ...]]


def steered(
    session: ModelSession | FakeSession,
    command: Generate,
    when_paused: Iterable[Steer],
    at: dict[int, list[Steer]] | None = None,
) -> list[Said]:
    """The stream of a reply that is given one command a pause, and at some steps others on the way."""
    waiting: list[Steer] = []
    planned, left = iter(when_paused), dict(at or {})
    stream: list[Said] = []
    step = only(command).done

    def poll() -> Steer | None:
        return (left.get(step) or waiting or [None]).pop(0)

    for event in events_of(session, command, poll, perf_counter()):
        if isinstance(event, Prefilling | FirstToken):
            continue
        stream.append(event)
        if isinstance(event, Token):
            step = event.step + 1
        elif isinstance(event, Paused):
            waiting.append(next(planned))
    return stream


def numbers(stream: Iterable[object]) -> Numbers:
    """Everything of a reply's tokens but the times and the settings' numbers."""
    return [
        (t.step, t.position, t.id, t.bytes, t.text, t.logit, t.logprob, t.rank, t.probability, t.entropy, t.p_end, t.stages,
         t.candidates)
        for t in stream if isinstance(t, Token)
    ]  # fmt: skip


def start_of(stream: list[Record]) -> Start:
    assert isinstance(stream[0], Start)
    return stream[0]


def shapes_of(stream: list[Record], count: int) -> list[Shape]:
    """In which shapes a reply from an empty cache decoded the prompt and its first `count` tokens, by its records."""
    prefill = next(record for record in stream if isinstance(record, Prefill))
    threads = {record.number: record.threads for record in stream if isinstance(record, SettingsRecord)}
    each = [Shape(1, threads[token.settings]) for token in tokens(stream)[:count]]
    return [*map(Shape, prefill.shapes, prefill.threads), *each]


def paused(stream: Iterable[object]) -> list[Paused]:
    return [event for event in stream if isinstance(event, Paused)]


def end(stream: list[Said]) -> Finished:
    assert isinstance(stream[-1], Finished)
    return stream[-1]


def ask(ids: list[int], tuning: Tuning, *rules: str, seed: int = 7, **more: object) -> Generate:
    conditions: tuple[Condition, ...] = (*tuning.conditions(), *map(parse, rules))
    return ask_for(ids, tuning.samplers(), conditions, seed, **more)  # type: ignore[arg-type]


def serves(reply: list[Token]) -> bool:
    """Whether a reply has as many tokens as it may, and half of them are drawn from several."""
    drawn = [t for t in reply if t.probability < 1]
    return len(reply) == TUNING.max_tokens and len(drawn) > len(reply) // 2 and reply[5] in drawn


def script_of(stream: list[Said], skip: int = 1) -> tuple[Scripted, ...]:
    """What was done to a reply, from its records."""
    script: list[Scripted] = []
    step = 0
    for event in stream:
        if isinstance(event, SettingsRecord):
            if event.number >= skip:
                script.append(
                    Scripted(step, None, event.samplers, event.conditions, event.origin, threads=event.threads)
                )
        elif isinstance(event, Token):
            if event.forced:
                script.append(Scripted(step, event.id))
            step = event.step + 1
    return tuple(script)


Deed = tuple[int, Tuning | list[int] | str]
"""A step, and what is done there: knobs turned, tokens forced, or a pause."""

KNOBS = st.builds(
    Tuning,
    temperature=st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.6]),
    top_k=st.sampled_from([5, 40, 200]),
    top_p=st.sampled_from([0.3, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.1, 1.5]),
    repeat_last_n=st.sampled_from([8, 64]),
)


SEEDS = st.integers(0, 2**53 - 1)


def deeds_of(first: int, last: int) -> st.SearchStrategy[list[Deed]]:
    """What may be done to a reply; ids to force are from `first` to `last`."""
    forced = st.lists(st.integers(first, last), min_size=1, max_size=3)
    deed = st.tuples(st.integers(0, 200), st.one_of(KNOBS, forced, st.just("pause")))
    return st.lists(deed, max_size=8, unique_by=lambda deed: deed[0])


def check_script_and_fork(
    session: ModelSession | FakeSession, ids: list[int], knobs: Tuning, deeds: list[Deed], seed: int, cut: int
) -> None:
    """A reply to which much is done is made again from its records, and goes on the same from any of its tokens."""
    length = Tuning(max_tokens=210).conditions()
    at: dict[int, list[Steer]] = {}
    for step, deed in deeds:
        if isinstance(deed, Tuning):
            at[step] = [Adjust(deed.samplers(), length)]
        else:
            at[step] = [Pause()] if isinstance(deed, str) else [Force(deed)]
    command = ask_for(ids, knobs.samplers(), length, seed)
    stream = steered(session, command, repeat(Resume()), at)
    told = numbers(stream)
    script = script_of(stream)
    session.cache.rewind_to(0)
    assert numbers(records(session, change(command, script=script))) == told

    cut = min(cut, len(told) - 1)
    past = [entry.samplers for entry in script if entry.step < cut and entry.samplers is not None]
    fork = ask_for(
        [*ids, *(t.id for t in tokens([e for e in stream if not isinstance(e, Paused)])[:cut])],
        past[-1] if past else knobs.samplers(),
        length,
        seed,
        done=cut,
        script=tuple(entry for entry in script if entry.step >= cut),
    )
    forked = records(session, fork)
    assert numbers(forked) == told[cut:]
    prefill = next(record for record in forked if isinstance(record, Prefill))
    assert sum(prefill.shapes) == 1
