"""Pictures of the real app with the real model, for the README: `python -m tests.pictures [FOLDER]`.

Each is an SVG of the screen at some moment of one short session with a fixed seed.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from termchat.config import settings
from termchat.tui.app import TermchatApp
from termchat.tui.composer.composer import Composer
from termchat.tui.start import build

FOLDER = Path(__file__).parent / "pictures"
PROMPT = "Write a short story about a fox who learns to sail."


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Waits for something to be true on a live app."""
    for _ in range(3000):
        if condition():
            return
        await pilot.pause(0.05)
    raise TimeoutError


def drawn(app: TermchatApp) -> int:
    """Tokens of the reply so far."""
    spans = app.chat.conversation.find_reply()
    return len(spans[-1].node.tokens) if spans else 0


async def say(pilot: Pilot[None], app: TermchatApp, text: str, tokens: int) -> None:
    """Types a message and waits for so many tokens."""
    await until(pilot, lambda: app.chat.phase == "idle")
    for character in text:
        await pilot.press({" ": "space", ".": "full_stop"}.get(character, character))
    await pilot.press("enter")
    await until(pilot, lambda: drawn(app) >= tokens)


def picture(app: TermchatApp, path: Path) -> None:
    """The screen as SVG, without the web fonts that Rich would load from elsewhere."""
    svg = re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(title="termchat"), flags=re.S)
    path.write_text(svg.replace("Fira Code", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas"))
    print(path)


async def streaming(pilot: Pilot[None], app: TermchatApp, folder: Path) -> None:
    """A knob is turned while the reply streams; then the same reply by probability, and its plots."""
    await say(pilot, app, PROMPT, 40)
    await pilot.press("ctrl+t", "t", "1", "full_stop", "2", "enter")
    await until(pilot, lambda: drawn(app) >= 110)
    picture(app, folder / "tune.svg")
    await pilot.press("escape", "ctrl+l")
    await until(pilot, lambda: drawn(app) >= 170)
    await pilot.press("escape")
    await until(pilot, lambda: app.chat.phase == "idle")
    await pilot.pause(0.5)
    picture(app, folder / "probability.svg")
    await pilot.press("f6", "right")
    await pilot.pause(0.5)
    picture(app, folder / "reply.svg")


async def token(pilot: Pilot[None], app: TermchatApp, folder: Path) -> None:
    """The first token of a completion, in full size, with rolls of the dice."""
    await say(pilot, app, "The capital of France is", 12)
    await pilot.press("escape")
    await until(pilot, lambda: app.chat.phase == "idle")
    await pilot.press("ctrl+g", "g", "f6")
    await app.run_action("screen.roll(100, 1)")
    await pilot.pause(0.5)
    picture(app, folder / "token.svg")


async def walks(pilot: Pilot[None], app: TermchatApp, folder: Path) -> None:
    """Four temperatures with the same dice, side by side."""
    await until(pilot, lambda: app.chat.phase == "idle")
    app.query_one(Composer).insert("/grid temperature 0 0.5 1 1.5 same-dice : What is the best thing about the sea?")
    await pilot.press("enter")
    await until(pilot, lambda: len(app.chat.conversation.nodes) > 2 and app.chat.phase == "idle")
    await pilot.press("tab")
    await pilot.pause(0.5)
    picture(app, folder / "walks.svg")


async def small(pilot: Pilot[None], app: TermchatApp, folder: Path) -> None:
    """An 80-column terminal."""
    await say(pilot, app, PROMPT, 80)
    await pilot.press("escape")
    await until(pilot, lambda: app.chat.phase == "idle")
    await pilot.pause(0.5)
    picture(app, folder / "small.svg")


async def lesson(pilot: Pilot[None], app: TermchatApp, folder: Path) -> None:
    """The second step of the lesson on temperature: a guess is asked for."""
    app.query_one(Composer).insert("/learn temperature")
    await pilot.press("enter")
    await until(pilot, lambda: app.chat.conversation.raw and app.chat.phase == "idle")
    await pilot.pause(2)
    await pilot.press("enter")
    await until(pilot, lambda: drawn(app) == 1 and app.chat.phase == "idle")
    await pilot.pause(2)
    picture(app, folder / "lesson.svg")


Shoot = Callable[[Pilot[None], TermchatApp, Path], Awaitable[None]]
SHOTS: tuple[tuple[Shoot, tuple[int, int], str], ...] = (
    (streaming, (120, 36), "dark"),
    (token, (100, 30), "dark"),
    (walks, (120, 36), "dark"),
    (small, (80, 24), "light"),
    (lesson, (120, 36), "dark"),
)


async def main(folder: Path) -> None:
    """Makes them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for shoot, size, theme in SHOTS:
        with tempfile.TemporaryDirectory() as home:
            os.environ |= {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
            config = settings.load({"theme": theme, "seed": 1, "max_tokens": 60 if shoot is walks else 300}, environ={})
            app = build(config, raw=shoot is token)
            async with app.run_test(size=size) as pilot:
                await shoot(pilot, app, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
