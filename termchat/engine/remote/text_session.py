"""One model of a chat API: all that a command can need where there are texts, and no tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from termchat.decoding.records import ModelIdentity
from termchat.decoding.thinking import ThinkingTags, tags_from
from termchat.engine.abilities import TEXT_ONLY
from termchat.engine.llama.scheduler import Poll
from termchat.engine.port import (
    Check,
    Describe,
    EngineError,
    Event,
    Explain,
    Generate,
    Inspect,
    ModelInfo,
    ModelSpec,
    Remark,
    Render,
    Rendered,
    Spell,
    Tokenize,
)
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.openai_server import OpenAIServer
from termchat.engine.remote.served_vocabulary import REFUSED_THERE
from termchat.engine.remote.text_reply import TextReply

_TAGS = ThinkingTags("<think>", "</think>")
"""Between which a model thinks, unless something else is configured."""


class TextSession:
    """A connection to a server, and the one model that is asked for.

    Raises:
        EngineError: it cannot be reached, wants a key, or has no such model.
    """

    refused: ClassVar[dict[type | str, str]] = {
        **REFUSED_THERE,
        Tokenize: "complete raw text, or take texts apart: it takes messages alone",
        Describe: "tell of tokens",
        Spell: "tell of tokens",
        Inspect: "be asked about a past position",
        Explain: "say why a token was not drawn",
        Check: "match a constraint",
    }
    """Commands that it cannot answer, and what it cannot do."""

    def __init__(self, client: HttpClient, spec: ModelSpec, progress: Callable[[float], None]) -> None:
        self._client, self._spec = client, spec
        self._server = OpenAIServer(client, spec.path)
        found = self._server.find()
        file = _file(found.id)
        name = file if spec.name in ("", spec.engine.shown) else _file(spec.name)
        self._identity = ModelIdentity(name.removesuffix(".gguf"), file, "", "", "")
        progress(1.0)

    def close(self) -> None:
        self._client.close()

    def abort_decode(self) -> None:
        """Ends what is asked for; may be called from any thread."""
        self._client.stop()

    def build_info(self) -> ModelInfo:
        found = self._server.model
        said = ", ".join(self._spec.said)
        return ModelInfo(
            name=self._identity.name,
            path=found.id,
            context=found.context,
            device=self._client.shown,
            has_template=True,
            remarks=[Remark(f"{said}: the server's own affair, and left out")] if said else [],
            abilities=TEXT_ONLY,
        )

    def render(self, _command: Render) -> Rendered:
        """No ids: the server makes the prompt of the messages that it is sent."""
        return Rendered([], whole=True)

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]:
        """Yield the events of a reply; see `TextReply.records`."""
        self._client.go_on()
        request = command.replies[0]
        if not request.messages:
            raise EngineError("prompt", "there is no message to answer", "type a message")
        if request.constraint is not None:
            raise EngineError("constraint", f"{self._client.shown} cannot match a constraint", "remove the constraint")
        if request.script:
            raise EngineError(
                "capability", f"{self._client.shown} cannot be made to begin a reply so", "send a message"
            )
        tags = tags_from(self._spec.thinking) or _TAGS
        reply = TextReply(request, command.candidates, self._server, self._identity, tags, poll, arrived)
        for event in reply.records():
            yield [event]


def _file(id: str) -> str:
    """The name of a model without folders or whose it is."""
    return id.replace("\\", "/").rsplit("/", 1)[-1]
