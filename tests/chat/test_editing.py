"""Messages in other words, replies made again and replies that begin as somebody wants."""

from __future__ import annotations

import msgspec
import pytest

from termchat.conversation.node import LARGEST_MESSAGE
from termchat.conversation.tree import Span
from termchat.decoding.conditions import Length
from termchat.decoding.records import Failed
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Cancel, Render, Tokenize
from tests.chat.driven_chat import Faked, Make
from tests.engine.bare_loop import bare_greedy


def said(it: Faked) -> list[tuple[str, str]]:
    return list(it.chat.conversation.list_turns())


# --- a person's message ----------------------------------------------------------------------------------------------


def test_an_edited_message_is_a_branch_beside_the_old_one() -> None:
    it = Faked()
    it.replied("hi", " one")
    second = it.replied("and then", " two")
    third = it.replied("more", " three")
    asked = it.chat.conversation.nodes[second.parent or 0]
    it.chat.forks.edit_message(asked, "or else")
    it.pump()
    it.engine.say(" four")
    it.engine.end()
    it.pump()
    assert said(it) == [("user", "hi"), ("assistant", " one"), ("user", "or else"), ("assistant", " four")]
    new = it.chat.conversation.nodes[it.reply.parent or 0]
    assert (new.parent, new.at) == (asked.parent, asked.at)
    render = it.engine.asked(Render)[-1]
    assert [message.content for message in render.messages] == ["hi", " one", "or else"]
    it.chat.branches.select_leaf(third.number)
    assert [text for _, text in said(it)] == ["hi", " one", "and then", " two", "more", " three"]


def test_the_first_message_can_be_edited_while_a_reply_runs() -> None:
    it = Faked()
    first = it.writing("hi", " one", " two")
    it.chat.forks.edit_message(it.chat.conversation.nodes[first.parent or 0], "hello")
    it.pump()
    assert it.engine.asked(Cancel)
    assert first.finished is not None
    it.engine.say(" new")
    it.pump()
    assert said(it) == [("user", "hello"), ("assistant", " new")]
    assert len(it.chat.conversation.list_children(None)) == 2


def test_an_edit_does_not_overtake_a_fork_that_waits_for_its_ids() -> None:
    it = Faked()
    first = it.writing("hi", " one", " two")
    it.engine.hears = False
    it.chat.forks.edit_message(it.chat.conversation.nodes[first.parent or 0], "hello")
    it.chat.forks.fork_reply(first, 1, text=" other")
    it.pump()
    assert it.chat.phase == "idle"
    assert len(it.engine.asked(Render)) == 1
    it.engine.answer_questions()
    it.engine.hears = True
    it.pump()
    assert it.reply.tokens.texts == [" other"]
    it.engine.end()
    it.pump()
    it.engine.say(" new")
    it.pump()
    assert said(it) == [("user", "hello"), ("assistant", " new")]


def test_an_edit_that_cannot_be_sent_comes_back_and_the_chat_is_shown_as_it_was() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    last = it.replied("more", " two")
    before = said(it)
    it.engine.prompt = list(range(5000))  # more than the context holds
    it.chat.forks.edit_message(it.chat.conversation.nodes[first.parent or 0], "far too long")
    it.pump()
    assert it.chat.conversation.unsent.returned == "far too long"
    assert it.chat.conversation.leaf == last.number
    assert said(it) == before


@pytest.mark.parametrize("whose", ["message", "reply", "beginning"])
def test_nothing_that_is_written_may_be_longer_than_a_message(whose: str) -> None:
    it = Faked()
    reply = it.replied("hi", " one")
    there, long = set(it.chat.conversation.nodes), "x" * (LARGEST_MESSAGE + 1)
    if whose == "message":
        it.chat.forks.edit_message(it.chat.conversation.nodes[reply.parent or 0], long)
    elif whose == "reply":
        it.chat.forks.replace_reply([Span(reply, len(reply.ids))], long)
    else:
        it.chat.begin_with(long)
    it.pump()
    assert set(it.chat.conversation.nodes) == there
    assert it.chat.prefill is None
    assert it.chat.conversation.unsent.returned == long
    assert it.notices == ["a text can have at most 1,000,000 characters"]


def test_an_edit_is_given_back_when_there_is_no_engine() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.engine.die()
    it.pump()
    it.chat.forks.edit_message(it.chat.conversation.nodes[first.parent or 0], "hello")
    assert it.chat.conversation.unsent.returned == "hello"
    assert said(it) == [("user", "hi"), ("assistant", " one")]


# --- a reply ---------------------------------------------------------------------------------------------------------


def test_a_reply_in_other_words_keeps_what_is_the_same_and_forces_the_rest() -> None:
    it = Faked()
    first = it.replied("hi", " one", " two", " three")
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), " one two or so")
    it.pump()
    assert it.chat.phase == "idle"
    assert it.reply.text() == " or so"
    assert (it.reply.parent, it.reply.at) == (first.number, 2)
    assert list(it.reply.tokens.forced) == [1, 1]
    assert said(it)[-1] == ("assistant", " one two or so")
    assert first.text() == " one two three"
    it.chat.forks.continue_reply()  # it ended where the words ended, and goes on from there
    it.pump()
    assert it.engine.generated[-1].done == 4
    it.engine.say(" more")
    it.pump()
    assert said(it)[-1] == ("assistant", " one two or so more")


def test_a_reply_can_be_shortened_and_the_chat_goes_on_behind_it() -> None:
    it = Faked()
    it.replied("hi", " one", " two", " three")
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), " one")
    it.pump()
    assert said(it)[-1] == ("assistant", " one")
    it.replied("go on", " four")
    assert [text for _, text in said(it)] == ["hi", " one", "go on", " four"]


def test_an_end_token_does_not_stay_before_new_words() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.chat.send("more")
    it.pump()
    it.engine.say(" two")
    it.engine.say("", id=2)
    it.engine.end()
    it.pump()
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), " two and on")
    it.pump()
    assert it.reply.at == 1
    assert it.notices == []
    assert said(it)[-1] == ("assistant", " two and on")
    assert first.text() == " one"


def test_no_character_is_parted() -> None:
    it = Faked()
    it.chat.send("hi")
    it.pump()
    it.engine.say(" a")
    it.engine.say("", bytes="é".encode()[:1])
    it.engine.say("é", bytes="é".encode()[1:])
    it.engine.end()
    it.pump()
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), " aè")
    it.pump()
    assert it.reply.at == 1
    assert said(it)[-1] == ("assistant", " aè")


def test_all_pieces_of_a_continued_reply_are_looked_at() -> None:
    it = Faked()
    it.replied("hi", " one", " two", reason="user")
    second = it.continued(" three", " four")
    it.chat.forks.replace_reply(it.chat.conversation.find_reply(), " one two three five")
    it.pump()
    assert (it.reply.parent, it.reply.at) == (second.number, 1)
    assert said(it)[-1] == ("assistant", " one two three five")


def test_the_same_words_are_no_edit() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.chat.forks.replace_reply([Span(first, 1)], " one")
    it.pump()
    assert it.notices == ["the reply already reads like this"]
    assert it.reply is first


# --- again -----------------------------------------------------------------------------------------------------------


def test_a_reply_is_made_again_with_its_own_dice_or_with_new_ones() -> None:
    it = Faked(Tuning())
    first = it.replied("hi", " one")
    assert first.start is not None
    it.chat.forks.regenerate(same=True)
    it.pump()
    assert it.engine.generated[-1].seed == first.start.seed
    it.engine.end()
    it.pump()
    it.chat.forks.regenerate()
    it.pump()
    assert it.engine.generated[-1].seed != first.start.seed
    assert {node.parent for node in it.chat.conversation.list_leaves()} == {first.parent}
    assert it.notices == []


# --- how a reply begins ----------------------------------------------------------------------------------------------


def test_the_next_reply_begins_with_a_text_and_only_that_one() -> None:
    it = Faked()
    it.chat.begin_with("Sure, here")
    it.chat.send("hi")
    it.pump()
    made = it.engine.generated[-1]
    assert made.ids == [1, 2, 3]
    assert [entry.step for entry in made.script] == [0, 1, 2]
    assert not made.paused
    assert it.reply.text() == "Sure, here"
    assert list(it.reply.tokens.forced) == [1, 1, 1]
    assert it.chat.prefill is None
    it.engine.end()
    it.pump()
    it.replied("more", " two")
    assert it.engine.generated[-1].script == ()


def test_what_is_forced_does_not_count_as_drawn() -> None:
    it = Faked(Tuning(max_tokens=2, seed=7))
    it.chat.begin_with("Sure, here")
    first = it.replied("hi")
    assert it.engine.generated[-1].conditions == (Length(5, extra=3),)
    it.chat.begin_with("Well")
    it.chat.forks.regenerate()
    it.pump()
    assert it.engine.generated[-1].conditions == (Length(3, extra=1),)
    it.engine.end()
    it.pump()
    it.chat.forks.replace_reply([Span(first, 3)], "Sure, there is more")
    it.pump()
    assert it.engine.generated[-1].conditions == (Length(2 + 2 + 3, extra=2 + 3),)  # two stay, three are forced


def test_a_reply_made_again_begins_with_it_too() -> None:
    it = Faked()
    first = it.replied("hi", " one")
    it.chat.begin_with("Well")
    it.chat.forks.regenerate(same=True)
    it.pump()
    made = it.engine.generated[-1]
    assert made.seed == (first.start.seed if first.start else None)
    assert it.reply.text() == "Well"
    assert it.reply.parent == first.parent
    assert it.chat.prefill is None


def regenerated(it: Faked) -> str:
    """What another reply to the last message begins with, before the dice."""
    it.chat.forks.regenerate()
    it.pump()
    begin = it.reply.text()
    it.engine.say(" free")
    it.engine.end()
    it.pump()
    return begin


def test_another_reply_begins_as_the_one_in_whose_place_it_is() -> None:
    it = Faked()
    it.chat.begin_with("Well, yes")
    it.replied("hi", " one")
    assert [regenerated(it), regenerated(it)] == ["Well, yes"] * 2
    assert list(it.reply.tokens.forced) == [1, 1, 1, 0]
    it.chat.begin_with("No")
    assert [regenerated(it), regenerated(it)] == ["No"] * 2
    it.chat.begin_with("")
    assert it.chat.prefill == ""
    assert [regenerated(it), regenerated(it)] == [""] * 2
    it.replied("and then?", " more")
    assert it.chat.prefill is None
    assert regenerated(it) == ""


def test_a_new_message_does_not_inherit_how_the_reply_before_it_began() -> None:
    it = Faked()
    it.chat.begin_with("Well")
    it.replied("hi", " one")
    assert it.replied("and then?", " more").text() == " more"
    assert it.chat.beginning == ""


def test_a_token_that_was_forced_later_is_no_beginning() -> None:
    it = Faked()
    reply = it.replied("hi", " one", " two")
    it.chat.forks.fork_reply(reply, 0, text="Other")
    it.pump()
    it.engine.end()
    it.pump()
    assert it.reply.text() == "Other"
    assert regenerated(it) == ""


def test_another_model_begins_it_so_too() -> None:
    it = Faked()
    it.chat.begin_with("Well")
    it.replied("hi", " one")
    assert it.chat.model is not None
    it.chat.host.model = msgspec.structs.replace(it.chat.model, sha256="cd" * 32)
    assert it.chat.is_foreign()
    assert regenerated(it) == "Well"


def test_a_text_that_began_nothing_waits_for_the_next_reply() -> None:
    it = Faked()
    it.chat.begin_with("Well")
    it.engine.prompt = list(range(5000))
    it.chat.send("too long")
    it.pump()
    assert it.chat.conversation.unsent.returned == "too long"
    it.engine.prompt = [1, 2, 3]
    it.chat.send("hi")
    it.pump()
    assert it.reply.text() == "Well"


def test_a_message_that_is_stopped_before_its_reply_begins_is_given_back() -> None:
    it = Faked()
    it.engine.hears = False  # the tokens of the beginning are asked for, and do not come
    it.chat.begin_with("Well")
    it.chat.send("hi")
    it.pump()
    assert it.engine.asked(Tokenize) == [Tokenize("Well")]
    it.chat.stop()
    it.engine.answer_questions()
    it.pump()
    assert it.chat.conversation.unsent.returned == "hi"
    assert it.chat.prefill == "Well"
    assert it.engine.generated == []
    assert it.chat.conversation.nodes == {}


def test_a_beginning_that_cannot_be_tokenised_gives_the_message_back() -> None:
    it = Faked()
    it.engine.hears = False
    it.chat.begin_with("Well")
    it.chat.send("hi")
    it.pump()
    it.engine.give_up()
    it.pump()
    assert it.chat.conversation.unsent.returned == "hi"
    assert it.chat.phase == "idle"
    assert isinstance(it.chat.failure, Failed)


@pytest.mark.model
@pytest.mark.parametrize("raw", [False, True])
def test_a_real_reply_goes_on_from_the_forced_tokens_as_llama_cpp_would(
    make: Make, session: ModelSession, raw: bool
) -> None:
    begin = "Once upon a time, in a small"
    it = make(Tuning(temperature=0, max_tokens=12))
    it.chat.new(raw=raw)
    it.chat.begin_with(begin)
    reply = it.say("Tell me a story.")
    prompt, forced = it.chat.conversation.list_prompt(reply.number), session.model.tokenize(begin, special=False)
    free = list(reply.ids[len(forced) :])
    assert list(reply.ids[: len(forced)]) == forced
    assert list(reply.tokens.forced) == [1] * len(forced) + [0] * len(free)
    assert free == bare_greedy(session, [*prompt, *forced], len(free))
    assert reply.text().startswith(begin)
    assert reply.start is not None
    assert reply.start.prefill == begin
