"""Conversations made by hand, and an app with nothing but a transcript of them."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path

from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Length
from termchat.decoding.records import Failed, Finished, ModelIdentity, Reason, SettingsRecord, Start, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.tui.draw.ink import Paint
from termchat.tui.themes.theme_file import load_themes, textual_theme
from termchat.tui.transcript import Look, TranscriptView
from termchat.tui.transcript.cursor import Cursor
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.turn_source import Part, TurnSource

THEMES, _ = load_themes()
LOOKS: tuple[Look, ...] = ("reading", "probability")
PROSE = "The quick brown fox jumps over the lazy dog, while **bears** sleep in the `forest` and wake up. "
REPLY = f"""Here is a plan, with **bold words**, *emphasis* and `inline code`; see [the guide](https://example.org/g).

# A *fox* project

1. Make an environment:
   - `python -m venv .venv`
   - then **activate** it
2. Write the module

```python
class Fox:
    \"\"\"A fox has an age.\"\"\"

    age: int = 3
```

> A bear met the fox in the woods.

| animal | legs |
|:-------|-----:|
| fox    | 4    |
| 狐狸   | 40   |

---

{PROSE * 12}

Once upon a time 狐狸和熊住在森林里。 They were 👩\u200d🌾 and 🦊."""


def start(seed: int = 42) -> Start:
    model = ModelIdentity("smollm2", "s.gguf", "0" * 64, "llama", "Q4_1")
    return Start(1, "0", "0", model, [], False, seed, 1, 1, 1, 63, "f16", True)


def token(step: int, text: str, probability: float = 0.5, *, forced: bool = False) -> Token:
    """A token as likely to the model as after the chain."""
    data, logprob = text.encode("utf-8", "surrogatepass"), math.log(probability or 1e-9)
    return Token(step, step, step, data, text, 0, logprob, 0, probability, 1, 0, 0, forced, [], [], {}, 100, 10)


def settings_record(temperature: float, max_tokens: int = 0) -> SettingsRecord:
    conditions = (Length(max_tokens),) if max_tokens else ()
    return SettingsRecord(1, SamplerSettings(temperature=temperature), conditions, {})


def finished(reason: Reason = "end", detail: str = "", held: str = "") -> Finished:
    return Finished(reason, detail, held, 1, 1.0, 1.0, 1.0, 1.0)


def in_pieces(text: str) -> list[str]:
    return re.findall(r"\s?\S{1,6}|\s", text)


def ask(chat: Conversation, text: str) -> Node:
    leaf = chat.nodes[chat.leaf] if chat.leaf is not None else None
    return chat.grow_node("user", parent=leaf.number if leaf else None, at=leaf.count_kept() if leaf else 0, text=text)


def reply(chat: Conversation, text: str = "", end: Finished | Failed | None = None) -> Node:
    parent = chat.nodes[chat.leaf or 0]
    node = chat.grow_node("assistant", parent=parent.number, at=len(parent.ids))
    node.add(start())
    node.add(settings_record(0.8))
    for piece in in_pieces(text):
        node.add(token(len(node.tokens), piece))
    if end is not None:
        node.add(end)
    return node


def chat_of(*texts: str, end: Finished | Failed | None = None) -> Conversation:
    """Question, answer, question, … as a conversation; every answer ends with `end`."""
    chat = Conversation()
    for index, text in enumerate(texts):
        if index % 2:
            reply(chat, text, end or finished())
        else:
            ask(chat, text)
    return chat


def source_of(text: str) -> TurnSource:
    """A reply of which this text was read."""
    source = TurnSource((Part(reply(chat_of("Go")), None),))
    source.text = text
    return source


class Host(App[None]):
    """Nothing but a transcript."""

    def __init__(
        self, chat: Conversation, look: Look = "reading", theme: str = "dark", *, running: bool = True
    ) -> None:
        super().__init__()
        self.chat, self.look, self.running = chat, look, running
        for palette in THEMES.values():
            self.register_theme(textual_theme(palette))
        self.theme = theme

    def compose(self) -> ComposeResult:
        yield TranscriptView(THEMES[self.theme])

    @property
    def transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    def on_mount(self) -> None:
        self.transcript.look = self.look
        self.transcript.show(self.chat, running=self.running)


def picture(path: Path, look: Look = "reading", theme: str = "dark", size: tuple[int, int] = (120, 40)) -> None:
    """Writes an SVG picture of the transcript, for a look at it: python -c "from … import picture; picture(…)"."""

    async def take() -> None:
        app = Host(chat_of("Write a story.", REPLY), look, theme)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.1)
            path.write_text(app.export_screenshot(), "utf-8")

    asyncio.run(take())


def texts(app: Host) -> list[str]:
    return [line_text(app.transcript, y) for y in range(app.transcript.line_count)]


def line_text(view: TranscriptView, y: int) -> str:
    """The text on a line of the transcript, "" where nothing is laid out."""
    line = view.line_at(y)
    return line.text if line is not None else ""


def screen(app: Host) -> list[str]:
    transcript = app.transcript
    return [transcript.render_line(y).text[1:].rstrip() for y in range(transcript.size.height)]


async def settled(pilot: Pilot[None]) -> None:
    """Until everything is laid out: what the timer does, without waiting for it."""
    await pilot.pause()
    transcript = pilot.app.query_one(TranscriptView)
    for _ in range(1000):
        if transcript.is_complete:
            return
        transcript.work()
    raise AssertionError("the transcript never got done")


def numbered_chat(turns: int) -> Conversation:
    text = "\n\n".join(f"Paragraph {{turn}}.{n}. " + PROSE * 3 for n in range(6))
    return chat_of(*(t.format(turn=turn) for turn in range(turns) for t in ("Question {turn}?", text)))


bits = st.sampled_from(
    [
        "a b",
        "- ",
        "1. ",
        "# ",
        "> ",
        "```",
        "```py",
        "\n",
        "\n\n",
        "   ",
        "| a | b |",
        "|--|--|",
        "**",
        "`",
        "---",
        "~~~",
    ]
)
LONG = {
    "paragraph": "word " * 4000,
    "one word": "x" * 20_000,
    "soft-wrapped paragraph": "some words\n" * 2000,
    "list item": "- item\n" + "  more of it\n" * 2000,
    "nested list": "1. item\n" + "   - nested item\n" * 1000,
    "quote": "> quoted words\n" * 1500,
    "table": "| a | b |\n|---|---|\n" + "| cell | cell |\n" * 1500,
    "code": "```python\n" + "x = [1, 2, 3]\n" * 1500,
    "docstring": '```python\n"""\n' + "words in a docstring\n" * 1500,
    "fence in a list": "- item\n  ```py\n" + "  x = 1\n" * 3000,
}


PAINT = Paint(THEMES["dark"])


def shown(chat: Conversation, width: int, *, running: bool = True) -> tuple[Document, Cursor]:
    document = Document(width, "probability")
    document.show(chat, running=running)
    document.rows = 10_000
    document.show_end()
    return document, Cursor(document)
