"""Chats of lessons on a host: that of one that is played, beside the reader's own, and one for each claim to be measured."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.host import Host
from termchat.chat.service import Chat
from termchat.config.origins import LESSON
from termchat.conversation.position import constraint_of
from termchat.conversation.session import Breakpoint, Session, View
from termchat.conversation.tree import Conversation, Place
from termchat.decoding import conditions, walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.lessons.expressions import LessonCheck
from termchat.lessons.lesson import Claim, Lesson
from termchat.lessons.lesson_facts import LessonFacts

SEED = 1
"""The dice of a claim that names none: it is to be the same every time."""
MOST_TOKENS = 400
"""Of a claim's reply that names no length."""


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


class MeasuredClaim(NamedTuple):
    """Whether a claim holds; None where that could not be measured. `failed` lists the checks that do not hold, or says why."""

    claim: Claim
    holds: bool | None
    failed: str = ""


def measure_claim(host: Host, claim: Claim) -> MeasuredClaim:
    """Make the reply of a claim on a host with a model, and check it."""
    session = Session(
        tuning=Tuning().turn_knobs({"seed": SEED, "max_tokens": MOST_TOKENS, **claim.knobs}),
        conversation=Conversation(claim.system, raw=claim.raw),
        breakpoints=tuple(Breakpoint(conditions.parse(rule)) for rule in claim.rules),
        kept={},
    )
    chat = Chat(host, session, keep_logits=False)
    chat.set_constraint(claim.constraint)
    if claim.prefill:
        chat.begin_with(claim.prefill)
    if claim.beams:
        chat.walks.start(walk_plan.beams(BeamSettings(claim.beams, n_best=claim.beams)), text=claim.prompt)
    elif claim.walks:
        plan = walk_plan.vote(claim.walks, claim.vote) if claim.vote else walk_plan.walks(claim.walks)
        chat.walks.start(plan, text=claim.prompt)
    else:
        chat.send(claim.prompt)
    refused = _pump_to_end(chat)
    if claim.again:
        chat.forks.regenerate()
        refused = _pump_to_end(chat) or refused
    tokens = [Place(span.node.number, index) for span in chat.conversation.find_reply() for index in range(span.count)]
    if chat.failure is not None or refused or not chat.conversation.find_reply():
        why = chat.failure.message if chat.failure is not None else refused or "there is no reply"
        return MeasuredClaim(claim, None, why)
    at = claim.at
    screen = {"cursor": tokens[at]} if at is not None and -len(tokens) <= at < len(tokens) else {}
    facts = LessonFacts(chat, lambda: screen)
    failed = [f"{check.written} ({_values(check, facts)})" for check in claim.checks if not check.holds(facts)]
    if chat.phase == "paused":
        chat.stop()
    return MeasuredClaim(claim, not failed, "; ".join(failed))


def _pump_to_end(chat: Chat) -> str:
    """Pump until the chat's replies are over; return why they were refused, "" if they were not."""
    refused, running = "", True
    while running:
        for change in chat.pump_events(0.05):
            if isinstance(change, Notice) and change.severity == "error":
                refused = change.message
        queued = bool(chat.turns.queue) and chat.phase == "idle" and not refused
        running = chat.phase in ("rendering", "prefill", "decoding", "loading") or queued
        running = running or chat.walks.running or chat.forks.waits
    return refused


def _values(check: LessonCheck, facts: LessonFacts) -> str:
    """Write the facts of a check with their values: "tokens is 3"."""
    parts = []
    for fact in dict.fromkeys(check.facts):
        value = facts.fact(*fact)
        name = f"{fact.name}({fact.argument!r})" if fact.argument else fact.name
        shown = f"{value:.4g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
        parts.append(f"{name} is {'absent' if value is None else shown}")
    return ", ".join(parts)
