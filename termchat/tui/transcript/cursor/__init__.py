"""The token cursor: which token is looked at, where that is on the screen, and which one is next.

`token_order` knows the order of all tokens on the path (`Track`) and where the text of each is in its turn (`TurnTokens`), and
nothing of lines. `token_cells` finds their cells in the blocks of a turn by wrapping the text a second time, with numbers in
place of colours. `jumps` says which tokens are worth a jump: uncertain, surprising, with other settings, at a fork.
`cursor.Cursor` stands on a token and moves by the table `MOVES`; its `Pointer` leads from a token to its cells and back.

The view (`view` in the room above) draws the cursor and has it move; `widget` posts `CursorMoved`. What keys do with it is in
`termchat.tui.tokens.mode`.
"""
