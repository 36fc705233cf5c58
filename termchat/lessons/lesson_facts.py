"""The facts of a chat, for lessons: each is a method, computed from the chat's state and its records when it is asked for.

The method's docstring is the help that `termchat learn facts` prints, its return type the kind of the value, and its parameter
is written in brackets behind the fact's name. `FACTS` lists them all, so that a misspelt one is found before anybody plays.
What only a screen knows (its look, its mode, the cursor) is given as a mapping by whoever has one. Nothing here is done per
token: a lesson looks a few times a second at the few facts that its step is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from termchat.chat.groups import list_groups
from termchat.conversation.reply_facts import constraint_cost
from termchat.conversation.standing_reply import standing_reply
from termchat.conversation.tree import Conversation, Node, Place
from termchat.decoding import conditions
from termchat.decoding.conditions import Length, Stop, Text, Threshold, compile_text
from termchat.decoding.constraint import GRAMMAR, format_constraint
from termchat.decoding.loops import LoopFinder
from termchat.decoding.records import UNKNOWN, Candidate, Explanation, Ranked, SettingsRecord, Start, Token
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.stages import STAGES
from termchat.decoding.walk_figures import GroupFigures, WalkFigures

if TYPE_CHECKING:
    from termchat.chat.questions import Questions
    from termchat.chat.reply_group import ReplyGroup
    from termchat.chat.service import Chat

FactKind = Literal["number", "text", "truth", "any"]
FactValue = float | str | bool
Fact = FactValue | None
"""None where it is absent: there is no reply yet, or the engine does not tell it."""
FactArgument = Literal["none", "text", "text?", "knob", "condition"]
"""The text in brackets behind a fact's name: none, any, any or none, the name of a knob, or a condition of one token."""

NEW, EARLIER = "new_", "earlier_"
NONE = "none"
"""What cut a candidate that nothing cut."""
_KINDS: dict[str, FactKind] = {"float": "number", "int": "number", "str": "text", "bool": "truth", "Fact": "any"}


class FactEntry(NamedTuple):
    kind: FactKind
    help: str
    argument: FactArgument = "none"


class FactSet:
    """The facts of one thing: the public methods of a subclass."""

    @classmethod
    def table(cls) -> dict[str, FactEntry]:
        """List the facts in the order in which they are written."""
        entries: dict[str, FactEntry] = {}
        for name, method in vars(cls).items():
            if isinstance(method, FunctionType) and not name.startswith("_") and name != "fact":
                kind = _KINDS[method.__annotations__["return"].removesuffix(" | None")]
                argument = "".join(method.__code__.co_varnames[1 : method.__code__.co_argcount]) or "none"
                help = (method.__doc__ or "").removesuffix(".")
                entries[name] = FactEntry(
                    kind, help[:1].lower() + help[1:], cast("FactArgument", argument + "?" * bool(method.__defaults__))
                )
        return entries

    def fact(self, name: str, argument: str = "") -> Fact:
        """Compute a fact; numbers that an engine does not tell are absent."""
        method = getattr(self, name)
        return _finite(method() if FACTS[name].argument == "none" else method(argument))


def _finite(value: Fact) -> Fact:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- replies ----------------------------------------------------------------------------------------------------------


class ReplyFacts(FactSet):
    """Facts of one reply, from its first token to `end`, the node that it ends in, as it is at the moment: make new ones once
    there are more tokens. Those that are measured while it runs are absent until it is over."""

    def __init__(self, conversation: Conversation, end: Node) -> None:
        self._chat, self.end = conversation, end
        self.spans = conversation.find_reply(end.number)

    @cached_property
    def ids(self) -> list[int]:
        """The signs of its tokens, also where its engine has no ids."""
        return [sign for span in self.spans for sign in span.node.tokens.list_signs(0, span.count)]

    @property
    def start(self) -> Start | None:
        return next((span.node.start for span in reversed(self.spans) if span.node.start is not None), None)

    @property
    def settings(self) -> SettingsRecord | None:
        """The settings of its newest token."""
        span = self.spans[-1]
        begun = zip(span.node.settings, span.node.settings_at, strict=True)
        reached = [record for record, at in begun if at < max(span.count, 1)]
        return max(reached, key=lambda record: record.number, default=None)

    @property
    def prompt(self) -> list[int]:
        return self._chat.list_prompt(self.spans[0].node.number)

    def _column(self, name: str) -> list[float]:
        return [value for span in self.spans for value in getattr(span.node.tokens, name)[: span.count]]

    def _known(self, name: str) -> list[float]:
        return [value for value in self._column(name) if not math.isnan(value)]

    @cached_property
    def _figures(self) -> WalkFigures:
        figures = WalkFigures()
        for row in zip(self.ids, self._column("logprobs"), self._column("entropies"), strict=True):
            figures.append_token(*row)
        return figures

    @cached_property
    def _loops(self) -> bool:
        finder = LoopFinder()
        finder.extend_ids(self.ids)
        return bool(finder.ended) or finder.current is not None

    def _of_prompt(self, field: str) -> float | None:
        value: float = getattr(self.end.prefill, field, UNKNOWN)
        return None if value == UNKNOWN else value

    def _sum(self, field: str) -> float | None:
        values = [getattr(span.node.finished, field, None) for span in self.spans]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def tokens(self) -> float:
        """Tokens of the reply."""
        return len(self.ids)

    def reply(self) -> str:
        """Its text as shown."""
        return "".join(span.node.text(span.count) for span in self.spans)

    def some_token(self, condition: str) -> bool:
        """Whether some token, or its text, meets CONDITION."""
        wanted = cast("Threshold | Text", conditions.parse(condition))
        if isinstance(wanted, Text):
            return compile_text(wanted).search(self.reply()) is not None
        columns = {"entropy": "entropies", "p_end": "p_ends", "probability": "probabilities", "rank": "ranks"}
        values = self._column(columns.get(wanted.measure, "logprobs"))
        met = 0
        for value in map(math.exp, values) if wanted.measure == "model" else values:
            met = met + 1 if (value > wanted.value if wanted.sign == ">" else value < wanted.value) else 0
            if met >= wanted.steps:
                return True
        return False

    def message(self) -> str | None:
        """The message before it."""
        parent = self.spans[0].node.parent
        return self._chat.nodes[parent].written if parent is not None else None

    def says(self, text: str) -> bool:
        """Whether its text contains TEXT."""
        return text in self.reply()

    def message_says(self, text: str) -> bool | None:
        """Whether the message before it contains TEXT."""
        message = self.message()
        return text in message if message is not None else None

    def ending(self) -> str | None:
        """Why it ended: end length stop rule user context."""
        return self.end.finished.reason if self.end.finished is not None else None

    def detail(self) -> str | None:
        """Which stop sequence or rule ended it."""
        return self.end.finished.detail if self.end.finished is not None else None

    def held(self) -> str | None:
        """Text that a stop sequence withheld."""
        return self.end.finished.held if self.end.finished is not None else None

    def prefix(self) -> str | None:
        """The start that was prescribed."""
        return self.start.prefill if self.start is not None else None

    def seed_used(self) -> float | None:
        """The seed it was drawn with."""
        return self.start.seed if self.start is not None else None

    def threads(self) -> float | None:
        """Threads it began with."""
        return self.start.threads if self.start is not None else None

    def exact(self) -> bool | None:
        """Whether it can be made again bit for bit."""
        return self.start.exact if self.start is not None else None

    def used(self, knob: str) -> Fact:
        """The value of KNOB with which its newest token was drawn."""
        settings, start = self.settings, self.start
        if settings is None or start is None:
            return None
        if knob == "seed":
            return float(start.seed)
        if knob == "draft":
            return settings.draft.by if settings.draft is not None else "off"
        if knob == "stop":
            return KNOBS[knob].show(tuple(one.text for one in settings.conditions if isinstance(one, Stop)))
        if knob == "max_tokens":
            lengths = [one.tokens - one.extra for one in settings.conditions if isinstance(one, Length)]
            return float(min(lengths, default=0))
        return _knob_value(knob, getattr(settings.samplers, knob)) if hasattr(settings.samplers, knob) else None

    def forced(self) -> float:
        """Tokens that were chosen and not drawn."""
        return sum(map(bool, self._column("by_hand")))

    def drawn(self) -> float:
        """Tokens that were drawn."""
        return self.tokens() - self.forced()

    def perplexity(self) -> float | None:
        """Exp of minus the mean logprob of its tokens."""
        return self._figures.perplexity

    def mean_entropy(self) -> float | None:
        """Mean entropy of its steps, in bits."""
        return self._figures.mean_entropy

    def highest_entropy(self) -> float | None:
        """Highest entropy of a step, in bits."""
        return max(self._known("entropies"), default=None)

    def highest_rank(self) -> float | None:
        """Highest rank of one of its tokens."""
        return max(self._known("ranks"), default=None)

    def greedy_share(self) -> float | None:
        """Share of its tokens that were the likeliest."""
        ranks = self._known("ranks")
        return ranks.count(0) / len(ranks) if ranks else None

    def distinct2(self) -> float | None:
        """Different pairs of tokens, divided by all pairs."""
        return self._figures.count_distinct(2)

    def distinct3(self) -> float | None:
        """Different triples of tokens, divided by all triples."""
        return self._figures.count_distinct(3)

    def loops(self) -> bool | None:
        """Whether it repeats itself, as the breakpoint `loop` finds it."""
        return self._loops if self.ids else None

    def prompt_tokens(self) -> float | None:
        """Tokens of its prompt."""
        return self._of_prompt("tokens")

    def reused(self) -> float | None:
        """Prompt tokens that were in the KV cache."""
        return self._of_prompt("reused")

    def prefilled(self) -> float | None:
        """Prompt tokens that were processed."""
        tokens, reused = self.prompt_tokens(), self.reused()
        return None if tokens is None or reused is None else tokens - reused

    def ttft_ms(self) -> float | None:
        """Milliseconds to its first token."""
        return self.end.finished.ttft_ms if self.end.finished is not None else None

    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first."""
        return self.end.finished.tokens_per_second if self.end.finished is not None else None

    def drafted(self) -> float | None:
        """Tokens that were drafted."""
        return self._sum("drafted")

    def accepted(self) -> float | None:
        """Drafted tokens that were accepted."""
        return self._sum("accepted")

    def acceptance(self) -> float | None:
        """Accepted divided by drafted."""
        drafted, accepted = self.drafted(), self.accepted()
        return accepted / drafted if drafted and accepted is not None else None

    def bent(self) -> float | None:
        """How far a constraint bent it, in nats."""
        return constraint_cost(self.spans)

    def constraint_used(self) -> bool:
        """Whether it had a constraint."""
        return any(record.constraint for span in self.spans for record in span.node.settings)

    def valid(self) -> bool | None:
        """Whether it matches its constraint, at its end."""
        standing = standing_reply(self._chat, self.end, self.spans[-1].count) if self.end.done else None
        if standing is None:
            return None
        from termchat.decoding.verdict import verdict_on  # compiles grammars

        kind = verdict_on(standing.constraint, standing.data).kind
        return None if kind == "unknown" else kind == "valid"


def _knob_value(name: str, value: Value) -> Fact:
    knob = KNOBS[name]
    if knob.kind == "switch":
        return bool(value)
    if isinstance(value, (int, float)):
        return float(value)
    return value if isinstance(value, str) else knob.show(value)


class PairFacts(FactSet):
    """Facts of the last two replies that are over."""

    def __init__(self, before: ReplyFacts, last: ReplyFacts) -> None:
        self._before, self._last = before, last

    def same(self) -> bool:
        """Whether the last two replies have the same tokens."""
        return self._before.ids == self._last.ids

    def same_seed(self) -> bool | None:
        """Whether they were drawn with the same seed."""
        before, last = self._before.start, self._last.start
        return before.seed == last.seed if before is not None and last is not None else None

    def same_prompt(self) -> bool:
        """Whether they follow the same prompt."""
        return self._before.prompt == self._last.prompt

    def same_knobs(self) -> bool | None:
        """Whether they were drawn with the same settings, the seed aside."""
        before, last = self._before.settings, self._last.settings
        if before is None or last is None:
            return None
        return (before.samplers, before.conditions) == (last.samplers, last.conditions)

    def apart(self) -> float | None:
        """Index of the first token in which they differ."""
        one, other = self._before.ids, self._last.ids
        shorter = min(len(one), len(other))
        at = next((at for at in range(shorter) if one[at] != other[at]), shorter)
        return at if at < max(len(one), len(other)) else None


# --- one token --------------------------------------------------------------------------------------------------------


class TokenFacts(FactSet):
    """Facts of one token, and of the candidates in its step, which are given by their text."""

    def __init__(self, token: Token) -> None:
        self._token = token

    @classmethod
    def table(cls) -> dict[str, FactEntry]:
        """List the facts; those of single stages come behind the one of the whole chain."""
        entries: dict[str, FactEntry] = {}
        for fact, entry in super().table().items():
            entries[fact] = entry
            if fact == "survivors":
                stages = (*STAGES, GRAMMAR)
                entries |= {f"survivors_{name}": FactEntry("number", f"tokens that {name} left") for name in stages}
                left = "probability mass that {} left of what it was given"
                entries |= {f"mass_{name}": FactEntry("number", left.format(name)) for name in stages}
        return entries

    def fact(self, name: str, argument: str = "") -> Fact:
        measure, _, stage = name.partition("_")
        if measure not in ("survivors", "mass") or not stage:
            return super().fact(name, argument)
        return _finite(next((getattr(one, measure) for one in self._token.stages if one.name == stage), None))

    def _candidate(self, text: str) -> Candidate | None:
        return next((one for one in self._token.candidates if text and one.text == text), None)

    def _logits(self) -> list[float]:
        return sorted((candidate.logit for candidate in self._token.candidates), reverse=True)

    def text(self) -> str:
        """The text of the token."""
        return self._token.bytes.decode("utf-8", "replace")

    def id(self) -> float | None:
        """Its id."""
        return self._token.id if self._token.id >= 0 else None

    def position(self) -> float:
        """Its index in the reply."""
        return self._token.step

    def rank(self, text: str = "") -> float | None:
        """Its rank, 0 = likeliest; with TEXT that of a candidate."""
        candidate = self._candidate(text)
        if text and (candidate is None or candidate.id != self._token.id):
            # The list has the highest logits in order, and behind them the drawn token if it is not among them.
            return sum(logit > candidate.logit for logit in self._logits()) if candidate is not None else None
        return self._token.rank if text or self._token.rank >= 0 else None

    def model(self, text: str = "") -> float | None:
        """The model's probability of it, 0 to 1; with TEXT that of a candidate."""
        one = self._candidate(text) if text else self._token
        return math.exp(one.logprob) if one is not None else None

    def probability(self) -> float:
        """Its probability after the chain, 0 to 1."""
        return self._token.probability

    def entropy(self) -> float:
        """Entropy of the step, in bits."""
        return self._token.entropy

    def p_end(self) -> float:
        """The model's probability of ending there."""
        return self._token.p_end

    def survivors(self) -> float | None:
        """Tokens that the whole chain left."""
        stages = self._token.stages
        return stages[-2].survivors if len(stages) > 1 else None  # the last one is the draw

    def top(self) -> str | None:
        """Text of the candidate with the highest logit."""
        candidates = self._token.candidates
        return max(candidates, key=lambda one: one.logit).text if candidates else None

    def lead(self) -> float | None:
        """Its logit minus that of the second."""
        logits = self._logits()
        return logits[0] - logits[1] if len(logits) > 1 else None

    def after(self, text: str) -> float | None:
        """Probability of the candidate TEXT after the chain."""
        candidate = self._candidate(text)
        return candidate.probability if candidate is not None else None

    def cut(self, text: str) -> str | None:
        """The stage that cut the candidate TEXT, 'none' if none did."""
        candidate = self._candidate(text)
        return (candidate.removed_by or NONE) if candidate is not None else None

    def kept(self, text: str) -> bool | None:
        """Whether the candidate TEXT came as far as the dice."""
        candidate = self._candidate(text)
        return candidate.removed_by is None if candidate is not None else None


# --- answers, walks, the chat -----------------------------------------------------------------------------------------


class AnswerFacts(FactSet):
    """Facts of the newest answers to questions."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    @property
    def _why(self) -> Explanation | None:
        explained = self._questions.explained
        return explained.explained.explanation if explained is not None else None

    def why_asked(self) -> str | None:
        """Why-not: the text that was typed, without the spaces around it."""
        return self._questions.explained.text.strip() if self._questions.explained is not None else None

    def removed_by(self) -> str | None:
        """Why-not: the stage that cut it, 'none' if none did."""
        return (self._why.removed_by or NONE) if self._why and self._why.there is None else None

    def why_penalised(self) -> bool | None:
        """Why-not: whether a penalty lowered it."""
        return self._why.penalised is not None if self._why and self._why.there is None else None

    def pieces(self, text: str = "") -> float | None:
        """Tokens in the newest list of tokens; with TEXT in the list of that text."""
        newest = self._questions.tokenized
        return len(newest.tokenized.ids) if newest is not None else None

    def pieces_of(self) -> str | None:
        """The text that was taken apart."""
        return self._questions.tokenized.text if self._questions.tokenized is not None else None


class GroupFacts(FactSet):
    """Facts of the newest group of walks."""

    def __init__(self, group: ReplyGroup) -> None:
        self.group = group

    @cached_property
    def _figures(self) -> GroupFigures:
        figures = GroupFigures(self.group.nodes)
        for walk in self.group.nodes:
            for span in self.group.list_spans(walk):
                columns = span.node.tokens
                for at in range(span.count):
                    figures.append_token(walk, columns.ids[at], columns.logprobs[at], columns.entropies[at])
        return figures

    @property
    def _winner(self) -> Ranked | None:
        """The best walk of a vote, without an answer where none has one."""
        ranked = self.group.rank_replies().walks if self.group.group.kind == "vote" else ()
        return ranked[0] if ranked else None

    def walks_used(self, knob: str) -> Fact:
        """The value of KNOB with which its first walk was drawn."""
        node = next(iter(self.group.nodes.values()), None)
        return ReplyFacts(self.group.conversation, node).used(knob) if node is not None else None

    def walks(self) -> float:
        """Walks in the newest group."""
        return len(self.group.nodes)

    def ended_walks(self) -> float:
        """Walks of it that ended."""
        return sum(node.done for node in self.group.nodes.values())

    def distinct_walks(self) -> float:
        """Different walks in it, by their tokens."""
        return self._figures.trie.different

    def walks_kind(self) -> str:
        """What it is: walks grid compare best vote beams; compare is A/B."""
        return self.group.group.kind

    def answer(self) -> str | None:
        """Most common answer of a vote, '' where no walk has one."""
        return (self._winner.answer or "") if self._winner is not None else None

    def kept_walk(self) -> float | None:
        """The walk that was kept, from 1."""
        return self.group.kept + 1 if self.group.kept is not None else None

    def winner_votes(self) -> float | None:
        """Votes for that answer."""
        return (self._winner.votes or 0) if self._winner is not None else None

    def beams_steps(self) -> float:
        """Steps of the beam search."""
        return len(self.group.beams)


class StateFacts(FactSet):
    """Facts of the chat as it is, and of its model."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def running(self) -> bool:
        """Whether a reply is running, paused or not."""
        return self._chat.busy

    def paused(self) -> bool:
        """Whether it is paused."""
        return self._chat.phase == "paused"

    def ready(self) -> bool:
        """Whether a model is loaded and nothing runs."""
        return self._chat.phase == "idle"

    def raw(self) -> bool:
        """Whether the chat has no template."""
        return self._chat.conversation.raw

    def constraint(self) -> str:
        """The constraint as shown, '' for none."""
        return format_constraint(self._chat.constraint)

    def constraint_kind(self) -> str:
        """json_schema regex choice gbnf lark, 'none' for none."""
        return self._chat.constraint.kind if self._chat.constraint is not None else NONE

    def system(self) -> str:
        """The system prompt."""
        return self._chat.conversation.system

    def model_name(self) -> str | None:
        """The model's name."""
        return self._chat.model.name if self._chat.model is not None else None

    def stops(self, text: str) -> bool:
        """Whether TEXT is one of the stop sequences."""
        return text in self._chat.tuning.stop

    def breakpoints(self) -> float:
        """Breakpoints and stop rules that are on."""
        return len(self._chat.rules)

    def biases(self) -> float:
        """Logit biases."""
        return len(self._chat.tuning.logit_bias)

    def context_used(self) -> float:
        """Tokens of the branch that is shown."""
        return self._chat.conversation.count_ids()


class CountFacts(FactSet):
    """Counts of a conversation; `replies` are the last nodes of the replies that count."""

    def __init__(self, conversation: Conversation, replies: Collection[Node]) -> None:
        self._replies, self._living = replies, list(_living(conversation))

    def turns(self) -> float:
        """Messages sent."""
        return sum(node.role == "user" for node in self._living)

    def replies(self) -> float:
        """Replies that ended; walks do not count."""
        return len(self._replies)

    def groups(self) -> float:
        """Groups of walks, grids, votes and the like that were begun."""
        return len({node.group.number for node in self._living if node.group is not None})


def _living(conversation: Conversation) -> Iterator[Node]:
    """Yield the nodes that a person sees, oldest first, without summaries of a full context."""
    summaries = {node.omitted.summary for node in conversation.nodes.values() if node.omitted is not None}
    hidden: set[int | None] = set()
    for number, node in sorted(conversation.nodes.items()):  # a parent was there before what grew from it
        if node.deleted or node.parent in hidden or number in summaries:
            hidden.add(number)
        else:
            yield node


def finished_replies(conversation: Conversation) -> list[Node]:
    """List the last nodes of finished replies, oldest first, without walks."""
    return [node for node in _living(conversation) if node.finished and not node.continued and node.walk is None]


# --- all facts --------------------------------------------------------------------------------------------------------


COUNTED = CountFacts.table()
"""What is counted in the lesson's chat, and with `new_` before it since the step began."""
_SINCE = {f"{NEW}{name}": FactEntry("number", f"{entry.help}, since the step began") for name, entry in COUNTED.items()}
_SINCE["new_replies"] = FactEntry(
    "number", "replies that ended since the step began, 0 while one runs; walks do not count"
)
REPLY_FACTS, TOKEN_FACTS = ReplyFacts.table(), TokenFacts.table()
_PAIR, _ANSWERS, _GROUP, _STATE = PairFacts.table(), AnswerFacts.table(), GroupFacts.table(), StateFacts.table()
_EARLIER = {
    f"{EARLIER}{name}": entry._replace(help=f"of the reply before it: {entry.help}")
    for name, entry in REPLY_FACTS.items()
}
_KNOB_KINDS: dict[str, FactKind] = {"float": "number", "int": "number", "switch": "truth", "seed": "any"}
_KNOBS = {name: FactEntry(_KNOB_KINDS.get(knob.kind, "text"), knob.help) for name, knob in KNOBS.items()}
SCREEN_FACTS = {
    "look": FactEntry("text", "the look of the tokens"),
    "page": FactEntry("text", "the page of the panels"),
    "mode": FactEntry("text", "what has the keyboard: chat tune tokens walks big dialog:NAME"),
    "view": FactEntry("text", "what token mode shows"),
    "cursor": FactEntry("number", "index of the token under the cursor in its reply, -1 without one"),
    "rolls": FactEntry("number", "throws of the dice"),
}
"""What only a screen knows."""

FACT_GROUPS: dict[str, dict[str, FactEntry]] = {
    "The lesson's chat": COUNTED | _SINCE,
    "The last reply, running or not; with earlier_ before the name, the reply before it": REPLY_FACTS,
    "The last two replies": _PAIR,
    "One token: under the cursor, or the next one of a paused reply, or the newest": TOKEN_FACTS,
    "Answers to questions": _ANSWERS,
    "The newest group of walks": _GROUP,
    "The chat and the model": _STATE,
    "Knobs as they are now": _KNOBS,
    "The screen": SCREEN_FACTS,
}
"""Facts of one thing, by a heading that people read."""
FACTS: dict[str, FactEntry] = {
    name: entry for facts in FACT_GROUPS.values() for name, entry in facts.items()
} | _EARLIER


def kind_of(name: str, argument: str = "") -> FactKind:
    """Infer the kind of a fact's value; of the value of a knob, the knob's."""
    entry = FACTS[name]
    return _KNOBS[argument].kind if entry.argument == "knob" else entry.kind


ScreenFacts = Mapping[str, object]
"""Facts of the screen by name; the `cursor` is the place of a token in the tree, or None."""


class LessonFacts:
    """The chat as a lesson sees it; `screen` gives the facts of the screen as they are. What is counted since a step began is
    counted in the conversation that was shown then: in another one all is new. Only replies to the lesson's own `messages`
    count (None: all), and of those that the reader stopped only if `stopped_count`."""

    def __init__(
        self,
        chat: Chat,
        screen: Callable[[], ScreenFacts] = dict,
        messages: Collection[str] | None = None,
        *,
        stopped_count: bool = True,
    ) -> None:
        self._chat, self._screen = chat, screen
        self._messages, self._stopped_count = messages, stopped_count
        self._begun: tuple[object, dict[str, Fact]] = (None, {})
        self._recorded: tuple[Node, int, Token] | None = None
        self._group: ReplyGroup | None = None
        self._lists: dict[str, int | None] = {}
        """Tokens of each text whose list was asked for, None until it came."""
        self._listed_by = chat.model

    # --- for `Playing` ------------------------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Count from now on."""
        counts = self.counts()
        self._begun = self._chat.conversation, {name: counts.fact(name) for name in COUNTED}

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
        return any(self.is_strange(span.node) for span in self._chat.conversation.find_path())

    def is_strange(self, node: Node) -> bool:
        """Tell whether a node is a message that is not the lesson's."""
        return self._messages is not None and node.role == "user" and node.written.strip() not in self._messages

    def fact(self, name: str, argument: str = "") -> Fact:
        """Compute a fact as it is now."""
        if name in SCREEN_FACTS:
            return self._of_screen(name)
        if name in _KNOBS:
            value = getattr(self._chat.tuning, name)
            return "fresh" if name == "seed" and value is None else _knob_value(name, value)
        if name in _SINCE:
            return self._count_since(name.removeprefix(NEW))
        if name == "pieces" and argument:
            self._lists.setdefault(argument, None)
            self.note_list()
            return self._lists[argument]
        if name == "position" and isinstance(cursor := self._of_screen("cursor"), int) and cursor >= 0:
            return cursor
        facts = _SUBJECTS[name](self)
        return facts.fact(name.removeprefix(EARLIER), argument) if facts is not None else None

    # --- replies and counts -------------------------------------------------------------------------------------------

    def reply(self) -> ReplyFacts | None:
        """Find the last reply of the shown branch; None where it has no token or record yet."""
        conversation = self._chat.conversation
        spans = conversation.find_reply()
        if spans and not self._counts_reply(spans[-1].node):
            replies = [span for span in conversation.find_path() if span.node.role == "assistant"]
            spans = [span for span in replies if self._counts_reply(span.node)]
        return ReplyFacts(conversation, spans[-1].node) if spans else None

    def earlier(self) -> ReplyFacts | None:
        """Find the finished reply before it."""
        last, before = self.reply(), self._finished()
        if last is not None:
            pieces = {span.node.number for span in last.spans if span.count == len(span.node.ids)}
            before = [node for node in before if node.number < last.end.number and node.number not in pieces]
        return ReplyFacts(self._chat.conversation, before[-1]) if before else None

    def _counts_reply(self, node: Node) -> bool:
        """Tell whether all messages before a reply are the lesson's."""
        path = self._chat.conversation.find_path(node.number) if self._messages is not None else []
        return not any(self.is_strange(span.node) for span in path)

    def _finished(self) -> list[Node]:
        """List the last nodes of finished replies that count."""
        return [
            node
            for node in finished_replies(self._chat.conversation)
            if (self._stopped_count or (node.finished is not None and node.finished.reason != "user"))
            and self._counts_reply(node)
        ]

    def pair(self) -> PairFacts | None:
        """Find the last two replies that are over."""
        ended = self._finished()[-2:]
        return PairFacts(*(ReplyFacts(self._chat.conversation, end) for end in ended)) if len(ended) == 2 else None

    def answers(self) -> AnswerFacts:
        """Find the newest answers to questions."""
        return AnswerFacts(self._chat.questions)

    def state(self) -> StateFacts:
        """Find the state of the chat."""
        return StateFacts(self._chat)

    def counts(self) -> CountFacts:
        return CountFacts(self._chat.conversation, self._finished())

    def _count_since(self, name: str) -> float:
        if name == "replies" and self._chat.busy:
            return 0  # what is said of the new ones is not certain before the last of them is over
        conversation, before = self._begun
        known = before.get(name, 0) if conversation is self._chat.conversation else 0
        return cast("float", self.counts().fact(name)) - cast("float", known)

    # --- tokens and walks ---------------------------------------------------------------------------------------------

    def token(self) -> TokenFacts | None:
        """Find the token at hand: under the cursor, else what the panels show."""
        token = self._find_token()
        return TokenFacts(token) if token is not None else None

    def _find_token(self) -> Token | None:
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
        known = self._recorded  # a record is read once, as long as the cursor stays where it is
        if known is None or known[0] is not node or known[1] != place.at:
            token = self._chat.session.read_token(node, place.at)
            if token is None:
                return None
            known = self._recorded = (node, place.at, token)
        return known[2]

    def _of_screen(self, name: str) -> Fact:
        value = self._screen().get(name)
        if name != "cursor":
            return value if isinstance(value, (str, bool, int, float)) else None
        if not isinstance(value, Place):
            return -1 if "cursor" in self._screen() else None
        spans = self._chat.conversation.find_reply(value.node) if value.node in self._chat.conversation.nodes else []
        return sum(span.count for span in spans[:-1]) + value.at

    def group(self) -> GroupFacts | None:
        """Find the newest group of walks."""
        conversation, known = self._chat.conversation, self._group
        group = self._chat.walks.shown or next(reversed(list_groups(conversation)), None)
        if group is None:
            return None
        if known is None or known.conversation is not conversation or known.group.number != group.group.number:
            known = self._group = group  # it alone knows which of its replies was kept
        return GroupFacts(known)


_SUBJECTS: dict[str, Callable[[LessonFacts], FactSet | None]] = {
    name: find
    for table, find in (
        (COUNTED, LessonFacts.counts), (REPLY_FACTS, LessonFacts.reply), (_EARLIER, LessonFacts.earlier),
        (_PAIR, LessonFacts.pair), (TOKEN_FACTS, LessonFacts.token), (_ANSWERS, LessonFacts.answers),
        (_GROUP, LessonFacts.group), (_STATE, LessonFacts.state),
    )
    for name in table
}  # fmt: skip
"""What finds the reply, token or group that a fact is about."""
