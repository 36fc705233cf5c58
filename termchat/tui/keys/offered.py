"""Keys that need something of the engine: where it does not offer that, they are grey, and say why when they are pressed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from termchat.engine.port import FEATURES, Feature
from termchat.tui.keys.key import Key

NEEDS: dict[str, Feature] = {
    "pause": "pause",
    **dict.fromkeys(("walk-pause", "walk-pause-one"), "pause"),
    "cut-paused": "pause",
    **dict.fromkeys(("step", "step-sentence", "step-line", "walk-step", "walk-step-one"), "step"),
    **dict.fromkeys(("walk-tune",), "adjust"),
    **dict.fromkeys(("answer", "other-text", *(f"choose-{digit}" for digit in range(1, 10))), "force"),
    **dict.fromkeys(("ask-again", "ask-now"), "inspect"),
    "why": "explain",
    **dict.fromkeys(("what-if", "fork-there"), "score"),
    **dict.fromkeys(("cut", "regenerate-same"), "seeds"),
    **dict.fromkeys(("prompt", "tokenize"), "tokenize"),
    **dict.fromkeys(("walks", "token-walks", "grid", "ab", "best", "vote"), "walks"),
    "beams": "beams",
}
"""Id of a key to what it needs."""


def refusal(id: str, offers: Collection[Feature]) -> str:
    """Why the key of that id does nothing, "" where it does."""
    need = NEEDS.get(id)
    return "" if need is None or need in offers else f"this engine cannot {FEATURES[need]}"


def refusal_of(action: str, table: Iterable[Key], offers: Collection[Feature]) -> str:
    """The same for the action of one of these keys."""
    return next((why for key in table if key.action == action and (why := refusal(key.id, offers))), "")
