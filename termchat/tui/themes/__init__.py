"""Themes: from TOML files to the colours that a terminal can show.

    files ─ theme_file ─▶ Palette ─ library ─▶ the one that the terminal can show ─▶ app ─▶ widgets

- `theme_file`: one file, checked, as a `Palette` for widgets that draw their own lines and a theme of Textual's for style
  sheets. A bad file is a `ThemeError` and fails alone.
- `library`: `ThemeChooser` reads the shipped folder and the user's, each file when it is wanted, fits it to the terminal's
  colours, and says which theme is shown, by the name asked for and the terminal's background.

The app asks the chooser at start, and again when the choice or the background changes; it hands the palette down by
`paint_with()`. The theme dialog (`lists.small_dialogs`) previews through the app.
"""
