"""Lessons on the screen: a strip above the composer says what to do and why, and goes on when it is done.

- `learning`: lists the lessons, begins one on a screen of its own, leaves it, and plays one by its deeds to see whether it
  works; `lesson_keeping` keeps progress and pictures. The rest is imported when the first lesson is opened.
- `lesson_screen`: the screen of a lesson's chat, above that of the reader's, which rests; its strip plays the lesson: it looks
  at the facts a few times a second, takes answers, and has steps done.
- `lesson_words`: the lines of the strip, and a lesson's text with the keys that are bound now.
- `autoplay`: does a step for the reader, by its deeds.
- `lesson_list`: the dialog with all lessons, and the lines of the words of decoding.
"""
