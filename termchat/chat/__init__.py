"""The chat service: one conversation on one engine, without a screen. The TUI and the commands stand on it.

`Chat` in `service` is the whole of it for whoever uses it: `send()`, `stop()`, `adjust()`, `open()` and `pump()` are its own,
the rest is reached through its rooms. The rooms share one `State`, know the rooms that they are given and never the chat:

    chat.turns       what a person says: the queue, the prompt of a turn; `turns.room` when the context is full (full_context)
    chat.replies     the running reply: pause, resume, step, force
    chat.forks       what grows from a reply: regenerate, continue, fork
    chat.walks       several replies from one place: start, select, steer, keep (walk_run while they run, walk_group)
    chat.editing     messages, replies and the system prompt in other words (forks)
    chat.looking_on  a chat that another termchat is writing: shown as it is saved there, or gone on with in a copy
    chat.branches    which branch is shown, names, deleting
    chat.loading     the model: load, switch, unload, restart
    chat.aside       the chat of a lesson, while a person's own is set aside
    chat.questions   what is asked of a token, a reply or a text; the newest answers

Commands go out through `requests`, which knows who waits for which answer. `pump()` takes in the engine's events, gives each
to who waits for it, and returns what changed (`changes`) to whoever shows the chat. `beginning` says where a reply begins,
whoever makes it, `prompting` what the model is told. `live` is the newest step, for the panels; `position` says what stands
before a token; `sizing` counts a message before it is sent. `recording` keeps the chat in the store, `opening` and
`reopening` make one of the settings or of the store. `lesson_facts` is the chat as a lesson sees it, with `lesson_replies`
for the figures of its replies; `lesson_claims` measures what a lesson relies on.
"""
