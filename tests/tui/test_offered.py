"""What an engine does not offer: its keys are grey, and refused with the reason."""

from __future__ import annotations

from termchat.engine.port import ALL_FEATURES, Adjust, Feature, Force, Pause, Score, Step
from termchat.tui.draw.marks import ACCENT, MUTED
from termchat.tui.keys.offered import NEEDS, refusal
from termchat.tui.keys.tables import CHAT, MODEL, TOKENS, WALKS
from termchat.tui.screen.keyline import key_line
from tests.tui.running_app import desktop, talked
from tests.tui.token_mode import index, looking


def without(*features: Feature) -> frozenset[Feature]:
    return ALL_FEATURES - set(features)


def test_every_need_is_one_of_a_key_and_of_the_contract() -> None:
    assert set(NEEDS) <= {key.id for key in (*TOKENS, *WALKS, *CHAT, *MODEL)}
    assert set(NEEDS.values()) <= ALL_FEATURES
    assert refusal("pause", ALL_FEATURES) == refusal("send", frozenset()) == ""
    assert refusal("pause", without("pause")) == "this engine cannot pause a reply"


def test_the_key_line_shows_it_in_grey() -> None:
    inks = {text: ink.color for text, ink in key_line("token-busy", 160, without("pause")).runs}
    assert (inks["Space"], inks["w"]) == (MUTED.color, ACCENT.color)
    assert key_line("token-busy", 160).text == key_line("token-busy", 160, without("pause")).text


async def test_its_keys_say_why_and_send_nothing() -> None:
    async with looking(ended=False) as desk:
        desk.engine.offers = without("pause", "step", "force", "score")
        place = index(desk)
        await desk.type("", "space")
        assert "this engine cannot pause a reply" in desk.text
        await desk.type("", "n")
        assert "this engine cannot draw one token at a time" in desk.text
        desk.engine.end()
        await desk.settle()
        await desk.type("", "v")
        assert "this engine cannot redraw a whole reply with different knobs" in desk.text
        await desk.type("", "1")
        assert "this engine cannot force a token" in desk.text
        for kind in (Pause, Step, Force, Score):
            assert desk.engine.asked(kind) == []
        assert len(desk.engine.generated) == 1
        await desk.type("", "h")
        assert index(desk) == place - 1  # what it offers works


async def test_knobs_wait_for_the_next_reply_where_they_cannot_be_turned_in_this_one() -> None:
    async with desktop() as desk:
        desk.engine.offers = without("adjust")
        await desk.sent("hello", "hi")
        await desk.type("", "ctrl+t", "t", "2", "enter", "escape")
        assert "this engine cannot change knobs while a reply runs" in desk.text
        assert desk.engine.asked(Adjust) == []
        desk.engine.end()
        await desk.settle()
        await desk.type("again", "enter")
        assert desk.engine.generated[-1].samplers.temperature == 2


async def test_commands_and_the_palette_say_why_too() -> None:
    async with desktop() as desk:
        await talked(desk, ("hello", "hi"))
        desk.engine.offers = without("seeds")
        await desk.type("/regenerate-same", "enter")
        assert "this engine cannot redraw with the same dice" in desk.text
        assert len(desk.engine.generated) == 1
        told = {command.title: command.help for command in desk.app.get_system_commands(desk.app.screen)}
        assert told["Regenerate with the same seed"] == "this engine cannot redraw with the same dice"
        await desk.type("", "ctrl+r")
        assert len(desk.engine.generated) == 2
