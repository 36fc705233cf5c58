"""The pages beside the chat or in its place: of the panels, of token mode, of a group of walks; and what their keys do.

    chat, TUNE, token mode ─ ShownReply ─▶ pages of the panels ─ lines ─▶ `panels.Panels`
    chat.walks ─ ShownGroup ─▶ pages of a group ─ lines ─▶ `walks_view.WalksView`

All pages are a `page.Page`: lines for the room of a `Scene`, and the keys that mean something else there. Tables with a
cursor are a `grid_table.GridTable`. Neither knows a widget.

- Panels: `panels.Panels` is the widget; the mouse turns knobs in it. `panel_pages` has the pages, a class each, made for a
  `ShownReply`, and the lines of timing. Other lines: `chain` (knobs), `candidates` (the table of a step, and rolls of the
  dice), `record` (all numbers of a step, its distribution, the text around it), `answers` (why not, what if, the end),
  `drafts` (speculation, round by round), `plots` over a whole reply. `tune` has TUNE's keys.
- Token mode: `token_bar.Tokens` is the widget under the transcript that has the keyboard then, with the reply on a line of it.
  It moves the cursor, asks and forks through the chat. `turn_versions` goes from one version of a turn to another, and
  regenerates.
- Walks: `walks_view` has the widgets; what their keys do is `screen.walking`. The text of a walk is a `WalkText`, a
  transcript of one reply, so that looks, marks, scrolling and the token cursor are those of the chat; token mode is told
  which one it is in. `walk_heads` has the lines above and beside the walks. `shown_group` is the group as the view shows it,
  `group_pages` has its pages: `parting` (a trie of tokens) and `walk_table` for all kinds of groups; `grid_page`; `lockstep`
  of A/B; `tally` of best of n and of a vote; `beams_page` with a table of the beams of each step. Walks are begun in
  `walks_dialog`, which is filled in on a `walk_form`, or by a command.

A new page is a `Page` and a name in `panel_pages.PAGES` or `group_pages`. Only lines that changed are drawn again; of a group,
what costs more than a line a walk is drawn a few times a second.
"""
