"""Keys that a user has remapped: what is taken, what is refused and why, and that all keys stand in the tables."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.dom import DOMNode

import termchat.tui
from termchat.tui.composer.composer import Composer
from termchat.tui.keys.key import NO_KEY
from termchat.tui.keys.remap import checked
from termchat.tui.keys.tables import GROUPS, KEYS
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import desktop


def refused(id: str, keys: str, **others: str) -> str:
    """What is said of a key that is not taken."""
    keymap, problems = checked({**others, id: keys}, {id: "config.toml, line 3"})
    assert id not in keymap
    (problem,) = problems
    assert problem.startswith("config.toml, line 3: ")
    return problem


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ("Ctrl+K", "ctrl+k"), ("alt+k, ctrl+k", "alt+k,ctrl+k"), ("Ctrl+PgUp", "ctrl+pageup"), ("alt+Shift+x", "alt+shift+x"),
        ("ctrl+/", "ctrl+slash"), ("", ""), ("ctrl+k,ctrl+k", "ctrl+k"),
    ],
)  # fmt: skip
def test_keys_are_taken_as_people_write_them(asked: str, taken: str) -> None:
    if taken == "ctrl+pageup":
        assert "turn-up" in refused("tune", asked)  # which has it
        return
    assert checked({"tune": asked}, {}) == ({"tune": taken}, [])


def test_what_has_no_key_can_be_given_one_and_letters_where_nothing_is_typed() -> None:
    asked = {"unload": "alt+k", "token-left": "shift+z", "step": ",", "tree-mark": "x"}
    assert checked(asked, {}) == ({"unload": "alt+k", "token-left": "Z", "step": "comma", "tree-mark": "x"}, [])


def test_what_is_refused_is_told_with_its_line_and_what_was_meant() -> None:
    assert "unknown key id 'lok' (did you mean look?)" in refused("lok", "alt+k")
    assert "(did you mean pageup?)" in refused("tune", "pagup")
    assert "(did you mean ctrl?)" in refused("tune", "contrl+k")
    assert "b would be typed as text where tune applies" in refused("tune", "b")
    assert "? would be typed" in refused("tune", "?")
    assert "quit must have a key" in refused("quit", "")
    assert "Ctrl+C is reserved for copy, stop and quit" in refused("tune", "ctrl+c")
    assert "cannot be remapped" in refused("session-enter", "alt+k")


def test_of_two_that_have_one_key_the_remapped_one_loses_and_then_the_later_one() -> None:
    assert "Ctrl+L is already used by look; tune keeps Ctrl+T" in refused("tune", "ctrl+l")
    assert "Esc is already used by back; tune keeps Ctrl+T" in refused("tune", "ctrl+[")  # what a terminal sends for it
    assert "Alt+K is already used by look; tune keeps Ctrl+T" in refused("tune", "alt+k", look="alt+k")
    assert checked({"tune": "ctrl+l", "look": "ctrl+t"}, {}) == ({"tune": "ctrl+l", "look": "ctrl+t"}, [])  # exchanged
    assert checked({"session-new": "ctrl+t"}, {})[1] == []  # another place


def test_one_that_loses_may_need_its_old_key_back() -> None:
    keymap, problems = checked({"tune": "ctrl+q", "look": "ctrl+t"}, {})
    assert keymap == {}
    assert len(problems) == 2


@given(
    st.dictionaries(
        st.sampled_from([*KEYS, "nothing"]), st.text(max_size=12) | st.sampled_from(["ctrl+t", "f1", "a,b", "x"])
    )
)
@example({"send": "´"})
def test_whatever_is_asked_for_no_key_has_two_meanings_in_one_place(asked: dict[str, str]) -> None:
    keymap, _ = checked(asked, {})
    assert keymap.keys() <= asked.keys()
    for group in GROUPS:
        names = {
            key.id: {*keymap.get(key.id, key.keys).split(",")} - {""}
            for table in (group.table, *group.at)
            for key in table
            if key.action
        }
        for one, other in combinations(names, 2):
            assert not names[one] & names[other] or {one, other}.isdisjoint(keymap), (group.title, one, other)
    assert keymap.get("quit", "ctrl+q")


def test_every_binding_of_ours_stands_in_a_table() -> None:
    for module in pkgutil.walk_packages(termchat.tui.__path__, "termchat.tui."):
        importlib.import_module(module.name)
    kinds, waiting = [], [DOMNode]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("termchat.") and "BINDINGS" in vars(kind):
            kinds.append(kind)
    assert len(kinds) > 10
    for kind in kinds:
        for binding in vars(kind)["BINDINGS"]:
            assert binding.id in KEYS, (kind, binding)
            assert binding.key == (KEYS[binding.id].keys or NO_KEY)


async def test_remapped_keys_act_and_are_shown_wherever_keys_are_named() -> None:
    keymap, problems = checked({"tune": "alt+k", "models": "ctrl+k", "unload": "alt+u", "tune-undo": "u"}, {})
    assert problems == []
    async with desktop((140, 40), keymap=keymap) as desk:
        assert "Alt+K tune" in desk.text
        await desk.type("", "alt+k", "right")
        assert desk.chat.tuning.temperature == 0.85
        assert "u undo" in desk.text
        await desk.type("", "u")
        assert desk.chat.tuning.temperature == 0.8
        await desk.type("", "escape", "f1")
        await desk.type("tune", "pagedown")
        assert "Alt+K " in desk.text
        assert "Ctrl+T " not in desk.text.split("MODELS")[0]
        await desk.type("", "escape", "alt+u")
        assert desk.chat.model is None


async def test_remapped_keys_of_the_composer_also_act_in_dialogs() -> None:
    async with desktop(keymap={"newline": "alt+n"}) as desk:
        await desk.type("", "f2")
        field = desk.app.screen.query_one(Composer)
        await desk.type("a", "ctrl+j", "alt+n")
        assert field.text == "a\n"


def test_keys_that_edit_a_text_do_that_and_nothing_else() -> None:
    taken = {name for group in GROUPS for key in group.table for name in key.keys.split(",")}
    assert not taken & {"ctrl+d", "ctrl+u", "ctrl+w", "ctrl+k", "ctrl+a", "ctrl+e"}


async def test_the_panels_have_a_key_that_no_multiplexer_takes() -> None:
    async with desktop((140, 40)) as desk:
        assert "CHAIN" in desk.text
        await desk.type("", "ctrl+backslash")
        assert "CHAIN" not in desk.text
        await desk.type("", "ctrl+b")
        assert "CHAIN" in desk.text


async def test_half_a_page_of_lines_is_moved_at_once() -> None:
    async with desktop((120, 30)) as desk:
        await desk.sent("go", *(f"word{number}\n\n" for number in range(40)))
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g")
        transcript = desk.app.query_one(TranscriptView)
        await desk.type("", "u")
        assert transcript.cursor is not None
        begin = transcript.cursor.index
        await desk.type("", "u")
        moved = begin - transcript.cursor.index
        assert moved > 3
        await desk.type("", "d")
        assert transcript.cursor.index == begin
