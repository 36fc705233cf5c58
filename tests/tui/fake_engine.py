"""An engine without a model: answers at once, and says tokens when a test asks it to.

It pauses, steps, takes forced tokens and answers questions with numbers that could be a model's, the same each time. Its
tokens are words: a new word gets the next free id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from termchat.decoding.constraint import Constraint
from termchat.decoding.records import (
    Explanation,
    Failed,
    Finished,
    Penalised,
    Prefill,
    Record,
    Remedy,
    SettingsRecord,
    StageEffect,
    Token,
)
from termchat.engine.port import (
    ALL_FEATURES,
    Adjust,
    Cancel,
    Check,
    Checked,
    Command,
    Describe,
    EndThinking,
    Event,
    Explain,
    Explained,
    Feature,
    Force,
    Generate,
    Inspect,
    Inspected,
    Load,
    Loaded,
    ModelInfo,
    Pause,
    Paused,
    Prefilling,
    Progress,
    Render,
    Rendered,
    Resume,
    Score,
    Scored,
    Scoring,
    Spell,
    Spelled,
    Spelling,
    Step,
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


_C = TypeVar("_C", bound=Command)

_CONTROL = {1: "<|im_start|>", 2: "<|im_end|>"}
_STEPS = {"token": (" step",), "line": (" to", " the", " end\n"), "sentence": (" to", " the", " end.")}


class Words:
    """A vocabulary that grows as it is used."""

    FIRST = 5000

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts = dict(_CONTROL)

    def ids(self, text: str) -> list[int]:
        """The words of a text."""
        return [self._id(word) for word in re.findall(r"\s?\w+|\s?[^\w\s]+|\s", text)]

    def name(self, number: int, text: str) -> None:
        """Something was said with this id."""
        self._texts[number] = text

    def text(self, number: int) -> str:
        """The word with this id, "c7" for a number that nobody has used (as in `made_records.token`)."""
        return self._texts.get(number, f" c{number}")

    def tokenized(self, ids: Sequence[int]) -> Tokenized:
        """What these ids are."""
        texts = [self.text(i) for i in ids]
        control = [at for at, i in enumerate(ids) if i in _CONTROL]
        return Tokenized(list(ids), [text.encode() for text in texts], texts, control)

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = self.FIRST + len(self._ids)
            self._texts[self._ids[word]] = word
        return self._ids[word]


class FakeEngine:
    """Implements `termchat.engine.port.Engine`. With `loads` False a load stays where `progress` puts it.

    `words` is its vocabulary, `waiting` whether the running reply is paused. `hears` False leaves questions unanswered, until
    `answer_questions`. It `offers` everything, or less.
    """

    def __init__(self, *, loads: bool = True, offers: frozenset[Feature] = ALL_FEATURES) -> None:
        self.loads = loads
        self.offers = offers
        self.hears = True
        self.info = INFO
        self.prompt = [1, 2, 3]
        self.commands: list[Command] = []
        self.closed = False
        self.waiting = False
        self.words = Words()
        self._unanswered: list[tuple[int, Command]] = []
        self._alive = True
        self._events: list[tuple[int, Event]] = []
        self._pipe: tuple[int, int] | None = None
        self._reply: tuple[int, Generate] | None = None
        self._steps = 0
        self._settings = 0
        self._constraint: tuple[Constraint | None, int] = None, 0

    # --- what a test does --------------------------------------------------------------------------------------------

    def say(self, *pieces: str, **fields: object) -> None:
        """The running reply's next tokens; `fields` replace a token's own."""
        assert self._reply is not None, "nothing was asked"
        for piece in pieces:
            token = replaced(made_records.token(self._steps, piece.encode(), piece, number=self._settings), **fields)
            self.words.name(token.id, piece)
            self._answer(self._reply[0], token)
            self._steps += 1

    def wait(self, why: str = "", *, piece: str = " next", **fields: object) -> None:
        """The running reply is paused before a token: by a condition, or because it was asked to."""
        assert self._reply is not None, "nothing was asked"
        self.waiting = True
        token = made_records.token(self._steps, piece.encode(), piece, number=self._settings)
        self._answer(self._reply[0], Paused(replaced(token, **fields), why))

    def answer_questions(self) -> None:
        """Answers what was asked meanwhile."""
        unanswered, self._unanswered = self._unanswered, []
        for number, command in unanswered:
            for event in self._answers_to_question(command):
                self._answer(number, event)

    def give_up(self) -> None:
        """Does something else than to answer what was asked meanwhile."""
        unanswered, self._unanswered = self._unanswered, []
        for number, _ in unanswered:
            self._answer(number, Failed("busy", "given up for something else"))

    def end(self, reason: str = "end") -> None:
        """The running reply ends."""
        assert self._reply is not None, "nothing was asked"
        number, self._reply = self._reply[0], None
        self.waiting = False
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
            self._answer(number, Loaded(self.info))

    def die(self, message: str = "the engine process ended by SIGKILL") -> None:
        """The process is gone."""
        number, self._reply = (self._reply[0] if self._reply else 0), None
        self.waiting = False
        self._answer(number, Failed("engine", message))

    @property
    def generated(self) -> list[Generate]:
        """Every reply that was asked for."""
        return self.asked(Generate)

    @property
    def unread(self) -> bool:
        """Whether it has said something that nobody has taken in yet."""
        return bool(self._events)

    def asked(self, kind: type[_C]) -> list[_C]:
        """Every command of a kind."""
        return [command for command in self.commands if isinstance(command, kind)]

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
            os.read(self._opened()[0], 4096)
        if any(isinstance(event, Failed) and event.kind == "engine" for _, event in events):
            self._alive = False
        return events

    def fileno(self) -> int:
        return self._opened()[0] if self._alive else -1

    @property
    def alive(self) -> bool:
        return self._alive

    def close(self) -> None:
        self.closed, self._alive = True, False
        self._events.clear()
        for end in self._pipe or ():
            os.close(end)
        self._pipe = None

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _answer(self, number: int, event: Event) -> None:
        self._events.append((number, event))
        os.write(self._opened()[1], b"!")

    def _opened(self) -> tuple[int, int]:
        if self._pipe is None:
            self._pipe = os.pipe()
        return self._pipe

    def _answers(self, number: int, command: Command) -> Iterable[Event]:
        match command:
            case Load() if self.loads:
                return [Progress(0.5), Loaded(self.info)]
            case Render():
                return [Rendered(list(self.prompt), whole=not command.after_reply)]
            case Generate():
                self._reply, self._steps, self._settings = (number, command), command.done, 0
                self._constraint = command.constraint, command.constraint_begun
                records: list[Record] = [
                    replaced(made_records.start(command.ids, command.seed), prefill=command.prefill),
                    SettingsRecord(
                        0,
                        command.samplers,
                        command.conditions,
                        {},
                        2,
                        constraint=command.constraint,
                        constraint_begun=command.constraint_begun,
                    ),
                    Prefill(len(command.ids), 0, [len(command.ids)], 12.0),
                ]
                for record in records:
                    self._answer(number, record)
                self._force([scripted.id for scripted in command.script if scripted.id is not None])
                if command.paused:
                    self.wait()
            case Adjust() if self._reply is not None:
                self._settings += 1
                if command.constraint != self._constraint[0]:
                    self._constraint = command.constraint, self._steps
                self._answer(
                    self._reply[0],
                    SettingsRecord(
                        self._settings,
                        command.samplers,
                        command.conditions,
                        {},
                        2,
                        constraint=self._constraint[0],
                        constraint_begun=self._constraint[1],
                    ),
                )
                self._wait_on()
            case Pause() if self._reply is not None:
                self.wait()
            case Resume():
                self.waiting = False
            case Step() if self.waiting:
                self.say(*_STEPS[command.unit])
                self.wait()
            case Force() if self._reply is not None:
                self._force(command.ids)
                self._wait_on()
            case EndThinking() if self._reply is not None:
                self.say("</think>", forced=True, phase="thinking")
                self._wait_on()
            case Cancel() if self._reply is not None:
                self.end("user")
            case _ if not self.hears:
                self._unanswered.append((number, command))
            case _:
                return self._answers_to_question(command)
        return []

    def _force(self, ids: Sequence[int]) -> None:
        for i in ids:
            self.say(self.words.text(i), id=i, forced=True)

    def _wait_on(self) -> None:
        if self.waiting:
            self.wait()

    def _answers_to_question(self, command: Command) -> Iterable[Event]:
        match command:
            case Tokenize():
                return [self.words.tokenized(self.words.ids(command.text))]
            case Check():
                return [Checked("the lexer is too large" if "too large" in command.constraint.text else "", 1.5)]
            case Describe():
                return [self.words.tokenized(command.ids)]
            case Spell():
                return [Spelled([self._spelling(command.text.strip(), form) for form in ("lower", "title", "upper")])]
            case Inspect():
                token = made_records.token(command.done, b"x", "x")
                return [Inspected(replaced(token, entropy=7.25), recomputed=False)]
            case Explain():
                return [Explained(self._explanation(command), recomputed=True)]
            case Score():
                return [Scoring(command.count, command.count), self._scored(command)]
        return []

    def _spelling(self, word: str, how: str) -> Spelling:
        """In upper case it is two tokens, the first of which begins other words."""
        text: str = " " + getattr(word, how)()
        ids = self.words.ids(text[:2] + " " + text[2:]) if how == "upper" else self.words.ids(text)
        names = [self.words.text(i) for i in ids]
        return Spelling(text, ids, names, 70 * (len(ids) > 1), ["PARK", "PART"][: 2 * (len(ids) > 1)])

    def _explanation(self, command: Explain) -> Explanation:
        """A rare token that penalties hurt, that min_p cut, and that a higher temperature would take."""
        stages = [
            StageEffect("penalties", 1.5, 0.01, 49152, False),
            StageEffect("top_k", 1.5, 0.012, 40, False),
            StageEffect("min_p", None, None, 4, True),
            StageEffect("temperature", None, None, 4, False),
        ]
        remedies = [Remedy("min_p", "<=", 0.01, False), Remedy("temperature", ">=", 1.6, True)]
        penalised = Penalised(0.5, [len(command.ids) - 1]) if command.samplers.repeat_penalty != 1.0 else None
        text, winner = self.words.text(command.id), 1000 + command.done
        return Explanation(
            command.id, text, 2.0, -4.5, 12, 0.0, -0.25, stages, "min_p", penalised, remedies, winner,
            self.words.text(winner),
        )  # fmt: skip

    def _scored(self, command: Score) -> Scored:
        """The reply again, but hotter than 1 every third token is another one, and every sixth impossible."""
        ids = command.ids[-command.count :]
        hot = command.samplers.temperature > 1.0
        other = [hot and at % 3 == 2 for at in range(command.count)]
        drawn = [7 if parts else i for i, parts in zip(ids, other, strict=True)]
        probabilities = [0.0 if hot and at % 6 == 5 else 0.5 for at in range(command.count)]
        return Scored(drawn, [self.words.text(i) for i in drawn], probabilities)


def replaced(token: Token, **fields: object) -> Token:
    """A token with other values in some fields."""
    return msgspec.structs.replace(token, **fields)
