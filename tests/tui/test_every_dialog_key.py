"""Every key of the dialogs, the lists, TUNE and the composer is pressed where it works, and something is seen of it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from textual import events
from textual.widgets import Input

from termchat.chat import opening
from termchat.chat.changes import Full, Way
from termchat.conversation.session import Breakpoint, Session
from termchat.decoding.conditions import parse
from termchat.decoding.constraint import make_choice
from termchat.decoding.samplers import KNOBS
from termchat.tui.composer import composer as composer_module
from termchat.tui.keys.tables import DIALOG, GROUPS, KeyGroup
from termchat.tui.lists.engine_dialog import FIELDS
from termchat.tui.lists.small_dialogs import FullDialog
from termchat.tui.screen.walks_dialog import WalkForm, WalksDialog
from tests.models.gguf_files import named
from tests.pull.file_server import FileServer
from tests.tui.key_checks import ELSEWHERE, Place, Presses, Sees
from tests.tui.lesson_key_checks import LESSON_PLACES
from tests.tui.list_key_checks import LISTS
from tests.tui.models_dialog import served, shop
from tests.tui.running_app import desktop, talked

pytestmark = pytest.mark.usefixtures("home")


# --- where text is written -------------------------------------------------------------------------------------------


async def composer(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        place, box = Place(desk, group), desk.composer
        await place.press("newline", lambda: box.text.endswith("\n"), "a")
        await place.press("undo", lambda: not box.text.endswith("b"), "b")
        await place.press("redo", lambda: box.text.endswith("b"), "b", "ctrl+underscore")
        await place.press("send", lambda: desk.engine.generated)
        pasted = "line\n" * 50
        desk.app.post_message(events.Paste(pasted))
        await desk.settle()
        await place.press("unfold", lambda: box.text == pasted)
    return place


async def setup(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        place = Place(desk, group, "f2")
        await place.press("setup-raw", place.shows("[x] raw"), key="tab")
        await desk.type("", "escape")
        desk.chat.adjust_setting("temperature", 1.5)
        desk.chat.set_breakpoints([Breakpoint(parse('stop text "END"'))])
        await place.press("setup-keep", place.shows("[ ] keep temperature 1.5, 1 breakpoint"))
        await place.close()
        await place.press("setup-start", lambda: desk.chat.conversation.system == "x", "x")
    return place


async def constraint(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        for text in ("yes | no", "a | b"):
            desk.composer.insert(f"/choice {text}")
            await desk.type("", "escape", "enter")
        place = Place(desk, group, open=lambda: desk.app.screen_stack[0].run_action("dialog('constraint')"))
        await place.press("constraint-kind", place.shows("[GBNF grammar]"))
        await place.press("constraint-kind-before", place.shows("[choice]"))
        await place.press("constraint-stage", place.shows("after the other stages"))
        await place.press("constraint-recent", place.shows("recent 2 of 2"))
        await place.press("constraint-later", place.shows("recent 1 of 2"))
        with patch.object(composer_module, "edit_text", _edited):
            await place.press("constraint-editor", place.shows("from the editor"))
        await place.close()
        await place.press("constraint-set", lambda: desk.chat.constraint == make_choice(["yes", "no"]), "pageup")
    return place


async def walks(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        place = Place(desk, group, "ctrl+y")

        def form() -> WalkForm:
            return desk.app.screen.form if isinstance(desk.app.screen, WalksDialog) else WalkForm(desk.chat)

        await place.press("start-more", lambda: form().kind == "grid")
        await place.press("start-less", lambda: form().kind == "walks")
        await place.press("start-next", lambda: form().kind == "grid")
        await place.press("start-after", lambda: form().at == 1)
        await place.press("start-before", lambda: form().at == 0)
        await place.press("start-type", place.shows("12▏"), "down", "down", "down", "down", "down", "1", key="2")
        await place.press("start-erase", place.lacks("12▏"))
        await place.press("start-reset", place.shows("‹3"))
        await place.close()
        await place.press("start-walks", lambda: desk.engine.groups)
    return place


async def _edited(_text: str, _suspend: object) -> str:
    return "from the editor"


async def save(group: KeyGroup, folder: Path) -> Place:
    saved: list[Path] = []
    with patch.object(opening, "make_saver", lambda _session, path: lambda: saved.append(path)):
        async with desktop() as desk:
            await desk.sent("go", "One")
            desk.engine.end()
            place = Place(desk, group, "ctrl+s")
            await place.close()
            await place.enter()
            desk.app.screen.query_one(Input).value = str(folder / "there.md")
            await place.press("save-enter", lambda: saved)
    return place


# --- values ----------------------------------------------------------------------------------------------------------


async def tune(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        await desk.type("", "ctrl+t")
        place, names = Place(desk, group), tuple(KNOBS)

        def heat(value: float) -> Sees:
            return lambda: desk.chat.tuning.temperature == pytest.approx(value)

        def on(name: str) -> Sees:
            turned = desk.app.screen_stack[0].tune  # type: ignore[attr-defined]
            return lambda: turned.selected == name

        await place.press("tune-more", heat(0.85))
        await place.press("tune-less", heat(0.8))
        await place.press("tune-much-more", heat(1.05))
        await place.press("tune-much-less", heat(0.8))
        await place.press("tune-type", place.shows(" 17▏"), "1", key="7")
        await place.press("tune-erase", place.lacks(" 17▏"))
        await place.press("tune-accept", heat(1.0))
        await place.press("tune-undo", heat(0.8))
        await place.press("tune-off", heat(1.0))
        await place.press("tune-default", heat(0.8))
        await place.press("tune-stop-after", lambda: desk.chat.breakpoints, "s", "enter", "a")
        await desk.type("", "escape", "t")
        await place.press("tune-unfold", place.shows("every stage"))
        await place.press("tune-earlier", lambda: desk.chat.tuning.order[-1] == "min_k")
        await place.press("tune-later", lambda: desk.chat.tuning.order[-1] == "temperature")
        await place.press("tune-after", on(names[names.index("temperature") + 1]))
        await place.press("tune-before", on("temperature"))
        for name in (*names[names.index("temperature") + 1 :], *names[: names.index("temperature") + 1]):
            await place.press(f"tune-{name}", on(name))
    return place


async def engine(group: KeyGroup, folder: Path) -> Place:
    named("Alpha", folder / "m")
    async with shop(folder / "m") as desk:

        async def open() -> None:
            await desk.until(lambda: not desk.app._models.looking)
            await desk.find("alpha")
            await desk.type("", "ctrl+t")

        place = Place(desk, group, "f3", open=open)
        await desk.type("", "escape")
        await place.walk()
        screen = desk.app.screen

        def value(name: str, wanted: object) -> Sees:
            return lambda: screen.form.config.value(name) == wanted  # type: ignore[attr-defined]

        await desk.type("", *["down"] * [field.name for field in FIELDS].index("threads"))
        await place.press("engine-more", value("threads", 1))
        await place.press("engine-next", value("threads", 2))
        await place.press("engine-less", value("threads", 1))
        await place.press("engine-unset", value("threads", 0))
        await place.press("engine-type", place.shows(" 12▏"), "1", key="2")
        await place.press("engine-erase", place.lacks(" 12▏"))
        await place.press("engine-load", lambda: desk.loads[-1].path.endswith("Alpha.gguf"))
        await desk.type("", "f3")
        await open()
        await place.until(lambda: place.here, "it is open")
        await place.close()
    return place


async def questions(group: KeyGroup, _: Path) -> Place:
    answers: list[Way | None] = []
    async with desktop() as desk:

        async def open() -> None:
            full = Full(Session(), "more", None, 0, None, 2)
            desk.app.push_screen(FullDialog(full), answers.append)

        place = Place(desk, group, open=open)
        await place.press("full-drop", lambda: answers == ["drop"])
        await place.press("full-summarise", lambda: answers == ["drop", "summarise"])
        await place.press("close", lambda: answers == ["drop", "summarise", None])
    return place


PLACES: dict[str, Presses] = {
    "CHAT": composer, "TUNE": tune, "MODEL SETTINGS": engine, "SAVE": save, "NEW CHAT": setup, "CONTEXT FULL": questions,
    "CONSTRAINT": constraint, "START WALKS": walks,
    **LISTS, **LESSON_PLACES,
}  # fmt: skip


PRESSED_HERE = [
    group for group in GROUPS if group.table != DIALOG and any(key.id not in ELSEWHERE for key in group.table)
]
"""What works in every dialog is pressed in each of them."""


@pytest.mark.parametrize("group", PRESSED_HERE, ids=lambda group: group.title)
async def test_every_key_does_something_where_it_works(
    group: KeyGroup, tmp_path: Path, home: Path, server: FileServer
) -> None:
    assert group.title in PLACES, "nobody presses the keys of this group"
    if group.title == "MODELS":
        served(home, server, "remote", held=2_000_000)
    place = await PLACES[group.title](group, tmp_path)
    place.done()
