"""The vocabulary of decoding: frozen values and pure functions.

Nothing here knows an engine, a screen or a file. `samplers` declares every knob once, `conditions` what can end or
pause a reply, `rules` which of them a step meets, `dice` the random draw, `records` the one stream of facts that every
other room reads or writes.
"""
