"""What dialogs are made of, and those that belong to no feature.

`base` has the box (`Dialog`), and the lists in it: `ListDialog` draws rows and moves in them, `DetailedListing` has details
beside or below, `ReadListing` is text to read. The dialogs of models, chats, tokens and the composer build on it in their own
folders.

- `full`: what to drop from a full context. `screen.dialog_table` opens it when the chat asks.
- `keylist`: all keys, of the place one is in first. `theme`: the themes, shown while they are highlighted. The app opens both.

A dialog gets the palette and what it asks of, and ends with `dismiss(result)`; whoever opened it gets that by a callback, None
where it was closed. Its keys are a table of `keys/dialogs.py`, whose ids its hints name. While it is open, `say()` and `tell()`
show a line in it.
"""
