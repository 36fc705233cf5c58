"""An engine without a model: answers at once, and says tokens when a test asks it to."""

from __future__ import annotations

import os
from collections.abc import Iterable

from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Token
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    Event,
    Generate,
    Inspect,
    Inspected,
    Load,
    Loaded,
    ModelInfo,
    Prefilling,
    Progress,
    Render,
    Rendered,
    Tokenize,
    Tokenized,
)
from tests import made_records

INFO = ModelInfo(
    name="tiny", path="/tiny.gguf", sha256=made_records.MODEL.sha256, architecture="llama", quantization="Q4_1", description="",
    size=1, parameters=1, vocabulary=49152, context=2048, context_trained=2048, threads=2, threads_batch=2,
    prefill_batch=63, kv_type="f16", layers=1, gpu_layers=0, device="cpu", has_template=True, can_rewind=True,
    end_ids=[2],
)  # fmt: skip


class FakeEngine:
    """Implements `termchat.engine.port.Engine`. With `loads` False a load stays where `progress` puts it."""

    def __init__(self, *, loads: bool = True) -> None:
        self.loads = loads
        self.prompt = [1, 2, 3]
        self.commands: list[Command] = []
        self.closed = False
        self._alive = True
        self._events: list[tuple[int, Event]] = []
        self._reading, self._writing = os.pipe()
        self._reply: tuple[int, Generate] | None = None
        self._steps = 0

    # --- what a test does --------------------------------------------------------------------------------------------

    def say(self, *pieces: str, **fields: object) -> None:
        """The running reply's next tokens; `fields` replace a token's own."""
        assert self._reply is not None, "nothing was asked"
        for piece in pieces:
            token = made_records.token(self._steps, piece.encode(), piece)
            self._answer(self._reply[0], replaced(token, **fields))
            self._steps += 1

    def end(self, reason: str = "end") -> None:
        """The running reply ends."""
        assert self._reply is not None, "nothing was asked"
        number, self._reply = self._reply[0], None
        self._answer(number, Finished(reason, "", "", self._steps, 84.0, 60.0, 500.0, 118.0))  # type: ignore[arg-type]

    def read(self, done: int, total: int) -> None:
        """So much of the prompt is read."""
        assert self._reply is not None
        self._answer(self._reply[0], Prefilling(done, total))

    def load_up_to(self, fraction: float) -> None:
        """So much of the model is loaded; at 1 all of it."""
        number = len(self.commands)
        self._answer(number, Progress(fraction))
        if fraction == 1.0:
            self._answer(number, Loaded(INFO))

    def die(self, message: str = "the engine process ended by SIGKILL") -> None:
        """The process is gone."""
        number, self._reply = (self._reply[0] if self._reply else 0), None
        self._answer(number, Failed("engine", message))

    @property
    def generated(self) -> list[Generate]:
        """Every reply that was asked for."""
        return [command for command in self.commands if isinstance(command, Generate)]

    # --- the contract ------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> int:
        self._alive = True
        self.commands.append(command)
        number = len(self.commands)
        for event in self._answers(number, command):
            self._answer(number, event)
        return number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        events, self._events = self._events, []
        if events:
            os.read(self._reading, 4096)
        if any(isinstance(event, Failed) and event.kind == "engine" for _, event in events):
            self._alive = False
        return events

    def fileno(self) -> int:
        return self._reading if self._alive else -1

    @property
    def alive(self) -> bool:
        return self._alive

    def close(self) -> None:
        self.closed, self._alive = True, False

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _answer(self, number: int, event: Event) -> None:
        self._events.append((number, event))
        os.write(self._writing, b"!")

    def _answers(self, number: int, command: Command) -> Iterable[Event]:
        match command:
            case Load() if self.loads:
                return [Progress(0.5), Loaded(INFO)]
            case Render():
                return [Rendered(list(self.prompt), whole=not command.after_reply)]
            case Tokenize():
                return [Tokenized([4, 5], [b"a", b"b"])]
            case Generate():
                self._reply, self._steps = (number, command), command.done
                records: list[Record] = [
                    made_records.start(command.ids, command.seed),
                    Settings(0, command.samplers, command.conditions, {}, 2),
                    Prefill(len(command.ids), 0, [len(command.ids)], 12.0),
                ]
                return records
            case Adjust() if self._reply is not None:
                self._answer(self._reply[0], Settings(1, command.samplers, command.conditions, {}, 2))
            case Cancel() if self._reply is not None:
                self.end("user")
            case Inspect():
                token = made_records.token(command.done, b"x", "x")
                return [Inspected(replaced(token, entropy=7.25), recomputed=False)]
        return []


def replaced(token: Token, **fields: object) -> Token:
    """A token with other values in some fields."""
    return Token(**{name: fields.get(name, getattr(token, name)) for name in Token.__struct_fields__})
