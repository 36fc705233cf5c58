"""Two little lessons, and the app with them."""

from __future__ import annotations

from pathlib import Path

FIRST = """\
title = "Greedy"
minutes = 3
summary = "What temperature 0 does."
learned = "At temperature 0 the likeliest token is taken each time."
next = "The same at temperature 1."

[opening]
raw = true
text = "The sea is"
look = "probability"
page = "next"
knobs = { temperature = 0.7, max_tokens = 40 }

[[steps]]
text = "Turn the temperature to 0: {tune.temperature}, then 0 and Enter."
points = ["tune"]
check = ["temperature == 0"]
do = ["set temperature 0"]
hints = ["It is a knob.", "Press {tune}, then t, 0 and Enter."]

[[steps]]
text = "Send the text with {send}, and read the tokens on the page of the next token."
points = ["send", "panel:next"]
check = ["new_replies >= 1"]
do = ["send"]
hints = ["The text is in the composer already."]
[steps.question]
ask = "What will the same text give a second time?"
answers = ["the same reply", "another one", "nothing"]
right = 1

[[steps]]
text = "Have it made again with {regenerate}."
check = ["new_replies >= 1"]
do = ["press regenerate"]
[steps.question]
ask = "How many tokens will it have?"
number = "tokens"
truth = "tokens"
"""
SECOND = """\
title = "Looks"
minutes = 1
summary = "Colours of tokens."
learned = "A look colours tokens."
next = ""

[[steps]]
text = "Press {look} until tokens are coloured by rank."
points = ["look"]
check = ["look == 'rank'"]
do = ["/look rank"]
"""


def write_lessons(folder: Path) -> None:
    """Both, in the folder of a user's own lessons."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "80-first-own.toml").write_text(FIRST)
    (folder / "81-second-own.toml").write_text(SECOND)
