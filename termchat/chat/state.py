"""The state of a chat: what all its rooms share, and what changed."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

from termchat.chat.changes import (
    Change,
    Full,
    LiveChanged,
    Notice,
    PathChanged,
    Phase,
    StatusChanged,
    WalksChanged,
)
from termchat.chat.host import Host
from termchat.chat.live import Live
from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.thoughts import count_thought, is_thinking
from termchat.conversation.tree import Conversation, Span
from termchat.conversation.unsent import Unsent
from termchat.decoding.conditions import Condition, IgnoreEnd, Length
from termchat.decoding.constraint import Constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Failed
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.abilities import (
    LOCAL,
    EngineAbilities,
    Feature,
    Refused,
    find_refusal,
    refused_constraint,
    refused_knobs,
    refused_rule,
)
from termchat.engine.port import Engine, ModelInfo, ModelSpec, Paused


class State:
    """A session on a host, as it is now. The phase and the failure are written by `enter_phase` and `report_failure`."""

    _phase: Phase = "idle"
    """The phase of its replies."""

    def __init__(
        self, host: Host, session: Session, candidates: int, on_full: str, keep_logits: bool, step_by_step_text: str
    ) -> None:
        self.host = host
        self.candidates, self.on_full, self.keep_logits = candidates, on_full, keep_logits
        self.step_by_step_text = step_by_step_text
        self.session = session
        tree = session.conversation
        self.blank = Unsent() if tree.nodes else tree.unsent
        """What was written in a chat that has no message yet: there is one such chat, however often it is begun."""
        self.live = Live()
        self.paused: Paused | None = None
        """What the running reply waits with, of several the one that is looked at; None while it does not wait."""
        self.failure: Failed | None = None
        self.full: Full | None = None
        """The full context that a person is asked about; `chat.turns.make_room` answers."""
        self.prefill: str | None = None
        """What the next reply begins with, whatever the seed; "" leaves it to the model. None: nothing was said of it, so a new
        reply begins freely, and another one in the place of a reply begins as that did."""
        self._made_raw: Conversation | None = None
        """The empty chat that is in raw mode for want of a template."""
        self._changes: list[Change] = []
        self._pumping = False
        self.on_change: Callable[[], object] = lambda: None
        """Called once as soon as `pump` has something to report that it did not bring itself."""
        self._reported = host.phase, host.progress
        self.group: ReplyGroup | None = None
        """The group of several replies that runs, the last one, or one that was opened."""

    @property
    def conversation(self) -> Conversation:
        return self.session.conversation

    @property
    def tuning(self) -> Tuning:
        """Settings of the next token."""
        return self.session.tuning

    @property
    def origin(self) -> dict[str, str]:
        """Origin of each knob's value."""
        return self.session.origins

    @property
    def breakpoints(self) -> tuple[Breakpoint, ...]:
        return self.session.breakpoints

    @property
    def constraint(self) -> Constraint | None:
        return self.session.constraint

    @property
    def engine(self) -> Engine:
        return self.host.engine

    @property
    def phase(self) -> Phase:
        """Phase of the host's model, or of the replies of this chat once a model is there."""
        return self._phase if self.host.phase == "idle" else self.host.phase

    @property
    def spec(self) -> ModelSpec | None:
        return self.host.spec

    @property
    def model(self) -> ModelInfo | None:
        return self.host.model

    @property
    def busy(self) -> bool:
        """Whether a reply is running or paused."""
        return self.phase in ("rendering", "prefill", "decoding", "paused")

    @property
    def beginning(self) -> str:
        """Text that another reply in the place of the last one begins with."""
        spans = self.conversation.find_reply()
        before = spans[0].node.start.prefill if spans and spans[0].node.start is not None else ""
        return self.first_words if self.prefill is not None or before in ("", self.step_by_step_text) else before

    @property
    def first_words(self) -> str:
        """Text that the next new reply begins with."""
        if self.prefill is not None:
            return self.prefill
        return self.step_by_step_text if self.tuning.step_by_step and self.find_refusal("continue") is None else ""

    @property
    def thinking(self) -> int | None:
        """Number of thought tokens of the running reply that is shown, None while it does not think."""
        spans = self.conversation.find_reply() if self.busy else []
        if not spans or not is_thinking(spans[-1].node):
            return None
        return sum(count_thought(span.node, span.count) for span in spans)

    def check_template(self) -> None:
        """Put an empty chat into raw mode while the model has no chat template, and say so."""
        chat, model = self.conversation, self.model
        if model is None or chat.nodes:
            return
        if not model.has_template and not chat.raw:
            chat.raw, self._made_raw = True, chat
            hint = "in raw mode the model continues your exact text"
            self.add_changes(PathChanged(), StatusChanged(), Notice(f"{model.name} has no chat template", hint))
        elif model.has_template and self._made_raw is chat:
            chat.raw, self._made_raw = False, None
            self.add_changes(PathChanged(), StatusChanged())

    def check_thinking(self) -> None:
        """Say where the model cannot do what the knob `think` says."""
        model, wanted = self.model, self.tuning.thinks
        if model is None or wanted is None or self.conversation.raw:
            return
        if wanted and model.thinking is None:
            hint = "set think_start and think_end if it does, or turn step_by_step on"
            self.add_changes(
                Notice("this model does not think: its chat template has no thinking tags", hint, "warning")
            )
        elif not wanted and model.thinking is not None and not model.thinking_switch:
            hint = "a budget ends the thoughts early: think 1"
            self.add_changes(
                Notice("thinking cannot be turned off: the model's chat template has no switch", hint, "warning")
            )

    @property
    def tolerance(self) -> float | None:
        """Largest difference of a probability that is computed again from the first one; None if that was not measured."""
        measured = self.model.measured if self.model is not None else None
        # The odds of a token change by a factor of exp(largest_change) at most.
        return None if measured is None else math.tanh(measured.largest_change / 4)

    @property
    def drafts(self) -> DraftSettings | None:
        """Speculation settings of the next reply; None if off or unsupported."""
        return None if self.cannot_draft else self.tuning.drafts

    @property
    def cannot_draft(self) -> str:
        """Reason why speculation is unsupported, whatever the knob `draft` says; "" if it is supported."""
        if (refused := self.find_refusal("drafts")) is not None:
            return refused.message
        if self.model is not None and not self.model.can_rewind:
            return f"{self.model.name} cannot take back drafted tokens"
        return ""

    @property
    def abilities(self) -> EngineAbilities:
        """Abilities of the engine with the loaded model; until they are known, all."""
        return self.model.abilities if self.model is not None else LOCAL

    @property
    def offers(self) -> frozenset[Feature]:
        """Features of the engine now: one that samples itself answers no questions during a reply."""
        told = self.busy and not self.abilities.client_draw
        return self.engine.offers - {"inspect", "explain"} if told else self.engine.offers

    def find_refusal(self, feature: Feature) -> Refused | None:
        """Explain why the engine lacks a feature, and which has it; None if it has it."""
        if feature in self.engine.offers and feature not in self.offers:
            return Refused(f"{self.host.engine_name} is busy with the reply", "ask again when it is over")
        abilities = self.model.abilities if self.model is not None else None
        return find_refusal(feature, self.engine.offers, abilities, self.host.engine_name)

    def refused_knobs(self, tuning: Tuning) -> dict[str, Refused]:
        """List the knobs whose values the engine refuses, and why."""
        return refused_knobs(tuning, self.abilities, self.host.engine_name)

    def refused_constraint(self, constraint: Constraint) -> Refused | None:
        """Explain why replies cannot match a constraint; None if they can."""
        return self.find_refusal("constrain") or refused_constraint(constraint, self.abilities, self.host.engine_name)

    def refused_rule(self, condition: Condition) -> Refused | None:
        """Explain why the engine cannot evaluate a condition; None if it can."""
        return refused_rule(condition, self.abilities, self.host.engine_name)

    def list_lacking(self, tuning: Tuning) -> list[str]:
        """List the knobs that are turned and that the engine does not know."""
        return [
            name for name in self.abilities.lacks if getattr(tuning, name) not in (KNOBS[name].off, KNOBS[name].default)
        ]

    def check_offered(self, feature: Feature) -> bool:
        """Tell whether the engine has a feature; a notice says why not."""
        why = self.find_refusal(feature)
        if why is not None:
            self.add_changes(Notice(*why))
        return why is None

    @property
    def saving_problem(self) -> str | None:
        """Reason why chats are not being saved at the moment."""
        return self.session.store.problem() if self.session.store is not None else None

    @property
    def unsaved(self) -> str | None:
        """Reason why the messages cannot be saved at the moment; None also in an empty chat."""
        return self.saving_problem if self.conversation.leaf is not None else None

    def show_leaf(self, leaf: int | None, live: Live | None = None) -> None:
        """Show another leaf of the conversation; without `live`, the record of its newest token is read."""
        self.conversation.leaf = leaf
        self.session.save_leaf()
        if live is None:
            self.session.read_newest()
            live = Live.restore_from(self.conversation, self.session.newest)
        else:
            self.session.newest = live.token
        self.live = live
        self.add_changes(PathChanged(), LiveChanged(), StatusChanged())

    def add_changes(self, *changes: Change) -> None:
        """Add changes to report; equal ones count once."""
        is_first = not self._changes
        self._changes += [change for change in changes if isinstance(change, Notice) or change not in self._changes]
        if is_first and self._changes and not self._pumping:
            self.on_change()

    def take_changes(self) -> list[Change]:
        """Return all changes to report and forget them."""
        changes, self._changes = self._changes, []
        return changes

    def enter_phase(self, phase: Phase) -> None:
        """Enter a phase of the host's model, or of the chat's replies."""
        if phase in ("no model", "loading", "failed"):
            self.host.phase, self._phase = phase, "idle"
        else:
            self.host.phase, self._phase = "idle", phase
        (self.host.busy.discard if self._phase == "idle" else self.host.busy.add)(self)
        self.add_changes(StatusChanged())

    def follow_host(self) -> None:
        """Report what another chat on the host did to its model."""
        before, self._reported = self._reported, (self.host.phase, self.host.progress)
        if self._reported != before:
            self.check_template()
            self.add_changes(StatusChanged())

    def report_failure(self, failure: Failed) -> None:
        """Report a failure once."""
        if failure is self.failure:
            return
        self.failure = failure
        hint = failure.hint
        if failure.kind == "engine" and not hint:
            hint = "restart the engine to continue from the last token"
        self.add_changes(Notice(failure.message, hint, "error"))

    def give_back(self, session: Session, *texts: str) -> None:
        """Return unsent texts to the person, in the chat where they were written."""
        session.conversation.unsent.give_back(*texts)
        session.save_unsent()
        self.add_changes(StatusChanged())

    def accepts_text(self, text: str) -> bool:
        """Tell whether a text is short enough for a chat; a longer one is given back, and a notice says why."""
        if not is_too_large(text):
            return True
        self.give_back(self.session, text)
        most = f"a text can have at most {LARGEST_MESSAGE:,} characters"
        self.add_changes(StatusChanged(), Notice(most, "shorten it, or split it into several messages", "error"))
        return False

    def check_ready(self, what: str) -> bool:
        """Return whether a reply can be made now; add a notice with the reason if not."""
        if self.phase == "idle":
            return True
        why = "a reply is running" if self.busy else "no model is loaded"
        self.add_changes(Notice(f"cannot {what}: {why}"))
        return False

    def choose_seed(self) -> int:
        """Choose the next reply's seed: the knob's, or a fresh one."""
        return secrets.randbelow(2**31) if self.tuning.seed is None else self.tuning.seed

    def build_conditions(self, tuning: Tuning, longer: int) -> tuple[Condition, ...]:
        """List what ends or pauses a reply under these settings that may have `longer` more tokens than they allow. Rules that
        the engine cannot look at are left out."""
        ends = (
            Length(condition.tokens + longer, extra=longer) if isinstance(condition, Length) else condition
            for condition in tuning.conditions()
        )
        return (*ends, *(rule for rule in self.rules if self.refused_rule(rule) is None))

    @property
    def rules(self) -> tuple[Condition, ...]:
        """The breakpoints and stop rules that are on."""
        return tuple(point.condition for point in self.breakpoints if point.enabled)

    @property
    def ignores_end(self) -> bool:
        """Whether a reply continues past an end token."""
        return any(isinstance(rule, IgnoreEnd) for rule in self.rules)

    def is_foreign(self, leaf: int | None = None) -> bool:
        """Return whether another model than the loaded one made ids of the path to `leaf` (None: the leaf shown)."""
        return self.model is not None and is_foreign(self.conversation.find_path(leaf), self.model)

    @property
    def shown_group(self) -> ReplyGroup | None:
        """The group on the screen: None once another branch or chat is shown."""
        group, tree = self.group, self.conversation
        there = group is not None and group.conversation is tree and group.walk_of(tree.leaf) is not None
        return group if there else None

    def show_group(self, group: ReplyGroup, number: int) -> None:
        """Show a group, and select one of its replies: it is the leaf of the conversation."""
        self.group, group.cursor = group, number
        self.show_leaf(group.nodes[number].number, group.lives.get(number))
        self.add_changes(WalksChanged())
        self.paused = group.paused.get(number)


def is_foreign(path: list[Span], model: ModelInfo) -> bool:
    """Return whether another model made ids of the path, or an engine without ids answered one of its messages. A turn whose
    ids are the whole prompt starts afresh.
    """
    foreign = False
    for span in path:
        start = span.node.start
        foreign = foreign and not span.node.whole
        foreign = foreign or (start is not None and start.model.sha256 != model.sha256)
        foreign = foreign or (model.abilities.ids and span.node.role == "user" and not span.node.ids)
    return foreign
