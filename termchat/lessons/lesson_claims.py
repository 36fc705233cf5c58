"""What a lesson relies on, measured on the model that is loaded: each claim's reply is made, and its checks are looked at.

It happens beside the chat, in chats of its own on the same host that nobody sees; what the chat asks meanwhile waits its turn.
Results are kept in one small file by model, so that each claim is measured once.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from termchat import atomic, paths, regular_files
from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.tree import Conversation, Place
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.samplers import Tuning
from termchat.decoding.walk_plan import ONE, WalkPlan
from termchat.lessons.lesson import Claim
from termchat.lessons.lesson_check import LessonCheck
from termchat.lessons.lesson_facts import LessonFacts

SEED = 1
"""The dice of a claim that names none: it is to be the same every time."""
MOST_TOKENS = 400
"""Of a claim's reply that names no length."""
_VERSION = 1
_MOST_BYTES = 4 << 20


def claim_key(claim: Claim) -> str:
    """What tells claims apart by what is measured: the same for the same prompt, settings and checks."""
    made = claim._replace(what="", otherwise="", checks=(), step=0)  # type: ignore[arg-type]
    checks = [check.written for check in claim.checks]
    return hashlib.sha256(repr((tuple(made), sorted(claim.knobs.items()), checks)).encode()).hexdigest()[:20]


class ClaimResults:
    """Whether each claim holds, by the name of a model and the claim's key. A file that cannot be read or written is no
    reason to stop: then it is measured again."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or paths.lesson_claims_file()

    def known(self, model: str) -> Mapping[str, bool]:
        return self._read().get(model, {})

    def keep(self, model: str, results: Mapping[str, bool]) -> None:
        models = self._read()
        models[model] = {**models.get(model, {}), **results}
        try:
            atomic.replace(self._file, json.dumps({"version": _VERSION, "models": models}).encode())
        except OSError:
            return

    def _read(self) -> dict[str, dict[str, bool]]:
        try:
            content: Any = json.loads(regular_files.read(self._file, _MOST_BYTES))
            if content["version"] != _VERSION:
                return {}
            return {
                str(model): {str(key): value for key, value in results.items() if isinstance(value, bool)}
                for model, results in content["models"].items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}


class MeasuredClaim(NamedTuple):
    """Whether a claim holds; None where that could not be found out. `failed` says which checks do not hold, or why not."""

    claim: Claim
    holds: bool | None
    failed: str = ""
    seconds: float = 0.0


class ClaimMeasuring:
    """Measures claims one after the other, on the model of a chat that is idle or soon will be. Call `pump` some times a
    second, after the chat's own. `known` are results of earlier times, which are not measured again; new ones are kept there.
    `results` are those that are there, in order.
    """

    def __init__(self, chat: Chat, claims: Sequence[Claim], known: ClaimResults | None = None) -> None:
        self._chat, self._known = chat, known
        self._waiting = deque(claims)
        self._count = len(claims)
        self.results: list[MeasuredClaim] = []
        self._run: Iterator[MeasuredClaim | None] | None = None
        self._scratch: Chat | None = None

    @property
    def done(self) -> bool:
        return len(self.results) == self._count

    @property
    def otherwise(self) -> list[Claim]:
        """The claims that do not hold on this model: what they say of that is to be told."""
        return [result.claim for result in self.results if result.holds is False]

    def pump(self) -> bool:
        """Measure on; return whether another result is there."""
        before, model = len(self.results), self._chat.host.loaded
        while self._waiting:
            claim = self._waiting[0]
            if self._run is None:
                if self._chat.phase != "idle" or self._chat.model is None:
                    break
                known = self._known.known(model).get(claim_key(claim)) if self._known is not None else None
                self._run = self._measure(claim) if known is None else iter([MeasuredClaim(claim, known)])
            result = next(self._run)
            if result is None:
                break
            if self._known is not None and result.holds is not None and self._scratch is not None:
                self._known.keep(model, {claim_key(claim): result.holds})
            self._waiting.popleft()
            self.results.append(result)
            self._run = self._scratch = None
        return len(self.results) > before

    def cancel(self) -> None:
        """End the reply that is made; nothing more is measured."""
        self._waiting.clear()
        if self._scratch is not None and self._scratch.busy and self._chat.engine.alive:
            self._scratch.stop()
        self._scratch = self._run = None

    def _measure(self, claim: Claim) -> Iterator[MeasuredClaim | None]:
        """Make the reply of a claim and check it; yield None until that is done."""
        begun = monotonic()
        session = Session(
            tuning=Tuning().turn_knobs({"seed": SEED, "max_tokens": MOST_TOKENS, **claim.knobs}),
            conversation=Conversation(claim.system, raw=claim.raw),
            breakpoints=tuple(map(Breakpoint, claim.rules)),
            kept={},
        )
        chat = self._scratch = Chat(self._chat.host, session, keep_logits=False)
        chat.set_constraint(claim.constraint)
        if claim.prefill:
            chat.begin_with(claim.prefill)
        if (plan := _plan_of(claim)) is ONE:
            chat.send(claim.prompt)
        else:
            chat.walks.start(plan, text=claim.prompt)
        refused = ""
        for again in range(1 + claim.again):
            if again:
                chat.forks.regenerate()
            going = True
            while going:
                for change in chat.advance_shared():
                    if isinstance(change, Notice) and change.severity == "error":
                        refused = change.message
                going = chat.phase in ("rendering", "prefill", "decoding", "loading") or chat.walks.running
                going = going or bool(chat.turns.queue and chat.phase == "idle" and not refused) or chat.forks.waits
                if going:
                    yield None
        if chat.failure is not None or refused or chat.conversation.find_reply() == []:
            why = chat.failure.message if chat.failure is not None else refused or "there is no reply"
            yield MeasuredClaim(claim, None, why, monotonic() - begun)
            return
        place = _place(chat.conversation, claim.at)
        facts = LessonFacts(chat, lambda: {"cursor": place} if place is not None else {})
        failed = [f"{check.written} ({_values(check, facts)})" for check in claim.checks if not check.holds(facts)]
        if chat.phase == "paused":
            chat.stop()
        yield MeasuredClaim(claim, not failed, "; ".join(failed), monotonic() - begun)


def _plan_of(claim: Claim) -> WalkPlan:
    if claim.beams:
        return walk_plan.beams(BeamSettings(claim.beams, n_best=claim.beams))
    if claim.walks:
        return walk_plan.vote(claim.walks, claim.vote) if claim.vote else walk_plan.walks(claim.walks)
    return ONE


def _place(conversation: Conversation, at: int | None) -> Place | None:
    """Find the token of that index in the last reply, from the end if it is below 0; None for the last one."""
    tokens = [Place(span.node.number, index) for span in conversation.find_reply() for index in range(span.count)]
    return tokens[at] if at is not None and -len(tokens) <= at < len(tokens) else None


def _values(check: LessonCheck, facts: LessonFacts) -> str:
    """Write the facts of a check with their values: "tokens is 3"."""
    parts = []
    for fact in dict.fromkeys(check.facts):
        value = facts.fact(*fact)
        name = f"{fact.name}({fact.argument!r})" if fact.argument else fact.name
        shown = f"{value:.4g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
        parts.append(f"{name} is {'absent' if value is None else shown}")
    return ", ".join(parts) or "no token meets it"
