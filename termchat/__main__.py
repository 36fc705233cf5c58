"""The program: `termchat`, and `python -m termchat`."""

import gc
import signal

# Nothing that is imported is garbage, and to look for some takes a tenth of the way to the first frame. Commands collect
# again when they begin, the chat with its first frame.
gc.disable()

# Who presses Ctrl+C already while this imports does not want to read where it stood: it ends as any program does. Where
# interrupts are ignored they stay so.
usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if usual:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from termchat.cli import main  # noqa: E402 - not before

if usual:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    main()
