"""The boxes that dialogs are made of, and the dialogs that belong to no feature.

- `base`: `Dialog`, a modal box. It binds the keys of its group in `keys/dialogs.py`, which its hints name.
- `list_dialog`: `ListDialog`, rows with a search, details, names typed in place and actions asked for twice; and `ReadDialog`,
  text to read. The lists of models, chats, presets, lessons, branches and biases are subclasses in their own folders.
- `full`: what to drop from a full context. `screen.dialog_table` opens it when the chat asks.
- `keylist`: all keys, of the place one is in first. `theme`: the themes, previewed while highlighted. The app opens both.

A dialog gets the palette and the objects that it shows, and ends with `dismiss(result)`; its opener gets that by a callback,
None if it was closed. While it is open, `say()` and `tell()` show a line in it.
"""
