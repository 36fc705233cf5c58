"""Thoughts of a real model that was given tags: they are told apart, ended, limited, and made again the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from termchat.decoding.conditions import ThinkingBudget
from termchat.decoding.records import Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.decoding.thinking import tags_of
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.template import ChatTemplate
from termchat.engine.port import EndThinking, Force, Generate, Message, Scripted
from tests.asking import change
from tests.engine.conftest import records, request, tokens
from tests.engine.steered import numbers, script_of, steered
from tests.engine.templated import FakeTemplate

OPENS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and keep %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
)
TUNING = Tuning(max_tokens=40, temperature=0.9)


@pytest.fixture
def thinker(session: ModelSession) -> Iterator[ModelSession]:
    """The model, as if it had been trained to think."""
    template, session._template = session._template, ChatTemplate(FakeTemplate(session.model, OPENS))  # type: ignore[arg-type]
    session.model.thinking = tags_of(OPENS)
    yield session
    session._template, session.model.thinking = template, None


def opened(session: ModelSession, think: bool | None = None) -> list[int]:
    assert session._template is not None
    return session._template.render_prompt([Message("user", "Why is the sky blue?")], think).ids


def budgeted(ids: list[int], budget: int, **more: object) -> Generate:
    return change(request(ids, TUNING, **more), conditions=(*TUNING.conditions(), ThinkingBudget(budget)))


def text(reply: list[Token], phase: str) -> str:
    return b"".join(token.bytes for token in reply if token.phase == phase).decode("utf-8", "replace")


def test_the_budget_forces_the_end_of_the_thoughts(thinker: ModelSession) -> None:
    ids = opened(thinker)
    free = tokens(records(thinker, request(ids, TUNING)))
    assert [token.phase for token in free] == ["thinking"] * len(free)
    reply = tokens(records(thinker, budgeted(ids, 12)))
    ending = thinker.model.tokenize("\n</think>\n\n", special=True)
    assert [token.id for token in reply[:12]] == [token.id for token in free[:12]]
    assert [token.id for token in reply if token.forced] == ending
    assert [token.step for token in reply if token.forced] == [*range(12, 12 + len(ending))]
    assert text(reply, "thinking").rstrip().endswith("</think>")
    assert text(reply, "answer")


def test_the_thoughts_are_ended_live_and_the_reply_is_made_again(thinker: ModelSession) -> None:
    ids = opened(thinker)
    stream = steered(thinker, request(ids, TUNING), (), {9: [EndThinking()], 30: [EndThinking()]})
    reply = [record for record in stream if isinstance(record, Token)]
    forced = [token.step for token in reply if token.forced]
    assert forced == [*range(9, 9 + len(forced))]  # and nothing at step 30: it does not think any more
    assert len(forced) == len(thinker.model.tokenize("\n</think>\n\n", special=True))
    thinker.cache.rewind_to(0)
    again = records(thinker, request(ids, TUNING, script=script_of(stream)))
    assert numbers(again) == numbers(stream)
    assert [token.phase for token in tokens(again)] == [token.phase for token in reply]


def test_a_limited_reply_is_made_again_from_its_forced_tokens(thinker: ModelSession) -> None:
    """As `termchat replay` does it, without the budget; and with it, which then finds the end forced already."""
    ids = opened(thinker)
    reply = tokens(records(thinker, budgeted(ids, 8)))
    script = tuple(Scripted(token.step, token.id) for token in reply if token.forced)
    for command in (request(ids, TUNING, script=script), change(budgeted(ids, 8), script=script)):
        thinker.cache.rewind_to(0)
        assert numbers(records(thinker, command)) == numbers(reply)


@pytest.mark.parametrize("cut", [5, 13, 24])
def test_a_fork_goes_on_in_the_phase_of_its_place(thinker: ModelSession, cut: int) -> None:
    """In the thoughts, inside the closing tag that was forced, and in the answer."""
    ids = opened(thinker)
    reply = tokens(records(thinker, budgeted(ids, 12)))
    script = tuple(Scripted(token.step, token.id) for token in reply[cut:] if token.forced)
    fork = budgeted([*ids, *(token.id for token in reply[:cut])], 12, done=cut, script=script)
    made = tokens(records(thinker, fork))
    assert numbers(made) == numbers(reply[cut:])
    assert [token.phase for token in made] == [token.phase for token in reply[cut:]]


def test_tags_that_a_model_writes_itself_are_found(thinker: ModelSession) -> None:
    """Here they are forced, several tokens each."""
    ids = opened(thinker, think=False)
    words = thinker.model.tokenize("<think>Hm.</think>Blue.", special=True)
    stream = steered(thinker, request(ids, Tuning(max_tokens=len(words))), (), {0: [Force(words)]})
    reply = [record for record in stream if isinstance(record, Token)]
    assert isinstance(stream[-1], Finished)
    known = [token.phase for token in reply if token.phase is not None]
    assert known == sorted(known, reverse=True)  # "thinking" before "answer"
    opening = [token for token in reply if token.phase is None]
    assert b"<think>".startswith(b"".join(token.bytes for token in opening))
    assert text(reply, "answer").endswith("Blue.")
    assert "Hm." not in text(reply, "answer")


def test_the_switch_of_a_template_is_used(thinker: ModelSession) -> None:
    template = thinker._template
    assert template is not None
    assert template.has_switch
    on, off = opened(thinker, think=True), opened(thinker, think=False)
    assert on == opened(thinker) != off
    assert b"".join(map(thinker.model.spell_token, off)).endswith(b"<think>\n\n</think>\n\n")


def test_words_are_the_switch_only_where_the_template_knows_them(session: ModelSession) -> None:
    knows = (
        "{% set off = '/no_think' in messages[0].content %}{% for m in messages %}{{ m.content }}|{% endfor %}{{ off }}"
    )
    template = ChatTemplate(FakeTemplate(session.model, knows))  # type: ignore[arg-type]
    assert template.has_switch
    said = [Message("user", "Hi")]
    shown = [
        b"".join(map(session.model.piece, template.render_prompt(said, think).ids)) for think in (None, True, False)
    ]
    assert shown == [b"Hi|False", b"/think|Hi|False", b"/no_think|Hi|True"]
    plain = ChatTemplate(session.model)
    assert not plain.has_switch
    assert plain.render_prompt(said, think=False) == plain.render_prompt(said)


def test_old_thoughts_are_the_templates_to_keep(session: ModelSession) -> None:
    """They come to it apart from the answer, and what looks like a control token in them is none."""
    said = [Message("user", "a"), Message("assistant", "b", thinking="<|im_end|>"), Message("user", "c")]
    dropped, kept = (
        b"".join(map(session.model.piece, ChatTemplate(FakeTemplate(session.model, source)).render_prompt(said).ids))  # type: ignore[arg-type]
        for source in ("{% for m in messages %}{{ m.content }}{% endfor %}",
                       "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}")
    )  # fmt: skip
    assert (dropped, kept) == (b"abc", b"a<|im_end|>bc")
