"""Measures what a lesson relies on, on the model that is loaded: each claim's reply is made, and its checks are looked at.

It happens beside the chat, on the same engine and in a conversation that nobody sees; what the chat asks meanwhile waits its
turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.lesson_facts import ChatFacts
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.tree import Conversation, Place
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import Tuning
from termchat.lessons.claim_results import ClaimResults, claim_key
from termchat.lessons.lesson import Claim
from termchat.lessons.lesson_check import LessonCheck

SEED = 1
"""The dice of a claim that names none: it is to be the same every time."""
MOST_TOKENS = 400
"""Of a claim's reply that names no length."""


class MeasuredClaim(NamedTuple):
    """Whether a claim holds; None where that could not be found out. `failed` says which checks do not hold, or why not."""

    claim: Claim
    holds: bool | None
    failed: str = ""
    seconds: float = 0.0


class ClaimMeasuring:
    """Measures claims one after the other, on the model of a chat that is idle or soon will be. Call `pump` some times a
    second, after the chat's own. `known` are results of earlier times, which are not measured again; new ones are kept there.
    """

    def __init__(self, chat: Chat, claims: Sequence[Claim], known: ClaimResults | None = None) -> None:
        self._chat, self._known = chat, known
        self._waiting = deque(enumerate(claims))
        self._found: dict[int, MeasuredClaim] = {}
        self._claims = tuple(claims)
        self._run: Iterator[MeasuredClaim | None] | None = None
        self._scratch: Chat | None = None

    @property
    def done(self) -> bool:
        return len(self._found) == len(self._claims)

    @property
    def results(self) -> list[MeasuredClaim]:
        """Those that are there, in order."""
        return [self._found[at] for at in sorted(self._found)]

    @property
    def otherwise(self) -> list[Claim]:
        """The claims that do not hold on this model: what they say of that is to be told."""
        return [result.claim for result in self.results if result.holds is False]

    def pump(self) -> bool:
        """Goes on; returns whether another result is there."""
        before = len(self._found)
        while self._waiting:
            at, claim = self._waiting[0]
            if self._run is None:
                if self._chat.phase != "idle" or self._chat.model is None:
                    break
                known = (
                    self._known.known(self._chat.host.loaded).get(claim_key(claim)) if self._known is not None else None
                )
                if known is not None:
                    self._take(at, MeasuredClaim(claim, known))
                    continue
                self._run = self._measured(claim)
            found = next(self._run)
            if found is None:
                break
            self._take(at, found)
            if self._known is not None and found.holds is not None:
                self._known.keep(self._chat.host.loaded, {claim_key(claim): found.holds})
        return len(self._found) > before

    def cancel(self) -> None:
        """Ends what is being made; nothing more is measured."""
        self._waiting.clear()
        if self._scratch is not None and self._scratch.busy and self._chat.engine.alive:
            self._scratch.stop()
        self._scratch = self._run = None

    def _take(self, at: int, found: MeasuredClaim) -> None:
        self._waiting.popleft()
        self._found[at], self._run, self._scratch = found, None, None

    def _measured(self, claim: Claim) -> Iterator[MeasuredClaim | None]:
        """None as long as it is not there."""
        begun = monotonic()
        chat = self._scratch = self._scratch_for(claim)
        if claim.prefill:
            chat.begin_with(claim.prefill)
        if claim.beams:
            chat.walks.start(walk_plan.beams(BeamSettings(claim.beams, n_best=claim.beams)), text=claim.prompt)
        elif claim.walks:
            plan = walk_plan.vote(claim.walks, claim.vote) if claim.vote else walk_plan.walks(claim.walks)
            chat.walks.start(plan, text=claim.prompt)
        else:
            chat.send(claim.prompt)
        refused = ""
        for again in range(1 + claim.again):
            if again:
                chat.forks.regenerate()
            going = True
            while going:
                for change in chat.advance():
                    if isinstance(change, Notice) and change.severity == "error":
                        refused = change.message
                going = chat.phase in ("rendering", "prefill", "decoding", "loading") or chat.walks.running
                going = going or bool(chat.turns.queue and chat.phase == "idle" and not refused) or chat.forks.waits
                if going:
                    yield None
        if chat.failure is not None or refused or chat.conversation.reply() == []:
            why = chat.failure.message if chat.failure is not None else refused or "there is no reply"
            yield MeasuredClaim(claim, None, why, monotonic() - begun)
            return
        yield self._judged(claim, chat, monotonic() - begun)

    def _scratch_for(self, claim: Claim) -> Chat:
        """Make a chat for a claim on the same host."""
        knobs = {"seed": SEED, "max_tokens": MOST_TOKENS, **claim.knobs}
        session = Session(
            tuning=Tuning().turned(knobs),
            conversation=Conversation(claim.system, raw=claim.raw),
            breakpoints=tuple(map(Breakpoint, claim.rules)),
            kept={},
        )
        chat = Chat(self._chat.host, session, keep_logits=False)
        chat.constrain(claim.constraint)
        return chat

    def _judged(self, claim: Claim, chat: Chat, seconds: float) -> MeasuredClaim:
        place = _place(chat.conversation, claim.at)
        facts = ChatFacts(chat, lambda: {"cursor": place} if place is not None else {})
        failed = [f"{check.written} ({_told(check, facts)})" for check in claim.checks if not check.holds(facts)]
        if chat.phase == "paused":
            chat.stop()
        return MeasuredClaim(claim, not failed, "; ".join(failed), seconds)


def _place(conversation: Conversation, at: int | None) -> Place | None:
    """Where the token of that index is in the last reply, from the end if it is below 0; None for the last one."""
    spans = conversation.reply()
    count = sum(span.count for span in spans)
    if at is None or not spans or not -count <= at < count:
        return None
    at += count if at < 0 else 0
    for span in spans:
        if at < span.count:
            return Place(span.node.number, at)
        at -= span.count
    return None


def _told(check: LessonCheck, facts: ChatFacts) -> str:
    """What the facts of a check are: "tokens is 3"."""
    told = []
    for fact in dict.fromkeys(check.facts):
        value = facts.fact(fact.name, fact.argument)
        name = f"{fact.name}({fact.argument!r})" if fact.argument else fact.name
        shown = f"{value:.4g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
        told.append(f"{name} is {'absent' if value is None else shown}")
    return ", ".join(told) or "no token meets it"
