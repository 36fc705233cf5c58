"""`termchat --demo`: a recorded session with a real model, played on the real screen, for whoever has no model yet.

`tape` is what was recorded, `engine` plays it where a model would answer, `script` is what is typed meanwhile, `app` types it
until somebody presses a key. `python -m tests.demo` records it anew, with the same script.
"""
