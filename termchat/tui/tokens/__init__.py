"""Token mode: its keys, its bar below the transcript, and its dialogs."""
