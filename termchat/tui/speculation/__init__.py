"""Speculation on the screen: what drafts do for a reply, what they would do, and a round of them step by step.

`drafts` follows the reply that is shown and makes lines of its figures, or while speculation is off of what it would do;
`rounds` shows the round that a token came out of: draft, verify, accept, correct. All of it is read from the records of tokens,
by the rules of `decoding.draft_figures`; nothing here changes anything.

The look of drafts is one of `transcript.looks`; the knobs are turned in TUNE like all others.
"""
