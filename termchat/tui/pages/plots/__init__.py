"""Plots over a reply: entropy, probability and decode time of its tokens.

`trace` reads the tokens as they come and folds their measures into columns; `reply_plots` draws a plot of each measure, with
the columns and axes of `drawing`, and shares the rows of a page among several. The pages find the token of a column that is
clicked in the trace.
"""
