"""Keys, declared once in tables; bindings, the key line, help, palette and remaps are made from them.

`key` says what a key is and holds the user's remaps; `tables` are the keys of the chat, `dialogs` those of TUNE and the dialogs
(not needed before the first frame) and the groups of all; `remap` checks what the config file asks for. Screens take their
bindings from here, and every text that names a key asks `name_of`, so that it follows a remap.
"""
