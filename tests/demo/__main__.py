"""Records the demo with the real model, by its own script: `python -m tests.demo [FILE]`, or lessons, each played by its deeds:
`python -m tests.demo lessons [ID …]`, all without an ID."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from termchat.chat.opening import find_model
from termchat.config import settings
from termchat.config.settings import Settings
from termchat.engine.port import ModelSpec
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import COURSE, read_shelf
from termchat.models.gguf.header import read_header
from termchat.tui.demo import tape
from termchat.tui.demo_player import build
from termchat.tui.lessons.lesson_words import lesson_names
from tests.demo.taping import Taping

SIZE = (120, 36)


def chosen() -> tuple[Settings, ModelSpec]:
    """The settings and the model that are recorded, whatever this user has set."""
    return find_model(settings.load({"threads": "1", "fast_prefill": "false"}, environ={}))


async def demo(path: Path) -> None:
    """Runs the script to its end."""
    config, spec = chosen()
    with tempfile.TemporaryDirectory() as folder:
        engine = Taping(Path(folder) / "log")
        app = build(config, engine, Path(folder), spec=spec)
        async with app.run_test(size=SIZE) as pilot:
            while not app.is_over:
                await pilot.pause(0.2)
        tape.save(engine.tape, path)
    told(path, engine.tape)


async def lesson(wanted: Lesson) -> None:
    """Plays a lesson to its end."""
    config, spec = chosen()
    with tempfile.TemporaryDirectory() as folder:
        engine = Taping(Path(folder) / "log")
        app = build(config, engine, Path(folder), spec=spec, script=False)
        app.learning.folder = Path(folder)
        engine.fresh = lambda: app.chat.tuning.seed is None
        async with app.run_test(size=SIZE):
            problems = await app.learning.play(wanted)
        if problems:
            raise SystemExit(f"{wanted.id}: {'; '.join(problems)}")
        path, made = tape.find_tape(wanted.id), engine.tape
        if len({one.asked for one in made.exchanges if one.asked.startswith("Load ")}) > 1:
            header = msgspec.structs.replace(read_header(Path(spec.path)), path="")
            made = msgspec.structs.replace(made, header=header)
        tape.save(made, path)
    told(path, engine.tape)


def told(path: Path, made: tape.Tape) -> None:
    kinds = [exchange.asked.partition(" ")[0] for exchange in made.exchanges]
    print(path.name, path.stat().st_size, {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}, flush=True)


def main(args: list[str]) -> None:
    if args[:1] != ["lessons"]:
        asyncio.run(demo(Path(args[0]) if args else tape.FILE))
        return
    for one in read_shelf([COURSE], lesson_names()).lessons:
        if one.id in args[1:] or not args[1:]:
            asyncio.run(lesson(one))


if __name__ == "__main__":
    main(sys.argv[1:])
