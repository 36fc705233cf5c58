"""How several replies are begun: what the commands understand and refuse, the dialog, and from where they go on."""

from __future__ import annotations

import re

import pytest

from termchat.decoding.group import BeamSettings, GroupKind
from termchat.decoding.plan_words import read
from termchat.decoding.walk_plan import PlanError, WalkPlan, beams, best, compare, grid, parse_grid, vote, walks
from termchat.engine.abilities import ALL_FEATURES
from termchat.engine.port import Generate
from termchat.tui.screen.walks_dialog import WalksDialog
from tests.tui.running_app import Desktop, command, desktop, talked
from tests.tui.walks import speak

TWO_KNOBS = ("temperature 0 0.5 1", "top_p 0.5 0.95")


@pytest.mark.parametrize(
    ("kind", "text", "plan", "message"),
    [
        ("walks", "", walks(4), ""),
        ("walks", "3 same-dice Tell me: why?", walks(3, same_dice=True), "Tell me: why?"),
        ("walks", "Tell me a joke", walks(4), "Tell me a joke"),
        ("walks", "6\nTwo\nlines", walks(6), "Two\nlines"),
        ("walks", "2 : 4 jokes", walks(2), "4 jokes"),
        ("grid", "temperature 0 0.5 1 top_p 0.5 0.95 runs 2 : Hi", grid(parse_grid(TWO_KNOBS), 2), "Hi"),
        ("grid", "temperature=0,1 same-dice Tell me", grid(parse_grid(["temperature 0 1"]), same_dice=True), "Tell me"),
        ("grid", "temperature", grid(parse_grid(["temperature 0 0.5 1 1.5"]), 3), ""),
        ("grid", "top_k", grid(parse_grid(["top_k 1 10 50 off"])), ""),
        ("grid", "top_k 1 off: Hi", grid(parse_grid(["top_k 1 off"])), "Hi"),
        ("compare", "temperature 1.2", compare({}, {"temperature": 1.2}), ""),
        ("compare", "temp 0.7 | temp 1.2 top-p 0.9", compare({"temperature": 0.7}, {"temperature": 1.2, "top_p": 0.9}), ""),
        ("compare", "temperature 1.2 Tell me", compare({}, {"temperature": 1.2}), "Tell me"),
        ("best", "5 Tell me", best(5), "Tell me"),
        ("best", "5 penalty 0.5 Tell me", best(5, 0.5), "Tell me"),
        ("vote", r'"answer: (\d+)" 6 What is 17 + 25?', vote(6, r"answer: (\d+)"), "What is 17 + 25?"),
        ("vote", r"\d+", vote(8, r"\d+"), ""),
        ("vote", r"\d+ : What is it?", vote(8, r"\d+"), "What is it?"),
        ("vote", r'"say \"(\w+)\"" 2', vote(2, r'say "(\w+)"'), ""),
        ("beams", "", beams(BeamSettings(4)), ""),
        ("beams", "length-penalty 0 early-stopping", beams(BeamSettings(4, 0.0, 1, True)), ""),
        ("beams", "6 penalty 0.5 n-best 2 early after_chain Go", beams(BeamSettings(6, 0.5, 2, True, True)), "Go"),
    ],
)  # fmt: skip
def test_what_is_typed_is_what_is_walked(kind: GroupKind, text: str, plan: WalkPlan, message: str) -> None:
    assert read(kind, text) == (plan, message)


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("walks", "40", "the number of walks is 2 to 32, not 40"),
        (
            "walks",
            "4 samedice",
            "'samedice' does not belong here (did you mean same-dice?); put a colon before the message",
        ),
        ("walks", "4 5", "'5' does not belong here"),
        ("grid", "temprature 0 1", "unknown knob 'temprature' (did you mean temperature?)"),
        ("grid", "temperature 0 1 topp 0.5", "'topp' does not belong here (did you mean top_p?)"),
        ("grid", "temperature 0 9", "temperature must be a number from 0 to 5, not 9"),
        ("grid", "min_p", "min_p has no values"),
        ("grid", "temperature 0 1 runs 2.5", "runs must be a whole number from 1 to 32, not '2.5'"),
        ("grid", "temperature runs 9", "36 walks; the most is 32"),
        ("compare", "", "both settings are the same"),
        ("compare", "temperature", "temperature needs a value; 0, or 0.01 to 5"),
        ("compare", "temperature 1 | top_k 4 | top_p 1", "compares two settings, not 3"),
        ("vote", "", "a vote needs a regular expression or a JSON path"),
        ("vote", "(", "'(' is not a valid regular expression"),
        ("vote", r"answer: (\d+)", "unclear where the pattern ends; put it in quotes"),
        ("beams", "penalty x", "penalty must be a number from -10 to 10, not 'x'"),
        ("beams", "4 penaltee 2", "(did you mean penalty?)"),
        ("beams", "2 n-best 4", "2 beams give 1 to 2 replies, not 4"),
    ],
)
def test_what_cannot_be_walked_is_told_with_what_to_do(kind: GroupKind, text: str, problem: str) -> None:
    with pytest.raises(PlanError) as told:
        read(kind, text)
    assert problem in f"{told.value.message}; {told.value.hint}"


def asked(desk: Desktop) -> Generate:
    (group,) = desk.engine.groups
    return group


async def test_a_message_behind_the_command_is_sent_and_its_reply_is_walked() -> None:
    async with desktop() as desk:
        await command(desk, "/walks 3 Tell me a joke")
        assert [node.written for node in desk.chat.conversation.nodes.values() if node.role == "user"] == [
            "Tell me a joke"
        ]
        assert [walk.seed for walk in asked(desk).replies] == [1, 2, 3]
        assert not desk.engine.generated


async def test_without_a_message_there_are_other_replies_to_the_last_one() -> None:
    async with desktop() as desk:
        await command(desk, "/walks 2")
        assert "there is nothing to reply to yet" in desk.text
        assert desk.composer.text == "/walks 2"
        await desk.type("", "ctrl+u")
        await talked(desk, ("go", "One"))
        await command(desk, "/grid temperature 0 1 runs 2")
        walked = asked(desk)
        assert [(walk.samplers.temperature, walk.seed) for walk in walked.replies] == [(0, 1), (0, 2), (1, 1), (1, 2)]
        assert walked.group.knobs[0].name == "temperature"
        assert sum(node.role == "user" for node in desk.chat.conversation.nodes.values()) == 1


@pytest.mark.parametrize(
    ("text", "kind", "size"),
    [("/ab temperature 1.2", "compare", 2), ("/best 3", "best", 3), (r"/vote \d+ 5", "vote", 5)],
)
async def test_each_command_starts_its_kind(text: str, kind: str, size: int) -> None:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        await command(desk, text)
        assert (asked(desk).group.kind, len(asked(desk).replies)) == (kind, size)


async def test_a_beam_search_is_started_by_its_command() -> None:
    async with desktop() as desk:
        await command(desk, "/beams 3 n-best 2 Tell me")
        (search,) = desk.engine.groups
        assert search.group.beams == BeamSettings(3, 1.0, 2)


async def test_examples_are_offered_behind_a_command() -> None:
    async with desktop() as desk:
        await desk.type("/grid ")
        assert "temperature 0 1 top_p 0.5 0.95 runs 2" in desk.text
        await desk.type("", "enter", "enter")
        assert desk.composer.text.startswith("/grid temperature"), "there is nothing to reply to"


async def test_words_of_a_command_are_completed_until_its_message_begins() -> None:
    async with desktop() as desk:
        await desk.type("/grid temperature 0 1 ru")
        assert "N  replies per cell" in desk.text
        await desk.type("", "tab")
        assert desk.composer.text.rstrip() == "/grid temperature 0 1 runs"
        await desk.type(" 2 Tell me ru")
        assert desk.composer.popup.completion is None


async def test_enter_in_the_dialog_alone_starts_four_replies_to_the_draft() -> None:
    async with desktop() as desk:
        await desk.type("Tell me", "ctrl+y")
        assert "replies to your draft: Tell me" in desk.text
        assert "same command: /walks 4" in desk.text
        await desk.type("", "enter")
        assert len(asked(desk).replies) == 4
        assert desk.composer.text == ""
        assert desk.chat.conversation.find_path()[0].node.written == "Tell me"


async def test_without_any_message_the_dialog_asks_for_one() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+y")
        assert "there is nothing to reply to yet" in desk.text
        await desk.type("", "enter")
        assert "write a message first" in desk.text
        assert isinstance(desk.app.screen, WalksDialog)


async def test_the_dialog_walks_from_the_token_under_the_cursor() -> None:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        desk.engine.prompt = [1, 2, 3]
        await desk.sent("more", "One", " two", " three", " four")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g", "h", "W")
        assert "continue the reply from token 3 ·three" in desk.text
        await desk.type("", "enter")
        assert asked(desk).replies[0].done == 2
        assert not desk.app.screen_stack[0].tokens.is_open  # type: ignore[attr-defined]
        speak(desk.engine, 4)
        await desk.settle()
        await desk.type("", "2", "ctrl+g")
        assert re.search(rf"temp \S+ +seed {asked(desk).replies[1].seed}\b", desk.text)  # not that of the reply it left


async def test_a_grid_is_filled_in_by_hand() -> None:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        await desk.type("", "ctrl+y", "right", "down", "down", *["backspace"] * 4, "down", "right", "up", "up")
        assert isinstance(desk.app.screen, WalksDialog)
        assert desk.app.screen.form.argument.startswith("temperature 0 0.5 1 ")
        await desk.type("", "down", "down", "left", "down", "down", "2")
        assert "same command: /grid temperature 0 0.5 1 runs 2" in desk.text
        assert "6 replies: 3 cells with 2 runs each" in desk.text
        await desk.type("", "enter")
        assert len(asked(desk).replies) == 6


async def test_what_cannot_be_started_is_told_in_the_dialog() -> None:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        await command(desk, "/vote")
        await desk.type("", "down", *["backspace"] * 3, "(")
        assert "'(' is not a valid regular expression" in desk.text
        await desk.type("", "enter")
        assert isinstance(desk.app.screen, WalksDialog)
        await desk.type("", "delete", "a", "space", "b", "enter")
        assert asked(desk).group.answer == "a b"


async def test_a_kind_that_the_engine_cannot_make_is_grey_and_says_why() -> None:
    async with desktop() as desk:
        await talked(desk, ("go", "One"))
        desk.engine.offers = ALL_FEATURES - {"beams"}
        await desk.type("", "ctrl+y")
        screen = desk.app.screen
        assert isinstance(screen, WalksDialog)
        inks = {
            text.strip(): ink.color for text, ink in screen.form.render_row(screen.form.fields[0], 80, here=True).runs
        }
        assert inks["beams"] == "border"
        assert inks["vote"] == "muted"
        assert "cannot search with beams" not in desk.text
        await desk.type("", "left")
        assert "this engine cannot search with beams; a model on this machine" in desk.text
        await desk.type("", "enter")
        assert desk.app.screen is screen
        await desk.type("", "right")
        assert "cannot search with beams" not in desk.text
