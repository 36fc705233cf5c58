"""GGUF headers: what a model file says of itself, read without llama.cpp and within bounds.

    file ─ reader ─▶ values ─ metadata ─▶ the few that are needed ─ brief, header ─▶ Brief, Header

- `reader`: a position in the file, through a window; every claim of the file is checked against its size and against what real
  models have, so that neither time nor memory depends on what it claims. What is not GGUF is named as what it looks like.
- `metadata`: which values are kept, and which make a file unusable or llama.cpp abort.
- `brief`: the beginning, up to the vocabulary, in under a millisecond: for lists.
- `header`: all of it, with the size that the tensors need: before a model is loaded, for estimates of its memory, and for its
  identity. `check_parts` does so for the other files of a model in several.
- `vocabulary_texts`: what the ids of a model mean, where two models differ in it, and which vocabularies make llama.cpp abort.
- `quantization`: the tables of types.

`disk`, `listing`, `manage`, `chat.opening` and the models dialog call `read_brief` and `read_header`; what they refuse is a
`HeaderError`.
"""
