"""Where a transcript is saved: the name that is offered, and what is said of one that cannot be."""

from __future__ import annotations

import unicodedata
from functools import partial
from pathlib import Path

import pytest
from textual.widgets import Label

from termchat.chat import opening
from termchat.conversation.session import Session
from termchat.conversation.transcripts import export
from termchat.conversation.tree import Conversation
from termchat.tui.lists.chat_dialogs import default_path
from tests.tui.running_app import desktop


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Tell me of rivers, and Alps!", "tell-me-of-rivers-and-alps.md"),
        ("../../etc/passwd", "etc-passwd.md"),
        ("🦊", "chat.md"),
        ("❤\ufe0f", "chat.md"),
        ("I ❤\ufe0f rivers", "i-rivers.md"),
        ("", "chat.md"),
        ("สวัสดีครับ แม่น้ำ", "สวัสดีครับ-แม่น้ำ.md"),
        ("हिन्दी में बातचीत", "हिन्दी-में-बातचीत.md"),
        (unicodedata.normalize("NFD", "Café crème"), unicodedata.normalize("NFD", "café-crème.md")),
        ("evil\x1b]0;\u202egpj\x9b", "evil-0-gpj.md"),
    ],
)
def test_the_name_that_is_offered_keeps_the_titles_words_whole(title: str, name: str) -> None:
    assert default_path(title) == Path(name)


async def test_what_cannot_be_written_is_told_in_words_and_in_the_room_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def save(_session: Session, path: Path) -> partial[Path]:
        return partial(export.write, path, Conversation(), Session(), lambda _: ())

    monkeypatch.setattr(opening, "make_saver", save)
    async with desktop(size=(80, 24)) as desk:
        await desk.type("", "ctrl+s")
        problem = desk.app.screen.query_one(".problem", Label)
        for path, told in (
            (str(tmp_path), "is a folder"),
            ("~nobody-there/a.md", "~nobody-there/a.md cannot be written"),
            (str(tmp_path / "none" / "chat.md"), "does not exist"),
            (str(tmp_path / ("x" * 300 + ".md")), "cannot write the file: File name too long"),
        ):
            desk.app.screen.query_one("Input").value = path  # type: ignore[attr-defined]
            await desk.type("", "enter")
            await desk.until(lambda told=told: told in str(problem.content))  # which the screen shows in several lines
            assert "Errno" not in desk.text
            assert "Enter saves" in desk.text
        assert list(tmp_path.iterdir()) == []
