"""The chat's screen."""
