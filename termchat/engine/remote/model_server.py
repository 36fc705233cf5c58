"""A server of tokens and its one model: requests over the kept connection, which are about the same model each time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from termchat.engine.llama.cells import ContextFull
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import EventStream, HttpClient, ServerError
from termchat.engine.remote.served import ServedEntry, another_model, read_models
from termchat.engine.remote.server_answers import BadAnswer, decode
from termchat.text import one_line

T = TypeVar("T")

SMALL = 8 << 20
"""Bytes of an answer that has no list of tokens, at most."""
LARGEST_VOCABULARY = 2_000_000
"""Tokens of a vocabulary that is believed; the largest have 262,144."""
_SHOWN = 80


class AnyModel(Protocol):
    @property
    def id(self) -> str: ...


M = TypeVar("M", bound=AnyModel)


class ModelServer(ABC, Generic[M]):
    """A server, and the one model of it that is asked for as `wanted` ("": its own choice). `model` is that one, once it is
    found: from then on every new connection, and every answer, must be about the same.

    Everything raises EngineError, and Aborted where the client was stopped.
    """

    kind: str
    since: str
    """Which of its kind are known to answer as is expected here."""
    completions: str
    """The path of requests about tokens, which can be stopped."""

    def __init__(self, client: HttpClient, wanted: str = "") -> None:
        self.client, self._wanted = client, wanted
        self._model: M | None = None
        self._name: dict[str, str] = {}
        """What every request has that names the model, where the server loads several."""

    @property
    def model(self) -> M:
        assert self._model is not None
        return self._model

    @property
    @abstractmethod
    def n_vocab(self) -> int:
        """The tokens of the model's vocabulary."""

    @abstractmethod
    def look_up(self, *, stoppable: bool = False) -> M:
        """Ask what the server says of the model that is wanted."""

    @abstractmethod
    def is_full(self, error: ServerError) -> bool:
        """Return whether it refuses ids for which its context has no room."""

    def find(self) -> M:
        """Look the model up, and keep to it from now on."""
        self._model = self.look_up()
        self.client.on_connect = self._meet_again
        return self._model

    def find_entry(self, *, stoppable: bool = False) -> tuple[ServedEntry, list[ServedEntry]]:
        """Return what the server lists of the model that is wanted, and its whole list.

        Raises:
            EngineError: it has none of that name, or several and none was named.
        """
        listed = self._read(read_models, self.client.get("/v1/models", SMALL, stoppable=stoppable))
        entry = next((one for one in listed if self._wanted in (one.id, *one.aliases)), None)
        if entry is None and not self._wanted:
            entry = next((one for one in listed if one.ready), None)
        if entry is None:
            there = one_line(", ".join(one.id for one in listed), _SHOWN) or "none"
            what = f"no model {self._wanted!r}" if self._wanted else "no model loaded"
            hint = f"it has: {there}" if self._wanted else f"name one of them with --model: {there}"
            raise EngineError("model", f"{self.client.shown} has {what}", hint if listed else "")
        return entry, listed

    def check_answered_by(self, model: str) -> None:
        """Check which model an answer is of; "" where it does not say.

        Raises:
            EngineError: it is another one.
        """
        if model not in ("", self.model.id):
            self.client.close()
            raise another_model(self.client.shown, one_line(model, _SHOWN))

    def check_ids(self, ids: list[int]) -> list[int]:
        """Return the ids.

        Raises:
            EngineError: the vocabulary lacks one.
        """
        unknown = next((i for i in (min(ids, default=0), max(ids, default=0)) if not 0 <= i < self.n_vocab), None)
        if unknown is not None:
            raise self.otherwise(f"token {unknown} is not in its vocabulary", "load its model again")
        return ids

    def request_completion(self, asked: dict[str, Any], limit: int = SMALL) -> bytes:
        """Return the answer to a request for a completion.

        Raises:
            ContextFull: there is no room for the ids.
        """
        try:
            return self.post(self.completions, asked, limit)
        except ServerError as error:
            if self.is_full(error):
                raise ContextFull from None
            raise

    @contextmanager
    def open_events(self, asked: dict[str, Any]) -> Iterator[EventStream]:
        """Open the stream of events that answer a request for a completion; while the server begins, ask for its model.

        Raises:
            ContextFull: there is no room for the ids.
        """
        events = self.client.stream(self.completions, msgspec.json.encode(asked | self._name))
        try:
            self.client.meet(stoppable=True)
            yield events
        except ServerError as error:
            if self.is_full(error):
                raise ContextFull from None
            raise
        finally:
            events.close()

    def post(self, path: str, asked: dict[str, Any], limit: int) -> bytes:
        body = msgspec.json.encode(asked | self._name)
        return self.client.ask("POST", path, body, limit, stoppable=path == self.completions)

    def decode(self, data: bytes, as_: type[T]) -> T:
        """Read an answer, as far as it is what such a server says."""
        return self._read(partial(decode, as_=as_), data)

    def _read(self, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except BadAnswer as error:
            self.client.close()
            raise self.otherwise(str(error)) from None

    def otherwise(self, how: str, hint: str = "") -> EngineError:
        """Return the error that it does not say what such a server says."""
        what = f"{self.client.shown} does not answer as a {self.kind} does: {how}"
        return EngineError("server", what, hint or f"is it a {self.since}, and the path of the URL right?")

    def _meet_again(self, stoppable: bool) -> None:
        """Check that a new connection leads to the same model.

        Raises:
            EngineError: it is another one.
        """
        if (found := self.look_up(stoppable=stoppable)) != self._model:
            self.client.close()
            raise another_model(self.client.shown, one_line(found.id, _SHOWN))
