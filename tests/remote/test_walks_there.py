"""Many replies at once that are drawn here from what a llama-server tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed, Prefill, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import (
    Cancel,
    EngineError,
    Generate,
    Noted,
    Pause,
    ReplyRequest,
    Resume,
    Step,
    WalksFinished,
)
from termchat.engine.remote.server_session import ServerSession
from tests.asking import ask_for, only
from tests.engine.walking import Fork, ask, end, joining, of, paused, to, walk, walked
from tests.remote.conftest import RealServer, drawn, ids_of, on_server, prefill_of, tokens_of
from tests.remote.twin_server import Handler, TwinServer

TEXT = "Name a river that flows through a desert, and say what grows on its banks."
FREE = Tuning(max_tokens=12, temperature=1.1)
KNOBS: list[dict[str, object]] = [
    {}, {"temperature": 0.0}, {"repeat_penalty": 1.3}, {"top_k": 0, "top_p": 1.0, "min_p": 0.0}, {"mirostat": 2},
]  # fmt: skip


def alone(session: ServerSession, ids: list[int], one: ReplyRequest) -> list[Token]:
    """The same reply by itself."""
    asked = ask_for(ids, one.samplers, one.conditions, one.seed, constraint=one.constraint, done=0)
    return tokens_of(drawn(session, asked))


def numbers(tokens: list[Token]) -> list[tuple[object, ...]]:
    """What does not depend on how many candidates were listed."""
    near = [(pytest.approx(t.logprob, abs=1e-6), pytest.approx(t.probability, abs=1e-6)) for t in tokens]
    return [(t.step, t.id, t.text, t.rank, *both) for t, both in zip(tokens, near, strict=True)]


def check_each(session: ServerSession, stream: list[object], command: Generate) -> None:
    for one in command.replies:
        there = tokens_of(of(stream, one.number))  # type: ignore[arg-type]
        assert numbers(there) == numbers(alone(session, only(command).ids, one))


@pytest.mark.parametrize("slots", [1, 4])
def test_each_walk_is_what_its_seed_gives_alone(on_twin: ServerSession, twin: TwinServer, slots: int) -> None:
    """Also where slots lose what they hold, as the twin's do: walks then come one after the other."""
    twin.slots = slots
    walks = [walk(i, Tuning(max_tokens=8, **more), 30 + i) for i, more in enumerate(KNOBS)]  # type: ignore[arg-type]
    walks.append(walk(9, FREE, constraint=Constraint("regex", "[A-Z][a-z]{3,8}")))
    command = ask(ids_of(on_twin, TEXT), walks)
    stream = walked(on_twin, command)  # type: ignore[arg-type]
    check_each(on_twin, stream, command)  # type: ignore[arg-type]
    assert isinstance(stream[-1], WalksFinished)
    assert stream[-1].tokens == sum(end(stream, one.number).tokens for one in walks)
    at_once = [len(body["prompt"]) for body in twin.completions() if isinstance(body["prompt"][0], list)]
    assert max(at_once, default=0) == (4 if slots == 4 else 0)  # those that look at all tokens are asked for alone


def test_slots_that_lose_what_they_hold_are_noticed_while_tokens_are_drawn(
    on_twin: ServerSession, twin: TwinServer
) -> None:
    twin.slots = 3
    command = ask(
        on_twin.model.tokenize("Once upon a time there", special=False),
        [walk(i, Tuning(max_tokens=16, temperature=1.5), i) for i in range(3)],
    )
    stream = walked(on_twin, command)  # type: ignore[arg-type]
    assert 8 <= sum(isinstance(body["prompt"][0], list) for body in twin.completions()) < 14
    check_each(on_twin, stream, command)  # type: ignore[arg-type]


def test_slots_that_lose_what_they_hold_are_noticed_while_the_prompt_is_read(
    on_twin: ServerSession, twin: TwinServer
) -> None:
    def forgetful(_: Handler) -> bool:
        twin.forgets = len(twin.completions()) < before + 3
        return False

    twin.slots = 4
    command = ask(ids_of(on_twin, TEXT), [walk(i, FREE, i) for i in range(4)])
    before = len(twin.completions())
    twin.faults.append(forgetful)
    stream = walked(on_twin, command)  # type: ignore[arg-type]
    asked = twin.completions()[before:]
    assert [isinstance(body["prompt"][0], list) for body in asked[:3]] == [True, True, False]
    assert not any(isinstance(body["prompt"][0], list) for body in asked[2:])
    (noted,) = [event for event in stream if isinstance(event, Noted)]
    assert "the walks come one after the other" in noted.remark.message
    check_each(on_twin, stream, command)  # type: ignore[arg-type]


def test_the_prompt_is_read_once_where_one_slot_does_it_all(on_twin: ServerSession, twin: TwinServer) -> None:
    ids = ids_of(on_twin, TEXT)
    del twin.asked[:]
    stream = walked(on_twin, ask(ids, [walk(i, FREE, i) for i in range(3)]))  # type: ignore[arg-type]
    read = [event for event in stream if isinstance(event, Prefill)]
    assert [(one.walk, one.tokens, one.reused, sum(one.shapes)) for one in read] == [
        (i, len(ids), 0, len(ids)) for i in range(3)
    ]
    assert [len(body["prompt"]) for body in twin.completions()].count(len(ids)) == 1


def test_who_waits_for_a_slot_ends_at_once_and_cancel_ends_all(on_twin: ServerSession) -> None:
    command = ask(ids_of(on_twin, TEXT), [walk(i, FREE, i) for i in range(3)])
    stream = walked(on_twin, command, {(0, 3): [to(2, Cancel())], (0, 6): [Cancel()]})  # type: ignore[arg-type]
    assert [(end(stream, i).reason, end(stream, i).tokens) for i in range(3)] == [("user", 6), ("user", 1), ("user", 1)]
    last = stream.index(end(stream, 2))
    assert any(isinstance(event, Token) and event.walk == 0 for event in stream[last:])


def test_all_are_paused_and_stepped_together(on_twin: ServerSession) -> None:
    command = ask(ids_of(on_twin, TEXT), [walk(i, FREE, 5 + i, paused=True) for i in range(2)])
    stream = walked(on_twin, command, when_paused=[Step(), Step(), Pause(), Resume()])  # type: ignore[arg-type]
    assert [[stop.token.step for stop in paused(stream, i)][:3] for i in (0, 1)] == [[0, 1, 2], [0, 1, 2]]
    check_each(on_twin, stream, command)  # type: ignore[arg-type]


def test_one_that_joins_begins_within_another(on_twin: ServerSession) -> None:
    ids = ids_of(on_twin, TEXT)
    command = ask(ids, [walk(0, FREE, 3)])
    joins = [Fork(walk(1, FREE, 3), 0, 4), joining(command, walk(2, FREE, 8, ids=[*ids, 7, 7]))]
    stream = walked(on_twin, command, {(0, 6): joins})  # type: ignore[arg-type]
    first, second = (tokens_of(of(stream, i)) for i in (0, 1))
    assert [t.step for t in second] == list(range(4, FREE.max_tokens))
    assert numbers(second) == numbers(first[4:])
    (failed,) = of(stream, 2)
    assert isinstance(failed, Failed)
    assert failed.message == "no running reply begins with these tokens"


def test_what_is_kept_is_not_read_again(on_twin: ServerSession) -> None:
    ids = ids_of(on_twin, TEXT)
    stream = walked(on_twin, ask(ids, [walk(i, FREE, i) for i in range(2)]))  # type: ignore[arg-type]
    path = [*ids, *(t.id for t in tokens_of(of(stream, 1)))]
    assert on_twin.keep_reply(1).cells == len(path) - 1
    read = prefill_of(drawn(on_twin, ask_for(path, FREE.samplers(), FREE.conditions(), 1)))
    assert (read.tokens, read.shapes) == (len(path), [1])
    with pytest.raises(EngineError, match="no walk 7"):
        on_twin.keep_reply(7)


def test_a_server_that_fails_ends_all_walks_and_makes_them_when_it_is_back(
    on_twin: ServerSession, twin: TwinServer
) -> None:
    def dies(handler: Handler) -> bool:
        if len(twin.completions()) > before + 5:
            handler.refuse(500, "out of luck")
            return True
        return False

    command = ask(ids_of(on_twin, TEXT), [walk(i, FREE, i) for i in range(2)])
    before = len(twin.completions())
    twin.faults.append(dies)
    with pytest.raises(EngineError, match="answers 500: out of luck"):
        walked(on_twin, command)  # type: ignore[arg-type]
    twin.faults.clear()
    check_each(on_twin, walked(on_twin, command), command)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def four(model_path: Path) -> Iterator[ServerSession]:
    """On a real server with four slots."""
    server = RealServer(model_path, context=4096, slots=4)
    made = on_server(server.url)
    yield made
    made.close()
    server.close()


def test_a_real_server_decodes_all_walks_in_one_batch(four: ServerSession, session: ModelSession) -> None:
    command = ask(ids_of(four, TEXT), [walk(i, FREE, i) for i in range(4)])
    stream = walked(four, command)  # type: ignore[arg-type]
    over = stream[-1]
    assert isinstance(over, WalksFinished)
    assert over.tokens == 4 * FREE.max_tokens
    assert over.steps == FREE.max_tokens - 1
    for i, one in enumerate(command.replies):
        there, here = tokens_of(of(stream, i)), alone(session, only(command).ids, one)  # type: ignore[arg-type]
        assert there[0].id == here[0].id
        assert there[0].logprob == pytest.approx(here[0].logprob, abs=0.3)


def test_more_walks_than_slots_take_turns(four: ServerSession) -> None:
    command = ask(ids_of(four, TEXT), [walk(i, Tuning(max_tokens=4), i) for i in range(6)])
    stream = walked(four, command)  # type: ignore[arg-type]
    assert [end(stream, i).tokens for i in range(6)] == [4] * 6
    fifth = next(stream.index(event) for event in tokens_of(of(stream, 4)) if event.step == 1)
    assert all(stream.index(end(stream, i)) < fifth for i in range(2))
