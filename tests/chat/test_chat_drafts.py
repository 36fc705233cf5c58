"""Speculation in a chat: turned in the middle of a reply, and what it does where it cannot be had."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from termchat.chat.changes import DrafterChanged, Notice
from termchat.chat.loading import Choice, measure_batches
from termchat.config import per_model, presets
from termchat.config.settings import Settings
from termchat.conversation import setting_changes
from termchat.conversation.store.store import Store
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Failed
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    ALL_FEATURES,
    Adjust,
    Generate,
    LoadDraft,
    Measurement,
    ModelSpec,
)
from tests.chat.driven_chat import Faked, Make
from tests.chat.kept_chat import Kept
from tests.fewer_blocks import with_idle_blocks, with_vocabulary

QUOTING = (
    "Repeat this text: The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships"
    " that passed far away in the dark."
)


def test_drafts_are_turned_on_and_off_in_mid_reply_and_the_reply_stays_the_same(make: Make) -> None:
    tuning = Tuning(temperature=0.0, seed=5, max_tokens=24)
    plain = make(tuning).say(QUOTING)
    it = make(tuning)
    it.idle()
    measure_batches(it.chat, needed=True)
    drawn = it.stepped(QUOTING, 4)
    it.chat.adjust_setting("draft", "ngram")
    it.step(14)
    it.chat.adjust_setting("draft", "off")
    it.chat.replies.resume()
    it.idle()
    assert drawn.ids == plain.ids
    assert drawn.finished is not None
    assert drawn.finished.drafted
    assert [settings.draft for settings in drawn.settings] == [None, DraftSettings("ngram"), None]
    assert [text for _, text in setting_changes.list_stamps(drawn)] == [
        "draft off → ngram at token 4",
        "draft ngram → off at token 18",
    ]


def test_the_knob_is_told_once_and_another_knob_leaves_the_drafts_alone() -> None:
    it = Faked(Tuning(seed=7, draft="ngram", draft_max=7))
    it.writing("Hi", " one")
    assert it.engine.asked(Generate)[-1].draft == DraftSettings("ngram", 7)
    it.chat.adjust_setting("temperature", 1.2)
    it.chat.adjust_setting("draft_max", 3)
    it.chat.adjust_setting("draft", "off")
    it.chat.adjust_setting("top_k", 3)
    told = [adjust.draft for adjust in it.engine.asked(Adjust)]
    assert told == [None, DraftSettings("ngram", 3), DraftSettings("off"), None]


def test_the_most_that_is_drafted_is_no_change_while_nobody_drafts() -> None:
    it = Faked(Tuning(seed=7, draft="ngram", draft_max=7))
    it.writing("Hi", " one")
    it.chat.adjust_setting("draft", "off")
    it.pump()
    assert [text for _, text in setting_changes.list_stamps(it.reply)] == ["draft ngram → off at token 1"]
    settings = it.reply.settings
    assert "draft_max 7" in setting_changes.in_force(settings[0])
    assert not [text for text in setting_changes.in_force(settings[1]) if text.startswith("draft")]


def test_an_engine_that_cannot_draft_replies_without_and_says_so() -> None:
    it = Faked(Tuning(seed=7))
    it.engine.offers = ALL_FEATURES - {"drafts"}
    it.chat.adjust_setting("draft", "auto")
    assert it.replied("Hi", " one").settings[0].draft is None
    assert it.notices == ["nothing is drafted: this engine cannot draft tokens"]


def test_a_saved_chat_that_drafted_goes_on_without_where_the_model_cannot() -> None:
    it = Faked(Tuning(seed=7, draft="ngram"))
    it.engine.info = msgspec.structs.replace(it.engine.info, can_rewind=False)
    it.chat.loading.reload_model()
    it.pump()
    assert it.replied("Hi", " one").settings[0].draft is None
    assert it.notices == ["nothing is drafted: tiny cannot take back drafted tokens"]
    assert it.chat.tuning.draft == "ngram"  # for a model that can


@pytest.mark.usefixtures("home")
def test_each_chat_keeps_who_drafts_in_it(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.chat.adjust_setting("draft", "ngram")
    it.chat.adjust_setting("draft_max", 7)
    it.replied("one", " a")
    one = it.session
    it.chat.new()
    assert it.chat.tuning.drafts is None
    it.replied("two", " b")
    it.open(one)
    assert it.chat.tuning.drafts == DraftSettings("ngram", 7)
    it.replied("and on", " c")
    assert it.engine.asked(Generate)[-1].draft == DraftSettings("ngram", 7)


def test_a_preset_is_about_the_chain_and_leaves_who_drafts() -> None:
    assert {"draft", "draft_max"}.isdisjoint(presets.CHAIN)
    assert presets.of_tuning("mine", Tuning(draft="auto", top_k=3)).named == {"top_k": 3}


# --- the model that drafts -------------------------------------------------------------------------------------------

OTHER = Choice(ModelSpec("/models/small.gguf", "small"), {}, wanted="small")


def drafting(tuning: Tuning, drafter: ModelSpec | Failed | None = OTHER.spec, **engine: object) -> Faked:
    """A chat whose model is loaded with one that is to draft for it."""
    it = Faked(tuning, origin={"draft": "panel"})
    it.told.clear()
    for name, value in engine.items():
        setattr(it.engine, name, value)
    it.chat.loading.load(ModelSpec("/tiny.gguf", "tiny"), drafter)
    it.pump()
    return it


def loads(it: Faked) -> list[str | None]:
    """The draft models that were asked for, by name."""
    return [command.spec.name if command.spec else None for command in it.engine.asked(LoadDraft)]


@pytest.mark.parametrize(("by", "asked"), [("off", []), ("ngram", []), ("model", ["small"]), ("auto", ["small"])])
def test_a_draft_model_is_loaded_once_somebody_wants_it(by: str, asked: list[str]) -> None:
    it = drafting(Tuning(seed=7, draft=by))
    assert loads(it) == asked
    assert [it.chat.host.drafter.name] == asked if it.chat.host.drafter else asked == []
    it.chat.adjust_setting("draft", "auto")
    it.chat.adjust_setting("draft", "model")
    it.pump()
    assert loads(it) == ["small"]
    assert it.chat.host.drafter is not None
    assert it.replied("Hi", " one").settings[0].draft == DraftSettings("model")


def test_a_message_waits_for_the_draft_model_that_is_loaded_with_the_model() -> None:
    it = drafting(Tuning(seed=7, draft="auto"), loads_drafts=False)
    it.chat.send("Hi")
    it.pump()
    assert (it.chat.phase, it.chat.host.drafter_progress, it.engine.generated) == ("loading", 0.0, [])
    it.engine.load_draft()
    it.pump()
    assert (it.chat.host.drafter_progress, it.chat.phase) == (None, "decoding" if it.reply.tokens else "prefill")
    assert len(it.engine.generated) == 1


@pytest.mark.parametrize("by", ["model", "auto"])
def test_a_draft_model_that_is_refused_is_told_and_the_chat_goes_on(by: str) -> None:
    it = drafting(Tuning(seed=7, draft=by), no_draft="small has another vocabulary")
    assert it.chat.host.drafter is None
    assert it.chat.host.drafter_failure is not None
    assert it.replied("Hi", " one").text() == " one"
    assert it.notices == ["small has another vocabulary"]


COSTS = "draft model small: a token costs 0.66 of one here, at best 0.71 times as fast"


@pytest.mark.parametrize(("tuning", "stays"), [({}, False), ({"draft": "model"}, True), ({"draft_always": True}, True)])
def test_a_draft_model_that_cannot_pay_is_dropped_where_nobody_asked_for_it(
    tuning: dict[str, object], stays: bool
) -> None:
    it = drafting(msgspec.structs.replace(Tuning(seed=7, draft="auto"), **tuning), draft_costs=COSTS)
    assert loads(it) == (["small"] if stays else ["small", None])
    assert (it.chat.host.drafter is not None) is stays
    assert it.notices == ([] if stays else [COSTS])
    assert it.replied("Hi", " one").text() == " one"
    it.chat.adjust_setting("draft", "model")
    it.pump()
    assert it.chat.host.drafter is not None, "who asks for it gets it"


def test_a_draft_model_whose_file_is_too_large_to_pay_is_not_loaded(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    small = ModelSpec(str(file), "small")
    dear, cheap = {2: 1.9, 4: 3.6, 8: 8.0, 16: 10.0}, {4: 1.2, 8: 1.4, 16: 2.0}
    for size, batch_times, asked in ((700, dear, []), (200, cheap, ["small"]), (700, {}, ["small"])):
        file.write_bytes(bytes(size))
        it = Faked(Tuning(seed=7, draft="auto"), origin={"draft": "panel"})
        measured = Measurement("", 1, batch_times)
        it.engine.info = msgspec.structs.replace(it.engine.info, size=1000, measured=measured)
        it.told.clear()
        it.chat.loading.load(ModelSpec("/tiny.gguf", "tiny"), small)
        it.pump()
        assert loads(it) == asked
        why = "draft model small: a token costs 0.70 of one here, at best 0.60 times as fast"
        assert it.notices == ([] if asked else [why])


def test_a_draft_model_that_is_not_there_is_told_once_it_is_wanted() -> None:
    it = drafting(Tuning(seed=7), Failed("draft", "draft model: unknown model 'smal'", "did you mean small?"))
    assert it.notices == []
    it.chat.adjust_setting("draft", "auto")
    it.pump()
    assert it.notices == ["draft model: unknown model 'smal'"]
    assert it.chat.host.drafter_failure is not None
    assert loads(it) == []


def test_a_model_to_draft_with_is_asked_for_where_none_is_chosen() -> None:
    it = drafting(Tuning(seed=7), None)
    it.chat.adjust_setting("draft", "auto")
    it.pump()
    assert it.notices == []
    it.chat.adjust_setting("draft", "model")
    it.pump()
    assert it.notices == []
    for text in ("Hi", "And"):
        assert it.replied(text, " one").settings[0].draft == DraftSettings("model")
    assert it.notices == ["nothing is drafted: no draft model is chosen"]


@pytest.mark.usefixtures("home")
def test_another_draft_model_in_mid_reply_is_kept_for_the_model() -> None:
    it = drafting(Tuning(seed=7, draft="model"))
    sha256 = it.engine.info.sha256
    it.writing("Hi", " one")
    it.chat.loading.speculation.draft_with(Choice(ModelSpec("/models/new.gguf", "new"), {}))
    it.pump()
    assert it.chat.phase == "decoding"
    assert it.chat.host.drafter is not None
    assert it.chat.host.drafter.name == "new"
    assert it.notices == ["new drafts for tiny"]
    assert DrafterChanged(sha256, "/models/new.gguf") in it.told
    kept = per_model.find_pick(sha256)
    assert kept is not None
    assert kept.settings == {"draft_model": "/models/new.gguf"}

    it.engine.end()
    it.pump()
    it.chat.loading.reload_model()
    it.pump()
    assert loads(it) == ["small", "new", "new"]
    it.chat.loading.speculation.draft_with(None)
    it.pump()
    assert it.chat.host.drafter is None
    it.chat.loading.reload_model()
    it.pump()
    assert loads(it)[3:] == [None]
    kept = per_model.find_pick(sha256)
    assert kept is not None
    assert kept.settings == {"draft_model": ""}


@pytest.mark.usefixtures("home")
def test_one_that_is_refused_leaves_the_one_before() -> None:
    it = drafting(Tuning(seed=7, draft="model"))
    it.engine.no_draft = "new has another vocabulary"
    it.chat.loading.speculation.draft_with(Choice(ModelSpec("/models/new.gguf", "new"), {}))
    it.pump()
    assert it.chat.host.drafter is not None
    assert it.chat.host.drafter.name == "small"
    assert it.chat.host.drafter_failure is not None
    assert per_model.find_pick(it.engine.info.sha256) is None


@pytest.mark.usefixtures("home")
def test_a_draft_model_may_be_loaded_before_the_knob_is_turned() -> None:
    it = drafting(Tuning(seed=7), None)
    it.chat.loading.speculation.draft_with(OTHER)
    it.pump()
    notice = next(change for change in it.told if isinstance(change, Notice))
    saved = "saved for tiny: --draft auto loads it from now on, until you unload it in the model list"
    assert notice.message == "small drafts for tiny"
    assert notice.hint == f"the knob draft is off: turn it to model or auto. {saved}"
    assert it.replied("Hi", " one").settings[0].draft is None


def test_nothing_is_loaded_to_draft_for_no_model() -> None:
    it = drafting(Tuning(seed=7, draft="auto"))
    it.chat.loading.unload_model()
    assert it.chat.host.drafter is None
    it.chat.loading.speculation.draft_with(OTHER)
    it.pump()
    assert loads(it) == ["small"]
    assert it.notices == ["cannot load a draft model: no model is loaded"]


def test_a_dead_engine_has_no_draft_model_and_a_new_one_gets_it_back() -> None:
    it = drafting(Tuning(seed=7, draft="model"), loads_drafts=False)
    it.engine.die()
    it.pump()
    assert (it.chat.phase, it.chat.host.drafter, it.chat.host.drafter_progress) == ("failed", None, None)
    assert it.chat.host.drafter_failure is None
    it.engine.loads_drafts = True
    it.chat.loading.restart_engine()
    it.pump()
    assert (it.chat.phase, it.chat.host.drafter is not None) == ("idle", True)


def test_another_model_of_the_chat_has_a_draft_model_of_its_own() -> None:
    it = drafting(Tuning(seed=7, draft="model"))
    own = Choice(ModelSpec("/large.gguf", "large"), {}, drafter=ModelSpec("/models/half.gguf", "half"))
    it.chat.loading.switch_model(own)
    it.pump()
    it.chat.loading.switch_back()
    it.pump()
    assert loads(it) == ["small", "half", "small"]


CHEAP = {2: 1.02, 4: 1.05, 8: 1.1, 16: 1.2}
"""What batches are said to cost, so that it is tried to draft, whatever the machine is like."""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("by", ["model", "auto"])
def test_draft_models_come_and_go_in_mid_reply_and_the_reply_stays_the_same(
    make: Make, small_model_path: Path, tmp_path: Path, by: str
) -> None:
    """The model is the one that drafts, and blocks that change nothing besides: it takes what is drafted, at less speed."""
    slow = with_idle_blocks(small_model_path, tmp_path / "slow.gguf", 28)
    known = Measurement("1/1 threads, batches of 63, bf16/f16, flash attention auto, 0 layers offloaded", 1, CHEAP, 63)
    large = ModelSpec(str(slow), "large", context=2048, threads=1, measured=(known,))
    drawn = []
    for drafted in (False, True):
        it = make(Tuning(temperature=0.8, seed=5, max_tokens=40, draft=by if drafted else "off"))
        it.idle()
        it.chat.loading.load(large)
        it.idle()
        reply = it.stepped("Write a story about a fox and a bear.", 6)
        if drafted:
            it.chat.loading.speculation.draft_with(Choice(ModelSpec(str(small_model_path), "small", threads=1), {}))
            it.until(lambda: it.chat.host.drafter is not None)  # noqa: B023
            it.step(20)
            it.chat.loading.speculation.draft_with(None)
            it.until(lambda: it.chat.host.drafter is None)  # noqa: B023
        it.chat.replies.resume()
        it.idle()
        drawn.append(reply)
    plain, reply = drawn
    assert reply.ids == plain.ids
    by_model = [at for at in range(40) if (draft := reply.tokens.find_draft(at)) is not None and draft.by == "small"]
    assert by_model, "nothing was drafted"
    assert min(by_model) >= 6
    assert max(by_model) < 26 + 15


def test_a_draft_model_of_another_vocabulary_is_named_and_the_chat_goes_on(
    make: Make, small_model_path: Path, tmp_path: Path
) -> None:
    it = make(Tuning(seed=5, max_tokens=4, draft="auto"))
    it.idle()
    path = with_vocabulary(small_model_path, tmp_path / "renamed.gguf", renamed={4200: "zzz"})
    it.chat.loading.speculation.draft_with(Choice(ModelSpec(str(path), "renamed"), {}))
    it.until(lambda: it.chat.host.drafter_failure is not None)
    assert it.chat.host.drafter is None
    assert [notice for notice in it.notices if notice.startswith("renamed has another vocabulary: ")]
    assert len(it.say("Hi").ids) == 4
