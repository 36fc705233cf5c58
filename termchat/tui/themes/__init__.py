"""Themes: `theme_file` reads one, `library` knows which there are and which is shown, `depth` fits them to 256 and 16 colours.

The app asks the library for the theme at start and whenever the choice or the terminal's background changes, and gives the
palette to the widgets that draw their own lines.
"""
