"""An engine without a model: answers at once, and says tokens when a test asks it to.

It pauses, steps, takes forced tokens and answers questions with numbers that could be a model's, the same each time. Its
tokens are words: a new word gets the next free id. Of several replies from one prompt a test has all speak, or one (`walk`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from termchat.decoding.constraint import Constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import (
    ABSENT,
    UNKNOWN,
    Beam,
    Beams,
    DrawnThere,
    Explanation,
    Failed,
    Finished,
    Penalised,
    Prefill,
    Remedy,
    SettingsRecord,
    StageEffect,
    Start,
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
    DraftInfo,
    DraftLoaded,
    EndThinking,
    Event,
    Explain,
    Explained,
    Feature,
    Force,
    Generate,
    Inspect,
    Inspected,
    Join,
    Keep,
    Kept,
    Load,
    LoadDraft,
    Loaded,
    Measurement,
    ModelInfo,
    Noted,
    Pause,
    Paused,
    Prefilling,
    Progress,
    Remark,
    Render,
    Rendered,
    ReplyRequest,
    Resume,
    Score,
    Scored,
    Scoring,
    Spell,
    Spelled,
    Spelling,
    SteerReply,
    Step,
    Tokenize,
    Tokenized,
    WalksFinished,
)
from tests import made_records

INFO = ModelInfo(
    name="tiny", path="/tiny.gguf", sha256=made_records.MODEL.sha256, architecture="llama", quantization="Q4_1", description="",
    size=1, parameters=1, vocabulary=49152, context=2048, context_trained=2048, threads=2, threads_batch=2,
    prefill_batch=63, kv_type="f16", layers=1, gpu_layers=0, device="cpu", has_template=True, can_rewind=True,
    end_ids=[2], measured=Measurement("", 2, {2: 1.8, 4: 2.4}, 63),
)  # fmt: skip


_C = TypeVar("_C", bound=Command)
_R = TypeVar("_R", Token, Start, ReplyRequest)

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


@dataclass
class _Stream:
    """A reply that is being made, and how far it is; `walk` is its number, None for a single one. The records of a reply answer
    the command with this `number`."""

    number: int
    steps: int
    seed: int
    constraint: Constraint | None
    constraint_begun: int
    walk: int | None = None
    settings: int = 0
    waiting: bool = False
    ended: bool = False
    draft: DraftSettings | None = None
    now: ReplyRequest | Adjust | None = None


class FakeEngine:
    """Implements `termchat.engine.port.Engine`. With `loads` False a load stays where `progress` puts it.

    `words` is its vocabulary, `waiting` whether a running reply is paused. `hears` False leaves questions unanswered, until
    `answer_questions`. It `offers` everything, or less. `full` has it refuse walks that are to join; `no_draft` is why it
    refuses a draft model. With `loads_drafts` False it is silent about one, until `load_draft`.
    """

    def __init__(self, *, loads: bool = True, offers: frozenset[Feature] = ALL_FEATURES) -> None:
        self.loads = loads
        self.offers = offers
        self.hears = True
        self.full = False
        self.draft_costs = ""
        """Why a draft model that is loaded cannot pay."""
        self.no_draft = ""
        self.exact = True
        self.largest_change: float | None = None
        self.loads_drafts = True
        self.info = INFO
        self.prompt = [1, 2, 3]
        self.commands: list[Command] = []
        self.closed = False
        self.words = Words()
        self._unanswered: list[tuple[int, Command]] = []
        self._alive = True
        self._events: list[tuple[int, Event]] = []
        self._pipe: tuple[int, int] | None = None
        self._streams: list[_Stream] = []
        self._several: tuple[int, Generate] | None = None
        self._beams: list[Beams] = []

    # --- what a test does --------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        return any(self.speaking.values())

    @property
    def speaking(self) -> dict[int | None, bool]:
        """The replies that run, by walk (None: a single one), and whether each is paused."""
        return {stream.walk: stream.waiting for stream in self._running()}

    @property
    def searching(self) -> bool:
        group = self._several[1].group if self._several is not None else None
        return group is not None and group.beams is not None

    def say(self, *pieces: str, walk: int | None = None, **fields: object) -> None:
        """The running reply's next tokens, of several all say them, or one `walk`; `fields` replace a token's own."""
        for stream in self._spoken(walk):
            for piece in pieces:
                self._say(stream, piece, fields)

    def wait(self, why: str = "", *, piece: str = " next", walk: int | None = None, **fields: object) -> None:
        """The running reply is paused before a token: by a condition, or because it was asked to."""
        for stream in self._spoken(walk):
            stream.waiting = True
            token = made_records.token(stream.steps, piece.encode(), piece, number=stream.settings)
            self._answer(stream.number, Paused(replaced(token, walk=stream.walk, **fields), why, stream.walk))

    def note(self, remark: Remark) -> None:
        """Something is noticed of the replies that run together."""
        assert self._several is not None, "nothing was asked"
        self._answer(self._several[0], Noted(remark))

    def look(self, *words: str, parents: Sequence[int] = (), dropped: Sequence[str] = ()) -> None:
        """The next step of a beam search: a word for each beam, best first, and which beam of the step before it goes on from;
        the `dropped` ones go on from the first."""
        assert self._several is not None, "nothing was asked"
        kept = [self._beam(place, word, (*parents, *range(16))[place]) for place, word in enumerate(words)]
        lost = [self._beam(len(kept) + place, word, 0) for place, word in enumerate(dropped)]
        beams = Beams(self._several[1].replies[0].done + len(self._beams), kept, lost)
        self._beams.append(beams)
        self._answer(self._several[0], beams)

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

    def end(self, reason: str = "end", *, walk: int | None = None) -> None:
        """The running reply ends; of several all do, or one `walk`. A beam search ends with its best beams."""
        if self.searching and self._beams:
            self._find()
            walk = None
        for stream in self._spoken(walk):
            stream.ended, stream.waiting = True, False
            end = Finished(reason, "", "", stream.steps, 84.0, 60.0, 500.0, 118.0, stream.walk)  # type: ignore[arg-type]
            self._answer(stream.number, end)
        if self._several is not None and not self._running():
            number, self._several = self._several[0], None
            steps = [stream.steps for stream in self._streams]
            self._answer(number, WalksFinished(sum(steps), max(steps, default=0), 500.0, 118.0))

    def read(self, done: int, total: int) -> None:
        """So much of the prompt is read."""
        self._answer(self._spoken(None)[0].number, Prefilling(done, total))

    def load_up_to(self, fraction: float) -> None:
        """So much of the model is loaded; at 1 all of it."""
        number = len(self.commands)
        self._answer(number, Progress(fraction))
        if fraction == 1.0:
            self._answer(number, Loaded(self.info))

    def drafting(self, why: str = "") -> None:
        """From the next token on nothing is drafted for the running reply, since `why`; "" drafts again."""
        for stream in self._spoken(None):
            stream.settings += 1
            self._answer(stream.number, _settings(stream, why))

    def load_draft(self) -> None:
        """The draft model that was asked for last is loaded, or refused."""
        at = max(at for at, command in enumerate(self.commands, 1) if isinstance(command, LoadDraft))
        for event in self._drafting(self.asked(LoadDraft)[-1]):
            self._answer(at, event)

    def die(self, message: str = "the engine process ended by SIGKILL", kind: str = "engine") -> None:
        """The process is gone; or, with another kind of failure, the reply alone."""
        running = self._running()
        number = running[0].number if running else 0
        self._streams, self._several = [], None
        self._answer(number, Failed(kind, message))

    @property
    def generated(self) -> list[ReplyRequest]:
        """Every reply that was asked for alone."""
        return [command.replies[0] for command in self.asked(Generate) if command.group is None]

    @property
    def groups(self) -> list[Generate]:
        """Every request for a group of replies."""
        return [command for command in self.asked(Generate) if command.group is not None]

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
        self._streams, self._several = [], None
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
            case LoadDraft() if self.loads_drafts:
                return self._drafting(command)
            case Render():
                return [Rendered(list(self.prompt), whole=not command.before)]
            case Generate():
                self._streams, self._beams = [], []
                self._several = (number, command) if command.group is not None else None
                for reply in command.replies:
                    self._begin(number, command, reply)
                if self.searching and command.replies[0].paused:
                    self.wait(walk=0)
            case Join() if self._several is not None:
                number, several = self._several
                if self.full:
                    return [Failed("context", "there is no room for another walk", walk=command.reply.number)]
                self._begin(number, several, command.reply)
            case Keep():
                return [Kept(30, 14.0)]
            case Adjust() | Pause() | Resume() | Step() | Force() | EndThinking() | Cancel():
                for stream in self._running():
                    if command.reply in (None, stream.walk):
                        self._steer(stream, command)
            case _ if not self.hears:
                self._unanswered.append((number, command))
            case _:
                return self._answers_to_question(command)
        return []

    def _drafting(self, command: LoadDraft) -> Iterable[Event]:
        spec = command.spec
        if spec is None:
            return [DraftLoaded(None)]
        if self.no_draft:
            return [Progress(0.5), Failed("draft", self.no_draft, "choose a model of the same family")]
        return [
            Progress(0.5),
            DraftLoaded(DraftInfo(spec.name, spec.path, "d" * 64, 1, 1, 1, 0, 0.1, self.draft_costs)),
        ]

    def _begin(self, number: int, command: Generate, reply: ReplyRequest) -> None:
        walk = reply.number if command.group is not None else None
        draft = command.draft if command.group is None else None
        stream = _Stream(
            number, reply.done, reply.seed, reply.constraint, reply.constraint_begun, walk=walk, draft=draft, now=reply
        )
        self._streams.append(stream)
        start = replaced(made_records.start(reply.ids, reply.seed), prefill=reply.prefill, walk=walk, group=command.group,
            exact=self.exact, largest_change=self.largest_change)  # fmt: skip
        self._answer(number, start)
        self._answer(number, _settings(stream))
        self._answer(number, Prefill(len(reply.ids), 0, [len(reply.ids)], 12.0, walk=walk))
        self._force(stream, [scripted.id for scripted in reply.script if scripted.id is not None])
        if reply.paused and not self.searching:
            self.wait(walk=walk)

    def _steer(self, stream: _Stream, command: SteerReply) -> None:
        match command:
            case Adjust():
                stream.settings += 1
                if command.constraint != stream.constraint:
                    stream.constraint, stream.constraint_begun = command.constraint, stream.steps
                if command.draft is not None:
                    stream.draft = command.draft if command.draft.on else None
                stream.now = command
                self._answer(stream.number, _settings(stream))
                self._wait_on(stream)
            case Pause():
                self.wait(walk=stream.walk)
            case Resume():
                stream.waiting = False
            case Step() if stream.waiting:
                self.say(*_STEPS[command.unit], walk=stream.walk)
                self.wait(walk=stream.walk)
            case Force():
                self._force(stream, command.ids)
                self._wait_on(stream)
            case EndThinking():
                self.say("</think>", walk=stream.walk, forced=True, phase="thinking")
                self._wait_on(stream)
            case Cancel():
                self.end("user", walk=stream.walk)

    def _running(self) -> list[_Stream]:
        return [stream for stream in self._streams if not stream.ended]

    def _spoken(self, walk: int | None) -> list[_Stream]:
        spoken = [stream for stream in self._running() if walk in (None, stream.walk)]
        assert spoken, "nothing was asked"
        return spoken

    def _say(self, stream: _Stream, piece: str, fields: dict[str, object]) -> None:
        token = made_records.token(stream.steps, piece.encode(), piece, number=stream.settings)
        token = replaced(token, walk=stream.walk, **fields)
        self.words.name(token.id, piece)
        self._answer(stream.number, token)
        stream.steps += 1

    def _force(self, stream: _Stream, ids: Sequence[int]) -> None:
        for i in ids:
            self._say(stream, self.words.text(i), {"id": i, "forced": True})

    def _wait_on(self, stream: _Stream) -> None:
        if stream.waiting:
            self.wait(walk=stream.walk)

    def _beam(self, place: int, word: str, parent: int) -> Beam:
        """Each place is half a nat worse than the one before, and each step one more."""
        logprob = -0.5 * place - 0.25
        before = self._beams[-1].beams[parent].score if self._beams else 0.0
        return Beam(place, parent, self.words.ids(word)[0], word, logprob, before + logprob)

    def _find(self) -> None:
        """The walks of the n best."""
        assert self._several is not None
        number, command = self._several
        assert command.group is not None
        [asked] = command.replies
        best = self._beams[-1].beams[: command.group.size]
        for walk, beam in enumerate(best):
            if walk:
                self._begin(number, command, replaced(asked, number=walk, script=()))
            ids, parent = [beam.id], beam.parent
            for beams in reversed(self._beams[:-1]):
                ids.insert(0, beams.beams[parent].id)
                parent = beams.beams[parent].parent
            for i in ids:
                self.say(self.words.text(i), id=i, walk=walk)
        self._beams = []

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
        if not self.info.abilities.client_draw:
            standing = self.words.text(command.drawn)
            there = DrawnThere(20, -0.5, 0, command.drawn, standing, -0.5)
            return Explanation(
                command.id, text, ABSENT, -4.5, UNKNOWN, ABSENT, ABSENT, [], None, None, [], command.drawn, standing,
                there=there,
            )  # fmt: skip
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


def replaced(record: _R, **fields: object) -> _R:
    """A record with other values in some fields."""
    return msgspec.structs.replace(record, **fields)


def _settings(stream: _Stream, drafting: str = "") -> SettingsRecord:
    now = stream.now
    assert now is not None
    origin = dict(now.origin)
    return SettingsRecord(
        stream.settings, now.samplers, now.conditions, origin, 2, constraint=stream.constraint,
        constraint_begun=stream.constraint_begun, walk=stream.walk, draft=stream.draft, drafting=drafting,
    )  # fmt: skip
