"""Downloads from Hugging Face or an address: resumed, checked, one process for each file.

    what a person wrote ─ hub ─▶ Remote files ─ pull ─▶ each: transfer (web, lock, progress) ─▶ its place and a note beside it

- `pull`: the way in. It blocks: the command line calls it as it is, the screen in a thread (`tui/lists/gather.py`).
- `hub`: names, pages and addresses to files with sizes and hashes; the endpoint, and the token that only it is shown.
- `web`: one GET at a time, in a thread of its own, so that whoever waits can stop; `Later` is a failure worth another try.
- `transfer`: one file: its part, hashed as it comes, moved to its place in one step or not at all; the notes.
- `lock`: one process for each file. `progress`: how far it is, told about ten times a second, and the waits between tries.

Errors are `ModelError`s with a hint. `manage` reads the notes to verify and remove what was downloaded.
"""
