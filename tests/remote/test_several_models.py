"""A llama-server that has several models: each is listed with its state, loaded when asked for, and named in each request."""

from __future__ import annotations

import socket
from pathlib import Path
from time import monotonic

import pytest

from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.checkup import check
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import EngineError, ModelSpec
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.served import quantization_of
from termchat.engine.remote.server_session import ServerSession
from termchat.models.elsewhere import engine_rows, models_of
from tests.asking import ask_for
from tests.remote.conftest import drawn, ids_of, streamed_by, tokens_of
from tests.remote.twin_server import TwinServer


def asked_for(twin: TwinServer, model: str) -> ServerSession:
    address = EngineAddress(name="lab", url=twin.url, model=model)
    return ServerSession(HttpClient(address), ModelSpec(model, model or "lab", engine=address), lambda _: None)


def test_the_model_is_loaded_and_named_in_every_request_about_it(twin: TwinServer, twin_session: ModelSession) -> None:
    twin.several = {"large": "loaded", "small": "unloaded"}
    session = asked_for(twin, "small")
    try:
        assert [body for path, body in twin.asked if path == "/models/load"] == [{"model": "small"}]
        assert session.build_info().name == "small"
        tuning = Tuning(max_tokens=6)
        ids = ids_of(session, "Name a colour.")
        command = ask_for(ids, tuning.samplers(), tuning.conditions(), 7)
        there = [token.id for token in tokens_of(drawn(session, command))]
        asked = [body for path, body in twin.asked if path in ("/completion", "/tokenize", "/detokenize")]
        assert {body["model"] for body in asked} == {"small"}
        assert "/props?model=small" in [path for path, _ in twin.asked]
    finally:
        session.close()
    twin_session.cache.rewind_to(0)
    assert there == [token.id for token in tokens_of(drawn(twin_session, command))]


def test_one_that_somebody_had_unloaded_is_loaded_again_when_the_connection_is_a_new_one(twin: TwinServer) -> None:
    twin.several = {"small": "loaded"}
    session = asked_for(twin, "small")
    try:
        twin.several["small"] = "unloaded"
        twin.hang_up()
        assert ids_of(session, "Hi.")
        assert twin.several["small"] == "loaded"
    finally:
        session.close()


def test_after_a_stop_the_next_message_is_taken_on_a_new_connection(twin: TwinServer) -> None:
    twin.several = {"small": "loaded"}
    for session in (asked_for(twin, "small"), streamed_by(twin.url, "small")):
        try:
            ids = ids_of(session, "Hi.")
            session.abort_decode()
            twin.hang_up()
            assert ids_of(session, "Hi.") == ids
            session.abort_decode()
            twin.hang_up()
            assert session.model.tokenize("Hi.", special=False, begin=False)
        finally:
            session.close()


def test_without_a_name_it_is_the_one_that_is_loaded(twin: TwinServer) -> None:
    twin.several = {"large": "unloaded", "small": "loaded"}
    session = asked_for(twin, "")
    assert session.build_info().path == "small"
    session.close()
    twin.several = {"large": "unloaded", "small": "unloaded"}
    with pytest.raises(EngineError, match="lab has no model loaded") as refused:
        asked_for(twin, "")
    assert refused.value.hint == "name one of them with --model: large, small"


def test_one_that_it_cannot_load_or_does_not_have_says_so(twin: TwinServer) -> None:
    twin.several, twin.has_room = {"large": "unloaded"}, False
    with pytest.raises(EngineError, match="lab could not load large"):
        asked_for(twin, "large")
    with pytest.raises(EngineError, match="lab has no model 'none-such'") as refused:
        asked_for(twin, "none-such")
    assert refused.value.hint == "it has: large"


def test_each_has_a_row_under_the_name_of_the_engine(twin: TwinServer) -> None:
    twin.several = {"large": "unloaded", "small": "loaded"}
    first, large, small = engine_rows(EngineAddress(name="lab", url=twin.url))
    assert (first.wanted, first.told, first.is_engine) == ("@lab", "2 models · draws here", True)
    assert first.round_trip is not None
    assert 0 < first.round_trip < 5
    assert (large.wanted, large.name, large.told, large.quantization) == ("@lab/large", "lab: large", "unloaded", "")
    assert (small.wanted, small.told, small.quantization, small.size) == ("@lab/small", "loaded", "Q4_1", 1)
    assert not small.is_engine
    assert not [path for path, _ in twin.asked if path not in ("/v1/models", "/props")]  # nothing was loaded for that


def test_its_models_are_listed_for_scripts(twin: TwinServer) -> None:
    twin.several = {"large": "unloaded", "small": "loaded"}
    assert [(row.wanted, row.description) for row in models_of(EngineAddress(name="lab", url=twin.url))] == [
        ("large", "unloaded"),
        ("small", "loaded"),
    ]
    twin.key = "a-secret-of-some-length"
    with pytest.raises(EngineError, match="lab wants a key") as caught:
        models_of(EngineAddress(name="lab", url=twin.url))
    assert caught.value.hint == "set key_env or key_file in [engines.lab]"


def test_a_server_of_one_model_is_told_in_its_own_row(twin: TwinServer) -> None:
    twin.name = "/models/big/Qwen-Q4_K_M.gguf"
    address = EngineAddress(name="lab", url=twin.url, draws="server")
    (row,) = engine_rows(address)
    assert row.told == "Qwen-Q4_K_M · draws there, 20 candidates"
    assert (row.context, row.quantization, row.description) == (2048, "Q4_1", "llama-server twin")
    assert row.serves == (twin.name,)
    checkup = check(address)
    assert (checkup.kind, checkup.version, checkup.slots, checkup.several) == ("llama-server", "twin", 1, False)
    (one,) = checkup.models
    assert (one.id, one.context, one.quantization) == ("/models/big/Qwen-Q4_K_M.gguf", 2048, "Q4_1")
    assert (one.size, one.state, one.names) == (1, "loaded", (one.id,))


def test_one_that_wants_a_key_says_so_and_the_key_is_nowhere(twin: TwinServer, tmp_path: Path) -> None:
    twin.key = "a-secret-of-some-length"
    (row,) = engine_rows(EngineAddress(name="lab", url=twin.url))
    assert (row.state, row.told) == ("broken", "invalid API Key")
    assert "set key_env or key_file" in row.problem.lower()
    file = tmp_path / "key"
    file.write_text(twin.key)
    file.chmod(0o600)
    (row,) = engine_rows(EngineAddress(name="lab", url=twin.url, key_file=str(file)))
    assert row.state == "ready"
    assert twin.key not in repr(row)


def test_one_that_takes_connections_and_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = monotonic()
        checkup = check(EngineAddress(name="lab", url=f"http://127.0.0.1:{silent.getsockname()[1]}"), within=0.5)
        assert monotonic() - begin < 10
    assert checkup.failure is not None
    assert checkup.failure.message in ("it takes too long", "lab has not answered for 0.5 s")


@pytest.mark.parametrize(
    ("told", "shown"), [("Q4_K - Medium", "Q4_K_M"), ("Q4_1", "Q4_1"), ("IQ3_XS", "IQ3_XS"), ("all F32", ""), ("", "")]
)
def test_a_server_and_a_file_call_a_quantization_the_same(told: str, shown: str) -> None:
    assert quantization_of(told) == shown
