"""Keys: each is declared once, as a row of a table, and all that binds, shows or names a key is made from its row.

    key      a row, how keys are written, and the user's remaps
    tables   all rows, by where they work; how texts name a key, and which keys work now
    remap    what the config file asks for, checked before anything is bound to it

From a row come its binding, its words on the key line, its line in the list of keys (F1), its entry in the palette, its slash
command, and the id by which it is remapped. Texts that name a key ask `name_of`, so that they follow a remap.
"""
