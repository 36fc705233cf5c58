"""The lists, and what each of their keys does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from textual.widgets import Input

from termchat import paths
from termchat.conversation.tree import Conversation
from termchat.engine.port import LoadDraft
from termchat.models.disk.discovery import Skipped
from termchat.tui.draw.list_dialog import ListDialog, ReadDialog
from termchat.tui.keys.tables import KeyGroup
from termchat.tui.lists.branch_tree import ReplyPicker, TreeDialog
from termchat.tui.lists.compare import CompareDialog, ComparedReply
from termchat.tui.lists.models_dialog import skipped_lines
from tests import made_records
from tests.models.gguf_files import named
from tests.tui.key_checks import Place, Presses, Sees
from tests.tui.models_dialog import shop
from tests.tui.running_app import Desktop, desktop
from tests.tui.sessions_dialog import FakeStore, library
from tests.tui.token_mode import looking


@asynccontextmanager
async def chatted(*texts: str) -> AsyncIterator[Desktop]:
    """An app whose person has said that, and a reply runs."""
    async with desktop() as desk:
        for text in texts:
            await desk.type(text, "enter")
        yield desk


async def keylist(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        place = Place(desk, group, "f1")
        await place.walk()
        await place.close()
    return place


async def reading(group: KeyGroup, folder: Path) -> Place:
    skipped = [Skipped(path=folder / f"file{at:02}.gguf", reason="no model", place="here") for at in range(99)]
    async with desktop() as desk:

        async def open() -> None:
            desk.app.push_screen(ReadDialog(desk.app.palette, "Skipped files", partial(skipped_lines, skipped)))

        place = Place(desk, group, open=open)
        await place.walk()
        await place.press("read-last", place.shows("file98"), "home")
        await place.press("read-first", place.shows("file00"), "end")
        await place.close()
    return place


async def themes(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        place = Place(desk, group, "f9")
        await place.walk()
        await place.press("theme-last", lambda: place.row > 5, "home")
        await place.press("theme-first", place.at(0), "end")
        await place.press("theme-keep", lambda: desk.app.theme_chooser.wanted != "dark")
        await place.close()
    return place


async def personas(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:
        await desk.sent("go", "One")
        desk.engine.end()
        place = Place(desk, group, "f5")
        await place.walk()
        await place.press("persona-down", place.at(1))
        await place.press("persona-up", place.at(0))
        await place.close()
        await place.press("persona-here", place.gone())
        before = desk.chat.conversation
        await place.press("persona-begin", lambda: desk.chat.conversation is not before, "enter")
    return place


async def presets(group: KeyGroup, _: Path) -> Place:
    own = paths.presets_file()
    own.parent.mkdir(parents=True)
    own.write_text("[mine]\ntop_k = 3\n")
    async with desktop() as desk:
        place = Place(desk, group, "f10")
        await place.enter()
        screen = desk.app.screen
        assert isinstance(screen, ListDialog)
        await place.walk()
        await place.press("preset-down", place.at(1))
        await place.press("preset-up", place.at(0))
        await place.press("preset-save", lambda: isinstance(desk.app.focused, Input))
        await desk.type("", "escape")
        for _ in range(2):
            own.write_text("[mine]\ntop_k = 3\n")
            await desk.type("", "escape", "f10", "pagedown", "pagedown")
            if _ == 0:
                await place.press("preset-rename", lambda: isinstance(desk.app.focused, Input))
                await desk.type("", "escape")
            await place.press("preset-remove", place.shows("remove mine?"), key=("delete", "d")[_])
            await desk.type("", "escape")
        await place.close()
        await place.press("preset-apply", lambda: desk.chat.tuning.temperature == 0, "home", *["up"] * 9)
    return place


async def history(group: KeyGroup, _: Path) -> Place:
    async with chatted("one", "two", "three") as desk:
        place = Place(desk, group, open=lambda: desk.app.screen_stack[0].run_action("dialog('history')"))
        await place.walk()
        await place.close()
        await place.press("history-enter", lambda: desk.composer.text == "two", "down")
    return place


async def queue(group: KeyGroup, _: Path) -> Place:
    async with chatted("go", *"abcde") as desk:
        place = Place(desk, group, open=lambda: desk.app.screen_stack[0].run_action("dialog('queue')"))

        def waits(*texts: str) -> Sees:
            return lambda: list(desk.chat.turns.queue) == list(texts)

        await place.walk()
        await place.press("queue-later", waits(*"bacde"), key="shift+down")
        await place.press("queue-later", waits(*"bcade"), key="J")
        await place.press("queue-earlier", waits(*"bacde"), key="shift+up")
        await place.press("queue-earlier", waits(*"abcde"), key="K")
        await place.press("queue-remove", waits(*"bcde"), key="delete")
        await place.press("queue-remove", waits(*"cde"), key="d")
        await place.close()
        await place.press("queue-edit", lambda: desk.composer.text == "c")
    return place


async def rules(group: KeyGroup, _: Path) -> Place:
    async with looking() as desk:

        def known(*enabled: bool) -> Sees:
            return lambda: [rule.enabled for rule in desk.chat.breakpoints] == list(enabled)

        place = Place(desk, group, "b")
        await place.enter()
        field = desk.app.screen.query_one(Input)
        for rule in ("entropy > 5", "entropy > 4"):
            field.value = rule
            await desk.type("", "enter")
        field.value = "entropy > 3"
        await place.press("rule-enter", known(True, True, True))
        await place.walk()
        await place.press("rule-enter", known(False, True, True))
        await place.press("rule-delete", known(True, True))
        await place.close()
    return place


async def biases(group: KeyGroup, _: Path) -> Place:
    async with looking() as desk:

        def written(*biases: str) -> Sees:
            return lambda: desk.chat.tuning.logit_bias == biases

        place = Place(desk, group, "B")
        await place.enter()
        desk.app.screen.query_one(Input).value = "fox"
        await desk.settle()
        await place.walk()
        await desk.type("", "down")
        await place.press("bias-ban", written("5000=ban"))
        await place.press("bias-undo", written())
        await place.press("bias-more", written("5000=+1"))
        await place.press("bias-less", written())
        await desk.type("", "enter")
        await place.press("bias-remove", written())
        await place.press("bias-word", lambda: len(desk.chat.tuning.logit_bias) == 2)
        await place.close()
    return place


async def tree(group: KeyGroup, _: Path) -> Place:
    async with looking() as desk:
        await desk.type("", "h", "h", "2")  # a branch
        place = Place(desk, group, "y")
        await place.walk()
        screen = desk.app.screen
        assert isinstance(screen, TreeDialog)
        last = screen.picker.count - 1
        assert last >= 2
        await place.press("tree-down", place.at(1))
        await place.press("tree-up", place.at(0))
        await place.press("tree-last", place.at(last), "home")
        await place.press("tree-first", place.at(0), "end")
        await place.press("tree-parent", place.at(0), "home", "j")
        await place.press("tree-mark", lambda: screen.marked is not None, "end")
        await place.press("tree-compare", lambda: not place.here, "k")
        await desk.type("", "escape")
        await place.press("tree-other", place.shows("chats are not saved in this mode"))
        await desk.type("", "escape", "end")
        await place.press("tree-rename", lambda: isinstance(desk.app.focused, Input))
        await desk.type("better", "enter")
        assert "better" in desk.text
        shown = desk.chat.conversation.leaf
        await place.press("tree-go", lambda: desk.chat.conversation.leaf != shown, "k")
        for delete, undo in (("d", "z"), ("delete", "u")):
            await place.press("tree-delete", place.shows("is deleted; z restores it"), key=delete)
            await place.press("tree-undelete", place.lacks("is deleted"), key=undo)
        await place.close()
    return place


async def replies(group: KeyGroup, _: Path) -> Place:
    chosen: list[ComparedReply | None] = []
    async with looking() as desk:
        await desk.type("", "h", "h", "2", "escape")

        async def open() -> None:
            desk.app.push_screen(ReplyPicker(desk.chat.conversation, desk.app.palette, lambda *_: None), chosen.append)

        place = Place(desk, group, open=open)
        await place.walk()
        await place.press("reply-down", place.at(1))
        await place.press("reply-up", place.at(0))
        await place.press("reply-choose", lambda: [reply.end for reply in chosen if reply is not None] == [2])
        await place.close()
    return place


async def comparing(group: KeyGroup, _: Path) -> Place:
    chat, ends = Conversation(), list[int]()
    asked = made_records.user(chat, "tell me", [1, 2])
    for seed in (1, 2):
        node = made_records.reply(chat, parent=asked)
        pieces = [b" many words"] * 1000
        made_records.add_all(node, made_records.stream([1, 2], pieces, seed=seed))
        node.tokens.ids[500] += seed
        ends.append(node.number)
    async with desktop() as desk:

        async def open() -> None:
            sides = (ComparedReply(chat, end, "", lambda *_: FOX) for end in ends)
            desk.app.push_screen(CompareDialog(desk.app.palette, *sides))

        place = Place(desk, group, open=open)
        await place.walk()
        await place.press("compare-why", place.shows("model    after    noise"))
        await place.press("compare-why", place.lacks("model    after    noise"))
        await place.close()
    return place


FOX = made_records.token(5, b" fox", " fox", token_id=1)


async def sessions(group: KeyGroup, _: Path) -> Place:
    store = FakeStore()
    async with library(store) as desk:
        place, number = Place(desk, group, "f4"), len(store.kept)
        await place.walk()
        await place.press("session-duplicate", lambda: len(store.kept) == number + 1)
        await place.press("session-delete", place.shows("deleted; "))
        await place.press("session-undelete", place.shows("restored"))
        await place.press("session-rename", place.shows("cancels"))
        await desk.type("", "escape")
        await place.close()
        await place.press("session-new", place.gone())
        await place.enter()
        await desk.at_rest()
        with patch.object(desk.list, "take") as opened:
            await place.press("session-enter", lambda: opened.called, "down")
    return place


async def models(group: KeyGroup, folder: Path) -> Place:
    for name in ("Alpha", "Beta", "Gamma"):
        named(name, folder / "m")
    os.truncate(folder / "m/Beta.gguf", (folder / "m/Beta.gguf").stat().st_size + 1000)
    async with shop(folder / "m") as desk:
        place = Place(desk, group, "f3", open=lambda: desk.until(lambda: not desk.app._models.looking))
        await place.walk()
        await desk.find("alpha")
        await place.press("model-engine", place.shows("Settings for Alpha"))
        await desk.type("", "escape")
        await place.press("model-skipped", place.shows("Skipped files"))
        await desk.type("", "escape")
        await place.press("model-unload", place.shows("is unloaded"))
        await place.close()
        loads = len(desk.loads)
        await place.press("model-reload", lambda: len(desk.loads) > loads)
        await place.enter()
        await desk.find("beta")
        await place.press("model-enter", lambda: desk.loads[-1].path.endswith("Beta.gguf"))
        await place.enter()
        await desk.find("gamma")
        await place.until(place.shows("can draft for Beta"), "it is smaller")
        await place.press("model-draft", lambda: bool(desk.engine.asked(LoadDraft)))
        await desk.find("remote")
        await desk.type("", "enter")
        await place.until(place.shows("Del stops the download"), "a download runs")
        await place.press("model-cancel", place.lacks("Del stops the download"))
    return place


async def pieces(group: KeyGroup, _: Path) -> Place:
    async with desktop() as desk:

        async def open() -> None:
            await desk.type("/tokens ")
            desk.composer.insert("word\\n" * 200)
            await desk.type("", "enter")

        place = Place(desk, group, open=open)
        await place.walk()
        await place.press("pieces-view", place.shows("word 50"))
        await place.close()
    return place


LISTS: dict[str, Presses] = {
    "MODELS": models, "SAVED CHATS": sessions, "BRANCHES": tree, "REPLIES": replies, "THEMES": themes, "PERSONAS": personas,
    "PRESETS": presets,
    "BREAKPOINTS": rules, "MESSAGE HISTORY": history, "QUEUE": queue, "LISTS": keylist, "READING": reading,
    "TOKENS OF A TEXT": pieces, "COMPARE": comparing, "LOGIT BIASES": biases,
}  # fmt: skip
