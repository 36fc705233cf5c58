"""Slash commands: their table, and what each does."""
