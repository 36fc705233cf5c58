"""Screens that draw a frame at once, and send the terminal its lines through a compositor of ours."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def frame_is_due(screen: Screen[Any]) -> bool:
    """Whether widgets wait to be drawn."""
    return bool(screen._dirty_widgets)


def draw_now(screen: Screen[Any]) -> None:
    """Draws the frame that is due, if one is, without the wait for the timer that Textual sets for it."""
    if frame_is_due(screen):
        screen._on_timer_update()
