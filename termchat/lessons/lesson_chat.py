"""The chat of a lesson: another one on the host of the reader's own chat."""

from __future__ import annotations

import dataclasses

from termchat.chat.service import Chat
from termchat.config.origins import LESSON
from termchat.conversation.position import constraint_of
from termchat.conversation.session import Breakpoint, Session, View
from termchat.conversation.tree import Conversation
from termchat.decoding import conditions
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.lessons.lesson import Lesson


def begin_chat(own: Chat, lesson: Lesson, left: Session | None = None) -> Chat:
    """Make the chat of a lesson beside the reader's own: the one in which the lesson was `left`, or an empty one with the
    lesson's knobs, all others at their defaults, and its text in the composer. A new chat in it begins likewise."""
    opening = lesson.opening
    system, raw = opening.system, opening.raw
    if left is not None:
        system, raw = left.conversation.first_system, left.conversation.raw
    begins = Session(
        tuning=Tuning().turn_knobs(opening.knobs),
        origins=dict.fromkeys(KNOBS, LESSON),
        view=View(lesson=lesson.id),
        conversation=Conversation(system, raw=raw),
    )
    if left is not None:
        left.origins, left.constraint = dict(begins.origins), constraint_of(left.conversation)
        if left.conversation.unsent.draft in {step.compose for step in lesson.steps}:  # each step puts its own there
            left.conversation.unsent.draft = ""
        return own.beside(left, begins)
    session = dataclasses.replace(
        begins,
        model=own.host.model_ref or own.session.model,
        conversation=Conversation(system, raw=raw),
        store=own.session.store,
        kept={} if own.session.kept is not None else None,
    )
    session.conversation.title, session.conversation.unsent.draft = lesson.title, opening.text
    chat = own.beside(session, begins)
    chat.set_breakpoints([Breakpoint(conditions.parse(rule)) for rule in opening.rules])
    chat.set_constraint(opening.constraint)
    return chat
