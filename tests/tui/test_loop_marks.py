"""Text that a reply says again and again is marked where it is, while it comes and when it is read again."""

from __future__ import annotations

from zlib import crc32

import msgspec
import pytest
from textual.color import Color

from termchat.conversation.setting_changes import mark_pieces
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import parse
from termchat.decoding.samplers import Tuning
from termchat.tui.pages.chain_view import chain_lines
from termchat.tui.transcript import Look
from termchat.tui.transcript.turn_source import TurnSource, parts_of
from tests.tui.transcripts import LOOKS, THEMES, Host, ask, finished, reply, screen, settled, token

BEGIN, AGAIN, REST = ["Once", " upon", "!"], [" He", " was", " so", " happy", "."], [" Then", " he", " slept", "."]
LOOP = "".join(AGAIN)


def said(node: Node, pieces: list[str]) -> None:
    """Adds tokens; the same text is the same token."""
    for text in pieces:
        node.add(msgspec.structs.replace(token(len(node.tokens), text), id=crc32(text.encode()) % 2**31))


def chat_with(pieces: list[str]) -> tuple[Conversation, Node]:
    chat = Conversation()
    ask(chat, "Tell me a story.")
    node = reply(chat)
    said(node, pieces)
    return chat, node


def marked_text(app: Host) -> str:
    """What of the screen is in italics: on the ground of a loop in the reading look, on that of its heat in any other."""
    palette = THEMES["dark"]
    grounds = (palette.panel,) if app.transcript.look == "reading" else palette.heat
    triplets = {Color.parse(ground).rich_color.triplet for ground in grounds}
    rows = map(app.transcript.render_line, range(app.transcript.size.height))
    segments = (segment for row in rows if "┊" not in row.text for segment in row)
    return "".join(
        text for text, style, _ in segments
        if style is not None and style.italic and style.bgcolor is not None and style.bgcolor.triplet in triplets
    )  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
async def test_a_loop_is_marked_while_it_comes_and_as_far_as_it_goes(look: Look) -> None:
    chat, node = chat_with([*BEGIN, *AGAIN * 6])
    app = Host(chat, look)
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        assert marked_text(app) == ""  # 30 tokens might be anything
        said(node, AGAIN)
        app.transcript.grew(node.number)
        await settled(pilot)
        assert "".join(marked_text(app).split()) == "".join((LOOP * 7).split())
        assert not any("loop:" in line for line in screen(app))
        said(node, REST)
        app.transcript.grew(node.number)
        await settled(pilot)
        assert "".join(marked_text(app).split()) == "".join((LOOP * 7).split())
        assert [line for line in screen(app) if "loop:" in line] == ['┊ loop: " He was so happy." 7 times from token 3']


async def test_a_saved_chat_shows_its_loops_and_a_calm_text_has_none() -> None:
    chat, node = chat_with([*BEGIN, *AGAIN * 8])
    node.add(finished("length", "max_tokens 43"))
    app = Host(chat, running=False)
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        assert "".join(marked_text(app).split()) == "".join((LOOP * 8).split())
        assert any("8 times" in line for line in screen(app))
    chat, node = chat_with([f" word{n}" for n in range(200)])
    app = Host(chat)
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        assert marked_text(app) == ""


def test_a_loop_over_two_pieces_of_a_reply_is_one() -> None:
    chat, node = chat_with([*BEGIN, *AGAIN * 4])
    node.add(finished("user"))
    node.continued = True
    more = chat.grow_node("assistant", parent=node.number, at=len(node.ids))
    said(more, [*AGAIN * 4, *REST])
    spans = chat.find_reply()
    told = list(mark_pieces([(span, span.node.text(span.count)) for span in spans], {}))
    assert [piece.marks for piece in told] == [[], [(20, 'loop: " He was so happy." 8 times from token 3')]]
    source = TurnSource(parts_of(spans))
    source.read()
    ((begin, end),) = source.loops
    assert source.text[begin:end] == LOOP * 8


def test_a_loop_in_the_last_piece_of_a_reply_is_read_from_that_piece() -> None:
    """And one over a cut, from what is left of the piece that was cut."""
    chat, node = chat_with(BEGIN)
    node.add(finished("user"))
    node.continued = True
    more = chat.grow_node("assistant", parent=node.number, at=len(node.ids))
    said(more, [" And", " so", *AGAIN * 8])
    more.add(finished("user"))
    source = TurnSource(parts_of(chat.find_reply()))
    source.read()
    assert [mark.text for mark in source.marks] == ['loop: " He was so happy." 8 times from token 5']
    forked = chat.grow_node("assistant", parent=more.number, at=2 + len(AGAIN) * 4 + 2)
    said(forked, [*AGAIN[2:], *AGAIN * 3])
    forked.add(finished("user"))
    source = TurnSource(parts_of(chat.find_reply()))
    source.read()
    assert [mark.text for mark in source.marks] == ['loop: " He was so happy." 8 times from token 5']


def test_ignored_end_tokens_are_marked_once_something_follows() -> None:
    chat, node = chat_with(BEGIN)
    ending = msgspec.structs.replace(token(len(node.tokens), ""), id=2, end=True)
    node.add(ending)
    source = TurnSource(parts_of(chat.find_reply()))
    source.read()
    assert source.marks == []
    said(node, [" user"])
    source.read()
    node.add(msgspec.structs.replace(ending, step=5))
    node.add(finished("end"))
    source.read()
    assert [(mark.offset, mark.text) for mark in source.marks] == [(10, "end token ignored at token 3")]
    assert node.tokens.unpacked(node.tokens.packed()).end_tokens == [3, 5]


def test_the_panel_shows_every_rule_that_is_on() -> None:
    kept, others = parse('stop text "END"'), [parse("stop after 3 sentences"), parse("loop")]
    lines = [line.text.rstrip() for line in chain_lines(Tuning(), None, 43, rules=[kept, *others])]
    assert 's stop     after "END"' in lines
    assert "  rules    stop after 3 sentences, loop" in lines
    both = [line.text.rstrip() for line in chain_lines(Tuning(stop=("x",)), None, 43, rules=[kept])]
    assert 's stop     "x", after "END"' in both
    assert not any("rules" in line for line in both)
