"""Several replies from one prompt, side by side: the view that takes the transcript's place while a group of walks is shown.

    chat.walks ─ WalksChanged, WalksGrew ─▶ ChatScreen ─▶ Walking ─▶ WalksView ─▶ WalkText, and lines of pages

- `walking`: what the keys do (the rows of `keys.tables.WALKS`), and when the view is shown. The screen's collaborator.
- `walks_view`: the widgets, and who of them has how much room (`arrangement`). A walk's text is a `WalkText`, a transcript
  that shows one reply, so that looks, marks, scrolling and the token cursor are those of the chat; token mode is told which
  one it is in.
- `walk_heads`: the line over all, the prompt's last lines, the head of each walk, and its line in the list. `walk_facts`: what
  these say of a walk, from its records: what sets it apart, what it does, how fast.
- `walk_pages`: the views that Tab turns, one table, among them `walk_parting` (a trie of tokens) and `walk_table`. They are
  made from what `walk_reader` has read of the tokens, and drawn from a `walk_scene`.
- `walk_start`: how walks begin, by a command or by `walks_dialog`, which is filled in on a `walk_form`.
- Pages of one kind of group: `grid_table`; `lockstep` of A/B; `tally` of best of n and of a vote; `beams_page` with the
  `lattice` of a search's last steps.

A new page is a `PageBody` and a row of `PAGES`. Only lines that changed are drawn again, and what costs more than a line a
walk is drawn a few times a second.
"""
