"""What the token looks measure, the jumps between tokens worth a visit, and the ribbon of a whole reply."""

from __future__ import annotations

import math
import random
from statistics import median_high
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.heat import MeasureName, entropy_heat, probability_heat, rank_heat
from termchat.conversation.tree import Conversation, Node, Span
from termchat.tui.draw.ink import BLANK, HEATS
from termchat.tui.pages.token_bar import BLOCKS, ribbon_line, token_at
from termchat.tui.transcript import TOKEN_LOOKS, TokenLook, TokenRef, looks
from termchat.tui.transcript.cursor import Cursor, Move
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.looks import CALM, heats, legend_line
from termchat.tui.transcript.tokens import UNCERTAIN
from tests.tui.transcripts import PAINT, ask, chat_of, finished, reply, settings_record, shown, start, token


def measured(node: Node, count: int, seed: int = 1) -> None:
    """Adds tokens with random measures."""
    chance = random.Random(seed)
    for _ in range(count):
        node.add(
            msgspec.structs.replace(
                token(len(node.tokens), " fox", chance.random() ** 0.2),
                entropy=chance.expovariate(0.7),
                rank=int(chance.expovariate(2)),
                logprob=math.log(chance.random()) / 3,
                decode_us=int(6000 * chance.lognormvariate(0, 0.4)),
            )
        )


def test_scales_go_from_calm_to_hot() -> None:
    assert [probability_heat(p, CALM) for p in (1.0, 0.25, 0.01, 0.0)] == [CALM, 15, 3, 0]
    assert [entropy_heat(bits, CALM) for bits in (0.0, 3.0, 6.0, 17.0)] == [CALM, 16, 0, 0]
    assert [rank_heat(rank, CALM) for rank in (0, 1, 16, 256, 50_000)] == [CALM, 20, 10, 0, 0]
    assert all(rank_heat(rank, CALM) >= rank_heat(rank + 1, CALM) for rank in range(300))
    for broken in (math.nan, -1.0, math.inf):
        assert 0 <= probability_heat(broken, CALM) < HEATS
        assert 0 <= entropy_heat(broken, CALM) < HEATS


def test_time_is_measured_by_the_median_so_far_and_stays_as_it_was() -> None:
    node = reply(chat_of("Go"))
    measured(node, 40)
    once = list(heats(node.tokens, "time"))
    times = list(node.tokens.decode_us)
    for index, time in enumerate(times):
        ratio = min(max(time / median_high(times[: index + 1]), 1.0), 4.0)
        assert once[index] == CALM - int(math.log(ratio, 4) * CALM)
    node.add(msgspec.structs.replace(token(40, "slow"), decode_us=400_000))
    assert list(heats(node.tokens, "time")) == [*once, 0]


def test_the_legend_says_how_near_ties_are_marked_where_there_are_some() -> None:
    node = reply(chat_of("Go"))
    measured(node, 3)
    assert legend_line("rank", [Span(node, 3)]).text.endswith("  forced")
    node.add(msgspec.structs.replace(token(3, " fox"), near_tie=True))
    assert legend_line("rank", [Span(node, 3)]).text.endswith("  forced")
    assert legend_line("rank", [Span(node, 4)]).text.endswith("  forced  near tie")


@pytest.mark.parametrize("look", TOKEN_LOOKS)
def test_each_look_paints_the_heat_of_its_measure(look: TokenLook) -> None:
    chat = chat_of("Go")
    node = reply(chat)
    measured(node, 30)
    document = Document(60, look)
    document.show(chat, running=True)
    document.rows = 50
    document.show_end()
    cursor = Cursor(document)
    for index, heat in enumerate(heats(node.tokens, look)):
        cursor.put(TokenRef(node.number, index))
        strip = PAINT.strip(document.line(cursor.rows()[0]) or BLANK, document.width)
        segment = next(iter(strip.crop(cursor.spots[0].begin + 1, cursor.spots[0].end + 1)))
        color = PAINT.palette.heat[heat * len(PAINT.palette.heat) // HEATS]
        assert segment.style is not None
        assert segment.style.bgcolor is not None
        assert segment.style.bgcolor.get_truecolor().hex == color


def jumpy() -> tuple[Conversation, Cursor]:
    """Two replies, the first in two parts, with everything in them that can be jumped to."""
    chat = chat_of("Go")
    first = reply(chat)
    measured(first, 60, seed=3)
    first.add(settings_record(1.2))
    first.add(settings_record(0.8))
    measured(first, 20, seed=4)
    first.add(settings_record(0.3))
    measured(first, 40, seed=5)
    first.add(finished("user"))
    second = chat.grow_node("assistant", parent=first.number, at=len(first.ids))
    second.add(start())
    second.add(settings_record(1.9))
    measured(second, 50, seed=6)
    second.add(finished())
    ask(chat, "And?")
    measured(reply(chat), 80, seed=7)
    _, cursor = shown(chat, 50)
    return chat, cursor


def uncertain(node: Node, index: int) -> bool:
    bits = [-1.0, *node.tokens.entropies, -1.0]
    least = sorted(node.tokens.entropies)[int(UNCERTAIN * (len(node.tokens) - 1))]
    return bits[index + 1] >= least and bits[index] < bits[index + 1] >= bits[index + 2]


NAMES = ("probability (model)", "after (chain)", "entropy", "rank", "time")


def test_at_temperature_0_the_model_s_own_probability_still_has_colours() -> None:
    node = reply(chat_of("Go"))
    for step, own in enumerate((0.9, 0.3, 0.02)):
        node.add(msgspec.structs.replace(token(step, " fox", own), probability=1.0))
    assert list(heats(node.tokens, "after")) == [CALM] * 3
    assert list(heats(node.tokens, "probability")) == [int(math.sqrt(own) * CALM) for own in (0.9, 0.3, 0.02)]


def test_what_was_forced_is_never_hot_for_being_improbable() -> None:
    node = reply(chat_of("Go"))
    for forced in (True, False):
        unlikely = msgspec.structs.replace(token(len(node.tokens), " fox", 0.001, forced=forced), rank=900, entropy=9.0)
        node.add(unlikely)
        for look in TOKEN_LOOKS:  # as it streams
            heats(node.tokens, look)
    hot = {look: list(heats(node.tokens, look)) for look in TOKEN_LOOKS}
    assert {look: hot[look][0] for look in ("probability", "after", "rank", "entropy")} == {
        "probability": CALM, "after": CALM, "rank": CALM, "entropy": 0,
    }  # fmt: skip
    assert all(hot[look][1] < 2 for look in ("probability", "after", "rank", "entropy"))


def test_a_surprise_is_one_to_the_model_and_never_forced() -> None:
    chat = chat_of("Go")
    node = reply(chat)
    for own, forced in ((0.9, False), (0.05, True), (0.05, False), (0.9, False)):
        likely = token(len(node.tokens), " fox", own, forced=forced)
        node.add(msgspec.structs.replace(likely, probability=1.0))
    _, cursor = shown(chat, 50)
    cursor.put(cursor.track.at(0))
    cursor.move("surprise_next")
    assert cursor.ref == TokenRef(node.number, 2)


FORKS = {(2, 5), (2, 119), (5, 79), (77, 1)}


@pytest.mark.parametrize("kind", ["entropy", "surprise", "change", "fork"])
def test_jumps_visit_all_there_is_both_ways(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, cursor = jumpy()
    monkeypatch.setattr(chat, "find_forks", lambda: FORKS)
    nodes = [span.node for span in chat.find_path() if span.node.role == "assistant"]
    places = [TokenRef(node.number, index) for node in nodes for index in range(len(node.tokens))]
    wanted = {
        "entropy": [ref for ref in places if uncertain(chat.nodes[ref.node], ref.index)],
        "surprise": [
            ref
            for ref in places
            if chat.nodes[ref.node].tokens.ranks[ref.index]
            or math.exp(chat.nodes[ref.node].tokens.logprobs[ref.index]) < 0.1
        ],
        "change": [TokenRef(2, 80), TokenRef(3, 0)],
        "fork": [TokenRef(2, 5), TokenRef(2, 119), TokenRef(5, 79)],
    }[kind]
    assert wanted
    ways: dict[str, tuple[Move, Move]] = {
        "entropy": ("entropy_next", "entropy_prev"),
        "surprise": ("surprise_next", "surprise_prev"),
        "change": ("change_next", "change_prev"),
        "fork": ("fork_next", "fork_prev"),
    }
    for begin, way, order in ((places[0], 0, wanted), (places[-1], 1, wanted[::-1])):
        cursor.put(begin)
        seen = []
        while not seen or seen[-1] != cursor.ref:
            seen.append(cursor.ref)
            cursor.move(ways[kind][way])
        assert seen == [begin, *(ref for ref in order if ref != begin)]


@pytest.mark.parametrize("how", ["entropy_next", "surprise_next", "change_next", "fork_next"])
def test_jumps_go_past_a_reply_that_has_no_token_yet(how: Move) -> None:
    chat = chat_of("Go")
    measured(reply(chat), 30)
    reply(chat)
    _, cursor = shown(chat, 50)
    cursor.put(cursor.track.last())
    cursor.move(how)
    assert cursor.ref == TokenRef(2, 29)


def test_turns_are_walked_by_their_beginnings() -> None:
    _, cursor = jumpy()
    cursor.put(TokenRef(3, 10))
    for how, to in (
        ("turn_up", TokenRef(2, 0)),
        ("turn_up", TokenRef(2, 0)),
        ("turn_down", TokenRef(5, 0)),
        ("turn_down", TokenRef(5, 0)),
        ("last", TokenRef(5, 79)),
        ("turn_up", TokenRef(5, 0)),
        ("turn_up", TokenRef(2, 0)),
    ):
        cursor.move(how)  # type: ignore[arg-type]
        assert cursor.ref == to


@given(st.integers(1, 400), st.integers(1, 90), st.sampled_from(TOKEN_LOOKS), st.data())
def test_the_ribbon_shows_the_hottest_token_of_each_cell(
    count: int, width: int, look: TokenLook, data: st.DataObject
) -> None:
    node = reply(chat_of("Go"))
    at = data.draw(st.integers(0, count - 1))
    for part in (count // 3, count // 2, count):  # as it grows, so that what is remembered is asked too
        measured(node, part - len(node.tokens))
        line = ribbon_line([Span(node, part)], look, TokenRef(node.number, at), width)
        each = math.ceil(part / width) if part else 1
        hot = heats(node.tokens, look)
        lowest = [min(hot[begin : min(begin + each, part)]) for begin in range(0, part, each)]
        rises = look in ("probability", "after")
        assert line.text == "".join(BLOCKS[(heat if rises else CALM - heat) // 4] for heat in lowest)
        assert width / 2 <= len(line.text) <= width or part < width
        marked = [text for text, ink in line.runs if ink.color == "cursor"]
        assert marked == ([line.text[at // each]] if at < part else [])
        there = [token_at([Span(node, part)], look, column, width) for column in range(len(line.text))]
        assert [hot[ref.index] for ref in there if ref is not None] == lowest
        assert all(ref is not None and ref.index // each == column for column, ref in enumerate(there))


def test_the_ribbon_is_high_where_the_probability_is() -> None:
    node = reply(chat_of("Go"))
    for step, share in enumerate((1.0, 0.0001, 1.0)):
        node.add(msgspec.structs.replace(token(step, "a"), logprob=math.log(share), probability=share))
    for look in ("probability", "after"):
        assert ribbon_line([Span(node, 3)], look, None, 10).text == "█▁█"
    node.add(msgspec.structs.replace(token(3, "a"), forced=True, logprob=math.log(0.001)))
    assert ribbon_line([Span(node, 4)], "probability", None, 10).text == "█▁█·"


def test_a_reply_in_parts_is_one_ribbon_and_a_cut_one_ends_where_it_is_cut() -> None:
    chat, _ = jumpy()
    first, second = chat.nodes[2], chat.nodes[3]
    whole = [Span(first, 70), Span(second, 50)]
    line = ribbon_line(whole, "entropy", TokenRef(3, 10), 40)
    assert [(len(text), ink.color == "cursor") for text, ink in line.runs] == [(26, False), (1, True), (13, False)]
    cells = [token_at(whole, "entropy", column, 40) for column in (-1, 22, 24, 39, 40)]
    assert [ref and (ref.node, ref.index // 3) for ref in cells] == [None, (2, 22), (3, 0), (3, 16), None]
    assert ribbon_line([], "entropy", None, 40).text == ""
    assert ribbon_line([Span(first, 70)], "entropy", None, 0).text == ""


def test_a_streaming_ribbon_measures_no_token_twice() -> None:
    node = reply(chat_of("Go"))
    measured(node, 2000)
    ribbon_line([Span(node, 2000)], "entropy", None, 80)
    asked: list[float] = []
    looks._known[node.tokens]["entropy"]._scale = lambda bits: asked.append(bits) or 5
    measured(node, 3)
    ribbon_line([Span(node, 2003)], "entropy", None, 80)
    assert len(asked) == 3


@pytest.mark.parametrize(("look", "name"), [*zip(get_args(MeasureName), NAMES, strict=True)])
def test_the_legend_goes_from_hot_to_calm(look: TokenLook, name: str) -> None:
    line = legend_line(look)
    swatches = [ink.heat for _, ink in line.runs if ink.heat >= 0]
    assert swatches == sorted(swatches)
    assert swatches[0] == 0
    assert line.text.startswith(f"{name} ")
    assert line.text.endswith("forced")
    assert len(line.text) < 72
