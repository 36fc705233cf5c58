"""The chat service: one conversation on one engine, without a screen. The TUI and `termchat run` both stand on it."""
