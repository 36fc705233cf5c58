"""One model of a server that draws by itself: all that a command can need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from termchat.decoding.records import UNKNOWN, Token
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.model_queries import ModelQueries
from termchat.engine.llama.reply import check, complete_record
from termchat.engine.llama.scheduler import Poll, Scheduler
from termchat.engine.llama.template import RenderedPrompt
from termchat.engine.port import (
    EngineError,
    Event,
    Explain,
    Explained,
    Generate,
    Inspect,
    Message,
    ModelInfo,
    Noted,
)
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.served_vocabulary import REFUSED_THERE, info_of
from termchat.engine.remote.server_logprobs import StepListing, as_drawn, explanation_of, listing_of
from termchat.engine.remote.server_session import remarks_of
from termchat.engine.remote.streamed_reply import StreamSource
from termchat.engine.remote.streams import StreamingServer, Told


class StreamedSession(ModelQueries):
    """Answers as `ServerSession` does; what takes dice or logits of our own is refused. `client` is the server's."""

    refused: ClassVar[dict[type | str, str]] = REFUSED_THERE

    def __init__(self, server: StreamingServer, client: HttpClient, progress: Callable[[float], None]) -> None:
        super().__init__(server.model)
        self.served, self._client = server, client
        self._noted = len(server.remarks)
        self._listed: tuple[list[int], set[int], StepListing] | None = None
        progress(1.0)

    def abort_decode(self) -> None:
        """Ends what is computed; may be called from any thread."""
        self._client.stop()

    def close(self) -> None:
        self._client.close()
        self.model.close()

    def build_info(self) -> ModelInfo:
        server, model = self.served, self.model
        return info_of(
            model,
            server.abilities,
            device=self._client.shown,
            context=server.capacity,
            size=server.size,
            parameters=server.parameters,
            has_switch=self.has_switch,
            remarks=[*remarks_of(model.spec), *server.remarks],
        )

    def render_prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt:
        return self.served.prompt(messages, think) or super().render_prompt(messages, think)

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]:
        """Yield the events of a reply, after what was noticed at those before; see `Scheduler.records`."""
        if self._noted < len(self.served.remarks):
            yield [Noted(remark) for remark in self.served.remarks[self._noted :]]
        self._noted = len(self.served.remarks)
        self._client.go_on()
        source = StreamSource(self.served, arrived)
        yield from Scheduler(source, command, arrived, self.served.abilities.larger_context).records(poll, wait)

    def inspect_step(self, command: Inspect, *, alone: bool, wanted: Callable[[], bool]) -> tuple[Token, bool]:
        """The candidates after `command.ids`; which one the server would draw is not known.

        Raises:
            EngineError: a reply is running, or the server refuses.
        """
        with self._asking(command.ids, alone=alone):
            ids, logprobs = self.served.listed(command.ids, command.candidates, [])
        told = Told(UNKNOWN, ids=ids, logprobs=logprobs)
        drawn, _ = as_drawn(told, self.model, command.candidates, command.done)
        return complete_record(drawn, self.model, len(command.ids)), True

    def explain_step(self, command: Explain, *, alone: bool, wanted: Callable[[], bool]) -> Explained:
        """How likely a token was by the model, beside the one that was drawn; what the server's chain did is not known.

        Raises:
            EngineError: see `inspect`; or there is no such token.
        """
        model = self.model
        if not 0 <= command.id < model.n_vocab:
            raise EngineError("prompt", f"token {command.id} is not in this model's vocabulary", "")
        drawn = command.drawn if 0 <= command.drawn < model.n_vocab else UNKNOWN
        wanted_ids = {command.id, drawn} - {UNKNOWN}
        # It is asked again whenever a knob turns, on which what the model says does not depend.
        if self._listed is None or self._listed[:2] != (command.ids, wanted_ids):
            asked = [i for i in (command.id, drawn) if i != UNKNOWN]
            with self._asking(command.ids, alone=alone):
                told = listing_of(self.served, command.ids, asked, self.served.abilities.candidates)
            self._listed = command.ids, wanted_ids, told
        biases = model.token_biases(command.samplers.logit_bias)
        bias = next((one for one in biases if one.id == command.id and not one.model), None)
        return Explained(explanation_of(command.id, drawn, self._listed[2], model, bias), recomputed=True)

    @contextmanager
    def _asking(self, ids: list[int], *, alone: bool) -> Iterator[None]:
        """The server can be asked about the position after these ids.

        Raises:
            EngineError: a reply is running, or the server refuses.
        """
        if not alone:
            raise EngineError("capability", "the server is busy with the reply", "ask again when it is over")
        self._client.go_on()
        check(self.served, ids, larger_context=self.served.abilities.larger_context)
        try:
            yield
        except ContextFull:
            raise EngineError("context", "not enough free context to inspect this position", "") from None
        except Aborted:
            raise EngineError("busy", "interrupted by another request", "") from None
