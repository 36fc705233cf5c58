"""Replies whose token ids are not known, or are another model's: they go on from their text."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from termchat.conversation.transcripts import importing
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.template import ChatTemplate
from termchat.engine.port import Message, Render
from tests.chat.driven_chat import Faked, Make

SAID = [("user", "Name a fox."), ("assistant", "The fox is called")]


def imported(folder: Path, *said: tuple[str, str]) -> Conversation:
    path = folder / "chat.openai.json"
    path.write_text(json.dumps({"messages": [{"role": role, "content": text} for role, text in said or SAID]}))
    (found,) = importing.chats(path)
    return found.conversation


def other_model(it: Faked) -> None:
    """Another model is loaded than the one that wrote the chat."""
    assert it.chat.model is not None
    it.chat.host.model = msgspec.structs.replace(it.chat.model, sha256="cd" * 32)


def test_an_imported_reply_is_continued_from_its_text_beside_it(tmp_path: Path) -> None:
    it = Faked(conversation=imported(tmp_path))
    before = it.reply
    it.chat.begin_with("not for this one")
    it.chat.forks.continue_reply()
    it.pump()
    ids = it.engine.words.ids("The fox is called")
    assert [entry.id for entry in it.engine.generated[-1].script] == ids
    assert it.engine.asked(Render)[-1].messages == [Message("user", "Name a fox.")]
    it.engine.say(" Ada")
    it.engine.end()
    it.pump()
    assert list(it.chat.conversation.list_turns()) == [("user", "Name a fox."), ("assistant", "The fox is called Ada")]
    assert list(it.reply.tokens.forced) == [1] * len(ids) + [0]
    assert before in it.chat.conversation.nodes.values()
    assert it.chat.prefill == "not for this one"
    assert it.notices == ["the reply continues from its text, on a new branch"]
    it.chat.forks.continue_reply()
    assert it.chat.take_changes()  # what has tokens has an end, too
    assert len(it.engine.generated) == 1


def test_another_models_reply_is_continued_from_its_text_too() -> None:
    it = Faked()
    it.replied("hi", " one", " two", reason="length")
    other_model(it)
    it.chat.forks.continue_reply()
    it.pump()
    assert [entry.id for entry in it.engine.generated[-1].script] == it.engine.words.ids(" one two")
    assert it.chat.conversation.unsent.returned == ""


def test_an_imported_reply_is_edited_as_any_other(tmp_path: Path) -> None:
    it = Faked(conversation=imported(tmp_path))
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), "The fox is Bob")
    it.pump()
    it.pump()
    assert it.chat.phase == "idle"
    assert it.reply.text() == "The fox is Bob"
    assert it.reply.done


def test_a_text_without_room_leaves_the_chat_as_it_was(tmp_path: Path) -> None:
    it = Faked(conversation=imported(tmp_path, ("user", "hi"), ("assistant", "word " * 3000)))
    before, nodes = it.chat.conversation.leaf, len(it.chat.conversation.nodes)
    it.chat.forks.continue_reply()
    it.pump()
    assert (it.chat.conversation.leaf, len(it.chat.conversation.nodes), it.chat.phase) == (before, nodes, "idle")
    assert it.chat.conversation.unsent.returned == ""
    assert any("the context 2048" in notice for notice in it.notices)


def test_a_reply_before_the_first_message_says_so(tmp_path: Path) -> None:
    it = Faked(conversation=imported(tmp_path, ("assistant", "Welcome")))
    it.chat.forks.continue_reply()
    it.pump()
    assert it.notices == ["cannot continue: there is no message before this reply"]


def test_the_model_reads_just_the_templates_ids_and_those_of_the_text(
    make: Make, session: ModelSession, tmp_path: Path
) -> None:
    it = make(Tuning(temperature=0, max_tokens=4), conversation=imported(tmp_path))
    it.until(lambda: it.chat.phase == "idle")
    it.chat.forks.continue_reply()
    it.until(lambda: it.chat.phase == "idle" and it.reply.finished)
    model = session.model
    prompt = ChatTemplate(model).render_prompt([Message(role, text) for role, text in SAID[:1]]).ids  # type: ignore[arg-type]
    text = model.tokenize("The fox is called", special=False)
    assert it.chat.conversation.ids_before(it.reply.number) == prompt
    assert list(it.reply.ids[: len(text)]) == text
    assert len(it.reply.ids) == len(text) + 4
