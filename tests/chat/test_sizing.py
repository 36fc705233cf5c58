"""The number of tokens that is said while a message is written is the number that its turn then decodes."""

from __future__ import annotations

import pytest

from termchat.chat.sizing import SAMPLED, Size, Sizing
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from tests.chat.driven_chat import Driven, Make

TEXTS = ["Hello!", "naïve 漢字 <|im_end|> \n\n\t code()", "word " * 150]


def size_of(driven: Driven, text: str) -> Size:
    heard: list[Size | None] = []
    Sizing(driven.chat).ask_size(text, heard.append)
    driven.until(lambda: heard)
    assert heard[0] is not None
    return heard[0]


@pytest.mark.parametrize("raw", [False, True])
def test_the_count_is_what_the_turn_adds_to_the_context(make: Make, raw: bool) -> None:
    driven = make(Tuning(max_tokens=4, seed=1), conversation=Conversation("" if raw else "Be brief.", raw=raw))
    driven.idle()
    for text in TEXTS:
        chat = driven.chat.conversation
        before = chat.count_ids()
        size = size_of(driven, text)
        reply = driven.say(text)
        assert chat.count_ids() - len(reply.ids) - before == size.tokens
        around = "nothing" if raw else "template" if before else "template and system prompt"
        assert size == Size(size.tokens, 2048 - before, around)
        assert size.fits


def test_it_says_what_does_not_fit_before_the_engine_refuses_it(make: Make) -> None:
    driven = make(Tuning(max_tokens=2))
    driven.idle()
    room = 2048 - size_of(driven, "a").tokens
    assert size_of(driven, "a" + " a" * room).fits
    too_long = "a" + " a" * (room + 1)
    assert not size_of(driven, too_long).fits
    driven.chat.send(too_long)
    driven.idle()
    assert "the prompt has 2049 tokens, the context 2048" in driven.notices


def test_a_very_long_message_is_counted_in_part(make: Make) -> None:
    driven = make(Tuning())
    driven.idle()
    size = size_of(driven, "some words " * (10 * SAMPLED // 11))
    assert size.about
    assert 0.95 < size.tokens / (20 * SAMPLED / 11) < 1.05


def test_while_a_reply_runs_it_is_counted_behind_that(make: Make) -> None:
    driven = make(Tuning(seed=1))
    driven.idle()
    driven.chat.send("Tell me a very long story.")
    driven.streaming(5)
    size = size_of(driven, "And then?")
    driven.chat.stop()
    driven.idle()
    before = driven.chat.conversation.count_ids()
    stopped = size_of(driven, "And then?").tokens  # behind a reply that was stopped its end is added, too
    assert stopped - 1 == size.tokens
    driven.chat.adjust_setting("max_tokens", 4)
    driven.say("And then?")
    turn = driven.chat.conversation.count_ids() - len(driven.reply.ids) - before
    assert turn == stopped
