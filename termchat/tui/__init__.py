"""The screen: Textual lives here and nowhere else."""
