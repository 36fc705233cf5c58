"""One model of a server that draws by itself: all that a command can need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from termchat.decoding.records import Token
from termchat.engine.abilities import WHO_CAN
from termchat.engine.llama.asked_vocabulary import describe
from termchat.engine.llama.running_reply import Poll, Said
from termchat.engine.port import (
    EngineError,
    Explain,
    Explained,
    Generate,
    Inspect,
    ModelInfo,
    Render,
    Score,
    Scored,
    Tokenized,
)
from termchat.engine.remote.streams import StreamedModel


class StreamedSession:
    """Answers as `ServerSession` does; what takes dice or logits of our own is refused."""

    def __init__(self, server: StreamedModel, progress: Callable[[float], None]) -> None:
        self._server = self.speller = server
        self.model = server.model
        progress(1.0)

    def abort(self) -> None:
        """Ends what is computed; may be called from any thread."""
        self._server.client.stop()

    def close(self) -> None:
        self._server.close()

    def info(self) -> ModelInfo:
        return self._server.info()

    def render(self, command: Render) -> tuple[list[int], bool]:
        return self._server.render(command)

    def describe(self, ids: list[int]) -> Tokenized:
        return describe(self.model, ids)

    def generate(self, command: Generate, poll: Poll, arrived: float) -> Iterator[Said]:
        raise _refused("generate yet")

    def inspect(self, command: Inspect, *, alone: bool, wanted: Callable[[], bool]) -> tuple[Token, bool]:
        raise _refused("show the candidates of a past position")

    def explain(self, command: Explain, *, alone: bool, wanted: Callable[[], bool]) -> Explained:
        raise _refused("explain why a token was not drawn")

    def score(
        self, command: Score, *, alone: bool, progress: Callable[[int, int], None], wanted: Callable[[], bool]
    ) -> Scored:
        raise _refused("redraw a whole reply with different knobs")


def _refused(what: str) -> EngineError:
    return EngineError("capability", f"a server that draws by itself cannot {what}", WHO_CAN)
