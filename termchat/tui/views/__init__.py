"""What the screen shows beside the transcript, as lines: pure functions of the chat's state, no widget and no wait."""
