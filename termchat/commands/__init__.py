"""What the command line does by itself, without the screen: run, replay, tune, bench and doctor."""
