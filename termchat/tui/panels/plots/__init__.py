"""Plots over a reply: entropy, probability and decode time of its tokens.

`trace` reads the tokens as they come and folds their measures into columns; `reply_plots` draws a plot of each measure, with
the columns and axes of `drawing`; `pictures` is the table of them and shares the rows of a page among them. `pages` asks for
the pictures of a page, and the panels' widget finds the token of a column that is clicked in the trace.
"""
