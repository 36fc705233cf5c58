"""What can be changed while a reply runs: its settings, where it pauses, and which tokens it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

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
    format_condition,
)
from termchat.decoding.constraint import GRAMMAR, NOT_YET, Constraint
from termchat.decoding.deadline import MATCHING, interrupt_after
from termchat.decoding.records import SettingsRecord, Token
from termchat.decoding.rules import Rules
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import chain_of
from termchat.decoding.thinking import PhaseParser
from termchat.decoding.units import ends_sentence
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.grammars import Follower
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
BEGUN_ANEW = "the server begins it anew when the reply goes on"
"""Why a server that draws cannot follow a constraint on."""
MOST_THREADS = 512
"""llama.cpp aborts above it."""
_OPENING = 64  # tokens before a reply in which the tag is looked for that opens its thoughts
_TAIL = 64  # bytes; a sentence's end is shorter


class Cancelled(Exception):
    """The user ended the reply."""


class Context:
    """The surroundings of a reply: a model, room for `capacity` tokens, `threads` of the next decode, and its drafts.

    With `draws_here` its tokens are drawn here, with our dice; else by a server, whose chain has the stages of `order`, or all
    in ours where that is empty. `least` is the least that measures of the newest step can be, where the step has only the most.
    """

    model: Vocabulary
    capacity: int
    drafts = NoDrafts()
    draws_here = True
    order: tuple[str, ...] = ()
    least: Mapping[Measure, float] = {}

    @property
    def threads(self) -> int:
        """The threads of the next decode, 0 where they are the server's own affair."""
        return 0

    def set_threads(self, threads: int) -> bool:
        """Set the threads of the next decode; return whether that changes the settings of this reply."""
        return True

    def admit_settings(
        self, samplers: SamplerSettings, conditions: tuple[Condition, ...], constraint: Constraint | None
    ) -> SamplerSettings:
        """Return the settings that the reply can have of those.

        Raises:
            EngineError: a value, a condition or the constraint is beyond what the engine can do.
        """
        return samplers

    def origin_at(self, controls: ReplyControls) -> dict[str, str]:
        """Return what the engine adds to the origins of a record of settings."""
        return {}


class ReplyControls:
    """Obey the commands, the script and the conditions of one reply.

    `waiting`: the reply pauses before its next step, unless that is forced, or goes on for some `steps`; `why` is the condition
    that was met. `stops` are the stop sequences. `past` are all ids so far; it is read, never written. `walk` is for its
    records. `stale`: a server that draws must be asked anew, since settings that it was told have changed.

    Raises:
        EngineError: the engine cannot do what is asked, or a condition does not compile.
    """

    def __init__(self, request: ReplyRequest, context: Context, past: list[int], walk: int | None = None) -> None:
        self.samplers = context.admit_settings(request.samplers, request.conditions, request.constraint)
        self.origin = request.origin
        self.number = -1
        self.chain: Chain | None = None
        self.waiting = request.paused
        self.why = ""
        self._context, self._model, self._walk = context, context.model, walk
        self.past, self._reply, self._state = past, len(past) - request.done, request.state
        self.stale = True
        self._script = deque(request.script)
        self._queue: deque[int] = deque()
        self._pin: Scripted | None = None
        self.steps: deque[Unit] = deque()
        self._said: bytes | None = None
        self.gate = TextGate()
        self.constraint: Constraint | None
        self.grammar: Follower | None
        self._compile_ms: float | None = None
        self.rules = Rules(())
        model, tags, begun = self._model, self._model.thinking, self._reply
        before = past[max(begun - _OPENING, 0) : begun] if tags is not None else []
        self.thoughts = PhaseParser(tags, b"".join(map(model.spell_token, before)))
        for token in past[begun:] if tags is not None else []:
            self.thoughts.push_piece(model.spell_token(token))
        self._set_constraint(request.constraint, request.constraint_begun)
        if self.constraint is not None and self.grammar is None and self.dropped:
            raise EngineError("constraint", self.dropped, "change or remove the constraint")
        if not context.draws_here and self.constrains and self.constraint_begun < self.step:
            raise EngineError(
                "capability",
                f"the constraint cannot be followed further: {BEGUN_ANEW}",
                "remove the constraint, and the reply goes on without it",
            )
        self._set_conditions(request.conditions)
        self.gate.resume(b"".join(map(model.piece, past[begun:])))
        self._use_threads(next((e.threads for e in request.script if e.threads and e.step <= request.done), 0))

    @property
    def forced(self) -> int | None:
        """The id forced for the next step; None leaves it to the dice."""
        return self._queue[0] if self._queue else None

    @property
    def state(self) -> Mapping[str, float]:
        """What mirostat and adaptive_p remember."""
        return self._state if self.chain is None else self.chain.state

    def fork_constraint(self) -> Follower | None:
        """Return the constraint as it is now, to try what could follow; None where nothing constrains the next token."""
        return self.grammar.fork_follower() if self.constrains and self.grammar is not None else None

    def record_settings(self) -> SettingsRecord:
        """Return the present settings, under the next number."""
        self.number += 1
        biases = self._model.token_biases(self.samplers.logit_bias)
        order = [stage.name for stage in chain_of(self.samplers, biased=bool(biases))]
        if self._context.order:
            order = [name for name in self._context.order if name in order]
        if self.constraint is not None and not self.dropped:
            order.insert(len(order) if self.constraint.after_chain else 0, GRAMMAR)
        compile_ms, self._compile_ms = self._compile_ms, None
        return SettingsRecord(
            self.number, self.samplers, self.conditions, self.origin | self._context.origin_at(self),
            self._context.threads, tuple(order), biases,
            self.constraint, self.constraint_begun, compile_ms, self.dropped, self._walk,
            self._context.drafts.settings, self._context.drafts.why,
        )  # fmt: skip

    def close(self) -> None:
        if self.chain is not None:
            self.chain.close()
            self.chain = None

    def rebuild_chain(self) -> None:
        """Make a chain for the settings, whose penalties have seen all ids so far."""
        state = self.state
        self.close()
        self.chain = self._model.make_chain(self.samplers, self.past, state)

    def _end_thoughts(self) -> None:
        """Force the end of the thoughts, unless tokens are forced already: those may be that end."""
        tags = self._model.thinking
        if tags is not None and self.thoughts.phase == "thinking" and not self._queue:
            self._queue.extend(self._model.tokenize(tags.ending, special=True))

    # --- what is asked -----------------------------------------------------------------------------------------------

    def obey_command(self, command: SteerReply) -> Iterator[SettingsRecord | Noted]:
        """Apply a command from the next token on; yield the record of a change of settings. An impossible change becomes a
        note and leaves the settings.

        Raises:
            Cancelled: the reply is to end.
        """
        if isinstance(command, Cancel):
            raise Cancelled
        if isinstance(command, Adjust):
            try:
                self._change_settings(command)
            except EngineError as error:
                yield Noted(Remark(f"the reply keeps its settings: {error.message}", error.hint))
                return
            if command.draft is not None:
                self._context.drafts.set_settings(command.draft)
            yield self.record_settings()
        elif isinstance(command, Pause):
            self.waiting = True
            self.steps.clear()
        else:
            self.why = ""
            if isinstance(command, EndThinking):
                self._end_thoughts()
                return
            if isinstance(command, Force):
                self._queue.extend(i for i in command.ids if 0 <= i < self._model.n_vocab)
                return
            self.waiting = False
            if isinstance(command, Resume):
                self.steps.clear()
            else:
                self.steps.append(command.unit)
                if len(self.steps) == 1:
                    self._said = None

    def begin_step(self, step: int) -> Iterator[SettingsRecord]:
        """Carry out the entries of the script for `step`; yield the record of a change of settings."""
        while self._script and self._script[0].step <= step:
            entry = self._script.popleft()
            changed = self._use_threads(entry.threads)
            if entry.samplers is not None or entry.conditions is not None or entry.origin:
                conditions = self.conditions if entry.conditions is None else entry.conditions
                constraint = self.constraint if entry.samplers is None else entry.constraint
                samplers, origin = entry.samplers or self.samplers, entry.origin or self.origin
                self._change_settings(Adjust(samplers, conditions, origin, constraint))
                changed = True
            if changed:
                yield self.record_settings()
            if entry.id is not None and entry.step == step:
                if entry.pinned is None:
                    self._queue.appendleft(entry.id)
                else:
                    self._pin = entry
        if self._budget is not None and self.thoughts.thought >= self._budget:
            self._end_thoughts()

    def pin_token(self, drawn: Token) -> bool:
        """Force the pinned token of the step if a different one was drawn in a near tie; return whether it is forced."""
        pin, self._pin = self._pin, None
        if pin is None or pin.id is None or pin.id == drawn.id or not (pin.pinned or drawn.near_tie):
            return False
        self._queue.appendleft(pin.id)
        return True

    # --- what is met -------------------------------------------------------------------------------------------------

    def check_before(self, step: int, drawn: Token, token: int, seconds: float, redraw: Redraw) -> str:
        """Check the rules once before a step is taken, when the reply has streamed for `seconds`; return the rule that ends
        the reply here, or "".

        The reply may have to wait then. `redraw` says what other settings would take at this step.
        """
        if self.steps and self._said is not None:
            unit, over = self.steps[0], True
            if unit == "line":
                over = b"\n" in self._said
            elif unit == "sentence":
                following = self._model.piece(token).decode("utf-8", "replace")
                over = ends_sentence(self._said.decode("utf-8", "ignore"), following)
            if over:
                self.steps.popleft()
                self._said = None
                self.waiting = not self.steps
        if self.forced is not None:
            return ""
        model = self._model
        ends = token in model.end_ids and not self.rules.ignores_end
        rule = self.rules.check_before(step, drawn, seconds, None if ends else model.piece(token), self._context.least)
        return self._apply_rule(rule, f": {self._describe_loop(token, redraw)}" if isinstance(rule, Loop) else "")

    def check_after(self, token: int, data: bytes) -> str:
        """Take in the token and its bytes; return the rule that ends the reply with it, or "".

        The reply may have to wait then.

        Raises:
            EngineError: a regular expression takes too long.
        """
        if self._queue:
            self._queue.popleft()
        if self.steps:
            self._said = (self._said or b"")[-_TAIL:] + data
        return self._apply_rule(self._match_in_time(self.rules, lambda: self.rules.check_after(data, token)))

    def _apply_rule(self, rule: Rule | None, more: str = "") -> str:
        if rule is None:
            return ""
        if rule.action != "stop":
            self.waiting, self.why = True, format_condition(rule) + more
            self.steps.clear()
            return ""
        return format_condition(rule) + more

    def _describe_loop(self, token: int, redraw: Redraw) -> str:
        """Describe the text that repeats, how often, and the tokens that penalties would draw instead of going on with it."""
        loop, model = self.rules.repetition, self._model
        assert loop is not None
        first = self._reply + loop.begin
        said = b"".join(map(model.piece, self.past[first : first + loop.period]))
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
        return "; ".join([loop.describe_loop(said.decode("utf-8", "replace")), *instead])

    def _match_in_time(self, rules: Rules, search: Callable[[], Rule | None]) -> Rule | None:
        if not rules.has_regex:
            return search()
        try:
            with interrupt_after(MATCHING):
                return search()
        except TimeoutError:
            raise EngineError(
                "condition", "a regular expression takes too long to match", "avoid nested repeats such as (a+)+"
            ) from None

    # --- what changes ------------------------------------------------------------------------------------------------

    def _change_settings(self, to: Adjust) -> None:
        samplers = self._context.admit_settings(to.samplers, to.conditions, to.constraint)
        if to.conditions != self.conditions:
            self._set_conditions(to.conditions)  # first, since it alone may be refused
        self.origin = to.origin
        if to.constraint != self.constraint:
            self._set_constraint(to.constraint, self.step)
        if samplers != self.samplers:
            self.samplers, self.stale = samplers, True
            if self._context.draws_here:
                self.rebuild_chain()

    def _set_constraint(self, constraint: Constraint | None, begun: int) -> None:
        """Follow another constraint, from step `begun` of the reply on, or from its answer on. One that cannot be used is
        dropped."""
        thinking = constraint is not None and self.thoughts.phase == "thinking"
        begun = NOT_YET if thinking else min(begun, self.step)
        self.constraint, self.constraint_begun, self.grammar, self.dropped = constraint, begun, None, ""
        self.stale = True
        if constraint is None or not self._context.draws_here:
            return
        try:
            self.grammar = self._make_follower(constraint, begun)
        except EngineError as error:
            if error.kind != "constraint":
                raise
            self.dropped = error.message
        else:
            self._compile_ms = self.grammar.compile_ms
            self.dropped = self.grammar.problem

    def _make_follower(self, constraint: Constraint, begun: int) -> Follower:
        """Return the follower of a constraint that the reply matches from step `begun` on."""
        return self._model.grammars.follow_ids(constraint, self.past[self._reply + begun :])

    def drop_constraint(self, why: str) -> SettingsRecord:
        """Stop applying the constraint; return the record of that."""
        self.dropped = why
        return self.record_settings()

    def take_token(self, token: int) -> SettingsRecord | None:
        """Tell the constraint of the newest token; return a record if it does not fit, or if thoughts begin or end with it."""
        if self.constraint is None or self.dropped:
            return None
        thinking = self.thoughts.phase == "thinking"
        if thinking != (self.constraint_begun == NOT_YET):
            self._set_constraint(self.constraint, self.step)
            return self.record_settings()
        if thinking or self.grammar is None:
            return None
        first = self.constraint_begun == self.step - 1 and self.thoughts.thought > 0
        if first and self._model.piece(token).isspace() and not self.grammar.allows_token(token):
            self.constraint_begun += 1  # white space that is forced behind the thoughts
            return self.record_settings()
        self.grammar.take_token(token)
        return self.drop_constraint(self.grammar.problem) if self.grammar.problem else None

    @property
    def step(self) -> int:
        """The number of the next step."""
        return len(self.past) - self._reply

    @property
    def constrains(self) -> bool:
        """Whether the next token has to match a constraint."""
        return self.constraint is not None and not self.dropped and self.constraint_begun != NOT_YET

    @property
    def complete(self) -> bool:
        """Whether nothing that matches the constraint could follow."""
        return self.grammar is not None and not self.dropped and not self._queue and self.grammar.complete

    @property
    def incomplete(self) -> bool:
        """Whether the reply does not match the constraint yet."""
        if self.constraint is None or self.dropped:
            return False
        try:
            grammar = self.grammar or self._make_follower(self.constraint, self.constraint_begun)
        except EngineError:
            return False
        return not grammar.accepting

    def _set_conditions(self, conditions: tuple[Condition, ...]) -> None:
        """Replace the conditions. A text that the reply contains already does not count as met.

        Raises:
            EngineError: one cannot be used; those that were there stay.
        """
        try:
            rules = Rules(conditions, self.rules)
        except ConditionError as error:
            raise EngineError("condition", str(error), "change or delete the condition") from None
        said = self.past[self._reply :]
        self._match_in_time(rules, lambda: rules.resume(said, b"".join(map(self._model.piece, said))))
        self.rules, self.conditions = rules, conditions
        self.limit = min((c.tokens for c in conditions if isinstance(c, Length)), default=None)
        self._budget = min((c.tokens for c in conditions if isinstance(c, ThinkingBudget)), default=None)
        self.stops = [c.text for c in conditions if isinstance(c, Stop)]
        self.gate.set_stops(self.stops)

    def _use_threads(self, threads: int) -> bool:
        threads = min(threads, MOST_THREADS)
        if threads <= 0 or threads == self._context.threads:
            return False
        return self._context.set_threads(threads)
