"""A saved chat full of Markdown, opened by the real program in a terminal: how it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from tests import made_records
from tests.tui.transcripts import in_pieces
from tests.whole.terminal import Terminal

REPLY = """# The plan

- [x] find a **fox**
- [ ] find a bear

| animal | legs |
|:-------|-----:|
| fox | 4 |

$$
a_1 * b_2
$$

A family 👨\u200d👩\u200d👧\u200d👦 of שלום foxes 🇩🇪 lives at https://example.org/a_b."""


def test_markdown_reads_well_in_a_real_terminal(open_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    path = tmp_path / "data/termchat/sessions.db"
    path.parent.mkdir(parents=True)
    store = Store.open(path)
    session = Session(store=store)
    chat = session.conversation
    session.add_node(made_records.user(chat, "And then?", [1, 2, 3]))
    node = made_records.reply(chat)
    session.add_node(node)
    for record in made_records.stream(chat.list_ids(), [piece.encode() for piece in in_pieces(REPLY)]):
        session.add(node, record)
    store.close(60.0)
    terminal = open_terminal("--resume")
    terminal.wait("lives at https://example.org/a_b")
    lines = [line[:70].strip() for line in terminal.lines]
    begin = lines.index("The plan")
    assert lines[begin : begin + 11] == [
        "The plan", "", "[x] find a fox", "[ ] find a bear", "", "animal │ legs", "───────┼─────", "fox    │    4",
        "", "$$", "a_1 * b_2",
    ]  # fmt: skip
    family = next(line for line in terminal.lines if "A family" in line)
    assert "of שלום foxes" in family, "what follows an emoji stands where it belongs, and nothing of it is lost"
