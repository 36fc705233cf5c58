"""A page for a browser that holds all it needs: the chat with its tokens, what each was drawn from, and how fast.

The page is shut to the world: its policy allows one script and one style sheet, both inside it and known by their hashes, and
no request at all. What is foreign stands in it sanitised and escaped; what the script needs to know is data, which it only
ever shows as text. So whatever a model or a person wrote, it stays words.

`page` puts it together, `tokens` makes the tokens and their data, `plots` the pictures, `heat` the colours.
"""

from __future__ import annotations

from termchat.conversation.transcripts.html.page import lines

__all__ = ["lines"]
