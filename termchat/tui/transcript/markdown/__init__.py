"""Markdown while it streams: chunks, lines, inline marks, tables and code."""
