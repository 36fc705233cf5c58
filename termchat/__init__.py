"""termchat: a decoding workbench. Chat with a local model and see, steer and question every token it draws."""

__version__ = "0.1.0"
