"""What an engine does not offer: its keys are grey, and refused with the reason."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding.conditions import Threshold, parse
from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import Tuning
from termchat.engine.abilities import LLAMA_SERVER_STREAMED, VLLM, EngineAbilities
from termchat.engine.address import EngineAddress
from termchat.engine.port import (
    ALL_FEATURES,
    Adjust,
    Explain,
    Feature,
    Force,
    Generate,
    Inspect,
    ModelSpec,
    Pause,
    Score,
    Step,
)
from termchat.tui.draw.marks import ACCENT, MUTED
from termchat.tui.keys.key import Situation
from termchat.tui.keys.tables import CHAT, KEYS, MODEL, TOKENS, WALKS, lacking
from termchat.tui.screen.key_line import key_line
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import command, desktop, talked
from tests.tui.token_mode import index, looking


def without(*features: Feature) -> frozenset[Feature]:
    return ALL_FEATURES - set(features)


def test_every_need_is_one_of_a_key_and_of_the_contract() -> None:
    needs = {key.id: key.needs for key in KEYS.values() if key.needs is not None}
    assert needs.keys() <= {key.id for key in (*TOKENS, *WALKS, *CHAT, *MODEL)}
    assert set(needs.values()) <= ALL_FEATURES
    assert lacking(KEYS["pause"], ALL_FEATURES) is lacking(KEYS["send"], frozenset()) is None
    assert lacking(KEYS["pause"], without("pause")) == "pause"


def test_the_key_line_shows_it_in_grey() -> None:
    inks = {text: ink.color for text, ink in key_line("token-busy", 160, without("pause")).runs}
    assert (inks["Space"], inks["w"]) == (MUTED.color, ACCENT.color)
    assert key_line("token-busy", 160).text == key_line("token-busy", 160, without("pause")).text


def test_continuing_is_grey_where_only_that_is_meant() -> None:
    def ink(situation: Situation) -> str:
        shown = key_line(situation, 200, without("continue")).runs
        return next(ink.color for text, ink in shown if text == "Ctrl+O")

    assert ink("idle") == MUTED.color
    assert ink("unloaded") == ink("paused") == ACCENT.color


async def test_its_keys_say_why_and_send_nothing() -> None:
    async with looking(ended=False) as desk:
        desk.engine.offers = without("pause", "step", "continue", "score")
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
        assert "this engine cannot continue from a token" in desk.text
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


LAB = ModelSpec("qwen", "qwen", engine=EngineAddress(name="lab", url="https://lab"))


def only(abilities: EngineAbilities) -> Callable[[FakeEngine], Chat]:
    """A chat whose engine has a model with these abilities."""

    def made(engine: FakeEngine) -> Chat:
        engine.info = msgspec.structs.replace(engine.info, abilities=abilities)
        engine.offers = abilities.list_features()
        return chat_on(engine, Tuning(seed=1))

    return made


async def test_a_refusal_names_the_engine_the_reason_and_who_can() -> None:
    streams = EngineAbilities(candidates=20, client_draw=False, walks=False)
    async with desktop(spec=LAB, chat=only(streams)) as desk:
        await talked(desk, ("hello", "hi"))
        await command(desk, "/regenerate-same")
        assert "lab cannot redraw with the same dice: it draws there" in desk.text
        assert "a model on this machine, one over ssh://, or a llama-server drawn" in desk.text
        await command(desk, "/walks 2 hello")
        assert "lab cannot make several replies at once: it is asked for one" in desk.text
        assert len(desk.engine.asked(Generate)) == 1


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_why_not_of_an_engine_that_draws_there_says_who_tells_more(size: tuple[int, int]) -> None:
    streams = EngineAbilities(candidates=20, client_draw=False, walks=False)
    async with desktop(size, spec=LAB, chat=only(streams)) as desk:
        await talked(desk, ("hello", "hi"))
        await desk.type("", "ctrl+g", "w", "space", *"cat", "enter")
        asked = desk.engine.asked(Explain)[-1]
        assert asked.drawn == desk.chat.conversation.find_reply()[-1].node.ids[-1]
        text = " ".join(desk.text.replace("│", " ").split())
        assert "WHY NOT ·cat" in text
        assert "rank > 20" in text
        assert "with 60.7% by the model" in text  # e to the -0.5 is 0.6065
        if size[1] > 24:
            assert "does not tell what its sampler chain cut" in text
        assert "nan" not in text
        await desk.type("", "escape", "t", "space", *"dog", "enter")  # Enter accepts, though what-if is not offered
        assert desk.engine.generated[-1].script


async def test_a_full_context_says_where_it_is_set() -> None:
    async with desktop(spec=LAB, chat=only(VLLM)) as desk:
        desk.engine.prompt = [1] * 2050
        await desk.type("hello", "enter")
        assert "the prompt has 2050 tokens, the context 2048" in desk.text
        said = " ".join(line.partition("│")[0].strip(" ▌") for line in desk.text.split("\n"))
        assert "or start the server with a larger --max-model-len" in said


async def test_text_only_refuses_what_needs_tokens_and_chats() -> None:
    text_only = EngineAbilities(
        ids=False, tokenizer=False, client_draw=False, rewind=False, grammar=False, walks=False, exact=False
    )
    async with desktop(spec=LAB, chat=only(text_only)) as desk:
        await talked(desk, ("hello", "hi"))
        asked = len(desk.engine.commands)
        for line, why in (
            ("/prefill Sure,", "lab cannot continue from a token: it is text only"),
            ("/schema {}", "lab cannot constrain replies: it takes no constraints"),
            ("/raw", "lab cannot complete a text without a chat template: it is text only"),
            ("/tokens hello", "lab cannot show the tokens of a text: it does not tell the tokens"),
            ("/bias", "lab cannot ban or boost tokens: it is text only"),
            ("/draft ngram", "lab cannot draft tokens: it is text only"),
        ):
            await command(desk, line)
            assert why in " ".join(desk.text.split()), line
            stays = line not in ("/bias", "/draft ngram")  # a key, and a knob that is turned all the same
            assert (desk.composer.text == line) == stays, line
            desk.composer.clear()
        await desk.type("", "ctrl+g", "1")
        assert "lab cannot continue from a token: it is text only" in desk.text
        await desk.type("", "w")
        assert "lab cannot explain why a token was not drawn: it is text only" in desk.text
        await desk.type("", "escape", "f2")
        assert "no raw mode: lab cannot complete a text without a chat template" in desk.text
        await desk.type("", "ctrl+r")
        assert "[x]" not in desk.text
        await desk.type("", "escape")
        assert len(desk.engine.commands) == asked
        await desk.sent("and now?", "bye")
        assert len(desk.engine.asked(Generate)) == 2


async def test_a_knob_that_the_engine_lacks_stays_off_and_says_so() -> None:
    async with desktop((120, 50), spec=LAB, chat=only(EngineAbilities(lacks=("dry_multiplier", "top_k")))) as desk:
        await desk.type("", "ctrl+t", "k", "9", "enter")
        assert "top_k: lab has no such knob" in desk.text
        assert "not there" in desk.text
        await desk.type("", "escape")
        assert desk.chat.tuning.top_k == Tuning().top_k
        desk.chat.adjust_all({"dry_multiplier": 0.8, "temperature": 0.3}, {})
        assert (desk.chat.tuning.dry_multiplier, desk.chat.tuning.temperature) == (0.0, 0.3)
        await desk.settle()
        assert "lab has no dry_multiplier: left out" in desk.text


async def test_a_turned_knob_that_the_next_engine_lacks_is_told_when_its_model_is_there() -> None:
    async with desktop() as desk:
        desk.chat.adjust_setting("mirostat", 2)
        desk.engine.info = msgspec.structs.replace(desk.engine.info, abilities=EngineAbilities(lacks=("mirostat",)))
        desk.chat.loading.switch_model(Choice(LAB, {}))
        await desk.settle()
        assert "lab has no mirostat: without effect there" in desk.text


async def test_what_the_engine_does_not_take_is_refused_before_a_reply_could_fail() -> None:
    streams = msgspec.structs.replace(LLAMA_SERVER_STREAMED, ranges=VLLM.ranges)
    async with desktop((120, 50), spec=LAB, chat=only(streams)) as desk:
        await desk.type("", "ctrl+t", "t", "3", "enter")
        assert "lab cannot use temperature 3: it takes 0 to 2" in desk.text
        await desk.type("", "escape")
        desk.chat.adjust_all({"temperature": 4.0, "top_p": 0.5}, {})
        assert (desk.chat.tuning.temperature, desk.chat.tuning.top_p) == (Tuning().temperature, 0.5)
        await command(desk, "/rule survivors < 2")
        assert "lab does not tell what its sampler chain leaves" in " ".join(desk.text.split())
        desk.composer.clear()
        await command(desk, "/regex [0-9]+")
        assert "constraint not set: lab cannot follow a regex constraint" in desk.text
        desk.composer.clear()
        desk.chat.set_constraint(Constraint("lark", "start: A"))
        desk.chat.set_breakpoints([Breakpoint(parse("after < 0.1")), Breakpoint(parse("entropy > 3"))])
        assert desk.chat.constraint is None
        assert [rule.enabled for rule in desk.chat.breakpoints] == [False, True]
        await desk.sent("hello", "hi")
        (asked,) = desk.engine.generated
        assert (asked.samplers.temperature, asked.constraint) == (Tuning().temperature, None)
        assert desk.engine.asked(Adjust) == []


async def test_rules_that_the_next_engine_cannot_look_at_are_left_out_and_told() -> None:
    async with desktop() as desk:
        desk.chat.set_breakpoints([Breakpoint(parse("survivors < 2")), Breakpoint(parse("entropy > 3"))])
        desk.chat.set_constraint(Constraint("regex", "[0-9]+"))
        desk.engine.info = msgspec.structs.replace(desk.engine.info, abilities=LLAMA_SERVER_STREAMED)
        desk.chat.loading.switch_model(Choice(LAB, {}))
        await desk.settle()
        assert "lab cannot follow a regex constraint" in " ".join(desk.text.split())
        await desk.sent("hello", "hi")
        assert "left out: survivors < 2" in desk.text
        rules = [one for one in desk.engine.generated[-1].conditions if isinstance(one, Threshold)]
        assert rules == [parse("entropy > 3")]


async def test_a_server_that_draws_is_not_asked_about_tokens_while_it_makes_a_reply() -> None:
    async with desktop((140, 50), spec=LAB, chat=only(VLLM)) as desk:
        await desk.sent("hello", "hi")
        await desk.type("", "ctrl+g", "i")
        assert "lab is busy with the reply" in desk.text
        await desk.type("", "w")
        assert {Inspect, Explain} & {type(one) for one in desk.engine.commands} == set()
        assert {"inspect", "explain"} & desk.chat.offers == set()
        desk.engine.end()
        await desk.settle()
        await desk.type("", "i")
        assert len(desk.engine.asked(Inspect)) == 1
