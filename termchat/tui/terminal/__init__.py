"""The terminal: its driver and compositor, what it can show, its clipboard, and the order of keys."""
