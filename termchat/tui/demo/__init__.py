"""`termchat --demo`: a recorded session with a real model, played on the real screen, for whoever has no model yet.

`tape` is the recording, `engine` answers from it where a model would, `script` lists what is typed and when, `player` is the
app that types it until somebody presses a key. `python -m tests.demo` records it anew, with the same script.
"""
