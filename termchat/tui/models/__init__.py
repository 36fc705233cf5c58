"""Models on the screen: the list, downloads, and how one is run."""
