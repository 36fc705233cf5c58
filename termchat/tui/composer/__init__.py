"""The composer: a message from its first key until the chat has it.

    keys ─▶ composer ─ Submitted ─▶ ChatScreen ─▶ sending ─▶ Chat.send

`composer` is the field, and the line above it. It is a `labelled` area, in which a long paste is one label. It walks through
`history`, and shows what its sources of `completion` offer: `mentions` knows the paths behind @, the room `slash` the commands.

`sending` reads the files that a message names, refuses what is too long, counts tokens while one writes, and passes messages on
in order; it opens the person's own `editor` and `history_dialog`, which lists earlier and queued messages. `draft_keeping`
keeps the draft with the chat that is shown, and puts what could not be sent before it.
"""
