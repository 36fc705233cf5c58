"""Each chat has its own draft in the composer, also when the program is started again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from textual.events import Key

from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.tui.app import TermchatApp
from tests.tui import running_app
from tests.tui.running_app import Desktop, desktop, talked
from tests.tui.stored_chat import kept, told


def drafts(directory: Path) -> list[str]:
    """What the file has by now, without a look at the app."""
    with closing(sqlite3.connect(f"file:{directory / 'sessions.db'}?mode=ro", uri=True)) as db:
        return [draft for (draft,) in db.execute("SELECT draft FROM unsent")]


async def test_a_draft_is_on_the_disk_while_it_is_written_and_there_when_the_chat_is_resumed(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("half a thought")
        await desk.until(lambda: drafts(tmp_path) == ["half a thought"])
    async with kept(tmp_path, resume=True) as desk:
        assert desk.composer.text == "half a thought"
        await desk.type("!")
    async with kept(tmp_path, resume=True) as desk:  # it was kept at the end, too
        assert desk.composer.text == "half a thought!"
        await desk.type("", "enter")
        assert desk.composer.text == ""
    assert drafts(tmp_path) == []


class Hasty(TermchatApp):
    """Somebody types while the first frame is being made."""

    def on_mount(self) -> None:
        super().on_mount()
        for letter in "hi":
            self.post_message(Key(letter, letter).set_sender(self))


async def test_what_is_typed_before_the_first_frame_is_kept() -> None:
    with patch.object(running_app, "TermchatApp", Hasty):
        async with desktop() as desk:
            assert desk.composer.text == "hi"


async def test_the_first_message_is_there_again_when_nobody_could_send_it(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "sessions.db")) as store:
        store.keep_unsent("new 1234", "never sent", [])
    async with kept(tmp_path) as desk:
        await desk.until(lambda: desk.composer.text == "never sent")
        await told(desk)
        assert "never sent" in desk.chat.conversation.find_path()[0].node.written


async def test_a_new_chat_has_no_draft_of_the_old_one_and_undo_does_not_bring_it() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        old = desk.chat.conversation
        await desk.type("half a thought", "ctrl+n", "ctrl+underscore")
        assert desk.composer.text == ""
        await desk.type("new")
        desk.chat.show_session(Session(conversation=old))
        await desk.settle()
        assert desk.composer.text == "half a thought"
        await desk.type("", "ctrl+n")
        assert desk.composer.text == "new"


async def test_a_message_that_is_edited_meanwhile_is_not_the_draft() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("half a thought", "f7")
        assert desk.composer.text == "hi"
        desk.app.screen.keep_draft()  # type: ignore[attr-defined]
        assert desk.chat.conversation.unsent.draft == "half a thought"


async def asked(desk: Desktop) -> str:
    await desk.type("half a thought", "ctrl+c")
    return " ".join(desk.text.split())


async def test_only_where_a_draft_is_not_kept_quitting_says_that_it_would_be_lost(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        said = await asked(desk)
        assert "press Ctrl+C again to quit" in said
        assert "would be lost" not in said
    async with desktop() as desk:
        assert "your unsent text would be lost" in await asked(desk)
