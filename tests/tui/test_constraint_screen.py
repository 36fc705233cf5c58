"""Constraints on the screen: set by commands and in the dialog, dropped in mid-reply, and where the reply stands in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from termchat.chat.service import Chat
from termchat.decoding.constraint import GRAMMAR, Constraint, TextError, make_choice
from termchat.decoding.records import Stage
from termchat.engine.port import Adjust
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_dialog import ConstraintDialog
from termchat.tui.constraint.constraint_line import what_comes
from termchat.tui.constraint.constraint_setting import constraint_of, typed_text
from tests.tui.running_app import Desktop, desktop

pytestmark = pytest.mark.usefixtures("home")

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
}


async def command(desk: Desktop, text: str) -> None:
    desk.composer.insert(text)
    await desk.type("", "escape", "enter")
    await desk.settle()


def stages(kept: float, survivors: int = 3, *, forced: bool = False) -> list[Stage]:
    return [Stage(GRAMMAR, survivors, kept, 1 - kept, forced), Stage("top_k", 2), Stage("temperature", 2)]


def in_force(chat: Chat) -> Constraint:
    assert chat.constraint is not None
    return chat.constraint


async def test_a_schema_from_a_file_goes_along_with_the_reply_to_its_verdict(tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text(json.dumps(PERSON))
    async with desktop() as desk:
        await command(desk, f"/schema {file}")
        assert desk.chat.constraint == Constraint("json_schema", file.read_text(), "person.json")
        assert "the next reply matches it" in desk.text
        assert "compiled in 1.5 ms" in desk.text
        await desk.sent("who?")
        desk.engine.say('{"name": "Ada", ', stages=stages(1.0))
        await desk.settle()
        assert desk.engine.generated[-1].constraint == desk.chat.constraint
        assert '{"name": "Ada", ▌  a key comes next' in desk.text
        desk.engine.say('"age": ', stages=stages(0.25))
        desk.engine.say("3", stages=stages(0.6, 12))
        await desk.settle()
        assert '"age": 3▌  age: a number is open, 0 to 120' in desk.text
        assert "J grammar  person.json" in desk.text
        desk.engine.say("6}", stages=stages(1.0, 1, forced=True))
        desk.engine.end()
        await desk.settle()
        assert 'valid · cost 1.9 nats, bent at 1 token: "age":' in desk.text  # -ln 0.25 - ln 0.6


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ('{"name": "Ad', "incomplete: ends inside a string (name)"),
        ('{"name": "Ada", "age": 360}', "invalid: age: 360 is greater than the maximum of 120"),
    ],
)
async def test_a_reply_that_does_not_match_says_why(reply: str, says: str) -> None:
    async with desktop() as desk:
        await command(desk, f"/schema {json.dumps(PERSON)}")
        await desk.sent("who?", reply)
        desk.engine.end("length")
        await desk.settle()
        assert says in desk.text


def test_a_saved_constraint_that_is_no_longer_one_ends_nothing() -> None:
    for text in ("{", "[" * 100_000, "1" * 5_000):
        assert what_comes(Constraint("json_schema", text), b'{"a":') == "a: a value comes next"
        assert what_comes(Constraint("lark", text), b"a") == ""
        assert typed_text(Constraint("choice", text)) == text


async def test_no_cost_is_told_where_the_engine_does_not_tell_what_was_removed() -> None:
    async with desktop() as desk:
        await command(desk, "/regex [a-z]+")
        await desk.sent("well?")
        desk.engine.say("ye", stages=stages(0.25))
        desk.engine.say("s", stages=[])
        desk.engine.end()
        await desk.settle()
        assert "valid" in desk.text
        assert "cost" not in desk.text
        assert "bent" not in desk.text


async def test_a_constraint_that_the_model_can_use_is_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desktop() as desk:
        asked: list[Constraint | None] = []
        set_constraint = desk.chat.set_constraint

        def count(constraint: Constraint | None) -> None:
            asked.append(constraint)
            set_constraint(constraint)

        monkeypatch.setattr(desk.chat, "set_constraint", count)
        await command(desk, "/regex [a-z]+")
        assert asked == [Constraint("regex", "[a-z]+")]
        assert desk.chat.constraint == asked[0]


async def test_a_constraint_is_dropped_and_put_back_in_mid_reply() -> None:
    async with desktop() as desk:
        await command(desk, "/regex [0-9]+-x")
        await desk.sent("go", "12")
        assert "regular expression  12▌" in desk.text
        assert "- or 0-9 may follow" in desk.text
        await desk.type("", "f11")
        assert desk.engine.asked(Adjust)[-1].constraint is None
        assert "no longer match regular expression" in desk.text
        assert "12▌" not in desk.text.split("no longer")[1]
        desk.engine.say(" and then ")
        await desk.type("", "f11")
        desk.engine.say("7")
        await desk.settle()
        assert desk.engine.asked(Adjust)[-1].constraint == Constraint("regex", "[0-9]+-x")
        assert "regular expression  7▌" in desk.text  # it began anew where it was put back


async def test_choices_examples_and_grammars_are_commands_and_faults_are_told_at_their_place() -> None:
    async with desktop() as desk:
        await command(desk, "/choice yes | no")
        assert desk.chat.constraint == make_choice(["yes", "no"])
        await command(desk, '/grammar root ::= "a" | "b"')
        assert in_force(desk.chat).kind == "gbnf"
        await command(desk, '/grammar start: "a" | "b"')
        assert in_force(desk.chat).kind == "lark"
        await command(desk, '/example {"name": "Ada"}')
        assert json.loads(in_force(desk.chat).text)["properties"] == {"name": {"type": "string"}}
        before = desk.chat.constraint
        await command(desk, "/regex a(b")
        assert "line 1, column 2: unclosed group" in desk.text
        assert desk.composer.text == "/regex a(b"
        await desk.type("", "ctrl+u")
        await command(desk, "/regex too large")
        assert "constraint not set: the lexer is too large" in desk.text
        assert desk.chat.constraint == before
        await command(desk, "/unconstrain")
        assert desk.chat.constraint is None


def test_an_example_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(TextError, match="it is nested too deeply"):
        constraint_of("example", '{"a": ' * 400 + "1" + "}" * 400)


async def test_the_dialog_keeps_a_faulty_text_with_the_cursor_at_the_fault_and_knows_recent_ones() -> None:
    async with desktop() as desk:
        await command(desk, "/constraint")
        dialog = desk.app.screen
        assert isinstance(dialog, ConstraintDialog)
        field = dialog.query_one(Composer)
        await desk.type("", "tab")
        assert "[regular expression]" in desk.text
        field.put("ab\n(c")
        await desk.type("", "enter")
        assert "line 2, column 1: unclosed group" in desk.text
        assert field.cursor_location == (1, 0)
        field.put("too large")
        await desk.type("", "enter")
        assert "the lexer is too large" in desk.text
        field.put("[0-9]+")
        await desk.type("", "f2", "enter")
        assert desk.chat.constraint == Constraint("regex", "[0-9]+", after_chain=True)
        assert desk.app.screen is not dialog
        await command(desk, "/choice a | b")
        await command(desk, "/constraint")
        assert "recent 1 of" in desk.text
        await desk.type("", "pageup", "enter")
        assert in_force(desk.chat).text == "[0-9]+"
        await command(desk, "/constraint")
        desk.app.screen.query_one(Composer).put("")
        await desk.type("", "enter")
        assert desk.chat.constraint is None


async def test_json_is_shown_a_value_a_line_and_other_text_is_not() -> None:
    async with desktop() as desk:
        await desk.sent("who?", '{"name":"Ada","age":36}')
        desk.engine.end()
        await command(desk, "/pretty-json")
        assert '  "age": 36' in desk.text
        await desk.type("", "escape")
        await desk.sent("who?", "Ada")
        desk.engine.end()
        await command(desk, "/copy-json")
        assert "the last reply is not JSON" in desk.text


async def test_a_token_says_what_the_constraint_did_to_it() -> None:
    async with desktop() as desk:
        await command(desk, "/regex [a-z ]+")
        await desk.sent("go", "one", " two")
        desk.engine.say(" three", stages=stages(0.029))
        desk.engine.end()
        await desk.type("", "ctrl+g")
        assert "regular expression  one two▌" in desk.text


async def test_another_chat_has_no_constraint() -> None:
    async with desktop() as desk:
        await command(desk, "/regex [a-z]+")
        await desk.sent("go", "one")
        desk.engine.end()
        await desk.type("", "ctrl+n")
        assert desk.chat.constraint is None


def test_a_file_is_read_and_a_text_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "a.gbnf"
    file.write_text('root ::= "a"')
    assert constraint_of("grammar", str(file)) == Constraint("gbnf", 'root ::= "a"', "a.gbnf")
    assert constraint_of("grammar", 'root ::= "a"') == Constraint("gbnf", 'root ::= "a"')
    assert constraint_of("lark", "a.b" * 100).name == ""
    (tmp_path / "a.json").write_bytes(b"\xff")
    with pytest.raises(TextError, match="is not UTF-8"):
        constraint_of("json_schema", str(tmp_path / "a.json"))


def test_choices_are_parted_by_bars_or_lines() -> None:
    both = constraint_of("choice", "a\nb c\n"), constraint_of("choice", "a | b c")
    assert both == (make_choice(["a", "b c"]),) * 2
    with pytest.raises(TextError, match="a choice needs texts"):
        constraint_of("choice", "a | | b")
