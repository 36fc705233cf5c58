"""The chat's screen.

`screen.ChatScreen` is the one screen of a chat. It makes the widgets, puts them into one `Parts` (`parts`: the chat, the
widgets, `do()` and `tell()`), and gives that to its collaborators; none of them knows another.

    a key or click ─ action ─▶ ChatScreen ─▶ collaborator ─ parts.do ─▶ Chat ─ pump ─▶ ChatScreen.tick ─▶ widgets

Widgets: `header_line`, the transcript, `notices` (also the queue, and what a full context asks), `panels` (a page of
`tui/panels/pages.py`; `knobs` has the mouse turn what stands there), `desk` (composer, TUNE and the `keyline`), `asking` (the
line above the composer).

Collaborators here: `big` (pages, the big view, rolls), `drawer` (whether the panels are shown), `pointing` (clicks on knobs
and candidates), `ask_line` with `editing` and `searching` (what is asked above the composer), `copying`. Those of other rooms:
`Sending` and `DraftKeeping` (composer), `ModelSwitching` (models), `ChatSwitching` and `PersonaStarting` (sessions),
`TurnVersions` (tokens). `features` holds what dialogs and commands act on.

The screen of a lesson's chat is one of these with a strip (`tui/lessons`): it stands above that of the reader's chat, which
rests meanwhile (`rest`, `go_on`).

Nothing that happens by itself takes the keyboard: it is told in a line that names a key, and a dialog opens when that is
pressed. Keys that come before a focus has changed everywhere are not lost: who hears of a focus asks whether it is still so.

Letters are keys only where the composer says so ("token mode · Esc to type") and in dialogs. A slash, a paste, and letters
that come at once are text for the composer, unless a field or a row takes them: `TermchatApp._take` decides that.

A new dialog is a row of `dialog_table` and a key in `keys/tables.py`, which makes it a palette entry and a command too.
"""
