"""The chat service: sessions on a host, without a screen. The TUI, the commands and the lessons stand on it.

A `Session` (in `conversation.session`) is a chat as a value: its tree, its settings, and the store that keeps it. A `Host` is
the engine with the model that is loaded, and knows who waits for which of its answers. `Chat(host, session)` in `service` is
the whole of it for whoever uses it: `show_session()`, `send()`, `stop()`, `adjust_setting()` and `pump_events()` are its own,
the rest is reached through its rooms. They share the `State` that the chat is, and know the rooms that they are given:

    chat.turns       what a person says: the queue, the prompt of a turn; room where the context is full
    chat.replies     the replies that run, one or several (`reply_run`): pause, resume, step, force
    chat.forks       what grows from a reply: regenerate, continue, fork; messages, replies and the system prompt in other words
    chat.walks       several replies from one place (groups): the one that is shown; start, open, select, keep, leave
    chat.branches    which branch is shown, names, deleting
    chat.loading     the model: load, switch, unload, restart; `loading.speculation` the one that drafts for it
    chat.questions   what is asked of a token, a reply or a text; the newest answers

`Chat.show_session(session)` shows every session: the first one, one from the store (`opening` loads it), and a new one. Several
chats may stand on one host (`Chat.beside`): a lesson has one of its own. Every record of a reply comes in by `Session.add`,
which feeds tree, store and listeners.

`Host.send_command` sends a command and gives its answers to who asked; a question of several commands is an inquiry
(`inquiries`). `pump_events()` takes in the engine's events and returns what changed (`changes`) to whoever shows the chat. A
message carries how it is to be answered (`conversation.unsent.Wish`) until its reply begins; `reply_group.ReplyBeginning`
says where that is, and `Run` asks for all its replies with one `Generate`. `prompting` says what the model is told. `live` is
the newest step, for the panels; `sizing` counts a message before it is sent.
"""
