"""Whatever a person does with walks, in whatever order, the chat comes to rest and what it shows is there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from termchat.chat.groups import list_groups
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.unsent import Wish
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings, GridKnob
from termchat.decoding.samplers import Tuning
from termchat.decoding.walk_plan import WalkPlan
from tests.chat.driven_chat import Faked
from tests.made_walks import ids_of

PLANS: tuple[Callable[[], WalkPlan], ...] = (
    lambda: walk_plan.walks(3),
    lambda: walk_plan.grid([GridKnob("temperature", (0.0, 1.0))], runs=2),
    lambda: walk_plan.best(2),
    lambda: walk_plan.vote(3, r"\d"),
    lambda: walk_plan.compare({"top_k": 3}, {}),
    lambda: walk_plan.beams(BeamSettings(2, n_best=2)),
)


class Somebody:
    """A person at a chat, who does anything, and an engine that says anything."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.it = Faked(Tuning(max_tokens=6) if seed % 2 else Tuning(seed=4))
        self.seen: list[Conversation] = []
        self.done: list[str] = []
        chat = self.it.chat
        walks, replies, forks = chat.walks, chat.replies, chat.forks
        walk, some, at = (lambda: random.randint(0, 4)), (lambda: random.choice([None, 0, 1])), self._at
        self.deeds: dict[str, Callable[[], object]] = {
            "speak": self._speak, "speak on": self._speak, "speak more": self._speak,
            "hear": self.it.pump,
            "walk a message": lambda: walks.start(self._plan(), text="t"),
            "walk and wait": lambda: self._seldom(lambda: chat.send("t", Wish(self._plan(), "wait"))),
            "walk again": lambda: walks.start(self._plan()),
            "walk from": lambda: at(lambda node, at: walks.start(self._plan(), node=node, at=at)),
            "keep": lambda: walks.keep_reply(walk()), "keep all": walks.keep_all, "leave": walks.leave_group,
            "end": replies.stop, "stop one": lambda: replies.stop(walk()), "stop": chat.stop,
            "select": lambda: walks.select_reply(walk()),
            "join": lambda: walks.fork_reply(walk(), random.randint(0, 3), random.choice([(), (7,)])),
            "pause": lambda: replies.pause(some()), "resume": lambda: replies.resume(some()),
            "step": lambda: replies.step(random.choice(["token", "line"]), some()),
            "step the reply": lambda: replies.step("token"), "pause the reply": replies.pause,
            "force": lambda: replies.force_tokens([9]), "force a text": lambda: replies.force_text(" x y"),
            "turn": lambda: chat.adjust_setting("temperature", random.choice([0.1, 0.9])),
            "turn one": lambda: replies.run and replies.run.adjust_settings({"top_k": random.randint(1, 9)}, some()),
            "send": lambda: chat.send("m"), "regenerate": forks.regenerate, "continue": forks.continue_reply,
            "fork": lambda: at(lambda node, at: forks.fork_reply(node, at, ids=[5])),
            "branch of a beam": lambda: walks.branch_of_beam(0, random.randint(0, 3), dropped=random.random() < 0.5),
            "select a branch": lambda: self._node(chat.branches.select_leaf),
            "delete": lambda: self._seldom(lambda: self._node(chat.branches.delete_branch)),
            "restore": chat.branches.restore_branch,
            "open": lambda: [walks.open(group.group.number) for group in list_groups(chat.conversation)[-1:]],
            "new": lambda: self._seldom(chat.new), "unload": lambda: self._seldom(chat.loading.unload_model),
            "die": lambda: self._seldom(self.it.engine.die), "restart": chat.loading.restart_engine,
            "inspect": lambda: at(chat.questions.inspect_token),
            "score": lambda: at(lambda node, _: chat.questions.score_reply(node)),
        }  # fmt: skip

    def act(self) -> None:
        name = self.random.choice(list(self.deeds))
        self.done.append(name)
        self.deeds[name]()
        if self.it.chat.conversation not in self.seen:
            self.seen.append(self.it.chat.conversation)

    def rest(self) -> None:
        """All that runs ends by itself."""
        for _ in range(40):
            self.it.pump()
            if self.it.engine.speaking:
                self.it.engine.end("length")
        self.it.pump()

    def _plan(self) -> WalkPlan:
        return self.random.choice(PLANS)()

    def _seldom(self, deed: Callable[[], object]) -> None:
        if self.random.random() < 0.2:
            deed()

    def _node(self, deed: Callable[[int], object]) -> None:
        if self.it.chat.conversation.nodes:
            deed(self.random.choice(list(self.it.chat.conversation.nodes)))

    def _at(self, deed: Callable[[Node, int], object]) -> None:
        replies = [node for node in self.it.chat.conversation.nodes.values() if node.role == "assistant"]
        if replies:
            node = self.random.choice(replies)
            deed(node, self.random.randint(0, len(node.ids)))

    def _speak(self) -> None:
        engine, chance = self.it.engine, self.random.random()
        speaking = [walk for walk, waits in engine.speaking.items() if not waits]
        if not speaking:
            return
        walk = self.random.choice(speaking)
        if engine.searching:
            engine.look(" a", " b", dropped=[" c"]) if chance < 0.7 else engine.end("length")
        elif chance < 0.75:
            engine.say(f" {self.random.randint(0, 9)}", walk=walk)
        else:
            engine.end(self.random.choice(["end", "length", "context", "stop"]), walk=walk)


@pytest.mark.parametrize("seed", range(60))
def test_it_comes_to_rest(seed: int) -> None:
    somebody = Somebody(seed)
    chat = somebody.it.chat
    for _ in range(120):
        somebody.act()
        somebody.it.told += chat.pump_events() if somebody.random.random() < 0.5 else []
    somebody.rest()
    assert chat.phase in ("idle", "failed", "no model"), somebody.done
    assert not chat.walks.running
    assert chat.replies.run is None
    assert chat.paused is None
    for conversation in somebody.seen:
        assert all(node.done for node in conversation.nodes.values())
        for group in list_groups(conversation):
            assert all(ids_of(group, walk) is not None for walk in group.nodes)
    shown = chat.walks.shown
    assert shown is None or shown.nodes[shown.cursor].number == chat.conversation.leaf
