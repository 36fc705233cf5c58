"""Keys: each is declared once, as a row of a table, and all that binds, shows or names a key is made from its row.

    key      a row, how keys are written, and the user's remaps
    tables   the keys of the chat: the composer, the chat, token mode, the big view, what has no key, the whole app
    dialogs  the keys of TUNE and of each dialog, and which tables work at one place; not needed before the first frame
    offered  which keys need something of the engine, and why they do nothing without it
    remap    what the config file asks for, checked before anything is bound to it

From a row come its binding, its words on the key line, its line in the list of keys (F1), its entry in the palette, its slash
command, and the id by which it is remapped. Texts that name a key ask `name_of`, so that they follow a remap.
"""
