"""Stands in for `engine.llama.cache.Cache`, so that the loop's rules are tested without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import numpy as np

from termchat.decoding.records import Shape, TokenBias
from termchat.engine.llama.cache import ContextFull
from termchat.engine.llama.observe import Labels
from termchat.engine.llama.scheduler import Poll, Scheduler
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.source import CacheSource
from termchat.engine.llama.speculation import Learned
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import Event, Generate, ModelSpec, Render, Rendered


class FakeModel:
    """Below 128 an id is a character; above, a word; 0 ends the reply, and is never drawn but by force."""

    n_vocab, eos, end_ids, gpu_layers = 4096, 0, (0,), 0
    breakers = thinking = None
    build = "0"
    spec = ModelSpec("/fake.gguf", "fake")
    make_chain = Vocabulary.make_chain

    def __init__(self) -> None:
        self.names = Labels(self.n_vocab, self.name)

    def read_metadata(self, _key: str) -> None:
        return None

    def piece(self, token: int) -> bytes:
        return b"" if token == self.eos else self.name(token).encode()

    def is_control(self, token: int) -> bool:
        return token == self.eos

    def spell_token(self, token: int) -> bytes:
        return self.name(token).encode()

    def name(self, token: int) -> str:
        return "<end>" if token == self.eos else chr(token) if token < 128 else f" w{token}"

    def bias(self, written: tuple[str, ...]) -> dict[int, float]:
        assert not written
        return {}

    def token_biases(self, written: tuple[str, ...]) -> tuple[TokenBias, ...]:
        assert not written
        return ()

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return list(text.encode("ascii"))


class FakeCache:
    """A list of ids, and logits that are the same wherever the same ids are."""

    largest_change: float | None = None
    may_choose_threads, kv_type = False, "f16"
    exact, batch_size, threads, threads_batch, adaptable = True, 63, 1, 1, (1, 1)

    def __init__(self, capacity: int = 2048) -> None:
        self.model, self.capacity = FakeModel(), capacity
        self.ids: list[int] = []

    def prepare_prompt(self, ids: list[int], _shapes: list[Shape] | None = None, _most_threads: int = 0) -> list[Shape]:
        kept = next((n for n, (a, b) in enumerate(zip(ids[:-1], self.ids, strict=False)) if a != b), len(self.ids))
        self.rewind_to(min(kept, len(ids) - 1))
        body = len(ids) - 1 - len(self.ids)
        return [Shape(body), Shape(1)] if body else [Shape(1)]

    def rewind_to(self, count: int) -> None:
        del self.ids[count:]

    def read(self, ids: list[int], shape: Shape, _seconds: float, _ahead: Sequence[int] = ()) -> Shape:
        if len(self.ids) + shape.rows > self.capacity:
            raise ContextFull
        self.ids += ids[len(self.ids) : len(self.ids) + shape.rows]
        return Shape(shape.rows, self.threads)

    def read_logits(self) -> Row:
        seed = crc32(np.array(self.ids, np.int32).tobytes())
        row = np.random.default_rng(seed).standard_normal(self.model.n_vocab, np.float32) * 2
        row[self.model.tokenize(".\n")] += 5  # sentences and lines end now and then
        row[self.model.eos] = -30
        return row

    def made_as(self, _shapes: list[Shape], count: int, _plan: list[Shape], *, surely: bool) -> int:
        return count if surely else 0

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def limit_threads(self, _most: int) -> None:
        self.threads = 1


class FakeSession:
    """What the tests of the loop use of `engine.llama.model_session.Session`."""

    def __init__(self, capacity: int = 2048) -> None:
        self.cache = FakeCache(capacity)
        self.model = self.cache.model

    def render(self, command: Render) -> Rendered:
        return Rendered(self.model.tokenize("".join(message.content for message in command.messages)), True)

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]:
        source = CacheSource(self.cache, ThreadTuner(1), command, Learned())  # type: ignore[arg-type]
        return Scheduler(source, command, arrived).records(poll, wait)
