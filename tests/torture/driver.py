"""The process that is killed: `python -m tests.torture.driver KIND SEED`, with a home in its environment.

A chat on the real model without a screen. It goes on with the latest chat of the home, or begins another; makes sure that
what KIND names is going on, says so, and goes on with whatever the seed has it do, until it is killed or its input ends.
All that the store was given, and what of it is on the disk, goes out as JSON lines, each with its `monotonic` time.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import monotonic

from termchat import paths
from termchat.chat.opening import find_model, load_latest, make_saver
from termchat.config.settings import load
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.store.writer import Operation
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Failed, Finished, Record, Token
from termchat.engine.local import LocalEngine
from tests.chats import chat_on
from tests.torture.known import digest, mark

LONGEST = 120
"""Ids in a chat; after that a new one begins, so that no round waits long for a prompt."""

TEXTS = (
    "Once upon a time",
    "And then?",
    "The old fox said to the bear that",
    "1, 2, 3, 4,",
    "Why?",
    "Häuser, 家 and 🏠:",
)


def say(*what: object) -> None:
    """One line, whole or not at all."""
    os.write(1, json.dumps([*what, monotonic()]).encode() + b"\n")


class Witness(Store):
    """Keeps chats, and says what it was given and what it has on the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.focus = ""
        self.recovering = False
        self._marks: dict[tuple[str, int], list[int]] = {}
        self._waiting: list[tuple[Operation | None, str, Node]] = []

    def add_node(self, session: str, node: Node) -> None:
        super().add_node(session, node)
        say("node", session, node.number)
        if node.role == "user":
            self._wait(session, node)

    def add_record(self, session: str, number: int, record: Record) -> None:
        super().add_record(session, number, record)
        made = mark(record)
        marks = self._marks.setdefault((session, number), [])
        marks.append(made)
        say("record", session, number, made)
        if isinstance(record, Token) and len(marks) == 4:
            self.moment("streaming")
        if isinstance(record, Token) and self.recovering:
            self.recovering = False
            say("recovered")
        if isinstance(record, (Finished, Failed)):
            self._wait(session, self._live[session].nodes[number])
            self.moment("saving")

    def moment(self, kind: str) -> None:
        """Says once that what the round is about goes on."""
        if self.focus == kind:
            self.focus = ""
            say("moment")

    def look(self) -> None:
        """Says which turns have left the store's queue for the disk."""
        queued = {id(operation) for operation in self._writer.list_queued()}
        for waiting in list(self._waiting):
            operation, session, node = waiting
            if operation is None or id(operation) not in queued:
                self._waiting.remove(waiting)
                say("kept", session, node.number, digest(node, self._marks.get((session, node.number), [])))

    def _wait(self, session: str, node: Node) -> None:
        queued = self._writer.list_queued()  # without it the disk was faster than this line
        self._waiting.append((queued[-1] if queued else None, session, node))


class Driver:
    """Does things at random with a chat."""

    def __init__(self, kind: str, seed: int) -> None:
        self._random = Random(seed)
        self._kind = kind
        config = load({"context": 1024, "threads": 1, "seed": seed % 1000})
        Store.open(paths.store_file()).close()  # which repairs it
        store = self._witness = Witness(paths.store_file())
        session = load_latest(store, config)
        if session is None or len(session.conversation.list_ids()) >= LONGEST:
            conversation = Conversation(raw=self._random.random() < 0.7)
            session = Session(tuning=config.tuning, conversation=conversation, store=store)
        config, spec = find_model(config)
        self._witness.focus = kind
        engine = LocalEngine(paths.log_file())
        self.chat = chat_on(engine, session=session)
        self.chat.loading.load(spec)
        self._first = {"forking": self._fork, "exporting": self._export}.get(kind)
        self._things: list[tuple[int, Callable[[], None]]] = [
            (6, self._send), (3, self._fork), (2, self.chat.forks.regenerate), (2, self.chat.forks.continue_reply),
            (1, self._export), (1, self._rename), (1, self._delete), (1, self._new),
        ]  # fmt: skip

    def run(self) -> None:
        """Until the input ends; then in order."""
        self._length(90 if self._kind == "streaming" else 8)
        self._send()
        while not select.select([0], [], [], 0)[0]:
            self.chat.pump_events(0.01)
            self._witness.look()
            self._tell_troubles()
            if self.chat.phase == "failed":
                self._recover()
            elif self.chat.phase == "idle":
                self._next()
            elif self.chat.busy and self._random.random() < 0.01:
                self._random.choice((self._tune, self._fork, self.chat.stop, self._send))()
        self.chat.close()
        closed = self._witness.close(30)
        self._witness.look()
        say("closed", closed)

    def _next(self) -> None:
        self._length(self._random.choice((4, 12, 40)))
        if self.chat.turns.queue:  # it was stopped by hand, and what waits goes out with the next message
            self._send()
        elif self._first is not None and self._witness.focus:
            self._first()
        elif len(self.chat.conversation.list_ids()) > LONGEST:
            self._new()
        else:
            weights, things = zip(*self._things, strict=True)
            self._random.choices(things, weights)[0]()
        if self.chat.phase == "idle" and not self.chat.turns.queue:
            self._send()

    def _recover(self) -> None:
        failure = self.chat.failure
        if failure is None or failure.kind != "engine":
            raise SystemExit(f"not the engine's end, but {failure}")
        self._witness.recovering = True
        self.chat.loading.restart_engine()

    def _tell_troubles(self) -> None:
        problem = self._witness.problem()
        if problem is not None:
            say("trouble", problem)
        for notice in self._witness.notices():
            say("trouble", notice.message)

    # --- what a person does ------------------------------------------------------------------------------------------

    def _length(self, tokens: int) -> None:
        self.chat.adjust_setting("max_tokens", tokens)

    def _send(self) -> None:
        self.chat.send(self._random.choice(TEXTS))

    def _new(self) -> None:
        self.chat.new(raw=self._random.random() < 0.7)
        self._send()

    def _tune(self) -> None:
        self.chat.adjust_setting("temperature", self._random.choice((0.0, 0.5, 0.8, 1.3)))

    def _fork(self) -> None:
        nodes = [node for node in self._replies() if len(node.ids)]
        if nodes:
            node = self._random.choice(nodes)
            self._witness.moment("forking")
            self.chat.forks.fork_reply(
                node, self._random.randrange(len(node.ids)), text=self._random.choice(("", " but"))
            )

    def _rename(self) -> None:
        nodes = list(self.chat.conversation.nodes)
        if nodes:
            self.chat.branches.rename_branch(self._random.choice(nodes), "a way")

    def _delete(self) -> None:
        nodes = self._replies()
        if nodes:
            self.chat.branches.delete_branch(self._random.choice(nodes).number)
            self.chat.branches.restore_branch()

    def _export(self) -> None:
        if not self.chat.session.id:
            return
        path = Path(os.environ["HOME"]) / f"chat{self._random.choice(('.jsonl', '.md'))}"
        self._witness.moment("exporting")
        for _ in range(10 if self._kind == "exporting" else 1):
            make_saver(self.chat.session, path)()

    def _replies(self) -> list[Node]:
        chat = self.chat.conversation
        return [node for node in chat.nodes.values() if node.role == "assistant" and not chat.is_hidden(node.number)]


if __name__ == "__main__":
    Driver(sys.argv[1], int(sys.argv[2])).run()
