"""Speculation on the screen: what drafts do for a reply, what they would do, and a round of them step by step.

`reply_drafts` follows the reply that is shown and has its figures; `figures_lines` makes lines of these. `round_lines` shows
the round that a token came out of: draft, verify, accept, correct. `drafts_page` is the page of the panels that has both, or
while speculation is off what it would do (`forecasting`). All of it is read from the records of tokens, by the rules of
`decoding.draft_figures`; nothing here changes anything.

The look of drafts is one of `transcript.looks`; the knobs are turned in TUNE like all others.
"""
