"""Dialogs about tokens and replies, which the screen opens by its table.

`tokenizer` (the tokens of any text), `bias_dialog` (logit biases).
"""
