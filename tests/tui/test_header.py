"""The header where there is little room, and what a click on it does."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from termchat.chat.loading import Choice
from termchat.engine.abilities import LLAMA_SERVER, LLAMA_SERVER_STREAMED, LOCAL, EngineAbilities
from termchat.engine.address import EngineAddress
from termchat.engine.port import ModelSpec
from termchat.tui.screen.header_line import header_line
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import idle_chat

LONG = "Mistral-Small-3.2-24B-Instruct-2506"


@pytest.mark.parametrize("queued", [0, 2])
@pytest.mark.parametrize("width", [46, 60, 80, 120])
def test_a_long_name_of_a_model_is_cut_but_never_left_out(width: int, queued: int) -> None:
    chat = idle_chat(FakeEngine())
    assert chat.model is not None
    chat.host.model = msgspec.structs.replace(chat.model, name=LONG)
    chat.send("hi")
    for number in range(queued):
        chat.send(f"and {number}")
    line = header_line(chat, width)
    assert LONG[:6] in line.text
    assert ("+2 queued" in line.text) == bool(queued)
    assert cell_len(line.text) == width


@pytest.mark.parametrize(
    ("abilities", "mark"),
    [
        (LOCAL, ""),
        (LLAMA_SERVER, ""),
        (LLAMA_SERVER_STREAMED, "draws there"),
        (EngineAbilities(ids=False, client_draw=False), "text only"),
    ],
)
@pytest.mark.parametrize("width", [80, 120])
def test_a_model_elsewhere_is_named_with_its_engine_and_what_is_less_there(
    width: int, abilities: EngineAbilities, mark: str
) -> None:
    engine = FakeEngine()
    engine.info = msgspec.structs.replace(engine.info, name="smol-Q4_1", device="lab", abilities=abilities)
    chat = chat_on(engine)
    chat.loading.load(ModelSpec("", "lab", engine=EngineAddress(name="lab", url="https://lab")))
    chat.pump_events()
    shown = header_line(chat, width).text
    assert f"lab: smol-Q4_1   {mark or 'context'} " in shown


def test_a_click_on_the_context_does_nothing_where_one_on_the_model_opens_the_models() -> None:
    runs = header_line(idle_chat(FakeEngine()), 120).runs
    does = {text.strip(): ink.does for text, ink in runs}
    assert does["tiny Q4_1"] == "dialog('models')"
    assert does["0/2048"] == does["context"] == ""


def test_a_draft_model_that_is_being_loaded_is_told_until_it_is_there() -> None:
    engine = FakeEngine()
    chat = idle_chat(engine)
    assert header_line(chat, 80).text.rstrip().endswith("ready")
    engine.loads_drafts = False
    chat.loading.speculation.draft_with(Choice(ModelSpec("/small.gguf", "small"), {}))
    assert "loading draft model" in header_line(chat, 80).text
    assert header_line(chat, 80).text.rstrip().endswith(" 0%")
    engine.no_draft = "small has another vocabulary"
    engine.load_draft()
    chat.pump_events()
    assert header_line(chat, 80).text.rstrip().endswith("ready")


@pytest.mark.parametrize(
    ("kind", "message", "shown"),
    [
        ("server", "{} broke off the connection: Connection reset by peer", "broke off the connection"),
        ("server", "{} cannot be reached: Connection refused", "cannot be reached"),
        ("server", "{} has not answered for 120 s", "has not answered for 120 s"),
        ("server", "{} answers 503: Loading model", "answers 503"),
        ("model", "{} now has another model: qwen3-8b", "now has another model"),
        ("internal", "KeyError: 'tokens'", "interrupted"),
        ("engine", "the line to {} was cut, or its worker ended: Broken pipe", "the line was cut"),
        ("engine", "the line to {} is silent: no word for 30 s", "the line is silent"),
        ("engine", "the engine on {} ended: out of memory", "the engine ended"),
        ("engine", "the engine process ended by SIGKILL", "engine stopped"),
    ],
)
@pytest.mark.parametrize("address", [EngineAddress("lab", "ssh://lab"), EngineAddress(url="http://127.0.0.1:8080")])
def test_what_ended_a_reply_is_told_until_something_new_begins(
    address: EngineAddress, kind: str, message: str, shown: str
) -> None:
    engine = FakeEngine()
    chat = chat_on(engine)
    chat.loading.load(ModelSpec("", "tiny", engine=address))
    chat.pump_events()
    chat.send("hi")
    chat.pump_events()
    engine.say("One", " two")
    chat.pump_events()
    engine.die(message.format(address.shown), kind)
    chat.pump_events()
    line = header_line(chat, 80)
    assert line.text.endswith(f"  {shown} ")
    assert cell_len(line.text) == 80
    assert "tiny" in line.text
    assert [ink.does for text, ink in line.runs if text == shown] == ["continue"]
    if chat.phase == "failed":
        chat.loading.restart_engine()
    else:
        chat.forks.continue_reply()
    chat.pump_events()
    assert shown not in header_line(chat, 80).text
    engine.say(" three")
    engine.end()
    chat.pump_events()
    assert header_line(chat, 80).text.endswith("  ready ")
