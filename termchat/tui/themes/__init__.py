"""Themes: from TOML files to the colours that a terminal can show.

    files ─ theme_file ─▶ Palette ─ depth ─▶ what the terminal can show ─ library ─▶ app ─▶ widgets

- `theme_file`: one file, checked, as a `Palette` for widgets that draw their own lines and a theme of Textual's for style
  sheets. A bad file is a `ThemeError` and fails alone.
- `depth`: a palette fitted to 256 colours, or none; with 16 only themes of the terminal's own colours are shown.
- `library`: `ThemeChooser` reads the shipped folder and the user's, each file when it is wanted, and says which theme is shown,
  by the name asked for and the terminal's background.

The app asks the chooser at start, and again when the choice or the background changes; it hands the palette down by
`paint_with()`. The theme dialog (`lists.small_dialogs`) previews through the app.
"""
