"""What stands beside the chat: pages, made of lines, without a widget.

`pages` is the table: a page's name, where it is shown and what draws it. The widget (`screen/panels.py`) hands its page a
`Scene` (the chat, TUNE, token mode, the room) and shows the lines that come back. A new page is a row and its drawing.

`chain_panel`, `candidates` and `timing` are the parts of the first page; `plots` those of the others. In token mode the
first page is drawn by `tokens/panel.py` from `record`, `why` and `whatif`. `ribbon` is the line of a whole reply.
`tune_mode` is what TUNE's keys do.
"""
