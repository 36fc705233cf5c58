"""Plots of a reply and of a step. `pictures` is the table of them and shares the rows of a page among them; `reply` and
`step` draw, with the columns and axes of `drawing`; `trace` folds the measures of a reply as its tokens come."""
