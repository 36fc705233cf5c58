"""Replies of a real model with every stage on: made again, rewound, forked, replayed and asked about, they are the same."""

from __future__ import annotations

from itertools import repeat

import msgspec
import pytest

from termchat.decoding.records import Prefill, Token
from termchat.decoding.samplers import ORDER, Tuning
from termchat.decoding.stage_state import update_state
from termchat.decoding.stages import chain_of
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.scoring import Scorer
from termchat.engine.port import Adjust, Explain, Inspect, Resume, Score
from tests.asking import change
from tests.engine.conftest import lasting, records, request, tokens
from tests.engine.steered import numbers, script_of, steered

LENGTH = 32
EVERY = Tuning(
    max_tokens=LENGTH, repeat_penalty=1.1, frequency_penalty=0.05, presence_penalty=0.05, dry_multiplier=0.5,
    top_n_sigma=2.0, top_k=60, typical_p=0.97, top_p=0.97, min_p=0.01, xtc_probability=0.3, xtc_threshold=0.15, top_h=0.95,
    min_k=8.0, temperature=1.1, dynatemp_range=0.3, dynatemp_exponent=1.2, adaptive_target=0.4, adaptive_decay=0.8,
)  # fmt: skip
TUNINGS = {
    "every stage": EVERY,
    "another order, and a floor": msgspec.structs.replace(
        EVERY,
        p_less=1,
        order=("dry", "penalties", "min_p", "xtc", "top_p", "p_less", "typical_p", "temperature", "top_k"),
    ),
    "mirostat 1": Tuning(max_tokens=LENGTH, mirostat=1, mirostat_tau=4.0, mirostat_eta=0.2),
    "mirostat 2": Tuning(max_tokens=LENGTH, mirostat=2, mirostat_tau=4.0, mirostat_eta=0.2),
}
SEED = 7


class Straight:
    """A reply that nobody disturbs."""

    def __init__(self, session: ModelSession, tuning: Tuning) -> None:
        self.tuning = tuning
        self.prompt = lasting(session, "Tell me about the sea, the sky and the land.", tuning, SEED)
        self.tokens = tokens(records(session, request(self.prompt, tuning, SEED)))
        self.ids = [token.id for token in self.tokens]

    def state_at(self, cut: int) -> dict[str, float]:
        """What the stages remember once so many tokens were drawn, by the record of the last of them."""
        last = self.tokens[cut - 1]
        return update_state(self.tuning.samplers(), last.state, last.probability)


@pytest.fixture(scope="module", params=[*TUNINGS])
def straight(session: ModelSession, request: pytest.FixtureRequest) -> Straight:
    return Straight(session, TUNINGS[request.param])


def all_of(found: list[Token]) -> list[object]:
    return [*zip(numbers(found), [token.state for token in found], strict=True)]


def test_every_stage_is_on() -> None:
    on = {stage.name for tuning in TUNINGS.values() for stage in chain_of(tuning.samplers()) if stage.is_active(tuning)}
    assert on == {*ORDER, "mirostat", "adaptive_p"}


def test_it_is_made_again(session: ModelSession, straight: Straight) -> None:
    for begin in (0, len(straight.prompt)):  # everything again, and rewound
        session.cache.rewind_to(begin)
        again = tokens(records(session, request(straight.prompt, straight.tuning, SEED)))
        assert all_of(again) == all_of(straight.tokens)
    assert any(token.probability < 1 for token in again)


@pytest.mark.parametrize("cut", [1, 17])
def test_a_fork_goes_on_with_the_same_state(session: ModelSession, straight: Straight, cut: int) -> None:
    ids = [*straight.prompt, *straight.ids[:cut]]
    made = records(session, request(ids, straight.tuning, SEED, done=cut, state=straight.state_at(cut)))
    assert all_of(tokens(made)[: LENGTH - cut]) == all_of(straight.tokens[cut:])
    prefill = next(record for record in made if isinstance(record, Prefill))
    assert sum(prefill.shapes) == 1


def test_a_reply_whose_order_and_stages_changed_is_replayed_from_its_records(
    session: ModelSession, straight: Straight
) -> None:
    command = request(straight.prompt, straight.tuning, SEED)
    other = straight.tuning.turn_knobs({"order": ORDER[::-1]})
    third = straight.tuning.turn_knobs({"mirostat": 2, "adaptive_target": -1.0})
    fourth = straight.tuning.turn_knobs({"mirostat": 0, "adaptive_target": 0.3})
    steps = {5: other, 12: third, 21: fourth}
    at = {step: [Adjust(tuning.samplers(), tuning.conditions())] for step, tuning in steps.items()}
    stream = steered(session, command, repeat(Resume()), at)
    told = tokens(stream)  # type: ignore[arg-type]
    assert [token.settings for token in told] == [sum(step <= at for step in steps) for at in range(LENGTH)]
    assert len({frozenset(token.state) for token in told}) > 1
    session.cache.rewind_to(0)
    replayed = tokens(records(session, change(command, script=script_of(stream))))
    assert all_of(replayed) == all_of(told)


def test_what_if_draws_the_reply_itself_under_its_own_settings(session: ModelSession, straight: Straight) -> None:
    asked = Score([*straight.prompt, *straight.ids], LENGTH, straight.tuning.samplers(), SEED)
    for scorer in (Scorer(session.cache), session):
        found = (
            scorer.score_reply(asked, lambda *_: None, lambda: False)
            if isinstance(scorer, Scorer)
            else session.score_reply(asked, alone=True, progress=lambda *_: None, wanted=lambda: False)
        )
        assert found.ids == straight.ids
        assert found.probabilities == pytest.approx([token.probability for token in straight.tokens], rel=1e-6)


def test_what_if_draws_what_generating_draws(session: ModelSession, straight: Straight) -> None:
    other = straight.tuning.turn_knobs({"order": straight.tuning.order[::-1], "temperature": 1.6, "mirostat_tau": 2.0})
    asked = Score([*straight.prompt, *straight.ids], LENGTH, other.samplers(), SEED)
    found = session.score_reply(asked, alone=True, progress=lambda *_: None, wanted=lambda: False)
    real = [token.id for token in tokens(records(session, request(straight.prompt, other, SEED)))]
    parts = next((i for i, (a, b) in enumerate(zip(real, straight.ids, strict=False)) if a != b), LENGTH)
    assert found.ids[: parts + 1] == real[: parts + 1]
    assert parts < LENGTH


def test_a_position_is_asked_again_with_its_state_and_says_why_each_token_lost(
    session: ModelSession, straight: Straight
) -> None:
    for step in (0, 1, 12):
        ids, then = [*straight.prompt, *straight.ids[:step]], straight.tokens[step]
        state = straight.state_at(step) if step else {}
        look = Inspect(ids, straight.tuning.samplers(), SEED, step, state=state)
        token, _ = session.inspect_step(look, alone=True, wanted=lambda: False)
        assert (token.id, token.state) == (then.id, then.state)
        assert token.stages == then.stages
        for lost in [one for one in then.candidates if one.id != then.id][:6]:
            asked = Explain(ids, lost.id, straight.tuning.samplers(), SEED, step, state=state)
            why = session.explain_step(asked, alone=True, wanted=lambda: False).explanation
            assert why.removed_by == lost.removed_by
            assert why.probability == pytest.approx(lost.probability, rel=1e-4, abs=1e-6)
