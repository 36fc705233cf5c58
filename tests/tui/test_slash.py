"""Commands behind a slash: all that has a key is one, what is typed is what happens, and what is no command is a message."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from termchat.cli.tasks import run
from termchat.decoding.conditions import After, Loop
from termchat.decoding.samplers import KNOBS
from termchat.tui.composer.chat_composer import split_command
from termchat.tui.draw.list_dialog import ReadDialog
from termchat.tui.keys import tables
from termchat.tui.slash.commands import ALSO, COMMANDS
from termchat.tui.slash.slash import Slash, message_of
from termchat.tui.transcript import TranscriptView
from tests.tui.running_app import command, desktop


def test_all_that_has_a_key_and_every_knob_is_a_command() -> None:
    rows = {
        key.id: key for table in (tables.CHAT, tables.MODEL, tables.TOKENS, tables.APP) for key in table if key.palette
    }
    assert rows.keys() <= COMMANDS.keys()
    assert KNOBS.keys() <= COMMANDS.keys()
    assert {"system", "model", "persona", "theme", "title", "save", "look", "raw", "help"} <= COMMANDS.keys()
    for id in rows:
        command = COMMANDS[id]
        assert command.argument or command.help == rows[id].help
    assert (COMMANDS["order"].argument, COMMANDS["p_less"].argument) == ("A;B", "on|off")
    assert not ALSO.keys() & COMMANDS.keys()
    assert set(ALSO.values()) <= COMMANDS.keys()


def test_what_is_both_a_flag_and_a_command_goes_by_the_names_of_both() -> None:
    flags = {str(param.name): {opt.lstrip("-") for opt in param.opts if opt.startswith("--")} for param in run.params}

    def command_of(flag: str) -> str:
        spelled = flag.replace("-", "_")
        return spelled if spelled in COMMANDS else ALSO.get(spelled, "")

    both = {name: name for name in KNOBS} | {"json_schema": "schema", "best_of": "best", "regex": "regex"}
    for name, called in both.items():
        assert {command_of(flag) for flag in flags[name]} == {called}
        assert called.replace("_", "-") in flags[name]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", ("new", "")),
        ("/temperature  0.7 ", ("temperature", "0.7")),
        ("/system You are\nbrief.", ("system", "You are\nbrief.")),
        ("/system\nYou are brief.", ("system", "You are brief.")),
        ("/", ("", "")),
        ("/usr/bin is full", None),
        ("/ is a slash", None),
        ("//new", None),
        ("hello /new", None),
        (" /new", None),
        ("", None),
    ],
)
def test_what_is_a_command_and_what_a_message(text: str, command: tuple[str, str] | None) -> None:
    assert split_command(text) == command


@pytest.mark.parametrize(
    ("text", "message"),
    [("//new", "/new"), ("// a comment", "// a comment"), ("//usr/bin", "//usr/bin"), ("a // b", "a // b")],
)
def test_two_slashes_begin_a_message_with_one(text: str, message: str) -> None:
    assert message_of(text) == message


async def test_a_message_that_begins_with_a_slash_is_sent() -> None:
    async with desktop() as desk:
        await desk.sent("//help me", "ok")
        await desk.sent("/usr/bin is full", "ok")
        desk.engine.end()
        await desk.settle()
        said = [node.written for node in desk.chat.conversation.nodes.values() if node.role == "user"]
        assert said == ["/help me", "/usr/bin is full"]


async def test_knobs_are_set_with_the_checks_and_words_that_they_have() -> None:
    async with desktop() as desk:
        await command(desk, "/temperature 0.7")
        await command(desk, "/top-k off")
        await command(desk, '/stop "\\n" "a b"')
        await command(desk, "/seed 42")
        tuning = desk.chat.tuning
        assert (tuning.temperature, tuning.top_k, tuning.stop, tuning.seed) == (0.7, 0, ("\n", "a b"), 42)
        assert desk.chat.origin["temperature"] == "panel"
        await command(desk, "/temperature 9")
        assert "temperature must be a number from 0 to 5, not 9" in desk.text
        assert desk.composer.text == "/temperature 9"
        assert desk.chat.tuning.temperature == 0.7
        await desk.type("", "ctrl+u")
        await command(desk, "/stop off")
        assert desk.chat.tuning.stop == ()


@pytest.mark.parametrize(
    ("written", "several"),
    [
        (r"\n4. | \n\n", r'/stop "\n4." "\n\n"'),
        ("User: Bot:", '/stop "User:" "Bot:"'),
        ('"a" | "b"', '/stop "a" "b"'),
    ],
)
async def test_texts_with_spaces_need_quotes_so_that_one_is_not_taken_for_several(written: str, several: str) -> None:
    async with desktop() as desk:
        await command(desk, f"/stop {written}")
        assert desk.chat.tuning.stop == ()
        assert f"stop: put each text in quotes, not {written}" in desk.text
        assert several in desk.text
        assert desk.composer.text == f"/stop {written}"
        await desk.type("", "ctrl+u")
        await command(desk, several)
        assert len(desk.chat.tuning.stop) == 2
        assert f"stop {several.removeprefix('/stop ')} (panel)" in desk.text


async def test_a_knob_alone_tells_its_value_and_where_that_came_from() -> None:
    async with desktop() as desk:
        desk.composer.insert("/min_p")
        await desk.type("", "escape", "enter")
        assert "min_p 0.05 (default)" in desk.text


async def test_a_rule_is_added_and_removed_and_a_mistake_says_where_it_is() -> None:
    async with desktop() as desk:
        await command(desk, "/rule stop after 3 sentences")
        assert desk.chat.rules == (After(3.0, "sentences", "stop"),)
        assert "rules    stop after 3 sentences" in desk.text
        assert "rule added: stop after 3 sentences" in desk.text
        assert "It ends the reply. /rule after 3 sentences pauses the reply instead." in desk.text
        await command(desk, "/rule loop")
        assert "It pauses the reply. /rule stop loop ends the reply instead." in desk.text
        await command(desk, "/rule stop after 3 sentences")
        assert desk.chat.rules == (Loop(),)
        await command(desk, "/rule after 3 weeks")
        assert "at character 9: after needs a number" in desk.text
        assert desk.chat.rules == (Loop(),)
        await desk.type("", "ctrl+u")
        desk.composer.insert("/rule ")
        await desk.settle()
        completion = desk.composer.popup.completion
        assert completion is not None
        offered = [offer.text for offer in completion.offers]
        assert offered[0] == "loop"
        assert {"after 30 s", "entropy > 4 for 5", "ignore end"} <= {*offered}


async def test_a_typo_stays_in_the_composer_and_is_guessed() -> None:
    async with desktop() as desk:
        await command(desk, "/modle x")
        assert "did you mean /model" in desk.text
        assert desk.composer.text == "/modle x"
        assert not desk.engine.generated


async def test_a_command_does_what_its_key_does() -> None:
    async with desktop() as desk:
        await command(desk, "/tune")
        assert "TUNE" in desk.text


async def test_a_system_prompt_of_several_lines_begins_a_new_chat() -> None:
    async with desktop() as desk:
        desk.composer.insert("/system Be brief.\nBe kind.")
        await desk.type("", "enter")
        assert desk.chat.conversation.system == "Be brief.\nBe kind."
        assert "Be brief." in desk.text
        assert not desk.composer.text


async def test_title_look_and_raw() -> None:
    async with desktop() as desk:
        await command(desk, "/title the  fox")
        await command(desk, "/look entropy")
        assert desk.chat.conversation.title == "the fox"
        assert desk.app.query_one(TranscriptView).look == "entropy"
        await command(desk, "/prefill Sure,\\n")
        assert desk.chat.prefill == "Sure,\n"
        await command(desk, "/raw")
        assert desk.chat.conversation.raw
        await command(desk, "/look heat")
        assert "unknown look 'heat'" in desk.text


async def test_raw_mode_shows_no_system_prompt_and_gives_it_back() -> None:
    async with desktop() as desk:
        await command(desk, "/system Be brief.")
        assert "System prompt: Be brief." in desk.text
        await command(desk, "/raw")
        assert "Be brief." not in desk.text
        assert desk.chat.conversation.system == ""
        await command(desk, "/raw")
        assert "System prompt: Be brief." in desk.text


async def test_a_raw_chat_is_one_text_in_which_only_what_is_unusual_has_a_line() -> None:
    async with desktop() as desk:
        await command(desk, "/raw")
        await desk.type("Once upon", "enter")
        await desk.settle()
        desk.engine.say(" a time")
        desk.engine.end("length")
        await desk.settle()

        def shown(count: int) -> list[str]:
            rows = [row.split("│")[0].strip() for row in desk.text.splitlines()]
            at = rows.index("Once upon")
            return rows[at - 1 : at + count]

        assert shown(2)[1:] == ["Once upon", "a time"]
        assert "you" not in shown(2)[0]
        desk.chat.forks.regenerate()
        await desk.settle()
        desk.engine.say(" a hill", forced=True)
        desk.engine.end("length")
        await desk.settle()
        assert shown(3)[1:] == ["Once upon", "‹ 2/2 › · 1 forced token", "a hill"]


async def test_a_misspelled_theme_is_told_which_one_it_may_mean() -> None:
    async with desktop() as desk:
        await command(desk, "/theme papr")
        assert "unknown theme 'papr' (did you mean paper?)" in desk.text


async def test_a_transcript_is_not_written_over_another_file(tmp_path: Path) -> None:
    async with desktop() as desk:
        there = tmp_path / "there.md"
        there.write_text("mine")
        await command(desk, f"/save {there}")
        assert "exists" in desk.text
        assert there.read_text() == "mine"


async def test_names_are_completed_and_what_they_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with desktop() as desk:
        await desk.type("/temp")
        assert "/temperature" in desk.text
        await desk.type("", "tab")
        assert desk.composer.text == "/temperature "
        assert "current value" in desk.text
        await desk.type("0")  # which is no beginning of anything offered
        assert "current value" not in desk.text
        await desk.type("", "enter")
        assert desk.chat.tuning.temperature == 0.0
        await desk.type("/persona st")
        assert "storyteller" in desk.text


async def test_what_is_offered_is_for_what_is_typed_by_then() -> None:
    async with desktop() as desk:
        await desk.type("/look ")
        for key in ("r", "a", "n", "enter"):  # in one burst: nobody has heard of a change before the last of them
            desk.composer.post_message(events.Key(key, key if len(key) == 1 else None))
        await desk.settle()
        await desk.type("", "enter")
        assert desk.app.query_one(TranscriptView).look == "rank"


async def test_help_lists_every_command() -> None:
    async with desktop() as desk:
        await command(desk, "/help")
        assert "/adaptive_decay" in desk.text
        assert isinstance(desk.app.screen, ReadDialog)
        assert {f"/{name}" for name in COMMANDS} <= {line.text.split()[0] for line in desk.app.screen.rows if line.text}
        await desk.type("", "escape")
        await command(desk, "/help /seed")
        assert KNOBS["seed"].help[:20] in desk.text


def test_the_name_of_a_command_is_completed_and_that_of_a_path_is_not() -> None:
    slash = Slash(None)  # type: ignore[arg-type]  # names are completed without a screen
    assert slash.complete("/usr/b", 6) is None
    found = slash.complete("/ne", 3)
    assert found is not None
    assert (found.start, found.offers[0].text) == (0, "/new")


async def test_a_command_that_takes_a_path_completes_it(tmp_path: Path) -> None:
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "tiny.gguf").write_text("")
    async with desktop() as desk:
        for command_, begun in (("/model", f"{tmp_path}/my"), ("/schema", f"{tmp_path}/my models/t")):
            desk.composer.insert(f"{command_} {begun}")
            await desk.until(lambda: desk.composer.popup.completion is not None)
            await desk.type("", "tab")
            assert desk.composer.text.startswith(f"{command_} {tmp_path}/my models/")
            await desk.type("", "ctrl+u")
