"""The pages beside the chat or in its place: of the panels, of token mode, of a group of walks; and what their keys do.

    chat, TUNE, token mode ─ ShownReply ─▶ pages of the panels ─ lines ─▶ `panels.Panels`
    chat.walks ─ ShownGroup ─▶ pages of a group ─ lines ─▶ `screen.walks_view.WalksView`

All pages are a `scene.Page`: lines for the room of a `Scene`, and the keys that mean something else there. Tables with a
cursor are a `grid_table.GridTable`. Neither knows a widget.

- Panels: `panels.Panels` is the widget; the mouse turns knobs in it. `panel_pages` has the pages, a class each, made for a
  `ShownReply`, and the lines of timing. Other lines: `chain_view` (knobs), `candidates` (the table of a step, and rolls of the
  dice), `record` (all numbers of a step, its distribution, the text around it), `token_answers` (why not, what if, the end),
  `drafts` (speculation, round by round), `plots` over a whole reply. `tune_mode` has TUNE's keys.
- Token mode: `token_bar.Tokens` is the widget under the transcript that has the keyboard then, with the reply on a line of it.
  It moves the cursor, asks and forks through the chat. `turn_versions` goes from one version of a turn to another, and
  regenerates.
- Walks: the widgets and their keys are `screen.walks_view`. `shown_group` is the group as the view shows it: its tokens as they
  are read, and the lines that say which walks there are, over and beside their texts and in a table. All kinds of groups have
  its text and its table, and where they part (`parting_pages`, a trie of tokens; also A/B, token under token); `group_tables`
  has the cells of a grid, the ranking of best of n and the answers of a vote; `beams_page` a table of the beams of each step.

A new page is a `Page` and a name in `panel_pages.PAGES`, or in `screen.walks_view` for a group. Only lines that changed are
drawn again; of a group, what costs more than a line a walk is drawn a few times a second.
"""
