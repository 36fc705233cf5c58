"""Pictures of the list of models. After a wanted change: `pytest tests/tui/test_models_snapshots.py --snapshot-update`."""

from __future__ import annotations

import os
from pathlib import Path
from time import gmtime

import pytest
from textual.pilot import Pilot

from termchat import paths
from termchat.chat.loading import Choice
from termchat.config.settings import load
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.models import catalogue, memory
from termchat.models.download.progress import Pulling
from termchat.models.errors import ModelError
from termchat.models.gguf import header
from termchat.models.listing import ModelRow
from termchat.tui.app import TermchatApp
from termchat.tui.lists import model_lines
from termchat.tui.lists.gather import Models, Pull
from tests.chats import chat_on, chosen
from tests.models.gguf_files import F32, TEXT, U32, named
from tests.tui.fake_engine import FakeEngine
from tests.tui.models_dialog import family
from tests.tui.running_app import Desktop
from tests.tui.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("home")

GB = 10**9
DOWNLOADS = {
    "qwen3-0.6b": Pulling(file="f", stage="downloading", done=287_000_000, total=639_446_688, rate=11.4e6),
    "qwen3-1.7b": Pulling(file="f", stage="waiting", note="no connection to huggingface.co; trying again in 8 s"),
    "gemma3-1b": Pulling(file="f", stage="downloading", done=401_000_000, total=806_058_240),
}
"""What is downloaded, and how far it is; the last one was stopped."""
MODELS = (
    ("Mistral-Nemo-12B-Q4_K_M", "12B", 15, 7 * GB), ("Phi-4-mini-Q4_K_M", "3.8B", 15, 3 * GB),
    ("Qwen2.5-7B-Instruct-Q5_K_M", "7B", 17, 5 * GB), ("SmolLM2-1.7B-Q8_0", "1.7B", 7, 2 * GB),
)  # fmt: skip


def screen(home: Path, monkeypatch: pytest.MonkeyPatch, theme: str) -> TermchatApp:
    """An app on a machine with some models, each as large as it says and empty inside."""
    for name, label, kind, size in MODELS:
        changes = {
            "general.size_label": (TEXT, label),
            "general.file_type": (U32, kind),
            "llama.context_length": (U32, 32768),
        }
        path = named(name, home / ".lmstudio/models/owner", **changes, **{"general.sampling.temp": (F32, 0.5)})
        os.truncate(path, size)
    (home / ".lmstudio/models/owner/half.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(header, "MAX_REST", 10 * GB)
    monkeypatch.setattr(memory, "available", lambda: 55 * GB // 10)
    everything = catalogue.load([paths.shipped_file("models.toml")])
    without = {name: entry for name, entry in everything.entries.items() if not entry.package}
    monkeypatch.setattr(catalogue, "load", lambda: catalogue.Catalogue(without))
    monkeypatch.setattr(Pull, "_work", lambda _: iter(()))
    models = Models(load({}, {}, home / "none"))
    for name, now in DOWNLOADS.items():
        models.pulls[name] = pull = Pull(name, lambda _: None)
        pull.now = now
    pull.cancel()
    pull.problem = ModelError("stopped", "Enter goes on.")
    return TermchatApp(
        chat_on(FakeEngine(), Tuning(seed=42)), chosen(ModelSpec("/tiny.gguf", "tiny")), models=models, theme=theme
    )


@pytest.mark.parametrize(
    ("size", "theme", "keys"),
    [
        ((80, 24), "dark", ("p", "h", "i")),
        ((80, 24), "light", ("down",)),
        ((120, 40), "dark", ("down", "down", "down")),
        ((200, 60), "dark", ("pagedown",)),
        ((40, 12), "dark", ()),
        (
            (80, 24),
            "dark",
            ("p", "h", "i", "ctrl+t", "down", "right", "down", "down", "down", "9", "9", "9", "9", "down"),
        ),
    ],
    ids=["filtered", "light", "beside", "wide", "smallest", "engine"],
)
def test_the_list_of_models(
    snap_compare: Snapshot,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    theme: str,
    keys: tuple[str, ...],
) -> None:
    app = screen(home, monkeypatch, theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, app.chat.engine, pilot)  # type: ignore[arg-type]
        await desk.settle()
        await listed(desk)
        for key in keys:
            await desk.type("", key)
            await desk.until(
                lambda: not getattr(app.screen, "gathers", False)
            )  # its settings come once its file is read
        await read(desk)

    assert snap_compare(app, terminal_size=size, run_before=play)


async def listed(desk: Desktop) -> None:
    """Opens the list, and waits until it is complete."""
    await desk.type("", "f3")
    while desk.app._models.looking or not desk.app._models.rows:
        await desk.pilot.pause(0.05)
    await desk.settle()


async def read(desk: Desktop) -> None:
    """Waits until the files in view are read, which begins a little after the last key."""
    models = desk.app._models
    for _ in range(8):
        await desk.pilot.pause(0.05)
    while models.looking or "read" in models._tasks:
        await desk.pilot.pause(0.05)
    await desk.settle()


@pytest.mark.parametrize(
    ("size", "theme", "keys"),
    [
        ((80, 24), "dark", ("down", "down")),
        ((120, 40), "light", ()),
        ((164, 40), "dark", ("down",)),
    ],
    ids=["reason", "loaded", "wide"],
)
def test_which_models_draft_for_the_loaded_one(
    snap_compare: Snapshot,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    theme: str,
    keys: tuple[str, ...],
) -> None:
    folder = home / ".lmstudio/models/owner"
    family(folder)
    monkeypatch.setattr(memory, "available", lambda: 55 * GB // 10)
    monkeypatch.setattr(catalogue, "load", lambda: catalogue.Catalogue({}))
    spec = ModelSpec(str(folder / "Large.gguf"), "Large")
    app = TermchatApp(
        chat_on(FakeEngine(), Tuning(seed=42)), chosen(spec), models=Models(load({}, {}, home / "none")), theme=theme
    )

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, app.chat.engine, pilot)  # type: ignore[arg-type]
        await desk.settle()
        app.chat.loading.speculation.draft_with(Choice(ModelSpec(str(folder / "Small.gguf"), "Small"), {}))
        await desk.settle()
        await listed(desk)
        await read(desk)
        await desk.type("", *keys)
        await read(desk)

    assert snap_compare(app, terminal_size=size, run_before=play)


ENGINES = (
    ("lab", "ssh://ada@lab", "3 models · here everything works", 0.0121),
    ("server", "http://server:8080", "llama-3.1-8b-Q4_K_M · draws here", 0.0016),
    ("cluster", "https://vllm.example/v1", "qwen3-32b · draws there, 20 candidates", 0.041),
    ("chat", "https://api.example", "gpt-4o-mini · text only", 0.212),
)


def elsewhere(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines elsewhere: four that answer, and one that has not since some time."""
    rows = [
        ModelRow(
            wanted=f"@{name}", name=name, state="ready", engine=name, source=url, told=told, round_trip=far,
            context=32768 if name == "cluster" else None,
        )
        for name, url, told, far in ENGINES
    ]  # fmt: skip
    there = {"wanted": "@lab/qwen", "name": "lab: qwen3-8b", "engine": "lab", "source": "ssh://ada@lab"}
    rows.append(ModelRow(**there, state="ready", size=5 * GB, quantization="Q4_K_M", context=40960))  # type: ignore[arg-type]
    old = ModelRow(
        wanted="@old", name="old", state="broken", engine="old", source="http://old:8080", told="connection refused",
        problem="old cannot be reached: Connection refused. Is the server running, and the URL right?",
    )  # fmt: skip
    models.rows |= {row.wanted: row for row in (*rows, old)}
    models.silent = {"old": 0.0}
    monkeypatch.setattr(model_lines, "localtime", gmtime)


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "dark"), ((120, 40), "light"), ((200, 60), "dark")], ids=["small", "light", "wide"]
)
def test_engines_elsewhere_in_the_list(
    snap_compare: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], theme: str
) -> None:
    app = screen(home, monkeypatch, theme)
    elsewhere(app._models, monkeypatch)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, app.chat.engine, pilot)  # type: ignore[arg-type]
        await desk.settle()
        await listed(desk)
        app.screen._selected = "@old"  # type: ignore[attr-defined]
        app.screen.list_models()  # type: ignore[attr-defined]
        await read(desk)

    assert snap_compare(app, terminal_size=size, run_before=play)
