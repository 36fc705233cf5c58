"""Lessons on the screen: they say what to do, see that it was done, and give the reader's own chat back."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

import pytest
from textual.screen import ModalScreen

from termchat import paths
from termchat.chat.host import Choice
from termchat.config import per_model
from termchat.conversation.store.store import Store
from termchat.decoding import walk_plan
from termchat.engine.port import ALL_FEATURES, ModelSpec
from termchat.lessons.expressions import Expression
from termchat.lessons.lesson import LessonQuestion, LessonText
from termchat.lessons.playing import LessonState
from termchat.tui.demo import tape
from termchat.tui.demo.engine import DemoEngine
from termchat.tui.draw.ink import Ink, Paint
from termchat.tui.lessons.autoplay import Autoplay
from termchat.tui.lessons.lesson_words import plain_text, read_lessons, render_text, strip_lines
from termchat.tui.pages.panels import Panels
from termchat.tui.screen.key_line import key_line
from termchat.tui.themes.library import PLAIN as NO_COLOUR
from tests.chats import chat_on, missing
from tests.colors import contrast
from tests.models.gguf_files import named
from tests.tui.fake_engine import FakeEngine
from tests.tui.made_lessons import (
    FIRST,
    SECOND,
    answered,
    at_step,
    begun,
    go_to,
    learner,
    one_step,
    step,
    strip,
    write_lessons,
)  # fmt: skip
from tests.tui.models_dialog import shop
from tests.tui.running_app import SPEC, click, command, desktop
from tests.tui.transcripts import THEMES
from tests.tui.walks import say

pytestmark = pytest.mark.usefixtures("own_lessons_only")


@pytest.fixture
def own_lessons_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the course come and go."""
    monkeypatch.setattr("termchat.lessons.lesson_file.COURSE", home / "no-course")


async def test_a_lesson_is_chosen_played_to_its_end_and_left() -> None:
    async with learner(lesson=None) as desk:
        await desk.type("my own draft")
        desk.chat.adjust_setting("top_k", 7)
        mine, knobs = desk.chat.conversation, desk.chat.tuning
        await desk.type("", "ctrl+space")
        assert "80 Greedy 3 min What temperature 0 does." in " ".join(desk.text.split())
        await desk.type("", "enter")
        await desk.until(lambda: desk.app.learning.strip is not None)
        assert (desk.chat.tuning.temperature, desk.chat.tuning.top_k, desk.composer.text) == (0.7, 40, "The sea is")
        await desk.shows("Greedy 1 of 3", "Ctrl+T t, then 0 and Enter", "▸Ctrl+T tune")
        await desk.type("", "ctrl+t", "t", "0", "enter")
        await at_step(desk, 2)
        await desk.type("", "escape")
        assert "What will the same text give" in desk.text
        await desk.type("", "1")
        assert desk.composer.text == "The sea is"
        assert "Your guess: the same reply" in strip(desk)
        await desk.type("", "enter")
        await answered(desk, " blue", " and", " wide")
        await at_step(desk, 3)
        assert "✓ You said: the same reply. Right." in strip(desk)
        await desk.type("?")
        assert "Hint Once more." in strip(desk)
        await desk.type("5", "enter")
        assert desk.composer.text == ""
        await desk.type("", "ctrl+r")
        await answered(desk, " blue", " and")
        await desk.until(lambda: "You said 5 tokens, it is 2 tokens." in strip(desk))
        assert "At temperature 0 the likeliest token" in strip(desk)
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert (desk.chat.conversation, desk.chat.tuning) == (mine, knobs)
        assert desk.composer.text == "my own draft"
        assert desk.app.learning.progress.of("first-own").done
        assert "LESSON" not in desk.text


async def test_what_a_reader_writes_is_never_taken_for_an_answer() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type(", 1 of 2?")
        assert desk.composer.text == "The sea is, 1 of 2?"
        assert "What will the same text give" in desk.text
        await desk.type("", "ctrl+space", "2")  # the way that takes nothing from the composer
        assert desk.composer.text == "The sea is, 1 of 2?"
        assert "Your guess: another one" in strip(desk)
        await desk.type("x")
        assert desk.composer.text == "The sea is, 1 of 2?x"


@pytest.mark.parametrize(("direct", "open"), [(True, False), (False, True), (False, False)])
def test_digits_are_marked_while_they_go_to_the_question(direct: bool, open: bool) -> None:
    which = LessonQuestion(LessonText("Which?"), (LessonText("this"), LessonText("that")), 1)
    many = LessonQuestion(LessonText("How many?"), unit="tokens", truth=Expression("tokens"))
    for asked, key in ((which, "2"), (many, "__")):
        lines = strip_lines(one_step(question=asked), 78, 8, direct=direct, open=open)
        (ink,) = {ink for line in lines[:-1] for text, ink in line.runs if text.strip().startswith(key)}
        assert (ink.ground == "accent") is (direct or open)
        assert any("To answer, press Ctrl+Space" in line.text for line in lines) is not (direct or open)


async def test_a_message_that_is_edited_is_the_readers_own() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "enter")
        await answered(desk, " blue")
        await desk.type("", "f7")
        await desk.type("/1")
        assert desk.composer.text == "The sea is/1"
        await desk.type("", "ctrl+u")
        await desk.type("1, 2, 3?")
        assert desk.composer.text == "1, 2, 3?"
        await desk.type("", "ctrl+u")
        await desk.type("?")
        assert desk.composer.text == "?"
        assert "Your guess" not in strip(desk)
        await desk.type("", "escape", "1")
        assert desk.composer.text == ""
        assert "You said: the same reply. Right." in strip(desk)


async def test_a_command_takes_the_place_of_the_text_that_the_lesson_gave_until_it_is_done() -> None:
    async with learner() as desk:
        assert desk.composer.text == "The sea is"
        await desk.type("/what entropy")
        assert desk.composer.text == "/what entropy"
        await desk.type("", "escape", "enter")
        await desk.shows("How uncertain the model is")
        assert desk.composer.text == "The sea is"
        await desk.type(" or/and")
        assert desk.composer.text == "The sea is or/and"


async def test_the_strip_gives_the_keyboard_back_after_one_key() -> None:
    async with learner() as desk:
        await desk.type("", "ctrl+g")  # no tokens yet
        await desk.type("", "ctrl+t")
        assert "TUNE" in desk.text
        await desk.type("", "ctrl+space")
        assert " LESSON " in desk.text
        await desk.type("", "?")
        assert "Hint It is a knob." in strip(desk)
        await desk.type("", "right")
        assert desk.chat.tuning.temperature > 0.7
        await desk.type("", "ctrl+space", "escape", "escape", "h")
        assert desk.composer.text == "The sea ish"
        await desk.type("", "ctrl+space", "1", "e")
        assert "the lesson asks nothing now" in desk.text
        assert desk.composer.text == "The sea ishe"


async def test_hints_go_from_a_nudge_to_the_deed() -> None:
    async with learner() as desk:
        await desk.type("", "ctrl+space", "?")
        assert "Hint It is a knob." in strip(desk)
        await desk.type("", "ctrl+space", "?")
        assert "Hint Press Ctrl+T, then t, 0 and Enter." in strip(desk)
        await desk.type("", "ctrl+space", "?")
        await at_step(desk, 2)
        assert desk.chat.tuning.temperature == 0


@pytest.mark.parametrize("opens", ["f1", "f2", "f3", "f9", "ctrl+s"])
async def test_the_way_to_the_strip_leads_out_of_a_dialog(opens: str) -> None:
    async with learner() as desk:
        await desk.type("", opens)
        await desk.until(lambda: isinstance(desk.app.screen, ModalScreen))
        await desk.type("", "ctrl+space")
        await desk.until(lambda: desk.app.learning.strip.open and not isinstance(desk.app.screen, ModalScreen))
        await desk.type("", "?")
        assert "Hint It is a knob." in strip(desk)


async def test_a_step_is_done_for_the_reader() -> None:
    async with learner() as desk:
        await desk.type("", "ctrl+space", "d")
        await at_step(desk, 2)
        await desk.type("", "1")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: desk.chat.busy)
        await answered(desk, " blue")
        await at_step(desk, 3)
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["The sea is", " blue"]


async def test_a_step_is_done_whatever_became_of_its_beginning() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type(" not")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: desk.chat.busy)
        await answered(desk, " blue")
        assert "The sea is" in [node.written for node in desk.chat.conversation.nodes.values()]
        await desk.until(lambda: "Done. Answer the question" in strip(desk))
        await desk.type("", "ctrl+space", "d")
        assert "this step is done; only its question waits" in desk.text


async def test_the_app_is_quit_while_a_step_is_done_for_the_reader() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "82-third-own.toml").write_text(SECOND.replace("/look rank", 'say hi", "wait'))
        await begun(desk, "third-own")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: desk.chat.busy)
        assert desk.app.learning.strip.doing  # type: ignore[union-attr]


async def test_a_lesson_is_left_while_a_step_is_done_for_the_reader() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "82-third-own.toml").write_text(SECOND.replace("/look rank", 'say hi", "wait'))
        await begun(desk, "third-own")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: desk.chat.busy)
        left = desk.app.learning.strip
        assert left is not None
        assert left.doing
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None and not left.doing)
        left.look()
        left.show()
        left.follow_screen()
        assert desk.composer.text == ""
        await begun(desk, "second-own")
        assert "Looks 1 of 1" in strip(desk)


async def test_the_key_to_the_strip_is_kept_for_a_lesson_that_has_not_begun() -> None:
    async with learner(lesson=None) as desk:
        desk.app.learning.open_named("first-own")
        while (early := desk.app.learning.strip) is None:
            await asyncio.sleep(0)
        assert not early.begun
        desk.app.learning.toggle()
        await desk.until(lambda: early.begun)
        assert early.open
        await desk.type("", "?")
        assert "Hint It is a knob." in strip(desk)


async def test_what_is_asked_of_a_lesson_that_has_not_begun_is_done_once_it_has() -> None:
    async with learner(lesson=None) as desk:
        desk.app.learning.open_named("first-own")
        while (early := desk.app.learning.strip) is None:
            await asyncio.sleep(0)
        assert not early.begun
        desk.app.learning.act("hint")
        await desk.until(lambda: "Hint It is a knob." in strip(desk))


@pytest.mark.parametrize(("done", "waits"), [("/what entropy", False), ("/what-if", True)])
async def test_a_command_that_only_explains_is_not_taken_for_the_deed(done: str, waits: bool) -> None:
    async with learner(lesson="second-own") as desk:
        played = desk.app.learning.strip
        assert played is not None
        played.note_command(done)
        played.show()
        assert ("Not done yet" in strip(desk)) is waits


async def test_a_step_of_token_mode_is_done_for_who_is_in_token_mode() -> None:
    third = SECOND.replace("look == 'rank'", "position == 0").replace("/look rank", 'press tokens", "press token-first')
    paths.lessons_folder().mkdir(parents=True, exist_ok=True)
    (paths.lessons_folder() / "82-third-own.toml").write_text(third)
    async with learner(lesson="third-own") as desk:
        await desk.type("hi", "enter")
        await answered(desk, " one", " two")
        await desk.type("", "ctrl+g", "ctrl+space", "d")
        await desk.until(lambda: "A look colours tokens." in strip(desk))
        assert desk.app.screen.tokens.is_open


WAYS_BACK = """\
title = "Back"
minutes = 1
summary = "Walks are left, too."
learned = "Walks are left."
next = "Others."

[opening]
raw = true
text = "The sea is"

[[steps]]
text = "Start walks."
check = ["ended_walks >= 2"]
do = ["/temperature 0", "press send", "wait"]

[[steps]]
text = "Go back."
check = ["mode == 'chat'"]
do = ["press back"]
"""


async def test_the_keyboard_on_the_strip_is_not_out_of_the_walks() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "88-back.toml").write_text(WAYS_BACK)
        await begun(desk, "back")
        desk.chat.walks.start(walk_plan.vote(2, "sea|sky"), text="What is blue?")
        await desk.settle()
        for walk in range(2):
            say(desk.engine, walk, " sky")
            desk.engine.end(walk=walk)
        await at_step(desk, 2)
        played = desk.app.learning.strip
        assert played is not None
        await desk.type("", "ctrl+space")
        played.look()
        assert played.open
        assert (step(desk), played.playing.finished) == (2, False)
        await desk.type("", "escape", "escape")
        played.look()
        assert played.playing.finished


async def test_what_holds_when_a_step_begins_was_not_done_by_the_deeds_of_the_one_before() -> None:
    async with learner(lesson=None) as desk:
        text = WAYS_BACK.replace("ended_walks >= 2", "temperature == 0")
        (paths.lessons_folder() / "88-back.toml").write_text(text)
        await begun(desk, "back")
        await desk.type("", "ctrl+space", "d")
        await at_step(desk, 2)  # the reply still runs
        played = desk.app.learning.strip
        assert played is not None
        await desk.until(lambda: desk.chat.busy)
        await answered(desk, " blue")
        await desk.until(lambda: not played.doing)
        played.look()
        assert (step(desk), played.playing.finished) == (2, False)
        assert "This holds already." in strip(desk)


async def test_resuming_puts_into_the_composer_what_the_step_is_begun_with(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        further = FIRST.replace('text = "Have it made', 'compose = "/look rank"\ntext = "Have it made')
        (paths.lessons_folder() / "89-further.toml").write_text(further)
        await begun(desk, "further")
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "1", "enter")
        await answered(desk, " blue")
        await at_step(desk, 3)
        assert desk.composer.text == "/look rank"
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        await begun(desk, "further")
        assert step(desk) == 3
        await desk.type("9")
        assert desk.composer.text == "/look rank", "the number is for the question"
    store.close()


async def test_left_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store) as desk:
        await desk.type("", "ctrl+t", "t", "0", "enter", "escape")
        await at_step(desk, 2)
        await desk.type("", "1", "enter")
        await answered(desk, " blue")
        await at_step(desk, 3)
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert desk.chat.conversation.leaf is None
        await begun(desk, "first-own")
        assert step(desk) == 3
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["The sea is", " blue"]
        assert desk.chat.tuning.temperature == 0
    # The process is gone, and with it the chat in memory.
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store) as desk:
        assert step(desk) == 3
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["The sea is", " blue"]
        assert desk.chat.tuning.temperature == 0
        await desk.type("", "ctrl+space", "x")
        assert desk.chat.tuning.temperature == 0.8
    store.close()


async def test_chats_of_lessons_are_kept_apart(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        await desk.sent("mine", "yes")
        desk.engine.end()
        await desk.settle()
        await begun(desk, "first-own")
        await desk.type("", "enter")
        await answered(desk, " blue")
        await desk.type("", "ctrl+n")
        await desk.sent("another one in the lesson", "no")
        desk.engine.end()
        await desk.settle()
        assert [row.title for row in store.sessions()] == ["mine"]
        assert [row.title for row in store.sessions(search="sea")] == []
        assert [row.turns for row in store.sessions(lessons=True)] == [1, 1]
        assert store.latest() == store.sessions()[0].id
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["mine", "yes"]
        await desk.sent("more", "of mine")
        desk.engine.end()
        await desk.settle()
        assert [row.turns for row in store.sessions()] == [2]
    store.close()


async def test_a_draft_survives_a_lesson_that_is_killed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        await desk.type("my own draft")
        await begun(desk, "first-own")
        await desk.type(" and so on")
        desk.app.get_default_screen().composer.keep_draft()  # type: ignore[attr-defined]
        desk.chat.session.keep_draft("of the lesson")
        store.flush()
    store.close()
    with sqlite3.connect(tmp_path / "sessions.db") as db:
        assert [draft for (draft,) in db.execute("SELECT draft FROM unsent")] == ["my own draft"]


async def test_a_lesson_is_not_played_on_an_engine_that_cannot() -> None:
    why = "this engine cannot search with beams"
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "87-far.toml").write_text(SECOND.replace("minutes", 'needs = ["beams"]\nminutes', 1))
        await begun(desk, "far")
        desk.engine.offers = ALL_FEATURES - {"beams"}  # only its model tells what an engine can do
        desk.chat.loading.load(SPEC)
        await desk.until(lambda: desk.app.learning.strip is None)
        await desk.shows("cannot be played here", why)
        desk.app.learning.open_named("far")
        await desk.settle()
        assert desk.app.learning.strip is None
        await command(desk, "/learn")
        await desk.shows("not here")
        desk.app.screen.picker.chosen = 2  # type: ignore[attr-defined]
        await desk.type("", "enter")
        await desk.shows(why)


async def test_the_next_lesson_is_one_that_can_be_played_here() -> None:
    far = SECOND.replace("minutes", 'needs = ["beams"]\nminutes', 1)
    async with learner() as desk:
        (paths.lessons_folder() / "80-further.toml").write_text(far.replace("Looks", "Far"))
        (paths.lessons_folder() / "90-last.toml").write_text(far)
        desk.engine.offers = ALL_FEATURES - {"beams"}
        desk.chat.loading.load(SPEC)
        await desk.settle()
        await desk.type("", "ctrl+space", "n")
        await desk.until(lambda: "Looks 1 of 1" in strip(desk))
        await desk.shows("left out, as they cannot be played here: Far")
        await desk.type("", "ctrl+space", "p")
        await desk.until(lambda: "Greedy 1 of 3" in strip(desk))
        await begun(desk, "second-own")
        await desk.type("", "ctrl+space", "n")
        await desk.shows("Looks cannot be played here", "this engine cannot search with beams")
        assert "Looks 1 of 1" in strip(desk)


async def test_another_chat_pauses_the_lesson(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        await desk.sent("mine", "yes")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+n")
        await begun(desk, "first-own")
        await desk.type("", "f4")
        await desk.until(lambda: "mine" in desk.text)
        await desk.type("", "enter")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert "the lesson is paused: Greedy" in desk.text
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["mine", "yes"]
    store.close()


async def test_a_broken_file_stands_in_the_list_with_its_line() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "90-broken.toml").write_text(SECOND.replace("minutes = 1", 'minutes = "many"'))
        await desk.type("", "ctrl+space")
        assert "90-broken.toml" in desk.text
        assert "line 2" in desk.text
        desk.app.screen.action_move("last")  # type: ignore[attr-defined]
        await desk.type("", "enter")
        assert "this file cannot be used" in desk.text


async def test_remapped_keys_are_told_and_lit() -> None:
    async with learner(keymap={"tune": "ctrl+k", "learn": "f12", "answer": ""}) as desk:
        assert "Ctrl+K t, then 0 and Enter" in strip(desk)
        assert "▸Ctrl+K tune" in desk.text
        await desk.type("", "f12", "?")
        assert "Hint It is a knob." in strip(desk)


async def test_a_page_that_is_pointed_at_is_lit_or_its_key_is() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.shows("▸NEXT", "▸Enter send")


@pytest.mark.parametrize(("size", "big"), [((80, 24), False), ((120, 40), True)])
async def test_the_panels_are_shown_while_a_step_speaks_of_them(size: tuple[int, int], big: bool) -> None:
    async with learner(size, big=big) as desk:
        assert not desk.app.screen.query_one(Panels).display
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.shows("▸NEXT")
        await desk.type("", "ctrl+t", "escape")
        await desk.shows("▸NEXT")
        await desk.type("", "1")
        await desk.type("", "enter")
        await answered(desk, " blue")
        await at_step(desk, 3)
        await desk.until(lambda: not desk.app.screen.query_one(Panels).display)


async def test_panels_that_a_reader_hides_stay_hidden_and_their_key_is_lit() -> None:
    async with learner((80, 24)) as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.shows("▸NEXT")
        await desk.type("", "ctrl+b")
        await desk.shows("▸Ctrl+B/Ctrl+\\ panels")


def test_a_key_that_is_pointed_at_has_few_words_and_stands_without_its_family() -> None:
    assert key_line("idle", 78, lit=("send", "tune", "edit")).text.startswith("▸Enter send   ▸Ctrl+T tune   ▸F7 edit ")
    assert key_line("idle", 78, lit=("tune", "back")).text.startswith(
        "▸Ctrl+T tune   ▸Esc back "
    )  # in the order of use
    in_tokens = key_line(
        "token", 78, lit=("token-first", "choose-2", "token-version-before", "token-version-next")
    ).text
    assert all(f"▸{key} " in in_tokens for key in ("g first", "2 fork", "< > version before"))


async def test_what_holds_already_is_told_and_can_be_skipped() -> None:
    async with learner(lesson="second-own") as desk:
        assert step(desk) == 1
        await desk.type("", "ctrl+space", "s")
        await desk.until(lambda: "A look colours tokens." in strip(desk))
    async with learner(lesson="second-own") as desk:
        await command(desk, "/look rank")
        await desk.until(lambda: "A look colours tokens." in strip(desk))


async def test_lessons_by_command() -> None:
    async with learner(lesson=None) as desk:
        await command(desk, "/learn nothing-like-it")
        assert "unknown lesson 'nothing-like-it'" in desk.text
        desk.composer.clear()
        await command(desk, "/hint")
        assert "no lesson is open" in desk.text
        await command(desk, "/learn first-own")
        await desk.until(lambda: desk.app.learning.strip is not None)
        desk.composer.clear()
        await command(desk, "/hint")
        assert "Hint It is a knob." in strip(desk)
        await command(desk, "/lesson-leave")
        await desk.until(lambda: desk.app.learning.strip is None)


async def test_the_app_begins_with_a_lesson_or_with_the_list() -> None:
    write_lessons(paths.lessons_folder())
    async with desktop(lesson="") as desk:
        await desk.shows("Lessons   ")
    async with desktop(lesson="second-own") as desk:
        await desk.until(lambda: desk.app.learning.strip is not None)
        assert "Looks 1 of 1" in desk.text


async def test_the_app_begins_with_a_lesson_when_a_missing_model_was_chosen() -> None:
    write_lessons(paths.lessons_folder())
    async with desktop(lesson="first-own", load=missing("there is none")) as desk:
        await desk.until(lambda: isinstance(desk.app.screen, ModalScreen))
        await desk.type("", "escape")
        await desk.until(lambda: desk.app.learning.strip is not None)
        assert "1 of 3" in strip(desk)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (40, 12)])
async def test_the_strip_leaves_room_for_all_else(size: tuple[int, int]) -> None:
    most = 3 if size[1] == 12 else 8
    async with learner(size) as desk:
        await desk.sent("long", *(f"line {number}\n\n" for number in range(60)))
        desk.engine.end()
        await desk.settle()
        played = desk.app.learning.strip
        assert played is not None
        for number in (1, 2, 3):
            go_to(played, number)
            await desk.settle()
            assert len(played.drawn) <= most
            assert all(len(line.text) <= size[0] - 1 for line in played.drawn)
            assert desk.composer.region.height >= 1
            assert desk.text.splitlines()[-1].strip()


async def test_a_click_does_what_a_key_does() -> None:
    async with learner() as desk:
        await click(desk, "? hint")
        assert "Hint It is a knob." in strip(desk)
        await click(desk, "Turn the temperature to 0")
        await desk.type("zn")
        assert desk.composer.text == "The sea iszn"
        desk.composer.clear()
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await click(desk, "another one")
        assert "Your guess: another one" in strip(desk)


async def test_what_was_guessed_is_kept() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "2", "enter")
        await answered(desk, " blue")
        await at_step(desk, 3)
        assert "✗ You said: another one. The answer: the same reply." in strip(desk)
        state = desk.app.learning.progress.of("first-own")
        assert isinstance(state, LessonState)
        assert [(guess.step, guess.guess, guess.truth) for guess in state.guesses] == [(1, 2, 1)]


async def test_a_picture_of_each_step_stays() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.until((paths.lesson_pictures_folder() / "first-own" / "01.svg").exists)


@pytest.mark.parametrize("holds", [True, False])
async def test_where_something_came_out_otherwise_than_the_lesson_says_that_is_told(*, holds: bool) -> None:
    async with learner(lesson=None) as desk:
        text = FIRST.replace('check = ["new_replies >= 1"]', 'check = ["new_replies >= 1"]\nclaim = "tokens == 1"', 1)
        (paths.lessons_folder() / "87-claims.toml").write_text(text)
        await begun(desk, "claims")
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "1", "enter")
        await answered(desk, *([" blue"] if holds else [" blue", " and"]))
        await at_step(desk, 3)
        assert ("this came out otherwise than the lesson says" in desk.text) is not holds


async def test_what_is_played_with_a_folder_of_its_own_leaves_nothing_elsewhere(tmp_path: Path) -> None:
    async with learner(lesson=None) as desk:
        desk.app.learning.folder = tmp_path / "own"
        await begun(desk, "first-own")
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        desk.app.learning.leave()
        await desk.settle()
    assert not paths.lesson_progress_file().exists()
    assert not paths.lesson_pictures_folder().exists()


async def test_a_step_may_write_for_the_reader_but_not_over_what_they_wrote() -> None:
    async with learner(lesson=None) as desk:
        file = paths.lessons_folder() / "85-writes.toml"
        file.write_text(SECOND.replace('text = "Press', 'compose = "/look rank"\ntext = "Press', 1))
        await begun(desk, "writes")
        assert desk.composer.text == "/look rank"
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert desk.composer.text == ""


async def test_a_recording_offers_the_lessons_that_are_recorded() -> None:
    with_beams, own = (SECOND.replace("minutes", 'needs = ["beams"]\nminutes', 1), SECOND)
    write_lessons(paths.lessons_folder())
    (paths.lessons_folder() / "14-beams.toml").write_text(with_beams)
    (paths.lessons_folder() / "99-own.toml").write_text(own)
    demo = DemoEngine(tape.load(), FakeEngine)
    async with desktop(spec=None, chat=lambda _: chat_on(demo)) as desk:
        learning = desk.app.learning
        assert learning.refusal(read_lessons().lesson("beams")) is None
        learning.open_named("own")
        await desk.shows("Looks cannot be played here", "it is not recorded; it needs a model: F3 lists them")
        assert learning.strip is None


async def test_words_are_explained() -> None:
    async with learner(lesson=None) as desk:
        for text in ("/what is entropy?", "/what entropy", "/what are the entropy"):
            await command(desk, text)
            assert "entropy: " in desk.text
            assert "On the screen: " in desk.text
            await desk.type("", "escape")
        await command(desk, "/what is a flurb")
        assert "the glossary has no 'flurb'" in desk.text
        desk.composer.clear()
        await command(desk, "/what")
        await desk.shows("/what WORD explains one.")


async def test_for_a_projector_panels_wait_and_the_text_is_whole() -> None:
    async with desktop((120, 40), big=True, theme="auto") as desk:
        assert "CHAIN" not in desk.text
        assert desk.app.palette.name.startswith("contrast")
        await desk.type("", "ctrl+t")
        assert "CHAIN" in desk.text
        await desk.type("", "escape")
        assert "CHAIN" not in desk.text
        await desk.type("", "ctrl+b")
        assert "CHAIN" in desk.text


@pytest.mark.parametrize(("big", "wide"), [(False, 60), (True, 80)])
async def test_for_a_projector_panels_have_half_of_the_screen_and_the_strip_all_of_the_text(
    big: bool, wide: int
) -> None:
    async with learner((160, 40), lesson=None, big=big) as desk:
        text = SECOND.replace(
            "Press {look}",
            "Begin here. "
            + "Antidisestablishmentarianism outcircumnavigates incomprehensibilities. " * 16
            + "Press {look}",
        )
        (paths.lessons_folder() / "87-long.toml").write_text(text)
        await begun(desk, "long")
        await desk.sent("go", *(f"line {number}\n\n" for number in range(60)))
        desk.engine.end()
        await desk.until(lambda: ("coloured by rank" in strip(desk)) is big)
        if big:
            await desk.type("", "ctrl+b")
        await desk.shows("CHAIN")
        assert desk.app._chat_screen.query_one(Panels).region.width == wide
        await desk.until(lambda: ("coloured by rank" in strip(desk)) is big)
    if big:
        async with learner((100, 30), lesson=None, big=big) as desk:
            await desk.type("", "ctrl+b")
            await desk.shows("CHAIN")
            assert desk.app._chat_screen.query_one(Panels).region.width == 50


async def test_a_reply_of_the_reader_ends_where_a_lesson_begins_and_is_there_afterwards() -> None:
    async with learner(lesson=None) as desk:
        await desk.sent("mine", "one", " two")
        await desk.type("", "f6")
        assert desk.chat.busy
        await begun(desk, "first-own")
        await desk.settle()
        assert desk.composer.text == "The sea is"
        assert "Greedy 1 of 3" in desk.text
        await desk.type("", "x")
        assert desk.composer.text == "The sea isx"
        desk.composer.clear()
        await desk.sent("go", "yes")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["mine", "one two"]


async def test_the_readers_chat_is_found_as_it_was_left_below_a_lesson() -> None:
    async with learner(lesson=None) as desk:
        await desk.sent("mine", "one", " two", " three")
        desk.engine.end()
        await desk.type("", "ctrl+l", "ctrl+g", "left")
        own, cursor = desk.app._chat_screen, desk.app._chat_screen.tokens.transcript.cursor
        looks = own.transcript.looks
        assert cursor is not None
        await begun(desk, "first-own")
        assert desk.chat is not own.chat
        await desk.type("", "ctrl+l", "ctrl+t", "right")
        await desk.pilot.resize_terminal(90, 30)
        desk.app.show_theme("light")
        await desk.settle()
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        await desk.settle()
        assert desk.app.screen is own
        assert (own.tokens.is_open, own.tokens.transcript.cursor, own.transcript.looks) == (True, cursor, looks)
        assert max(map(len, desk.text.splitlines())) <= 90
        assert own.size == (90, 30)
        strip = own.query_one("#header").render_line(0)
        assert desk.app.palette.name == "light"
        assert {segment.style.bgcolor.name for segment in strip if segment.style and segment.style.bgcolor} != set()
        await desk.type("", "escape", "a")
        assert desk.composer.text == "a"


async def test_a_reply_of_a_lesson_that_is_left_ends_before_the_next_message_goes_out() -> None:
    async with learner() as desk:
        await desk.sent("", " blue")
        chat = desk.chat
        assert chat.busy
        desk.app.learning.leave()
        await desk.type("mine", "enter")
        await desk.settle()
        assert chat.conversation.nodes[2].finished is not None
        assert chat.conversation.nodes[2].finished.reason == "user"
        desk.engine.say("yes")
        desk.engine.end()
        await desk.settle()
        assert [text for _, text in desk.chat.conversation.list_turns()] == ["mine", "yes"]


async def test_nothing_goes_out_from_the_readers_chat_below_a_lesson() -> None:
    async with learner() as desk:
        desk.app.learning.own.chat.send("read from a file meanwhile")
        await desk.settle()
        assert desk.engine.generated == []
        desk.app.learning.leave()
        await desk.settle()
        assert len(desk.engine.generated) == 1
        assert desk.chat.busy


async def test_a_model_that_was_loaded_in_a_lesson_goes_on_after_it() -> None:
    async with learner() as desk:
        own = desk.app.learning.own.chat
        desk.chat.loading.switch_model(Choice(ModelSpec("/other.gguf", "other", sha256="0" * 64), {}))
        await desk.settle()
        desk.app.learning.leave()
        await desk.settle()
        assert desk.chat is own
        assert (own.phase, own.spec and own.spec.name) == ("idle", "other")
        assert own.loading.earlier is not None
        await desk.sent("mine", "yes")
        assert own.busy


async def test_a_model_that_does_not_come_in_a_lesson_is_told_after_it() -> None:
    async with learner() as desk:
        desk.engine.loads = False
        desk.chat.loading.switch_model(Choice(ModelSpec("/other.gguf", "other", sha256="0" * 64), {}))
        await desk.settle()
        desk.app.learning.leave()
        await desk.settle()
        assert desk.chat.phase == "loading"
        desk.engine.load_up_to(0.5)
        await desk.settle()
        await desk.shows("50%")
        desk.engine.load_up_to(1.0)
        await desk.settle()
        assert desk.chat.phase == "idle"


async def test_a_lesson_after_the_other_gives_the_same_chat_back() -> None:
    async with learner() as desk:
        await desk.type("", "ctrl+space", "n")
        await desk.until(lambda: "Looks 1 of 1" in strip(desk))
        assert desk.chat.tuning.temperature == 0.8
        await desk.type("", "ctrl+space", "n")
        assert "that was the last lesson" in desk.text
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        assert (desk.chat.tuning.seed, desk.chat.tuning.temperature) == (1, 0.8)


PAUSING = """\
title = "By hand"
minutes = 2
summary = "A reply that waits."
learned = "It waits."
next = ""

[opening]
text = "The sea is"
knobs = { temperature = 0.7 }

[[steps]]
text = "Press {send}."
check = ["new_replies >= 1"]

[[steps]]
text = "Press {tokens}, then {cut-paused}."
check = ["paused"]

[[steps]]
text = "Press a digit."
check = ["forced >= 1"]
"""


async def test_a_step_that_needs_a_paused_reply_is_resumed_where_that_was_made(tmp_path: Path) -> None:
    for again in (False, True):  # the second time, what the first left in the chat is there too
        store = Store.open(tmp_path / "sessions.db")
        async with learner(store=store, lesson=None) as desk:
            (paths.lessons_folder() / "86-by-hand.toml").write_text(PAUSING)
            await begun(desk, "by-hand")
            if step(desk) == 1:
                await desk.type("", "enter")
                await answered(desk, " blue", " and")
                await at_step(desk, 2)
            assert ("resumed at step 2" in desk.text) is again
            assert [text for _, text in desk.chat.conversation.list_turns()] == ["The sea is", " blue and"]
            await desk.type("", "ctrl+g", "home", "X")
            await desk.until(lambda: desk.chat.busy)
            desk.engine.wait()
            await at_step(desk, 3)
            assert desk.app.learning.progress.of("by-hand").step == 2
            await desk.type("", "ctrl+space", "x")
            await desk.until(lambda: desk.app.learning.strip is None)
        store.close()


async def test_a_lesson_that_is_left_before_its_first_message_goes_on_with_its_knobs(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store.open(tmp_path / "sessions.db")
        async with learner(store=store) as desk:
            if step(desk) == 1:
                await desk.type("", "ctrl+t", "t", "0", "enter", "escape")
                await at_step(desk, 2)
            assert (desk.chat.tuning.temperature, desk.composer.text) == (0, "The sea is")
            assert step(desk) == 2
            await desk.type("", "1", "ctrl+space", "x")
            await desk.until(lambda: desk.app.learning.strip is None)
        store.close()


COMPOSED = SECOND.replace("[[steps]]", '[[steps]]\ncompose = "/look rank"')


ASKING = (
    PAUSING[: PAUSING.index('text = "Press {tokens}')]
    + """\
text = "Press {send}."
compose = "/look rank"
check = ["look == 'rank'"]
[steps.question]
ask = "Which?"
answers = ["this", "that"]
right = 1
"""
)


async def test_the_text_of_a_resumed_step_does_not_keep_a_digit_from_answering(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store.open(tmp_path / "sessions.db")
        async with learner((80, 24), store=store, lesson=None) as desk:
            (paths.lessons_folder() / "88-asking.toml").write_text(ASKING)
            await begun(desk, "asking")
            if step(desk) == 1:
                await desk.type("", "enter")
                await answered(desk, " blue")
                await at_step(desk, 2)
            assert desk.composer.text == "/look rank"
            assert "Which? 1 this 2 that" in strip(desk)
            await desk.type("", "ctrl+space", "x")
            await desk.until(lambda: desk.app.learning.strip is None)
        store.close()


LONG = SECOND.replace(
    'text = "Press {look}',
    'text = "Begin here. ' + "One more sentence that takes some room on the strip. " * 5 + "Press {look}",
)


async def test_the_strip_takes_rows_that_are_empty_and_gives_them_back_to_the_chat() -> None:
    async with learner((80, 20), lesson=None) as desk:
        (paths.lessons_folder() / "87-long.toml").write_text(LONG)
        await begun(desk, "long")
        await desk.until(lambda: "coloured by rank" in strip(desk))
        assert "A new chat" not in desk.text
        assert len(desk.app.learning.strip.drawn) > 5  # type: ignore[union-attr]
        await desk.sent("go", *(f"line {number}\n\n" for number in range(30)))
        desk.engine.end()
        await desk.until(lambda: len(desk.app.learning.strip.drawn) <= 5)  # type: ignore[union-attr]
        await desk.shows("line 29")


@pytest.mark.parametrize("big", [False, True])
async def test_where_panels_need_the_room_a_step_is_cut_at_its_end_and_a_key_shows_all(big: bool) -> None:
    async with learner((80, 20), lesson=None, big=big) as desk:
        (paths.lessons_folder() / "87-long.toml").write_text(LONG)
        await begun(desk, "long")
        await desk.until(lambda: "coloured by rank" in strip(desk))
        await desk.type("", "ctrl+b")
        await desk.until(lambda: "coloured by rank" not in strip(desk))
        assert "Begin here. One more" in strip(desk)
        assert "Ctrl+Space m more" in strip(desk)
        await desk.type("", "ctrl+space", "m")
        await desk.until(lambda: "coloured by rank" in strip(desk))


async def test_a_command_that_is_done_for_the_reader_does_not_stay_in_the_composer() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "87-composed.toml").write_text(COMPOSED)
        await begun(desk, "composed")
        await desk.until(lambda: desk.composer.text == "/look rank")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: "A look colours tokens." in strip(desk))
        assert desk.composer.text == ""


async def test_the_strip_takes_rows_that_walks_leave_empty() -> None:
    async with learner((80, 23), lesson=None) as desk:
        (paths.lessons_folder() / "87-long.toml").write_text(LONG)
        await begun(desk, "long")
        desk.chat.walks.start(walk_plan.vote(2, "sea|sky"), text="What is blue?")
        await desk.settle()
        for walk, word in enumerate((" sea", " sky")):
            say(desk.engine, walk, "The", word)
            desk.engine.end(walk=walk)
        await desk.until(lambda: "coloured by rank" in strip(desk))
        assert "of the votes" in desk.text
        desk.chat.walks.start(walk_plan.vote(8, "sea|sky"), text="What is blue?")
        await desk.settle()
        for walk in range(8):
            say(desk.engine, walk, f"sea{walk}", "\n\nlong\n\nlong\n\nlong")
            desk.engine.end(walk=walk)
        await desk.until(lambda: len(desk.app.learning.strip.drawn) <= 5)  # type: ignore[union-attr]


def test_a_text_that_is_too_long_ends_between_two_words_with_the_key_for_the_rest() -> None:
    typed = "Now greet it. Press {edit}, type `Hello! How are you? {{Fine.}} Good.` and press {send}."
    assert plain_text(typed) == "Now greet it. Press F7, type Hello! How are you? {Fine.} Good. and press Enter."
    playing = one_step("Why this is so. " * 9 + typed, "Long")
    for width in range(24, 100, 4):
        lines = strip_lines(playing, width, 4)
        said = " ".join(" ".join(line.text.removeprefix("▎ ") for line in lines[:-1]).split())
        assert said.startswith("Long 1 of 2 Why this is so."), said
        assert re.search(r"\w\S* … m more$|press Enter\.$", said), said


@pytest.mark.parametrize("times", [1, 80])
async def test_what_was_learned_is_in_the_list_where_all_of_it_has_room(times: int) -> None:
    async with learner((140, 30), lesson=None) as desk:
        learned = " ".join(["It takes some room."] * times)
        (paths.lessons_folder() / "81-second-own.toml").write_text(SECOND.replace("A look colours tokens.", learned))
        desk.app.learning.progress.keep("second-own", LessonState(0, True, ()))
        await desk.type("", "ctrl+space", "down")
        await desk.shows("1 min · ✓ done")
        assert ("LEARNED" in desk.text) is (times == 1)


async def test_all_that_was_learned_is_shown_at_the_end() -> None:
    learned = "What was learned takes some room on the strip, and is not to be left out. " * 3
    async with learner((80, 24), lesson=None) as desk:
        (paths.lessons_folder() / "87-long.toml").write_text(SECOND.replace("A look colours tokens.", learned))
        await begun(desk, "long")
        await desk.sent("go", *(f"line {number}\n\n" for number in range(30)))
        desk.engine.end()
        await command(desk, "/look rank")
        await desk.until(lambda: learned.strip() in strip(desk))


async def test_a_message_or_a_command_that_is_not_what_a_step_waits_for_is_answered() -> None:
    async with learner() as desk:
        desk.composer.clear()
        await desk.sent("The sea is", "yes")
        assert "Not done yet" not in strip(desk)
        desk.engine.end()
        await desk.until(lambda: "Not done yet. The whole step: Press Ctrl+T, then t, 0 and" in strip(desk))
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        assert "Not done yet" not in strip(desk)
    async with learner(lesson="second-own") as desk:
        await command(desk, "/look entropy")
        await desk.until(lambda: "Not done yet. The whole step: look == 'rank'" in strip(desk))


async def test_only_a_whole_reply_to_the_lessons_own_message_counts() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "1")
        desk.composer.clear()
        await desk.sent("my own words", " yours")
        desk.engine.end()
        await desk.until(lambda: "no reply to it counts here" in strip(desk))
        await desk.sent("The sea is", " blue")
        desk.engine.end()
        await desk.settle()
        desk.app.learning.strip.look()  # type: ignore[union-attr]
        assert step(desk) == 2  # the message before is in its prompt
        await desk.type("", "f7", "f7", "f7", "ctrl+u")
        await desk.sent("The sea is", " blue")
        await desk.until(lambda: "no reply to it counts" not in strip(desk))
        desk.engine.end("user")
        await desk.settle()
        desk.app.learning.strip.look()  # type: ignore[union-attr]
        assert step(desk) == 2
        await desk.type("", "ctrl+r")
        await answered(desk, " blue", " and")
        await at_step(desk, 3)


async def test_a_step_is_judged_once_the_last_reply_is_over() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.sent("", " blue")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+r")
        desk.engine.say(" blue")
        await desk.settle()
        await desk.type("", "1")
        desk.app.learning.strip.look()  # type: ignore[union-attr]
        assert step(desk) == 2
        desk.engine.end()
        await at_step(desk, 3)


async def test_a_digit_that_is_no_answer_is_told_and_not_written() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "9")
        await desk.shows("the answers are 1 to 3", "a message may begin with a space")
        assert desk.composer.text == "The sea is"


async def test_no_more_than_all_is_taken_for_a_share() -> None:
    async with learner(lesson=None) as desk:
        (paths.lessons_folder() / "83-share.toml").write_text(FIRST.replace('number = "tokens"', 'number = "%"'))
        await begun(desk, "share")
        played = desk.app.learning.strip
        assert played is not None
        go_to(played, 3)
        desk.composer.clear()
        await desk.type("150", "enter")
        await desk.shows("a share is 0 to 100 %")
        assert played.playing.guess is None
        await desk.type("15", "enter")
        assert played.playing.guess == 15


THIRD = """\
title = "Own words"
minutes = 1
summary = "A look, then the reply once more."
learned = "All of it."
next = ""

[opening]
raw = true
text = "The sea is"

[[steps]]
text = "Send it."
check = ["new_replies >= 1"]
do = ["press send"]

[[steps]]
text = "Look."
compose = "/look rank"
check = ["look == 'rank'"]
do = ["/look rank"]

[[steps]]
text = "Once more."
check = ["new_replies >= 1"]
do = ["press regenerate"]
"""


@pytest.mark.parametrize("looked", [True, False])
async def test_a_lesson_is_resumed_where_no_message_of_the_readers_own_is_in_the_chat(
    tmp_path: Path, *, looked: bool
) -> None:
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        (paths.lessons_folder() / "84-own-words.toml").write_text(THIRD)
        await begun(desk, "own-words")
        await desk.type("", "enter")
        await answered(desk, " blue")
        await at_step(desk, 2)
        desk.composer.clear()
        await desk.type("my own words", "enter")
        await answered(desk, " yours")
        await desk.until(lambda: "no reply to it counts" in strip(desk))
        if looked:
            await command(desk, "/look rank")
            await at_step(desk, 3)
            assert "no reply to it counts" in strip(desk)
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
    store.close()
    store = Store.open(tmp_path / "sessions.db")
    async with learner(store=store, lesson=None) as desk:
        await begun(desk, "own-words")
        assert step(desk) == 2
        assert "my own words" not in desk.text
        assert desk.composer.text == "/look rank"
        await desk.until(lambda: "no reply to it counts" not in strip(desk))
    store.close()


async def test_a_text_that_was_sent_too_early_is_put_into_the_composer_again() -> None:
    async with learner() as desk:
        await desk.sent("", " blue")
        desk.engine.end()
        await desk.settle()
        assert (step(desk), desk.composer.text) == (1, "")
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        assert desk.composer.text == "The sea is"


async def test_in_tune_the_strip_says_which_keys_answer() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await desk.type("", "ctrl+t")
        await desk.until(lambda: "To answer, press Ctrl+Space, then 1 the same reply" in strip(desk))
        await desk.type("", "ctrl+space", "1")
        assert "Your guess: the same reply" in strip(desk)
        played = desk.app.learning.strip
        assert played is not None
        go_to(played, 3)
        await desk.until(lambda: "To answer, press Ctrl+Space, then the number and Enter" in strip(desk))


async def test_the_list_begins_at_the_lesson_that_was_played_last() -> None:
    async with learner() as desk:
        desk.chat.adjust_setting("temperature", 0.0)
        await at_step(desk, 2)
        await begun(desk, "second-own")
        await desk.type("", "ctrl+space", "x")
        await desk.until(lambda: desk.app.learning.strip is None)
        await desk.type("", "ctrl+space")
        assert "last: Looks" in desk.text
        assert any(line.lstrip().startswith("│ ›") or "› 81" in line for line in desk.text.splitlines()), desk.text


PRESET = """\
title = "Preset"
minutes = 1
summary = "A whole chain."
learned = "A preset sets it."
next = ""

[[steps]]
text = "Press {send} for the command in the composer, then {regenerate}."
compose = "/preset creative"
check = ["temperature == 1.3", "new_replies >= 1"]
do = ["/preset creative", "press regenerate", "wait"]
hints = ["A command, then a key."]
[steps.question]
ask = "What will it be?"
answers = ["lively, and so much so that the strip has to wrap this", "dull"]
right = 1
"""


async def test_a_command_that_is_offered_leaves_digits_to_the_question_and_is_no_whole_step() -> None:
    async with learner((80, 24), lesson=None) as desk:
        (paths.lessons_folder() / "89-preset.toml").write_text(PRESET)
        await begun(desk, "preset")
        await desk.type("", "space", "backspace")
        assert desk.composer.popup.completion is not None
        await desk.type("", "1")
        assert (desk.composer.text, "Your guess" in strip(desk)) == ("/preset creative", True)
        await desk.type("", "enter")
        assert desk.chat.tuning.temperature == 1.3
        desk.app.learning.strip.show()  # type: ignore[union-attr]
        assert "Not done yet" not in strip(desk)


def test_what_was_answered_is_the_first_to_go_from_a_strip_that_is_too_low() -> None:
    asked = LessonQuestion(LessonText("Does it?"), (LessonText("yes, it does"), LessonText("no")), 1)
    playing = one_step("Why this is so. Do what is told here and there. " * 4, "Long", question=asked)
    playing.answer(1)
    assert "Your guess" in "".join(line.text for line in strip_lines(playing, 78, 5))
    lines = strip_lines(playing, 78, 4)
    assert "Your guess" not in "".join(line.text for line in lines)
    assert "…" not in "".join(line.text for line in lines)


def test_on_a_low_screen_the_question_comes_before_the_text_of_its_step() -> None:
    answers = (LessonText("yes, it does"), LessonText("no"))
    playing = one_step("Why this is so. " * 20, "Long", question=LessonQuestion(LessonText("Does it?"), answers, 1))
    for rows in (3, 5, 8):
        for note in ("", "No model is loaded."):
            said = " ".join(line.text for line in strip_lines(playing, 78, rows, note=note))
            assert note in said
            assert re.search(r"Does it\?.* 1 +yes, it does.* 2 +no", said), said


THREADS = """\
title = "Threads"
minutes = 1
summary = "How a model runs."
learned = "It can run otherwise."
next = ""

[[steps]]
text = "Let it run with one thread."
check = ["threads == 1"]
do = ["press models", "press model-engine", "row threads", "type 1", "press engine-load"]
"""


async def test_a_row_is_found_by_its_whole_name(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    write_lessons(paths.lessons_folder())
    (paths.lessons_folder() / "88-threads.toml").write_text(THREADS.replace("row threads", "row batch"))
    async with shop(tmp_path / "m") as desk:
        await desk.find("alpha")
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        await begun(desk, "threads")
        await desk.type("", "ctrl+space", "d")
        played = desk.app.learning.strip
        assert played is not None
        await desk.until(lambda: not played.doing)
        assert played.note == "This could not be done: no row below has 'batch'."


async def test_a_key_waits_for_what_comes_of_a_dialog_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a look may fall between the dialog and the model that loads."""
    runs = iter([True, False, True, False, False, False, False])
    monkeypatch.setattr(Autoplay, "runs", property(lambda _: next(runs)))
    await object.__new__(Autoplay).rest()
    assert list(runs) == [False]


async def test_each_key_waits_for_what_the_one_before_it_does() -> None:
    async with learner() as desk:
        screen, ready = desk.app._chat_screen, asyncio.Event()
        screen.call_later(ready.wait)  # a screen that takes its time
        pressing = asyncio.create_task(Autoplay(screen)._press("ctrl+l"))
        await asyncio.sleep(0.3)
        assert desk.app.typing
        assert not pressing.done()
        ready.set()
        await asyncio.wait_for(pressing, 60)
        assert not desk.app.typing


@pytest.mark.parametrize("on", ["left", "another"])
async def test_how_a_model_runs_for_a_lesson_ends_with_it(tmp_path: Path, on: str) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    write_lessons(paths.lessons_folder())
    (paths.lessons_folder() / "88-threads.toml").write_text(THREADS)
    async with shop(tmp_path / "m") as desk:
        await desk.find("alpha")
        await desk.type("", "enter")
        await desk.until(lambda: len(desk.loads) == 2 and not desk.open)
        await begun(desk, "threads")
        await desk.type("", "ctrl+space", "d")
        await desk.until(lambda: len(desk.loads) == 3 and not desk.open)
        assert (desk.loads[-1].name, desk.loads[-1].threads) == ("Alpha-Q8_0", 1)
        await desk.shows("these settings last until you leave the lesson")
        assert per_model.picks() == []
        if on == "left":
            await desk.type("", "ctrl+space", "x")
        else:
            await begun(desk, "second-own")
        await desk.until(lambda: len(desk.loads) == 4)
        assert desk.loads[3] == desk.loads[1]
        await desk.type("", "f3", "ctrl+t")
        await desk.until(lambda: "Settings for Alpha-Q8_0" in desk.text)
        assert re.search(r"threads +0 → 2 +default", desk.text), desk.text


async def test_the_way_to_the_strip_leads_out_of_a_dialog_in_a_dialog(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    write_lessons(paths.lessons_folder())
    async with shop(tmp_path / "m", opened=False) as desk:
        await begun(desk, "first-own")
        await desk.type("", "f3")
        await desk.until(lambda: desk.open and not getattr(desk.app.screen, "gathers", True))
        await desk.find("alpha")
        await desk.type("", "ctrl+t")
        await desk.until(lambda: "Settings for Alpha-Q8_0" in desk.text)
        said = " ".join(re.sub("[│]", "", desk.text).split())
        assert "←→ Space or typing changes the value" in said
        assert "Enter reloads the model until the lesson ends" in said
        await desk.type("", "5", "ctrl+space", "?")
        await desk.until(lambda: not isinstance(desk.app.screen, ModalScreen))
        await desk.shows("Hint It is a knob.")


@pytest.mark.parametrize("theme", [*THEMES, "no-color"])
def test_what_is_to_be_typed_stands_out_to_its_last_character_in_every_theme(theme: str) -> None:
    paint = Paint(NO_COLOUR if theme == "no-color" else THEMES[theme])
    typed = next(ink for text, ink in render_text("Type ` green`, with the space.") if text == " green")
    style, around = paint.style(typed, "panel"), paint.style(Ink(), "panel")
    colours = [said.bgcolor.name for said in (style, around) if said.bgcolor is not None]
    assert style.reverse if "default" in colours else contrast(*colours) > 3


async def test_a_number_leads_to_its_lesson_and_what_was_done_stays_told() -> None:
    async with learner(lesson=None) as desk:
        desk.app.learning.progress.keep("second-own", LessonState(done=True))
        desk.app.learning.progress.keep("first-own", LessonState(1, done=True))
        await desk.type("", "ctrl+space")
        await desk.shows("▌ 80 Greedy  ✓ 2 of 3", "3 steps · 3 min · ✓ 2 of 3 · done before")
        await desk.type("8", "1")
        await desk.shows("▌ 81 Looks   ✓ done")
        await desk.type("8", "0", "enter")
        await desk.until(lambda: desk.app.learning.strip is not None)
        assert desk.app.learning.strip.lesson.id == "first-own"  # type: ignore[union-attr]
