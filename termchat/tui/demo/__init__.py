"""Recordings of a real model, which answer in its place for whoever has none yet: `termchat --demo` and lessons.

    session.tape ─ tape ─▶ DemoEngine ─ events at their recorded pace ─▶ Chat ─▶ DemoApp ◀─ keys of the script

- `tape`: the recording: what an engine was asked, and what it answered when.
- `engine`: `DemoEngine` answers from the tape where a model would; `Playback` is one reply. What is not on the tape is refused;
  another model is really loaded.

`tui.demo_player` is the app that plays them, with the script of the demo. `python -m tests.demo` records the tapes anew.
"""
