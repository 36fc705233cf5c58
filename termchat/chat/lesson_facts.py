"""The facts of a chat, for lessons: from its state and its records, each computed when it is asked for.

What only a screen knows (its look, its mode, the cursor) is given as a mapping by whoever has one. Nothing here is done per
token: a lesson looks a few times a second at the few facts that its step is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from termchat.chat.groups import groups
from termchat.chat.lesson_replies import (
    FactFound,
    LessonReply,
    answers,
    counted,
    finished_replies,
    is_strange,
    knob_fact,
)
from termchat.chat.reply_run import ReplyGroup
from termchat.chat.service import Chat
from termchat.conversation.tree import Node, Place
from termchat.decoding.conditions import Text, Threshold
from termchat.decoding.constraint import shown
from termchat.decoding.records import UNKNOWN, Candidate, Ranked, Token
from termchat.decoding.samplers import KNOBS
from termchat.decoding.walk_figures import GroupFigures, WalkFigures
from termchat.lessons.fact_table import COUNTED, EARLIER, FACTS, REPLY_FACTS, SCREEN_FACTS
from termchat.lessons.lesson import Lesson

NEW = "new_"
NONE = "none"
"""What cut a candidate that nothing cut."""
_SURVIVORS, _MASS = "survivors_", "mass_"
ScreenFacts = Mapping[str, object]
"""Facts of the screen by name; the `cursor` is the place of a token in the tree, or None."""


def _no_screen() -> ScreenFacts:
    return {}


class ChatFacts:
    """The facts of one chat; `screen` gives those of the screen as they are. What is counted since a step began is counted in
    the conversation that was shown then: in another one all is new. In a `lesson` only replies to its own messages count, and
    none that the reader stopped, unless it is about that."""

    def __init__(
        self, chat: Chat, screen: Callable[[], ScreenFacts] = _no_screen, lesson: Lesson | None = None
    ) -> None:
        self._chat, self._screen = chat, screen
        self._messages = lesson.messages if lesson is not None else None
        self._stopped_count = lesson is None or lesson.is_of_endings
        self._begun: tuple[object, dict[str, int]] = (None, {})
        self._hints = 0
        self._replies: dict[int, tuple[tuple[object, ...], LessonReply]] = {}
        self._recorded: tuple[Node, int, Token] | None = None
        self._group: tuple[tuple[object, ...], _GroupFacts] | None = None
        self._lists: dict[str, int | None] = {}
        """Tokens of each text whose list was asked for, None until it came."""
        self._listed_by = chat.model
        self._knows: dict[str, Callable[[], FactFound]] = {
            **{name: partial(self._count, name) for name in COUNTED},
            **{NEW + name: partial(self._count, name, new=True) for name in COUNTED},
            "branches": lambda: len(chat.conversation.leaves()),
            "hints": lambda: self._hints,
            **_chat_facts(chat),
        }

    # --- for `Playing` ------------------------------------------------------------------------------------------------

    def begin_step(self) -> None:
        self._begun = self._chat.conversation, self._counts()

    def took_hint(self, hints: int) -> None:
        self._hints = hints

    def note_list(self) -> None:
        """Remember the tokens of a text that a lesson asks about: its list may be edited, and is about another text then."""
        if self._listed_by is not self._chat.model:
            self._listed_by, self._lists = self._chat.model, dict.fromkeys(self._lists)
        newest = self._chat.questions.tokenized
        if newest is not None and newest.node is None and newest.text in self._lists:
            self._lists[newest.text] = len(newest.tokenized.ids)

    @property
    def has_strange(self) -> bool:
        """Whether the branch that is shown has a message that is not the lesson's: no reply to it counts."""
        return any(self.is_strange(span.node) for span in self._chat.conversation.path())

    def is_strange(self, node: Node) -> bool:
        """Whether it is a message that is not the lesson's."""
        return is_strange(node, self._messages)

    def fact(self, name: str, argument: str = "") -> FactFound:
        """See `lessons.lesson_check.LessonFacts`."""
        found = self._fact(name, argument)
        if isinstance(found, float) and not math.isfinite(found):
            return None
        return found

    def meets(self, condition: Threshold | Text) -> bool | None:
        reply = self.reply()
        return reply.meets(condition) if reply is not None else None

    def _fact(self, name: str, argument: str) -> FactFound:
        if name in self._knows:
            return self._knows[name]()
        if name in REPLY_FACTS:
            reply = self.reply()
            return self._of_reply(reply, name, argument)
        if name.startswith(EARLIER):
            return self._of_reply(self.earlier(), name.removeprefix(EARLIER), argument)
        if name in _OF_TWO:
            return self._of_two(name)
        if name in SCREEN_FACTS:
            return self._of_screen(name)
        if name == "pieces" and argument:
            self._lists.setdefault(argument, None)
            self.note_list()
            return self._lists[argument]
        if name == "walks_used":
            group = self._newest_group()
            return group.used(argument) if group is not None else None
        if name in _WALKS:
            group = self._newest_group()
            return _WALKS[name](group) if group is not None else None
        if name in _ANSWERS:
            return _ANSWERS[name](self._chat)
        if name in KNOBS:
            value = getattr(self._chat.tuning, name)
            return "fresh" if name == "seed" and value is None else knob_fact(name, value)
        if name == "stops":
            return argument in self._chat.tuning.stop
        if name == "position":
            return self._position()
        assert name in FACTS, name
        token = self.token()
        return token_fact(token, name, argument) if token is not None else None

    # --- replies ------------------------------------------------------------------------------------------------------

    def reply(self) -> LessonReply | None:
        """The last reply of the shown branch; None where it has no token or record yet."""
        conversation = self._chat.conversation
        spans = conversation.reply()
        if spans and not answers(conversation, spans[-1].node, self._messages):
            spans = [
                span
                for span in conversation.path()
                if span.node.role == "assistant" and answers(conversation, span.node, self._messages)
            ]
        return self._figured(spans[-1].node) if spans else None

    def earlier(self) -> LessonReply | None:
        """The finished reply before it."""
        last = self.reply()
        pieces = (
            {span.node.number for span in last.spans if span.count == len(span.node.ids)} if last is not None else set()
        )
        newest = last.end.number if last is not None else math.inf
        before = [node for node in self._finished() if node.number < newest and node.number not in pieces]
        return self._figured(before[-1]) if before else None

    def _finished(self) -> list[Node]:
        """Where the replies end that are over, and that count."""
        conversation = self._chat.conversation
        return [
            node
            for node in finished_replies(conversation)
            if (self._stopped_count or (node.finished is not None and node.finished.reason != "user"))
            and answers(conversation, node, self._messages)
        ]

    def _figured(self, end: Node) -> LessonReply:
        """What was reckoned of it stays as long as it is the same."""
        made = LessonReply(self._chat.conversation, end)
        known = self._replies.get(end.number)
        if known is None or known[0] != (id(self._chat.conversation), *made.stamp):
            self._replies = dict(list(self._replies.items())[-3:])
            known = self._replies[end.number] = ((id(self._chat.conversation), *made.stamp), made)
        return known[1]

    def _of_reply(self, reply: LessonReply | None, name: str, argument: str) -> FactFound:
        if reply is None:
            return None
        found = reply.fact(name, argument)
        if found is None and not reply.end.done and reply.end.number == self._chat.conversation.leaf:
            live = self._chat.live
            found = {"ttft_ms": live.ttft_ms, "tokens_per_second": live.tokens_per_second}.get(name)
        return found

    def _of_two(self, name: str) -> FactFound:
        """Of the last two replies that are over."""
        ended = self._finished()[-2:]
        if len(ended) < 2:
            return None
        return _OF_TWO[name](*(self._figured(node) for node in ended))

    # --- one token ----------------------------------------------------------------------------------------------------

    def token(self) -> Token | None:
        """The token at hand: under the cursor, else what the panels show."""
        place = self._screen().get("cursor")
        node = self._chat.conversation.nodes.get(place.node) if isinstance(place, Place) else None
        if not isinstance(place, Place) or node is None or node.role != "assistant":
            return self._chat.live.shown
        asked = self._chat.questions.inspected
        if asked is not None and asked.node is node and asked.index == place.at and asked.now:
            return asked.inspected.token
        waiting = self._chat.paused
        if waiting is not None and place.at >= len(node.ids):
            return waiting.token
        return self._record(node, place.at)

    def _record(self, node: Node, index: int) -> Token | None:
        """A record is read once, as long as the cursor stays where it is."""
        known = self._recorded
        if known is None or known[0] is not node or known[1] != index:
            found = self._chat.record(node, index)
            if found is None:
                return None
            known = self._recorded = (node, index, found)
        return known[2]

    def _position(self) -> FactFound:
        cursor = self._of_screen("cursor")
        if isinstance(cursor, int) and cursor >= 0:
            return cursor
        token = self._chat.live.shown
        return token.step if token is not None else None

    def _of_screen(self, name: str) -> FactFound:
        value = self._screen().get(name)
        if name != "cursor":
            return value if isinstance(value, (str, bool, int, float)) else None
        if "cursor" not in self._screen():
            return None
        if not isinstance(value, Place):
            return -1
        spans = self._chat.conversation.reply(value.node) if value.node in self._chat.conversation.nodes else []
        return sum(span.count for span in spans[:-1]) + value.at

    # --- counts and walks ---------------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, int]:
        return counted(self._chat.conversation, self._finished())

    def _count(self, name: str, *, new: bool = False) -> int:
        if name == "replies" and new and self._chat.busy:
            return 0  # what is said of the new ones is not certain before the last of them is over
        conversation, before = self._begun
        known = before.get(name, 0) if new and conversation is self._chat.conversation else 0
        return self._counts()[name] - known

    def _newest_group(self) -> _GroupFacts | None:
        chat = self._chat
        group = chat.walks.shown
        if group is None:
            number = max(
                (node.group.number for node in chat.conversation.nodes.values() if node.group is not None), default=None
            )
            if number is None:
                return None
            known = self._group[1].group if self._group is not None else None
            is_known = known is not None and known.conversation is chat.conversation and known.group.number == number
            made = [] if is_known else groups(chat.conversation)
            group = made[-1] if made else known
        if group is None:
            return None
        stamp = (
            id(group),
            tuple((walk, len(node.ids), node.done) for walk, node in group.nodes.items()),
            len(group.beams),
        )
        if self._group is None or self._group[0] != stamp:
            self._group = (stamp, _GroupFacts(group))
        return self._group[1]


# --- facts of a token -------------------------------------------------------------------------------------------------


def token_fact(token: Token, name: str, argument: str = "") -> FactFound:
    """A fact of one token, or with an argument of the candidate of that text."""
    if argument:
        candidate = next((one for one in token.candidates if one.text == argument), None)
        if candidate is None:
            return None
        if name == "rank":
            return _rank(token, candidate)
        return _OF_CANDIDATE[name](candidate)
    if name.startswith((_SURVIVORS, _MASS)):
        mark = _SURVIVORS if name.startswith(_SURVIVORS) else _MASS
        stage = next((stage for stage in token.stages if stage.name == name.removeprefix(mark)), None)
        if stage is None:
            return None
        return stage.survivors if mark == _SURVIVORS else stage.mass
    if name not in _OF_TOKEN:
        return None
    return _OF_TOKEN[name](token)


def _rank(token: Token, candidate: Candidate) -> int:
    """By raw logit: the list has the highest ones in order, and behind them the drawn token if it is not among them."""
    if candidate.id == token.id:
        return token.rank
    return sum(other.logit > candidate.logit for other in token.candidates)


def _lead(token: Token) -> float | None:
    logits = sorted((candidate.logit for candidate in token.candidates), reverse=True)
    return logits[0] - logits[1] if len(logits) > 1 else None


_OF_TOKEN: dict[str, Callable[[Token], FactFound]] = {
    "text": lambda token: token.bytes.decode("utf-8", "replace"),
    "id": lambda token: token.id if token.id >= 0 else None,
    "rank": lambda token: token.rank if token.rank >= 0 else None,
    "logit": lambda token: token.logit,
    "logprob": lambda token: token.logprob,
    "model": lambda token: math.exp(token.logprob),
    "probability": lambda token: token.probability,
    "entropy": lambda token: token.entropy,
    "p_end": lambda token: token.p_end,
    "forced_here": lambda token: token.forced,
    "survivors": lambda token: (
        token.stages[-2].survivors if len(token.stages) > 1 else None
    ),  # the last one is the draw
    "top": lambda token: max(token.candidates, key=lambda one: one.logit).text if token.candidates else None,
    "lead": _lead,
}
_OF_CANDIDATE: dict[str, Callable[[Candidate], FactFound]] = {
    "logit": lambda candidate: candidate.logit,
    "model": lambda candidate: math.exp(candidate.logprob),
    "after": lambda candidate: candidate.probability,
    "noise": lambda candidate: candidate.noise,
    "cut": lambda candidate: candidate.removed_by or NONE,
    "kept": lambda candidate: candidate.removed_by is None,
}


# --- facts of two replies ---------------------------------------------------------------------------------------------


def _apart(one: LessonReply, other: LessonReply) -> FactFound:
    common = next((at for at, pair in enumerate(zip(one.ids, other.ids, strict=False)) if pair[0] != pair[1]), None)
    if common is None and len(one.ids) != len(other.ids):
        return min(len(one.ids), len(other.ids))
    return common


def _same_seed(one: LessonReply, other: LessonReply) -> FactFound:
    starts = one.start, other.start
    return starts[0].seed == starts[1].seed if starts[0] is not None and starts[1] is not None else None


def _same_knobs(one: LessonReply, other: LessonReply) -> FactFound:
    settings = one.settings, other.settings
    if settings[0] is None or settings[1] is None:
        return None
    return (settings[0].samplers, settings[0].conditions) == (settings[1].samplers, settings[1].conditions)


_OF_TWO: dict[str, Callable[[LessonReply, LessonReply], FactFound]] = {
    "same": lambda one, other: one.ids == other.ids,
    "apart": _apart,
    "same_seed": _same_seed,
    "same_prompt": lambda one, other: one.prompt == other.prompt,
    "same_knobs": _same_knobs,
}


# --- facts of walks ---------------------------------------------------------------------------------------------------


class _GroupFacts:
    """The figures of a group's walks, each reckoned when it is asked for."""

    def __init__(self, group: ReplyGroup) -> None:
        self.group = group
        self._figures: GroupFigures | None = None

    @property
    def figures(self) -> GroupFigures:
        if self._figures is None:
            self._figures = GroupFigures(self.group.nodes)
            for walk in self.group.nodes:
                for span in self.group.spans(walk):
                    columns = span.node.tokens
                    for at in range(span.count):
                        self._figures.append(walk, columns.ids[at], columns.logprobs[at], columns.entropies[at])
        return self._figures

    @property
    def winner(self) -> Ranked | None:
        """Of a vote; a walk without an answer where none has one."""
        ranked = self.group.ranking().walks if self.group.group.kind == "vote" else ()
        return ranked[0] if ranked else None

    def used(self, knob: str) -> FactFound:
        """The value of a knob with which its first walk was drawn."""
        node = next(iter(self.group.nodes.values()), None)
        return LessonReply(self.group.conversation, node).fact("used", knob) if node is not None else None

    def means(self) -> list[float]:
        figures: list[WalkFigures] = list(self.figures.of.values())
        return [one.mean_logprob for one in figures if one.mean_logprob is not None]


_WALKS: dict[str, Callable[[_GroupFacts], FactFound]] = {
    "walks": lambda it: len(it.group.nodes),
    "ended_walks": lambda it: sum(node.done for node in it.group.nodes.values()),
    "distinct_walks": lambda it: it.figures.trie.different,
    "walks_kind": lambda it: it.group.group.kind,
    "walks_part": lambda it: it.figures.trie.first_parted,
    "shared": lambda it: it.figures.trie.shared,
    "kept_walk": lambda it: it.group.kept + 1 if it.group.kept is not None else None,
    "answer": lambda it: (it.winner.answer or "") if it.winner is not None else None,
    "winner_votes": lambda it: (it.winner.votes or 0) if it.winner is not None else None,
    "best_logprob": lambda it: max(it.means(), default=None),
    "worst_logprob": lambda it: min(it.means(), default=None),
    "beams_steps": lambda it: len(it.group.beams),
}


# --- facts of answers, of the chat and its model ----------------------------------------------------------------------


def _why(of: Callable[[Any], FactFound]) -> Callable[[Chat], FactFound]:
    """Of the newest explanation."""
    return lambda chat: (
        of(chat.questions.explained.explained.explanation) if chat.questions.explained is not None else None
    )


def _told(number: float) -> float | None:
    """None where an engine does not tell it."""
    return None if math.isnan(number) else number


_ANSWERS: dict[str, Callable[[Chat], FactFound]] = {
    "why_text": _why(lambda it: it.text),
    "why_asked": lambda chat: chat.questions.explained.text.strip() if chat.questions.explained is not None else None,
    "removed_by": _why(lambda it: (it.removed_by or NONE) if it.there is None else None),
    "winner": _why(lambda it: it.winner_text),
    "why_rank": _why(lambda it: it.rank if it.rank != UNKNOWN else None),
    "why_model": _why(lambda it: _told(math.exp(it.logprob))),
    "why_after": _why(lambda it: _told(it.probability)),
    "why_penalised": _why(lambda it: it.penalised is not None if it.there is None else None),
    "whatif_kept": lambda chat: chat.questions.scored.summary.kept if chat.questions.scored is not None else None,
    "whatif_first": lambda chat: chat.questions.scored.summary.first if chat.questions.scored is not None else None,
    "pieces": lambda chat: (
        len(chat.questions.tokenized.tokenized.ids) if chat.questions.tokenized is not None else None
    ),
    "pieces_of": lambda chat: chat.questions.tokenized.text if chat.questions.tokenized is not None else None,
}


def _chat_facts(chat: Chat) -> dict[str, Callable[[], FactFound]]:
    def of_model(field: str) -> Callable[[], FactFound]:
        return lambda: getattr(chat.model, field) if chat.model is not None else None

    def cut_turns() -> int:
        omitted = [span.node.omitted.turns for span in chat.conversation.path() if span.node.omitted is not None]
        return omitted[-1] if omitted else 0

    return {
        "running": lambda: chat.busy,
        "paused": lambda: chat.phase == "paused",
        "thinking": lambda: chat.thinking is not None,
        "ready": lambda: chat.phase == "idle",
        "phase": lambda: chat.phase,
        "seed_fixed": lambda: chat.tuning.seed is not None,
        "raw": lambda: chat.conversation.raw,
        "system": lambda: chat.conversation.system,
        "constraint": lambda: shown(chat.constraint),
        "constraint_kind": lambda: chat.constraint.kind if chat.constraint is not None else NONE,
        "breakpoints": lambda: len(chat.rules),
        "biases": lambda: len(chat.tuning.logit_bias),
        "model_name": of_model("name"),
        "quantization": of_model("quantization"),
        "vocabulary": of_model("vocabulary"),
        "context_size": of_model("context"),
        "context_used": lambda: chat.conversation.length(),
        "cut_turns": cut_turns,
    }
