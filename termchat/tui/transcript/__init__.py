"""The transcript: one line-API widget over the turns of a chat.

From the text to the screen: `turn_source` reads a turn of the path; `body` cuts it into blocks, by its Markdown
(`markdown.chunks`) or by its lines; a block (`blocks`) lays itself out into lines of inks, once for a width, with
`draw.wrap` and the rest of `markdown`; `turn` makes the blocks of a turn, under its `title`, and `document` stacks those of
all turns. `view` shows the lines of a document, keeps its place, and holds the look and the cursor. `looks` says
how replies are shown, `legend` what the colours of one mean.

From the screen to the text: `selection.map_characters` finds the place in the text of every character on a line. By it
are found the text of a selection (`selection`), the hits of a search and what a person forced (`hits`), and the cells of
tokens (`cursor.cursor`). `markdown.code` finds the code of a reply.

The token cursor: `cursor.token_order` knows the order of the tokens, `cursor.jumps` which of them are worth a jump;
`cursor.cursor` is on one of them.

The chat's screen calls `TranscriptView` (`show()`, `grew()`), and hears of its cursor by `CursorMoved`. When tokens come, only
the open end of the last turn is looked at; lines out of sight are laid out when there is time, once. All foreign text passes
`sanitize` where it is wrapped.
"""

from termchat.tui.transcript.cursor.cursor import MOVES, Move
from termchat.tui.transcript.cursor.token_order import TokenRef
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS, Look, TokenLook
from termchat.tui.transcript.view import TranscriptView

__all__ = ["LOOKS", "MOVES", "TOKEN_LOOKS", "Look", "Move", "TokenLook", "TokenRef", "TranscriptView"]
