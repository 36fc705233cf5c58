"""The screen: Textual lives here and nowhere else.

`start` puts store, engine, chat and `app` together; the app has one `screen`, the chat's, and dialogs above it. A room is a
feature:

    screen       the chat's screen: what stands where, actions, notices, the line of keys, the tables of dialogs
    transcript   the chat as text: looks, Markdown, selection, the token cursor
    composer     the message being written: history, files, completion, the editor; sending
    slash        commands that are typed
    panels       the pages beside the chat, TUNE
    tokens       token mode, branches, breakpoints, the tokenizer
    models       the list of models, downloads, how a model is run
    sessions     saved chats, personas, a new chat's set-up, saving
    speculation  what drafted tokens do for a reply, and one round of them
    presets      whole sampler chains: applied, taken back, saved
    dialogs      what all dialogs are made of, the list of keys, themes, the full context
    demo         the app that plays a recording

Below them: `draw` (lines in colours and the widgets that show them, threads), `keys` (every key, declared once), `themes`
(colours), `terminal` (the driver, what it can show, Textual's private parts).

Data goes down by one call: the screen's `tick()` takes what changed from `Chat.pump_events` and calls each view with it, at
most once a frame. News come up as messages: a widget posts what a person did, and the screen hands it to the room that does
it.
"""
