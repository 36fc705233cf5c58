"""What keeping every record costs: `python -m tests.benchmarks.recording`.

The same reply by the chat service with the store behind it, and with nothing behind it: in pairs, alternating. Prints decode
rates and their ratio.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from time import sleep

from termchat.chat.service import Chat
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.engine.local import LocalEngine
from termchat.engine.port import ModelSpec
from termchat.models import catalogue
from tests.benchmarks.headless import CONTEXT, GATHER, pairs, report
from tests.chats import chat_on

PROMPT = "Once upon a time, in a village far away from the sea, there lived an old woman who"


def decode_seconds(chat: Chat, store: Store | None, tokens: int, seed: int) -> float | None:
    """Seconds for all tokens after the first; None if the model ended the reply early."""
    chat.show_session(Session(conversation=Conversation(raw=True), store=store))
    for name, value in (("seed", seed), ("max_tokens", tokens)):
        chat.adjust_setting(name, value)
    chat.send(PROMPT)
    while chat.live.finished is None or chat.busy:
        sleep(GATHER)
        chat.pump_events()
    finished = chat.live.finished
    return finished.decode_ms / 1e3 if finished.tokens == tokens else None


def main() -> None:
    """Runs all and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=240)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "sessions.db")
        chat = chat_on(LocalEngine())
        chat.loading.load(ModelSpec(str(catalogue.resolve(None)[1]), "bench", context=CONTEXT, threads=args.threads))
        while chat.phase != "idle":
            chat.pump_events(0.1)
        decode_seconds(chat, None, 32, 0)
        times = pairs(
            args.pairs,
            lambda i: decode_seconds(chat, store, args.tokens, 100 + i),
            lambda i: decode_seconds(chat, None, args.tokens, 100 + i) or 0.0,
        )
        report(f"recorded, {args.threads} threads, tokens", args.tokens - 1, times, ("kept", "not kept"))
        chat.close()
        store.close()


if __name__ == "__main__":
    main()
