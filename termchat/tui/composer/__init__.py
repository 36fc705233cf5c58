"""The composer: a message from its first key until the chat has it.

    keys ─▶ ChatComposer ─ Submitted ─▶ ChatScreen ─▶ ChatComposer.send ─▶ Chat.send

`composer.Composer` is a field for texts, also in dialogs: a long paste is one label, for which `Attachments` know the text, and
the person's own editor can be opened.

`chat_composer.ChatComposer` is the field of a chat: it walks through earlier messages, shows what
can be completed (paths behind @ by `completion`, and by the room `slash` the commands), reads the files that a message names,
refuses what is too long, counts tokens while one writes, and keeps the draft with the chat that is shown.
"""
