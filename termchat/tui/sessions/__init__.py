"""Saved chats on the screen, and new ones."""
