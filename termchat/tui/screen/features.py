"""The features of the chat screen, each in the room that does it. Dialogs and commands act on these."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from termchat.tui.composer.sending import Sending
from termchat.tui.constraint.constraint_setting import ConstraintSetting
from termchat.tui.models.gather import Models
from termchat.tui.models.model_switching import ModelSwitching
from termchat.tui.screen.parts import Parts
from termchat.tui.sessions.begin_as import PersonaStarting
from termchat.tui.sessions.chat_switching import ChatSwitching
from termchat.tui.themes.library import ThemeChooser


class Features(NamedTuple):
    parts: Parts
    writing: Sending
    models: Models
    choosing: ModelSwitching
    conversations: ChatSwitching
    personating: PersonaStarting
    constraining: ConstraintSetting
    theme_chooser: ThemeChooser
    keep_theme: Callable[[str], None]
    """Shows a theme from now on, at the next start too."""
