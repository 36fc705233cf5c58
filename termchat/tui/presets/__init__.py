"""Presets on the screen: the whole chain at once, applied while a reply streams too, and taken back by TUNE's undo.

`applying` applies one to the chat and keeps the knobs as they stand as the user's own; a command does so by name, and
`preset_dialog` is the list of all with what each would change. `persona_dialog` is the list of personas, which
`sessions.chat_switching` opens. The choice is the dialog's result.
"""
