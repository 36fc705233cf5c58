"""The compiled step: that it is there, that it says what numpy says, and what it leaves to numpy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding.records import Candidate, PackedCandidates, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama import observe
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.observe import Labels

N_VOCAB = 49_153  # no multiple of anything
ENDS = (0, 2)

ROWS = {
    "a bell": lambda rng: rng.normal(size=N_VOCAB) * 4,
    "ties": lambda rng: np.round(rng.normal(size=N_VOCAB) * 4, 1),
    "one far above": lambda rng: np.where(np.arange(N_VOCAB) == 49_152, 60.0, rng.normal(size=N_VOCAB)),
    "masked": lambda rng: np.where(rng.random(N_VOCAB) < 0.9, -np.inf, rng.normal(size=N_VOCAB)),
    "huge": lambda rng: rng.normal(size=N_VOCAB) * 1e6,
    "rising": lambda rng: np.sort(rng.normal(size=N_VOCAB)),
}
SETTINGS = {
    "as they are": SamplerSettings(),
    "greedy": SamplerSettings(temperature=0.0),
    "penalties": SamplerSettings(repeat_penalty=1.3, frequency_penalty=0.2, presence_penalty=-0.4, repeat_last_n=64),
    "much is left": SamplerSettings(top_k=200, top_p=1.0, min_p=0.0, temperature=1.7),
    "one is left": SamplerSettings(top_k=1),
    "each of ours": SamplerSettings(xtc_probability=0.9, xtc_threshold=0.02, p_less=1, top_h=0.9, min_k=3.0),
    "xtc": SamplerSettings(xtc_probability=1.0, xtc_threshold=0.01, top_p=1.0, min_p=0.0),
    "p_less": SamplerSettings(p_less=1, top_p=1.0, min_p=0.0),
    "top_h": SamplerSettings(top_h=0.6, top_p=1.0, min_p=0.0),
    "min_k": SamplerSettings(min_k=3.0, top_p=1.0, min_p=0.0),
    "adaptive": SamplerSettings(adaptive_target=0.4, repeat_penalty=1.2),
    "masks twice": SamplerSettings(order=("top_k", "top_n_sigma", "temperature"), top_n_sigma=1.5, temperature=0.0),
    "dynamic": SamplerSettings(dynatemp_range=0.5),
    "typical": SamplerSettings(typical_p=0.8),
}


def labels(n_vocab: int) -> Labels:
    """Of many lengths, a few longer than all the others together; some are no ASCII."""
    return Labels(n_vocab, lambda token: f"<{token}> " + "é∅🦊"[token % 3] * (token % 40 if token % 7 else 900))


def both(
    logits: NDArray[np.float32],
    settings: SamplerSettings,
    past: list[int],
    forced: int | None,
    change: float | None = None,
) -> list[Token]:
    chain = Chain(settings, len(logits), past)
    drawn = [
        Observer(len(logits), ENDS, labels(len(logits)), 20, native=native, largest_change=change).draw(
            logits, chain, 99, 7, forced
        )
        for native in (True, False)
    ]
    chain.close()
    return drawn


def test_it_was_built_with_the_package() -> None:
    assert observe.load() is not None, "install termchat again (pip install -e .) with a C compiler at hand"


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("made", ROWS.values(), ids=ROWS)
def test_it_says_what_numpy_says(made: object, settings: SamplerSettings) -> None:
    rng = np.random.default_rng(5)
    for trial in range(12):
        logits = made(rng).astype(np.float32)  # type: ignore[operator]
        past = rng.integers(0, 5000, 90).tolist()
        forced = [None, None, int(logits.argmax()), 17][trial % 4]
        native, plain = both(logits, settings, past, forced, [0.6, 0.02, None, 2.0, 0.0][trial % 5])
        assert (native.id, native.rank, native.near_tie) == (plain.id, plain.rank, plain.near_tie)
        if made is not ROWS["ties"]:  # which of equal logits top_k leaves is open
            assert native.margin == pytest.approx(plain.margin, rel=1e-6, abs=1e-6)
        assert [(s.name, s.survivors) for s in native.stages] == [(s.name, s.survivors) for s in plain.stages]
        assert [s.mass for s in native.stages] == pytest.approx([s.mass for s in plain.stages], rel=1e-5, abs=1e-9)
        assert native.state == pytest.approx(plain.state, rel=1e-5)
        assert native.logprob == pytest.approx(plain.logprob, abs=1e-5)
        assert native.entropy == pytest.approx(plain.entropy, abs=1e-5)
        assert native.p_end == pytest.approx(plain.p_end, rel=1e-5, abs=1e-9)
        assert [(c.id, c.text, c.logit, c.removed_by) for c in native.candidates] == [
            (c.id, c.text, c.logit, c.removed_by) for c in plain.candidates
        ]
        for one, other in zip(native.candidates, plain.candidates, strict=True):
            assert one.noise == pytest.approx(other.noise, rel=1e-13)
            assert one.probability == pytest.approx(other.probability, rel=1e-9)
            assert one.logprob == pytest.approx(other.logprob, abs=1e-5)


def unusual() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(6)
    alone = np.full(N_VOCAB, -np.inf)
    alone[5] = 1.0
    return {
        "all tie": np.zeros(N_VOCAB, np.float32),
        "all masked but one": alone.astype(np.float32),
        "few tokens": rng.normal(size=300).astype(np.float32),
    }


@pytest.mark.parametrize("name", ["all tie", "all masked but one", "few tokens"])
def test_what_is_unusual_is_left_to_numpy(name: str) -> None:
    logits = unusual()[name]
    chain = Chain(SamplerSettings(), len(logits), [])
    observer = Observer(len(logits), ENDS, labels(len(logits)), 20)
    assert observer.draw_natively(logits, chain, 1, 0) is None
    chain.close()
    one, other = both(logits, SamplerSettings(), [], None)
    assert one == other


def test_ids_and_names_of_every_length_come_through() -> None:
    ids = [0, 5, 127, 128, 255, 256, 65_535, 65_536, 200_000]
    logits = np.random.default_rng(7).normal(-30, 1, 200_001).astype(np.float32)
    logits[ids] = np.arange(len(ids), 0, -1)
    chain = Chain(SamplerSettings(), len(logits), [])
    drawn = Observer(len(logits), ENDS, labels(len(logits)), len(ids)).draw(logits, chain, 1, 0)
    chain.close()
    assert isinstance(drawn.candidates, PackedCandidates)
    assert [(c.id, c.text) for c in drawn.candidates] == [(i, labels(1)[i]) for i in ids]
    assert msgspec.msgpack.decode(drawn.candidates.packed, type=list[Candidate]) == drawn.candidates


def test_a_library_of_another_source_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int termchat_abi(void) { return 0; } void termchat_observe(void) {}")
    compiler = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "other.so", source], check=True)
    assert observe.load(tmp_path / "other.so") is None
    assert observe.load(tmp_path / "none.so") is None
