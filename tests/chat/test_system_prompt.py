"""Another system prompt on a branch: the first message is sent again with it, and all that follows there is under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.config.settings import load
from termchat.conversation.node import LARGEST_MESSAGE
from termchat.conversation.store import deleting
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import export, importing
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Conversation
from termchat.conversation.versions import Versions
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.template import ChatTemplate
from termchat.engine.port import Message, Render
from tests.chat.driven_chat import Faked, Make

KIND, BRIEF = "Be kind.", "Be brief."


def under(it: Faked) -> list[tuple[str, str]]:
    """The messages that the model was last told."""
    return [(message.role, message.content) for message in it.engine.asked(Render)[-1].messages]


def edited(it: Faked, text: str, *pieces: str) -> None:
    it.chat.forks.edit_system(text)
    it.pump()
    it.engine.say(*pieces)
    it.engine.end()
    it.pump()


def begun(**more: object) -> Faked:
    it = Faked(conversation=Conversation(KIND), **more)
    it.replied("hi", " one")
    it.replied("more", " two")
    return it


def test_it_begins_a_branch_on_which_the_first_message_is_sent_again() -> None:
    it = begun()
    chat, before = it.chat.conversation, it.reply
    edited(it, BRIEF, " three")
    assert under(it) == [("system", BRIEF), ("user", "hi")]
    assert (chat.system, chat.first_system) == (BRIEF, KIND)
    assert list(chat.list_turns()) == [("user", "hi"), ("assistant", " three")]
    it.replied("and then", " four")
    assert under(it) == [("system", BRIEF), ("user", "hi"), ("assistant", " three"), ("user", "and then")]
    it.chat.forks.regenerate()
    it.pump()
    it.engine.end()
    it.pump()
    assert chat.system == BRIEF
    it.chat.branches.select_leaf(before.number)
    it.replied("again", " five")
    assert under(it)[0] == ("system", KIND)
    assert [text for _, text in under(it)[1:]] == ["hi", " one", "more", " two", "again"]


def test_a_message_that_is_edited_stays_under_the_prompt_of_its_branch() -> None:
    it = begun()
    edited(it, BRIEF, " three")
    first = it.chat.conversation.find_path()[0].node
    it.chat.forks.edit_message(first, "hello")
    it.pump()
    assert under(it) == [("system", BRIEF), ("user", "hello")]


def test_it_can_be_taken_away_and_added() -> None:
    it = begun()
    edited(it, "", " three")
    assert under(it) == [("user", "hi")]
    assert it.chat.conversation.system == ""
    bare = Faked()
    bare.replied("hi", " one")
    edited(bare, BRIEF, " two")
    assert under(bare) == [("system", BRIEF), ("user", "hi")]


def test_before_the_first_message_it_is_the_chats_own() -> None:
    it = Faked(conversation=Conversation(KIND))
    it.chat.forks.edit_system(BRIEF)
    it.pump()
    assert it.engine.generated == []
    it.replied("hi", " one")
    assert under(it)[0] == ("system", BRIEF)
    assert len(it.chat.conversation.nodes) == 2


def test_what_cannot_be_is_told_and_the_prompt_is_given_back() -> None:
    it = begun()
    nodes = len(it.chat.conversation.nodes)
    it.chat.forks.edit_system(KIND)
    it.chat.forks.edit_system("x" * (LARGEST_MESSAGE + 1))
    it.pump()
    assert it.notices == ["the system prompt already reads like this", "a text can have at most 1,000,000 characters"]
    assert len(it.chat.conversation.unsent.returned) == LARGEST_MESSAGE + 1
    it.chat.conversation.unsent.returned = ""
    it.engine.prompt = [1] * 3000
    it.chat.forks.edit_system(BRIEF)
    it.pump()
    assert it.chat.conversation.unsent.returned == BRIEF  # not the message, which is still there
    assert (len(it.chat.conversation.nodes), it.chat.conversation.system) == (nodes, KIND)


def test_prompts_are_versions_and_so_are_messages_under_one_prompt() -> None:
    it = begun()
    chat = it.chat.conversation
    edited(it, BRIEF, " three")
    edited(it, KIND, " four")
    firsts = [node.number for node in chat.list_children(None)]
    assert Versions(chat).of_prompt() == (0, [[firsts[0], firsts[2]], [firsts[1]]])
    messages = [Versions(chat).find_versions(chat.nodes[number], chat.nodes[number]) for number in firsts]
    assert messages == [(0, [firsts[0], firsts[2]]), (0, [firsts[1]]), (1, [firsts[0], firsts[2]])]


def test_it_is_kept_copied_and_exported(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    try:
        it = begun(store=store)
        edited(it, "", " three")
        edited(it, BRIEF, " four")
        chat, session = it.chat.conversation, it.chat.session.current_id
        firsts = [node.number for node in chat.list_children(None)]

        def prompts(found: Conversation) -> list[object]:
            return [found.system, *(found.system_of(number) for number in firsts), found.first_system]

        assert prompts(chat) == [BRIEF, KIND, "", BRIEF, KIND]
        assert store.flush()
        assert prompts(store.load(session).conversation) == prompts(chat)
        assert prompts(store.load(store.duplicate(session)).conversation) == prompts(chat)
        path = tmp_path / "chat.jsonl"
        stored = store.load(session)
        export.write(path, stored.conversation, stored, lambda number: store.records(session, number))
        (found,) = importing.chats(path)
        assert prompts(found.conversation) == prompts(chat)
        text = path.read_text()
        path.write_text('"parent":1,"at":0,"role":"user"'.join(text.rsplit('"parent":null,"at":0,"role":"user"', 1)))
        with pytest.raises(TranscriptError, match="has a system prompt of its own, but is not a first message"):
            list(importing.chats(path))
    finally:
        store.close()
    assert any("prompts" in statement for statement in deleting.COPY)
    assert load({}, {}, tmp_path / "none").system == ""


def test_the_model_reads_just_the_ids_of_the_template_with_that_prompt(make: Make, session: ModelSession) -> None:
    it = make(Tuning(temperature=0, max_tokens=4), conversation=Conversation(KIND))
    it.say("Name a fox.")
    it.chat.forks.edit_system(BRIEF)
    it.until(lambda: it.chat.phase == "idle" and len(it.chat.conversation.nodes) == 4 and it.reply.done)
    template = ChatTemplate(session.model)
    said = [Message("system", BRIEF), Message("user", "Name a fox.")]
    assert it.chat.conversation.ids_before(it.reply.number) == template.render_prompt(said).ids
    assert it.reply.start is not None
    reply = it.reply
    after = it.say("And a bear.")
    said += [Message("assistant", reply.text(), ids=list(reply.ids)), Message("user", "And a bear.")]
    prompt = template.render_prompt(said)
    assert it.chat.conversation.ids_before(after.number) == prompt.ids
    assert prompt.ids[: prompt.after] == [*template.render_prompt(said[:2]).ids, *reply.ids]
