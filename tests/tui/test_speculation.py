"""Speculation on the screen: its figures, one round of it, and what it would gain."""

from __future__ import annotations

import re

import pytest

from termchat.conversation.tree import Node, Span, TokenColumns
from termchat.decoding.draft_figures import DraftFigures
from termchat.decoding.drafting import BatchTimes, forecast_drafts
from termchat.tui.pages.drafts import ReplyDrafts
from tests.tui.drafted import drafted, fields_in_round, say_plain, say_round, say_story
from tests.tui.fake_engine import INFO
from tests.tui.running_app import Desktop, command, desktop

WHY = "accepted 12 %, breaks even at 61 %"
NEXT_PAGE = "ctrl+right_square_bracket"
DRAFT = (" the", " old", " bear", " slept", ".")
STEPS = ("draft", "verify", "accept", "correct")


async def begun(desk: Desktop, draft: str = "ngram") -> None:
    """A reply begins."""
    desk.chat.session.kept = {}
    desk.chat.adjust_setting("draft", draft)
    await desk.sent("tell me")


async def story(desk: Desktop) -> None:
    """A reply with two rounds of drafting, which is over."""
    await begun(desk)
    say_story(desk.engine)
    desk.engine.end()
    await desk.settle()


def panel(desk: Desktop) -> str:
    """What stands in the panels."""
    return "\n".join(line.partition("│ ")[2] for line in desk.text.splitlines() if "│ " in line)


def in_round(desk: Desktop) -> dict[str, str]:
    """What the page of a round says of each of its steps, and under "here" the one that is marked."""
    found: dict[str, str] = {}
    now = ""
    for line in panel(desk).splitlines():
        word = next(iter(line.lstrip("▸ ").split()), "")
        if word in STEPS and word not in found:
            now = word
            if "▸" in line:
                found["here"] = word
        elif not line.startswith(" " * 9):
            now = ""
        if now:
            found[now] = " ".join((found.get(now, "") + " " + line.lstrip("▸ ")).split())
    return found


def struck(desk: Desktop) -> set[str]:
    """What is struck in the panels."""
    from termchat.tui.pages.panels import Panels

    lines = desk.app.screen.query_one(Panels)._lines
    return {text.strip() for line in lines for text, ink in line.runs if ink.strike}


async def test_the_panel_has_the_figures_of_the_reply() -> None:
    async with desktop() as desk:
        await story(desk)
        await desk.type("", *[NEXT_PAGE] * 3)
        shown = panel(desk)
        # 5 of 7 drafted tokens were taken; 20 tokens came in 2 rounds and 13 plain passes. 19 steps after the first took
        # 2 x 15 ms, 2 x 0.09 ms of drafting, and 12 x 6 ms.
        for figure in (
            "SPECULATION",
            "71%",
            "5 of 7",
            "1.33 tokens",
            "20 in 15 passes",
            "plain 167 t/s",
            "0.2 ms",
            "2 rounds",
        ):
            assert figure in shown, figure
        assert f"{19 / (2 * 15.09 + 12 * 6) * 1e3:.0f} t/s +12%" in shown


async def test_without_drafts_no_page_of_them_is_turned_to() -> None:
    async with desktop() as desk:
        await desk.sent("tell me")
        say_plain(desk.engine, " Once", " upon")
        desk.engine.end()
        for _ in range(4):
            await desk.type("", NEXT_PAGE)
            assert "CHAIN" in panel(desk)
            assert "DRAFTS" not in panel(desk)


async def test_a_round_is_walked_through_with_the_cursor() -> None:
    async with desktop() as desk:
        await story(desk)
        await desk.type("", "ctrl+g", *["tab"] * 3, *["h"] * 9)
        for token, part in (("·woke", "correct"), ("·bear", "accept"), ("·old", "accept"), ("·the", "accept")):
            told = in_round(desk)
            assert told["here"] == part, token
            assert told["draft"] == "draft 5 tokens 0.09 ms ·the ·old ·bear ·slept ."
            assert told["verify"] == "verify 6 rows in one pass 15.0 ms one row alone 6.0 ms"
            assert told["accept"] == "accept 3 of 5 ·the ·old ·bear"
            assert told["correct"] == "correct 1 token model after ·slept 9.0% 12.0% ·woke 44.0% 62.0%"
            assert {"·slept", "."} <= struck(desk)
            await desk.type("", "h")
        assert "here" not in in_round(desk)
        assert "The model decoded this token alone" in panel(desk)


async def test_a_round_that_was_accepted_as_a_whole_gives_one_token_more() -> None:
    async with desktop() as desk:
        await story(desk)
        await desk.type("", "ctrl+g", *["tab"] * 3, *["h"] * 3)
        told = in_round(desk)
        assert told["here"] == "correct"
        assert told["accept"] == "accept 2 of 2 ·the ·old"
        assert told["correct"] == "correct nothing ·fox is drawn from the last row"
        # three tokens for 15.09 ms, each of which takes 6 ms alone
        assert "3 tokens in 15.1 ms, alone 18.0 ms: 1.19 times as fast" in " ".join(panel(desk).split())


async def test_the_record_of_a_token_says_what_was_drafted() -> None:
    async with desktop() as desk:
        await story(desk)
        await desk.type("", "ctrl+g", *["h"] * 9)
        shown = " ".join(panel(desk).split())
        assert "DRAFTED by n-gram: ·the ·old ·bear ·slept ." in shown
        assert "·slept" in struck(desk)
        await desk.type("", "h")
        shown = " ".join(panel(desk).split())
        assert "DRAFTED by n-gram: ·the ·old ·bear" in shown
        await desk.type("", *["h"] * 3)
        assert "DRAFTED" not in panel(desk)


async def test_a_paused_reply_is_stepped_through_its_round() -> None:
    async with desktop() as desk:
        await begun(desk)
        engine = desk.engine
        say_plain(engine, " Once", " the", " old", " bear", ".")
        say_round(engine, DRAFT, (" the", " old"))
        engine.wait(piece=" bear", **fields_in_round(engine, DRAFT, 2, " bear"))
        await desk.settle()
        await desk.type("", "ctrl+g", *["tab"] * 3)
        told = in_round(desk)
        assert told["here"] == "accept"
        assert told["accept"] == "accept 3 of 5 so far ·the ·old ·bear"
        assert told["correct"] == "correct nothing so far"
        assert not struck(desk), "nothing is rejected yet"

        engine.say(" bear", **fields_in_round(engine, DRAFT, 2, " bear"))
        engine.wait(piece=" woke", **fields_in_round(engine, DRAFT, 3, " woke"))
        await desk.settle()
        told = in_round(desk)
        assert told["here"] == "correct"
        assert told["correct"] == "correct 1 token, not taken yet model after ·slept 9.0% 12.0% ·woke 44.0% 62.0%"
        assert {"·slept", "."} == struck(desk)
        await desk.type("", "h")
        assert in_round(desk)["here"] == "accept"


@pytest.mark.parametrize(("size", "said"), [((200, 60), f"drafting off: {WHY}"), ((120, 40), "drafting off")])
async def test_the_header_says_what_drafts_gain_and_why_there_are_none(size: tuple[int, int], said: str) -> None:
    async with desktop(size) as desk:
        desk.chat.rename_chat("fox and bear")
        await story(desk)
        header = desk.text.splitlines()[0]
        assert "drafting +12%" in header
        assert "fox and bear" in header, "the title has room beside it"
        await desk.sent("again")
        say_plain(desk.engine, " Once")
        desk.engine.drafting(WHY)
        say_plain(desk.engine, " upon")
        await desk.settle()
        header = desk.text.splitlines()[0]
        assert said in header
        desk.chat.adjust_setting("draft", "off")
        await desk.settle()
        assert "drafting" not in desk.text.splitlines()[0]


async def test_switching_itself_off_and_on_again_is_marked_once_each() -> None:
    async with desktop() as desk:
        await begun(desk)
        say_plain(desk.engine, " Once")
        desk.engine.drafting(WHY)
        say_plain(desk.engine, " upon")
        desk.engine.drafting("accepted 10 %, breaks even at 61 %")
        say_plain(desk.engine, " a")
        desk.engine.drafting()
        say_plain(desk.engine, " time")
        await desk.settle()
        assert re.findall(r"┊ (.*?) *│", desk.text) == [
            f"drafting off: {WHY} at token 1",
            "drafting on again at token 3",
        ]


async def test_the_page_says_why_nothing_is_drafted() -> None:
    async with desktop() as desk:
        await begun(desk)
        say_plain(desk.engine, " Once")
        desk.engine.drafting(WHY)
        say_plain(desk.engine, " upon")
        await desk.settle()
        await desk.type("", *[NEXT_PAGE] * 3)
        assert f"drafting off: {WHY}" in " ".join(panel(desk).split())


async def test_the_page_says_that_no_guess_was_good_enough() -> None:
    async with desktop() as desk:
        await begun(desk)
        say_plain(desk.engine, " Once")
        await desk.settle()
        await desk.type("", *[NEXT_PAGE] * 3)
        assert "Nothing was drafted: no guess was likely enough to pay." in " ".join(panel(desk).split())


@pytest.mark.parametrize("seed", range(3))
async def test_figures_of_a_reply_in_pieces_are_those_of_all_and_read_once(seed: int) -> None:
    async with desktop() as desk:
        await begun(desk)
        say_story(desk.engine)
        desk.engine.end("user")
        await desk.settle()
        drafts = ReplyDrafts(desk.chat)
        first = desk.chat.conversation.find_reply()
        drafts.follow(first[:1])
        await desk.type("", "ctrl+o")
        say_round(desk.engine, DRAFT, DRAFT[: seed + 1])
        await desk.settle()
        reply = desk.chat.conversation.find_reply()
        assert len(reply) == 2
        drafts.follow([Span(span.node, len(span.node.tokens)) for span in reply])
        whole = DraftFigures()
        for span in reply:
            for step in span.node.tokens:
                whole.add(step)
            if span.node.done:
                whole.end_run()
        seen = drafts.figures
        assert (seen.tokens, seen.drafted, seen.accepted, seen.rounds, seen.gain) == (
            whole.tokens, whole.drafted, whole.accepted, whole.rounds, whole.gain,
        )  # fmt: skip
        assert seen.tokens == 21 + seed


COPY = (" the", " old", " bear", " met", " a", " fox", " near", " the", " river", " at", " night", ".")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_drafts_would_have_gained_on_the_last_reply_is_said_before_they_are_on(
    size: tuple[int, int],
) -> None:
    async with desktop(size) as desk:
        await desk.sent("tell me")
        say_plain(desk.engine, *COPY * 8)
        desk.engine.end()
        await desk.settle()
        await command(desk, "/draft")
        await desk.until(lambda: "times as fast" in " ".join(panel(desk).split()))
        node = desk.chat.conversation.find_reply()[0].node
        assert INFO.measured is not None
        times = BatchTimes(INFO.measured.batch_times)
        expected = forecast_drafts(desk.chat.conversation.ids_before(node.number), node.ids, times)
        assert expected.gain > 1.2
        assert expected.acceptance is not None
        said = (
            f"With n-gram drafts the last reply would have been {expected.gain:.2f} times as fast (accepted"
            f" {expected.acceptance:.0%}, pays from {expected.break_even:.0%})."
        )
        assert said in " ".join(panel(desk).split())
        assert desk.chat.tuning.draft == "off"


async def test_where_nothing_repeats_drafts_would_gain_nothing_and_that_is_said() -> None:
    async with desktop() as desk:
        await desk.sent("tell me")
        say_plain(desk.engine, *(f" word{number}" for number in range(40)))
        desk.engine.end()
        await desk.settle()
        await command(desk, "/draft")
        await desk.until(lambda: "would not have been faster" in " ".join(panel(desk).split()))


async def test_without_a_reply_the_page_says_when_it_will_know() -> None:
    async with desktop() as desk:
        await command(desk, "/draft")
        assert "After a reply, this page says what drafts would have gained on it." in " ".join(panel(desk).split())


async def test_in_a_reply_that_ended_in_a_round_nothing_is_left_open() -> None:
    async with desktop() as desk:
        await begun(desk)
        say_plain(desk.engine, " Once", ".")
        say_round(desk.engine, DRAFT, DRAFT[:2])
        desk.engine.end()
        await desk.settle()
        await desk.type("", *[NEXT_PAGE] * 3)
        told = in_round(desk)
        assert told["accept"] == "accept 2 of 5 ·the ·old"
        assert told["correct"] == "correct nothing: the reply ended"


async def test_an_engine_that_cannot_draft_says_so_instead_of_what_it_would_gain() -> None:
    async with desktop() as desk:
        desk.engine.offers = desk.engine.offers - {"drafts"}
        await desk.sent("tell me")
        say_plain(desk.engine, *COPY * 8)
        desk.engine.end()
        await desk.settle()
        await command(desk, "/draft")
        shown = " ".join(panel(desk).split())
        assert "Not here: this engine cannot draft tokens." in shown
        assert "times as fast" not in shown
        assert "/draft auto" not in shown


async def test_another_reply_or_one_that_was_cut_is_read_from_its_begin() -> None:
    async with desktop() as desk:
        await begun(desk)
        first, second = Node(2, 1, 0, "assistant"), Node(3, 2, 0, "assistant")
        drafted(first, 5)
        drafted(second, 3)
        drafts = ReplyDrafts(desk.chat)
        whole = [Span(first, 5), Span(second, 3)]
        for reply in (
            [Span(first, 3)],
            whole,
            [Span(second, 3)],
            whole,
            [Span(first, 4)],
            [],
            [Span(first, 3), Span(second, 1)],
            whole,
        ):
            drafts.follow(reply)
            assert drafts.figures.tokens == sum(span.count for span in reply)


@pytest.mark.parametrize("count", [200, 4_000])
async def test_a_frame_reads_only_the_tokens_that_came_since(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desktop() as desk:
        await begun(desk)
        node = desk.chat.conversation.find_reply()[0].node
        drafted(node, count)
        drafts = ReplyDrafts(desk.chat)
        drafts.follow([Span(node, count)])
        asked: list[int] = []
        read = TokenColumns.__getitem__
        monkeypatch.setattr(TokenColumns, "__getitem__", lambda self, at: (asked.append(at), read(self, at))[1])
        drafted(node, 2)
        drafts.follow([Span(node, count + 2)])
        drafts.follow([Span(node, count + 2)])
        assert asked == [count, count + 1]
