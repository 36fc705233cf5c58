"""Saved chats, new ones, transcripts and personas on the screen.

`chat_switching` is what the chat's screen calls: new chat, saved chats, a chat as a persona, save transcript or persona; it
opens `sessions_dialog`, `setup`, `save` and `presets.persona_dialog`. `sessions_dialog` lists the chats, to open, change or
compare one; `session_list` is what is known of them, and the thread that reads and changes them. `branch_tree` lists the
branches of a chat, and opens `compare` on two replies. The choice is the dialog's result.
"""
