"""The pages of a grid, of A/B, of a ranking and of beams: what they show, and what the keys do there. On a fake engine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import pytest
from textual.pilot import Pilot

from termchat.chat.service import Chat
from termchat.conversation.unsent import Wish
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings
from termchat.decoding.records import Beam, Beams, Candidate
from termchat.decoding.samplers import Tuning
from termchat.decoding.walk_plan import parse_grid
from termchat.engine.port import Join
from termchat.tui.app import TermchatApp
from termchat.tui.composer import chat_composer
from termchat.tui.pages.beams_page import BeamsPage, BeamSpot
from termchat.tui.pages.parting_pages import LockstepPage
from termchat.tui.pages.scene import Scene
from termchat.tui.pages.shown_group import ShownGroup
from termchat.tui.screen import walks_view
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import SPEC, Desktop, click, place, without_naps
from tests.tui.snapshots import Snapshot
from tests.tui.walks import PROMPT, say, view, walk, walking

WORDS = (" a", " calm", " sea", " at", " night", " with", " a", " moon", " above", " it", " and", " no", " wind")
GRID = walk_plan.grid(parse_grid(["temperature 0 0.5 1 1.5"]), 3)
TABLE = walk_plan.grid(parse_grid(["temperature 0 1", "top_p 0.5 0.95 1"]), 2)


def spoken(desk: Desktop, texts: Mapping[int, str], *, end: str = "end") -> None:
    """Each walk says its text, and ends."""
    for number, text in texts.items():
        say(desk.engine, number, *re.findall(r"\s?\S+", text))
        desk.engine.end(end, walk=number)


def remembered(engine: FakeEngine) -> Chat:
    return chat_on(engine, Tuning(seed=1), kept=True)


def row(desk: Desktop, begin: str) -> str:
    """The line of the screen that begins so."""
    return next(line for line in desk.text.splitlines() if line.strip(" ▌").startswith(begin))


# --- the grid ----------------------------------------------------------------------------------------------------------


async def fill(desk: Desktop) -> None:
    """Greedy runs are alike, the others are not; one runs still."""
    greedy = "The sea is calm ."
    texts = {
        0: greedy,
        1: greedy,
        2: greedy,
        3: "It is wide .",
        4: "It is wide .",
        5: "It is blue and wide .",
        6: "Salt .",
    }
    spoken(desk, texts)
    say(desk.engine, 7, " Waves", " that")
    await desk.settle()


async def test_a_grid_has_a_row_for_each_value_with_what_came_of_its_runs() -> None:
    async with walking(plan=walk_plan.walks(2)) as desk:
        desk.engine.end()
        await desk.settle()
        desk.chat.walks.keep_reply(0)
        desk.chat.walks.start(GRID, text=PROMPT)
        await desk.settle()
        await fill(desk)
        assert re.search(r"0 +The sea is calm \. +end +5 +\S+ +all alike", row(desk, "0 "))
        assert re.search(r"0\.5 +It is wide \. +end +5 +\S+ +2 of 3", row(desk, "0.5 "))
        assert "2 running" in row(desk, "1 ")
        assert "2 temp 0 · run 2" in desk.text
        assert "same as walk 1" in desk.text


async def test_arrows_choose_a_cell_and_enter_opens_its_walks() -> None:
    async with walking(plan=TABLE, size=(120, 40)) as desk:
        assert row(desk, "temperature").split() == ["temperature", "top_p", "0.5", "top_p", "0.95", "top_p", "off"]
        await desk.type("", "down", "right")
        group = desk.chat.walks.shown
        assert group is not None
        assert group.cursor == 8, "the second row's second cell, its first run"
        assert group.plan.changes[group.cursor] == {"temperature": 1.0, "top_p": 0.95}
        assert "Enter open" in desk.text
        await desk.type("", "enter")
        shown = view(desk).shown
        assert shown is not None
        assert (shown.page.name, shown.walks) == ("text", [8, 9])


async def test_a_table_that_is_too_wide_shows_the_columns_around_the_cursor() -> None:
    wide = walk_plan.grid(parse_grid(["temperature 0 1", "top_k 1 5 10 20 50 off"]))
    async with walking(plan=wide, size=(80, 24)) as desk:
        assert "top_k 1 " in desk.text
        assert "top_k 50" not in desk.text
        await desk.type("", *["right"] * 5)
        assert "top_k off" in desk.text
        assert "top_k 1 " not in desk.text


# --- A/B ---------------------------------------------------------------------------------------------------------------


def candidates(probabilities: Mapping[str, float | None]) -> list[Candidate]:
    return [
        Candidate(at + 1, text, 10.0 - at, -0.5 - at, share or 0.0, 0.1, None if share is not None else "top_k")
        for at, (text, share) in enumerate(probabilities.items())
    ]


async def part(desk: Desktop) -> None:
    """Two walks that part at the third token."""
    for walk_ in (0, 1):
        say(desk.engine, walk_, "The", " sea")
    first = candidates({" is": 0.61, " was": 0.09})
    second = candidates({" is": 0.22, " was": 0.31})
    desk.engine.say(" is", walk=0, id=1, probability=0.61, candidates=first)
    desk.engine.say(" was", walk=1, id=2, probability=0.31, candidates=second)
    for walk_ in (0, 1):
        say(desk.engine, walk_, *WORDS[: 6 + 7 * walk_])
        desk.engine.end(walk=walk_)
    await desk.settle()


async def compared(desk: Desktop) -> None:
    desk.chat.walks.start(walk_plan.compare({"temperature": 0.7}, {"temperature": 1.2}), text=PROMPT)
    await desk.settle()
    await part(desk)


async def test_the_next_version_is_the_next_walk_on_a_page_whose_keys_do_something_else() -> None:
    async with walking(plan=walk_plan.compare({"temperature": 0.7}, {"temperature": 1.2})) as desk:
        shown = view(desk).shown
        assert shown is not None
        assert (shown.page.name, shown.cursor) == ("A/B", 0)
        await desk.app.run_action("version(1)", desk.app.screen)
        await desk.settle()
        assert (shown.page.name, shown.cursor) == ("A/B", 1)


async def test_two_settings_stand_token_under_token_with_the_first_difference_explained() -> None:
    async with walking(plan=walk_plan.walks(2), chat=remembered) as desk:
        desk.engine.end()
        await desk.settle()
        await compared(desk)
        lines = desk.text.splitlines()
        top = next(at for at, line in enumerate(lines) if line.startswith(" A The"))
        assert lines[top].startswith(" A The sea is  a calm")
        assert lines[top + 1].startswith(" B The sea was a calm")
        assert lines[top + 2].index("▲ 3") == lines[top].index(" is")
        assert "they part at token 3 (A → B): ·is 61% → 22%, overtaken by ·was 9% → 31%" in desk.text
        assert "A token 3" in desk.text, "the cursor is where they part"
        await desk.type("", "left", "down")
        assert "B token 2" in desk.text
        group = desk.chat.walks.shown
        assert group is not None
        assert group.cursor == 1


@pytest.mark.parametrize("seed", range(4))
async def test_lines_that_grow_are_broken_as_if_they_were_there_at_once(seed: int) -> None:
    dice = Random(seed)
    pieces = (" a", " longer", " word", "\n", "", " extraordinarily", "x", " 漢字", ".")
    shared = [dice.choice(pieces) for _ in range(dice.randrange(40))]
    async with walking(plan=walk_plan.compare({"temperature": 0.7}, {"temperature": 1.2})) as desk:
        shown, counts, running = view(desk).shown, [0, 0], {0, 1}
        assert shown is not None
        page = shown.page
        for _ in range(60):
            for side in sorted(running):
                for _ in range(dice.randrange(4)):
                    piece = shared[counts[side]] if counts[side] < len(shared) else dice.choice(pieces)
                    desk.engine.say(piece, walk=side, id=100 + pieces.index(piece))
                    counts[side] += 1
                if dice.random() < 0.02 and counts[side]:
                    desk.engine.end(walk=side)
                    running.remove(side)
            desk.app.screen.tick()  # type: ignore[attr-defined]
            scene = Scene(60 if dice.random() < 0.05 else 80, 30)
            assert page.lines(scene) == LockstepPage(shown).lines(scene)


async def test_either_side_is_forked_with_a_candidate_while_it_runs() -> None:
    async with walking(plan=walk_plan.walks(2), chat=remembered) as desk:
        desk.engine.end()
        await desk.settle()
        desk.chat.walks.start(walk_plan.compare({}, {"temperature": 1.2}), text=PROMPT)
        await desk.settle()
        for walk_ in (0, 1):
            desk.engine.say("The", walk=walk_, id=1, candidates=candidates({"The": 0.5, "A": 0.4}))
        await desk.settle()
        assert "1-9 fork" in desk.text
        await desk.type("", "down", "2")
        (joined,) = desk.engine.asked(Join)
        assert (len(joined.reply.ids), [scripted.id for scripted in joined.reply.script]) == (
            len(desk.engine.groups[-1].replies[0].ids),
            [2],
        )


async def test_a_click_goes_to_a_token_and_forks_with_a_candidate() -> None:
    async with walking(plan=walk_plan.walks(2), chat=remembered) as desk:
        desk.engine.end()
        await desk.settle()
        desk.chat.walks.start(walk_plan.compare({}, {"temperature": 1.2}), text=PROMPT)
        await desk.settle()
        for walk_ in (0, 1):
            desk.engine.say("The", walk=walk_, id=1, candidates=candidates({"The": 0.5, "A": 0.4}))
            desk.engine.say(" sea", walk=walk_, id=2, candidates=candidates({" sea": 0.5, " sun": 0.4}))
        await desk.settle()
        x, y = place(desk, "B The sea")
        await desk.pilot.click(None, offset=(x + 3, y))
        await desk.settle()
        assert "B token 1" in desk.text
        await click(desk, "2 A ")
        (joined,) = desk.engine.asked(Join)
        assert (len(joined.reply.ids), [scripted.id for scripted in joined.reply.script]) == (
            len(desk.engine.groups[-1].replies[0].ids),
            [2],
        )


async def test_both_are_stepped_with_one_key() -> None:
    async with walking(plan=walk_plan.walks(2), chat=remembered) as desk:
        desk.engine.end()
        await desk.settle()
        desk.chat.send(PROMPT, Wish(walk_plan.compare({}, {"temperature": 1.2}), "wait"))
        await desk.settle()
        for walk_ in (0, 1):
            desk.engine.wait(walk=walk_, piece="Sea")
        await desk.settle()
        before = desk.text
        await desk.type("", "n")
        group = desk.chat.walks.shown
        assert group is not None
        assert [len(node.ids) for node in group.nodes.values()] == [1, 1]
        assert "Sea" in before


# --- best of n, and a vote ---------------------------------------------------------------------------------------------


async def test_the_best_comes_first_and_equal_replies_once_with_their_number() -> None:
    async with walking(plan=walk_plan.walks(2)) as desk:
        desk.engine.end()
        await desk.settle()
        await rank(desk)
        rows = [line for line in desk.text.splitlines() if re.match(r" [▌ ] [123–]  ", line)]
        assert "×2" in "".join(rows)
        means = [float(found[1].replace("−", "-")) for line in rows if (found := re.search(r"(−\d\.\d\d)", line))]
        assert means == sorted(means, reverse=True)
        assert len(means) == 2
        assert "unfinished, max_tokens" in rows[-1]
        assert "5" in rows[-1]


async def rank(desk: Desktop) -> None:
    desk.chat.walks.start(walk_plan.best(5), text=PROMPT)
    await desk.settle()
    spoken(desk, {0: "Deep water .", 1: "The light .", 2: "Deep water .", 3: "The light ."})
    spoken(desk, {4: "The wind and"}, end="length")
    await desk.settle()


async def vote(desk: Desktop) -> None:
    """42 three times, 41 once, one without a number, one unfinished."""
    desk.chat.walks.start(walk_plan.vote(7, r"\d+"), text="What is 17 + 25?")
    await desk.settle()
    spoken(desk, {0: "17 and 25 is 42", 1: "41", 2: "It is 42", 3: "no idea", 4: "42", 5: "42 ."})
    spoken(desk, {6: "Let us see 17 and"}, end="length")
    await desk.settle()


async def test_a_vote_counts_answers_and_says_who_is_left_out() -> None:
    async with walking(plan=walk_plan.walks(2)) as desk:
        desk.engine.end()
        await desk.settle()
        await vote(desk)
        assert "4 of 5 agree (80%) · 2 left out" in desk.text
        first = re.search(r"▌ 1  ([1356 ]+) ×4 +4  ━+─+ +80\.0% +\d+  42$", desk.text, re.MULTILINE)
        assert first is not None
        assert sorted(first[1].split()) == ["1", "3", "5", "6"]
        assert re.search(r" 2  2 +1  ━+─+ +20\.0% +\d+  41$", desk.text, re.MULTILINE)
        assert "no answer in it" in desk.text
        assert "unfinished, max_tokens" in desk.text
        group = desk.chat.walks.shown
        assert group is not None
        first = group.cursor
        await desk.type("", "right")
        assert group.cursor != first
        assert group.cursor in (0, 2, 4, 5), "another one with the same answer"
        assert "2/4 ›" in desk.text
        await desk.type("", "down")
        assert group.cursor == 1


# --- beams -------------------------------------------------------------------------------------------------------------


def beam(place: int, parent: int, text: str, score: float, *, finished: bool = False) -> Beam:
    return Beam(place, parent, 9000 + place, text, -0.5, score, finished)


STEPS = [
    Beams(0, [beam(0, 0, " Paris", -0.5), beam(1, 0, " located", -0.9)], [beam(2, 0, " a", -1.4)]),
    Beams(1, [beam(0, 0, ",", -0.7), beam(1, 1, " in", -1.0)], [beam(2, 0, ".", -1.6)]),
    Beams(
        2,
        [beam(0, 0, " the", -0.8), beam(1, 0, " which", -1.1), beam(2, 0, "", -0.75, finished=True)],
        [beam(3, 1, " France", -1.35)],
    ),
]


def beams_page(steps: list[Beams], width: int = 2) -> BeamsPage:
    """The page of a search that has come so far."""
    group = SimpleNamespace(beams=steps, group=SimpleNamespace(beams=BeamSettings(width)))
    return BeamsPage(cast("ShownGroup", SimpleNamespace(group=group)))


def drawn(page: BeamsPage, width: int = 100, rows: int = 40) -> list[str]:
    return [line.text.rstrip() for line in page.lines(Scene(width, rows))]


def test_the_tables_show_where_each_beam_came_from_and_what_died_by_how_much() -> None:
    page = beams_page(STEPS)
    text, *tables = drawn(page)
    assert text == "Paris, the"
    heads = [at for at, line in enumerate(tables) if "of the best" in line]
    assert [tables[at].split()[:5] for at in heads] == [
        ["step", str(step), "token", "from", "logprob"] for step in (1, 2, 3)
    ]
    newest = tables[heads[-1] + 1 :]
    assert re.match(r"▌ +1  ·the +1 , +−0\.50 +−0\.80  ━+─* +95%$", newest[0])
    assert re.match(r"  +2  ·which +1 , +−0\.50 +−1\.10 ", newest[1])
    assert re.match(r"  +3  end +1 , +−0\.50 +−0\.75  ━+ +100%  ended$", newest[2])
    assert re.match(r"  +4  ·France +2 ·in +−0\.50 +−1\.35 .* ✕ −0\.25$", newest[3]), "the gap to the last one kept"
    before = tables[heads[1] + 1 : heads[2]]
    assert re.match(r"  +2  ·in +2 ·located +−0\.50 +−1\.00 .* ✕$", before[1])
    assert re.match(r"  +3  \. +1 ·Paris +−0\.50 +−1\.60 .* ✕ −0\.60$", before[2])


def test_the_cursor_goes_by_beam_and_by_step_also_to_what_was_dropped() -> None:
    page = beams_page(STEPS)
    assert page.spot == BeamSpot(2, 0)
    for _ in range(3):
        page.act("line", 1)
    assert page.spot == BeamSpot(2, 3)
    page.act("line", 1)
    assert page.spot == BeamSpot(2, 3)
    page.act("go", -1)
    assert page.spot == BeamSpot(1, 1)
    page.act("go", -1)
    assert page.spot == BeamSpot(0, 1)
    page.act("go", 1)
    assert page.spot == BeamSpot(1, 1)
    page.act("point", (1, 0))
    page.act("go", 1)
    assert page.spot == BeamSpot(2, 2), "the best of those that go on from it"
    page.act("jump", -1)
    assert page.spot == BeamSpot(0, 0)
    page.act("jump", 1)
    assert page.spot == BeamSpot(2, 0)


@pytest.mark.parametrize("width", [38, 60, 80, 118])
def test_sixteen_beams_fit_and_the_cursor_stays_in_view(width: int) -> None:
    wide = [
        Beams(
            step,
            [beam(at, at // 2, f" word{at}", -1.0 - at / 10) for at in range(16)],
            [beam(16 + at, at, f" lost{at}", -3.0 - at / 10) for at in range(16)],
        )
        for step in range(9)
    ]
    page = beams_page(wide, 16)
    for _ in range(40):
        lines = drawn(page, width, 18)
        assert len(lines) <= 18
        assert max(map(len, lines)) <= width
        assert sum(line.startswith("▌") for line in lines) == 1
        page.act("line", 1)
    assert page.spot == BeamSpot(8, 31)


async def searched(desk: Desktop) -> None:
    desk.chat.walks.start(walk_plan.beams(BeamSettings(2)), text="The capital of France is")
    await desk.settle()
    desk.engine.look(" Paris", " located", dropped=(" a",))
    desk.engine.look(",", " in", parents=(0, 1), dropped=(".",))
    desk.engine.look(" the", " which", parents=(0, 0), dropped=(" France",))
    await desk.settle()


async def test_enter_makes_a_branch_of_a_dropped_beam() -> None:
    async with walking(plan=walk_plan.walks(2)) as desk:
        desk.engine.end()
        await desk.settle()
        await searched(desk)
        assert "BEAMS  2 · step 3 · length penalty 1 · scores by the model" in desk.text
        assert "Paris, the" in desk.text
        await desk.type("", "home")
        assert re.search(r"▌ +1  ·Paris ", desk.text)
        await click(desk, "·located")
        assert re.search(r"▌ +2  ·located ", desk.text)
        await desk.type("", "end", "down", "down")
        assert "France" in row(desk, "Paris")
        assert re.search(r"▌ +3  ·France .* ✕ −", desk.text)
        await desk.type("", "enter")
        assert desk.chat.walks.shown is None
        forced = desk.engine.generated[-1].script
        assert [desk.engine.words.text(scripted.id) for scripted in forced] == [" Paris", ",", " France"]


# --- pictures ----------------------------------------------------------------------------------------------------------


async def gridded(desk: Desktop) -> None:
    desk.chat.walks.start(GRID, text=PROMPT)
    await desk.settle()
    await fill(desk)


async def tabled(desk: Desktop) -> None:
    await walk(desk, TABLE)
    await desk.type("", "down", "right")


async def dialog(desk: Desktop) -> None:
    await desk.type(PROMPT)
    await desk.shows("of the free context")
    await desk.type("", "ctrl+y", "right", "down", "down")


Play = Callable[[Desktop], Awaitable[None]]


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (gridded, (120, 40), "dark"), (gridded, (80, 24), "light"), (tabled, (120, 40), "light"), (tabled, (80, 24), "dark"),
        (compared, (120, 40), "dark"), (compared, (80, 24), "light"), (rank, (120, 40), "light"), (rank, (80, 24), "dark"),
        (vote, (120, 40), "dark"), (vote, (80, 24), "light"), (searched, (120, 40), "light"), (searched, (80, 24), "dark"),
        (dialog, (120, 40), "dark"), (dialog, (80, 24), "light"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_the_pages(
    snap_compare: Snapshot, monkeypatch: pytest.MonkeyPatch, scene: Play, size: tuple[int, int], theme: str
) -> None:
    monkeypatch.setattr(walks_view, "SELDOM", 0.0)
    if scene is dialog:  # which waits until its draft is counted
        monkeypatch.setattr(chat_composer, "_AT_REST", 0.25)
    engine = FakeEngine()
    app = TermchatApp(remembered(engine), chosen(SPEC), theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await scene(desk)

    with without_naps(), patch("random.random", return_value=0.5):
        assert snap_compare(app, terminal_size=size, run_before=play)
