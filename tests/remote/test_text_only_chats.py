"""Chats with a server that tells texts alone: turns, branches, saving, and the way to a model with ids and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from termchat.chat.changes import Notice
from termchat.chat.loading import Choice
from termchat.chat.opening import make_saver
from termchat.chat.sizing import Size, Sizing
from termchat.conversation.session import Breakpoint
from termchat.conversation.setting_changes import model_change
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts.jsonl_reader import read
from termchat.decoding.conditions import Threshold
from termchat.decoding.records import UNKNOWN
from termchat.decoding.samplers import Tuning
from termchat.engine.address import EngineAddress
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.make import make_engine
from termchat.engine.port import Message, ModelSpec, Render
from termchat.tui.screen.header_line import header_line
from tests.chat.driven_chat import Driven
from tests.chats import chat_on
from tests.remote.chat_twin import ChatTwin, Serve, delta, never_ends, refuses, says, words

Begin = Callable[..., Driven]


def _spec(twin: ChatTwin) -> ModelSpec:
    address = EngineAddress(name="chat", url=twin.url, kind="openai")
    return ModelSpec("", "chat", engine=address)


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins a chat with a server."""
    made: list[Driven] = []

    def begin(twin: ChatTwin, tuning: Tuning | None = None, **more: Any) -> Driven:
        it = Driven(chat_on(make_engine(), tuning or Tuning(max_tokens=50), **more))
        made.append(it)
        it.chat.loading.load(_spec(twin))
        it.idle()
        return it

    yield begin
    for it in made:
        it.chat.close()


def _said(twin: ChatTwin, number: int = -1) -> list[str]:
    """What the server was told, in one of its requests."""
    return [f"{one['role']}: {one['content']}" for one in twin.asked[number]["messages"]]


def test_the_second_turn_sends_the_texts_of_the_first(serve: Serve, begin: Begin) -> None:
    twin = serve(words("I am Bob."), words("I said: Bob."))
    it = begin(twin)
    it.chat.new("Be brief.")
    node = it.say("Who <|im_end|> are you?")
    assert (node.text(), list(node.ids)) == ("I am Bob.", [UNKNOWN] * 3)
    assert it.say("What?").text() == "I said: Bob."
    assert _said(twin, 0) == ["system: Be brief.", "user: Who <|im_end|> are you?"]
    assert _said(twin, 1) == [*_said(twin, 0), "assistant: I am Bob.", "user: What?"]
    assert [text for _, text in it.chat.conversation.list_turns()][1::2] == ["I am Bob.", "I said: Bob."]


def test_thoughts_are_not_sent_again(serve: Serve, begin: Begin) -> None:
    twin = serve(says(delta(reasoning_content="Hm."), delta("42"), delta(finish="stop")), words("Yes."))
    it = begin(twin)
    it.say("6 * 7?")
    it.say("Sure?")
    assert _said(twin) == ["user: 6 * 7?", "assistant: 42", "user: Sure?"]


def test_replies_again_and_messages_in_other_words(serve: Serve, begin: Begin) -> None:
    twin = serve(words("One."), words("Two."), words("Three."), words("Four."))
    it = begin(twin)
    first = it.say("Say something.")
    it.chat.forks.regenerate()
    it.idle()
    assert (it.reply.text(), _said(twin)) == ("Two.", ["user: Say something."])
    assert it.reply.parent == first.parent
    turn = it.chat.conversation.nodes[first.parent or 0]
    it.chat.forks.edit_message(turn, "Say it again.")
    it.idle()
    assert (it.reply.text(), _said(twin)) == ("Three.", ["user: Say it again."])
    it.chat.forks.edit_system("Be brief.")
    it.idle()
    assert (it.reply.text(), _said(twin)) == ("Four.", ["system: Be brief.", "user: Say it again."])
    assert len(it.chat.conversation.list_leaves()) == 4


def test_a_stopped_reply_stays_and_what_was_written_meanwhile_follows(serve: Serve, begin: Begin) -> None:
    twin = serve(never_ends(delta("more ")), words("Fine."))
    it = begin(twin)
    it.chat.send("Go on for ever.")
    it.streaming(3)
    it.chat.stop()
    it.idle()
    text = it.reply.text()
    assert it.reply.finished is not None
    assert (it.reply.finished.reason, text[:5]) == ("user", "more ")
    it.say("Thanks.")
    assert _said(twin)[1:] == [f"assistant: {text}", "user: Thanks."]


def test_what_cannot_be_done_says_why(serve: Serve, begin: Begin) -> None:
    it = begin(serve(words("One.", finish="length")))
    node = it.say("Say something.")
    before = len(it.chat.conversation.nodes)
    it.chat.forks.continue_reply()
    it.chat.forks.fork_reply(node, 1)
    it.chat.begin_with("Sure,")
    it.told += it.chat.pump_events(0.0)
    assert len(it.chat.conversation.nodes) == before
    assert len([said for said in it.notices if said.endswith("it is text only")]) == 3


def test_a_reply_that_said_nothing_is_asked_for_again(serve: Serve, begin: Begin) -> None:
    twin = serve(refuses(429, "slow down"), words("Here I am."))
    it = begin(twin)
    it.say("Are you there?")
    assert it.reply.failed is not None
    assert "answers 429: slow down" in it.reply.failed.message
    it.chat.forks.continue_reply()
    it.idle()
    assert it.reply.text() == "Here I am."


def test_a_cut_reply_is_kept_and_the_next_message_goes_out(serve: Serve, begin: Begin) -> None:
    twin = serve(says(delta("So far"), done=False), words("Again."))
    it = begin(twin)
    node = it.say("Tell me.")
    assert node.failed is not None
    assert (node.text(), node.failed.message) == ("So far", "chat broke off in mid-reply")
    assert header_line(it.chat, 80).text.endswith("  broke off in mid-reply ")
    assert it.say("Once more.").text() == "Again."
    assert header_line(it.chat, 80).text.endswith("  ready ")
    assert _said(twin) == ["user: Tell me.", "assistant: So far", "user: Once more."]


def test_what_is_left_out_is_said_once(serve: Serve, begin: Begin) -> None:
    it = begin(serve(words("One.")), Tuning(typical_p=0.5), breakpoints=(Breakpoint(Threshold("entropy", ">", 3.0)),))
    it.say("One?")
    it.say("Two?")
    told = [one for one in it.told if isinstance(one, Notice) and one.message.startswith("left out")]
    assert [(one.message, one.severity) for one in told] == [
        ("left out: top_k, typical_p, min_p, entropy > 3", "warning")
    ]


def test_a_knob_that_is_turned_in_mid_reply_holds_from_the_next_on(serve: Serve, begin: Begin) -> None:
    twin = serve(never_ends(delta("more ")), words("Fine."))
    it = begin(twin)
    it.chat.send("Go on for ever.")
    it.streaming(3)
    it.chat.adjust_setting("temperature", 1.5)
    it.streaming(len(it.reply.tokens) + 3)
    assert it.reply.settings[-1].samplers.temperature == 0.8
    it.chat.stop()
    it.idle()
    it.say("Thanks.")
    assert [body["temperature"] for body in twin.asked] == [0.8, 1.5]
    assert any(isinstance(one, Notice) and one.hint == "the next reply uses them" for one in it.told)


def test_raw_text_is_refused(serve: Serve, begin: Begin) -> None:
    twin = serve(words("One."))
    it = begin(twin)
    it.chat.new(raw=True)
    it.chat.send("Once upon a time")
    it.idle()
    assert not twin.asked
    assert it.notices == ["a model on a server cannot complete raw text, or take texts apart: it takes messages alone"]
    assert it.chat.conversation.leaf is None


def test_a_message_has_no_size(serve: Serve, begin: Begin) -> None:
    it = begin(serve(words("One.")))
    sizes: list[Size | None] = []
    Sizing(it.chat).ask_size("How long am I?", sizes.append)
    it.idle()
    assert sizes == [None]


def test_it_is_saved_and_read_again(serve: Serve, begin: Begin, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    it = begin(serve(words("The sea is blue.")), store=store)
    it.say("What is it like?")
    assert store.flush()
    session = it.chat.session.current_id
    loaded = store.load(session).conversation
    assert list(loaded.list_turns()) == list(it.chat.conversation.list_turns())
    node = loaded.nodes[loaded.leaf or 0]
    assert (list(node.ids), node.tokens.packed()) == ([UNKNOWN] * 4, it.reply.tokens.packed())
    again = read(make_saver(it.chat.session, tmp_path / "chat.jsonl")()).conversation
    assert list(again.list_turns()) == list(loaded.list_turns())
    assert list(again.nodes[node.number].ids) == list(node.ids)
    for name in ("chat.md", "chat.html", "chat.csv", "chat.openai.json"):
        written = make_saver(it.chat.session, tmp_path / name)().read_text()
        assert "blue" in written
        assert re.search(r"\bnan\b", written.split("<script", 1)[0], re.IGNORECASE) is None
    store.close()


def test_it_goes_on_with_a_local_model_and_back(
    serve: Serve, begin: Begin, model_path: Path, session: ModelSession
) -> None:
    twin = serve(words("I am Bob."), words("Bob it is."))
    it = begin(twin, Tuning(max_tokens=6, temperature=0.0))
    it.say("Who are you?")
    it.chat.loading.switch_model(Choice(ModelSpec(str(model_path), "smollm2", context=2048, threads=1), {}))
    it.idle()
    local = it.say("Say hello.")
    told = [Message("user", "Who are you?"), Message("assistant", "I am Bob."), Message("user", "Say hello.")]
    prompt = session.render(Render(told)).ids
    assert it.chat.conversation.ids_before(local.number) == prompt
    assert UNKNOWN not in local.ids
    assert model_change(local) == "model some-model → smollm2"
    it.chat.loading.switch_model(Choice(_spec(twin), {}))
    it.idle()
    assert it.say("And you?").text() == "Bob it is."
    assert _said(twin)[3:] == [f"assistant: {local.text()}", "user: And you?"]


def test_a_turn_that_failed_without_ids_is_rendered_by_a_local_model(
    serve: Serve, begin: Begin, model_path: Path, session: ModelSession
) -> None:
    """Its message has no ids, and no record says that another engine had it."""
    it = begin(serve(refuses(500, "oops")), Tuning(max_tokens=6, temperature=0.0))
    it.say("Who are you?")
    it.chat.loading.switch_model(Choice(ModelSpec(str(model_path), "smollm2", context=2048, threads=1), {}))
    it.idle()
    it.chat.forks.regenerate()
    it.idle()
    prompt = session.render(Render([Message("user", "Who are you?")])).ids
    assert it.chat.conversation.ids_before(it.reply.number) == prompt
    assert it.reply.text()
