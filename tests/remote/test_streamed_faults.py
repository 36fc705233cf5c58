"""What goes wrong in a stream that a server draws: it is told in a sentence, what was said before stays, and no id is wrong."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any

import pytest

from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, Cancel, EngineError, Generate, SteerReply
from termchat.engine.remote import http_client
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.streamed_session import StreamedSession
from tests.asking import ask_for, events_of, only
from tests.remote import twin_server
from tests.remote.conftest import drawn, finished_of, ids_of, streamed_by, tokens_of
from tests.remote.twin_server import Fault, Handler, TwinServer, answers

TUNING = Tuning(max_tokens=8, temperature=0.0)


@pytest.fixture
def on_stream(twin: TwinServer) -> Iterator[StreamedSession]:
    made = streamed_by(twin.url)
    yield made
    made.close()


def command(session: StreamedSession, *more: int) -> Generate:
    ids = [*ids_of(session, "Tell me about rivers."), *more]
    return ask_for(ids, TUNING.samplers(), TUNING.conditions(), 5, done=len(more))


def as_far_as_it_goes(session: StreamedSession, asked: Generate) -> tuple[list[int], EngineError]:
    """The tokens that came, and what ended them."""
    found: list[int] = []
    try:
        found.extend(record.id for record in events_of(session, asked) if isinstance(record, Token))
    except EngineError as error:
        return found, error
    raise AssertionError("nothing went wrong")


def sends(data: bytes, *, whole: bool = False) -> Fault:
    """Something else; the line is then cut, unless the stream ends as it should after it."""

    def fault(handler: Handler) -> bool:
        handler.chunk(data)
        if whole:
            handler.wfile.write(b"0\r\n\r\n")
            handler.wfile.flush()
        return twin_server.hangs_up(handler)

    return fault


def sends_on(data: bytes) -> Fault:
    """So many bytes, again and again."""

    def fault(handler: Handler) -> bool:
        while True:
            handler.chunk(data)

    return fault


def _half_a_chunk(handler: Handler) -> bool:
    handler.wfile.write(b"ff\r\ndata: {")
    handler.wfile.flush()
    return twin_server.hangs_up(handler)


_LISTED = b'{"id":999999,"logprob":-1.0,"top_logprobs":[{"id":999999,"logprob":-1.0}]}'
FAULTS: dict[str, tuple[Fault, str]] = {
    "cut between events": (twin_server.hangs_up, "broke off in the middle of the reply"),
    "half an event": (sends(b'data: {"content": " ri'), "broke off in the middle of the reply"),
    "half a chunk": (_half_a_chunk, "broke off"),
    "an end that is none": (sends(b"", whole=True), "broke off in the middle of the reply"),
    "an error": (sends(b'data: {"error":{"code":500,"message":"out of\\u001b[1m memory"}}\n\n'), "ends the reply: out of"),
    "an error as its own event": (sends(b'error: {"message":"no cells"}\n\n'), "ends the reply: no cells"),
    "nonsense": (sends(b"data: [1, 2]\n\n"), "does not answer as a llama-server does"),
    "no such token": (
        sends(b'data: {"tokens":[999999],"tokens_predicted":4,"completion_probabilities":[' + _LISTED + b"]}\n\n"),
        "is not in its vocabulary",
    ),
    "an event without end": (sends_on(b" " * (1 << 20)), "answers without end"),
    "lines without end": (sends_on(b"x\n" * (1 << 16)), "answers without end"),
    "progress without end": (
        sends_on(b'data: {"prompt_progress":{"total":9,"cache":0,"processed":3,"time_ms":1}}\n\n' * (1 << 10)),
        "answers without end",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_mid_stream_keeps_the_reply_and_it_goes_on(
    on_stream: StreamedSession, twin: TwinServer, fault: Fault, words: str
) -> None:
    asked = command(on_stream)
    whole = [token.id for token in tokens_of(drawn(on_stream, asked))]
    assert 0 not in whole  # the token of the chunks of progress
    twin.at_chunk = {3: fault}
    came, error = as_far_as_it_goes(on_stream, asked)
    assert came == whole[:3]
    assert error.kind == "server"
    assert words in error.message
    assert "\x1b" not in error.message + error.hint
    twin.at_chunk = {}
    rest = [token.id for token in tokens_of(drawn(on_stream, command(on_stream, *came)))]
    assert came + rest == whole


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (answers(401, "Invalid API Key"), "key", "wants a key (401): Invalid API Key"),
        (answers(404), "server", "answers 404"),
        (answers(429), "server", "answers 429"),
        (answers(500, "a\x1b[31mb"), "server", "answers 500: a"),
        (answers(307, Location="http://evil.example/"), "server", "redirects to http://evil.example/"),
        (twin_server.hangs_up, "server", "broke off the connection"),
    ],
)
def test_a_refused_stream_says_why(
    on_stream: StreamedSession, twin: TwinServer, fault: Fault, kind: str, words: str
) -> None:
    asked = command(on_stream)
    twin.faults.append(fault)
    came, error = as_far_as_it_goes(on_stream, asked)
    assert (came, error.kind) == ([], kind)
    assert words in error.message


@pytest.mark.parametrize("fault", twin_server.FOR_EVER.values(), ids=twin_server.FOR_EVER)
def test_a_stream_that_takes_for_ever_is_told(
    on_stream: StreamedSession, twin: TwinServer, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    asked = command(on_stream)
    monkeypatch.setattr(http_client, "WHOLE", 1.0)
    monkeypatch.setattr(client_of(on_stream), "silence", 1.0)
    twin.faults.append(fault)
    begun = monotonic()
    came, error = as_far_as_it_goes(on_stream, asked)
    assert monotonic() - begun < 20
    assert not came
    assert re.search(twin_server.WITHOUT_END, error.message)


def test_a_model_that_another_took_the_place_of_ends_the_reply(on_stream: StreamedSession, twin: TwinServer) -> None:
    asked = command(on_stream)

    def renamed(_: Handler) -> bool:
        twin.name = "another"
        return False

    twin.at_chunk = {7: renamed}
    stream = drawn(on_stream, asked)
    assert finished_of(stream).reason == "length"  # our own, before the server says whose it was
    twin.at_chunk = {}
    came, error = as_far_as_it_goes(on_stream, asked)
    assert (came, error.kind) == ([], "model")
    assert "has no model" in error.message or "now has another model" in error.message


def test_the_next_segment_does_not_go_on_in_another_vocabulary(on_stream: StreamedSession, twin: TwinServer) -> None:
    asked = command(on_stream)
    whole = [token.id for token in tokens_of(drawn(on_stream, asked))]
    changed: list[SteerReply] = []

    def other(_: Handler) -> bool:
        twin.n_params = 7
        changed.append(Adjust(Tuning(temperature=0.0, top_p=0.5).samplers(), only(asked).conditions))
        return False

    twin.at_chunk = {3: other}
    found: list[int] = []
    with pytest.raises(EngineError, match="now has another model"):
        found.extend(
            record.id
            for record in events_of(on_stream, asked, lambda: changed.pop() if changed else None, 0.0)
            if isinstance(record, Token)
        )
    assert found == whole[: len(found)]


def test_silence_ends_the_reply_and_pings_do_not(
    on_stream: StreamedSession, twin: TwinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def pings(handler: Handler) -> bool:
        for _ in range(9):  # a busy machine may be late with each
            sleep(0.3)
            handler.chunk(b": ping\n\n")
        return False

    asked = command(on_stream)
    whole = [token.id for token in tokens_of(drawn(on_stream, asked))]
    monkeypatch.setattr(client_of(on_stream), "silence", 2.0)
    twin.at_chunk = {3: pings}
    assert [token.id for token in tokens_of(drawn(on_stream, asked))] == whole
    twin.at_chunk = {3: twin_server.silent(release)}
    came, error = as_far_as_it_goes(on_stream, asked)
    release.set()
    assert came == whole[:3]
    assert "has not answered for 2 s" in error.message


@pytest.mark.parametrize("drip", [b"d", b'data: {"'])
def test_a_line_that_drips_does_not_hold_the_reply(
    on_stream: StreamedSession, twin: TwinServer, monkeypatch: pytest.MonkeyPatch, drip: bytes
) -> None:
    def drips(handler: Handler) -> bool:
        while True:
            handler.chunk(drip)
            sleep(0.1)

    asked = command(on_stream)
    monkeypatch.setattr(client_of(on_stream), "silence", 4.0)
    twin.at_chunk = {3: drips}
    begun = monotonic()
    came, error = as_far_as_it_goes(on_stream, asked)
    assert monotonic() - begun < 40
    assert len(came) == 3
    assert "has not answered for 4 s" in error.message


def test_a_cancel_ends_a_silent_stream_at_once(on_stream: StreamedSession, twin: TwinServer) -> None:
    release, read = threading.Event(), threading.Event()
    cancelled: list[float] = []
    stream: list[Any] = []

    def cancels(handler: Handler) -> bool:
        assert read.wait(20)
        cancelled.append(monotonic())
        on_stream.abort_decode()
        return twin_server.silent(release)(handler)

    twin.at_chunk = {3: cancels}
    for records in on_stream.generate(command(on_stream), lambda: None, lambda: None, 0.0):
        stream.extend(records)
        if len(tokens_of(stream)) == 3:
            read.set()
    release.set()
    assert monotonic() - cancelled[0] < 20  # it would be silent for a minute
    assert finished_of(stream).reason == "user"
    assert len(tokens_of(stream)) == 3


def test_a_reply_that_is_cancelled_before_it_begins_asks_nothing(on_stream: StreamedSession, twin: TwinServer) -> None:
    commands: list[SteerReply] = [Cancel()]
    asked, before = command(on_stream), len(twin.asked)
    stream = list(events_of(on_stream, asked, lambda: commands.pop() if commands else None, 0.0))
    assert finished_of(stream).reason == "user"
    assert twin.asked[before:] == []


def test_a_full_context_is_no_failure(twin_session: ModelSession) -> None:
    small = TwinServer(twin_session, context=40)
    session = streamed_by(small.url)
    try:
        asked = command(session)
        stream = drawn(
            session, ask_for([*only(asked).ids, *[504] * (38 - len(only(asked).ids))], only(asked).samplers, (), 5)
        )
        assert finished_of(stream).reason == "context"
        assert len(tokens_of(stream)) == 2
    finally:
        session.close()
        small.close()


def test_a_key_goes_with_the_stream_and_is_not_told(
    twin_session: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Callable[[], None]] = []
    monkeypatch.setattr(HttpClient, "__init__", _with_key(HttpClient.__init__))
    guarded = TwinServer(twin_session, key="secret")
    made.append(guarded.close)
    session = streamed_by(guarded.url)
    made.append(session.close)
    try:
        assert tokens_of(drawn(session, command(session)))
        asked = zip(guarded.asked, guarded.headers_seen, strict=True)
        assert all(seen["Authorization"] == "Bearer secret" for (path, _), seen in asked if path == "/completion")
        guarded.at_chunk = {3: sends(b'data: {"error":{"message":"secret has run out"}}\n\n')}
        assert "ends the reply: (the key) has run out" in as_far_as_it_goes(session, command(session))[1].message
    finally:
        for close in reversed(made):
            close()


def _with_key(init: Callable[..., None]) -> Callable[..., None]:
    def with_key(client: HttpClient, address: object, key: str = "", **more: object) -> None:
        init(client, address, key or "secret", **more)

    return with_key


def client_of(session: StreamedSession) -> HttpClient:
    return session._client


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_cancel_while_a_stream_is_asked_for_is_no_failure_and_ends_it(
    on_stream: StreamedSession, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    asks = http.client.HTTPConnection.request
    asked: list[http.client.HTTPConnection] = []

    def cancels(self: http.client.HTTPConnection, *what: Any, **more: Any) -> None:
        if what[0] == "POST" and when == "before":
            on_stream.abort_decode()
        asks(self, *what, **more)
        if what[0] == "POST":
            asked.append(self)
            on_stream.abort_decode()

    command_ = command(on_stream)
    monkeypatch.setattr(http.client.HTTPConnection, "request", cancels)
    stream = drawn(on_stream, command_)
    assert finished_of(stream).reason == "user"
    assert not tokens_of(stream)
    assert all(connection.sock is None for connection in asked)


@pytest.mark.parametrize("id", [-1, 10**6, 2**40])
def test_a_candidate_that_the_vocabulary_lacks_is_told(on_stream: StreamedSession, twin: TwinServer, id: int) -> None:
    drawn_ = {"id": 504, "token": "", "bytes": [], "logprob": -1.0, "top_logprobs": [{"id": id, "logprob": -1.0}]}

    def strange(handler: Handler) -> bool:
        chunk = {"content": "x", "tokens": [504], "stop": False, "tokens_predicted": 3}
        handler.event(chunk | {"completion_probabilities": [drawn_]})
        return twin_server.hangs_up(handler)

    twin.at_chunk = {2: strange}
    came, error = as_far_as_it_goes(on_stream, command(on_stream))
    twin.at_chunk = {}
    assert len(came) == 2
    assert "is not in its vocabulary" in error.message
