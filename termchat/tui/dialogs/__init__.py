"""What dialogs are made of, and those that belong to no feature."""
