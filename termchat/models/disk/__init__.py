"""Model files on this machine: where programs keep them, and which of them are models."""
