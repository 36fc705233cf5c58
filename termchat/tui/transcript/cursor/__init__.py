"""The token cursor: which token it is on, where that is on the screen, and which one is next.

`token_order` knows the order of all tokens on the path and where the text of each is in its turn (`Track`), and nothing of
lines. `jumps` says which tokens are worth a jump: uncertain, surprising, with other settings, at a fork. `cursor.Cursor` is on
a token, finds its cells by the offsets of what is on the lines, and moves by the table `MOVES`.

The view (`view` in the room above) draws the cursor, has it move, and posts `CursorMoved`. What keys do with it is in
`termchat.tui.pages.token_bar`.
"""
