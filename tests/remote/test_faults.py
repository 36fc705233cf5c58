"""What a server does wrong is told in a sentence, what was said before stays, and the reply goes on when all is well again."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Literal

import pytest

from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress, address_of
from termchat.engine.llama.cells import Aborted
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import EngineError, Generate, ModelSpec
from termchat.engine.remote import http_client
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.server_session import ServerSession
from tests.asking import ask_for, events_of
from tests.remote import twin_server
from tests.remote.conftest import RealServer, drawn, finished_of, ids_of, on_server, tokens_of
from tests.remote.twin_server import Fault, TwinServer, after, answers

TUNING = Tuning(max_tokens=8, temperature=0.0)


def command(session: ServerSession, *more: int) -> Generate:
    ids = [*ids_of(session, "Tell me about rivers."), *more]
    return ask_for(ids, TUNING.samplers(), TUNING.conditions(), 5, done=len(more))


def as_far_as_it_goes(
    session: ServerSession, asked: Generate, at: Callable[[int], object] = lambda _: None
) -> tuple[list[int], EngineError]:
    """The tokens that came, and what ended them. After each, `at` is called with how many there are."""
    found: list[int] = []
    try:
        for record in events_of(session, asked):
            if isinstance(record, Token):
                found.append(record.id)
                at(len(found))
    except EngineError as error:
        return found, error
    raise AssertionError("nothing went wrong")


FAULTS: dict[str, tuple[Fault, str, str]] = {
    "hangs up": (twin_server.hangs_up, "server", "broke off the connection: Remote end closed"),
    "half an answer": (twin_server.half, "server", "broke off the connection: the answer is cut off"),
    "half a line": (twin_server.half_a_line, "server", "does not answer as a llama-server does"),
    "2 GB": (twin_server.endless, "server", "answers with more than 8.47 MB"),
    "2 GB, untold": (twin_server.endless_untold, "server", "answers with more than 8.47 MB"),
    "nonsense": (twin_server.nonsense, "server", "it returns 0 of 200 candidates"),
    "401": (answers(401, "Invalid API Key"), "key", "wants a key (401): Invalid API Key"),
    "404": (answers(404), "server", "answers 404"),
    "429": (answers(429), "server", "answers 429"),
    "500": (answers(500, "a\x1b[31mb"), "server", "answers 500: a"),
    "503": (answers(503, "Loading model"), "server", "answers 503: Loading model"),
    "redirect": (answers(307, Location="http://evil.example/\x1b"), "server", "redirects to http://evil.example/"),
}


@pytest.mark.parametrize(("fault", "kind", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_mid_reply_keeps_it_and_it_goes_on(
    on_twin: ServerSession, twin: TwinServer, fault: Fault, kind: str, words: str
) -> None:
    asked = command(on_twin)
    whole = [token.id for token in tokens_of(drawn(on_twin, asked))]
    twin.faults.extend(after(3, fault))
    came, error = as_far_as_it_goes(on_twin, asked)
    assert came == whole[: len(came)]
    assert 0 < len(came) < len(whole)
    assert error.kind == kind
    assert words in error.message
    assert "\x1b" not in error.message + error.hint
    twin.faults.clear()
    rest = [token.id for token in tokens_of(drawn(on_twin, command(on_twin, *came)))]
    assert came + rest == whole


def test_a_connection_that_was_closed_meanwhile_is_made_again(on_twin: ServerSession, twin: TwinServer) -> None:
    asked = command(on_twin)
    whole = [token.id for token in tokens_of(drawn(on_twin, asked))]
    twin.hang_up()
    assert [token.id for token in tokens_of(drawn(on_twin, asked))] == whole


@pytest.mark.parametrize("at_once", [True, False])
def test_another_model_ends_the_reply(on_twin: ServerSession, twin: TwinServer, at_once: bool) -> None:
    """Whether it says so with its next answer, or has to be asked after the connection was lost."""

    def changes(handler: twin_server.Handler) -> bool:
        twin.faults.popleft()
        if at_once:
            twin.name = "another"
            return False
        twin.n_params = 7
        return twin_server.hangs_up(handler)

    twin.faults.extend(after(3, changes))
    came, error = as_far_as_it_goes(on_twin, command(on_twin))
    assert came
    assert error.kind == "model"
    assert f"now has another model: {'another' if at_once else 'smol'}" in error.message
    # Nor does it go on later, until it is loaded.
    asked = command(on_twin)
    with pytest.raises(EngineError, match="now has another model"):
        drawn(on_twin, asked)


def test_silence_ends_and_a_cancel_does_at_once(
    on_twin: ServerSession, twin: TwinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    cancelled: list[float] = []

    def cancels(handler: twin_server.Handler) -> bool:
        cancelled.append(monotonic())
        on_twin.cache.abort.set()
        return twin_server.silent(release)(handler)

    twin.faults.extend(after(3, cancels))
    try:
        stream = drawn(on_twin, command(on_twin))
        assert monotonic() - cancelled[0] < 20  # the server would go on for a minute or more
        assert finished_of(stream).reason == "user"
        assert tokens_of(stream)
        asked = command(on_twin)  # a text can still be taken apart
        twin.faults[0] = twin_server.silent(release)
        on_twin._client.close()  # the next connection has less patience
        monkeypatch.setattr(on_twin._client, "silence", 0.3)
        _, error = as_far_as_it_goes(on_twin, asked)
        assert "has not answered for 0.3 s" in error.message
    finally:
        release.set()


def test_several_servers_behind_one_address_are_noticed(on_twin: ServerSession, twin: TwinServer) -> None:
    ids = ids_of(on_twin, "The quick brown fox jumps over the lazy dog. " * 4)
    twin.forgets = True
    came, error = as_far_as_it_goes(on_twin, ask_for(ids, TUNING.samplers(), TUNING.conditions(), 1))
    assert 0 < len(came) <= 3
    assert "reads the whole text again for each token" in error.message
    assert "several servers behind this address" in error.hint
    # A long prompt is not read piece by piece from the beginning each time.
    before = len(twin.completions())
    _, error = as_far_as_it_goes(on_twin, ask_for([5, *ids * 6], TUNING.samplers(), TUNING.conditions(), 1))
    assert "reads the whole text again" in error.message
    assert len(twin.completions()) - before <= 6
    # A few servers that take turns are as good as one, once each has read the text.
    twin.forgets = False
    assert len(tokens_of(drawn(on_twin, command(on_twin)))) == TUNING.max_tokens


SLOW: dict[str, Fault] = {
    "drips": twin_server.drips,
    "drips chunks": twin_server.drips_chunks,
    "drips its head": twin_server.drips_the_head,
    "puts off": twin_server.puts_off,
}


@pytest.mark.parametrize("fault", SLOW.values(), ids=SLOW)
def test_a_server_that_drips_is_told_and_the_reply_is_kept(
    on_twin: ServerSession, twin: TwinServer, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    whole = [token.id for token in tokens_of(drawn(on_twin, command(on_twin)))]
    monkeypatch.setattr(http_client, "WHOLE", 1.0)
    twin.faults.extend(after(3, fault))
    began = monotonic()
    came, error = as_far_as_it_goes(on_twin, command(on_twin))
    assert monotonic() - began < 30
    assert "answers too slowly" in error.message
    assert 0 < len(came) < len(whole)
    twin.faults.clear()
    assert came + [token.id for token in tokens_of(drawn(on_twin, command(on_twin, *came)))] == whole


def test_a_server_that_puts_off_without_end_is_told(on_twin: ServerSession, twin: TwinServer) -> None:
    twin.faults.append(twin_server.puts_off_fast)
    _, error = as_far_as_it_goes(on_twin, command(on_twin))
    assert "answers without end" in error.message


@pytest.mark.parametrize(
    "fault", [*SLOW.values(), *(SILENT := ("silent", "silent when met again"))], ids=[*SLOW, *SILENT]
)
def test_a_cancel_ends_whatever_a_server_does(on_twin: ServerSession, twin: TwinServer, fault: Fault | str) -> None:
    release = threading.Event()
    asked = command(on_twin)
    if fault == "silent when met again":
        twin.hang_up()  # as a server that is stopped takes a new connection, and says nothing
        twin.muted["/v1/models"] = release
    else:
        twin.faults.extend(after(3, twin_server.silent(release) if isinstance(fault, str) else fault))
    cancelled: list[float] = []

    def cancel() -> None:
        cancelled.append(monotonic())
        on_twin.cache.abort.set()

    timer = threading.Timer(2.0, cancel)
    timer.start()
    try:
        stream = drawn(on_twin, asked)
        assert monotonic() - cancelled[0] < 20  # the server would go on for a minute or more
        assert finished_of(stream).reason == "user"
    finally:
        release.set()
        timer.cancel()


@pytest.mark.parametrize("keeps", ["none and says so", "none"])
def test_a_server_that_keeps_no_connection_serves_all_the_same(
    on_twin: ServerSession, twin: TwinServer, keeps: Literal["none and says so", "none"]
) -> None:
    whole = [token.id for token in tokens_of(drawn(on_twin, command(on_twin)))]
    twin.keeps = keeps
    assert [token.id for token in tokens_of(drawn(on_twin, command(on_twin)))] == whole


def test_a_key_goes_along_and_a_wrong_one_is_told(twin_session: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    server = TwinServer(twin_session, key="secret-1")
    try:
        with pytest.raises(EngineError, match="wants a key") as caught:
            on_server(server.url)
        assert caught.value.kind == "key"
        monkeypatch.setenv("LAB_KEY", "secret-2")
        with pytest.raises(EngineError, match=r"refuses the key \(401\): Invalid API Key") as caught:
            on_server(server.url, key_env="LAB_KEY")
        assert "secret" not in caught.value.message + caught.value.hint
        monkeypatch.setenv("LAB_KEY", "secret-1")
        session = on_server(server.url, key_env="LAB_KEY")
        assert tokens_of(drawn(session, command(session)))
        session.close()
    finally:
        server.close()


def test_a_redirect_gets_no_key(twin_session: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    thief, server = TwinServer(twin_session), TwinServer(twin_session)
    monkeypatch.setenv("LAB_KEY", "secret-1")
    session = on_server(server.url, key_env="LAB_KEY")
    server.faults.append(answers(307, Location=thief.url + "/completion"))
    try:
        _, error = as_far_as_it_goes(session, command(session))
        assert "redirects" in error.message
        assert thief.asked == []
    finally:
        session.close()
        server.close()
        thief.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A certificate of our own for the loopback, with its key, in one file."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", str(file.with_name("only.pem"))],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + file.with_name("only.pem").read_text())
    return str(file)


def test_a_certificate_is_verified(
    twin_session: ModelSession, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = TwinServer(twin_session, certificate=certificate)
    try:
        with pytest.raises(EngineError, match="is not trusted") as caught:
            on_server(server.url)
        assert caught.value.kind == "tls"
        monkeypatch.setenv("HOME", str(Path(certificate).parent))
        session = on_server(server.url, ssl_cert_file="~/only.pem")
        assert tokens_of(drawn(session, command(session)))
        session.close()
    finally:
        server.close()


@pytest.mark.parametrize(
    "asks",
    [
        lambda client: client.ask("POST", "/completion", b"{}", 100, stoppable=True),
        lambda client: list(client.stream("/completion", b"{}")),
    ],
    ids=["an answer", "a stream"],
)
def test_a_stop_never_takes_the_encryption_off(
    twin_session: ModelSession,
    certificate: str,
    monkeypatch: pytest.MonkeyPatch,
    asks: Callable[[HttpClient], object],
) -> None:
    server, release = TwinServer(twin_session, certificate=certificate), threading.Event()
    file = str(Path(certificate).with_name("only.pem"))
    client = HttpClient(EngineAddress(url=server.url, ssl_cert_file=file), silence=5.0)
    server.faults.append(twin_server.silent(release))
    taken_off: list[ssl.SSLSocket] = []
    monkeypatch.setattr(ssl.SSLSocket, "shutdown", lambda one, _: taken_off.append(one))
    timer = threading.Timer(0.5, client.stop)
    timer.start()
    try:
        with pytest.raises(Aborted):
            asks(client)
        assert not taken_off
    finally:
        release.set()
        client.close()
        monkeypatch.undo()
        server.close()


def test_what_does_not_speak_tls_is_told(twin: TwinServer) -> None:
    with pytest.raises(EngineError, match="does not speak TLS"):
        on_server(twin.url.replace("http", "https"))


def test_a_server_that_waits_for_plain_http_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "CONNECT", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(EngineError, match="does not answer in TLS") as caught,
    ):
        on_server(f"https://127.0.0.1:{silent.getsockname()[1]}")
    assert (caught.value.kind, caught.value.hint) == ("tls", "is it http:// instead of https://?")


class Moved(http.server.BaseHTTPRequestHandler):
    """Everything is elsewhere, at the same path."""

    def do_GET(self) -> None:
        self.send_response(307)
        self.send_header("Location", "https://example.invalid" + self.path)
        self.end_headers()


@pytest.mark.parametrize(
    ("path", "kind", "asked"),
    [("", None, "/v1/models"), ("/x", None, "/props"), ("", "openai", "/v1/models"), ("/x/v1", "openai", "/v1/models")],
)
def test_a_redirect_tells_the_url_to_give(path: str, kind: Literal["openai"] | None, asked: str) -> None:
    """Without the path of what was asked, which is no part of it."""
    with http.server.HTTPServer(("127.0.0.1", 0), Moved) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        client = HttpClient(EngineAddress(url=f"http://127.0.0.1:{server.server_port}{path}", kind=kind))
        with pytest.raises(EngineError, match=f"redirects to https://example.invalid{path}$"):
            client.ask("GET", asked, None, 1 << 20)
        client.close()


def test_nobody_there(twin: TwinServer) -> None:
    with pytest.raises(EngineError, match="cannot be reached: Connection refused"):
        on_server("http://127.0.0.1:9")
    address = address_of(twin.url)
    with pytest.raises(EngineError, match="has no model 'nothing'"):
        ServerSession(HttpClient(address), ModelSpec("nothing", "", engine=address), lambda _: None)


# --- the real server -------------------------------------------------------------------------------------------------


@pytest.fixture
def mortal(small_model_path: Path) -> Iterator[RealServer]:
    made = RealServer(small_model_path)
    yield made
    made.close()


def test_a_server_that_is_killed_and_comes_back(mortal: RealServer, small_model_path: Path, model_path: Path) -> None:
    session = on_server(mortal.url)
    asked = command(session)
    whole = [token.id for token in tokens_of(drawn(session, asked))]
    came, error = as_far_as_it_goes(session, asked, lambda count: mortal.close() if count == 3 else None)
    assert came == whole[:3]
    assert error.kind == "server"
    again = RealServer(small_model_path, mortal.port)
    rest = [token.id for token in tokens_of(drawn(session, command(session, *came)))]
    assert came + rest == whole
    again.close()
    other = RealServer(model_path, mortal.port)  # under the same name
    asked = command(session, *came)
    with pytest.raises(EngineError, match="now has another model: smollm2"):
        drawn(session, asked)
    other.close()
    session.close()


def test_a_server_that_is_stopped_is_waited_for(mortal: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    session = on_server(mortal.url)
    monkeypatch.setattr(session._client, "silence", 1.0)
    asked = command(session)
    whole = [token.id for token in tokens_of(drawn(session, asked))]
    session._client.close()  # the next connection has less patience

    def stop(count: int) -> None:
        if count == 3:
            os.kill(mortal.process.pid, signal.SIGSTOP)

    came, error = as_far_as_it_goes(session, asked, stop)
    os.kill(mortal.process.pid, signal.SIGCONT)
    assert came == whole[:3]
    assert "has not answered for 1 s" in error.message
    assert came + [t.id for t in tokens_of(drawn(session, command(session, *came)))] == whole
    session.close()


def test_a_server_that_is_stopped_for_a_while_is_waited_for_and_a_cancel_does_not_wait(mortal: RealServer) -> None:
    session = on_server(mortal.url)
    asked = command(session)
    whole = [token.id for token in tokens_of(drawn(session, asked))]
    others: list[threading.Timer] = []

    def stop(count: int, then: Callable[[], object]) -> None:
        if count == 3:
            os.kill(mortal.process.pid, signal.SIGSTOP)
            others.append(threading.Timer(1.5, then))
            others[-1].start()

    came: list[int] = []
    for record in events_of(session, asked):
        if isinstance(record, Token):
            came.append(record.id)
            stop(len(came), lambda: os.kill(mortal.process.pid, signal.SIGCONT))
    assert came == whole

    cancelled: list[float] = []

    def cancel() -> None:
        cancelled.append(monotonic())
        session.cache.abort.set()

    seen: list[object] = []
    for record in events_of(session, asked):
        seen.append(record)
        stop(sum(isinstance(one, Token) for one in seen), cancel)
    assert monotonic() - cancelled[0] < 20  # the server would go on for a minute or more
    assert finished_of(seen).reason == "user"  # type: ignore[arg-type]
    os.kill(mortal.process.pid, signal.SIGCONT)
    session.close()
