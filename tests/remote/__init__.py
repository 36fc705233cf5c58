"""Engines behind a URL, against a real llama.cpp server, and against a server of ours that can fail."""
