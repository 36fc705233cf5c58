"""Saved chats, new ones, transcripts and personas on the screen.

`chat_switching` is what the chat's screen calls: new chat, saved chats, save transcript; it opens `sessions_dialog`, `setup`
and `save`. `sessions_dialog` lists the chats, to open, change or compare one, with the data and background reading of
`session_list`. `branch_tree` lists the branches of a chat, and opens `compare` on two replies. `begin_as` starts a chat as a
persona or saves one; the list to choose from is `presets.persona_dialog`. The choice is the dialog's result.
"""
