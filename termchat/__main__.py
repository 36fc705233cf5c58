"""The program: `termchat`, and `python -m termchat`."""

import gc

# Nothing that is imported is garbage, and to look for some takes a tenth of the way to the first frame. Commands collect
# again when they begin, the chat with its first frame.
gc.disable()

from termchat.cli import main  # noqa: E402 - not before

if __name__ == "__main__":
    main()
