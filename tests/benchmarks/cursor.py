"""What a keystroke that moves the token cursor costs in a chat of 20,000 tokens: `python -m tests.benchmarks.cursor`.

From the key's event to the end of the frame that shows it, in a headless app of 120 × 40 with the transcript, a ribbon and
the compositor of the real one. The terminal's own time is not in it, nor a full garbage collection, which setting up so many
objects at once calls for and which can take 50 ms. Random ways to move: in one reply of 20,000 tokens, in 50 replies of 400,
and, to compare, in one of 400.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
from collections.abc import Sequence
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any, NamedTuple

import msgspec
from textual import events
from textual.app import App, ComposeResult
from textual.filter import LineFilter
from textual.screen import Screen

from termchat.conversation.tree import Conversation
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.pages.token_bar import ribbon_line
from termchat.tui.terminal.screens import FrameCompositor
from termchat.tui.themes.theme_file import textual_theme
from termchat.tui.transcript import MOVES, Move, TranscriptView
from tests.tui.transcripts import PROSE, THEMES, ask, finished, in_pieces, reply, settings_record, token

KEYS = dict(zip("abcdefghijklmnopqr", MOVES, strict=True))


class Taken(NamedTuple):
    """What a move took: milliseconds, and of them those of the processor; on a busy machine only these say much."""

    wall: float
    cpu: float
    how: Move


def chat(replies: int, tokens: int) -> Conversation:
    """Replies of so many tokens: prose with paragraphs, every measure drawn, a knob turned now and then."""
    chance = random.Random(1)
    pieces = in_pieces((PROSE * 5 + "\n\n") * (tokens // 100 + 1))
    made = Conversation()
    for _ in range(replies):
        ask(made, "And then?")
        node = reply(made)
        for step, piece in enumerate(pieces[:tokens]):
            if step % 150 == 149:
                node.add(settings_record(chance.random()))
            rank = int(chance.expovariate(1.5))
            node.add(
                msgspec.structs.replace(
                    token(step, piece, chance.random() ** 0.3),
                    entropy=chance.expovariate(0.6),
                    rank=rank,
                    decode_us=int(6000 * chance.lognormvariate(0, 0.3)),
                )
            )
        node.add(finished())
    return made


class Chat(Screen[None]):
    """The transcript and the ribbon; every key is a move."""

    DEFAULT_CSS = "Transcript { height: 1fr; }"

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._compositor = FrameCompositor()
        self._conversation = conversation
        self.transcript = TranscriptView(THEMES["dark"])
        self.ribbon = LinesView()

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.ribbon

    def on_mount(self) -> None:
        self.ribbon.paint_with(THEMES["dark"])
        self.transcript.look = "entropy"
        self.transcript.show(self._conversation)

    def on_key(self, event: events.Key) -> None:
        self.transcript.move_cursor(KEYS[event.key])

    def on_transcript_view_cursor_moved(self, event: TranscriptView.CursorMoved) -> None:
        line = ribbon_line(self.transcript.cursor_reply, "entropy", event.ref, self.ribbon.room)
        self.ribbon.show_lines([line])
        self._on_timer_update()


class Host(App[None]):
    """Notes when a frame is out."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.chat = Chat(conversation)
        self.register_theme(textual_theme(THEMES["dark"]))
        self.theme = "dark"
        self.drawn = asyncio.Event()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """None, as the real app has without NO_COLOR."""
        return ()

    def on_mount(self) -> None:
        self.push_screen(self.chat)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, renderable)
        self.drawn.set()


async def measure(conversation: Conversation, moves: int, seed: int) -> list[Taken]:
    """Milliseconds of each move that went anywhere."""
    app, chance, taken = Host(conversation), random.Random(seed), list[Taken]()
    async with app.run_test(size=(120, 40)) as pilot:
        transcript = app.chat.transcript
        transcript.open_cursor()
        await pilot.pause(1.0)
        while not transcript.is_complete:
            await pilot.pause(0.1)
        gc.collect()
        gc.freeze()
        while len(taken) < moves:
            key = chance.choice(list(KEYS))
            before = transcript.cursor
            app.drawn.clear()
            begun, worked = perf_counter(), process_time()
            app.post_message(events.Key(key, key))
            try:
                await asyncio.wait_for(app.drawn.wait(), 0.2)
            except TimeoutError:
                assert transcript.cursor == before, "a move without a frame"
            else:
                taken.append(Taken((perf_counter() - begun) * 1e3, (process_time() - worked) * 1e3, KEYS[key]))
    return taken


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=300)
    args = parser.parse_args()
    for replies, tokens in ((1, 20_000), (50, 400), (1, 400)):
        taken = asyncio.run(measure(chat(replies, tokens), args.moves, seed=7))
        times, worst = [move.wall for move in taken], max(taken)
        print(
            f"{replies:3} × {tokens:6} tokens, {len(taken)} moves: median {median(times):5.2f} ms, 95 % within "
            f"{quantiles(times, n=20)[-1]:5.2f} ms, worst {worst.wall:5.2f} ms ({worst.how}); of the processor "
            f"median {median(move.cpu for move in taken):5.2f} ms, worst {max(move.cpu for move in taken):5.2f} ms"
        )


if __name__ == "__main__":
    main()
