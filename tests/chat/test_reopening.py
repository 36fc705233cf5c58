"""From chat to chat while the app runs, on a fake engine and a real store."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from termchat.chat.groups import list_groups
from termchat.chat.opening import fetch_session
from termchat.config.settings import Settings, load
from termchat.conversation.session import Breakpoint, View
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Place
from termchat.decoding import walk_plan
from termchat.decoding.conditions import Length
from termchat.decoding.group import GridKnob
from termchat.engine.port import Load, ModelSpec
from tests.chat.kept_chat import Kept
from tests.models.gguf_files import named
from tests.tui import fake_engine
from tests.tui.fake_engine import FakeEngine

pytestmark = pytest.mark.usefixtures("home")
POINT = Breakpoint(Length(tokens=500), enabled=False)


def test_a_chat_goes_on_as_it_was_left_and_the_model_is_asked_nothing_before(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    first = it.replied("one", " a", " b", " c")
    it.chat.forks.fork_reply(first, 1, text=" other")
    it.pump()
    it.engine.end()
    it.pump()
    other, view = it.chat.conversation.leaf, View(Place(first.number, 1), "rank", "entropy")
    it.chat.branches.select_leaf(first.number)
    it.chat.set_breakpoints([POINT])
    it.chat.adjust_setting("temperature", 0.25)
    it.chat.set_view(view)
    one, before = it.session, it.chat.conversation.list_ids()
    it.chat.new()
    it.chat.set_breakpoints([])
    it.chat.adjust_setting("temperature", 1.5)
    it.replied("two", " d")
    two, asked = it.session, len(it.engine.commands)
    del first

    it.open(one)
    assert it.session == one
    assert it.texts() == ["one", " a b c"]
    assert it.chat.conversation.list_ids() == before
    assert it.chat.conversation.leaf != other
    assert other in it.chat.conversation.nodes
    assert (it.chat.tuning.temperature, it.chat.breakpoints, it.chat.session.view) == (0.25, (POINT,), view)
    assert it.chat.live.token is not None
    assert len(it.engine.commands) == asked
    it.replied("and on", " e")
    assert it.engine.generated[-1].samplers.temperature == 0.25

    it.open(two)
    assert (it.texts(), it.chat.tuning.temperature, it.chat.breakpoints) == (["two", " d"], 1.5, ())
    it.open(one)
    assert it.texts() == ["one", " a b c", "and on", " e"]
    assert [found.turns for found in store.sessions()] == [2, 1]


def test_looking_at_a_chat_is_not_using_it(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.replied("one", " a")
    one = it.session
    it.chat.new()
    it.replied("two", " b")
    two = it.session
    before = it.updated(one), it.updated(two)
    for session in (one, two, one):
        it.open(session)
    it.chat.new()
    assert (it.updated(one), it.updated(two)) == before


def test_a_reply_that_is_running_ends_and_is_kept_where_it_belongs(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.replied("one", " a")
    one = it.session
    it.chat.new()
    reply = it.writing("two", " b")
    two = it.session
    it.chat.send("later")
    it.chat.send("and later")
    it.engine.say(" on its way")  # what the engine says before it hears of the end
    it.chat.show_session(*fetch_session(store, one, config, it.chat.host.loaded))
    assert it.chat.conversation.title == "one"
    assert not it.chat.turns.queue

    it.chat.show_session(*fetch_session(store, two, config, it.chat.host.loaded))  # back at once
    it.pump()
    assert list(it.chat.turns.queue) == ["later", "and later"]
    assert it.reply is reply  # and not what the store had by then
    assert reply.text() == " b on its way"
    assert reply.finished is not None
    assert reply.finished.reason == "user"
    it.open(one)
    assert it.texts() == ["one", " a"]
    it.replied("goes on", " here")
    del reply, it
    assert store.flush()
    assert store.load(two).unfinished == ()
    assert [text for _, text in store.load(two).conversation.list_turns()] == ["two", " b on its way"]


def test_a_message_that_is_on_its_way_is_given_back(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.replied("one", " a")
    one = it.session
    it.chat.new()
    it.chat.send("two")
    it.chat.send("three")
    it.open(one)
    assert not it.chat.conversation.unsent.written
    assert it.texts() == ["one", " a"]
    assert it.chat.phase == "idle"
    it.chat.new()
    it.pump()
    assert it.chat.conversation.unsent.returned == "two"
    assert list(it.chat.turns.queue) == ["three"]
    assert it.chat.phase == "idle"  # what waits is not sent by itself


def test_a_chat_that_another_process_took_further_goes_by_its_copys_id(
    store: Store, config: Settings, tmp_path: Path
) -> None:
    it = Kept(store, config)
    it.replied("one", " a")
    one = it.session
    assert store.flush()
    elsewhere = Store.open(tmp_path / "sessions.db")
    other = Kept(elsewhere, config)
    other.open(one)
    other.replied("theirs", " b")
    assert elsewhere.close()
    it.replied("ours", " c")
    assert store.flush()
    assert it.session != one
    assert {found.id for found in store.sessions()} == {one, it.session}
    shown = it.chat.session
    it.chat.new()
    it.open(next(found.id for found in store.sessions() if found.id != one))
    assert it.chat.session is shown


def test_a_title_stays_as_it_was_given(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.replied("one two three", " a")
    one = it.session
    it.chat.rename_chat("the first")
    it.replied("four", " b")
    it.chat.new()
    it.replied("five", " c")
    assert [found.title for found in store.sessions()] == ["five", "the first"]
    store.rename(one, "once more")
    it.open(one)
    assert it.chat.conversation.title == "once more"
    it.chat.rename_chat("the last")
    assert store.load(one).conversation.title == "the last"


# --- the model it was with -------------------------------------------------------------------------------------------


def with_model(store: Store, config: Settings, path: Path) -> str:
    """A chat that was with the model in a file."""
    it = Kept(store, config)
    info = msgspec.structs.replace(fake_engine.INFO, name="Other", path=str(path), sha256="0" * 64)
    it.chat.host.model = info
    it.replied("with the other one", " a")
    return it.session


def loads(engine: FakeEngine) -> list[ModelSpec]:
    return [command.spec for command in engine.asked(Load)]


def test_the_model_it_was_with_is_loaded(store: Store, config: Settings, tmp_path: Path) -> None:
    path = named("Other-Q8_0", tmp_path / "m")
    session = with_model(store, config, path)
    it = Kept(store, config)
    it.open(session)
    assert [spec.path for spec in loads(it.engine)] == ["/tiny.gguf", str(path)]
    assert it.chat.phase == "idle"


def test_the_model_is_loaded_as_soon_as_the_reply_that_was_running_has_ended(
    store: Store, config: Settings, tmp_path: Path
) -> None:
    path = named("Other-Q8_0", tmp_path / "m")
    session = with_model(store, config, path)
    it = Kept(store, config)
    it.writing("streams", " b")
    it.chat.show_session(*fetch_session(store, session, config, it.chat.host.loaded))
    it.chat.send("goes on")
    assert len(loads(it.engine)) == 1
    it.pump()
    assert [spec.path for spec in loads(it.engine)] == ["/tiny.gguf", str(path)]
    it.engine.say(" c")
    it.engine.end()
    it.pump()
    assert it.texts() == ["with the other one", " a", "goes on", " c"]


def test_whoever_leaves_the_chat_at_once_stays_with_the_model_there_is(
    store: Store, config: Settings, tmp_path: Path
) -> None:
    session = with_model(store, config, named("Other-Q8_0", tmp_path / "m"))
    it = Kept(store, config)
    it.writing("streams", " b")
    it.chat.show_session(*fetch_session(store, session, config, it.chat.host.loaded))
    it.chat.new()
    it.pump()
    assert len(loads(it.engine)) == 1


def test_without_that_model_it_goes_on_with_the_one_there_is_and_says_so(
    store: Store, config: Settings, tmp_path: Path
) -> None:
    session = with_model(store, config, tmp_path / "gone.gguf")
    it = Kept(store, config)
    it.open(session)
    assert "this chat used Other, which is not on this machine" in it.notices
    assert len(loads(it.engine)) == 1
    assert store.load(session).model.name == "Other"  # until another one has answered
    it.replied("goes on", " b")
    assert store.load(session).model.name == "tiny"
    it.chat.new()
    it.replied("new", " c")
    assert store.load(it.session).model.name == "tiny"


def test_a_chat_is_listed_with_the_model_that_wrote_it_whatever_is_loaded_since(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.replied("hello", " a")
    session = it.session
    other = msgspec.structs.replace(fake_engine.INFO, name="Other", path="/other.gguf", sha256="0" * 64)
    it.chat.host.model = other
    assert store.flush()
    assert [(one.id, one.model) for one in store.sessions(9)] == [(session, "tiny")]
    it.replied("and you?", " b")
    assert store.flush()
    assert [one.model for one in store.sessions(9)] == ["Other"]


def test_a_damaged_model_is_told_and_the_chat_opens_all_the_same(
    store: Store, config: Settings, tmp_path: Path
) -> None:
    path = named("Other-Q8_0", tmp_path / "m")
    session = with_model(store, config, path)
    path.write_bytes(b"GGUF")
    it = Kept(store, config)
    it.open(session)
    assert it.texts() == ["with the other one", " a"]
    assert any("Other, which cannot be loaded: " in notice for notice in it.notices)


def test_what_a_flag_says_of_the_model_is_for_the_beginning(store: Store, tmp_path: Path) -> None:
    path = named("Other-Q8_0", tmp_path / "m")
    config = load({"model": "tiny", "top_k": 3}, {}, tmp_path / "none.toml")
    session = with_model(store, config, path)
    it = Kept(store, config)
    it.open(session)
    assert loads(it.engine)[-1].path == str(path)
    assert it.chat.tuning.top_k == 3


def test_how_a_reply_began_is_known_when_its_chat_is_opened_again(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.chat.begin_with("Well")
    it.replied("one", " a")
    one = it.session
    it.chat.new()
    it.replied("two", " b")
    it.open(one)
    it.chat.forks.regenerate()
    it.pump()
    assert it.reply.text() == "Well"


def test_a_group_is_there_again_and_its_knobs_are_not_the_chats(store: Store, config: Settings) -> None:
    it = Kept(store, config)
    it.chat.walks.start(walk_plan.grid([GridKnob("temperature", (0.5, 1.5))], runs=2), text="one")
    it.pump()
    it.engine.say(" a", " b")
    it.engine.end()
    it.pump()
    shown = it.chat.walks.shown
    assert shown is not None
    it.chat.walks.keep_reply(2)
    it.replied("and then", " c")
    session, before = it.session, {walk: list(node.ids) for walk, node in shown.nodes.items()}
    assert store.flush()
    elsewhere = Store.open(store.path)
    another = Kept(elsewhere, config)
    another.open(session)
    [group] = list_groups(another.chat.conversation)
    assert {walk: list(node.ids) for walk, node in group.nodes.items()} == before
    assert group.labels == shown.labels
    assert group.rank_replies() == shown.rank_replies()
    assert another.chat.tuning.temperature == 0.8
    assert another.chat.origin["temperature"] == "default"
    another.chat.walks.open(group.group.number)
    another.chat.walks.select_reply(3)
    another.pump()
    assert another.texts() == ["one", " a b"]
    assert another.chat.live.token is not None
    another.replied("on from here", " d")
    assert another.chat.conversation.find_path()[-3].node is group.nodes[3]
    elsewhere.close()
