"""Lessons on the screen: a strip above the composer says what to do and why, and goes on when it is done.

- `learning`: lists the lessons, begins one on a screen of its own, and leaves it; `lesson_keeping` keeps progress and
  pictures. The rest is imported when the first lesson is opened.
- `lesson_screen`: the screen of a lesson's chat, above that of the reader's, which rests.
- `lesson_session`: one lesson: begins it, looks at the facts a few times a second, takes answers.
- `strip`, `strip_lines`: the widget above the composer, and its lines.
- `lesson_words`: a lesson's text with the keys that are bound now.
- `screen_facts`: what the screen tells of itself to the checks.
- `autoplay`: does a step for the reader, by its deeds.
- `lesson_list`: the dialog with all lessons, and the lines of the words of decoding.
"""
