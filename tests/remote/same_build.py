"""Whether a server of the local engine's own build says what that says: `python -m tests.remote.same_build URL`.

The server is a `llama-server` made of the llama.cpp sources in llama-cpp-python's package, or one that is run with that
package's own libraries (LD_LIBRARY_PATH), on the same machine and model, with one thread (`-t 1 -tb 1`), flash attention as
here, and `--no-repack` where this machine has AMX, as the local engine does. Each line is a setting and a prompt of so many
tokens: how many of the reply's ids are equal before the first that is not, and how far apart the numbers of those are. Tokens
that `repeat_penalty` changes are told as logits there; all else is told as log-probabilities on both sides.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import NamedTuple

from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Message, ModelSpec, Render
from termchat.models import catalogue
from tests.asking import ask_for
from tests.remote.conftest import Drawing, drawn, on_server, tokens_of

TEXT = "The river rose all night, and in the morning the old bridge was gone. Nobody had seen it fall, but everyone knew why. "
LENGTHS = (20, 63, 64, 400, 1500)
SETTINGS: dict[str, dict[str, object]] = {
    "temperature 0": {"temperature": 0.0},
    "temperature 0.8": {"temperature": 0.8},
    "temperature 1.5, top_k 100": {"temperature": 1.5, "top_k": 100},
    "frequency 0.4, presence 0.3": {"frequency_penalty": 0.4, "presence_penalty": 0.3},
    "repeat_penalty 1.3": {"repeat_penalty": 1.3},
    "top_p 0.9 alone": {"top_k": 0, "min_p": 0.0, "top_p": 0.9},
    "dry 0.8": {"dry_multiplier": 0.8, "temperature": 0.3},
    "no cut, temperature 1": {"top_k": 0, "min_p": 0.0, "top_p": 1.0, "temperature": 1.0},
}


class Apart(NamedTuple):
    """How many ids of how many are equal from the start, and how far apart the numbers of those are at most."""

    same: int
    of: int
    logprob: float
    probability: float


def apart(here: list[Token], there: list[Token]) -> Apart:
    """Compares two replies."""
    of = max(len(here), len(there))
    pairs = list(zip(here, there, strict=False))
    same = next((at for at, (one, other) in enumerate(pairs) if one.id != other.id), len(pairs))
    return Apart(
        same,
        of,
        max((abs(one.logprob - other.logprob) for one, other in pairs[:same]), default=0.0),
        max((abs(one.probability - other.probability) for one, other in pairs[:same]), default=0.0),
    )


def compared(here: Drawing, there: Drawing, tokens: int) -> Iterator[tuple[str, Apart]]:
    """What each setting gives after each prompt: raw ones of `LENGTHS`, and a chat."""
    ids = here.model.tokenize(TEXT * 80, special=False)
    chat = here.render(Render([Message("user", "Tell me about rivers. <|im_end|>")])).ids
    for name, knobs in SETTINGS.items():
        tuning = Tuning(max_tokens=8 if name.startswith("no cut") else tokens).turn_knobs(knobs)  # type: ignore[arg-type]
        # Each begins elsewhere, so that neither side has read a part of it in other pieces.
        for seed, prompt in enumerate([*(ids[at : at + length] for at, length in enumerate(LENGTHS)), chat]):
            command = ask_for(prompt, tuning.samplers(), tuning.conditions(), 100 + seed)
            told = f"{name}, {'chat of' if prompt is chat else 'raw'} {len(prompt)}"
            yield told, apart(*(tokens_of(drawn(one, command)) for one in (here, there)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--tokens", type=int, default=60)
    given = parser.parse_args()
    here = ModelSession(ModelSpec(str(catalogue.resolve(None)[1]), "smollm2", context=4096, threads=1), lambda _: None)
    there = on_server(given.url)
    found: list[Apart] = []
    for told, one in compared(here, there, given.tokens):
        found.append(one)
        print(
            f"{told:45} {one.same:3} of {one.of:3}   Δlogprob {one.logprob:.1e}   Δp {one.probability:.1e}", flush=True
        )
    same, of = sum(one.same for one in found), sum(one.of for one in found)
    whole = sum(one.same == one.of for one in found)
    print(f"{same} of {of} ids, {whole} of {len(found)} replies equal; load {os.getloadavg()[0]:.1f}")
    print(f"at most: Δlogprob {max(one.logprob for one in found):.1e}, Δp {max(one.probability for one in found):.1e}")


if __name__ == "__main__":
    main()
