"""In a worker of the screen benchmark: notes when each token leaves it. Costs one write a token."""

import os
import sys
import time

if os.environ.get("TERMCHAT_TAP") and any("llama.worker" in argument for argument in sys.orig_argv):
    from termchat.decoding.records import Token
    from termchat.engine import wire

    _log = os.open(os.environ["TERMCHAT_TAP"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _frame = wire.frame

    def _noted(number, message):
        if isinstance(message, Token):
            os.write(_log, f"{time.monotonic()!r} {message.text!r}\n".encode())
        return _frame(number, message)

    wire.frame = _noted
