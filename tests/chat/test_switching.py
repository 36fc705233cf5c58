"""Another model in mid-chat, with two real files: whose ids a turn is, what is marked, what is freed, and the ways back."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from termchat.chat.changes import Notice, TuningChanged
from termchat.chat.loading import Choice
from termchat.chat.opening import choose_model, load_latest, make_saver
from termchat.config.settings import load
from termchat.conversation import setting_changes
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Generate,
    Load,
    Loaded,
    Message,
    ModelSpec,
    Remark,
    Render,
    Rendered,
    ReplyRequest,
)
from tests.chat.driven_chat import Driven, Faked, Make
from tests.engine.conftest import Driver
from tests.requantized import TEMPERATURE, requantized
from tests.tui import fake_engine

GREEDY = Tuning(temperature=0, max_tokens=12)
RAN = {"temperature": "flag", "max_tokens": "flag"}
"""A switch keeps these: without an origin they would follow the model, and a reply would be drawn, as long as it likes."""


@pytest.fixture(scope="session")
def copy(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights in Q8_0, with a template of its own."""
    return requantized(model_path, tmp_path_factory.mktemp("models") / "copy-q8.gguf", "Q8_0")


@pytest.fixture
def q4(spec: ModelSpec) -> Choice:
    return chosen(Path(spec.path))


@pytest.fixture
def q8(copy: Path) -> Choice:
    return chosen(copy)


def chosen(path: Path) -> Choice:
    flags = {"context": "1024", "threads": "1"}
    return choose_model(load(flags, {}, path.parent / "none.toml"), str(path))


def said_alone(choice: Choice, messages: list[tuple[str, str]], prompt: list[int]) -> list[int]:
    """What that model alone says to these texts, greedily; its own prompt ids must be `prompt`."""
    driver = Driver(choice.spec)
    try:
        rendered = driver.ask(Render([Message(role, text) for role, text in messages]), Rendered)[-1]  # type: ignore[arg-type]
        assert isinstance(rendered, Rendered)
        assert rendered.ids == prompt
        events = driver.ask(Generate([ReplyRequest(prompt, GREEDY.samplers(), GREEDY.conditions(), 1)]), Finished)
        return [event.id for event in events if isinstance(event, Token)]
    finally:
        driver.engine.close()


def prompt_of(driven: Driven, reply: Node) -> list[int]:
    return driven.chat.conversation.ids_before(reply.number)


def switched(driven: Driven, choice: Choice) -> None:
    assert driven.chat.loading.switch_model(choice)
    driven.idle()
    assert driven.chat.model is not None, driven.notices


def test_the_chat_goes_on_with_the_new_models_ids_both_ways(make: Make, q4: Choice, q8: Choice) -> None:
    driven = make(GREEDY, origin=dict(RAN))
    switched(driven, q4)
    messages = []
    for text, choice in (("Name an animal.", q4), ("Another one?", q8), ("And one more?", q4)):
        if choice.spec != driven.chat.spec:
            switched(driven, choice)
        messages.append(("user", text))
        reply = driven.say(text)
        assert reply.start is not None
        assert reply.start.model.sha256 == choice.spec.sha256
        assert list(reply.tokens.ids) == said_alone(choice, messages, prompt_of(driven, reply))
        messages.append(("assistant", reply.text()))
    assert list(driven.chat.conversation.list_turns()) == messages
    followed = driven.say("Thanks!")  # the same model as before: its own ids are kept, nothing is rendered anew
    assert followed.prefill is not None
    assert followed.prefill.reused > 0
    assert prompt_of(driven, followed)[: len(driven.chat.conversation.ids_before(reply.number))] == prompt_of(
        driven, reply
    )


def test_a_switch_frees_the_old_process_and_so_does_unloading(make: Make, q8: Choice) -> None:
    driven = make(GREEDY, origin=dict(RAN))
    driven.idle()
    engine = driven.chat.engine
    assert isinstance(engine, LocalEngine)
    old = engine.pid
    assert resident(old) > 50 << 20  # it holds a model
    switched(driven, q8)
    new = engine.pid
    assert new != old
    assert resident(old) == 0
    assert driven.chat.loading.unload_model()
    assert driven.chat.phase == "no model"
    assert driven.chat.model is None
    assert resident(new) == 0
    assert driven.say("Hello").ids  # it is loaded again by itself
    assert driven.chat.model is not None
    assert driven.chat.model.sha256 == q8.spec.sha256
    again = engine.pid
    assert driven.chat.loading.reload_model()
    driven.idle()
    assert resident(again) == 0
    assert engine.pid != again


def resident(pid: int | None) -> int:
    """Bytes of memory that a process holds; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS")), 0)


def test_knobs_that_nobody_turned_follow_the_model(make: Make, q4: Choice, q8: Choice) -> None:
    driven = make(Tuning(max_tokens=5), origin={"max_tokens": "flag"})
    driven.idle()
    driven.chat.adjust_setting("top_k", 7)
    driven.told.clear()
    switched(driven, q8)
    assert driven.chat.tuning.temperature == TEMPERATURE
    assert driven.chat.origin["temperature"] == "model"
    assert driven.chat.tuning.top_k == 7
    assert TuningChanged() in driven.told
    reply = driven.say("Hi")
    assert reply.settings[0].origin["temperature"] == "model"
    switched(driven, q4)
    assert driven.chat.tuning == Tuning(max_tokens=5, top_k=7)
    assert driven.chat.origin["temperature"] == "default"


def test_a_model_that_does_not_load_leaves_the_way_back(make: Make, q4: Choice, q8: Choice, tmp_path: Path) -> None:
    driven = make(GREEDY, origin=dict(RAN))
    driven.idle()
    switched(driven, q8)
    reply = driven.say("Name an animal.")
    driven.chat.loading.switch_model(Choice(ModelSpec(str(tmp_path / "gone.gguf"), "gone"), {}))
    driven.idle()
    assert driven.chat.phase == "failed"
    assert any("gone.gguf could not be loaded" in text for text in driven.notices)
    assert getattr(driven.chat.loading.earlier, "spec", None) == q8.spec
    assert driven.chat.loading.switch_back()
    driven.idle()
    assert driven.chat.model is not None
    assert driven.chat.model.sha256 == q8.spec.sha256
    assert driven.say("Another?").start.model == reply.start.model  # type: ignore[union-attr]
    assert driven.chat.loading.earlier is not None
    assert driven.chat.loading.earlier.spec.path == q4.spec.path


def test_it_is_marked_saved_and_reopened(make: Make, q4: Choice, q8: Choice, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    driven = make(GREEDY, origin=dict(RAN), store=store)
    switched(driven, q4)
    first = driven.say("Name an animal.")
    switched(driven, q8)
    second = driven.say("Another one?")
    third = driven.say("Why?")
    old, new = q4.spec.name, q8.spec.name
    mark = f"model {old} Q4_1 → {new} Q8_0"
    assert [setting_changes.model_change(node) for node in (first, second, third)] == [None, mark, None]

    text = make_saver(driven.chat.session, tmp_path / "chat.md")().read_text()
    assert f"- models: {old} (llama, Q4_1, {old}.gguf); {new} (llama, Q8_0, {new}.gguf)" in text
    assert text.count(f"⟦{mark}⟧") == 1
    assert text.index(f"## {new}") < text.index(f"⟦{mark}⟧") < text.index("Why?")

    lines = [json.loads(line) for line in make_saver(driven.chat.session, tmp_path / "chat.jsonl")().open()]
    starts = [line["model"]["sha256"] for line in lines if line["record"] == "start"]
    assert starts == [q4.spec.sha256, q8.spec.sha256, q8.spec.sha256]
    turns = list(driven.chat.conversation.list_turns())
    driven.chat.close()
    store.close()

    store = Store.open(tmp_path / "sessions.db")
    reopened = load_latest(store, load({}, {}, tmp_path / "none.toml"))
    assert reopened is not None
    assert reopened.model.path == q8.spec.path
    assert list(reopened.conversation.list_turns()) == turns
    nodes = reopened.conversation.nodes
    assert [setting_changes.model_change(nodes[node.number]) for node in (first, second, third)] == [None, mark, None]
    assert reopened.conversation.list_ids() == driven.chat.conversation.list_ids()
    store.close()


# --- on an engine that says what it is told to -----------------------------------------------------------------------


OTHER = Choice(ModelSpec("/other.gguf", "other"), {})


def test_while_a_reply_runs_a_person_is_asked_to_stop_it_first() -> None:
    driven = Faked()
    driven.writing("Hello", "One", " two")
    for what, done in (
        ("change the model", lambda: driven.chat.loading.switch_model(OTHER)),
        ("unload the model", driven.chat.loading.unload_model),
        ("reload the model", driven.chat.loading.reload_model),
    ):
        assert not done()
        assert driven.chat.take_changes() == [Notice(f"cannot {what}: a reply is running", "stop it first")]
    driven.engine.say(" three")
    driven.engine.end()
    driven.pump()
    assert driven.reply.text() == "One two three"
    assert driven.chat.loading.switch_model(OTHER)


def test_what_was_asked_of_the_model_before_is_answered_by_nobody() -> None:
    driven = Faked()
    reply = driven.replied("Hello", "One", " two")
    driven.engine.hears = False
    driven.chat.questions.inspect_token(reply, 1)
    driven.chat.forks.fork_reply(reply, 1, text="three")
    driven.chat.loading.switch_model(OTHER)
    driven.engine.answer_questions()
    driven.engine.hears = True
    driven.pump()
    assert driven.chat.phase == "idle"
    assert driven.chat.questions.inspected is None
    assert driven.chat.questions.failed is None
    assert driven.chat.conversation.leaf == reply.number
    driven.chat.questions.inspect_token(reply, 1)
    driven.pump()
    assert driven.chat.questions.inspected is not None


def test_what_was_sent_while_the_model_changes_goes_to_the_new_one() -> None:
    driven = Faked()
    driven.chat.loading.switch_model(OTHER)
    driven.chat.send("Hello")
    assert driven.chat.phase == "loading"
    driven.pump()
    load_at, sent_at = (
        max(at for at, command in enumerate(driven.engine.commands) if isinstance(command, kind))
        for kind in (Load, Generate)
    )
    assert load_at < sent_at


def test_there_is_no_way_back_before_there_was_another_model() -> None:
    driven = Faked()
    assert driven.chat.loading.earlier is None
    assert not driven.chat.loading.switch_back()
    assert [change.message for change in driven.chat.take_changes() if isinstance(change, Notice)] == [
        "no previous model"
    ]


def test_what_the_engine_remarks_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remark = Remark("8 of 31 layers fit", "a smaller --context leaves more room")
    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, remarks=[remark]))
    driven = Faked()
    driven.chat.loading.reload_model()
    driven.pump()
    assert [change for change in driven.told if isinstance(change, Notice)] == [Notice(remark.message, remark.hint)]


def test_a_mark_takes_no_control_characters_from_a_models_name() -> None:
    chat = Conversation()
    for name, sha in (("one", "a"), ("\x1b]0;two\x07", "b")):
        node = chat.grow_node("assistant", parent=chat.leaf, at=0)
        start = fake_engine.made_records.start([1], 1)
        node.add(msgspec.structs.replace(start, model=msgspec.structs.replace(start.model, name=name, sha256=sha)))
    mark = setting_changes.model_change(node)
    assert mark is not None
    assert mark.isprintable()


def test_loading_again_ends_a_load_that_is_under_way() -> None:
    driven = Faked()
    driven.engine.loads = False
    driven.chat.loading.switch_model(OTHER)
    stale = len(driven.engine.commands)
    driven.engine.loads = True
    driven.chat.loading.switch_back()
    driven.engine._answer(stale, Loaded(fake_engine.INFO))
    driven.pump()
    assert driven.chat.spec is not None
    assert driven.chat.spec.name == "tiny"
    assert driven.chat.phase == "idle"
