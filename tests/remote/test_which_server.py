"""Which server answers at a URL, by what it says of its models."""

from __future__ import annotations

import pytest

from termchat.engine.address import EngineAddress
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.server_kind import kind_of
from tests.remote.chat_twin import Serve, refuses, words


def client_of(url: str, **more: object) -> HttpClient:
    return HttpClient(EngineAddress(url=url, **more))  # type: ignore[arg-type]


def test_one_that_loads_its_model_is_a_llama_server_and_one_that_is_busy_need_not_be(serve: Serve) -> None:
    loads = serve(words("Hello"), models=refuses(503, "Loading model", type="unavailable_error", code=503))
    assert kind_of(client_of(loads.url)) == "llama-server"
    busy = serve(words("Hello"), models=refuses(503, "no server is available to handle this request"))
    with pytest.raises(EngineError, match="answers 503: no server is available") as refused:
        kind_of(client_of(busy.url))
    assert refused.value.hint == "wait until it is ready, and go on"
