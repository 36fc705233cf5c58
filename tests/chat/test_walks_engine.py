"""Several replies at once on the real engine: what the chat goes on from, and what is left when the engine dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from termchat.chat.groups import list_groups
from termchat.chat.opening import load_latest
from termchat.chat.reply_group import ReplyGroup
from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.conversation.unsent import Wish
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven, Make
from tests.made_walks import ids_of

STORY = "Write a long story about a fox, a bear and the sea, in many chapters."


@pytest.fixture
def spec(spec: ModelSpec) -> ModelSpec:
    """With what the header says of its weights: these are computed in a batch as alone."""
    return msgspec.structs.replace(spec, quantization="Q4_1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "sessions.db")
    yield opened
    opened.close()


def walking(driven: Driven, walks: int, tokens: int, text: str = STORY) -> ReplyGroup:
    """A message that is answered several times; each walk has so many tokens."""
    driven.idle()
    driven.chat.walks.start(walk_plan.walks(walks), text=text)
    driven.until(lambda: driven.chat.walks.shown)
    group = driven.chat.walks.shown
    assert group is not None
    driven.until(lambda: all(len(node.tokens) >= tokens for node in group.nodes.values()))
    return group


@pytest.mark.model
def test_a_knob_is_turned_for_all_one_is_kept_and_nothing_is_decoded_twice(make: Make, store: Store) -> None:
    tuning = Tuning(seed=5, max_tokens=40)
    driven = make(tuning, store=store)
    group = walking(driven, 4, 4)
    driven.chat.adjust_setting("temperature", 1.3)
    driven.chat.send("And then?")
    driven.until(lambda: all(len(node.settings) == 2 for node in group.nodes.values()))
    driven.chat.walks.keep_reply(2)
    driven.idle()
    kept, others = group.nodes[2], [group.nodes[walk] for walk in (0, 1, 3)]
    assert [node.settings[1].samplers.temperature for node in group.nodes.values()] == [1.3] * 4
    assert {node.finished.reason for node in others if node.finished is not None} == {"user"}
    assert kept.finished is not None
    assert kept.finished.reason in ("length", "end")
    assert len({tuple(node.ids[:4]) for node in group.nodes.values()}) > 1
    reply = driven.reply
    turn = driven.chat.conversation.nodes[reply.parent or 0]
    assert turn.parent == kept.number
    assert reply.prefill is not None
    assert reply.prefill.tokens - reply.prefill.reused <= len(turn.ids) + 1  # the walk's last token was never decoded
    assert kept.start is not None
    assert kept.start.exact
    assert reply.start is not None
    assert reply.start.exact
    driven.chat.close()

    assert store.flush()
    found = load_latest(store, load({}, environ={}, file=Path("/none.toml")))
    assert found is not None
    [again] = list_groups(found.conversation)
    assert {walk: list(node.ids) for walk, node in again.nodes.items()} == {
        walk: list(node.ids) for walk, node in group.nodes.items()
    }
    other = make(found.tuning, session=found)
    other.idle()
    other.chat.forks.regenerate(same=True)
    other.idle()
    made = other.reply
    assert made is not found.conversation.nodes[reply.number]
    assert list(made.ids) == list(reply.ids)
    assert list(made.tokens.logprobs) == list(reply.tokens.logprobs)  # its cells are made as the walk's were


def test_killed_in_mid_walk_all_that_was_said_stays_and_one_goes_on_alone(make: Make) -> None:
    driven = make(Tuning(seed=5, max_tokens=24))
    group = walking(driven, 3, 5)
    engine = driven.chat.engine
    assert isinstance(engine, LocalEngine)
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    driven.until(lambda: driven.chat.phase == "failed")
    assert all(node.failed is not None and len(node.tokens) >= 5 for node in group.nodes.values())
    assert not driven.chat.walks.running
    driven.chat.walks.select_reply(1)
    driven.chat.loading.restart_engine()
    driven.idle()
    whole = [i for span in driven.chat.conversation.find_reply() for i in span.node.ids]
    assert whole[: len(group.nodes[1].ids)] == list(group.nodes[1].ids)
    driven.chat.adjust_setting("seed", 6)
    driven.chat.forks.regenerate()
    driven.idle()
    assert list(driven.reply.ids) == whole  # as the same seed alone


def test_from_a_token_of_a_reply_with_its_own_dice_and_back(make: Make) -> None:
    driven = make(Tuning(seed=5, max_tokens=16))
    reply = driven.say(STORY)
    chat = driven.chat
    plan = walk_plan.compare({"temperature": 0.8}, {"temperature": 0.0})
    chat.forks.fork_reply(reply, 6, wish=Wish(plan, "wait"))
    driven.until(lambda: chat.walks.running and chat.phase == "paused")
    group = chat.walks.shown
    assert group is not None
    for _ in range(4):
        before = dict(group.paused)
        chat.replies.step()
        driven.until(lambda: all(group.paused.get(walk) not in (None, before[walk]) for walk in before))  # noqa: B023
    assert [len(node.ids) for node in group.nodes.values()] == [4, 4]
    assert list(group.nodes[0].ids) == list(reply.ids[6:10])
    chat.walks.fork_reply(1, 2, [reply.ids[0]])
    driven.until(lambda: 2 in group.nodes and len(group.nodes[2].ids) >= 2)
    assert ids_of(group, 2)[:3] == [*group.nodes[1].ids[:2], reply.ids[0]]
    chat.questions.score_reply(group.nodes[1])
    driven.until(lambda: chat.questions.scored)
    chat.walks.leave_group()
    driven.idle()
    assert driven.reply is reply
    assert len(chat.conversation.list_children(reply.number)) == 2


def test_a_search_is_gone_on_with_from_a_beam_that_it_dropped(make: Make) -> None:
    driven = make(Tuning(max_tokens=6))
    chat = driven.chat
    driven.idle()
    chat.walks.start(walk_plan.beams(BeamSettings(3, n_best=2)), text="The capital of France is")
    driven.until(lambda: chat.walks.shown is not None and chat.walks.shown.ended is not None)
    group = chat.walks.shown
    assert group is not None
    assert [len(ids_of(group, walk)) for walk in group.nodes] == [6, 6]
    step = group.beams[2]
    lost = step.dropped[0]
    chat.walks.branch_of_beam(step.step, lost.walk, dropped=True)
    driven.idle()
    branch = driven.reply
    assert len(branch.ids) == 3
    assert branch.ids[-1] == lost.id
    assert sum(branch.tokens.logprobs) / 3 == pytest.approx(lost.score, abs=1e-3)
    chat.forks.continue_reply()
    driven.idle()
    assert [len(span.node.ids) for span in chat.conversation.find_reply()] == [3, 3]


def test_from_what_a_search_found_the_chat_goes_on_with_nothing_decoded_twice(make: Make) -> None:
    driven = make(Tuning(max_tokens=8))
    chat = driven.chat
    driven.idle()
    chat.walks.start(walk_plan.beams(BeamSettings(4, n_best=3)), text=STORY)
    driven.until(lambda: chat.walks.shown is not None and chat.walks.shown.ended is not None)
    group = chat.walks.shown
    assert group is not None
    chat.walks.keep_reply(2)
    chat.send("And then?")
    driven.idle()
    reply, kept = driven.reply, group.nodes[2]
    turn = chat.conversation.nodes[reply.parent or 0]
    assert turn.parent == kept.number
    assert reply.prefill is not None
    assert reply.prefill.tokens - reply.prefill.reused <= len(turn.ids) + 1  # the last token was never decoded
    assert kept.start is not None
    assert kept.start.exact
    assert reply.start is not None
    assert reply.start.exact
