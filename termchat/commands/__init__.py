"""What the command line does by itself, without a screen.

The settings come in from `termchat.cli.tasks`; an exit code or a report goes back, and the output goes to stdout or
to a callable that was passed in. Each module finds the model with `chat.opening`, starts an engine of its own
(`engine.local`) and closes it at the end. No other room calls these modules.

- `run`: one or several replies to a prompt, or to messages, through the chat service, as text or as the record stream.
- `replay`: every reply of a transcript generated again from its records. `comparison` finds what differs, and `difference` is
  the report on it, with the cause.
- `compare_transcripts`: two replies of transcripts: the first token that differs, and the cause.
- `tune`: prints and saves what `bench` measures. `bench` drives the engine with the same work for each setting.
- `tokenize`: the tokens of a text.
- `lesson_handout`: what a reader takes home of lessons.
- `doctor`: the report on versions, engine, files, settings, terminal, models and saved chats.
"""
