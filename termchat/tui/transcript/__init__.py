"""The transcript: one line-API widget over the turns of a chat.

From the text to the screen: `source` reads a turn of the path; `body` cuts it into blocks, by its Markdown (`split`) or by
its lines; a block (`blocks`) lays itself out into lines of inks (`wrap`, `markdown`, `code`, `table`), once for a width;
`turn` and `document` stack them (`heights`); `ink` paints a line in a palette; `widget` shows the lines.

Only the open end of the last turn is looked at when tokens come, and what is out of sight is laid out when there is time.
All foreign text passes `sanitize` where it is wrapped.
"""

from termchat.tui.transcript.turn import Look
from termchat.tui.transcript.widget import Transcript

__all__ = ["Look", "Transcript"]
