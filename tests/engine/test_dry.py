"""DRY with the texts of tokens alone takes from each logit what llama.cpp's own stage takes, to the last bit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.model_session import ModelSession
from tests.engine.native_chains import native, theirs, with_

TEXT = 'The cat sat. The cat sat on the mat: "The cat sat", she said.\n* The cat\n\n* sat on the mat <|im_end|> café 🦊 cafe'
BREAKERS = (
    ("\n", ":", '"', "*"),
    (),
    ("\n\n", ". The"),
    ("at", " on the mat", "sat on"),
    ("é", "fé 🦊", "🦊 c"),
    ("im_end|>", " <|", "", "a" * 60),
    ("The cat sat on the mat: The cat sat on the mat",),
)


@pytest.fixture(scope="module")
def texts(session: ModelSession) -> Breakers:
    model = session.model
    return Breakers(model.spell_all, partial(model.tokenize, special=False))


def pasts(session: ModelSession, rng: np.random.Generator) -> list[list[int]]:
    """Texts that repeat themselves, in pieces of their own tokens, control tokens among them."""
    ids = session.model.tokenize(TEXT, special=True)
    shuffled = rng.choice(ids, 90).tolist()
    bits = [ids[at : at + int(rng.integers(2, 9))] for at in rng.integers(0, len(ids), 30)]
    few = rng.choice(ids[:3], 200).tolist()
    return [ids * 3, [*shuffled, *shuffled[:40]], [i for bit in bits for i in bit], few, ids[:1] * 300, ids[:2], []]


@pytest.mark.parametrize("breakers", BREAKERS, ids=range(len(BREAKERS)))
def test_it_takes_what_llama_cpp_takes(session: ModelSession, texts: Breakers, breakers: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len(breakers))
    n_vocab = session.model.n_vocab
    logits = rng.normal(0, 3, n_vocab).astype(np.float32)
    moved = 0
    for past in pasts(session, rng):
        for settings in (
            with_(dry_multiplier=0.8, dry_sequence_breakers=breakers),
            with_(dry_multiplier=1.37, dry_base=1.0, dry_penalty_last_n=40, dry_sequence_breakers=breakers),
            with_(dry_multiplier=3, dry_base=9.5, dry_penalty_last_n=5000, dry_sequence_breakers=breakers),
            with_(dry_multiplier=0.3, dry_allowed_length=0, dry_sequence_breakers=breakers),
            with_(dry_multiplier=0.3, dry_allowed_length=5, dry_penalty_last_n=100, dry_sequence_breakers=breakers),
        ):
            own = Chain(settings, n_vocab, past, breakers=texts)
            wanted, _ = theirs(logits, [native("dry", settings, session.model.vocab, n_vocab)], past)
            left = own.apply_stages(logits, None, ())
            own.close()
            possible = np.isfinite(left.logits)
            assert dict(zip(left.ids[possible].tolist(), left.logits[possible].tolist(), strict=True)) == wanted
            moved += sum(wanted.get(i) != logits[i] for i in set(past))
    assert moved > 50


def test_it_forgets_and_remembers_as_llama_cpp_does(session: ModelSession, texts: Breakers) -> None:
    ids = session.model.tokenize(TEXT, special=True)
    settings = SamplerSettings(dry_multiplier=0.8, dry_penalty_last_n=30)
    n_vocab = session.model.n_vocab
    chain = Chain(settings, n_vocab, ids, breakers=texts)
    chain.restart_memory(ids[:7], {})
    taken = [*ids[:20], *ids[3:15]]
    for token in taken:
        chain.accept_token(token)
    wanted, _ = theirs(
        np.zeros(n_vocab, np.float32), [native("dry", settings, session.model.vocab, n_vocab)], ids[:7] + taken
    )
    penalties = chain.compute_dry_penalties()
    assert penalties == {token: -logit for token, logit in wanted.items() if logit} != {}
    chain.restart_memory([], {})
    assert chain.compute_dry_penalties() == {}
    chain.close()


def test_a_tokenizer_that_puts_a_space_before_a_text() -> None:
    """What llama.cpp then searches is a token without it."""
    words = [b" x", b" ab", b"  ab", b"ab"]
    found = Breakers(lambda: words, lambda _: [0]).of((" ab",))
    assert set(found) == {2}
