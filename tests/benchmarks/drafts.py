"""Replies with drafts against the same replies without: `python -m tests.benchmarks.drafts`.

Both are fully observed, in one process on one model, in turns. For each kind of task the ratio of the times from the first
token to the last, and what was accepted. The ids have to be equal, as far as the start record says that the reply is exact.
"""

from __future__ import annotations

import argparse
import os
import sys
from itertools import product
from statistics import median, quantiles
from time import perf_counter

import msgspec

from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Finished, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import Session
from termchat.engine.port import Generate, Message, ModelSpec, Render
from termchat.models import catalogue

TEXT = (
    "The lighthouse keeper wrote in his journal every night, describing the waves, the wind and the ships that passed far away"
    " in the dark. On the ninth of May he saw a red light over the northern rocks, and he rowed out alone to find a small boat"
    " with two children and a brown dog. They had lost their way in the fog, and had been at sea for two days without water."
)
TASKS = {
    "repeat": f"Repeat this text word by word: {TEXT}",
    "edit": f"Write this text again, but call the dog white: {TEXT}",
    "quote": f"Summarise this text, and quote its first sentence in full: {TEXT}",
    "story": "Tell me a long story about a fox and a river.",
    "explain": "Explain why the sky is blue, in detail.",
}


def made(session: Session, command: Generate) -> tuple[list[int], Finished, bool, str]:
    """Ids, end, whether it is exact, and why it does not draft, if it does not."""
    session.cache.rewind(0)
    stream = list(session.generate(command, lambda: None, perf_counter()))
    start, end = stream[0], stream[-1]
    assert isinstance(start, Start)
    assert isinstance(end, Finished)
    why = [record.drafting for record in stream if isinstance(record, SettingsRecord)][-1]
    return [record.id for record in stream if isinstance(record, Token)], end, start.exact, why


def main() -> None:
    """Runs all and prints a line for each kind of task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--kv-type", default="f16")
    parser.add_argument("--task", action="append", choices=TASKS)
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)
    path = str(catalogue.resolve(None)[1])
    spec = ModelSpec(path, "bench", context=4096, threads=args.threads, kv_type=args.kv_type, quantization="Q4_1")
    session = Session(spec, lambda _: None)
    print(f"{args.threads} threads, {args.kv_type} KV, up to {args.tokens} tokens")
    for task, temperature in product(args.task or TASKS, (0.0, 0.8)):
        ids = session.render(Render([Message("user", TASKS[task])]))[0]
        tuning = Tuning(temperature=temperature, max_tokens=args.tokens)
        ratios, drafted, accepted, parted, why = [], 0, 0, 0, ""
        for pair in range(-1, args.pairs):  # the first does not count
            plain = Generate(ids, tuning.samplers(), tuning.conditions(), pair + 1, keep_logits=False)
            commands = [plain, msgspec.structs.replace(plain, draft=DraftSettings("auto"))]
            order = (0, 1) if pair % 2 else (1, 0)
            found = {which: made(session, commands[which]) for which in order}
            (ids_plain, end_plain, *_), (ids_drafted, end, exact, why) = found[0], found[1]
            parted += ids_plain != ids_drafted
            assert ids_plain == ids_drafted or not exact
            if pair >= 0 and ids_plain == ids_drafted:
                ratios.append(end_plain.decode_ms / end.decode_ms)
                drafted, accepted = drafted + (end.drafted or 0), accepted + (end.accepted or 0)
        if len(ratios) < 2:
            print(f"  {task:8} T {temperature}: too few equal replies", flush=True)
            continue
        low, _, high = quantiles(ratios, n=4)
        share = f"accepted {accepted} of {drafted}" if drafted else "nothing drafted"
        print(
            f"  {task:8} T {temperature}: {median(ratios):.2f} times as fast (quartiles {low:.2f}–{high:.2f}), {share},"
            f" {parted} parted{f'; {why}' if why else ''}",
            flush=True,
        )
    session.close()


if __name__ == "__main__":
    main()
