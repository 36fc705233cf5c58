"""A self-contained page for a browser: the chat with its tokens, what each was drawn from, and how fast.

The page is closed to the network: its policy allows one script and one style sheet, both inside it and known by their hashes,
and no request at all. Foreign text is sanitised and escaped; what the script needs to know is data, which it only
ever shows as text.

`page` puts it together and draws the plots, `token_spans` makes the tokens and their data, `walk_columns` puts replies that
were made together side by side, `page_tree` says which branches there is room for. `page.js` and `page.css` are embedded. The
branch that is shown is all there without the script; the others wait in a template, each token once, until the script puts
them in its place.
"""

from __future__ import annotations

from termchat.conversation.transcripts.html.page import lines

__all__ = ["lines"]
