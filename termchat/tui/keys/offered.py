"""Keys that need something of the engine: where it does not offer that, they are grey, and say why when they are pressed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from termchat.engine.abilities import Feature
from termchat.tui.keys.key import Key, Situation

NEEDS: dict[str, Feature] = {
    "pause": "pause",
    **dict.fromkeys(("walk-pause", "walk-pause-one"), "pause"),
    "cut-paused": "pause",
    **dict.fromkeys(("step", "step-sentence", "step-line", "walk-step", "walk-step-one"), "step"),
    **dict.fromkeys(("walk-tune",), "adjust"),
    "answer": "force",
    # A fork; in a reply that is paused they force a token, and what can pause can do that.
    **dict.fromkeys(("other-text", *(f"choose-{digit}" for digit in range(1, 10))), "continue"),
    "prefill": "continue",
    **dict.fromkeys(("ask-again", "ask-now"), "inspect"),
    "why": "explain",
    **dict.fromkeys(("what-if", "fork-there"), "score"),
    **dict.fromkeys(("cut", "regenerate-same"), "seeds"),
    **dict.fromkeys(("ban", "boost", "bias"), "bias"),
    "constraint": "constrain",
    **dict.fromkeys(("prompt", "reply-tokens", "tokenize"), "tokenize"),
    **dict.fromkeys(("walks", "token-walks", "grid", "ab", "best", "vote"), "walks"),
    "beams": "beams",
}
"""Id of a key to what it needs."""
_NEEDS_WHILE: dict[tuple[str, Situation], Feature] = {("continue", "idle"): "continue"}
"""The same of one that needs it in one situation alone: it also loads a model, or resumes."""


def lacking(id: str, offers: Collection[Feature], situation: Situation | None = None) -> Feature | None:
    """Return the feature that the key of that id needs and the engine does not offer; None for a key that works."""
    need = NEEDS.get(id) or (_NEEDS_WHILE.get((id, situation)) if situation is not None else None)
    return None if need is None or need in offers else need


def lacking_for(action: str, table: Iterable[Key], offers: Collection[Feature]) -> Feature | None:
    """Return the same for the action of one of these keys."""
    needs = (lacking(key.id, offers) for key in table if key.action == action)
    return next((need for need in needs if need is not None), None)
