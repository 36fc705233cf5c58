"""The token cursor: the order of tokens, their cells, and which of them are worth a jump."""
