"""The walks view: what it shows of walks that run, what its keys do to them, and how it is left."""

from __future__ import annotations

import math
import re

import pytest
from textual.geometry import Region

from termchat.chat.groups import list_groups
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.records import TAIL
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Adjust,
    Cancel,
    Force,
    Join,
    Keep,
    Pause,
    Resume,
    Step,
)
from termchat.tui.composer.composer import Composer
from termchat.tui.pages.shown_group import FEWEST
from termchat.tui.screen.walks_view import WalkColumn, arrange_parts
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript import view as transcript_view
from tests.chats import chat_on
from tests.tui.running_app import Desktop, click, desktop
from tests.tui.walks import PROMPT, say, view, walking


def columns(desk: Desktop) -> list[WalkColumn]:
    """Those that are shown, from left to right."""
    shown = [column for column in desk.app.query(WalkColumn) if column.display]
    return sorted(shown, key=lambda column: column.region.x)


def text_of(column: WalkColumn) -> str:
    """What a column shows, its lines joined."""
    strips = column.text.render_lines(column.text.size.region)
    return " ".join(" ".join(strip.text for strip in strips).replace("▌", "").split())


def table(desk: Desktop) -> dict[int, list[str]]:
    """The rows of the table of figures: number of a walk to what stands behind its label."""
    rows = (re.search(r"^ +(\d+) seed \d+ +(\d.*)", line) for line in desk.text.splitlines())
    return {int(row[1]): row[2].split() for row in rows if row and not re.search("[●■❚─]", row[0])}


def leaf(desk: Desktop) -> int:
    """The number, from 1, of the walk that the chat ends in."""
    group = desk.chat.walks.shown
    assert group is not None
    walk = group.walk_of(desk.chat.conversation.leaf)
    assert walk is not None
    return walk + 1


def told(desk: Desktop, kind: type) -> list[int | None]:
    """To which walks a command was sent; None is to all."""
    return [command.reply for command in desk.engine.asked(kind)]


# --- what it shows ------------------------------------------------------------------------------------------------------


async def test_walks_stand_side_by_side_under_the_end_of_their_prompt() -> None:
    async with walking(4) as desk:
        assert PROMPT in desk.text.splitlines()[2]
        assert len(columns(desk)) == 4
        assert all(column.text.size.width >= 24 for column in columns(desk))
        assert text_of(columns(desk)[0]) == "The best thing about the sea is its vastness , and".replace(" ,", ",")
        assert text_of(columns(desk)[3]).endswith("that it is always there.")
        say(desk.engine, 0, " more")
        await desk.settle()
        assert text_of(columns(desk)[0]).endswith("and more")
        assert [command.group.size for command in desk.engine.groups if command.group] == [4]


async def test_where_there_is_no_room_they_are_a_list_with_one_in_full() -> None:
    async with walking(4, (80, 24)) as desk:
        assert [text_of(column)[:18] for column in columns(desk)] == ["The best thing abo"]
        lines = desk.text.splitlines()
        for number in range(1, 5):
            begins = rf"^ +{number} seed {number} .*The best thing about the sea is"
            assert any(re.search(begins, line) for line in lines), number
        await desk.type("", "down", "down")
        assert leaf(desk) == 3
        await desk.until(lambda: text_of(columns(desk)[0]).endswith("waves on the shore at night."))
        await desk.type("", "4")
        await desk.until(lambda: text_of(columns(desk)[0]).endswith("always there."))


async def test_more_walks_than_a_list_has_lines_are_scrolled_to() -> None:
    async with walking(20, (80, 24)) as desk:
        assert not re.search(r"^ 20 seed 20", desk.text, re.M)
        await desk.type("", "up")
        assert leaf(desk) == 20
        assert re.search(r"^ 20 seed 20", desk.text, re.M)


async def test_shared_beginnings_are_drawn_once_and_each_way_on_names_its_walks() -> None:
    async with walking(4) as desk:
        lines = desk.text[desk.text.index("WHERE THEY PART") :].splitlines()[1:7]
        shared, *ways = lines
        assert re.search(r"The best thing about the sea is +1 +\d+% +1-4$", shared)
        assert [re.sub(r"^[ │├└]+|  +.*", "", way) for way in ways] == [
            "its vastness",
            ", and",
            ". You can look out",
            "the sound of waves on the shore at night.",
            "that nobody owns it, and that it is always there.",
        ]
        assert [way.split()[-1] for way in ways] == ["1-2", "1", "2", "3", "4"]
        group = desk.chat.walks.shown
        assert group is not None
        taken = group.nodes[2].tokens.probabilities[7]
        assert f"{taken:.0%}" == ways[3].split()[-2]


async def test_the_page_of_forks_says_what_else_could_have_been_taken() -> None:
    async with walking(4, chat=lambda engine: chat_on(engine, Tuning(seed=1), kept=True)) as desk:
        assert "not taken" not in desk.text
        await desk.type("", "tab")
        forks = [line.strip(" │") for line in desk.text.splitlines() if "not taken" in line]
        assert len(forks) == 2  # of "its", "the" and "that", then of "," and "."
        group = desk.chat.walks.shown
        assert group is not None
        record = desk.chat.session.read_token(group.nodes[0], 7)
        assert record is not None
        likeliest = sorted(record.candidates, key=lambda one: -one.probability)[:4]
        told = "  ".join(f"·{one.text.strip()} {one.probability:.1%}" for one in likeliest)
        assert forks[0] == f"┊ not taken: {told}"


@pytest.mark.parametrize("walks", [1, 2, 4, 8, 9, 32])
def test_every_part_has_its_rows_and_the_text_comes_first(walks: int) -> None:
    for width in range(38, 240, 7):
        for height in range(5, 70):
            parts = arrange_parts(width, height, walks, 3 * walks, walks + 2)
            rest = height - 1 - parts.prompt - parts.parting - parts.listed - parts.table
            assert rest >= min(height // 3, 8), (width, height, parts)
            assert not parts.columns or width // parts.columns >= 24
            assert bool(parts.listed) != bool(parts.columns)


async def test_the_table_says_what_each_walk_comes_to() -> None:
    async with walking(4) as desk:
        desk.engine.end(walk=2)
        await desk.type("", "2")
        group = desk.chat.walks.shown
        assert group is not None
        rows = table(desk)
        assert sorted(rows) == [1, 2, 3, 4]
        for number, row in rows.items():
            tokens = group.nodes[number - 1].tokens
            mean = math.fsum(tokens.logprobs) / len(tokens)
            pairs = list(zip(tokens.ids, tokens.ids[1:], strict=False))
            assert row[0] == str(len(tokens))
            assert row[1] == ("end" if number == 3 else "running")
            assert row[2:5] == [f"{mean:.2f}".replace("-", "−"), f"{math.exp(-mean):.2f}",
                                f"{math.fsum(tokens.entropies) / len(tokens):.2f}"]  # fmt: skip
            assert row[6] == f"{len(set(pairs)) / len(pairs):.2f}"
        assert [row[8:] for _, row in sorted(rows.items())] == [["9"], ["this"], ["7"], ["7"]]
        assert "4 of 4 different · the first two part at token 8" in desk.text
        desk.engine.say(" on", walk=1, state={TAIL: 0.1})
        await desk.settle()
        assert [row[4].startswith("≤") for _, row in sorted(table(desk).items())] == [False, True, False, False]


async def test_one_key_turns_to_where_they_part_and_to_the_table_where_all_has_no_room() -> None:
    async with walking(4, (80, 24)) as desk:
        assert "WHERE THEY PART" not in desk.text
        await desk.type("", "tab")
        assert "WHERE THEY PART" in desk.text
        assert not columns(desk)
        await desk.type("", "tab")
        assert "mean logp" in desk.text
        assert len(table(desk)) == 4
        await desk.type("", "3")  # the cursor goes on
        assert leaf(desk) == 3
        await desk.type("", "tab")
        assert len(columns(desk)) == 1
        await click(desk, "parting")
        assert "WHERE THEY PART" in desk.text


async def test_each_stays_at_its_end_unless_a_reader_has_scrolled_up() -> None:
    async with walking(2) as desk:
        for walk in range(2):
            say(desk.engine, walk, *(f" {walk}.{at}" for at in range(400)))
        await desk.settle()
        assert [text_of(column).endswith(f"{at}.399") for at, column in enumerate(columns(desk))] == [True, True]
        await desk.type("", "up", "up")
        first = columns(desk)[0].text
        before = text_of(columns(desk)[0])
        for walk in range(2):
            say(desk.engine, walk, *(f" {walk}.{at}" for at in range(400, 480)))
        await desk.settle()
        assert text_of(columns(desk)[0])[:200] == before[:200]
        assert text_of(columns(desk)[1]).endswith("1.479")
        await desk.type("", "ctrl+end")
        assert first.following
        assert text_of(columns(desk)[0]).endswith("0.479")


async def test_a_token_of_one_walk_draws_its_own_last_lines_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with walking(4) as desk:
        drawn: list[tuple[object, Region]] = []
        touch = transcript_view.touch
        monkeypatch.setattr(
            transcript_view, "touch", lambda shown, *of: (drawn.extend((shown, one) for one in of), touch(shown, *of))
        )
        say(desk.engine, 1, " more")
        await desk.settle()
        assert {one for one, _ in drawn} == {columns(desk)[1].text}
        assert max(region.height for _, region in drawn) == 1


async def test_the_look_is_the_same_for_all() -> None:
    async with walking(4) as desk:
        assert {column.text.look for column in columns(desk)} == {"probability"}
        await desk.type("", "ctrl+l")
        assert {column.text.look for column in columns(desk)} == {"after"}
        await desk.type("", "2", "ctrl+g", "ctrl+l", "escape")
        assert {column.text.look for column in columns(desk)} == {"entropy"}


async def test_what_batching_gains_is_told_beside_one_reply_alone() -> None:
    async with walking(4) as desk:
        assert "a single reply" not in desk.text
        desk.engine.end()
        await desk.type("", "enter")
        desk.chat.forks.regenerate()
        desk.chat.pump_events()
        for _ in range(FEWEST):
            desk.engine.say(" alone")
        desk.engine.end()  # at 118 tokens a second, the fake engine says
        await desk.settle()
        desk.chat.walks.start(walk_plan.walks(2), text="again")
        await desk.settle()
        for _ in range(2):  # the first time they are too short to tell
            assert "a single reply" not in desk.text
            for walk in range(2):
                say(desk.engine, walk, *("again " * (FEWEST - 1)).split())
            await desk.settle()
        assert re.search(r"48 t/s each · 96 t/s total · 0.8× a single reply", desk.text)


# --- what its keys do ---------------------------------------------------------------------------------------------------


async def test_a_number_an_arrow_and_a_click_choose_a_walk_and_it_is_where_the_chat_ends() -> None:
    async with walking(4) as desk:
        assert leaf(desk) == 1
        await desk.type("", "3")
        assert leaf(desk) == 3
        await desk.type("", "right", "right")
        assert leaf(desk) == 1
        await desk.type("", "left")
        assert leaf(desk) == 4
        await click(desk, "2 seed 2")
        assert leaf(desk) == 2
        await desk.type("", "9")
        assert "there are 4 walks" in desk.text


async def test_enter_keeps_a_walk_and_the_chat_goes_on_from_it() -> None:
    async with walking(4) as desk:
        desk.engine.end()
        await desk.type("", "4", "enter")
        assert desk.chat.walks.shown is None
        assert not view(desk).display
        assert desk.app.query_one(Composer).has_focus
        transcript = desk.app.screen_stack[0].transcript  # type: ignore[attr-defined]
        assert transcript.display
        assert "that nobody owns it, and that it is" in desk.text
        assert [command.reply for command in desk.engine.asked(Keep)] == [3]
        await desk.sent("Why?", " Because")
        assert [text for _, text in desk.chat.conversation.list_turns()][-3:-1] == [
            "The best thing about the sea is that nobody owns it, and that it is always there.", "Why?",
        ]  # fmt: skip
        assert len(list_groups(desk.chat.conversation)[0].nodes) == 4


async def test_the_others_end_when_one_that_runs_is_kept() -> None:
    async with walking(4) as desk:
        await desk.type("", "2", "enter")
        assert sorted(walk for walk in told(desk, Cancel) if walk is not None) == [0, 2, 3]
        assert ["looking", "out"][0][:4] in desk.text
        say(desk.engine, 1, " to", " sea")
        await desk.settle()
        assert "out to sea" in desk.text


async def test_all_can_be_kept() -> None:
    async with walking(3) as desk:
        await desk.type("", "a")
        assert desk.chat.walks.shown is None
        assert told(desk, Cancel) == []


async def test_one_walk_is_stopped_and_then_all_of_them() -> None:
    async with walking(3) as desk:
        await desk.type("", "2", "k")
        assert told(desk, Cancel) == [1]
        assert re.search(r"2 seed 2 ─+ 14 ■", desk.text)
        assert "k stop" in desk.text.splitlines()[-1]
        await desk.type("", "escape")
        assert told(desk, Cancel) == [1, None]
        assert desk.chat.walks.shown is not None  # they can be read
        assert "k stop" not in desk.text.splitlines()[-1]
        await desk.type("", "escape")
        assert desk.chat.walks.shown is None
        assert leafless(desk) == "The best thing about the sea is its vastness. You can look out"


def leafless(desk: Desktop) -> str:
    return [text for _, text in desk.chat.conversation.list_turns()][-1]


async def test_they_are_paused_and_stepped_together_or_one_by_one() -> None:
    async with walking(2) as desk:
        await desk.type("", "n")
        assert "pause the walks before stepping" in desk.text
        await desk.type("", "space")
        assert told(desk, Pause) == [None]
        assert re.search(r"1 seed 1 ─+ 11 ❚❚", desk.text)
        assert "Space resume" in desk.text.splitlines()[-1]
        await desk.type("", "n", "2", "N")
        assert told(desk, Step) == [None, 1]
        await desk.type("", "space")
        assert told(desk, Resume) == [None]
        await desk.type("", "p")
        assert told(desk, Pause) == [None, 1]
        assert re.search(r"1 seed 1 ─+ 12 ●", desk.text)
        await desk.type("", "p")
        assert told(desk, Resume) == [None, 1]


async def test_the_knobs_of_one_walk_are_turned_and_its_head_says_so() -> None:
    async with walking(4, (200, 60)) as desk:
        await desk.type("", "3", "t", "t", "1", "full_stop", "2", "enter")
        assert "TUNE walk 3" in desk.text
        assert [(command.reply, command.samplers.temperature) for command in desk.engine.asked(Adjust)
                ] == [(2, 1.2)]  # fmt: skip
        assert desk.chat.tuning.temperature == 0.8
        assert re.search(r"temp +1\.2 ", desk.text)  # the panel has its values
        await desk.type("", "z", "z")
        assert "nothing to undo" in desk.text
        await desk.type("", "right", "escape")
        heads = desk.text.splitlines()
        assert any(re.search(r"2 temp 0\.8 .*3 temp 0\.85 .*4 temp 0\.8 ", line) for line in heads)
        assert "temperature 0.8 → 0.85 at token 17" in text_of(columns(desk)[2]).replace("┊ ", "")
        assert desk.app.focused is view(desk).head


async def test_the_knobs_of_all_are_turned() -> None:
    async with walking(4) as desk:
        await desk.type("", "ctrl+t", "t", "1", "full_stop", "2", "enter", "escape")
        assert desk.chat.tuning.temperature == 1.2
        assert told(desk, Adjust) == [0, 1, 2, 3]


async def test_a_walk_that_is_over_has_no_knobs_of_its_own() -> None:
    async with walking(2) as desk:
        desk.engine.end(walk=0)
        await desk.type("", "t")
        assert "this walk has ended" in desk.text


async def test_token_mode_is_in_the_walk_and_goes_to_the_same_step_of_another() -> None:
    async with walking(4) as desk:
        await desk.type("", "3", "ctrl+g", "left")
        assert "TOKEN 15 ·night" in desk.text
        await desk.type("", ">")
        assert leaf(desk) == 4
        assert "TOKEN 15 ·is" in desk.text
        await desk.type("", "escape")
        assert desk.app.focused is view(desk).head
        assert len(columns(desk)) == 4


async def test_a_token_that_is_clicked_is_looked_at_in_its_walk() -> None:
    async with walking(4, (200, 60)) as desk:
        third = columns(desk)[2].text.region
        await desk.pilot.click(None, offset=(third.x + 3, third.y + 1))
        await desk.settle()
        assert leaf(desk) == 3
        cursor = columns(desk)[2].text.cursor
        assert cursor is not None
        assert desk.app.query_one(TranscriptView).cursor is None
        assert f"TOKEN {cursor.index} " in desk.text


async def test_a_fork_at_a_token_is_one_more_walk() -> None:
    async with walking(2) as desk:
        await desk.type("", "2", "f")
        assert "choose the token to fork at" in desk.text
        await desk.type("", *["left"] * 4, "x")
        assert [len(command.reply.ids) for command in desk.engine.asked(Join)] == [len(desk.engine.prompt) + 9]
        await desk.type("", "t")
        await desk.type(" blue", "enter", "escape")
        joined = desk.engine.asked(Join)[-1].reply
        assert [scripted.id for scripted in joined.script] == desk.engine.words.ids(" blue")
        await desk.until(lambda: len(columns(desk)) == 4)
        assert text_of(columns(desk)[3]).startswith("The best thing about the sea is its vastness blue")
        assert "4 from 2, token 10" in desk.text


async def test_a_paused_walk_takes_the_token_that_is_chosen_and_the_others_do_not() -> None:
    async with walking(2) as desk:
        await desk.type("", "space", "2", "ctrl+g", "1")
        assert told(desk, Force) == [1]


# --- the rest of the screen ---------------------------------------------------------------------------------------------


async def test_the_composer_stays_and_its_message_goes_on_from_the_walk_under_the_cursor() -> None:
    async with walking(2) as desk:
        desk.engine.end()
        await desk.type("", "2")
        await click(desk, "/ to type")
        assert desk.composer.has_focus
        await desk.type("", "escape")
        assert desk.app.focused is view(desk).head
        await click(desk, "/ to type")
        await desk.sent("Go on", " and")
        assert desk.chat.walks.shown is None
        turns = [text for _, text in desk.chat.conversation.list_turns()]
        assert turns[-3:] == ["The best thing about the sea is its vastness. You can look out", "Go on", " and"]


async def test_replies_that_run_out_of_sight_are_told_and_shown_again() -> None:
    async with walking(3) as desk:
        await desk.type("", "a")
        assert desk.chat.walks.shown is None
        assert "running 2 more replies  Ctrl+Y shows them" in desk.text
        await desk.type("", "ctrl+y")
        assert len(columns(desk)) == 3
        assert "more replies" not in desk.text
        await desk.type("", "a")
        await click(desk, "2 more replies")
        assert len(columns(desk)) == 3
        await desk.type("", "a")
        desk.engine.end()
        await desk.settle()
        assert "more replies" not in desk.text


async def test_a_search_is_not_left_to_run_blind() -> None:
    async with desktop() as desk:
        desk.chat.walks.start(walk_plan.beams(BeamSettings(2)), text="The capital of France is")
        await desk.settle()
        desk.engine.look(" Paris", " located", dropped=(" a",))
        await desk.settle()
        await desk.type("", "a")
        assert "BEAMS" in desk.text
        assert "a beam is not a reply yet" in desk.text
        await desk.type("", "tab", "a")  # on the page of the text that is no beam's
        assert "running a beam search  Ctrl+Y shows it" in desk.text
        await desk.type("", "ctrl+y")
        assert "BEAMS" in desk.text


async def test_the_key_line_says_how_the_keys_of_the_walks_come_back() -> None:
    async with walking(2) as desk:
        await desk.type("/", "backspace")
        assert "Esc walks" in desk.text.splitlines()[-1]
        await desk.type("", "escape")
        assert desk.app.focused is view(desk).head
        assert desk.chat.walks.running


async def test_panels_keep_out_of_the_way_until_they_are_asked_for() -> None:
    async with walking(4) as desk:
        assert "NEXT TOKEN" not in desk.text
        await desk.type("", "ctrl+b")
        assert "NEXT TOKEN" in desk.text
        await desk.type("", "ctrl+b", "f6")
        assert "NEXT TOKEN" in desk.text
        assert not view(desk).display
        await desk.type("", "escape")
        assert len(columns(desk)) == 4
        assert desk.app.focused is view(desk).head


async def test_the_big_view_of_a_token_follows_a_walk_that_runs() -> None:
    async with walking(2) as desk:
        await desk.type("", "2", "ctrl+g", "f6")
        say(desk.engine, 1, *(f" w{at}" for at in range(200)))
        await desk.type("", "G")
        assert "▐w199▌" in desk.text
        await desk.type("", "f6", "escape")
        assert text_of(columns(desk)[1]).endswith("w199")


async def test_they_fit_whatever_the_size_of_the_terminal_becomes() -> None:
    async with walking(4) as desk:
        for size in ((80, 24), (40, 12), (30, 8), (200, 60), (120, 40)):
            await desk.pilot.resize_terminal(*size)
            await desk.settle()
        assert len(columns(desk)) == 4
        assert "WHERE THEY PART" in desk.text


async def test_another_chat_closes_them() -> None:
    async with walking(2) as desk:
        desk.engine.end()
        await desk.type("", "ctrl+n")
        assert not view(desk).display
        assert desk.composer.has_focus


async def test_a_group_is_shown_again_with_all_that_it_had() -> None:
    async with walking(4) as desk:
        desk.engine.end()
        await desk.type("", "3")
        before = desk.text.splitlines()[2:-3]
        await desk.type("", "enter")
        await click(desk, "walk 3 of 4")
        assert desk.text.splitlines()[2:-3] == before
        assert leaf(desk) == 3
        await desk.type("", "escape")
        await desk.type("/open-walks", "enter")
        assert len(columns(desk)) == 4
