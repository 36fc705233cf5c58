"""The composer: a message from its first key until the chat has it.

    keys ─▶ composer ─ Submitted ─▶ ChatScreen ─▶ ChatComposer.send ─▶ Chat.send

`composer` is the field, and the line above it. It is a `labelled` area, in which a long paste is one label. It walks through
`history`, and shows what its sources of `completion` offer: `mentions` knows the paths behind @, the room `slash` the commands;
`commands` tells these from messages.

`sending.ChatComposer` is the field of a chat: it reads the files that a message names, refuses what is too long, counts tokens
while one writes, passes messages on in order, opens the person's own `editor`, and keeps the draft with the chat that is shown.
`history_dialog` lists earlier and queued messages.
"""
