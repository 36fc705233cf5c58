"""What a lesson may ask of the chat: every fact by its name, what kind of value it has, and what it means.

Facts are computed elsewhere; checks are read against this table, so that a misspelt one is found before anybody plays.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.samplers import KNOBS
from termchat.decoding.stages import STAGES

FactKind = Literal["number", "text", "truth", "any"]
FactValue = float | str | bool
FactArgument = Literal["none", "text", "text?", "knob"]
"""What stands in brackets behind a fact's name: nothing, a text, a text or nothing, or the name of a knob."""


class FactEntry(NamedTuple):
    kind: FactKind
    help: str
    argument: FactArgument = "none"


class FactGroup(NamedTuple):
    """Facts of one thing, under a heading that people read."""

    heading: str
    facts: dict[str, FactEntry]


def _numbers(**helps: str) -> dict[str, FactEntry]:
    return {name: FactEntry("number", help) for name, help in helps.items()}


def _texts(**helps: str) -> dict[str, FactEntry]:
    return {name: FactEntry("text", help) for name, help in helps.items()}


def _truths(**helps: str) -> dict[str, FactEntry]:
    return {name: FactEntry("truth", help) for name, help in helps.items()}


COUNTED = {
    "turns": "messages sent",
    "replies": "replies that ended; walks do not count",
    "forks": "replies that grow from the middle of another",
    "versions": "replies that were regenerated beside another",
    "groups": "groups of walks, grids, votes and the like that were begun",
}
"""What is counted in the lesson's chat, and with `new_` before it since the step began."""
_COUNTS = {
    **_numbers(**COUNTED),
    **_numbers(**{f"new_{name}": f"{help}, since the step began" for name, help in COUNTED.items()}),
    "new_replies": FactEntry("number", "replies that ended since the step began, 0 while one runs; walks do not count"),
    **_numbers(branches="ends of branches", hints="hints taken in this step, 0 to 3"),
}

_OF_REPLY: dict[str, FactEntry] = {
    **_numbers(tokens="tokens of the reply"),
    **_texts(reply="its text as shown", message="the message before it"),
    "says": FactEntry("truth", "whether its text contains TEXT", "text"),
    "message_says": FactEntry("truth", "whether the message before it contains TEXT", "text"),
    **_texts(
        ending="why it ended: end length stop rule user context",
        detail="which stop sequence or rule ended it",
        held="text that a stop sequence withheld",
        prefix="the start that was prescribed",
    ),
    **_numbers(seed_used="the seed it was drawn with", threads="threads it began with"),
    **_truths(exact="whether it can be made again bit for bit"),
    "used": FactEntry("any", "the value of KNOB with which its newest token was drawn", "knob"),
    **_numbers(
        settings_changes="how often its settings changed while it ran",
        forced="tokens that were chosen and not drawn",
        drawn="tokens that were drawn",
        perplexity="exp of minus the mean logprob of its tokens",
        mean_logprob="mean logprob of its tokens",
        sum_logprob="sum of the logprobs of its tokens",
        forced_perplexity="perplexity of the tokens that were chosen",
        drawn_perplexity="perplexity of the tokens that were drawn",
        mean_entropy="mean entropy of its steps, in bits",
        highest_entropy="highest entropy of a step, in bits",
        lowest_model="smallest probability that the model gave one of its tokens",
        highest_rank="highest rank of one of its tokens",
        greedy_share="share of its tokens that were the likeliest",
        distinct1="different tokens, divided by all tokens",
        distinct2="different pairs of tokens, divided by all pairs",
        distinct3="different triples of tokens, divided by all triples",
    ),
    **_truths(loops="whether it repeats itself, as the breakpoint `loop` finds it"),
    **_numbers(
        loop_at="index of the token with which its first loop begins",
        loop_period="tokens of what is repeated there",
        loop_times="how often that is said",
        prompt_tokens="tokens of its prompt",
        reused="prompt tokens that were in the KV cache",
        prefilled="prompt tokens that were processed",
        prefill_ms="milliseconds of that",
        ttft_ms="milliseconds to its first token",
        tokens_per_second="tokens per second after the first",
        decode_ms="milliseconds of decoding",
        drafted="tokens that were drafted",
        accepted="drafted tokens that were accepted",
        acceptance="accepted divided by drafted",
        rounds="rounds of drafting",
        thoughts="tokens of its thoughts",
        bent="how far a constraint bent it, in nats",
    ),
    **_truths(constraint_used="whether it had a constraint", valid="whether it matches its constraint, at its end"),
}
_OF_TWO = {
    **_truths(
        same="whether the last two replies have the same tokens",
        same_seed="whether they were drawn with the same seed",
        same_prompt="whether they follow the same prompt",
        same_knobs="whether they were drawn with the same settings, the seed aside",
    ),
    **_numbers(apart="index of the first token in which they differ"),
}
_EARLIER = {
    f"earlier_{name}": entry._replace(help=f"of the reply before it: {entry.help}") for name, entry in _OF_REPLY.items()
}

_STAGE_NAMES = (*STAGES, GRAMMAR)
_OF_TOKEN: dict[str, FactEntry] = {
    **_texts(text="the text of the token"),
    **_numbers(id="its id", position="its index in the reply"),
    "rank": FactEntry("number", "its rank, 0 = likeliest; with TEXT that of a candidate", "text?"),
    "logit": FactEntry("number", "its logit; with TEXT that of a candidate", "text?"),
    **_numbers(logprob="natural log of the model's probability of it"),
    "model": FactEntry("number", "the model's probability of it, 0 to 1; with TEXT that of a candidate", "text?"),
    **_numbers(
        probability="its probability after the chain, 0 to 1",
        entropy="entropy of the step, in bits",
        p_end="the model's probability of ending there",
    ),
    **_truths(forced_here="whether it was chosen and not drawn"),
    **_numbers(survivors="tokens that the whole chain left"),
    **_numbers(**{f"survivors_{name}": f"tokens that {name} left" for name in _STAGE_NAMES}),
    **_numbers(**{f"mass_{name}": f"probability mass that {name} left of what it was given" for name in _STAGE_NAMES}),
    **_texts(top="text of the candidate with the highest logit"),
    **_numbers(lead="its logit minus that of the second"),
    "after": FactEntry("number", "probability of the candidate TEXT after the chain", "text"),
    "noise": FactEntry("number", "the dice of the candidate TEXT", "text"),
    "cut": FactEntry("text", "the stage that cut the candidate TEXT, 'none' if none did", "text"),
    "kept": FactEntry("truth", "whether the candidate TEXT came as far as the dice", "text"),
}

_ANSWERS = {
    **_texts(
        why_text="why-not: the token that was asked about",
        why_asked="why-not: the text that was typed, without the spaces around it",
        removed_by="why-not: the stage that cut it, 'none' if none did",
        winner="why-not: the token that was drawn",
    ),
    **_numbers(
        why_rank="why-not: its rank",
        why_model="why-not: the model's probability of it",
        why_after="why-not: its probability after the chain",
    ),
    **_truths(why_penalised="why-not: whether a penalty lowered it"),
    **_numbers(
        whatif_kept="what-if: share of the tokens that would be drawn again",
        whatif_first="what-if: index of the first token that would differ",
    ),
    "pieces": FactEntry("number", "tokens in the newest list of tokens; with TEXT in the list of that text", "text?"),
    **_texts(pieces_of="the text that was taken apart"),
}

_WALKS = {
    "walks_used": FactEntry("any", "the value of KNOB with which its first walk was drawn", "knob"),
    **_numbers(
        walks="walks in the newest group",
        ended_walks="walks of it that ended",
        distinct_walks="different walks in it, by their tokens",
    ),
    **_texts(
        walks_kind="what it is: walks grid compare best vote beams; compare is A/B",
        answer="most common answer of a vote, '' where no walk has one",
    ),
    **_numbers(
        walks_part="tokens that all walks have in common before two differ",
        shared="share of tokens in common beginnings, 0 to 1",
        kept_walk="the walk that was kept, from 1",
        winner_votes="votes for that answer",
        best_logprob="highest mean logprob of a walk",
        worst_logprob="lowest mean logprob of a walk",
        beams_steps="steps of the beam search",
    ),
}

_CHAT = {
    **_truths(
        running="whether a reply is running, paused or not",
        paused="whether it is paused",
        thinking="whether the model is thinking right now",
        ready="whether a model is loaded and nothing runs",
        seed_fixed="whether a seed is set",
        raw="whether the chat has no template",
    ),
    **_texts(
        phase="what the chat does: no model, loading, idle, rendering, prefill, decoding, paused, failed",
        constraint="the constraint as shown, '' for none",
        constraint_kind="json_schema regex choice gbnf lark, 'none' for none",
        system="the system prompt",
        model_name="the model's name",
        quantization="how its weights are stored",
    ),
    "stops": FactEntry("truth", "whether TEXT is one of the stop sequences", "text"),
    **_numbers(
        breakpoints="breakpoints and stop rules that are on",
        biases="logit biases",
        vocabulary="tokens that the model knows",
        context_size="tokens that the context has room for",
        context_used="tokens of the branch that is shown",
        cut_turns="turns that the model no longer sees",
    ),
}

_KINDS: dict[str, FactKind] = {"float": "number", "int": "number", "switch": "truth", "seed": "any"}
_KNOBS = {name: FactEntry(_KINDS.get(knob.kind, "text"), knob.help) for name, knob in KNOBS.items()}

_SCREEN = {
    **_texts(
        look="the look of the tokens",
        page="the page of the panels",
        mode="what has the keyboard: chat tune tokens walks big dialog:NAME",
        view="what token mode shows",
        walks_view="the view of the walks",
        draft_text="what the composer holds",
        knob="the knob that TUNE points at",
    ),
    **_numbers(cursor="index of the token under the cursor in its reply, -1 without one", rolls="throws of the dice"),
    **_truths(drawer="whether the panels are open as a drawer"),
}
SCREEN_FACTS = frozenset(_SCREEN)
"""What only a screen knows."""

FACT_GROUPS = (
    FactGroup("The lesson's chat", _COUNTS),
    FactGroup("The last reply, running or not; with earlier_ before the name, the reply before it", _OF_REPLY),
    FactGroup("The last two replies", _OF_TWO),
    FactGroup("One token: under the cursor, or the next one of a paused reply, or the newest", _OF_TOKEN),
    FactGroup("Answers to questions", _ANSWERS),
    FactGroup("The newest group of walks", _WALKS),
    FactGroup("The chat and the model", _CHAT),
    FactGroup("Knobs as they are now", _KNOBS),
    FactGroup("The screen", _SCREEN),
)
FACTS: dict[str, FactEntry] = {
    name: entry for group in (*FACT_GROUPS, FactGroup("", _EARLIER)) for name, entry in group.facts.items()
}
REPLY_FACTS, EARLIER = frozenset(_OF_REPLY), "earlier_"
TOKEN_FACTS = frozenset(_OF_TOKEN)
CLAIM_FACTS = (
    REPLY_FACTS | TOKEN_FACTS | frozenset(_EARLIER) | frozenset(_OF_TWO) | frozenset(_WALKS) | frozenset(_KNOBS)
)
"""What a claim can be made of: replies, tokens and walks."""


def kind_of(name: str, argument: str = "") -> FactKind:
    """The kind of a fact's value; of the value of a knob, the knob's."""
    entry = FACTS[name]
    return _KNOBS[argument].kind if entry.argument == "knob" else entry.kind
