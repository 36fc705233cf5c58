"""Facts of lessons: their numbers are those that come of an independent reckoning from the records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import pytest

from termchat.conversation.tree import Conversation, Place
from termchat.decoding import walk_plan
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.lessons.expressions import Expression, LessonCheck
from termchat.lessons.lesson_facts import FACTS, SCREEN_FACTS, LessonFacts, TokenFacts, finished_replies
from tests.chat.driven_chat import Driven, Faked, Make
from tests.made_walks import ids_of

pytestmark = pytest.mark.model


def holds(facts: LessonFacts, *checks: str) -> list[str]:
    """The checks that do not hold."""
    return [check for check in checks if not LessonCheck(check).holds(facts)]


def test_the_figures_of_a_reply(make: Make) -> None:
    driven = make(Tuning(seed=7, temperature=1.0, max_tokens=60), kept=True, conversation=Conversation(raw=True))
    node = driven.say("The sea is")
    facts, tokens = LessonFacts(driven.chat), (driven.chat.session.kept or {})[node.number]
    assert len(tokens) == 60
    logprobs = [token.logprob for token in tokens]
    pairs = [(a.id, b.id) for a, b in pairwise(tokens)]
    assert facts.fact("tokens") == 60
    assert facts.fact("perplexity") == pytest.approx(math.exp(-sum(logprobs) / 60), rel=1e-5)
    assert facts.fact("distinct2") == pytest.approx(len(set(pairs)) / 59)
    assert facts.fact("mean_entropy") == pytest.approx(sum(token.entropy for token in tokens) / 60, rel=1e-5)
    assert facts.fact("highest_entropy") == pytest.approx(max(token.entropy for token in tokens), rel=1e-5)
    assert facts.fact("greedy_share") == pytest.approx(sum(token.rank == 0 for token in tokens) / 60)
    assert facts.fact("highest_rank") == max(token.rank for token in tokens)
    assert facts.fact("reply") == "".join(token.text for token in tokens)
    assert facts.fact("message") == "The sea is"
    assert facts.fact("ending") == "length"
    assert node.prefill is not None
    assert facts.fact("prompt_tokens") == node.prefill.tokens == 3
    assert facts.fact("prefilled") == 3 - node.prefill.reused
    most = max(token.entropy for token in tokens)
    assert (
        holds(
            facts,
            f"some_token('entropy > {most - 0.01:.4f}')",
            f"not some_token('entropy > {most + 0.01:.4f}')",
            "some_token('rank > 0')",
        )
        == []
    )
    assert (
        holds(facts, "used('temperature') == 1", "used('seed') == 7", "used('max_tokens') == 60", "ready", "raw") == []
    )


def test_greedy_loops_where_the_tokens_say_so(make: Make) -> None:
    driven = make(Tuning(temperature=0.0, max_tokens=120), conversation=Conversation(raw=True))
    node = driven.say("The sea is the sea is the sea is")
    ids = list(node.ids)
    facts = LessonFacts(driven.chat)
    period = next((p for p in range(1, 30) if ids[-4 * p :] == ids[-p:] * 4), None)
    assert period is not None, "this text repeats itself"
    assert facts.fact("loops") is True


def test_two_replies_are_compared(make: Make) -> None:
    driven = make(Tuning(seed=7, temperature=1.0, max_tokens=20), conversation=Conversation(raw=True))
    first = driven.say("The sea is")
    facts = LessonFacts(driven.chat)
    facts.begin_step()
    assert facts.fact("same") is None
    driven.chat.forks.regenerate()
    driven.until(lambda: facts.fact("replies") == 2)
    driven.idle()
    assert (
        holds(
            facts,
            "same",
            "same_seed",
            "same_prompt",
            "new_replies == 1",
            "turns == 1",
            "new_turns == 0",
        )
        == []
    )
    assert facts.fact("apart") is None
    assert holds(facts, "same_knobs") == []
    driven.chat.adjust_setting("seed", 8)
    driven.chat.forks.regenerate()
    driven.until(lambda: facts.fact("replies") == 3)
    driven.idle()
    apart = next(at for at, pair in enumerate(zip(first.ids, driven.reply.ids, strict=False)) if pair[0] != pair[1])
    assert facts.fact("apart") == apart
    assert (
        holds(facts, "not same", "not same_seed", "earlier_used('seed') == 7", "used('seed') == 8", "same_knobs") == []
    )
    assert facts.fact("earlier_reply") == first.text()
    driven.chat.forks.fork_reply(driven.reply, 5, ids=[100])
    driven.until(lambda: facts.fact("replies") == 4)
    driven.idle()
    assert holds(facts, "forced == 1") == []
    driven.chat.forks.fork_reply(first, 0, ids=[100])
    driven.until(lambda: facts.fact("replies") == 5)
    driven.idle()


def test_the_token_at_hand(make: Make) -> None:
    tuning = Tuning(seed=7, top_k=20, top_p=0.5, min_p=0.0, max_tokens=10)
    driven = make(tuning, kept=True, conversation=Conversation(raw=True))
    node = driven.say("The capital of France is the city of")
    cursor: dict[str, object] = {"cursor": Place(node.number, 2), "mode": "tokens", "look": "rank"}
    facts = LessonFacts(driven.chat, lambda: cursor)
    token = (driven.chat.session.kept or {})[node.number][2]
    assert facts.fact("text") == token.bytes.decode()
    assert facts.fact("position") == facts.fact("cursor") == 2
    assert facts.fact("entropy") == token.entropy
    assert facts.fact("model") == pytest.approx(math.exp(token.logprob))
    assert facts.fact("survivors_top_k") == 20
    top = sorted(token.candidates, key=lambda one: -one.logit)[:20]
    mass = sum(math.exp(one.logprob) for one in top)
    held, nucleus = 0.0, 0
    for one in top:
        if held < 0.5:
            held, nucleus = held + math.exp(one.logprob) / mass, nucleus + 1
    assert facts.fact("survivors_top_p") == nucleus
    assert facts.fact("mass_top_p") == pytest.approx(held, rel=1e-4)
    assert facts.fact("survivors_xtc") is None
    assert facts.fact("top") == top[0].text
    assert facts.fact("lead") == pytest.approx(top[0].logit - top[1].logit)
    for rank, one in enumerate(top):
        assert facts.fact("model", one.text) == pytest.approx(math.exp(one.logprob))
        assert facts.fact("rank", one.text) == rank
        assert facts.fact("cut", one.text) == ("none" if rank < nucleus else "top_p")
        assert facts.fact("kept", one.text) == (rank < nucleus)
    assert facts.fact("model", " no such word") is None
    value = Expression(f"model('{top[0].text}') * 100").value(facts)
    assert value == pytest.approx(100 * math.exp(top[0].logprob))
    cursor["cursor"] = None
    assert facts.fact("cursor") == -1
    assert facts.fact("position") == 9
    assert facts.fact("text") == (driven.chat.session.kept or {})[node.number][-1].bytes.decode()
    driven.chat.adjust_setting("top_p", 1.0)
    driven.until(lambda: driven.chat.live.preview is not None)
    assert facts.fact("survivors_top_p") == 20, "as the panels do, it shows what the turned knob makes of it"


def test_why_not_and_pieces(make: Make) -> None:
    driven = make(Tuning(seed=7, top_k=3, max_tokens=8), conversation=Conversation(raw=True))
    node = driven.say("The sea is")
    facts = LessonFacts(driven.chat)
    assert facts.fact("removed_by") is None
    driven.chat.questions.explain_token(node, 0, " xylophone")
    driven.until(lambda: driven.chat.questions.explained)
    assert holds(facts, "removed_by == 'top_k'", "not why_penalised") == []
    driven.chat.questions.ask_tokens("unbelievable")
    driven.until(lambda: driven.chat.questions.tokenized)
    assert facts.fact("pieces") == len(driven.chat.questions.tokenized.tokenized.ids)  # type: ignore[union-attr]
    assert facts.fact("pieces_of") == "unbelievable"
    assert facts.fact("why_asked") == "xylophone"


def test_the_tokens_of_a_text_are_known_after_its_list_was_edited(make: Make) -> None:
    """A guess that is typed into the open list of tokens makes it the list of another text."""
    driven = make(Tuning(max_tokens=1), conversation=Conversation(raw=True))
    driven.say("The sea is")
    facts = LessonFacts(driven.chat)
    assert facts.fact("pieces", "The cat sat on the mat.") is None
    for text in ("The cat sat on the mat.", "The cat sat on the mat.7"):
        driven.chat.questions.ask_tokens(text)
        driven.until(lambda text=text: facts.fact("pieces_of") == text)
        facts.note_list()
    assert facts.fact("pieces") == 8
    assert facts.fact("pieces", "The cat sat on the mat.") == 7


def test_a_constrained_reply(make: Make) -> None:
    driven = make(Tuning(seed=7, max_tokens=20))
    driven.chat.set_constraint(Constraint("choice", '["yes", "no"]'))
    node = driven.say("Is the sea blue?")
    facts = LessonFacts(driven.chat)
    assert holds(facts, "constraint_used", "valid", "constraint_kind == 'choice'", "constraint != ''") == []
    assert facts.fact("bent") == pytest.approx(sum(node.tokens.bent))
    assert facts.fact("bent") > 0  # type: ignore[operator]


def test_walks(make: Make) -> None:
    driven = make(Tuning(seed=7, temperature=1.2, max_tokens=12), conversation=Conversation(raw=True))
    driven.idle()
    facts = LessonFacts(driven.chat)
    facts.begin_step()
    assert facts.fact("walks") is None
    driven.chat.walks.start(walk_plan.walks(4), text="The sea is")
    driven.until(lambda: driven.chat.walks.shown is not None and facts.fact("ended_walks") == 4)
    driven.idle()
    group = driven.chat.walks.shown
    assert group is not None
    ids = [tuple(ids_of(group, walk)) for walk in group.nodes]
    assert facts.fact("walks") == 4
    assert facts.fact("distinct_walks") == len(set(ids))
    assert holds(facts, "new_groups == 1", "walks_kind == 'walks'", "replies == 0", "new_turns == 1") == []
    assert facts.fact("winner_votes") is None
    drawn_with = facts.fact("temperature")
    driven.chat.adjust_setting("temperature", 0.3)
    assert facts.fact("walks_used", "temperature") == drawn_with != facts.fact("temperature")
    driven.chat.walks.start(walk_plan.vote(2, "nothing that it says"), text="The sea is")
    driven.until(lambda: facts.fact("walks_kind") == "vote" and facts.fact("ended_walks") == 2)
    assert (facts.fact("winner_votes"), facts.fact("answer")) == (0, "")


def test_steered_by_hand(make: Make) -> None:
    driven = make(Tuning(seed=7, temperature=0.8, max_tokens=6), conversation=Conversation(raw=True))
    node = driven.stepped("The sea is", 2)
    facts = LessonFacts(driven.chat)
    assert holds(facts, "running", "paused", "tokens == 2", "not ready") == []
    assert driven.chat.paused is not None
    waits = driven.chat.paused.token
    assert facts.fact("entropy") == waits.entropy, "what the paused reply would take next is at hand"
    other = next(one for one in waits.candidates if one.id != waits.id)
    driven.chat.replies.force_tokens([other.id])
    driven.until(lambda: len(node.ids) == 3)
    driven.until(lambda: driven.chat.paused is not None)
    assert facts.fact("forced") == 1
    assert facts.fact("drawn") == 2
    driven.chat.stop()
    driven.until(lambda: node.done)
    assert facts.fact("ending") == "user"


def test_every_fact_of_the_table_can_be_asked_of_an_empty_and_of_a_used_chat(make: Make) -> None:
    arguments = {"none": "", "text": " blue", "text?": " blue", "knob": "top_k", "condition": "rank > 0"}
    screen: Mapping[str, object] = {"cursor": None, "mode": "chat"}
    driven = make(Tuning(seed=7, max_tokens=4))
    facts = LessonFacts(driven.chat, lambda: screen)

    def ask() -> set[str]:
        return {name for name, entry in FACTS.items() if facts.fact(name, arguments[entry.argument]) is not None}

    ask()
    driven.say("Hello")
    known = ask()
    assert {
        "tokens",
        "used",
        "says",
        "entropy",
        "survivors",
        "temperature",
        "seed",
        "cursor",
        "context_used",
    } <= known
    assert known & SCREEN_FACTS.keys() == {"cursor", "mode"}


def test_numbers_that_an_engine_does_not_tell_are_absent() -> None:
    nan = math.nan
    token = Token(0, 0, -1, b"x", "x", nan, -0.5, -1, nan, nan, nan, 1, False, [], [], {}, 0, 0)
    assert {TokenFacts(token).fact(name) for name in ("rank", "id", "survivors", "top")} == {None}
    chat = Faked()
    facts = LessonFacts(chat.chat)
    chat.chat.live.token = token
    assert facts.fact("entropy") is None
    assert facts.fact("model") == math.exp(-0.5)


def test_what_was_deleted_does_not_count() -> None:
    driven: Driven = Faked()
    assert isinstance(driven, Faked)
    driven.replied("one", "a", "b")
    node = driven.replied("two", "c")
    facts = LessonFacts(driven.chat)
    assert (facts.fact("turns"), facts.fact("replies")) == (2, 2)
    driven.chat.conversation.delete_node(node.number)
    assert (facts.fact("turns"), facts.fact("replies")) == (2, 1)
    assert [one.number for one in finished_replies(driven.chat.conversation)] != [node.number]


def test_in_another_chat_all_is_new() -> None:
    driven = Faked()
    driven.replied("one", "a")
    facts = LessonFacts(driven.chat)
    facts.begin_step()
    assert facts.fact("new_replies") == 0
    driven.chat.new()
    driven.replied("two", "b")
    assert facts.fact("new_replies") == 1


def test_a_reply_that_was_continued_is_one() -> None:
    driven = Faked()
    driven.replied("one", "a", "b", reason="user")
    facts = LessonFacts(driven.chat)
    driven.continued("c")
    assert facts.fact("replies") == 1
    assert facts.fact("tokens") == 3
    assert facts.fact("earlier_tokens") is None
    driven.replied("two", "d")
    assert facts.fact("earlier_tokens") == 3
