"""Lessons: what they are, how their files are read, and how one is played. They stand on the chat, and know no screen.

- `lesson`: a lesson as values. `lesson_file` reads one from TOML, and says the line of what is wrong in it.
- `lesson_facts`: what a lesson may ask of the chat, one method a fact. `expressions`: checks and values, as Python expressions
  of facts. `deeds`: what "do it for me" does.
- `lesson_chat`: the chat of a lesson, beside the reader's own.
- `playing`: where somebody is in a lesson, and what moves them on.
- `glossary`: the words of decoding, each in one sentence; it reads `glossary.toml`.
- `lesson_claims`: what a lesson relies on, measured in chats of its own.
- `shelf`: all lessons there are, the package's and a user's own. `lesson_progress`: how far somebody has come in each.

The lessons themselves are files in the folder beside these modules.
"""
