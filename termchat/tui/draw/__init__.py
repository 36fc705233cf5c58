"""What screens are drawn with: from a text to cells of the terminal, and from the mouse back to an action.

    text ─ wrap, marks ─▶ Line (runs of Ink) ─ LinesView ─ Paint(palette) ─▶ strips of Textual

- `ink`: `Ink` names how a run looks and what a click on it does; `Line` is runs of it; `Paint` makes strips of them.
- `wrap`: foreign text, sanitised, on lines. `marks`: small parts of lines: bars, columns, numbers, prose.
- `lines_view`: the widget that most panels are; only lines that changed are drawn again, and a click does what the ink under it
  says. That part the transcript has, too.
- `field`: a text input that draws nothing foreign as it is. `form`: the keys of forms: a selected setting whose value is typed,
  moved and erased.
- `dialog`: a modal box with a title, a body and a line of keys; it binds those of its group in `keys.tables`. `list_dialog`:
  `ListDialog`, rows with a search, details, names typed in place and actions asked for twice; and `ReadDialog`, text to read.
  While a dialog is open, `say()` and `tell()` show a line in it.
- `background`: work in threads (`BackgroundTask`, `TaskQueue`).

Everything under `tui` draws with these; nothing here knows a chat.
"""
