"""Which server answers at a URL, by what it says of its models."""

from __future__ import annotations

import pytest

from termchat.decoding.samplers import SamplerSettings
from termchat.engine.address import EngineAddress
from termchat.engine.checkup import check
from termchat.engine.port import EngineError, Message
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.openai_server import ChatPiece, ChatRequest, OpenAIServer
from termchat.engine.remote.served import ServedEntry
from termchat.engine.remote.server_lookup import kind_of, look
from termchat.models.elsewhere import engine_rows
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


@pytest.mark.parametrize("base", ["/api/paas/v4", "/v1"])
def test_the_path_of_a_chat_api_is_taken_as_it_is_given(serve: Serve, base: str) -> None:
    twin = serve(words("Hello"), base=base)
    client = client_of(twin.url, kind="openai")
    assert look(client).models == (ServedEntry("some-model"),)
    server = OpenAIServer(client)
    server.find()
    asked = ChatRequest([Message("user", "Hi")], SamplerSettings(), (), 0, 0, 0)
    assert [one.text for one in server.stream(asked) if isinstance(one, ChatPiece)] == ["Hello"]
    client.close()


def test_where_no_path_is_given_or_the_kind_is_not_said_it_is_openais(serve: Serve) -> None:
    twin = serve(words("Hello"))
    assert look(client_of(twin.url.removesuffix("/v1"), kind="openai")).models
    assert kind_of(client_of(twin.url)) == kind_of(client_of(twin.url.removesuffix("/v1"))) == "openai"


def test_a_chat_api_that_lists_no_models_has_the_one_that_is_wanted(serve: Serve) -> None:
    twin = serve(words("Hello"), models=False)
    wanted = EngineAddress(name="chat", url=twin.url, kind="openai", model="glm")
    (row,) = engine_rows(wanted)
    assert (row.state, row.told) == ("ready", "glm · text only")
    assert check(wanted).models == (ServedEntry("glm"),)
    (row,) = engine_rows(EngineAddress(name="chat", url=twin.url, kind="openai"))
    assert row.state == "broken"
    unsaid = check(EngineAddress(name="chat", url=twin.url, model="glm")).failure
    assert unsaid is not None
    assert unsaid.message == "chat answers 404"
    assert 'needs kind = "openai" and a model' in unsaid.hint
