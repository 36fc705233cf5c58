"""The chat: one conversation on one engine, and everything a person can do to it.

No method waits. What was asked is done when `pump` has brought the engine's answers; `pump` returns what changed since.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from termchat.chat.changes import (
    Change,
    LiveChanged,
    Notice,
    PathChanged,
    Phase,
    ReplyGrew,
    StatusChanged,
    TuningChanged,
)
from termchat.chat.live import Live
from termchat.chat.recorder import NoRecorder, Recorder
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Condition, Length
from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Start, Token
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.port import (
    Adjust,
    Cancel,
    Engine,
    EngineError,
    Event,
    FirstToken,
    Generate,
    Inspect,
    Inspected,
    Load,
    Loaded,
    Message,
    ModelInfo,
    ModelSpec,
    Prefilling,
    Progress,
    Render,
    Rendered,
    Tokenize,
    Tokenized,
)

BUSY: tuple[Phase, ...] = ("rendering", "prefill", "decoding")


class _Asked(NamedTuple):
    """A question that is open: its number, and what its answers belong to, whatever is shown by then."""

    number: int
    conversation: Conversation
    node: Node


class Chat:
    """One conversation on one engine.

    `tuning` is what the next token is drawn with, `origin` where each knob's value came from. `queue` holds texts that were
    sent while a reply was running or the model was loading; they go out in order, one after each reply. `failure` is what
    last went wrong, `returned` the text of a turn that could not be sent.
    """

    def __init__(
        self,
        engine: Engine,
        tuning: Tuning | None = None,
        *,
        origin: dict[str, str] | None = None,
        conversation: Conversation | None = None,
        recorder: Recorder | None = None,
        newest: Token | None = None,
        candidates: int = 20,
    ) -> None:
        self.engine = engine
        self.tuning = tuning or Tuning()
        self.origin = dict.fromkeys(KNOBS, "default") | (origin or {})
        self.conversation = conversation or Conversation()
        self.recorder: Recorder = recorder or NoRecorder()
        self.live = Live.of(self.conversation, newest)
        self.queue: deque[str] = deque()
        self.phase: Phase = "no model"
        self.progress = 0.0
        self.spec: ModelSpec | None = None
        self.model: ModelInfo | None = None
        self.failure: Failed | None = None
        self.returned = ""
        self._candidates = candidates
        self._changes: list[Change] = []
        self._loading = 0
        self._turn: _Asked | None = None
        self._reply: _Asked | None = None
        self._longer = 0
        self._cancelled = False
        self._continue_when_loaded = False
        self._preview_wanted = False
        self._previewing = 0

    # --- what a person does ------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a reply is being made."""
        return self.phase in BUSY

    def load(self, spec: ModelSpec) -> None:
        """Loads a model, in place of the one that is there."""
        self.spec, self.model, self.failure, self.progress = spec, None, None, 0.0
        self._enter("loading")
        try:
            self._loading = self.engine.send(Load(spec))
        except EngineError as error:  # the process cannot be started; every other command meets one that runs
            self._enter("failed")
            self._fail(Failed(error.kind, error.message, error.hint))

    def send(self, text: str) -> None:
        """The person's next message; it waits in the queue while something else is going on."""
        self.queue.append(text)
        self._changed(StatusChanged())
        self._next()

    def stop(self) -> None:
        """Ends the running reply; what it has stays. The queue is kept, but waits for the next message."""
        if self.phase == "rendering":
            self._cancelled = True
        elif self.busy:
            self.engine.send(Cancel())

    def regenerate(self) -> None:
        """Another reply to the last message, beside the one that is there."""
        if not self._ready("regenerate"):
            return
        chat = self.conversation
        spans = chat.reply()
        number = spans[0].node.parent if spans else chat.leaf
        if number is None:
            self._changed(Notice("there is no reply to make again"))
            return
        turn = chat.nodes[number]
        if self._is_foreign():  # its ids are another model's: the message is sent again
            self._begin(turn.written, chat.nodes[turn.parent] if turn.parent is not None else None, turn.at)
        else:
            self._generate(turn, len(turn.ids), seed=self._seed(), done=0)

    def continue_reply(self) -> None:
        """Goes on with the last reply from its last token, with its own seed, as if it had never stopped."""
        spans = self.conversation.reply()
        if not self._ready("continue"):
            return
        if not spans:
            if self.conversation.leaf is not None:
                self.regenerate()
            return
        last = spans[-1].node
        reason = last.finished.reason if last.finished is not None else None
        if reason == "end":
            self._changed(Notice("the model ended this reply itself", "regenerate it, or write the next message"))
            return
        if self._is_foreign():
            self._changed(Notice("another model wrote this reply", "regenerate it, or write the next message"))
            return
        done = sum(span.count for span in spans)
        first = spans[0].node.start
        seed = first.seed if first is not None else self._seed()
        # Whoever continues a reply that was long enough wants as much again.
        self._generate(last, len(last.ids), seed=seed, done=done, longer=done if reason == "length" else 0)

    def new(self, system: str | None = None, *, raw: bool | None = None) -> None:
        """An empty conversation; the model and the knobs stay."""
        old = self.conversation
        self.open(Conversation(old.system if system is None else system, raw=old.raw if raw is None else raw))

    def open(self, conversation: Conversation, newest: Token | None = None) -> None:
        """Shows another conversation; `newest` is its last token's record, for the panels.

        A reply that is running ends, and its end is kept with the conversation it belongs to; a message sent meanwhile
        waits for that.
        """
        if self.busy:
            self.stop()
        self.conversation = conversation
        self.recorder.opened(conversation)
        self.live = Live.of(conversation, newest)
        self.queue.clear()
        self._preview_wanted = self._continue_when_loaded = False
        self._previewing = 0
        self._changed(PathChanged(), LiveChanged(), StatusChanged())

    def adjust(self, name: str, value: object) -> None:
        """Turns a knob: the next token obeys, or while nothing runs the shown distribution is reshaped.

        Raises:
            KnobError: the knob refuses the value; nothing has changed.
        """
        turned = self.tuning.turned({name: value})
        if turned == self.tuning:
            return
        self.tuning = turned
        self.origin[name] = "panel"
        self._changed(TuningChanged())
        self.recorder.tuned(self.conversation, turned)
        if self.phase in ("prefill", "decoding"):
            self.engine.send(Adjust(turned.samplers(), self._conditions(), dict(self.origin)))
        else:
            self._preview_wanted = True
            self._preview()

    def restart(self) -> None:
        """Starts the engine anew after it died, loads the model, and goes on with a reply that was cut off."""
        if self.spec is None or self.phase not in ("failed", "no model"):
            return
        spans = self.conversation.reply()
        leaf = self.conversation.leaf
        cut_off = spans[-1].node.failed is not None if spans else leaf is not None
        self._continue_when_loaded = cut_off
        self.load(self.spec)

    def close(self) -> None:
        """Ends the engine; a reply that is running is cancelled first, so that its end is on record."""
        if self.busy and self.engine.alive:
            self.stop()
            for _ in range(20):
                self.pump(0.05)
                if self._reply is None or not self.engine.alive:
                    break
        self.engine.close()

    # --- what the engine says ----------------------------------------------------------------------------------------

    def pump(self, timeout: float | None = 0.0) -> list[Change]:
        """Takes in all that the engine has said, waiting up to `timeout` seconds for the first word of it."""
        if self.engine.alive:
            for number, event in self.engine.receive(timeout):
                handler = self._HANDLERS.get(type(event))
                if handler is not None:
                    handler(self, number, event)
        self._changes += [Notice(*told, "warning") for told in self.recorder.notices()]
        changes, self._changes = self._changes, []
        return changes

    def _on_progress(self, number: int, event: Progress) -> None:
        if number == self._loading:
            self.progress = event.fraction
            self._changed(StatusChanged())

    def _on_loaded(self, number: int, event: Loaded) -> None:
        if number != self._loading:
            return
        self.model = event.info
        self.progress = 1.0
        self.recorder.loaded(self.conversation, event.info)
        self._enter("idle")
        if self._continue_when_loaded:
            self._continue_when_loaded = False
            self.continue_reply()
        self._next()

    def _on_rendered(self, number: int, event: Rendered) -> None:
        self._prompted(number, event.ids, whole=event.whole)

    def _on_tokenized(self, number: int, event: Tokenized) -> None:
        self._prompted(number, event.ids, whole=self._is_foreign())

    def _prompted(self, number: int, ids: list[int], *, whole: bool) -> None:
        """The prompt ids of the turn that was sent are there."""
        asked = self._turn
        if asked is None or asked.number != number or self.model is None:
            return
        turn = asked.node
        turn.prompt_ids.extend(ids)
        turn.whole = whole and turn.parent is not None
        length = len(asked.conversation.ids())
        if self._cancelled:
            self._take_back()
            self._next()
            return
        if length > self.model.context:
            self._take_back()
            self._fail(
                Failed(
                    "context",
                    f"the prompt has {length} tokens, the context {self.model.context}",
                    "shorten it, start a new chat, or load the model with a larger --context",
                )
            )
            self._next()
            return
        self._turn = None
        self.recorder.turn(self.conversation, turn)
        self._generate(turn, len(turn.ids), seed=self._seed(), done=0)

    def _on_prefilling(self, number: int, event: Prefilling) -> None:
        if self._is_shown(number):
            self.live.prefill_done, self.live.prefill_total = event.done, event.total
            self._changed(StatusChanged())

    def _on_first_token(self, number: int, event: FirstToken) -> None:
        if self._is_shown(number):
            self.live.ttft_ms = event.ttft_ms

    def _on_record(self, number: int, event: Record) -> None:
        reply = self._reply
        if reply is None or reply.number != number:
            return
        reply.node.add(event)
        self.recorder.record(reply.conversation, reply.node, event)
        if self._is_shown(number):
            self._changed(ReplyGrew(reply.node.number))
            self._show(event)
        if isinstance(event, Token) and self.phase != "decoding":
            self._enter("decoding")
        elif isinstance(event, Finished):
            shown = self._is_shown(number)
            self._ended()
            # Whoever pressed stop wants to look first; whoever opened another chat goes on there.
            if event.reason != "user" or not shown:
                self._next()

    def _show(self, event: Record) -> None:
        """Brings the newest of the reply on the screen to the panels."""
        if isinstance(event, Token):
            self.live.add(event)
        elif isinstance(event, Prefill):
            self.live.prefill = event
        elif isinstance(event, Settings):
            self.live.threads = event.threads
        elif isinstance(event, Finished):
            self.live.finished = event
        self._changed(LiveChanged())

    def _on_failed(self, number: int, event: Failed) -> None:
        dead = event.kind == "engine"
        if number == self._previewing and not dead:
            self._previewing = 0
            return
        if self._turn is not None and (dead or number == self._turn.number):
            self._take_back()
        if self._reply is not None and (dead or number == self._reply.number):
            self._on_record(self._reply.number, event)
            self._ended()
        if dead or number == self._loading:
            self.model = None
            self._previewing = 0
            self._enter("failed")
        self._fail(event)
        self._next()

    def _on_inspected(self, number: int, event: Inspected) -> None:
        if number != self._previewing:
            return
        self._previewing = 0
        if not self.busy:
            self.live.preview, self.live.preview_recomputed = event.token, event.recomputed
            self._changed(LiveChanged())
        self._preview()

    _HANDLERS: dict[type[Event], Callable[[Chat, int, Any], None]] = {  # noqa: RUF012 - a table, never changed
        Progress: _on_progress,
        Loaded: _on_loaded,
        Rendered: _on_rendered,
        Tokenized: _on_tokenized,
        Prefilling: _on_prefilling,
        FirstToken: _on_first_token,
        Start: _on_record,
        Settings: _on_record,
        Prefill: _on_record,
        Token: _on_record,
        Finished: _on_record,
        Failed: _on_failed,
        Inspected: _on_inspected,
    }

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _changed(self, *changes: Change) -> None:
        self._changes += [change for change in changes if isinstance(change, Notice) or change not in self._changes]

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._changed(StatusChanged())

    def _fail(self, failure: Failed) -> None:
        self.failure = failure
        hint = failure.hint
        if failure.kind == "engine" and not hint:
            hint = "restart the engine to go on from the last token"
        self._changed(Notice(failure.message, hint, "error"))

    def _ready(self, what: str) -> bool:
        if self.phase == "idle":
            return True
        why = "a reply is running" if self.busy else "no model is loaded"
        self._changed(Notice(f"cannot {what}: {why}"))
        return False

    def _seed(self) -> int:
        return secrets.randbelow(2**31) if self.tuning.seed is None else self.tuning.seed

    def _conditions(self) -> tuple[Condition, ...]:
        """What ends the running reply; a continued one may become as much longer as was agreed when it began."""
        return tuple(
            Length(tokens=condition.tokens + self._longer) if isinstance(condition, Length) else condition
            for condition in self.tuning.conditions()
        )

    def _is_shown(self, number: int) -> bool:
        """Whether the reply with this number belongs to the conversation on the screen."""
        reply = self._reply
        return reply is not None and reply.number == number and reply.conversation is self.conversation

    def _is_foreign(self) -> bool:
        """Whether another model than the one that is loaded made ids of the path."""
        if self.model is None:
            return False
        foreign = False
        for span in self.conversation.path():
            foreign = foreign and not span.node.whole
            start = span.node.start
            foreign = foreign or (start is not None and start.model.sha256 != self.model.sha256)
        return foreign

    def _next(self) -> None:
        """Sends the first text of the queue, if nothing else is going on."""
        if self.phase != "idle" or not self.queue:
            return
        chat = self.conversation
        parent = chat.nodes[chat.leaf] if chat.leaf is not None else None
        self._begin(self.queue.popleft(), parent, parent.kept() if parent else 0)

    def _begin(self, text: str, parent: Node | None, at: int) -> None:
        """A new turn behind `parent`: asks for its prompt ids."""
        chat = self.conversation
        chat.leaf = parent.number if parent else None
        foreign = self._is_foreign()
        turn = chat.grow("user", parent=chat.leaf, at=at, text=text)
        self._cancelled = False
        if chat.raw:
            whole = "".join(said for _, said in chat.turns())
            number = self.engine.send(Tokenize(whole if foreign else text, begin=foreign or parent is None))
        else:
            messages = [Message("system", chat.system)] if chat.system else []
            messages += [Message(role, content) for role, content in chat.turns()]
            finished = parent.finished if parent is not None else None
            ended = parent.ids[-1] if parent is not None and finished and finished.reason == "end" else None
            after_reply = parent is not None and parent.role == "assistant" and not foreign
            number = self.engine.send(Render(messages, after_reply=after_reply, reply_ended=ended))
        self._turn = _Asked(number, chat, turn)
        self._enter("rendering")
        self._changed(PathChanged())

    def _take_back(self) -> None:
        """A turn that could not be sent leaves its chat; its text goes back to whoever typed it."""
        assert self._turn is not None
        _, chat, turn = self._turn
        self._turn = None
        chat.drop(turn)
        if chat is self.conversation:
            self.returned = turn.written
        self._enter("idle")
        self._changed(PathChanged())

    def _generate(self, parent: Node, at: int, *, seed: int, done: int, longer: int = 0) -> None:
        chat = self.conversation
        reply = chat.grow("assistant", parent=parent.number, at=at)
        self._longer = longer
        self.live.begin()
        self.recorder.turn(chat, reply)
        self._enter("prefill")
        self._changed(PathChanged(), LiveChanged())
        number = self.engine.send(
            Generate(
                ids=chat.ids(),
                samplers=self.tuning.samplers(),
                conditions=self._conditions(),
                seed=seed,
                origin=dict(self.origin),
                done=done,
                raw=chat.raw,
                candidates=self._candidates,
            )
        )
        self._reply = _Asked(number, chat, reply)

    def _ended(self) -> None:
        self._reply = None
        self._enter("idle")
        self._changed(LiveChanged())

    def _preview(self) -> None:
        """Asks for the shown step under the knobs as they are; one question at a time, the newest knobs win."""
        spans = self.conversation.reply()
        start = spans[0].node.start if spans else None
        if not self._preview_wanted or self._previewing or self.phase != "idle" or start is None or self._is_foreign():
            return
        tokens = sum(span.count for span in spans)
        if not tokens:
            return
        self._preview_wanted = False
        self._previewing = self.engine.send(
            Inspect(
                ids=self.conversation.ids()[:-1],
                samplers=self.tuning.samplers(),
                seed=start.seed,
                done=tokens - 1,
                candidates=self._candidates,
            )
        )
