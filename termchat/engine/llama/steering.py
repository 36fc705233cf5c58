"""What can be changed while a reply runs: its settings, where it pauses, and which tokens it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Protocol

import msgspec

from termchat.decoding.conditions import (
    Condition,
    ConditionError,
    Length,
    Loop,
    Measure,
    Rule,
    Stop,
    TextGate,
    ThinkingBudget,
    describe,
)
from termchat.decoding.constraint import GRAMMAR, NOT_YET, Constraint
from termchat.decoding.deadline import MATCHING, deadline
from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.rules import Rules
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import chain_of
from termchat.decoding.thinking import PhaseParser
from termchat.decoding.units import ends_sentence
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.grammars import ConstraintError, Follower
from termchat.engine.llama.observe import Mask
from termchat.engine.llama.speculation import NoDrafts
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import (
    Adjust,
    Cancel,
    EndThinking,
    EngineError,
    Force,
    Noted,
    Pause,
    Remark,
    ReplyRequest,
    Resume,
    Scripted,
    SteerReply,
    Unit,
)
from termchat.text import one_line

Redraw = Callable[[SamplerSettings], int] | None
"""The token that other settings would take at the present step; None where nobody knows."""
_REMEDIES: dict[str, float] = {"dry_multiplier": 0.8, "repeat_penalty": 1.1}
"""Knobs that end a loop, and the values at which people set them."""
_SHOWN = 30
"""Characters of a token that is told."""
MOST_THREADS = 512
"""llama.cpp aborts above it."""
_OPENING = 64  # tokens before a reply in which the tag is looked for that opens its thoughts
_TAIL = 64  # bytes; a sentence's end is shorter

_UNIT_ENDS: dict[Unit, Callable[[bytes, str], bool]] = {
    "token": lambda _said, _following: True,
    "line": lambda said, _following: b"\n" in said,
    "sentence": lambda said, following: ends_sentence(said.decode("utf-8", "ignore"), following),
}
"""Whether a unit is complete with the tokens taken since it began, given the text of the next."""


class Cancelled(Exception):
    """The user ended the reply."""


class Context(Protocol):
    """What a reply is made in: a model, room for `capacity` tokens, `threads` that compute the next decode, and its drafts.

    `least` is the least that measures of the newest step can be, where the step has only the most.
    """

    capacity: int

    @property
    def model(self) -> Vocabulary: ...

    @property
    def drafts(self) -> NoDrafts: ...

    @property
    def threads(self) -> int: ...

    @property
    def least(self) -> Mapping[Measure, float]: ...

    def set_threads(self, threads: int) -> bool:
        """Set the threads of the next decode, unless others choose them."""


class Steering:
    """Obeys the commands, the script and the conditions of one reply.

    `waiting`: the reply pauses before its next step, unless that is forced; `why` is the condition that was met. `past`
    are all ids so far, of which `reply` do not belong to the reply; it is read, never written. `walk` is for its records.

    Raises:
        EngineError: a condition does not compile.
    """

    def __init__(
        self, request: ReplyRequest, context: Context, past: list[int], reply: int, walk: int | None = None
    ) -> None:
        self.samplers: SamplerSettings = request.samplers
        self.origin = request.origin
        self.number = -1
        self.chain: Chain | None = None
        self.waiting = request.paused
        self.why = ""
        self._context, self._model, self._walk = context, context.model, walk
        self._past, self._reply, self._state = past, reply, request.state
        self._script = deque(request.script)
        self._queue: deque[int] = deque()
        self._pin: Scripted | None = None
        self._steps: deque[Unit] = deque()
        self._said: bytes | None = None
        self.gate = TextGate()
        self.constraint: Constraint | None = None
        self.constraint_begun = 0
        self.grammar: Follower | None = None
        self.dropped = ""
        self._compile_ms: float | None = None
        self.rules = Rules(())
        self.thoughts = self._thoughts()
        self._constrain(request.constraint, request.constraint_begun)
        self._check_constraint()
        self._condition(request.conditions)
        self.gate.resume(b"".join(map(self._model.piece, past[reply:])))
        self._use_threads(next((e.threads for e in request.script if e.threads and e.step <= request.done), 0))

    @property
    def forced(self) -> int | None:
        """The id that is taken next, whatever the dice say; None leaves it to them."""
        return self._queue[0] if self._queue else None

    @property
    def stepping(self) -> bool:
        """Whether the reply goes on for a step or two only."""
        return bool(self._steps)

    @property
    def state(self) -> Mapping[str, float]:
        """What mirostat and adaptive_p remember."""
        return self._state if self.chain is None else self.chain.state

    def fork_constraint(self) -> Follower | None:
        """The constraint as it is now, to try what could follow; None where nothing constrains the next token."""
        return self.grammar.fork() if self._constrains and self.grammar is not None else None

    def record(self) -> SettingsRecord:
        """The present settings, under the next number."""
        self.number += 1
        biases = self._model.token_biases(self.samplers.logit_bias)
        order = self._order(biased=bool(biases))
        if self.constraint is not None and not self.dropped:
            order.insert(len(order) if self.constraint.after_chain else 0, GRAMMAR)
        compile_ms, self._compile_ms = self._compile_ms, None
        return SettingsRecord(
            self.number, self.samplers, self.conditions, self.origin, self._context.threads, tuple(order), biases,
            self.constraint, self.constraint_begun, compile_ms, self.dropped, self._walk,
            self._context.drafts.settings, self._context.drafts.why,
        )  # fmt: skip

    def _order(self, *, biased: bool) -> list[str]:
        """The names of the stages that a step goes through."""
        return [stage.name for stage in chain_of(self.samplers, biased=biased)]

    def close(self) -> None:
        if self.chain is not None:
            self.chain.close()
            self.chain = None

    def rebuild(self) -> None:
        """Makes a chain for the settings, whose penalties have seen all ids so far."""
        state = self.state
        self.close()
        self.chain = self._model.make_chain(self.samplers, self._past, state)

    def tell_chain(self, drawn: Token, *, forced: bool) -> None:
        """The chain is told of the token that is taken."""
        assert self.chain is not None
        self.chain.take(drawn, forced=forced)

    def _thoughts(self) -> PhaseParser:
        """Knows the phase of the next token; has seen the reply so far."""
        model, past, reply = self._model, self._past, self._reply
        tags = model.thinking
        before = past[max(reply - _OPENING, 0) : reply] if tags is not None else []
        thoughts = PhaseParser(tags, b"".join(map(model.spelled, before)))
        for token in past[reply:] if tags is not None else []:
            thoughts.push(model.spelled(token))
        return thoughts

    def _answer(self) -> None:
        """Forces the end of the thoughts, unless tokens are forced already: those may be that end."""
        tags = self._model.thinking
        if tags is not None and self.thoughts.phase == "thinking" and not self._queue:
            self._queue.extend(self._model.tokenize(tags.ending, special=True))

    # --- what is asked -----------------------------------------------------------------------------------------------

    def obey(self, command: SteerReply) -> Iterator[SettingsRecord | Noted]:
        """Carries out a command, from the next token on; a change of settings is a record. One that cannot be made is told, and
        the settings stay.

        Raises:
            Cancelled: the reply is to end.
        """
        if isinstance(command, Cancel):
            raise Cancelled
        if isinstance(command, Adjust):
            try:
                self._change(command.samplers, command.conditions, command.origin, command.constraint)
            except EngineError as error:
                yield Noted(Remark(f"the reply keeps its settings: {error.message}", error.hint))
                return
            if command.draft is not None:
                self._context.drafts.set(command.draft)
            yield self.record()
        elif isinstance(command, Pause):
            self.waiting = True
            self._steps.clear()
        else:
            self.why = ""
            if isinstance(command, EndThinking):
                self._answer()
                return
            if isinstance(command, Force):
                self._queue.extend(i for i in command.ids if 0 <= i < self._model.n_vocab)
                return
            self.waiting = False
            if isinstance(command, Resume):
                self._steps.clear()
            else:
                self._steps.append(command.unit)
                if len(self._steps) == 1:
                    self._said = None

    def begin(self, step: int) -> Iterator[SettingsRecord]:
        """Carries out what the script has for `step`; a change of settings is a record."""
        while self._script and self._script[0].step <= step:
            entry = self._script.popleft()
            changed = self._use_threads(entry.threads)
            if entry.samplers is not None or entry.conditions is not None or entry.origin:
                conditions = self.conditions if entry.conditions is None else entry.conditions
                constraint = self.constraint if entry.samplers is None else entry.constraint
                self._change(entry.samplers or self.samplers, conditions, entry.origin or self.origin, constraint)
                changed = True
            if changed:
                yield self.record()
            if entry.id is not None and entry.step == step:
                if entry.pinned is None:
                    self._queue.appendleft(entry.id)
                else:
                    self._pin = entry
        if self._budget is not None and self.thoughts.thought >= self._budget:
            self._answer()

    def pin(self, drawn: Token) -> bool:
        """Force the pinned token of the step if a different one was drawn in a near tie; return whether it is forced."""
        pin, self._pin = self._pin, None
        if pin is None or pin.id is None or pin.id == drawn.id or not (pin.pinned or drawn.near_tie):
            return False
        self._queue.appendleft(pin.id)
        return True

    # --- what is met -------------------------------------------------------------------------------------------------

    def before(self, step: int, drawn: Token, token: int, seconds: float, redraw: Redraw) -> str:
        """Looks at the step that is about to be taken, once, when the reply has streamed for `seconds`: the rule that ends the
        reply here, or "".

        The reply may have to wait then. `redraw` says what other settings would take at this step.
        """
        if self._steps and self._said is not None:
            next_text = self._model.piece(token).decode("utf-8", "replace")
            if _UNIT_ENDS[self._steps[0]](self._said, next_text):
                self._steps.popleft()
                self._said = None
                self.waiting = not self._steps
        if self.forced is not None:
            return ""
        model = self._model
        ends = token in model.end_ids and not self.rules.ignores_end
        rule = self.rules.before(step, drawn, seconds, None if ends else model.piece(token), self._context.least)
        return self._met(rule, f": {self._loop(token, redraw)}" if isinstance(rule, Loop) else "")

    def after(self, token: int, data: bytes) -> str:
        """Takes in the token and its bytes: the rule that ends the reply with it, or "".

        The reply may have to wait then.

        Raises:
            EngineError: a regular expression takes too long.
        """
        if self._queue:
            self._queue.popleft()
        if self._steps:
            self._said = (self._said or b"")[-_TAIL:] + data
        return self._met(self._search(self.rules, lambda: self.rules.after(data, token)))

    def _met(self, rule: Rule | None, more: str = "") -> str:
        if rule is None:
            return ""
        if rule.action != "stop":
            self.waiting, self.why = True, describe(rule) + more
            self._steps.clear()
            return ""
        return describe(rule) + more

    def _loop(self, token: int, redraw: Redraw) -> str:
        """Which text the reply says again and again, how often, and what a penalty would say instead of going on with it."""
        loop, model = self.rules.repetition, self._model
        assert loop is not None
        first = self._reply + loop.begin
        said = b"".join(map(model.piece, self._past[first : first + loop.period]))
        instead = []
        for knob, value in _REMEDIES.items():
            if redraw is None:
                break
            is_on = not KNOBS[knob].is_off(getattr(self.samplers, knob))
            if is_on or KNOBS[knob].stage not in self.samplers.order:
                continue
            other = redraw(msgspec.structs.replace(self.samplers, **{knob: value}))
            draws = "the same" if other == token else f'"{one_line(model.name(other), _SHOWN)}"'
            instead.append(f"{knob} {value} draws {draws}")
        return "; ".join([loop.told(said.decode("utf-8", "replace")), *instead])

    def _search(self, rules: Rules, search: Callable[[], Rule | None]) -> Rule | None:
        if not rules.has_regex:
            return search()
        try:
            with deadline(MATCHING):
                return search()
        except TimeoutError:
            raise EngineError(
                "condition", "a regular expression takes too long to match", "avoid nested repeats such as (a+)+"
            ) from None

    # --- what changes ------------------------------------------------------------------------------------------------

    def _change(
        self,
        samplers: SamplerSettings,
        conditions: tuple[Condition, ...],
        origin: dict[str, str],
        constraint: Constraint | None,
    ) -> None:
        if conditions != self.conditions:
            self._condition(conditions)  # first, since it alone may be refused
        self.origin = origin
        if constraint != self.constraint:
            self._constrain(constraint, self._step)
        if samplers != self.samplers:
            self.samplers = samplers
            self.rebuild()

    def _constrain(self, constraint: Constraint | None, begun: int) -> None:
        """Follows another constraint, from step `begun` of the reply on, or from its answer on. One that cannot be used is
        dropped."""
        thinking = constraint is not None and self.thoughts.phase == "thinking"
        begun = NOT_YET if thinking else min(begun, self._step)
        self.constraint, self.constraint_begun, self.grammar, self.dropped = constraint, begun, None, ""
        if constraint is None:
            return
        try:
            self.grammar = self._model.grammars.follow(constraint, self._past[self._reply + begun :])
        except ConstraintError as error:
            self.dropped = f"the constraint cannot be used: {error}"
        else:
            self._compile_ms = self.grammar.compile_ms
            self.dropped = self.grammar.problem

    def _check_constraint(self) -> None:
        """Raises:
        EngineError: the constraint that the reply begins with cannot be used.
        """
        if self.constraint is not None and self.grammar is None:
            raise EngineError("constraint", self.dropped, "change or remove the constraint")

    def mask(self) -> Generator[SettingsRecord, None, Mask | None]:
        """What the constraint allows next, waiting for it. If it fails the constraint is dropped, which is a record."""
        if not self._constrains or self.grammar is None:
            return None
        found = self.grammar.mask()
        if found is None:
            yield self.drop(self.grammar.problem)
        return found

    def drop(self, why: str) -> SettingsRecord:
        """The constraint is no longer applied."""
        self.dropped = why
        return self.record()

    def take(self, token: int) -> SettingsRecord | None:
        """The constraint is told of the newest token; a record if it does not fit, or if thoughts begin or end with it."""
        if self.grammar is None or self.dropped:
            return None
        thinking = self.thoughts.phase == "thinking"
        if thinking != (self.constraint_begun == NOT_YET):
            self._constrain(self.constraint, self._step)
            return self.record()
        if thinking:
            return None
        first = self.constraint_begun == self._step - 1 and self.thoughts.thought > 0
        if first and self._model.piece(token).isspace() and not self.grammar.allows(token):
            self.constraint_begun += 1  # white space that is forced behind the thoughts
            return self.record()
        self.grammar.take(token)
        return self.drop(self.grammar.problem) if self.grammar.problem else None

    def prepare(self) -> None:
        """Computes the mask of the next step in the meantime."""
        if self._constrains and self.grammar is not None:
            self.grammar.begin()

    @property
    def _step(self) -> int:
        """The number of the next step."""
        return len(self._past) - self._reply

    @property
    def _constrains(self) -> bool:
        return self.grammar is not None and not self.dropped and self.constraint_begun != NOT_YET

    @property
    def complete(self) -> bool:
        """Nothing that matches the constraint could follow."""
        return self.grammar is not None and not self.dropped and not self._queue and self.grammar.complete

    @property
    def incomplete(self) -> bool:
        """What there is does not match the constraint yet."""
        return self.grammar is not None and not self.dropped and not self.grammar.accepting

    def _condition(self, conditions: tuple[Condition, ...]) -> None:
        """Replaces the conditions. A text that the reply contains already does not count as met.

        Raises:
            EngineError: one cannot be used; those that were there stay.
        """
        try:
            rules = Rules(conditions, self.rules)
        except ConditionError as error:
            raise EngineError("condition", str(error), "change or delete the condition") from None
        said = self._past[self._reply :]
        self._search(rules, lambda: rules.resume(said, b"".join(map(self._model.piece, said))))
        self.rules, self.conditions = rules, conditions
        self.limit = min((c.tokens for c in conditions if isinstance(c, Length)), default=None)
        self._budget = min((c.tokens for c in conditions if isinstance(c, ThinkingBudget)), default=None)
        self._stops = [c.text for c in conditions if isinstance(c, Stop)]
        self.gate.set_stops(self._stops)

    def is_stop(self, token: int) -> bool:
        """Whether a stop sequence names a control token: it has no text in which that could be found."""
        return bool(self._stops) and self._model.is_control(token) and self._model.name(token) in self._stops

    def _use_threads(self, threads: int) -> bool:
        threads = min(threads, MOST_THREADS)
        if threads <= 0 or threads == self._context.threads:
            return False
        return self._context.set_threads(threads)
