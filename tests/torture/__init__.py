"""Faults by the hundred: `python -m tests.torture --rounds 1000 [--seed N] [--jobs N]`.

Each round kills something with SIGKILL, at a random moment of its work: the app, the engine's process, or both (of the whole
app in a terminal also with the signals it can answer). Then the store has to be sound, every turn that was finished whole
and as it was, at most a second of a reply gone, no process and no lock left over.

Rounds come in lives: a few on one home, so that each starts on what the one before left. What a life does follows from the
seed and its number alone; a fault says how to live it again.

    plan    what a life does, drawn from the seed
    life    runs it: each kind of round in a module of its own (talking, screen, pulling)
    driver  the process that chats without a screen and says what it knows to be on the disk
    known   what has to be in the store, and whether it is
    traces  processes and locks that are left
"""
