"""Themes: their files, which are there, and how they fit 256 and 16 colours."""
