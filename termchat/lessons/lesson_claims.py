"""Claims of lessons, measured on the model that is loaded: the reply of a claim is made in a chat of its own, and checked."""

from __future__ import annotations

from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.host import Host
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.tree import Conversation, Place
from termchat.decoding import conditions, walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import Tuning
from termchat.lessons.expressions import LessonCheck
from termchat.lessons.lesson import Claim
from termchat.lessons.lesson_facts import LessonFacts

SEED = 1
"""The dice of a claim that names none: it is to be the same every time."""
MOST_TOKENS = 400
"""Of a claim's reply that names no length."""


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
