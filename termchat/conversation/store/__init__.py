"""Saved chats in one SQLite file."""
