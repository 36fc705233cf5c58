"""Logit biases on the screen: the dialog, token mode, TUNE and the command."""

from __future__ import annotations

import msgspec
import pytest
from textual.widgets import Input

from termchat.chat.loading import Choice
from termchat.decoding.records import Stage, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Adjust
from termchat.tui.pages.candidates import candidate_table
from termchat.tui.pages.chain_view import chain_lines
from tests import made_records
from tests.chats import chat_on
from tests.tui.fake_engine import replaced
from tests.tui.running_app import SPEC, Desktop, desktop
from tests.tui.snapshots import CANDIDATES
from tests.tui.token_mode import looking

pytestmark = pytest.mark.usefixtures("home")


def written(desk: Desktop) -> tuple[str, ...]:
    return desk.chat.tuning.logit_bias


async def opened(desk: Desktop, text: str = "") -> None:
    await desk.type("/bias", "enter")
    await desk.shows("Logit biases")
    if text:
        desk.app.screen.query_one(Input).value = text
        await desk.settle()


async def test_a_typed_text_shows_its_tokens_and_each_can_be_banned_or_boosted_in_mid_reply() -> None:
    async with desktop() as desk:
        await desk.sent("go", "One")
        await opened(desk, "red fox")
        await desk.shows("5000    red", "5001    ·fox", '"red fox"')
        await desk.type("", "enter", "down", "shift+right", "shift+right")
        assert written(desk) == ("5000=ban", "5001=+2")
        assert desk.engine.asked(Adjust)[-1].samplers.logit_bias == ("5000=ban", "5001=+2")
        await desk.shows("ban     5000    red", "+2      5001    ·fox")
        await desk.type("", "down", "shift+left")
        assert written(desk)[-1] == '"red fox"=-1'
        await desk.shows("+1      5001    ·fox")  # 2 of its own, -1 of the text
        await desk.type("", "ctrl+y", "ctrl+y")
        assert written(desk) == ("5000=ban", "5001=+1")
        await desk.type("", "escape", "ctrl+t", "z", "z", "z")
        assert written(desk) == ()


async def test_one_key_bans_a_word_and_warns_before_it_bans_pieces_that_others_share() -> None:
    async with desktop() as desk:
        await opened(desk, "paris")
        await desk.shows("SPELLINGS OF paris: 2 OF 3 ARE ONE TOKEN", "also begins PARK PART … (70)")
        await desk.type("", "tab")
        assert len(written(desk)) == 2
        await desk.shows("banned ·paris", "Not banned: ·PARIS", "Tab bans those")
        await desk.type("", "tab")
        assert len(written(desk)) == 3
        await desk.shows("banned ·PARIS", "also begins PARK PART")
        await desk.type("", "tab")
        assert written(desk) == ()


async def test_biases_are_listed_edited_and_removed_and_an_empty_field_shows_only_them() -> None:
    async with desktop(chat=lambda engine: chat_on(engine, Tuning(logit_bias=('" sea"=ban', "7=+1")))) as desk:
        await opened(desk)
        await desk.shows('ban             " sea"', "+1      7       ·c7")
        await desk.type("", "down", "shift+right")
        assert written(desk) == ('" sea"=ban', "7=+2")
        await desk.type("", "up", "delete")
        assert written(desk) == ("7=+2",)
        await desk.type("", "tab")
        await desk.shows("type a word first")


async def test_a_click_selects_a_row_and_a_second_bans_it() -> None:
    async with desktop() as desk:
        await opened(desk, "red fox")
        at = next(y for y, line in enumerate(desk.text.splitlines()) if "5001    ·fox" in line)
        await desk.pilot.click(offset=(40, at))
        await desk.type("", "shift+right")
        assert written(desk) == ("5001=+1",)
        await desk.pilot.click(offset=(40, at), times=2)
        await desk.settle()
        assert written(desk) == ("5001=ban",)


async def test_keys_of_token_mode_ban_and_boost_the_token_under_the_cursor() -> None:
    async with looking() as desk:
        token = desk.chat.conversation.find_path()[-1].node.ids[-1]
        await desk.type("", "plus", "plus")
        assert written(desk) == (f"{token}=+2",)
        await desk.type("", "minus")
        assert written(desk) == (f"{token}=ban",)
        await desk.shows(f". ({token}): ban")
        await desk.type("", "minus")
        assert written(desk) == ()


async def test_in_token_mode_the_dialog_lists_the_candidates() -> None:
    async with desktop() as desk:
        await desk.sent("go")
        desk.engine.say(" hungry", id=7, candidates=CANDIDATES)
        desk.engine.wait(piece=" next", candidates=CANDIDATES)
        await desk.settle()
        await desk.type("", "ctrl+g", "B")
        await desk.shows("CANDIDATES OF TOKEN 1", "8       ·old")
        await desk.type("", "down", "enter")
        assert written(desk) == ("8=ban",)


async def test_the_command_adds_a_bias_and_says_what_is_wrong() -> None:
    async with desktop() as desk:
        await desk.type('/bias " sea"=ban', "enter")
        await desk.type("/bias 12=-3", "enter")
        assert written(desk) == ('" sea"=ban', "12=-3")
        await desk.type("/bias sea", "enter")
        await desk.shows("logit_bias must be ID=X or TEXT=X")
        await desk.type("", *["backspace"] * 9)
        await desk.type("/bias 60000=ban", "enter")
        await desk.shows("token 60000 is not in this model's vocabulary")
        assert written(desk) == ('" sea"=ban', "12=-3")
        await desk.type("", *["backspace"] * 15)
        await desk.type("/bias off", "enter")
        assert written(desk) == ()


async def test_another_model_drops_the_biases_by_id_which_are_other_tokens_there() -> None:
    async with desktop() as desk:
        desk.chat.adjust_setting("logit_bias", ['" sea"=ban', "7=+1"])
        assert desk.chat.loading.switch_model(Choice(SPEC, {}))
        await desk.settle()
        assert written(desk) == ('" sea"=ban', "7=+1")  # the same vocabulary
        desk.engine.info = msgspec.structs.replace(desk.engine.info, vocabulary=32_000)
        assert desk.chat.loading.switch_model(Choice(SPEC, {}))
        await desk.shows("logit_bias: 7=+1 removed: in this model these ids are other tokens")
        assert written(desk) == ('" sea"=ban',)


async def test_tune_opens_the_dialog() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+t", "b", "enter")
        await desk.shows("Logit biases", "none yet")


def test_the_chain_and_the_candidates_show_what_it_did() -> None:
    stages = [Stage("logit_bias", 49151, 0.62), Stage("penalties", 49151, 1.0), Stage("top_k", 40, 0.9)]
    token: Token = replaced(made_records.token(0, b"x", "x"), stages=stages)
    lines = [line.text for line in chain_lines(Tuning(logit_bias=('" sea"=ban', "12=-3")), token, 58)]
    bias = next(line for line in lines if line.startswith("b bias"))
    assert '2 biases  " sea"=ban' in bias
    assert bias.endswith("62%  49151")
    models = [line.text for line in chain_lines(Tuning(), token, 58)]
    assert models[1].split()[:6] == ["b", "bias", "by", "the", "model's", "file"]
    assert not any("bias" in line.text for line in chain_lines(Tuning(), None, 58))
    boosted = replaced(CANDIDATES[0], bias=3.5)  # type: ignore[arg-type]
    table = candidate_table(replaced(token, candidates=[boosted, *CANDIDATES[1:]]), [], 60, 5)
    assert table[1].text.startswith("·hungry +3.5 ")
