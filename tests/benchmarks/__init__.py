"""Benchmarks: ratios against bare llama.cpp in the same run, in alternating pairs. Run one with `python -m`."""
