"""GGUF headers: what a model file says of itself, read without llama.cpp and within bounds.

`reader` walks over the bytes, `metadata` keeps the few values that are needed and refuses what llama.cpp cannot load.
`brief.read_brief` stops before the vocabulary and serves lists (under a millisecond); `header.read_header` reads all, for
loading, memory estimates and the identity of a model. `quantization` has the tables of types.
"""
