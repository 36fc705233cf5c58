"""Speculation in a chat: turned in the middle of a reply, and what it does where it cannot be had."""

from __future__ import annotations

import msgspec
import pytest

from termchat.conversation import setting_changes
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ALL_FEATURES, Adjust
from tests.chat.driven_chat import Faked, Make

QUOTING = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)


def test_drafts_are_turned_on_and_off_in_mid_reply_and_the_reply_stays_the_same(make: Make) -> None:
    tuning = Tuning(temperature=0.0, seed=5, max_tokens=24)
    plain = make(tuning).say(QUOTING)
    it = make(tuning)
    drawn = it.stepped(QUOTING, 4)
    it.chat.adjust("draft", "ngram")
    it.step(14)
    it.chat.adjust("draft", "off")
    it.chat.replies.resume()
    it.idle()
    assert drawn.ids == plain.ids
    assert drawn.finished is not None
    assert drawn.finished.drafted
    assert [settings.draft for settings in drawn.settings] == [None, DraftSettings("ngram"), None]
    assert [text for _, text in setting_changes.stamps(drawn)] == [
        "draft off → ngram at token 4",
        "draft ngram → off at token 18",
    ]


def test_the_knob_is_told_once_and_another_knob_leaves_the_drafts_alone() -> None:
    it = Faked(Tuning(seed=7, draft="ngram", draft_max=7))
    it.writing("Hi", " one")
    assert it.engine.generated[-1].draft == DraftSettings("ngram", 7)
    it.chat.adjust("temperature", 1.2)
    it.chat.adjust("draft_max", 3)
    it.chat.adjust("draft", "off")
    it.chat.adjust("top_k", 3)
    told = [adjust.draft for adjust in it.engine.asked(Adjust)]
    assert told == [None, DraftSettings("ngram", 3), DraftSettings("off"), None]


def test_the_most_that_is_drafted_is_no_change_while_nobody_drafts() -> None:
    it = Faked(Tuning(seed=7, draft="ngram", draft_max=7))
    it.writing("Hi", " one")
    it.chat.adjust("draft", "off")
    it.pump()
    assert [text for _, text in setting_changes.stamps(it.reply)] == ["draft ngram → off at token 1"]
    settings = it.reply.settings
    assert "draft_max 7" in setting_changes.in_force(settings[0])
    assert not [text for text in setting_changes.in_force(settings[1]) if text.startswith("draft")]


def test_an_engine_that_cannot_draft_replies_without_and_says_so() -> None:
    it = Faked(Tuning(seed=7))
    it.engine.offers = ALL_FEATURES - {"drafts"}
    it.chat.adjust("draft", "auto")
    assert it.replied("Hi", " one").settings[0].draft is None
    assert it.notices == ["nothing is drafted: this engine cannot draft tokens"]


@pytest.mark.parametrize(
    ("by", "rewinds", "why"),
    [("ngram", False, "tiny cannot take back drafted tokens"), ("model", True, "no draft model is loaded")],
)
def test_a_saved_chat_that_drafted_goes_on_without_where_that_cannot_be(by: str, rewinds: bool, why: str) -> None:
    it = Faked(Tuning(seed=7, draft=by))
    it.engine.info = msgspec.structs.replace(it.engine.info, can_rewind=rewinds)
    it.chat.loading.reload()
    it.pump()
    assert it.replied("Hi", " one").settings[0].draft is None
    assert f"nothing is drafted: {why}" in it.notices
    assert it.chat.tuning.draft == by  # for a model that can
