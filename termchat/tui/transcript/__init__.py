"""The transcript: one line-API widget over the turns of a chat.

From the text to the screen: `source` reads a turn of the path; `body` cuts it into blocks, by its Markdown (`split`) or by
its lines; a block (`blocks`) lays itself out into lines of inks (`wrap`, `markdown`, `inline`, `code`, `table`), once for a
width, and `mending` closes what still streams; `turn` and `document` stack them (`heights`); `ink` paints a line in a palette;
`scroll` shows the lines, `widget` says which, and `moving` goes to other places. `looks` says how replies are shown.

From the screen to the text: `copying` says what a selection stands for, `found` where the hits of a search are, `fences` what
code a reply has.

The token cursor: `tokens` knows the order of the tokens, `places` and `pointer` where they are on the lines, `jumps` which
of them are worth a visit; `cursor` is on one of them.

Only the open end of the last turn is looked at when tokens come, and what is out of sight is laid out when there is time.
All foreign text passes `sanitize` where it is wrapped.
"""

from termchat.tui.transcript.cursor.cursor import MOVES, Move
from termchat.tui.transcript.cursor.token_order import TokenRef
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS, Look, TokenLook
from termchat.tui.transcript.widget import TranscriptView

__all__ = ["LOOKS", "MOVES", "TOKEN_LOOKS", "Look", "Move", "TokenLook", "TokenRef", "TranscriptView"]
