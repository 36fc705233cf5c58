"""The transcript: one line-API widget over the turns of a chat.

From the text to the screen: `turn_source` reads a turn of the path, whose parts are pieces of replies, and knows its text,
its marks and the ink of every token. `turn` makes the blocks of a turn, by its lines (`blocks`) or by its Markdown
(`markdown`; `chunks` cuts the text while it streams, `code` highlights), which is imported with the first reply that is read
as such. A block lays itself out into lines of inks, once for a width, with `draw.wrap`. `document` stacks the blocks of all
turns, and knows which lines are in view; the line at the top stays there whatever is laid out above it. `view` shows these
lines, and holds the look and the cursor. `looks` says how replies are shown, and what the colours of a look mean.

From the screen to the text: `selection.map_characters` finds the place in the text of every character on a line. By it
are found the text of a selection and the hits of a search (`hits`) or forced text on a line (`selection`), and the cells of
tokens (`cursor`).

The token cursor: `tokens` knows the order of the tokens, and which of them are worth a jump; `cursor` is on one of them.

The chat's screen calls `TranscriptView` (`show()`, `grew()`), and hears of its cursor by `CursorMoved`. When tokens come, only
the open end of the last turn is looked at; lines out of sight are laid out when there is time, once. All foreign text passes
`sanitize` where it is wrapped.
"""

from termchat.tui.transcript.cursor import MOVES, Move
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS, Look, TokenLook
from termchat.tui.transcript.tokens import TokenRef
from termchat.tui.transcript.view import TranscriptView

__all__ = ["LOOKS", "MOVES", "TOKEN_LOOKS", "Look", "Move", "TokenLook", "TokenRef", "TranscriptView"]
