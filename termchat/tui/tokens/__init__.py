"""Dialogs about tokens and replies, which the screen opens by its table.

`branch_tree`, which opens `compare` on two replies, `breakpoints`, `tokenizer` (the tokens of any text), `bias_dialog` (logit
biases).
"""
