"""The app with the list of models open, and models for it in the user's catalogue and on a server."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from textual.widgets import Input

from termchat.config.settings import load
from termchat.engine.port import Load, ModelSpec
from termchat.tui.lists.gather import Models
from termchat.tui.lists.models_dialog import ModelsDialog
from tests.models.gguf_files import ARRAY, BASE, TEXT, U32, named, whole
from tests.pull.file_server import FileServer, Served, gguf, sha256
from tests.tui.running_app import Desktop, desktop


def entry(home: Path, name: str, **keys: object) -> None:
    """Writes a model into the user's own catalogue."""
    file = home / ".config/termchat/models.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in keys.items())
    with file.open("a") as out:
        out.write(f'["{name}"]\ndescription = "{name}"\n{lines}')


class Shop(Desktop):
    """An app with the list of models open."""

    @property
    def open(self) -> bool:
        return isinstance(self.app.screen, ModelsDialog)

    def line(self, name: str) -> str:
        """The line of a model."""
        found = re.search(rf"[●◌○◆◇↓✗] {re.escape(name)} .*", self.text)
        return found[0] if found else ""

    async def find(self, text: str) -> None:
        """Types into the filter, from its beginning."""
        self.app.screen.query_one(Input).value = text
        await self.settle()

    @property
    def loads(self) -> list[ModelSpec]:
        return [command.spec for command in self.engine.asked(Load)]


@asynccontextmanager
async def shop(
    *folders: Path,
    size: tuple[int, int] = (120, 40),
    opened: bool = True,
    file: Path = Path("/none"),
    engine: str = "",
    **options: object,
) -> AsyncIterator[Shop]:
    given = {"model_folders": os.pathsep.join(map(str, folders)), "default_engine": engine}
    config = load({name: value for name, value in given.items() if value}, {}, file)
    async with desktop(size, models=Models(config), **options) as desk:  # type: ignore[arg-type]
        made = Shop(desk.app, desk.engine, desk.pilot)
        if opened:
            if not made.open:
                await made.type("", "f3")
            await made.until(lambda: not made.app._models.looking)
        yield made


def family(folder: Path) -> None:
    """A large model and others: small ones of its vocabulary, one of another vocabulary, and a recurrent one."""
    named("Large", folder)
    os.truncate(folder / "Large.gguf", 9000)
    named("Small", folder)
    named("Least", folder)
    named("Other", folder, **{"tokenizer.ggml.tokens": (ARRAY, (TEXT, ["a", "b", "x", "longer"]))})
    (folder / "Recurrent.gguf").write_bytes(whole({"llama.ssm.state_size": (U32, 16)} | BASE))


def served(home: Path, server: FileServer, name: str, *, held: int = 0, **more: object) -> tuple[bytes, Served]:
    """A model of the user's catalogue that the server has; it stops after `held` bytes."""
    data = gguf(3_000_000, seed=len(name))
    hold = (held, threading.Event()) if held else None
    url = server.put(f"/{name}.gguf", data, hold=hold)
    entry(home, name, url=url, size=len(data), sha256=sha256(data), **more)
    return data, server.files[f"/{name}.gguf"]
