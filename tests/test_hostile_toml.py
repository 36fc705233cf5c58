"""TOML that Python reads and will not print, or reads for ever: in every file that a person writes, it spoils nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from termchat import paths
from termchat.config import personas, presets
from termchat.config.settings import load
from termchat.lessons.lesson_file import LessonError, read_lesson
from termchat.models import catalogue
from termchat.toml import TomlError, TomlFile, parsed
from termchat.tui.themes.theme_file import ThemeError, load_theme

HEX = "0x" + "f" * 20_000
VALUES = {
    "hex": HEX,
    "octal": "0o" + "7" * 9_000,
    "beyond 64 bits": str(1 << 63),
    "list": f"[1, [{HEX}]]",
    "table": f"{{ a = {{ b = {HEX} }} }}",
    "deep lists": "[" * 200 + "]" * 200,
    "deep tables": "{a.a.a.a.a.a.a.a = " * 60 + "1" + "}" * 60,
    "nan": "nan",
    "infinite": "-inf",
    "date": "1979-05-27T07:32:00Z",
    "time": "07:32:00",
    "empty": "{}",
}


def with_each_value(text: str, value: str) -> list[str]:
    """The text with this value in place of each one that stands on a line of its own, one at a time."""
    places = list(re.finditer(r"^([\w-]+ = ).+$", text, re.MULTILINE))
    return [text[: place.start()] + place[1] + value + text[place.end() :] for place in places]


def of_config(file: Path) -> object:
    found = load({}, {}, file)
    return found.problems, found.theme


def of_lesson(file: Path) -> object:
    try:
        return read_lesson(file).title
    except LessonError as error:
        return str(error), [str(problem) for problem in error.problems]


def of_theme(file: Path) -> object:
    try:
        return load_theme(file).name
    except ThemeError as error:
        return str(error)


CONFIG = """\
theme = "dark"
[engine]
context = 512
threads = 2
model_folders = []
flash_attention = "on"
[sampling]
temperature = 1
seed = 3
stop = ["x"]
samplers = ["top_k"]
logit_bias = ["5=1"]
[keys]
tune = "t"
[engines.lab]
url = "ssh://lab"
model = "x"
"""
PRESET = '[mine]\ndescription = "x"\ntemperature = 1\nstop = ["x"]\n'
PERSONA = '[mine]\ndescription = "x"\nsystem = "Be brief."\npreset = "code"\nmodel = "x"\ntemperature = 1\n'
MODEL = (
    '[mine]\ndescription = "x"\ncontext = 10\nsize = 5\npath = "/x.gguf"\nthinking = ["a", "b"]\n'
    "[mine.recommended]\ntemperature = 1\n"
)
FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "config": (CONFIG, of_config),
    "presets": (PRESET, lambda file: (presets.load(file).problems, presets.load(file).get("code").name)),
    "personas": (PERSONA, lambda file: personas.load(file).problems),
    "models": (MODEL, lambda file: catalogue.load([file]).problems),
    "theme": ((paths.shipped_folder("themes") / "dark.toml").read_text(), of_theme),
    "lesson": (next(Path(paths.__file__).parent.glob("lessons/**/01-*.toml")).read_text(), of_lesson),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("kind", FILES)
def test_an_odd_value_anywhere_is_told_in_a_line(kind: str, value: str, tmp_path: Path) -> None:
    text, read = FILES[kind]
    file = tmp_path / "mine.toml"
    texts = with_each_value(text, value)
    assert texts
    for one in texts:
        file.write_text(one)
        assert len(repr(read(file))) < 10_000


def test_one_number_too_large_spoils_no_other_setting(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'theme = "dark"\n[engine]\ncontext = {HEX}\n[keys]\ntune = {HEX}\n')
    found = load({}, {}, file)
    assert (found.theme, found.engine.context) == ("dark", 0)
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "context must be a whole number from 0 to 10000000, not a number beyond 64 bits (ignored)",
        "tune must be a key or a list of keys, not a number beyond 64 bits (ignored)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\nb = " + "9" * 5_000, "a number has more than 1,000 digits (at line 2, column 5)"),
        ("a = {a" + ".a" * 5_000 + " = 1}", "a key has more than 32 parts (at line 1, column 6)"),
        ('"a"' + '."a"' * 100_000 + " = 1", "a key has more than 32 parts (at line 1, column 1)"),
        ("[" + "a ." * 100_000 + "a]", "a key has more than 32 parts (at line 1, column 2)"),
        ("a = " + "[" * 100_000, "brackets are nested too deeply"),
    ],
    ids=["digits", "dotted", "quoted", "header", "brackets"],
)
def test_what_takes_for_ever_is_refused_with_its_line(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(TomlError) as refused:
        TomlFile(file)
    assert str(refused.value).endswith(problem)


def test_texts_and_comments_may_look_like_that() -> None:
    long, dotted = "7" * 5_000, "a.b." * 50
    text = f'a = "{long}" # {long}\nb = """\n{dotted}\n"""\n# {dotted}\nc = \'{dotted}\'\n'
    assert parsed(text) == {"a": long, "b": dotted + "\n", "c": dotted}
