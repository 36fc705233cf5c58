"""What a constraint costs: `python -m tests.benchmarks.constraints`.

Replies with a JSON schema and free ones, in pairs, alternating which goes first, by the time of their decoding; and how long it
takes to follow a reply again after it was rewound.
"""

from __future__ import annotations

import json
import os
from statistics import median
from time import perf_counter

from termchat.decoding.conditions import Length
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Finished, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import ModelSpec
from termchat.models import catalogue
from tests.asking import ask_for, events_of
from tests.benchmarks.headless import Ours, arguments, pairs, report

_ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
SCHEMA = Constraint("json_schema", json.dumps({"type": "array", "items": _ITEM, "minItems": 200}))


def decode_seconds(ours: Ours, ids: list[int], tokens: int, seed: int, constraint: Constraint | None) -> float | None:
    """None if the reply ended early."""
    ours._clear()
    command = ask_for(ids, SamplerSettings(), (Length(tokens),), seed, keep_logits=False, constraint=constraint)
    events = ours._until(ours.engine.send(command), Finished)
    finished = events[-1]
    assert isinstance(finished, Finished)
    return finished.decode_ms / 1e3 if finished.tokens == tokens else None


def rewinding(path: str, tokens: int) -> None:
    """Prints how long a constrained reply of so many tokens takes to be followed again."""
    session = ModelSession(ModelSpec(path, "bench", context=4096, threads=os.cpu_count() or 1), lambda _: None)
    ids = session.model.tokenize("A list of people in JSON:", special=False)
    command = ask_for(ids, SamplerSettings(), (Length(tokens),), 1, constraint=SCHEMA)
    stream = events_of(session, command)
    said = [record.id for record in stream if isinstance(record, Token)]
    times = []
    for _ in range(21):
        begun = perf_counter()
        session.model.grammars.follow_ids(SCHEMA, said)
        times.append((perf_counter() - begun) * 1e3)
    session.close()
    print(f"to follow {len(said)} tokens again: {median(times):.2f} ms (most {max(times):.2f})")


def main() -> None:
    """Runs all and prints a table."""
    args = arguments(__doc__)
    path = str(catalogue.resolve(None)[1])
    for threads in args.threads:
        ours = Ours(path, threads)
        ids = ours.tokenize("Once upon a time, in a village far away from the sea, there lived an old woman who")
        decode_seconds(ours, ids, 16, 0, SCHEMA)
        times = pairs(
            args.pairs,
            lambda i, ours=ours, ids=ids: decode_seconds(ours, ids, args.tokens, i, SCHEMA),  # type: ignore[misc]
            lambda i, ours=ours, ids=ids: decode_seconds(ours, ids, args.tokens, i, None) or float("nan"),  # type: ignore[misc]
        )
        print(f"{threads} thread{'s' * (threads > 1)}, {args.tokens} tokens a reply")
        report("decode with a JSON schema", args.tokens - 1, times, ("schema", "free"))
        ours.engine.close()
    rewinding(path, 1000)


if __name__ == "__main__":
    main()
