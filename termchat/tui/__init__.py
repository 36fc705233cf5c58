"""The screen: Textual lives here and nowhere else.

`start` puts store, engine, chat and `app` together; the app has one `screen`, the chat's, and dialogs above it. A room is a
feature; it imports rooms below it alone, which a contract of import-linter checks (`pyproject.toml`):

    slash        commands that are typed: they act on the screen
    screen       the chat's screen: what stands where, actions, notices, the line of keys, the table of dialogs
    lessons      a lesson above the composer, and who plays it
    models       the list of models, downloads, how a model is run
    sessions     saved chats, branches, personas, a new chat's set-up, saving
    constraint   what replies have to match
    walks        several replies at once, and the pages over them
    presets      whole sampler chains: applied, taken back, saved
    context      `ScreenContext`: what all of the above know of the screen
    composer     the message being written: history, files, completion, the editor; sending
    tokens       token mode, breakpoints, the tokenizer
    dialogs      what all dialogs are made of, the list of keys, themes, the full context
    panels       the pages beside the chat, TUNE
    speculation  what drafted tokens do for a reply, and one round of them
    transcript   the chat as text: looks, Markdown, selection, the token cursor

Below them: `draw` (lines in colours and the widgets that show them, threads), `terminal` (the driver, what it can show,
Textual's private parts), `keys` (every key, declared once), `themes` (colours). `demo` is the app that plays a recording,
`lesson_robot` one that plays a lesson by its deeds.

Calls go down, one signal comes up: a widget calls the chat, the chat calls `on_change`, and the screen's `tick()` takes what
changed from `Chat.pump` and calls each view with it. News of a widget come up as messages: it posts what a person did.
"""
