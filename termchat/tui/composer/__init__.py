"""The composer: writing, completing, attaching and sending a message."""
