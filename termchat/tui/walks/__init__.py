"""Several replies from one prompt, side by side: the view that takes the transcript's place while a group of walks is shown.

    chat.walks ─ WalksChanged, WalksGrew ─▶ ChatScreen ─▶ Walking ─▶ WalksView ─▶ WalkText, and lines of pages

- `walking`: what the keys do (the rows of `keys.tables.WALKS`), and when the view is shown. The screen's collaborator.
- `walks_view`: the widgets, and who of them has how much room (`arrangement`). A walk's text is a `WalkText`, a transcript
  that shows one reply, so that looks, marks, scrolling and the token cursor are those of the chat; token mode is told which
  one it is in.
- `walk_heads`: the line over all, the prompt's last lines, the head of each walk, and its line in the list. `walk_facts`: what
  these say of a walk, from its records: what sets it apart, what it does, how fast.
- `shown_group`: the group as the view shows it: its tokens, read as they come, and its pages, which Tab turns. Each is a
  `pages.page.Page` made for the group: `walk_parting` (a trie of tokens) and `walk_table` for all kinds of groups; `grid_page`;
  `lockstep` of A/B; `tally` of best of n and of a vote; `beams_page` with a table of the beams of each step.
- `walk_start`: how walks begin, by a command or by `walks_dialog`, which is filled in on a `walk_form`.

A new page is a `Page` and a name in `shown_group`. Only lines that changed are drawn again, and what costs more than a line a
walk is drawn a few times a second.
"""
