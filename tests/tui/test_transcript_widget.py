"""The transcript as a reader sees it: what stands on which line."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.geometry import Region

from termchat.conversation.tree import Conversation
from termchat.decoding.records import Failed, Finished
from termchat.tui.themes.library import PLAIN as NO_COLOUR
from termchat.tui.transcript import Look
from termchat.tui.transcript.turn_source import Part, TurnSource
from tests.tui.transcripts import (
    LOOKS,
    PROSE,
    REPLY,
    THEMES,
    Host,
    ask,
    bits,
    chat_of,
    finished,
    in_pieces,
    reply,
    screen,
    settings_record,
    settled,
    start,
    texts,
    token,
)


async def test_titles_turns_and_caret() -> None:
    chat = chat_of("Hello,\nfox!", "Hello.")
    ask(chat, "And?")
    node = reply(chat, "Well")
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        shown = ["you", "Hello,", "fox!", "", "smollm2 · seed 42", "Hello.", "", "you", "And?", "", "smollm2 · seed 42"]
        assert texts(app) == [*shown, "Well▌"]
        node.add(finished())
        app.transcript.grew(node.number)
        assert texts(app) == [*shown, "Well"]


@pytest.mark.parametrize("look", LOOKS)
async def test_streaming_ends_in_the_same_lines_as_showing_it_at_once(look: Look) -> None:
    whole = Host(chat_of("Go", REPLY), look)
    async with whole.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        wanted = texts(whole)
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat, look)
    async with app.run_test(size=(60, 20)):
        for piece in in_pieces(REPLY):
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
        node.add(finished())
        app.transcript.grew(node.number)
        assert texts(app) == wanted
        assert app.transcript.virtual_size.height == len(wanted)
        assert screen(app) == [line.rstrip() for line in wanted[-20:]]


async def test_a_streaming_paragraph_is_shown_as_the_finished_one_will_be() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat)
    async with app.run_test(size=(60, 40)):
        for piece in in_pieces(PROSE * 12):
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
            said = "".join(node.tokens.texts).rstrip()
            if said.endswith((".", "fox", "sleep")):
                shown = " ".join(line.strip() for line in texts(app)[4:]).rstrip("▌").rstrip()
                assert shown == re.sub(r"\*\*|`", "", said)


async def test_what_was_forced_is_underlined_in_the_reading_look_and_counted_in_the_head() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    pieces = ("Sure", ", **b", "old**", " a\n", "- one", "\n- `tw", "o`", " three")
    forced = (1, 1, 0, 0, 0, 1, 1, 0)
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        for piece, chosen in zip(pieces, forced, strict=True):
            node.add(token(len(node.tokens), piece, forced=bool(chosen)))
            app.transcript.grew(node.number)
        rows = app.transcript.render_lines(Region(0, 0, 60, 20))
        marked = ["".join(text for text, style, _ in row if style is not None and style.underline) for row in rows]
        assert [text for text in marked if text] == ["Sure, b", " two"]
        assert texts(app)[3] == "smollm2 · seed 42 · 4 forced tokens"
        app.transcript.look = "entropy"
        rows = app.transcript.render_lines(Region(0, 0, 60, 20))
        marked = ["".join(text for text, style, _ in row if style is not None and style.underline) for row in rows]
        assert [text.strip() for text in marked if text] == ["Sure, **b", "", "- `two`"]


async def test_near_ties_are_counted_in_the_head_and_underlined_twice_where_probabilities_are_shown() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    told = {" bear": True, " fox": False, " wolf": None, " crow": True, " hare": False}
    app = Host(chat)
    async with app.run_test(size=(80, 20)):
        node.add(token(0, "One"))
        app.transcript.grew(node.number)
        assert texts(app)[3] == "smollm2 · seed 42"  # nothing is known
        for piece, near_tie in told.items():
            made = token(len(node.tokens), piece, 1.0, forced=piece == " hare")
            node.add(msgspec.structs.replace(made, near_tie=near_tie, margin=0.5))
        app.transcript.grew(node.number)
        assert texts(app)[3] == "smollm2 · seed 42 · 1 forced token · 2 of 6 tokens are near ties"

        def underlined_twice() -> list[str]:
            rows = app.transcript.render_lines(Region(0, 0, 80, 20))
            return [text for row in rows for text, style, _ in row if style is not None and style.underline2]

        assert underlined_twice() == []
        for theme in (app.transcript.palette, NO_COLOUR):
            app.transcript.palette = theme
            app.transcript.look = "probability"
            assert underlined_twice() == [" bear", " crow"]


async def test_code_in_a_list_item_streams_as_code() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        for piece in ("- item", "\n  ``", "`", "py", "\n", "  a =", " `b`", "\n  c"):
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
        assert texts(app)[4:] == ["• item", "  py", "  a = `b`", "  c▌"]


async def test_half_a_marker_does_not_flicker() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        seen = []
        for piece in (
            "A",
            " word",
            "\n",
            "-",
            " item",
            "\n\n",
            "``",
            "`",
            "py",
            "\n",
            "x",
            "\n",
            "``",
            "`",
            "\n",
            "**",
            "b",
        ):
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
            seen.append("|".join(texts(app)[4:]))
    assert seen == [
        "A▌", "A word▌", "A word▌", "A word▌", "A word|• item▌", "A word|• item▌", "A word|• item▌",
        "A word|• item▌", "A word|• item||py▌", "A word|• item||py▌", "A word|• item||py|x▌",
        "A word|• item||py|x▌", "A word|• item||py|x▌", "A word|• item||py|x▌", "A word|• item||py|x|▌",
        "A word|• item||py|x|▌", "A word|• item||py|x|b▌",
    ]  # fmt: skip


async def test_the_token_look_is_the_exact_text_in_the_heat_of_its_probability() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    for piece, probability in (("# A", 0.0), (" fox", 0.2), ("\n\n", 1.0), ("**x**", 1.0)):
        node.add(token(len(node.tokens), piece, probability))
    app = Host(chat, "probability")
    async with app.run_test(size=(60, 20)):
        assert [line.rstrip() for line in texts(app)[4:]] == ["# A fox", "", "**x**▌"]
        heat = THEMES["dark"].heat
        grounds = {
            segment.text.strip(): segment.style.bgcolor.get_truecolor().hex
            for y in range(20)
            for segment in app.transcript.render_line(y)
            if segment.style is not None and segment.style.bgcolor is not None
        }
        assert grounds["# A"] == heat[0]
        assert grounds["fox"] in heat[1:-1]
        assert grounds["**x**"] == heat[-1]


@pytest.mark.parametrize("look", LOOKS)
async def test_no_foreign_control_reaches_the_screen(look: Look) -> None:
    chat = Conversation()
    ask(chat, "\x1b]0;title\x07 \x9b2J \u202euser")
    node = reply(chat)
    hostile = [
        "\x1b",
        "]52;",
        "c;aGk=",
        "\x07",
        " \x9b",
        "31m ",
        "\u202e",
        "txt",
        "\n\n",
        "&#x1b;[2J",
        "\n\n",
        "```\x1b[1m",
    ]
    hostile += [
        "\n",
        "\x1b",
        "[2J\r",
        "\x7f\u2028",
        "\ud800",
        "\n```\n",
        "[a\x1b](http://\x1b\u2066)",
        "\n|\x1b|b|\n|-|-|",
    ]
    for piece in hostile:
        node.add(token(len(node.tokens), piece))
    node.add(Failed("engine", "died \x1b[31m", ""))
    app = Host(chat, look)
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        drawn = "".join(segment.text for y in range(40) for segment in app.transcript.render_line(y))
        drawn.encode()
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202a-\u202e\u2066-\u2069]", drawn)
        assert "␛]52;c;aGk=␇ <9B>31m <U+202E>txt" in drawn
        assert "died ␛[31m" in drawn


def steered(*pieces: str | float) -> Conversation:
    """A reply whose pieces are tokens, and temperatures set between them."""
    chat = chat_of("Go")
    node = reply(chat)
    for piece in pieces:
        node.add(token(len(node.tokens), piece) if isinstance(piece, str) else settings_record(piece))
    return chat


@pytest.mark.parametrize("look", LOOKS)
async def test_a_change_is_stamped_after_the_line_of_the_token_before_it(look: Look) -> None:
    app = Host(steered("one", " two", " three", 1.2, " four", " five", 0.5, "\n\n", "six"), look)
    async with app.run_test(size=(30, 20)):
        shown = [line.rstrip() for line in texts(app)[4:]]
        assert shown == [
            "one two three four five",
            "┊ temperature 0.8 → 1.2 at",
            "┊ token 3",
            "┊ temperature 1.2 → 0.5 at",
            "┊ token 5",
            "",
            "six▌",
        ]


@pytest.mark.parametrize("look", LOOKS)
async def test_a_stamp_stands_inside_a_long_paragraph(look: Look) -> None:
    words = [f" word{n}" for n in range(60)]
    app = Host(steered(*words[:30], 1.2, *words[30:]), look)
    async with app.run_test(size=(50, 40)) as pilot:
        await settled(pilot)
        shown = texts(app)
        at = next(y for y, line in enumerate(shown) if line.startswith("┊"))
        assert shown[at] == "┊ temperature 0.8 → 1.2 at token 30"
        assert "word29" in shown[at - 1]


@pytest.mark.parametrize("look", LOOKS)
async def test_a_stamp_appears_at_once_and_several_changes_between_two_tokens_are_one(look: Look) -> None:
    chat = steered(1.5, "one", " two")
    node = chat.nodes[chat.leaf or 0]
    app = Host(chat, look)
    async with app.run_test(size=(60, 20)):
        assert texts(app)[4:] == ["one two▌"], "a change before the first token changes nothing that was drawn"
        for temperature in (1.6, 1.7, 0.2):
            node.add(settings_record(temperature))
            app.transcript.grew(node.number)
        assert texts(app)[4:] == ["one two▌", "┊ temperature 1.5 → 0.2 at token 2"]
        node.add(settings_record(1.5))
        app.transcript.grew(node.number)
        assert texts(app)[4:] == ["one two▌"], "turned back before a token was drawn"


async def test_a_continued_reply_is_one_turn_and_stamps_what_changed_in_between() -> None:
    chat = chat_of("Go", "one two", end=finished("user", held=" thr"))
    first = chat.nodes[chat.leaf or 0]
    app = Host(chat)
    async with app.run_test(size=(60, 20)):
        assert texts(app)[4:] == ["one two thr", "╌ stopped"]
        node = chat.grow_node("assistant", parent=first.number, at=len(first.ids))
        node.add(start())
        node.add(settings_record(1.2))
        node.add(token(2, "ee"))
        app.transcript.show(chat)
        assert texts(app)[4:] == ["one two three▌", "┊ temperature 0.8 → 1.2 at token 2"]


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (finished("end"), None),
        (finished("user"), "╌ stopped"),
        (finished("length", "max_tokens 64"), "╌ reached max_tokens 64"),
        (finished("context", "512 of 512"), "╌ context full: 512 of 512 tokens"),
        (finished("stop", "\n6.\x1b"), '╌ stop sequence "\\n6.\\u001b"'),
        (finished("stop"), "╌ stop sequence"),
        (Failed("engine", "the engine died"), "╌ interrupted: the engine died"),
    ],
)
async def test_an_end_that_is_not_the_model_s_own_is_told(end: Finished | Failed, shown: str | None) -> None:
    app = Host(chat_of("Go", "one two", end=end))
    async with app.run_test(size=(60, 20)):
        assert texts(app)[4:] == ["one two", *([shown] if shown else [])]


async def test_a_reply_that_nobody_writes_any_more_has_no_caret() -> None:
    chat = chat_of("Go")
    reply(chat, "one two")
    app = Host(chat, running=False)
    async with app.run_test(size=(60, 20)):
        assert texts(app)[4:] == ["one two", "╌ interrupted"]


@settings(max_examples=15, deadline=None)
@given(st.lists(bits, min_size=1, max_size=25), st.sampled_from(LOOKS), st.integers(8, 60))
async def test_any_markdown_streams_to_the_lines_it_would_be_shown_with(
    pieces: list[str], look: Look, width: int
) -> None:
    chat = chat_of("Go")
    node = reply(chat)
    app = Host(chat, look)
    async with app.run_test(size=(width, 12)) as pilot:
        for piece in pieces:
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(node.number)
        node.add(finished())
        app.transcript.grew(node.number)
        streamed = texts(app)
        app.transcript.look = "probability" if look == "reading" else "reading"
        app.transcript.look = look
        await settled(pilot)
        assert texts(app) == streamed


def test_a_reply_that_was_taken_in_as_text_names_no_seed() -> None:
    chat = Conversation()
    user = chat.grow_node("user", parent=None, at=0, text="Name a colour.")
    node = chat.grow_node("assistant", parent=user.number, at=0)
    node.add(start(seed=0))
    source = TurnSource((Part(node, None),))
    assert source.describe_speaker() == ("smollm2", "seed 0")  # it may begin at any moment
    node.add(Finished("end", "", "", 0, None, 0.0, 0.0, None))
    assert source.describe_speaker() == ("smollm2", "")
