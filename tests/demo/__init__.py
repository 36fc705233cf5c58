"""The demo: recorded by `python -m tests.demo`, and proven to be played."""
