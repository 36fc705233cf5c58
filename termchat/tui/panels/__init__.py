"""What stands beside the chat, or in its place in the big view: pages, made of lines, and the widget that shows one.

    chat, TUNE, token mode ─ Scene ─▶ a page's drawing ─ lines ─▶ `panels.Panels`

`pages` is the table: a page's name, where it is shown and what draws it; a new page is a row and its drawing. It also says
which step a page is about (`shown_step`).

The chain's page is `chain_panel` (knobs), `candidates` (the table of a step) and `timing`. The page of the next token and the
large view are `record.step_lines`: the same table with bars, `rolls` of the dice beside them; in the big view `sentence` is
above every page. In token mode the first page is drawn by `tokens/panel.py` from `record`, `why` and `whatif`. `plots` are over
a whole reply; `ribbon` is a line of it, which token mode shows. `tune_mode` is what TUNE's keys do; in
`knobs_view` the mouse turns what stands there.
"""
