"""A second model drafts: with the same dice it is right more often than not, and whatever it says changes no record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from termchat.decoding.drafting import BatchTimes, DraftSettings, Judge
from termchat.decoding.records import Failed, Record, SettingsRecord, Shape, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.cache import SPLIT, Cache
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.draft_model import DraftModel, draw_from_few
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.observe import Labels
from termchat.engine.port import (
    DraftLoaded,
    EngineError,
    Generate,
    Load,
    LoadDraft,
    Loaded,
    Measurement,
    ModelSpec,
    Progress,
)
from tests.asking import change, events_of
from tests.engine.conftest import Driver, prompt, records, request, tokens
from tests.engine.drafting import (
    COSTS,
    DEEDS,
    LENGTH,
    SCHEMA,
    SETTINGS,
    end,
    ids_of,
    know_costs,
    same,
    session_of,
    steered,
    taken,
)
from tests.fewer_blocks import with_vocabulary, without_blocks
from tests.requantized import requantized

MODEL, AUTO = DraftSettings("model"), DraftSettings("auto")


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and drafts cost next to nothing, so that it drafts whatever the machine is like."""
    monkeypatch.setattr(BatchTimes, "read_cost", lambda _, rows: 1 + 0.02 * rows)
    monkeypatch.setattr(DraftModel, "each", 0.02)
    monkeypatch.setattr(Judge, "rests", False)


@pytest.fixture(scope="module")
def other_weights(small_model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model in another quantization, which takes the same token one time in two."""
    return requantized(small_model_path, tmp_path_factory.mktemp("drafts") / "other.gguf", "Q4_0")


@pytest.fixture(scope="module")
def pair(small_model_path: Path, other_weights: Path) -> Iterator[ModelSession]:
    with closing(session_of(small_model_path)) as made:
        loaded(made, other_weights)
        yield made


def loaded(session: ModelSession, path: Path) -> DraftModel:
    """Loads it, as on a machine that is not busy."""
    session.load_draft(ModelSpec(str(path), "drafter"), lambda _: None)
    model = session._learned.model
    assert model is not None
    model.measured = True
    know_costs(session)
    return model


def both(session: ModelSession, command: Generate, draft: DraftSettings = MODEL) -> tuple[list[Record], list[Record]]:
    """The records of a reply from an empty cache, without and with drafts."""
    session.cache.rewind_to(0)
    without = records(session, command)
    session.cache.rewind_to(0)
    return without, records(session, change(command, draft=draft))


NAMES = [*SETTINGS, "constraint"]


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("name", NAMES)
def test_all_records_are_those_without_drafts(pair: ModelSession, name: str) -> None:
    tuning = SETTINGS.get(name, Tuning(temperature=1.0)).turn_knobs({"max_tokens": LENGTH})
    more = {"constraint": SCHEMA} if name == "constraint" else {}
    drafted = accepted = 0
    for seed in range(NAMES.index(name), 40, len(NAMES)):
        ids = ids_of(pair, 30 if seed // 8 % 3 else SPLIT - 8)
        without, with_them = both(pair, request(ids, tuning, seed, **more), (MODEL, AUTO)[seed // 8 % 2])
        assert same(with_them) == same(without)
        told = end(with_them)
        drafted, accepted = drafted + (told.drafted or 0), accepted + (told.accepted or 0)
        assert {token.draft.by for token in tokens(with_them) if token.draft} <= {"drafter", "ngram"}
        assert isinstance(with_them[0], Start)
        assert with_them[0].exact
    assert 10 < accepted < drafted


@pytest.mark.usefixtures("cheap")
def test_it_throws_the_dice_of_the_reply(
    session: ModelSession, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At temperature 1.2 it is right more often than the likeliest token of the model itself."""
    monkeypatch.setattr(session.cache, "measured", Measurement(session.cache.how, 1, rows_alike=63))
    loaded(session, without_blocks(model_path, tmp_path / "fewer.gguf", 14))
    tuning = Tuning(temperature=1.2, max_tokens=30)
    drafted = accepted = likeliest = replied = 0
    for seed in range(2):
        command = request(prompt(session, "Tell a story about a fox."), tuning, seed)
        without, with_them = both(session, command, DraftSettings("model", 1))
        assert same(with_them) == same(without)
        drafted, accepted = drafted + (end(with_them).drafted or 0), accepted + (end(with_them).accepted or 0)
        likeliest += sum(token.rank == 0 for token in tokens(without))
        replied += len(tokens(without))
    session.drop_draft()
    assert likeliest / replied + 0.1 < accepted / drafted < 1


ALL = Tuning(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
"""The whole vocabulary is drawn from."""
WIDE = {
    "hot": ({"temperature": 1.4}, 1.0),
    "penalties": ({"repeat_penalty": 1.3}, 1.0),
    "xtc": ({"xtc_probability": 1.0, "xtc_threshold": 0.05}, 0.9),  # what few make up of all counts a little
    "typical_p": ({"typical_p": 0.9}, 0.9),
    "top_p": ({"top_p": 0.9}, 0.9),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_draft_is_drawn_from_few_as_from_all(name: str) -> None:
    """Where the winner is one of the likeliest few hundred, it is the same token: the dice throw the same for each."""
    n_vocab, steps, random = 4000, 100, np.random.default_rng(1)
    turned, least = WIDE[name]
    samplers, past = ALL.turn_knobs(turned).samplers(), list(range(100, 130))
    few = draw_from_few(samplers)
    assert draw_from_few(few) == few != samplers
    assert draw_from_few(Tuning().samplers()) == Tuning().samplers()
    observer = Observer(n_vocab, [0], Labels(n_vocab, str), 1)
    chains = [Chain(each, n_vocab, past) for each in (samplers, few)]
    equal = among = 0
    for step in range(steps):
        row = random.standard_normal(n_vocab).astype(np.float32)
        row[random.choice(n_vocab, 200, replace=False)] += random.exponential(4, 200).astype(np.float32)
        wide, narrow = (observer.draw(row, chain, 7, step) for chain in chains)
        if wide.rank < 256:
            among += 1
            equal += wide.id == narrow.id
    for chain in chains:
        chain.close()
    assert among > steps / 2
    assert equal >= least * among


# --- which model can draft -------------------------------------------------------------------------------------------


def test_a_vocabulary_that_is_another_one_is_refused_and_what_drafted_before_stays(
    pair: ModelSession, small_model_path: Path, tmp_path: Path
) -> None:
    before = pair._learned.model
    name = pair.model.name(4200)
    for path, message in (
        (
            with_vocabulary(small_model_path, tmp_path / "renamed.gguf", renamed={4200: "zzz"}),
            f"token 4200 is {name!r} here and 'zzz' there",
        ),
        (
            with_vocabulary(small_model_path, tmp_path / "smaller.gguf", size=49152 - 129),
            "it has 49023 tokens, and this model 49152",
        ),
    ):
        with pytest.raises(EngineError) as refused:
            loaded(pair, path)
        assert (refused.value.kind, refused.value.message) == (
            "draft",
            f"drafter has another vocabulary: {message}",
        )
    with pytest.raises(EngineError, match=r"nowhere\.gguf could not be loaded"):
        loaded(pair, tmp_path / "nowhere.gguf")
    assert pair._learned.model is before


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("larger", ["target", "draft"])
def test_vocabularies_may_be_filled_up_to_different_sizes(
    small_model_path: Path, other_weights: Path, tmp_path: Path, larger: str
) -> None:
    smaller = with_vocabulary(
        small_model_path if larger == "draft" else other_weights, tmp_path / "smaller.gguf", size=49152 - 100
    )
    target, draft = (smaller, other_weights) if larger == "draft" else (small_model_path, smaller)
    with closing(session_of(target)) as session:
        loaded(session, draft)
        for name in ("greedy", "mirostat", "dry"):
            tuning = SETTINGS[name].turn_knobs({"max_tokens": LENGTH})
            without, with_them = both(session, request(ids_of(session, 30), tuning))
            assert same(with_them) == same(without)
            assert end(with_them).accepted


def test_a_model_that_cannot_rewind_neither_drafts_nor_has_others_draft(
    small_model_path: Path, other_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(session_of(small_model_path)) as session:
        with monkeypatch.context() as patched:
            patched.setattr(session.model, "can_rewind", False)
            with pytest.raises(EngineError, match="this model cannot take back"):
                loaded(session, other_weights)
        monkeypatch.setattr("termchat.engine.llama.model.LIB.llama_model_is_recurrent", lambda _: True)
        with pytest.raises(EngineError, match="drafter cannot take back"):
            loaded(session, other_weights)
        assert session._learned.model is None


def test_a_context_that_does_not_fit_in_memory_leaves_everything_as_it_was(
    pair: ModelSession, other_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pair._learned.model
    monkeypatch.setattr("termchat.engine.llama.cache.LIB.llama_init_from_model", lambda *_: None)
    with pytest.raises(EngineError, match="could not create a context") as refused:
        loaded(pair, other_weights)
    assert refused.value.kind == "draft"
    assert pair._learned.model is before


# --- without one, and in the worker ----------------------------------------------------------------------------------


def drafting(stream: list[Record]) -> list[str]:
    return [record.drafting for record in stream if isinstance(record, SettingsRecord)]


def test_without_a_draft_model_the_settings_say_so(small_model_path: Path) -> None:
    with closing(session_of(small_model_path)) as session:
        without, with_them = both(session, request(ids_of(session, 30), Tuning(max_tokens=4)))
    assert same(with_them) == same(without)
    assert drafting(with_them) == ["no draft model is loaded"]


def test_a_draft_model_that_costs_as_much_as_the_model_is_never_asked(
    pair: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DraftModel, "each", 1.0)
    monkeypatch.setattr(BatchTimes, "add", lambda *_: None)
    loaded(pair, Path(pair._learned.model.model.spec.path))
    without, with_them = both(pair, request(ids_of(pair, 30), Tuning(max_tokens=6)))
    assert same(with_them) == same(without)
    why = "draft model drafter: a token costs 1.00 of one here, at best 0.60 times as fast"
    assert drafting(with_them)[-1] == end(with_them).not_drafted == why
    assert end(with_them).rounds is None


def test_what_a_busy_machine_measured_says_nothing(pair: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a cost that other programs disturbed, nor batches that were not measured, say that a draft model never pays."""
    model = pair._learned.model
    assert model is not None
    monkeypatch.setattr(DraftModel, "each", 1.0)
    assert model.why_not(BatchTimes(COSTS))
    assert model.why_not(BatchTimes()) == ""
    monkeypatch.setattr("termchat.engine.llama.draft_model.process_time", lambda: 0.0)
    model.measure_cost(pair.cache)
    assert model.why_not(BatchTimes(COSTS)) == ""
    model.measured = True


def test_the_worker_loads_one_and_drops_it(spec: ModelSpec, small_model_path: Path, other_weights: Path) -> None:
    driver = Driver(None)
    with closing(driver.engine):
        assert isinstance(driver.ask(LoadDraft(ModelSpec(str(other_weights), "x")), DraftLoaded)[-1], Failed)
        driver.ask(Load(msgspec.structs.replace(spec, path=str(small_model_path))), Loaded)
        said = driver.ask(LoadDraft(ModelSpec(str(other_weights), "small", sha256="ab")), DraftLoaded)
        assert {type(event) for event in said[:-1]} == {Progress}
        assert isinstance(said[-1], DraftLoaded)
        info = said[-1].info
        assert info is not None
        assert (info.name, info.path, info.sha256, info.layers) == ("small", str(other_weights), "ab", 2)
        assert info.cost > 0
        assert info.size < other_weights.stat().st_size
        failed = driver.ask(LoadDraft(ModelSpec("/nowhere.gguf", "y")), DraftLoaded)[-1]
        assert isinstance(failed, Failed)
        assert failed.kind == "draft"
        assert driver.ask(LoadDraft(None), DraftLoaded)[-1] == DraftLoaded(None)


@pytest.mark.usefixtures("cheap")
def test_one_that_is_loaded_in_mid_reply_drafts_from_the_next_round_on(pair: ModelSession, other_weights: Path) -> None:
    ids, tuning = ids_of(pair, 30), Tuning(temperature=0.8, max_tokens=30)
    command = request(ids, tuning, draft=MODEL)
    without, _ = both(pair, request(ids, tuning))
    pair.cache.rewind_to(0)
    pair.drop_draft()
    found: list[Record] = []
    for said in events_of(pair, command):
        if isinstance(said, Record):
            found.append(said)
        if isinstance(said, Token) and said.step in (8, 18):
            loaded(pair, other_weights)
        elif isinstance(said, Token) and said.step == 24:
            pair.drop_draft()
    loaded(pair, other_weights)
    assert same(found) == same(without)
    drafted = [token.step for token in tokens(found) if token.draft is not None and len(token.draft.tokens) > 1]
    assert min(drafted) == 9
    assert any(step > 18 for step in drafted)
    assert max(drafted) <= 25
    assert [why for why in drafting(found) if why] == ["no draft model is loaded"] * 2


@pytest.mark.usefixtures("cheap")
def test_a_long_prompt_is_read_a_batch_at_each_step(pair: ModelSession) -> None:
    ids = ids_of(pair, 400)
    pair._learned.model.cache.rewind_to(0)
    without, with_them = both(pair, request(ids, Tuning(max_tokens=30)))
    assert same(with_them) == same(without)
    first = next(token.step for token in tokens(with_them) if token.draft is not None)
    assert first == -(-400 // pair._learned.model.cache.batch_size)
    _, again = both(pair, request([*ids, 5, 6], Tuning(max_tokens=4)))
    assert next(token.step for token in tokens(again) if token.draft is not None) == 1


def _die(*_: object) -> None:
    raise MemoryError


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("draft", [MODEL, AUTO])
def test_one_that_fails_in_mid_reply_costs_time_only(
    pair: ModelSession, monkeypatch: pytest.MonkeyPatch, draft: DraftSettings
) -> None:
    reads = iter(range(1000))
    cache, read = pair._learned.model.cache, Cache.read

    def reading(self: Cache, *more: object) -> Shape:
        if self is cache and next(reads) > 12:
            raise EngineError("decode", "llama.cpp could not decode (code -3)")
        return read(self, *more)

    monkeypatch.setattr(Cache, "read", reading)
    without, with_them = both(pair, request(ids_of(pair, 30), Tuning(max_tokens=30)), draft)
    assert same(with_them) == same(without)
    assert end(with_them).rounds
    said = [why for why in drafting(with_them) if why]
    assert said == (["drafting failed: llama.cpp could not decode (code -3)"] if draft is MODEL else [])
    monkeypatch.undo()
    monkeypatch.setattr(BatchTimes, "read_cost", lambda _, rows: 1 + 0.02 * rows)
    monkeypatch.setattr(DraftModel, "each", 0.02)
    _, again = both(pair, request(ids_of(pair, 30), Tuning(max_tokens=30)), draft)
    assert end(again).accepted


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("deed", DEEDS)
def test_what_is_done_in_mid_round_has_the_effect_that_it_has_without_drafts(pair: ModelSession, deed: str) -> None:
    command = request(ids_of(pair, 40), Tuning(max_tokens=LENGTH))
    commands, when_paused = DEEDS[deed]
    for at in (2, 7):
        without = steered(pair, command, at, commands, when_paused)
        with_them = steered(pair, change(command, draft=MODEL), at, commands, when_paused)
        assert taken(with_them) == taken(without)
        assert end(with_them).reason == end(without).reason


@pytest.mark.usefixtures("cheap")
def test_a_cancel_while_it_reads_the_prompt_ends_the_reply(pair: ModelSession) -> None:
    """It comes from another thread, and stops the draft model's decode too."""
    model = pair._learned.model
    model.cache.rewind_to(0)
    read = model.read

    def reading(*more: object) -> int:
        pair.abort_decode()
        return read(*more)

    model.read = reading
    try:
        stream = records(pair, request(ids_of(pair, 400), Tuning(max_tokens=30), draft=MODEL))
    finally:
        del model.read
    assert (end(stream).reason, end(stream).tokens) == ("user", 1)
    assert not [why for why in drafting(stream) if why]


def test_what_it_costs_is_measured_again_after_a_while(pair: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs may have disturbed the first measurement."""
    model = pair._learned.model
    assert model is not None
    loaded(pair, Path(model.model.spec.path))
    model = pair._learned.model
    monkeypatch.setattr(BatchTimes, "read_cost", lambda _, rows: 1 + 0.02 * rows)
    monkeypatch.setattr("termchat.engine.llama.draft_model._PATIENCE", 12)
    monkeypatch.setattr(DraftModel, "measure_cost", lambda self, _: setattr(self, "cost", 0.02))
    monkeypatch.setattr(DraftModel, "add_cost", lambda *_: None)
    model.cost = 9.0
    _, stream = both(pair, request(ids_of(pair, 30), Tuning(max_tokens=24)))
    why, then = drafting(stream)[1:]
    assert why.startswith("draft model drafter: a token costs 9.00 of one here, at best 0.1")
    assert then == ""
    first = next(token.step for token in tokens(stream) if token.draft is not None)
    assert first > 12


# --- when it drafts --------------------------------------------------------------------------------------------------


def test_it_rests_where_its_drafts_do_not_pay_and_tries_again(
    pair: ModelSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial after a rest reads the last ids alone."""
    monkeypatch.setattr(BatchTimes, "read_cost", lambda _, rows: 1 + 0.3 * (rows - 1))
    monkeypatch.setattr(DraftModel, "each", 0.2)
    loaded(pair, Path(pair._learned.model.model.spec.path))
    read = DraftModel.read
    lengths: list[int] = []

    def reading(self: DraftModel, ids: list[int], threads: int) -> int:
        lengths.append(len(ids))
        return read(self, ids, threads)

    monkeypatch.setattr(DraftModel, "read", reading)
    command = request(ids_of(pair, 30), Tuning(temperature=0.8, max_tokens=260))
    without, with_them = both(pair, command)
    assert same(with_them) == same(without)
    whys = drafting(with_them)
    rests = [number for number, why in enumerate(whys) if "breaks even at" in why]
    assert rests
    assert "" in whys[rests[0] :], "it never tried again"
    again = lengths.index(64)
    assert lengths[again - 1] < 30 + 40, "it rested late"
    shorter = [number for number in range(again + 1, len(lengths)) if lengths[number] < lengths[number - 1]]
    assert {lengths[number] for number in shorter} <= {64}, "only after another rest does it begin anew"
    assert lengths[again + 1] > 64, "the trial went on from what it had read"
    assert max(lengths[again : again + 12]) < 64 + 40


@pytest.mark.parametrize(("cost", "drafts"), [(0.02, True), (0.97, False)])
def test_auto_takes_the_one_that_gains_more(
    pair: ModelSession, monkeypatch: pytest.MonkeyPatch, cost: float, drafts: bool
) -> None:
    monkeypatch.setattr(BatchTimes, "read_cost", lambda _, rows: 1 + 0.1 * (rows - 1))
    monkeypatch.setattr(DraftModel, "each", cost)
    monkeypatch.setattr(Judge, "rests", False)
    loaded(pair, Path(pair._learned.model.model.spec.path))
    _, stream = both(pair, request(ids_of(pair, 60), Tuning(max_tokens=60)), AUTO)
    by = {token.draft.by for token in tokens(stream) if token.draft is not None}
    assert ("drafter" in by) is drafts


def test_auto_spends_no_more_on_a_model_than_it_gained(pair: ModelSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it reads, looks at and drafts in vain is paid by its drafts, by what a usual one would gain in a while, and by one
    part in a hundred of the reply."""
    monkeypatch.setattr(BatchTimes, "add", lambda *_: None)
    path, read = Path(pair._learned.model.model.spec.path), DraftModel.read
    lengths: list[int] = []

    def reading(self: DraftModel, ids: list[int], threads: int) -> int:
        lengths.append(len(ids))
        return read(self, ids, threads)

    monkeypatch.setattr(DraftModel, "read", reading)
    monkeypatch.setattr(
        DraftModel, "cost_reading", lambda self, ids: (len(ids) - self.cache.count_common(ids) - 1) * 0.1
    )
    for each, drafts in ((0.2, False), (0.05, True)):  # with COSTS four of five right tokens pay for the second alone
        monkeypatch.setattr(DraftModel, "each", each)
        lengths.clear()
        model = loaded(pair, path)
        pair.cache.rewind_to(0)
        records(pair, request(ids_of(pair, 100), Tuning(temperature=1.6, max_tokens=90), draft=AUTO))
        assert model.credit is not None
        assert model.credit >= -2 * each
        assert bool(lengths) is drafts
        assert max(lengths, default=0) < 190, "it begins with the last ids"
