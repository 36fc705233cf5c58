"""A constraint in a chat: set, dropped, forked and asked about, on the real model."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from termchat.conversation.node import TokenColumns
from termchat.conversation.reply_facts import constraint_cost, facts_of
from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from termchat.lessons.lesson import Lesson, LessonText
from termchat.lessons.playing import begin_chat
from tests.chat.driven_chat import Driven
from tests.chats import chat_on

WORDS = Constraint("regex", "([a-z]{1,9} ){4}end")


@pytest.fixture
def driven(spec: ModelSpec) -> Iterator[Driven]:
    chat = chat_on(LocalEngine(), Tuning(max_tokens=40, temperature=1.5, seed=3))
    chat.loading.load(spec)
    driven = Driven(chat)
    driven.idle()
    yield driven
    chat.close()


def test_a_chat_keeps_to_its_constraint_until_it_is_dropped(driven: Driven) -> None:
    chat = driven.chat
    chat.set_constraint(WORDS)
    first = driven.say("Say something.")
    assert re.fullmatch(WORDS.text, first.text())
    cost = constraint_cost(chat.conversation.find_reply())
    assert cost is not None
    assert cost > 1
    assert facts_of(chat.conversation, first)["constraint"] == f"regex {WORDS.text}"
    assert list(TokenColumns.unpacked(first.tokens.packed()).bent) == list(first.tokens.bent)

    # Forked in the middle it is what it was.
    chat.forks.fork_reply(first, 3)
    driven.idle()
    assert "".join(span.node.text(span.count) for span in chat.conversation.find_reply()) == first.text()

    # Asked about, it is what was drawn.
    chat.questions.inspect_token(first, 4)
    driven.until(lambda: chat.questions.inspected is not None)
    assert chat.questions.inspected is not None
    assert chat.questions.inspected.inspected.token.id == first.ids[4]
    chat.questions.explain_token(first, 0, "!")
    driven.until(lambda: chat.questions.explained is not None)
    assert chat.questions.explained is not None
    misfit = chat.questions.explained.explained.explanation.misfit
    assert misfit is not None
    assert misfit.allowed == b"abcdefghijklmnopqrstuvwxyz"
    chat.questions.check_constraint(Constraint("regex", "a("))
    driven.until(lambda: chat.questions.checked is not None)
    assert chat.questions.checked is not None
    assert chat.questions.checked.checked.error

    chat.set_constraint(None)
    free = driven.say("Say something.")
    assert constraint_cost(chat.conversation.find_reply()) is None
    assert "constraint" not in facts_of(chat.conversation, free)


def test_it_is_set_and_dropped_while_a_reply_waits(driven: Driven) -> None:
    chat = driven.chat
    node = driven.stepped("Tell me a story.", 3)
    chat.set_constraint(WORDS)
    driven.step(1)
    assert node.tokens.allowed[3] > 0
    assert node.settings[-1].constraint_begun == 3
    chat.set_constraint(None)
    driven.step(2)
    assert list(node.tokens.allowed[4:]) == [0, 0]
    chat.stop()
    driven.idle()
    assert [settings.constraint is None for settings in node.settings] == [True, False, True]


def test_a_lesson_that_is_taken_up_again_keeps_its_constraint(driven: Driven) -> None:
    own = driven.chat
    lesson = Lesson(
        id="16-constraints", title="Constraints", minutes=1, summary="Words only.", learned=LessonText("They match.")
    )
    driven.chat = begin_chat(own, lesson)
    driven.chat.set_constraint(WORDS)
    driven.say("Say two words.")
    left = driven.chat.session
    own.come_back(driven.chat, None)
    assert own.constraint is None
    assert own.conversation.leaf is None
    left.constraint = None  # as a chat is read from its file
    assert begin_chat(own, lesson, left).constraint == WORDS
