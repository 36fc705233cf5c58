"""Conversations: the tree of turns, the store that keeps it, and transcripts in and out."""
