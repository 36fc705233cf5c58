"""`termchat --demo`: a recorded session with a real model, played on the real screen, for whoever has no model yet.

    session.tape ─ tape ─▶ DemoEngine ─ events at their recorded pace ─▶ Chat ─▶ DemoApp ◀─ keys of the script

- `tape`: the recording: what an engine was asked, and what it answered when.
- `engine`: `DemoEngine` answers from the tape where a model would; `Playback` is one reply. What is not on the tape is refused;
  another model is really loaded.
- `player`: the script (`STEPS`: what is told and typed, and when), the app that types it until somebody presses a key, and the
  list of models (F3), with the recorded one among them in a lesson that loads it in several ways.

`cli` calls `player.start`. `python -m tests.demo` records the tape anew, with the same script.
"""
