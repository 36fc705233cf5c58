"""Lessons: what they are, how their files are read, and how one is played. They stand on the chat, and know no screen.

- `lesson`: a lesson as values, with what "do it for me" does. `lesson_file` reads all there are from TOML, the package's and a
  user's own, and says the line of what is wrong in one.
- `lesson_facts`: what a lesson may ask of the chat, one method a fact. `expressions`: checks and values, as Python expressions
  of facts.
- `playing`: the chat of a lesson, where somebody is in it, what moves them on, and how far they have come in each.
- `glossary`: the words of decoding, each in one sentence; it reads `glossary.toml`.

The lessons themselves are files in the folder beside these modules.
"""
