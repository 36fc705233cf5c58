"""The chat on the real engine: turns, steering, deaths, and what is kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from termchat.chat.changes import LiveChanged, TuningChanged
from termchat.chat.opening import load_latest, make_saver
from termchat.config.settings import load
from termchat.conversation.session import title_of
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.decoding.setting import SettingError
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from tests.chat.driven_chat import Driven, Make
from tests.chats import chat_on


def test_turns_reuse_every_cell(make: Make) -> None:
    driven = make(Tuning(max_tokens=25, seed=1), conversation=Conversation("You are a pirate."))
    for n, text in enumerate(["Hello!", "Where is the treasure?", "And the map?"]):
        before = driven.chat.conversation.list_ids()
        reply = driven.say(text)
        prefill = reply.prefill
        assert prefill is not None
        # The last drawn token of the reply before was never decoded; all others are reused.
        assert prefill.reused == max(len(before) - 1, 0)
        assert prefill.tokens == len(driven.chat.conversation.list_ids()) - len(reply.ids)
        assert [role for role, _ in driven.chat.conversation.list_turns()] == ["user", "assistant"] * (n + 1)
    assert reply.start is not None
    assert driven.chat.live.ttft_ms == reply.finished.ttft_ms if reply.finished else False


def test_what_was_sent_too_early_waits(make: Make) -> None:
    driven = make(Tuning(max_tokens=5))
    assert driven.chat.phase == "loading"
    driven.chat.send("one")
    driven.chat.send("two")
    assert list(driven.chat.turns.queue) == ["one", "two"]
    driven.idle()
    assert [text for role, text in driven.chat.conversation.list_turns() if role == "user"] == ["one", "two"]


def test_stop_keeps_the_reply_and_continue_goes_on_as_if_never_stopped(make: Make) -> None:
    tuning = Tuning(max_tokens=60, seed=5)
    whole = make(tuning)
    text = whole.say("Tell me a story about a dog.").text()
    driven = make(tuning)
    driven.stepped("Tell me a story about a dog.", 15)
    driven.chat.replies.resume()
    driven.chat.stop()
    driven.idle()
    first = driven.reply
    assert first.finished is not None
    assert first.finished.reason == "user"
    driven.chat.forks.continue_reply()
    driven.idle()
    assert driven.reply is not first
    turns = list(driven.chat.conversation.list_turns())
    assert turns == [("user", "Tell me a story about a dog."), ("assistant", text)]


@pytest.mark.model
def test_stop_while_the_prompt_is_read(make: Make) -> None:
    driven = make(Tuning(max_tokens=5))
    driven.chat.send("word " * 400)
    driven.until(lambda: driven.chat.live.prefill_done > 0)
    driven.chat.stop()
    driven.idle()
    assert len(driven.reply.tokens) == 0
    assert driven.say("Hello").finished is not None


def test_regenerate_grows_beside_the_reply(make: Make) -> None:
    driven = make(Tuning(max_tokens=20))
    first = driven.say("Name an animal.")
    driven.chat.forks.regenerate()
    driven.idle()
    second = driven.reply
    assert second is not first
    assert second.parent == first.parent
    assert first.start is not None
    assert second.start is not None
    assert first.start.seed != second.start.seed
    assert driven.chat.conversation.nodes[first.number] is first
    driven.chat.adjust_setting("seed", first.start.seed)
    driven.chat.forks.regenerate()
    driven.idle()
    assert driven.reply.tokens.ids == first.tokens.ids


def test_a_reply_that_ended_itself_is_not_continued(make: Make) -> None:
    driven = make(Tuning(max_tokens=20))
    reply = driven.stepped("Say hi.", 2)
    assert driven.chat.model is not None
    driven.chat.replies.force_tokens(driven.chat.model.end_ids[:1])
    driven.idle()
    assert reply.finished is not None
    assert reply.finished.reason == "end"
    driven.chat.forks.continue_reply()
    driven.told += driven.chat.pump_events()
    assert any("finished this reply" in text for text in driven.notices)


@pytest.mark.model
def test_after_a_stop_sequence_the_next_turn_does_not_see_it_and_continue_shows_it(make: Make) -> None:
    driven = make(Tuning(temperature=0, max_tokens=60))
    text = driven.say("Count from one to ten in words, separated by commas.").text()
    stop = text[len(text) // 2 :][:6]
    driven.chat.new()
    driven.chat.adjust_setting("stop", [stop])
    reply = driven.say("Count from one to ten in words, separated by commas.")
    assert reply.finished is not None
    assert reply.finished.reason == "stop"
    assert reply.text() == text[: text.index(stop)]
    kept = b"".join(list(reply.tokens.iterate_pieces())[: reply.count_kept()]).decode()
    last = list(reply.tokens.iterate_pieces())[reply.count_kept() - 1].decode()
    assert kept.startswith(reply.text())
    assert len(kept) - len(reply.text()) < len(last)  # at most a token that holds both
    driven.chat.forks.continue_reply()
    driven.idle()
    assert "".join(t for role, t in driven.chat.conversation.list_turns() if role == "assistant").startswith(
        text[: text.index(stop)] + stop
    )


def test_knobs_in_mid_reply_and_while_idle(make: Make) -> None:
    driven = make(Tuning(max_tokens=60, seed=3, top_k=0, top_p=1.0, min_p=0.0))
    driven.stepped("Describe the sea.", 10)
    driven.chat.replies.resume()
    driven.chat.adjust_setting("temperature", 0)
    driven.idle()
    reply = driven.reply
    assert len(reply.settings) == 2
    assert reply.settings[1].origin["temperature"] == "panel"
    assert list(reply.tokens.settings) == [0] * reply.settings_at[1] + [1] * (len(reply.tokens) - reply.settings_at[1])
    last = driven.chat.live.token
    assert last is not None
    assert last.probability == 1.0
    # While idle the shown step is asked for again under other knobs: the same logits, the same dice.
    driven.told.clear()
    driven.chat.adjust_setting("temperature", 2.0)
    driven.until(lambda: driven.chat.live.preview is not None)
    preview = driven.chat.live.preview
    assert preview is not None
    assert not driven.chat.live.preview_recomputed
    assert [c.logit for c in preview.candidates[:20]] == [c.logit for c in last.candidates[:20]]
    assert [c.noise for c in preview.candidates[:20]] == [c.noise for c in last.candidates[:20]]
    assert preview.candidates[0].probability < 1.0
    assert {type(change) for change in driven.told} >= {TuningChanged, LiveChanged}
    with pytest.raises(SettingError, match="from 0 to 5"):
        driven.chat.adjust_setting("temperature", 9)
    assert driven.chat.tuning.temperature == 2.0


def test_killed_in_mid_reply_one_call_goes_on_from_the_same_token(make: Make) -> None:
    tuning = Tuning(max_tokens=50, seed=8)
    unharmed = make(tuning)
    unharmed.say("Hello")
    whole = unharmed.say("Tell me about the desert.")
    driven = make(tuning)
    driven.say("Hello")
    cut = driven.stepped("Tell me about the desert.", 12)
    driven.chat.replies.resume()
    assert isinstance(driven.chat.engine, LocalEngine)
    assert driven.chat.engine.pid is not None
    os.kill(driven.chat.engine.pid, signal.SIGKILL)
    driven.until(lambda: driven.chat.phase == "failed")
    assert cut.failed is not None
    shown = cut.text()
    assert shown
    assert any("SIGKILL" in text for text in driven.notices)
    driven.chat.loading.restart_engine()
    driven.idle()
    rest = driven.reply
    assert rest.parent == cut.number
    assert rest.start is not None
    assert cut.start is not None
    assert rest.start.seed == cut.start.seed
    assert rest.start.exact  # the cells were made again in the batches in which they were made first
    assert [*cut.tokens.ids, *rest.tokens.ids] == list(whole.tokens.ids)
    assert [text for role, text in driven.chat.conversation.list_turns()][-1].startswith(shown)


def test_a_prompt_larger_than_the_context_is_refused_and_given_back(make: Make) -> None:
    driven = make(Tuning(max_tokens=3))
    driven.say("Hello")
    nodes = len(driven.chat.conversation.nodes)
    text = "word " * 3000
    driven.chat.send(text)
    driven.idle()
    assert driven.chat.conversation.unsent.returned == text
    assert len(driven.chat.conversation.nodes) == nodes
    told = driven.notices[-1]
    assert "2048" in told
    assert "30" in told
    assert driven.say("Still there?").finished is not None


def test_a_message_that_is_too_long_is_refused_and_given_back(make: Make) -> None:
    driven = make(Tuning(max_tokens=3))
    text = "é" * 1_000_001
    driven.chat.send(text)
    driven.chat.send("short")
    driven.idle()
    assert driven.chat.conversation.unsent.returned == text
    assert "at most 1,000,000 characters" in driven.notices[-1]
    assert [text for role, text in driven.chat.conversation.list_turns() if role == "user"] == ["short"]


@pytest.mark.model
def test_raw_mode_completes_text(make: Make) -> None:
    driven = make(Tuning(max_tokens=8, temperature=0), conversation=Conversation(raw=True))
    driven.say("1, 2, 3, 4, 5, 6, 7,")
    start = driven.reply.start
    assert start is not None
    assert start.raw
    assert driven.chat.conversation.nodes[1].ids[0] != 1  # no scaffold
    assert "8" in driven.reply.text()


def test_kept_and_reopened_as_it_was(make: Make, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    tuning = Tuning(max_tokens=20, seed=4)
    driven = make(tuning, store=store)
    driven.say("Name a tree.")
    driven.chat.adjust_setting("top_k", 7)
    driven.say("Name a flower.")
    written = list(driven.chat.conversation.list_turns())
    ids = driven.chat.conversation.list_ids()
    newest = driven.chat.live.token
    assert store.close()

    store = Store.open(tmp_path / "sessions.db")
    found = load_latest(store, load({}, environ={}, file=tmp_path / "none.toml"))
    assert found is not None
    conversation = found.conversation
    assert list(conversation.list_turns()) == written
    assert conversation.list_ids() == ids
    assert found.newest == newest
    assert conversation.title == "Name a tree."
    assert found.tuning == driven.chat.tuning
    again = make(found.tuning, session=found)
    again.idle()
    reply = again.say("And a bird.")
    assert reply.finished is not None
    saved = make_saver(found, tmp_path / "chat.jsonl")()
    assert saved.read_text().count('"record":"token"') == sum(len(node.tokens) for node in conversation.nodes.values())
    store.close()


def test_title() -> None:
    assert title_of("  a\n b ") == "a b"
    assert title_of("word " * 40).endswith("word…")
    assert len(title_of("x" * 200)) <= 60


def test_token_type_is_what_panels_get(make: Make) -> None:
    driven = make(Tuning(max_tokens=2))
    driven.say("Hi")
    assert isinstance(driven.chat.live.token, Token)


def test_what_was_asked_before_does_not_land_in_the_new_chat(make: Make, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    driven = make(Tuning(max_tokens=12, seed=2), store=store)
    driven.idle()
    for wait_for_tokens in (0, 1, 6):
        driven.chat.send("Tell me about the first thing.")
        old = driven.chat.conversation
        driven.until(
            lambda tree=old, count=wait_for_tokens: (
                driven.chat.phase == "idle" or len(tree.find_reply() and tree.find_reply()[-1].node.tokens) >= count
            )
        )
        driven.chat.new()
        assert driven.chat.conversation is not old
        driven.chat.send("Name a fish.")
        driven.idle()
        reply = driven.reply
        assert reply.start is not None
        assert len(reply.tokens) == 12 or (reply.finished and reply.finished.reason == "end")
        text = b"".join(driven_piece for driven_piece in reply.tokens.iterate_pieces()).decode()
        assert text.startswith(reply.text()[:10])
        assert [said for role, said in driven.chat.conversation.list_turns() if role == "user"] == ["Name a fish."]
        assert driven.chat.live.finished == reply.finished
        for span in old.find_reply():
            assert span.node.finished is not None
            assert span.node.finished.reason in ("user", "length", "end")
    driven.chat.close()
    assert store.close()
    assert not any(Store.open(tmp_path / "sessions.db").load(s.id).unfinished for s in store.sessions())


def test_a_preview_asked_for_in_one_chat_is_not_shown_in_the_next(make: Make) -> None:
    driven = make(Tuning(max_tokens=5))
    driven.say("Hello")
    driven.chat.adjust_setting("temperature", 2.0)
    driven.chat.new()
    driven.say("Hi")
    assert driven.chat.live.preview is None


def test_continue_after_the_limit_gives_as_much_again(make: Make) -> None:
    driven = make(Tuning(max_tokens=10, seed=6))
    driven.say("Tell me a very long story about a king.")
    for total in (20, 30):
        driven.chat.forks.continue_reply()
        driven.idle()
        assert sum(len(span.node.tokens) for span in driven.chat.conversation.find_reply()) == total


def test_after_a_refused_turn_the_queue_goes_on(make: Make) -> None:
    driven = make(Tuning(max_tokens=3))
    driven.chat.send("word " * 3000)
    driven.chat.send("short")
    driven.idle()
    assert [text for role, text in driven.chat.conversation.list_turns() if role == "user"] == ["short"]


def test_death_in_every_phase_is_survived(make: Make) -> None:
    driven = make(Tuning())
    driven.chat.adjust_setting("max_tokens", 6)  # what nobody has turned follows the model that is loaded
    assert isinstance(driven.chat.engine, LocalEngine)

    def kill() -> None:
        assert isinstance(driven.chat.engine, LocalEngine)
        assert driven.chat.engine.pid is not None
        os.kill(driven.chat.engine.pid, signal.SIGKILL)
        driven.until(lambda: driven.chat.phase == "failed")
        driven.chat.loading.restart_engine()
        driven.idle()

    kill()  # while it loads
    driven.chat.send("Hello")
    kill()  # while the prompt is rendered
    driven.chat.send("word " * 400)
    driven.until(lambda: driven.chat.live.prefill_done > 0)
    kill()  # while the prompt is read; the reply is made after the restart
    assert driven.reply.finished is not None
    assert len(driven.reply.tokens) <= 6
    driven.chat.adjust_setting("temperature", 1.7)
    kill()  # while a preview is made
    assert driven.say("Still there?").finished is not None


def test_another_model_reads_the_chat_anew(make: Make, spec: ModelSpec) -> None:
    driven = make(Tuning(max_tokens=8))
    first = driven.say("Name a stone.")
    driven.chat.loading.load(msgspec.structs.replace(spec, sha256="another"))
    driven.idle()
    reply = driven.say("Name a metal.")
    turn = driven.chat.conversation.nodes[reply.parent or 0]
    assert turn.whole
    assert reply.prefill is not None
    assert reply.prefill.tokens == len(turn.prompt_ids)
    assert first.number in {span.node.number for span in driven.chat.conversation.find_path()}
    assert driven.say("And another.").prefill is not None
    assert not driven.chat.conversation.nodes[driven.reply.parent or 0].whole


def test_an_engine_that_cannot_start_is_told(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(chat_on(LocalEngine(), Tuning()))
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    driven.chat.loading.load(spec)
    driven.told += driven.chat.pump_events()
    assert driven.chat.phase == "failed"
    assert any("cannot be started" in text for text in driven.notices)
    monkeypatch.undo()
    driven.chat.loading.restart_engine()
    driven.idle()
    assert driven.chat.phase == "idle"
    driven.chat.close()
