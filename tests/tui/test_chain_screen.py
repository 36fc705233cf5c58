"""The chain on the screen: what it shows of each stage, what is folded away, and its order, changed while a reply streams."""

from __future__ import annotations

import re

import pytest

from termchat.decoding.records import Candidate, Stage
from termchat.decoding.samplers import ORDER, Tuning
from termchat.engine.port import Adjust
from tests.tui.running_app import Desktop, click, desktop, place, talked

STAGES = [
    Stage("penalties", 49152, 1.0),
    Stage("top_k", 40, 0.912),
    Stage("top_p", 11, 0.953),
    Stage("min_p", 9, 0.991),
    Stage("temperature", 9, 1.0),
    Stage("dice", 1, 0.31),
]


def rows(desk: Desktop) -> dict[str, list[str]]:
    """What the panel shows of each knob: label to the rest of its row."""
    lines = (line.split("│")[-1] for line in desk.text.splitlines() if "│" in line)
    found = (re.fullmatch(r" (\w) (\w+) +(.*)", line) for line in lines)
    return {match[2]: re.sub("[━─]+", "", match[3]).split() for match in found if match}


async def test_each_stage_shows_what_it_left_of_this_token() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One")
        desk.engine.say(" two", stages=STAGES)
        await desk.settle()
        assert {label: row[1:] for label, row in rows(desk).items() if len(row) > 1} == {
            "repeat": ["49152"],
            "top_k": ["91%", "40"],
            "top_p": ["95%", "11"],
            "min_p": ["99%", "9"],
            "temp": ["9"],
        }


async def test_what_needs_the_whole_vocabulary_is_named_with_what_it_takes() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One")
        desk.engine.say(" two", stages=STAGES, sample_us=2930)
        await desk.type("", "ctrl+t", "k", "0", "enter")
        assert re.search("top_p needs all tokens +2.9 ms/token", desk.text)
        desk.engine.say(" three", stages=STAGES, sample_us=0)  # as a preview, which was not timed
        await desk.settle()
        assert "top_p needs all tokens" in desk.text
        assert "ms/token" not in desk.text
        await desk.type("", "p", "x")
        assert "needs all tokens" not in desk.text  # min_p cuts first: its floor is known


async def test_one_key_or_a_click_shows_every_stage_and_folds_them_again() -> None:
    async with desktop((120, 50)) as desk:
        folded = [*rows(desk)]
        assert "xtc" not in folded
        await desk.type("", "ctrl+t", "v")
        assert set(rows(desk)) > {*folded, "dry", "n_sigma", "typical", "xtc", "p_less", "top_h", "min_k", "mirostat"}
        await desk.type("", "v")
        assert [*rows(desk)] == folded
        await desk.type("", "escape")
        await click(desk, "more stages are off")
        assert "mirostat" in rows(desk)
        assert " TUNE " in desk.text
        await click(desk, "folds")
        assert [*rows(desk)] == folded


async def test_a_low_screen_shows_the_knob_that_tune_is_on_and_the_row_that_folds() -> None:
    async with desktop((80, 24)) as desk:
        await desk.type("", "ctrl+t", "v", "c")
        assert "xtc" in rows(desk)
        assert "every stage" in desk.text


@pytest.mark.parametrize(("height", "timed"), [(20, False), (24, True)])
async def test_on_a_low_screen_candidates_come_before_timing_and_that_before_notes(height: int, timed: bool) -> None:
    words = "coffee black tea cocoa green milk"
    candidates = [
        Candidate(at, f" {word}", 9.0 - at, -2.0 - at, 0.1, 0.0, None) for at, word in enumerate(words.split())
    ]
    async with desktop((80, height)) as desk:
        desk.chat.adjust_all({"top_p": 0.3, "top_k": 0}, {"top_p": "lesson", "top_k": "lesson"})
        await desk.sent("go", "One")
        desk.engine.say(" two", id=0, stages=STAGES, candidates=candidates, sample_us=2930)
        await desk.type("", "ctrl+b")
        assert all(f"·{word}" in desk.text for word in words.split())
        assert set(rows(desk)) >= {"top_k", "top_p", "min_p", "temp", "stop", "max", "seed"}
        assert ("TTFT" in desk.text, "from lesson" in desk.text) == (timed, False)


async def test_the_order_is_changed_while_a_reply_streams_and_shown() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One", " two")
        await desk.type("", "ctrl+t", "m", "shift+up", "shift+up")
        assert [*rows(desk)][:5] == ["repeat", "min_p", "top_k", "top_p", "temp"]
        sent = [command.samplers.order for command in desk.engine.asked(Adjust) if command.samplers is not None]
        assert [one for one in sent[-1] if one in ("top_k", "top_p", "min_p")] == ["min_p", "top_k", "top_p"]
        desk.engine.say(" three")
        await desk.settle()
        assert "order" in rows(desk)
        assert "order: min_p before top_k at token 2" in desk.text
        assert desk.chat.busy
        await desk.type("", "z", "z")
        assert desk.chat.tuning.order == ORDER


async def test_what_mirostat_replaces_says_so_and_comes_back() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "o", "2", "enter")
        assert [label for label, row in rows(desk).items() if row[1:2] == ["mirostat"]] == ["top_k", "top_p", "min_p"]
        assert "mirostat instead" in desk.text
        await desk.type("", "x")
        assert "instead" not in desk.text


async def test_a_stage_is_dragged_to_another_row_while_a_reply_streams_and_one_undo_takes_it_back() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One")
        x, y = place(desk, "m min_p")
        _, top = place(desk, "k top_k")
        await desk.pilot.mouse_down(None, offset=(x + 3, y))
        for at in range(y - 1, top - 1, -1):
            await desk.pilot.hover(None, offset=(x + 3, at))
            await desk.settle()
        assert [*rows(desk)][:5] == ["repeat", "min_p", "top_k", "top_p", "temp"]
        await desk.pilot.hover(None, offset=(x + 9, top))  # beside, on the same row
        await desk.pilot.mouse_up(None, offset=(x + 9, top))
        await desk.settle()
        assert desk.chat.tuning.order.index("min_p") == ORDER.index("top_k")
        await desk.pilot.hover(None, offset=(x + 3, y))  # the button is up
        await desk.settle()
        assert [*rows(desk)][:3] == ["repeat", "min_p", "top_k"]
        await desk.type("", "ctrl+t", "z")
        assert desk.chat.tuning.order == ORDER


async def test_the_rows_of_one_stage_do_not_flicker_under_a_stage_that_is_dragged_over_them() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "f", "1", "enter")  # three rows of penalties
        x, y = place(desk, "k top_k")
        await desk.pilot.mouse_down(None, offset=(x + 3, y))
        orders = []
        for at in (y - 1, y - 2, y - 3, y - 2, y - 1, y, y + 1):
            await desk.pilot.hover(None, offset=(x + 3, at))
            await desk.settle()
            orders.append(desk.chat.tuning.order.index("top_k") - desk.chat.tuning.order.index("penalties"))
        await desk.pilot.mouse_up(None, offset=(x + 3, y + 1))
        assert [one > 0 for one in orders] == [False, False, False, True, True, True, True]


async def test_what_has_no_place_in_the_order_cannot_be_dragged() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "o", "1", "enter")
        x, y = place(desk, "o mirostat")
        await desk.pilot.mouse_down(None, offset=(x + 3, y))
        await desk.pilot.hover(None, offset=(x + 3, y - 1))
        await desk.pilot.mouse_up(None, offset=(x + 3, y - 1))
        await desk.settle()
        assert desk.chat.tuning.order == ORDER
        assert "mirostat always comes last" in desk.text


async def test_a_new_chat_has_nothing_of_the_old_one_to_undo() -> None:
    async with desktop() as desk:
        await talked(desk, ("hi", " one"))
        await desk.type("", "ctrl+t", "t", "1", "enter", "2", "enter", "escape")
        assert desk.chat.tuning.temperature == 2
        await desk.type("", "ctrl+n", "ctrl+t", "z")
        assert "nothing to undo" in desk.text
        assert desk.chat.tuning.temperature == Tuning().temperature
