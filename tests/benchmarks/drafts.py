"""Replies with drafts against the same replies without: `python -m tests.benchmarks.drafts`.

Both are fully observed, in one process on one model, in turns, and so many pairs of each. For every task there is

- how many times as fast the reply was with drafts: the median of the pairs, and quartiles; of the times from the first token to
  the last.
- the ceiling for the rounds it had: tokens / sum of T(rows) over all passes of the model, with T(n) as measured before. What
  drafting, sampling, records and waits take away is missing to it.
- tokens accepted of tokens drafted, and how much of the reply is a quote: ids in runs of eight or more that stand in the
  prompt in the same order.

The quoting tasks were chosen so that SmolLM2 does quote: it mostly writes its own words for prose of many clauses, but copies
lists and JSON, and prose where an example shows it how. What it makes of a task is its own affair: it often forgets the change.

With a draft model the target is the real file with blocks added that change nothing: it says the same at some times the cost.
Draft models are the real file itself and the same without one or two middle blocks, for three levels of acceptance; the ceiling
has the drafted tokens' cost in it, the `draft cost` of each as the engine measured it. The ids have to be equal, as far as the
start record says that the reply is exact.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import NamedTuple

import msgspec

from termchat.decoding.drafting import MOST_DRAFTED, BatchTimes, By, DraftSettings, breaks_even
from termchat.decoding.records import Finished, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Generate, MeasureBatches, Message, ModelSpec, Render
from termchat.models import catalogue
from tests.asking import ask_for, change, events_of
from tests.fewer_blocks import with_idle_blocks, without_blocks
from tests.made_drafts import rounds_of

PLAN = """1. Monday: swim 20 minutes, then stretch for 10 minutes.
2. Tuesday: run 5 kilometers in the park with Anna.
3. Wednesday: rest, and read a book about sleep.
4. Thursday: lift weights for 45 minutes at the gym.
5. Friday: ride the bike to work and back.
6. Saturday: climb the hill behind the old church.
7. Sunday: cook a big lunch for the whole family."""
PRODUCTS = [("lamp", 30, 4), ("chair", 45, 12), ("table", 120, 3), ("shelf", 80, 7), ("sofa", 350, 1)]
JSON = (
    '{\n  "name": "Corner Shop",\n  "city": "Springfield",\n  "open": true,\n  "products": ['
    + ",".join(
        f'\n    {{\n      "id": {number},\n      "name": "{name}",\n      "price": {price},\n      "stock": {stock}\n    }}'
        for number, (name, price, stock) in enumerate(PRODUCTS, 1)
    )
    + "\n  ]\n}"
)
STORY = """Anna packed three apples and a map into her bag. She walked down to the harbor, where the old ferry was waiting. \
The captain greeted her, took her ticket, and showed her a seat by the window. It was a cold morning, and the sea was grey \
and calm. After an hour the island came into sight, and the gulls began to cry.

At the pier a man with a red scarf held up a sign with her name. He carried her bag to a small white car, and they drove \
along the coast to the house of her aunt. The table was set for two, and a pot of soup stood on the stove. "You must be \
hungry," said her aunt, and gave her a spoon."""
SHOP = "Mr. Hill opened the shop at eight. He counted the coins, put the bread in the window, and waited for the first guest."
BAKERY = """The bakery on Mill Street will close in May. The owner, Rosa Klein, is 71 years old and found nobody to take over. \
"I baked bread for this town for 40 years," she said."""
BAKERY_QUOTED = """Summary: The bakery closes in May.

Quote: "The owner, Rosa Klein, is 71 years old and found nobody to take over. 'I baked bread for this town for 40 years,' she \
said.\""""
LIBRARY = """The city of Springfield opened a new library on Saturday. The building has four floors and a garden on the roof. \
More than 2,000 people came to the opening. The library has 80,000 books, 60 computers, and a small cinema. It cost 14 million \
dollars and took three years to build. The mayor, Linda Brown, said that everyone can read, learn, and meet there. John \
Carter, a teacher who lives nearby, said that his children love it already. The library is open every day from 9 a.m. to 8 \
p.m., and it is free for everyone."""
_SPELL = "Correct the spelling, and write the whole text again."
_QUOTE = "Summarize the article, then quote the most important part."

CODE = '''def total_price(items, discount=0.0):
    """Return the total price of the items."""
    total = 0.0
    for item in items:
        total += item["price"] * item["count"]
    if discount:
        total -= total * discount
    return round(total, 2)


def print_receipt(items, discount=0.0):
    """Print one line for each item, and the total."""
    for item in items:
        name, price, count = item["name"], item["price"], item["count"]
        print(f"{name:20} {count:3} x {price:8.2f} = {count * price:10.2f}")
    print(f"{'total':20} {total_price(items, discount):29.2f}")
'''

QUOTING: dict[str, list[str]] = {
    "change code": [f"Repeat this code, but rename print_receipt to show_receipt:\n\n```python\n{CODE}```"],
    "change a price in JSON": [f"Change the price of the lamp to 25 and show the whole JSON:\n\n```json\n{JSON}\n```"],
    "change a city in JSON": [f"```json\n{JSON}\n```\n\nShow this JSON again, but with the city changed to Boston."],
    "add to a plan": [f"{PLAN}\n\nRewrite this plan with one more item."],
    "correct spelling": [
        f"{_SPELL}\n\n{SHOP.replace('bread', 'bred').replace('window', 'windwo')}",
        SHOP,
        f"{_SPELL}\n\n{STORY.replace('morning', 'mornning').replace('carried', 'caried').replace('captain', 'captian')}",
    ],
    "summarise and quote": [f"{_QUOTE}\n\n{BAKERY}", BAKERY_QUOTED, f"{_QUOTE}\n\n{LIBRARY}"],
}
FREE: dict[str, list[str]] = {
    "story": ["Tell me a long story about a fox and a river."],
    "explain": ["Explain why the sky is blue, in detail."],
    "recipe": ["How do I bake bread at home?"],
    "program": ["Write a Python program that plays tic-tac-toe."],
}
TASKS = QUOTING | FREE
_RUN = 8
_FEW = 2


class Made(NamedTuple):
    """A reply: its ids, its end, whether it is exact, why it does not draft, if it does not, and the rows of its passes after
    the first."""

    ids: list[int]
    end: Finished
    exact: bool
    why: str
    rows: list[int]


def made(session: ModelSession, command: Generate) -> Made:
    """Makes it from an empty cache."""
    session.cache.rewind_to(0)
    stream = list(events_of(session, command))
    start, end = stream[0], stream[-1]
    assert isinstance(start, Start)
    assert isinstance(end, Finished)
    why = [record.drafting for record in stream if isinstance(record, SettingsRecord)][-1]
    tokens = [record for record in stream if isinstance(record, Token)]
    rounds = [each.rows for each in rounds_of(tokens)]
    passes = sum(token.decode_us > 0 for token in tokens[1:])
    return Made([token.id for token in tokens], end, start.exact, why, rounds + [1] * (passes - len(rounds)))


def quoted(prompt: Sequence[int], reply: Sequence[int]) -> float:
    """The share of a reply that is quoted."""
    runs = {tuple(prompt[at : at + _RUN]) for at in range(len(prompt) - _RUN + 1)}
    within: set[int] = set()
    for at in range(len(reply) - _RUN + 1):
        if tuple(reply[at : at + _RUN]) in runs:
            within.update(range(at, at + _RUN))
    return len(within) / len(reply)


def compare(
    session: ModelSession, task: str, temperature: float, by: By, costs: dict[int, float], args: argparse.Namespace
) -> float | None:
    """Runs the pairs and prints a line; returns how many times as fast."""
    told = TASKS[task]
    messages = [Message("assistant" if number % 2 else "user", text) for number, text in enumerate(told)]
    ids = session.render(Render(messages)).ids
    tuning = Tuning(temperature=temperature, max_tokens=args.tokens)
    ratios: list[float] = []
    ceilings: list[float] = []
    quotes: list[float] = []
    drafted = accepted = parted = 0
    why = ""
    for pair in range(-1, args.pairs):  # the first does not count
        plain = ask_for(ids, tuning.samplers(), tuning.conditions(), 1 + pair % 3, keep_logits=False)
        commands = [plain, msgspec.structs.replace(plain, draft=DraftSettings(by))]
        order = (0, 1) if pair % 2 else (1, 0)
        found = {which: made(session, commands[which]) for which in order}
        without, with_them = found[0], found[1]
        equal = without.ids == with_them.ids
        parted += not equal
        assert equal or not with_them.exact
        if pair < 0 or not equal or not with_them.rows:
            continue
        why = with_them.why
        model = session._learned.model
        each = model.each if model is not None and by == "model" else 0.0
        rows = with_them.rows
        cost = sum(costs[count] + (count - 1) * each for count in rows)
        ratios.append(without.end.decode_ms / with_them.end.decode_ms)
        ceilings.append((len(with_them.ids) - 1) / cost)
        quotes.append(quoted(ids, with_them.ids))
        drafted, accepted = drafted + (with_them.end.drafted or 0), accepted + (with_them.end.accepted or 0)
    name = f"  {task:22} T {temperature}"
    if len(ratios) < _FEW:
        print(f"{name}: too few equal replies", flush=True)
        return None
    low, middle, high = quantiles(ratios, n=4)
    of_ceiling = median(ratio / ceiling for ratio, ceiling in zip(ratios, ceilings, strict=True))
    share = f"accepted {accepted} of {drafted}" if drafted else "nothing drafted"
    print(
        f"{name}: {middle:.2f} times as fast ({low:.2f}–{high:.2f}), {of_ceiling:.2f} of the ceiling"
        f" {median(ceilings):.2f}; {share}, {median(quotes):.0%} quoted{f', {parted} parted' if parted else ''}"
        f"{f'; {why}' if why else ''}",
        flush=True,
    )
    return middle


def measured(session: ModelSession, seconds: float) -> dict[int, float]:
    """T(n) for every number of rows up to the largest measured one; prints it."""
    found = session.measure_batches(MeasureBatches(seconds))
    times = BatchTimes(found.batch_times)
    even = breaks_even(times.read_cost, MOST_DRAFTED)
    print(
        f"  T(n) {', '.join(f'{n}: {cost:.2f}' for n, cost in found.batch_times.items()) or 'not measured: busy'};"
        f" breaks even at {even:.0%} accepted; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return {n: times.read_cost(n) for n in range(1, MOST_DRAFTED + 2)}


def by_ngrams(path: str, threads: int, args: argparse.Namespace) -> None:
    """Quoting and free tasks, drafted from the context."""
    spec = ModelSpec(path, "bench", context=4096, threads=threads, kv_type=args.kv_type, quantization="Q4_1")
    with closing(ModelSession(spec, lambda _: None)) as session:
        print(f"n-grams, {threads} threads, {args.kv_type} KV, up to {args.tokens} tokens, {args.pairs} pairs")
        costs = measured(session, 4.0)
        for temperature, tasks in product((0.0, 0.8), (QUOTING, FREE)):
            chosen = [task for task in tasks if not args.task or task in args.task]
            found = [compare(session, task, temperature, "auto", costs, args) for task in chosen]
            if several := [ratio for ratio in found if ratio is not None]:
                kind = "quoting" if tasks is QUOTING else "free"
                print(f"  {kind} tasks, T {temperature}: median {median(several):.2f}, least {min(several):.2f}")


def by_models(path: str, threads: int, args: argparse.Namespace) -> None:
    """The real model, whole and without middle blocks, drafts for one that is larger and says the same."""
    with tempfile.TemporaryDirectory() as folder:
        source, made_in = Path(path), Path(folder)
        large = with_idle_blocks(source, made_in / "large.gguf", args.idle)
        drafts = {
            "the same model": source,
            "without block 14": without_blocks(source, made_in / "one.gguf", 14),
            "without blocks 11, 18": without_blocks(source, made_in / "two.gguf", 11, 18),
        }
        spec = ModelSpec(str(large), "large", context=1024, threads=threads, kv_type=args.kv_type)
        print(f"a draft model, {threads} threads, the target has {args.idle} blocks more, {args.pairs} pairs")
        with closing(ModelSession(spec, lambda _: None)) as session:
            costs = measured(session, 8.0)
            for name, draft in drafts.items():
                info = session.load_draft(ModelSpec(str(draft), name), lambda _: None)
                even = breaks_even(lambda rows: costs[rows], MOST_DRAFTED, info.cost)
                print(f" {name}: draft cost {info.cost:.2f}, breaks even at {even:.0%} accepted")
                for task, temperature in product(("story", "explain"), (0.0, 0.8)):
                    compare(session, task, temperature, "model", costs, args)


def by_pair(threads: int, args: argparse.Namespace) -> None:
    """A real model and one that drafts for it: each way to draft against none, in turns, with the cells of the prompt at hand.

    The draft model reads the prompt anew each time. Beside the ratio of the rates is that of the time on all processors, which
    other programs disturb less; while they compute, threads spin, so that it means something with one thread only.
    """
    target, draft = args.pair
    ways: list[By] = ["off", "ngram", "model", "auto"]
    spec = ModelSpec(target, "target", context=2048, threads=threads, kv_type=args.kv_type)
    with closing(ModelSession(spec, lambda _: None)) as session:
        print(f"{Path(target).stem} with {Path(draft).stem}, {threads} threads, {args.pairs} pairs")
        measured(session, 2.0)
        info = session.load_draft(ModelSpec(draft, Path(draft).stem), lambda _: None)
        print(f"  a drafted token costs {info.cost:.2f} of one; {info.why_not or 'it may pay'}", flush=True)
        assert session._learned.model is not None
        for task in args.task or ("change code", "story"):
            ids = session.render(Render([Message("user", TASKS[task][0])])).ids
            tuning = Tuning(temperature=0.0, max_tokens=args.tokens)
            rates: dict[str, list[tuple[float, float]]] = {}
            ends: dict[str, Finished] = {}
            for pair in range(args.pairs):
                for by in ways[:: -1 if pair % 2 else 1]:
                    session._learned.model.cache.rewind_to(0)
                    command = ask_for(ids, tuning.samplers(), tuning.conditions(), 1, keep_logits=False)
                    if by != "off":
                        command = change(command, draft=DraftSettings(by))
                    begun = process_time()
                    *_, end = events_of(session, command)
                    assert isinstance(end, Finished)
                    spent, ends[by] = process_time() - begun, end
                    rates.setdefault(by, []).append((end.tokens_per_second or 0.0, end.tokens / spent))
            for way, told in rates.items():
                pairs = list(zip(told, rates["off"], strict=True))
                wall, cpu = (median(one[at] / off[at] for one, off in pairs) for at in (0, 1))
                end = ends[way]
                drafted = f"accepted {end.accepted} of {end.drafted}" if end.drafted else end.not_drafted
                print(
                    f"  {task:12} {way:6} {median(rate for rate, _ in told):6.2f} tokens/s  {wall:.2f} times as fast"
                    f" (by processor time {cpu:.2f}); {end.tokens} tokens{f', {drafted}' if drafted else ''}",
                    flush=True,
                )


def main() -> None:
    """Runs all and prints a line for each kind of task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=sorted({1, os.cpu_count() or 1}, reverse=True))
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--kv-type", default="auto")
    parser.add_argument("--task", action="append", choices=TASKS)
    parser.add_argument("--drafter", choices=("ngram", "model", "both"), default="both")
    parser.add_argument(
        "--pair", nargs=2, metavar=("MODEL", "DRAFT"), help="files of a model and of one that drafts for it"
    )
    parser.add_argument("--idle", type=int, default=150, help="blocks that the target of a draft model has more")
    args = parser.parse_args()
    sys.setswitchinterval(0.0005)
    path = str(catalogue.resolve(None)[1])
    for threads in args.threads:
        if args.pair:
            by_pair(threads, args)
            continue
        if args.drafter != "model":
            by_ngrams(path, threads, args)
        if args.drafter != "ngram":
            by_models(path, threads, args)


if __name__ == "__main__":
    main()
