"""Whether an engine elsewhere can be reached, what it is, and how far away: for reports, and for lists of engines.

Nothing is loaded there. On another machine of ours its worker is started and asked; a server is asked what it lists.
"""

from __future__ import annotations

from statistics import median
from threading import Thread
from time import monotonic
from typing import TypeVar

from termchat.decoding.records import Failed
from termchat.engine.abilities import LOCAL
from termchat.engine.access_key import read_key
from termchat.engine.address import EngineAddress
from termchat.engine.make import engine_at
from termchat.engine.port import Command, Engine, EngineError, Probe, Probed, Tokenize, is_last
from termchat.engine.remote.served import Checkup as Checkup

T = TypeVar("T")

ROUNDS = 3
RPC = "RPC"
"""llama.cpp's backend that computes on other machines."""


def check(address: EngineAddress, within: float = 10.0) -> Checkup:
    """Ask an engine for its kind and its models, for at most about so many seconds."""
    try:
        return _checked_server(address, within) if address.scheme != "ssh" else _checked_ssh(address, within)
    except EngineError as error:
        return Checkup(address, failure=Failed(error.kind, error.message, error.hint))


def _checked_server(address: EngineAddress, within: float) -> Checkup:
    """Raises:
    EngineError: it cannot be reached, or refuses.
    """
    from termchat.engine.remote.http_client import HttpClient  # with all that it takes, needed here alone
    from termchat.engine.remote.server_lookup import look

    client, said = HttpClient(address, read_key(address), silence=within), list[Checkup | EngineError]()

    def ask() -> None:
        try:
            said.append(look(client))
        except EngineError as error:
            said.append(error)
        finally:
            client.close()

    asking = Thread(target=ask, name="checkup", daemon=True)  # a server may say a byte now and then
    asking.start()
    asking.join(within)
    found = said[0] if said else _refuse_late()
    if isinstance(found, EngineError):
        raise found
    return found


def _checked_ssh(address: EngineAddress, within: float) -> Checkup:
    """Raises:
    EngineError: it cannot be reached, or another termchat is there.
    """
    end = monotonic() + within
    engine = engine_at(address)
    try:
        probed = _await_answer(engine, Probe(), Probed, end)
        times = []
        for _ in range(ROUNDS):
            begin = monotonic()
            _await_answer(engine, Tokenize("a"), None, end)
            times.append(monotonic() - begin)
        return Checkup(
            address, version=engine.there, library=probed.library, rpc=RPC in probed.backends, abilities=LOCAL,
            round_trip=median(times),
        )  # fmt: skip
    finally:
        engine.close()


def _await_answer(engine: Engine, command: Command, kind: type[T] | None, end: float) -> T:
    """Ask, and return the answer; of any kind if `kind` is None.

    Raises:
        EngineError: there is another one, or none in time.
    """
    number = engine.send(command)
    while (left := end - monotonic()) > 0:
        for of, event in engine.receive(min(left, 0.5)):
            if isinstance(event, Failed) and (event.kind == "engine" or (kind is not None and of in (0, number))):
                raise EngineError(event.kind, event.message, event.hint)
            if of == number and (is_last(event) if kind is None else isinstance(event, kind)):
                return event  # type: ignore[return-value]
    raise _refuse_late()


def _refuse_late() -> EngineError:
    return EngineError("engine", "it takes too long", "check the machine and the line to it")
