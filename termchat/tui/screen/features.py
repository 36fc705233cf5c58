"""The features of the chat screen, each in the room that does it. Dialogs and commands act on these."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from termchat.tui.composer.sending import Writing
from termchat.tui.models.gather import Models
from termchat.tui.models.model_switching import Choosing
from termchat.tui.screen.parts import Parts
from termchat.tui.sessions.begin_as import Personating
from termchat.tui.sessions.chat_switching import Conversations
from termchat.tui.themes.library import Wardrobe


class Features(NamedTuple):
    parts: Parts
    writing: Writing
    models: Models
    choosing: Choosing
    conversations: Conversations
    personating: Personating
    wardrobe: Wardrobe
    keep_theme: Callable[[str], None]
    """Shows a theme from now on, at the next start too."""
