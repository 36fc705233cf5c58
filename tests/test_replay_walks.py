"""`termchat replay` of replies that were made at once: all together or one alone, and what differs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from termchat.chat.opening import make_saver
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.conversation.unsent import Wish
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from termchat.models.gguf.header import read_header
from tests.chat.driven_chat import Driven
from tests.chats import chat_on
from tests.scripts import altered, said, termchat, use_model

RUN = ("--seed", "11", "--temperature", "1.1", "--repeat-penalty", "1.1", "--context", "2048", "--max-tokens", "24")
PROMPT = "Tell me a story about a fox."


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, small_model_path: Path) -> Path:
    return use_model(tmp_path_factory.mktemp("home"), small_model_path)


@pytest.fixture(scope="module")
def walks(home: Path) -> Path:
    """What `run --json` says of three walks."""
    path = home / "walks.jsonl"
    path.write_text(said(termchat(home, "run", PROMPT, *RUN, "--walks", "3", "--json")))
    return path


def counts(path: Path) -> list[int]:
    """The tokens of each walk."""
    found = [line["walk"] for line in map(json.loads, path.read_text().splitlines()) if line["record"] == "token"]
    return [found.count(walk) for walk in range(max(found) + 1)]


def test_walks_are_made_again_together(home: Path, walks: Path) -> None:
    *each, last = said(termchat(home, "replay", walks)).splitlines()
    made = counts(walks)
    assert each == [f"node {2 + walk} (walk {walk}): identical, {made[walk]} tokens" for walk in range(3)]
    assert last == f"identical, {sum(made)} tokens"


def test_one_walk_is_made_again_alone(home: Path, walks: Path) -> None:
    assert said(termchat(home, "replay", walks, "--walk", "1")) == f"identical, {counts(walks)[1]} tokens\n"
    missing = termchat(home, "replay", walks, "--walk", "3")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "there is no walk 3 that can be replayed alone" in missing.stderr


def test_what_differs_is_named_with_its_walk(home: Path, walks: Path, tmp_path: Path) -> None:
    def alter(line: dict[str, Any]) -> None:
        if line.get("step") == 5 and line["walk"] == 2:
            line["probability"] = math.nextafter(line["probability"], 0.5)

    other = altered(walks, tmp_path / "altered.jsonl", alter)
    report = said(termchat(home, "replay", other), 1)
    assert report.startswith("different at node 4 (walk 2), step 5: recorded ")
    assert "  probability: " in report
    found = json.loads(said(termchat(home, "replay", other, "--walk", "2", "--json"), 1))
    assert (found["identical"], found["walk"], found["step"], found["tokens"]) == (False, 2, 5, 5)
    assert said(termchat(home, "replay", other, "--walk", "0")).startswith("identical, ")


def test_walks_that_filled_the_context_are_made_again_with_more_room(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "full.jsonl"
    done = termchat(home, "run", "--raw", "Once", "--context", "256", "--walks", "16", "--seed", "4", "--json")
    assert done.returncode == 3
    path.write_text(done.stdout)
    assert said(termchat(home, "replay", path)).endswith(f"identical, {sum(counts(path))} tokens\n")


def test_a_search_is_made_again_and_its_steps_are_compared(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "beams.jsonl"
    search = ("--beams", "3", "--n-best", "2", "--context", "2048", "--max-tokens", "12", "--json")
    path.write_text(said(termchat(home, "run", PROMPT, *search)))
    *each, last = said(termchat(home, "replay", path)).splitlines()
    assert len(each) == 2
    assert last == f"identical, {sum(counts(path))} tokens"

    def alter(line: dict[str, Any]) -> None:
        if line["record"] == "beams" and line["step"] == 3:
            line["dropped"][0]["logprob"] -= 0.5

    report = said(termchat(home, "replay", altered(path, tmp_path / "altered.jsonl", alter)), 1).splitlines()
    assert report[0] == "different at node 2 (walk 0), step 3 of the search: its beams differ"
    assert report[1].startswith("  dropped[0].logprob: ")
    alone = termchat(home, "replay", path, "--walk", "0")
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "beam search are replayed together" in alone.stderr


class Saved(Driven):
    """A chat on the real engine; its knobs are given. `save` ends it, and writes a transcript."""

    def __init__(self, folder: Path, model_path: Path, **knobs: int) -> None:
        self._store, self._folder = Store.open(folder / "chats.db"), folder
        tuning = Tuning().turn_knobs({"seed": 3} | knobs)
        super().__init__(chat_on(LocalEngine(), tuning, conversation=Conversation("Be brief."), store=self._store))
        sha256 = read_header(model_path).identity()
        self.chat.loading.load(ModelSpec(str(model_path), "small", context=2048, threads=1, sha256=sha256))
        self.idle()

    def save(self) -> Path:
        saved = make_saver(self.chat.session, self._folder / "chat.jsonl")()
        self.chat.close()
        self._store.close()
        return saved


def test_a_search_without_a_limit_that_was_broken_off_is_made_again(
    home: Path, tmp_path: Path, small_model_path: Path
) -> None:
    driven = Saved(tmp_path, small_model_path)
    chat = driven.chat
    chat.send(PROMPT, Wish(walk_plan.beams(BeamSettings(3, n_best=2)), "wait"))
    driven.until(lambda: chat.phase == "paused")
    group = chat.walks.shown
    assert group is not None
    for _ in range(9):
        chat.replies.step()
    driven.until(lambda: len(group.beams) == 9 and chat.phase == "paused")
    chat.stop()
    driven.until(lambda: not chat.walks.running)
    assert [node.finished.reason for node in group.nodes.values() if node.finished] == ["user"] * 2
    assert said(termchat(home, "replay", driven.save())).endswith("identical, 18 tokens\n")


def test_steered_walks_and_what_follows_the_one_that_was_kept_are_made_again(
    home: Path, tmp_path: Path, small_model_path: Path
) -> None:
    driven = Saved(tmp_path, small_model_path, max_tokens=16)
    chat = driven.chat
    chat.send(PROMPT, Wish(walk_plan.walks(4), "wait"))
    driven.until(lambda: chat.phase == "paused")
    group = chat.walks.shown
    assert group is not None
    for step in range(1, 6):
        chat.replies.step()
        driven.until(lambda: all(len(node.tokens) == step for node in group.nodes.values()) and len(group.paused) == 4)  # noqa: B023
    assert chat.replies.run is not None
    chat.replies.run.adjust_settings({"temperature": 1.6, "top_k": 7}, 1)
    chat.walks.select_reply(2)
    chat.replies.force_tokens(group.nodes[0].ids[:2].tolist())
    chat.replies.stop(3)
    driven.until(lambda: len(group.nodes[2].tokens) == 7 and group.nodes[3].done)
    chat.walks.fork_reply(1, 3, [group.nodes[0].ids[0]])
    chat.replies.resume()
    driven.until(lambda: not chat.walks.running)
    assert len(group.nodes) == 5
    chat.walks.keep_reply(1)
    kept = group.nodes[1]
    answer = driven.say("And then?")
    chat.walks.start(walk_plan.walks(2), text="Thank you.")
    driven.until(lambda: len(chat.conversation.nodes) > 10 and not chat.walks.running)
    saved = driven.save()

    assert answer.prefill is not None
    assert answer.prefill.reused == len(chat.conversation.list_prompt(kept.number)) + len(kept.ids) - 1
    nodes = [node for node in chat.conversation.nodes.values() if node.start is not None]
    assert [node.walk for node in nodes] == [0, 1, 2, 3, 4, None, 0, 1]
    *each, last = said(termchat(home, "replay", saved)).splitlines()
    assert len(each) == 8
    assert last == f"identical, {sum(len(node.tokens) for node in nodes)} tokens"
    *each, last = said(termchat(home, "replay", saved, "--walk", "1")).splitlines()
    assert len(each) == 2
    assert last.startswith("identical, ")
