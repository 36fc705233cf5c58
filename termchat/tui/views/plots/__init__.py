"""Plots: data in, lines out. All of them draw with `drawing`; what grows with a reply is held in `trace`."""
