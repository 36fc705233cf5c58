"""Token mode: every token can be looked at, questioned and forked.

`token_bar.Tokens` is the widget under the transcript that has the keyboard then; its actions call `mode.TokenMode`, which
moves the cursor, asks and forks through the chat. `panel` makes the lines that the panels show of the token. Dialogs:
`breakpoints`, `tokenizer` (the tokens of any text), `bias_dialog` (logit biases); the screen opens them by its table.
`turn_versions` goes from one version of a turn to another, and regenerates.
"""
