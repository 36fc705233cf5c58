"""Chats with models on other machines: where they were is remembered, and a cut line loses nothing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from termchat.chat.opening import at_model_of, choose_configured, choose_elsewhere, find_here, find_model, load_session
from termchat.config.settings import Settings, load
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.engine.address import HERE, EngineAddress
from termchat.engine.make import engine_at
from termchat.engine.port import Load, ModelSpec
from termchat.models.errors import ModelError
from termchat.tui.screen.header_line import header_line
from tests.chat.driven_chat import Driven, Faked
from tests.chat.kept_chat import Kept
from tests.chats import chat_on
from tests.fake_ssh import hasty, install, lab

pytestmark = pytest.mark.usefixtures("home")

LAB = "[engines.lab]\nurl = 'ssh://lab'\nmodel = 'llama-70b'\n"
ADDRESS = EngineAddress(name="lab", url="ssh://lab", model="llama-70b")


@pytest.fixture
def written(tmp_path: Path):
    def written(text: str, **flags: object) -> Settings:
        (tmp_path / "config.toml").write_text(text)
        return load(flags, {}, tmp_path / "config.toml")

    return written


def loads(it: Faked) -> list[ModelSpec]:
    return [command.spec for command in it.engine.commands if isinstance(command, Load)]


def chat_on_lab(store: Store, config: Settings) -> str:
    """A saved chat with a model of the lab; its id."""
    it = Kept(store, config)
    spec = choose_elsewhere(config, ADDRESS).spec
    it.engine.info = msgspec.structs.replace(it.engine.info, name="llama-70b", path="/srv/llama-70b.gguf")
    it.chat.loading.load(spec)
    it.pump()
    it.replied("Who are you?", " A", " llama.")
    assert it.chat.model is not None
    assert it.chat.model.engine == "lab"
    return it.session


def test_what_is_configured_is_loaded_there_with_what_flags_say(written) -> None:
    config = written(f"default_engine = 'lab'\n[engine]\nthreads = 3\n{LAB}", context=4096)
    spec = find_model(config)[1]
    assert choose_configured(config).spec == spec
    assert (spec.path, spec.name, spec.engine) == ("llama-70b", "llama-70b", ADDRESS)
    assert (spec.context, spec.threads, spec.said) == (4096, 0, ("context",))
    assert find_model(written(LAB, default_engine="here"))[1].engine == HERE


def test_what_is_done_on_this_machine_does_not_go_elsewhere(written) -> None:
    assert find_here(written(f"default_engine = 'lab'\n{LAB}", model="smollm2")).path.endswith(".gguf")
    with pytest.raises(ModelError, match="is on another machine"):
        find_here(written(LAB, model="ssh://lab"))


def test_a_chat_remembers_its_engine_and_goes_on_there(store: Store, written) -> None:
    config = written(LAB)
    session = chat_on_lab(store, config)
    model = load_session(store, session, config).model
    there, missing = at_model_of(config, model)
    assert missing == ""
    assert find_model(there)[1].engine == msgspec.structs.replace(ADDRESS, model="/srv/llama-70b.gguf")
    there, _ = at_model_of(written(LAB, model="smollm2", default_engine="here"), model)
    assert find_model(there)[1].engine == HERE
    it = Kept(store, config)
    it.open(session)
    assert it.texts() == ["Who are you?", " A llama."]
    assert (loads(it)[-1].engine.name, loads(it)[-1].path) == ("lab", "/srv/llama-70b.gguf")


def test_a_chat_of_this_machine_stays_here_whatever_engine_is_configured(store: Store, written) -> None:
    config = written(f"default_engine = 'lab'\n{LAB}")
    it = Kept(store, config)
    it.replied("one", " a")
    assert at_model_of(config, it.chat.session.model)[0].address == HERE


def test_a_chat_whose_engine_is_gone_opens_with_its_text_and_says_so(store: Store, written) -> None:
    session = chat_on_lab(store, written(LAB))
    missing = "llama-70b on the engine lab, which is not in config.toml"
    it = Kept(store, written(""))
    it.open(session)
    assert it.texts() == ["Who are you?", " A llama."]
    assert f"this chat used {missing}" in it.notices
    assert len(loads(it)) == 1
    assert at_model_of(written(""), store.load(session).model)[1] == missing


def test_the_same_model_on_another_engine_is_another(store: Store, written) -> None:
    config = written(LAB)
    session = chat_on_lab(store, config)
    it = Kept(store, config)
    it.engine.info = msgspec.structs.replace(it.engine.info, name="llama-70b")
    it.open(session)
    assert len(loads(it)) == 2
    it.open(session)
    assert len(loads(it)) == 2


def test_knobs_follow_what_the_engine_recommends_unless_that_is_off(written) -> None:
    for heeded in (True, False):
        it = Faked(Tuning(seed=7))
        it.engine.info = msgspec.structs.replace(it.engine.info, recommended={"temperature": 0.3})
        config = written(f"recommendations = {str(heeded).lower()}\ndefault_engine = 'lab'\n{LAB}")
        it.chat.loading.load(find_model(config)[1], heeds=config.recommendations)
        it.pump()
        assert (it.chat.tuning.temperature == 0.3) is heeded
        assert (it.chat.origin["temperature"] == "model") is heeded


@pytest.mark.parametrize(
    ("sent", "words", "shown"),
    [
        (signal.SIGTERM, "the line to lab was cut", "the line was cut"),
        (signal.SIGSTOP, "the line to lab is silent", "the line is silent"),
    ],
)
def test_a_line_that_is_lost_keeps_the_reply_and_says_which_engine_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, sent: signal.Signals, words: str, shown: str
) -> None:
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", monkeypatch)
    tuning = Tuning(max_tokens=40, seed=5, temperature=1.0)
    address = lab(hasty(0.5))
    engine = engine_at(address)
    driven = Driven(chat_on(engine, tuning, store=store))
    try:
        driven.chat.loading.load(ModelSpec("smollm2", "smollm2", context=2048, threads=1, engine=address))
        whole = driven.say("Tell me about the desert.")
        driven.chat.new()
        cut = driven.stepped("Tell me about the desert.", 8)
        driven.chat.replies.resume()
        line = engine.pid
        assert line is not None
        (os.kill if sent == signal.SIGTERM else os.killpg)(line, sent)
        driven.until(lambda: driven.chat.phase == "failed")
        assert cut.failed is not None
        assert cut.failed.message.startswith(words)
        assert header_line(driven.chat, 80).text.endswith(f"  {shown} ")
        assert len(cut.tokens) >= 8
        with suppress(ProcessLookupError):  # what was stopped hears that nobody waits for it
            os.killpg(line, signal.SIGCONT)
        driven.chat.loading.restart_engine()
        driven.idle()
        tokens = [id for span in driven.chat.conversation.find_reply() for id in span.node.ids[: span.count]]
        assert tokens == list(whole.ids)
    finally:
        driven.chat.close()


def test_a_chat_that_is_opened_again_follows_what_its_engine_recommends_and_keeps_what_a_person_turned(
    store: Store, written
) -> None:
    config = written(LAB)
    it = Kept(store, config)
    it.engine.info = msgspec.structs.replace(
        it.engine.info, name="llama-70b", recommended={"temperature": 0.3, "top_k": 7, "min_p": 0.2}
    )
    it.chat.loading.load(choose_elsewhere(config, ADDRESS).spec)
    it.pump()
    it.chat.adjust_setting("top_k", 90)
    it.replied("Who are you?", " A", " llama.")
    session = it.session

    again = Kept(store, config)
    again.engine.info = msgspec.structs.replace(
        again.engine.info, name="llama-70b", recommended={"temperature": 0.4, "top_k": 7}
    )
    again.open(session)
    chat = again.chat
    assert (chat.tuning.temperature, chat.origin["temperature"]) == (0.4, "model")  # what it recommends by now
    assert (chat.tuning.top_k, chat.origin["top_k"]) == (90, "session")
    assert (chat.tuning.min_p, chat.origin["min_p"]) == (Tuning().min_p, "default")
    chat.new()
    assert (chat.tuning.temperature, chat.tuning.top_k, chat.origin["top_k"]) == (0.4, 7, "model")
    again.open(session)  # its model is there already
    assert (chat.tuning.temperature, chat.tuning.top_k) == (0.4, 90)
