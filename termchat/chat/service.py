"""The chat: one conversation on one engine, and everything a person can do to it.

No method waits. What was asked is done when `pump` has brought the engine's answers; `pump` returns what changed since.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

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
from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Start, Token
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    Engine,
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
        self._asked: dict[int, Command] = {}
        self._turn: Node | None = None
        self._reply: Node | None = None
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
        self._ask(Load(spec))

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
            self._ask(Cancel())

    def regenerate(self) -> None:
        """Another reply to the last message, beside the one that is there."""
        spans = self.conversation.reply()
        if not self._ready("regenerate"):
            return
        if spans and spans[0].node.parent is not None:
            parent = self.conversation.nodes[spans[0].node.parent]
        else:
            leaf = self.conversation.leaf
            if leaf is None or spans:
                self._changed(Notice("there is no reply to make again"))
                return
            parent = self.conversation.nodes[leaf]
        self._generate(parent, len(parent.ids), seed=self._seed(), done=0)

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
        if last.finished is not None and last.finished.reason == "end":
            self._changed(Notice("the model ended this reply itself", "regenerate it, or write the next message"))
            return
        done = sum(span.count for span in spans)
        first = spans[0].node.start
        seed = first.seed if first is not None else self._seed()
        self._generate(last, len(last.ids), seed=seed, done=done)

    def new(self, system: str | None = None, *, raw: bool | None = None) -> None:
        """An empty conversation; the model and the knobs stay."""
        if self.busy:
            self.stop()
        old = self.conversation
        self.open(
            Conversation(old.system if system is None else system, raw=old.raw if raw is None else raw),
        )

    def open(self, conversation: Conversation, newest: Token | None = None) -> None:
        """Shows another conversation; `newest` is its last token's record, for the panels."""
        self._turn = self._reply = None
        self.conversation = conversation
        self.recorder.opened(conversation)
        self.live = Live.of(conversation, newest)
        self.queue.clear()
        if self.busy:
            self._enter("idle")
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
            self._ask(Adjust(turned.samplers(), turned.conditions(), dict(self.origin)))
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

    def _on_progress(self, _number: int, event: Progress) -> None:
        self.progress = event.fraction
        self._changed(StatusChanged())

    def _on_loaded(self, _number: int, event: Loaded) -> None:
        self.model = event.info
        self.progress = 1.0
        self.recorder.loaded(self.conversation, event.info)
        self._enter("idle")
        if self._continue_when_loaded:
            self._continue_when_loaded = False
            self.continue_reply()
        else:
            self._next()
            if self.live.token is not None and not self.busy:
                self._preview_wanted = True
                self._preview()

    def _on_rendered(self, number: int, event: Rendered) -> None:
        self._prompted(number, event.ids, whole=event.whole)

    def _on_tokenized(self, number: int, event: Tokenized) -> None:
        self._prompted(number, event.ids, whole=False)

    def _prompted(self, number: int, ids: list[int], *, whole: bool) -> None:
        """The prompt ids of the turn that was sent are there."""
        self._asked.pop(number, None)
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.prompt_ids.extend(ids)
        turn.whole = whole and turn.parent is not None
        length = len(self.conversation.ids())
        assert self.model is not None
        if self._cancelled:
            self._take_back(turn)
            return
        if length > self.model.context:
            self._take_back(turn)
            self._fail(
                Failed(
                    "context",
                    f"the prompt has {length} tokens, the context {self.model.context}",
                    "shorten it, start a new chat, or load the model with a larger --context",
                )
            )
            return
        self.recorder.turn(self.conversation, turn)
        self._generate(turn, len(turn.ids), seed=self._seed(), done=0)

    def _on_prefilling(self, _number: int, event: Prefilling) -> None:
        self.live.prefill_done, self.live.prefill_total = event.done, event.total
        self._changed(StatusChanged())

    def _on_first_token(self, _number: int, event: FirstToken) -> None:
        self.live.ttft_ms = event.ttft_ms

    def _on_record(self, _number: int, event: Record) -> None:
        reply = self._reply
        if reply is None:
            return
        reply.add(event)
        self.recorder.record(self.conversation, reply, event)
        self._changed(ReplyGrew(reply.number))
        if isinstance(event, Token):
            self.live.add(event)
            if self.phase != "decoding":
                self._enter("decoding")
            self._changed(LiveChanged())
        elif isinstance(event, Prefill):
            self.live.prefill = event
            self._changed(LiveChanged())
        elif isinstance(event, Finished):
            self.live.finished = event
            self._ended()
            if event.reason == "user":
                self._changed(StatusChanged())  # the queue waits: whoever pressed stop wants to look first
            else:
                self._next()

    def _on_failed(self, number: int, event: Failed) -> None:
        asked = self._asked.pop(number, None)
        if isinstance(asked, Inspect):
            self._previewing = 0
            if event.kind != "engine":
                return
        dead = event.kind == "engine"
        if self._turn is not None:
            self._take_back(self._turn)
        if self._reply is not None:
            self._on_record(number, event)
            self._ended()
        if dead or isinstance(asked, Load):
            self.model = None
            self._previewing = 0
            self._asked.clear()
            self._enter("failed")
        self._fail(event)

    def _on_inspected(self, number: int, event: Inspected) -> None:
        self._asked.pop(number, None)
        if number == self._previewing:
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

    def _ask(self, command: Command) -> int:
        number = self.engine.send(command)
        self._asked[number] = command
        return number

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

    def _next(self) -> None:
        """Sends the first text of the queue, if nothing else is going on."""
        if self.phase != "idle" or not self.queue:
            return
        text = self.queue.popleft()
        chat = self.conversation
        parent = chat.nodes[chat.leaf] if chat.leaf is not None else None
        turn = chat.grow("user", parent=parent.number if parent else None, at=parent.kept() if parent else 0, text=text)
        self._turn, self._cancelled = turn, False
        self._enter("rendering")
        self._changed(PathChanged())
        if chat.raw:
            self._ask(Tokenize(text, begin=parent is None))
            return
        messages = [Message("system", chat.system)] if chat.system else []
        messages += [Message(role, content) for role, content in chat.turns()]
        ended = parent.ids[-1] if parent is not None and parent.finished and parent.finished.reason == "end" else None
        after_reply = parent is not None and parent.role == "assistant"
        self._ask(Render(messages, after_reply=after_reply, reply_ended=ended))

    def _take_back(self, turn: Node) -> None:
        """A turn that could not be sent leaves the chat; its text goes back to whoever typed it."""
        self._turn = None
        self.conversation.drop(turn)
        self.returned = turn.written
        self._enter("idle")
        self._changed(PathChanged())

    def _generate(self, parent: Node, at: int, *, seed: int, done: int) -> None:
        reply = self.conversation.grow("assistant", parent=parent.number, at=at)
        self._reply = reply
        self.live.begin()
        self.recorder.turn(self.conversation, reply)
        self._enter("prefill")
        self._changed(PathChanged(), LiveChanged())
        self._ask(
            Generate(
                ids=self.conversation.ids(),
                samplers=self.tuning.samplers(),
                conditions=self.tuning.conditions(),
                seed=seed,
                origin=dict(self.origin),
                done=done,
                raw=self.conversation.raw,
                candidates=self._candidates,
            )
        )

    def _ended(self) -> None:
        self._reply = None
        self._enter("idle")
        self._changed(LiveChanged())

    def _preview(self) -> None:
        """Asks for the shown step under the knobs as they are; one question at a time, the newest knobs win."""
        spans = self.conversation.reply()
        start = spans[0].node.start if spans else None
        if not self._preview_wanted or self._previewing or self.phase != "idle" or start is None:
            return
        tokens = sum(span.count for span in spans)
        if not tokens:
            return
        self._preview_wanted = False
        self._previewing = self._ask(
            Inspect(
                ids=self.conversation.ids()[:-1],
                samplers=self.tuning.samplers(),
                seed=start.seed,
                done=tokens - 1,
                candidates=self._candidates,
            )
        )
