"""The chat's screen.

`screen.ChatScreen` is the one screen of a chat: it makes the widgets and the rooms, and is their `context.ScreenContext`.

    a key or click ─ action ─▶ ChatScreen, a room ─▶ Chat ─ on_change ─▶ ChatScreen.tick ─ pump_events ─▶ widgets and rooms

`actions` is what the keys do, with the dialogs by name; `screen` has the widgets, says who has the keyboard, and shows what
changed; `walks_view` shows several replies and has their keys, `walks_dialog` begins them. Widgets: `header_line`, the
transcript, `notices` (also the queue, what a full context asks, and the message that is edited), the panels, `ask_line`
(a text that is asked for above the composer), the composer, and `key_line`, which is TUNE's while that is open.

The screen of a lesson's chat is one of these with a strip (`tui/lessons`): it stands above that of the reader's chat, which
is suspended meanwhile (`ChatScreen.suspend` and `ChatScreen.resume`).

Nothing that happens by itself takes the keyboard: it is told in a line that names a key, and a dialog opens when that is
pressed. Keys that come before a focus has changed everywhere are not lost: who hears of a focus asks whether it is still so.

Letters are keys only where the composer says so ("token mode · Esc to type") and in dialogs. A slash, a paste, and letters
that come at once are text for the composer, unless a field or a row takes them: `TermchatApp._take` decides that.

A new dialog is a row of `actions.DIALOGS` and a key in `keys/tables.py`, which makes it a palette entry and a command too.
"""
