"""Saved chats, new ones, transcripts and personas on the screen.

`chat_switching` is what the chat's screen calls: new chat, saved chats, save transcript; it opens `sessions_dialog`, `setup`
and `save`. `sessions_dialog` is the list that `chat_picker` has to choose from (drawn by `session_lines`, with the data and
background reading in `session_list`), with what can be done to a chat. `begin_as` starts a chat as a persona or saves one, with
`persona_dialog` to choose from. What is chosen comes back as the dialog's result.
"""
