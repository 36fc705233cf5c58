"""The screen: Textual lives here and nowhere else.

`start` puts store, engine, chat and `app` together; the app has one `screen`, the chat's, and dialogs above it. A room is a
feature; it imports rooms below it alone, which a contract of import-linter checks (`pyproject.toml`):

    slash        commands that are typed: they act on the screen
    lessons      the screen of a lesson, with a strip above the composer, and who plays it
    screen       the chat's screen: what stands where, its actions and dialogs, notices, the line of keys
    lists        models, chats, branches, personas, presets, breakpoints, biases, history, themes, keys: what is chosen
                 from a list, and the tokenizer
    constraint   what replies have to match
    context      `ScreenContext`: what all of the above know of the screen
    composer     the message being written: history, files, completion, the editor; sending
    pages        what stands beside the chat or in its place: panels, TUNE, token mode, walks
    transcript   the chat as text: looks, Markdown, selection, the token cursor

Below them: `draw` (lines in colours, the widgets and dialogs that show them, threads), `terminal` (the driver, what it can
show, Textual's private parts), `keys` (every key, declared once), `themes` (colours). `demo` answers in place of a model from a
recording, and `demo_player` is the app that plays it.

Calls go down, one signal comes up: a widget calls the chat, the chat calls `Chat.on_change`, and the screen's `tick()` takes
the changes from `Chat.pump_events` and calls each view with them. News of a widget come up as messages: it posts what a person
did.
"""
