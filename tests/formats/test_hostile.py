"""What is out to steer, to hide or to flood, in every form of a transcript: bytes that harm nobody, and the text had back."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path

import pytest

from termchat.conversation import export, intake
from termchat.conversation.formats import FORMATS
from termchat.conversation.store import Store
from termchat.decoding.escapes import unescape
from termchat.text import sanitize
from tests.attacks import BYTES, CONTROLS, FLOODS, MARKDOWN, MARKUP, forbidden
from tests.formats.made import Made
from tests.made_records import stream

ALL = " ".join(CONTROLS.values())
NAMED = (CONTROLS["title"] + CONTROLS["C1 CSI"] + CONTROLS["bidi override"]).strip()
SAID = ALL.encode() + b" ".join(BYTES.values())


@pytest.fixture(scope="module")
def attacked() -> Made:
    """A chat whose every text is an attack. Those that steer come a byte a token, cut within characters too."""
    page = Made("system " + ALL)
    page.chat.title = ALL
    page.say(ALL + "\n".join(MARKUP.values()))
    page.reply(stream([1, 2, 3], [bytes([byte]) for byte in SAID], stops=("never" + ALL,))).name = ALL
    page.say("\n\n".join(FLOODS.values()))
    said = "\n\n".join(MARKDOWN.values()).encode()
    page.reply(stream([1, 2, 3], [said[at : at + 300] for at in range(0, len(said), 300)]))
    return page


def written(page: Made, folder: Path, form: str) -> Path:
    """The chat in a file whose name is an attack, too."""
    return export.write(folder / f"chat{NAMED}{FORMATS[form].endings[0]}", page.chat, page.info, page.records)


@pytest.mark.parametrize("form", FORMATS)
def test_no_byte_of_a_file_steers_or_hides(attacked: Made, tmp_path: Path, form: str) -> None:
    data = written(attacked, tmp_path, form).read_bytes()
    data.decode("utf-8", "strict")
    assert forbidden(data) == []
    assert b"\r" not in data
    if form in ("jsonl", "openai", "sharegpt"):
        assert data.isascii()


def test_our_own_lines_come_back_whole(attacked: Made, tmp_path: Path) -> None:
    (found,) = intake.chats(written(attacked, tmp_path, "jsonl"))
    assert found.conversation.title == ALL
    assert found.conversation.system == attacked.chat.system
    assert list(found.conversation.turns()) == list(attacked.chat.turns())
    assert b"".join(record.bytes for record in found.records(2) if hasattr(record, "bytes")) == SAID


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_messages_come_back_with_their_very_words_and_the_store_keeps_them(
    attacked: Made, tmp_path: Path, form: str
) -> None:
    (found,) = intake.chats(written(attacked, tmp_path, form))
    store = Store.open(tmp_path / "store.db")
    kept = store.load(intake.keep(store, found)).conversation
    store.close()
    assert kept.system == attacked.chat.system
    assert list(kept.turns()) == list(attacked.chat.turns())


def test_the_table_gives_every_byte_and_every_text_back(attacked: Made, tmp_path: Path) -> None:
    with written(attacked, tmp_path, "csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["node"] == "2"]
    assert b"".join(base64.b64decode(row["bytes"]) for row in rows) == SAID
    assert "".join(unescape(row["text"]) for row in rows) == "".join(attacked.chat.nodes[2].tokens.texts)


def test_a_person_reads_marks(attacked: Made, tmp_path: Path) -> None:
    text = written(attacked, tmp_path, "md").read_text("utf-8")
    for attack in CONTROLS.values():
        for line in sanitize(attack.replace("\r\n", "\n")).split("\n"):
            assert text.count(line) >= 3, line  # the system message, the user's and the reply


def test_what_is_no_transcript_is_refused_in_words_that_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / f"chat{NAMED}.json"
    path.write_text(json.dumps({"messages": [{"role": NAMED, "content": ALL}]}, ensure_ascii=False), "utf-8")
    with pytest.raises(Exception, match="line 1") as caught:
        list(intake.chats(path))
    assert forbidden(sanitize(str(caught.value)).encode()) == []
