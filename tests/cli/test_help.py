"""The help of every command: what a manual page has, and nothing wider than the terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from termchat.cli import main
from termchat.cli.flags import flags
from termchat.cli.help import ManualPage
from termchat.config.fields import SETTINGS
from termchat.text import cells


def every(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from every(found, *names, name)
        else:
            yield (*names, name)


COMMANDS = list(every(main))
IDS = [" ".join(names) or "termchat" for names in COMMANDS]


def page_of(names: tuple[str, ...]) -> ManualPage:
    command: click.Command = main
    for name in names:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or command
    assert isinstance(command, ManualPage)
    return command


def helped(*names: str, width: int = 80) -> str:
    done = CliRunner().invoke(main, [*names, "--help"], terminal_width=width, prog_name="termchat")
    assert done.exit_code == 0
    return done.stdout


def section(text: str, title: str) -> str:
    found = re.search(rf"^{title}:\n((?:  .*\n|\n(?=  ))+)", text, re.MULTILINE)
    assert found, title
    return found[1]


@pytest.mark.parametrize("names", COMMANDS, ids=IDS)
def test_every_command_has_a_page_that_fits(names: tuple[str, ...]) -> None:
    for width in (60, 80, 120):
        text = helped(*names, width=width)
        lines = text.splitlines()
        examples = {line.removeprefix("$ ") for line in page_of(names).examples if line.startswith("$ ")}
        too_wide = [line for line in lines if cells(line) > width and line.strip().removeprefix("$ ") not in examples]
        assert too_wide == []
        assert all(cells(line) <= 80 for line in examples)
        assert width < 80 or "\nCommands:" not in text or "..." not in section(text, "Commands")
    assert re.match(r"Usage: termchat.*\n(?:  .*\n)*\n  [A-Z]", text)
    assert section(text, "Exit codes").lstrip().startswith("0")


def test_every_command_has_examples_and_refers_to_others() -> None:
    for names in COMMANDS:
        page = page_of(names)
        assert [line[:2] for line in page.examples] == ["# ", "$ "] * (len(page.examples) // 2)
        assert page.examples
        assert {tuple(name.split()) for name in page.see} <= set(COMMANDS)


@pytest.mark.parametrize("names", COMMANDS, ids=IDS)
def test_its_examples_can_be_typed(names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("a.jsonl", "b.jsonl", "chat.jsonl"):
        (tmp_path / file).touch()
    shown = section(helped(*names, width=120), "Examples")
    lines = [line.removeprefix("  $ ") for line in shown.splitlines() if line.startswith("  $ ")]
    assert lines
    for line in lines:
        commands = re.findall(r"\btermchat\b[^|&<>)]*", line.replace('"$(', '"" '))
        assert commands
        for command in commands:
            typed = shlex.split(command.replace(')"', ""))[1:]
            at = click.Context(main)
            given = main
            while isinstance(given, click.Group) and typed and typed[0] in given.list_commands(at):
                found = given.get_command(at, typed.pop(0))
                assert found is not None
                given = found
            given.make_context("termchat", typed)


def test_every_flag_of_a_setting_says_its_range_and_default() -> None:
    @click.command()
    @flags()
    def all_of_them() -> None:
        """All flags."""

    options = {one.name: one.get_help_record(click.Context(all_of_them)) for one in all_of_them.params}
    assert set(options) == set(SETTINGS)
    for name, setting in SETTINGS.items():
        record = options[name]
        assert record is not None
        assert re.search(r"\bdefault \S", record[1])
        if setting.kind in ("int", "float", "seed", "choice"):
            assert setting.range in record[1]


def test_flags_stand_in_groups() -> None:
    text = helped("run")
    assert "--temperature" in section(text, "Sampling options")
    assert "--seed" in section(text, "Reply options")
    assert "--threads" in section(text, "Engine options")
    assert "--json" in section(text, "Options")


def test_help_is_also_a_command() -> None:
    runner = CliRunner()
    assert runner.invoke(main, ["help", "models", "pull"], terminal_width=80, prog_name="termchat").stdout == helped(
        "models", "pull"
    )
    assert runner.invoke(main, ["help"], terminal_width=80, prog_name="termchat").stdout == helped()
    assert runner.invoke(main, ["help", "modles"]).exit_code == 2


def test_it_needs_nothing_that_takes_time() -> None:
    code = (
        "import sys\nfrom termchat.cli import main\ntry: main(['run', '--help'])\nexcept SystemExit: pass\n"
        "print({'numpy', 'llama_cpp', 'httpx', 'textual', 'sqlite3', 'click.shell_completion'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "set()"


def test_the_version_waits_for_no_settings() -> None:
    code = (
        "import sys\nfrom termchat.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
        "print({'termchat.cli.flags', 'msgspec', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("modls",), "No such command 'modls' (did you mean models?)"),
        (("sessions", "lst"), "No such command 'lst' (did you mean list?)"),
        (("something else",), "No such command 'something else'"),
    ],
)
def test_a_mistyped_command_is_told_with_a_guess(args: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2
    assert done.stderr.rstrip().endswith(f"Error: {said}")
