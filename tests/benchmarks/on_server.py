"""How long a token of a llama-server takes when it is drawn here, and in the server's own stream: in turns, on the loopback.

`python -m tests.benchmarks.on_server`; the server is that of xllamacpp, with one thread.
"""

from __future__ import annotations

import os
from statistics import median

from termchat.decoding.records import Finished
from termchat.decoding.samplers import Tuning
from tests.asking import ask_for
from tests.benchmarks.streamed import TEXTS, bare, served
from tests.remote.conftest import drawn, finished_of, ids_of, on_server

ROUNDS, TOKENS = 7, 64


def streamed(port: int, ids: list[int]) -> float:
    """Milliseconds a token of the server's own stream, with twenty candidates each."""
    asked = {
        "prompt": ids, "n_predict": TOKENS, "stream": True, "n_probs": 20, "cache_prompt": True, "ignore_eos": True,
    }  # fmt: skip
    return 1e3 / bare(port, asked)


def of(finished: Finished) -> float:
    return 1e3 / (finished.tokens_per_second or 1.0)


def main() -> None:
    server = served()
    session = on_server(server.url)
    try:
        for name, text in TEXTS.items():
            ids, tuning = ids_of(session, text), Tuning(max_tokens=TOKENS, logit_bias=("2=-99",))
            asked = ask_for(ids, tuning.samplers(), tuning.conditions(), 1)
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
