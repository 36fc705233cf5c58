"""What dialogs are made of, and those that belong to no feature.

`base` has the modal box, lists, lists with details and text to read; the dialogs of models, chats, tokens and the composer
build on it in their own folders. `full` asks what to drop from a full context, `keylist` lists all keys, `theme` chooses a
theme. A dialog is opened with `push_screen()`; its result comes back through the callback.
"""
