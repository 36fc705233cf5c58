"""`termchat learn`: the list, checks with their lines, a new lesson and a handout, from the outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from termchat import paths
from termchat.cli import main
from termchat.lessons.playing import Guess, LessonProgress, LessonState
from termchat.tui.keys.key import remap
from termchat.tui.lessons import learning
from tests.lessons.made_lessons import EXAMPLE

Learn = Callable[..., Result]


@pytest.fixture
def learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Learn]:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.setattr(learning, "_RESULT", 1.0)
    yield lambda *args: CliRunner().invoke(main, ["learn", *map(str, args)])
    remap({})  # in a process of its own it would end with that


def own(text: str = EXAMPLE, name: str = "mine.toml") -> Path:
    """A lesson in the user's folder."""
    file = paths.lessons_folder() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_list_has_one_line_a_lesson_with_its_progress(learn: Learn) -> None:
    own()
    progress = LessonProgress()
    progress.keep("tokens", LessonState(2))
    progress.keep("temperature", LessonState(0, True))
    result = learn("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NO", "ID", "MIN", "DONE", "TITLE"]
    assert next(line for line in lines if " tokens " in line).split()[3:7] == ["step", "3", "of", "6"]
    assert next(line for line in lines if " temperature " in line).split()[3] == "done"
    assert lines[-1].split()[:3] == ["mine", "5", "Temperature:"]
    assert str(paths.lessons_folder()) in result.stderr


def test_the_list_for_scripts_has_the_broken_ones_too(learn: Learn) -> None:
    own()
    own(EXAMPLE.replace("minutes = 5", "minutes = 500"), "bad.toml")
    own(EXAMPLE.replace("panel:chain", "panel:chian"), "panel.toml")
    result = learn("list", "--json")
    listed = json.loads(result.stdout)
    mine = listed["lessons"][-1]
    assert (mine["id"], mine["number"], mine["steps"], mine["step"], mine["done"]) == ("mine", "", 3, 0, False)
    broken, panel = listed["broken"]
    assert panel["problems"][0]["message"] == "unknown panel 'chian' (did you mean chain?)", "as in the app"
    assert broken["problems"] == [{"line": 2, "message": "minutes must be a whole number from 1 to 120, not 500"}]
    people = learn("list")
    assert "bad.toml, line 2: minutes must be" in people.stderr
    assert people.exit_code == 0


def test_every_problem_is_told_with_its_line(learn: Learn) -> None:
    file = own(
        EXAMPLE.replace("minutes = 5", "minutes = 500")
        .replace('"same",', '"sane",')
        .replace("{send}, and", "{sent}, and")
    )
    result = learn("check", "--read-only", file)
    assert result.exit_code == 1
    told = result.stderr.splitlines()
    assert f"termchat: {file}, line 2: minutes must be a whole number from 1 to 120, not 500" in told
    assert any("unknown key 'sent' (did you mean send?)" in line for line in told)
    assert any("unknown fact 'sane' (did you mean same?)" in line for line in told)
    assert "Traceback" not in result.output
    assert learn("check", "--read-only", own()).exit_code == 0
    older = learn("check", "--read-only", own(f'{EXAMPLE}\n[[claims]]\nprompt = "The sea is"\ncheck = "loops"\n'))
    assert older.exit_code == 0
    assert "[[claims]] of an earlier version are not checked" in older.stderr
    missing = learn("check", paths.lessons_folder() / "none.toml")
    assert missing.exit_code == 1
    assert "cannot be read" in missing.stderr


@pytest.mark.model
def test_a_new_lesson_is_written_once_and_works_on_the_real_model(learn: Learn) -> None:
    file = paths.lessons_folder() / "new" / "mine.toml"
    assert learn("new", file).exit_code == 0
    written = file.read_bytes()
    again = learn("new", file)
    assert again.exit_code == 1
    assert "already exists; it was not touched" in again.stderr
    assert file.read_bytes() == written
    checked = learn("check", file, "--threads", "1")
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.splitlines()[-1] == "the lesson works"
    assert "3 steps, 1 claim, well written" in checked.stdout
    assert not paths.store_file().exists(), "nothing of it is saved"
    assert not paths.lesson_progress_file().exists()


@pytest.mark.model
def test_what_does_not_hold_on_the_model_is_told(learn: Learn) -> None:
    text = EXAMPLE.replace('claim = "loops"', 'claim = "tokens == 3"').replace('do = ["press send"]', 'do = ["wait"]')
    result = learn("check", own(text), "--threads", "1")
    assert result.exit_code == 1
    assert "what it says is not so with this model: step 1: tokens == 3 (tokens is 40)" in result.stderr
    assert "step 2 (line" in result.stderr


HELD = """title = "Held"
minutes = 1
summary = "It holds from the start."
learned = "Nothing."
[opening]
knobs = { temperature = 0.0 }
[[steps]]
text = "Look."
check = "temperature == 0"
"""


@pytest.mark.model
def test_a_check_that_holds_before_anything_is_done_is_told(learn: Learn) -> None:
    result = learn("check", own(HELD), "--threads", "1")
    assert "step 1 (line 7): its check holds before anything is done" in result.stderr


def test_a_check_without_a_model_says_why(learn: Learn) -> None:
    result = learn("check", own(HELD), "--model", "nosuch")
    assert result.exit_code == 1
    assert "nosuch" in result.stderr


@pytest.mark.parametrize("name", ["mine.txt", "mine"])
def test_a_lesson_is_a_toml_file(learn: Learn, tmp_path: Path, name: str) -> None:
    assert learn("new", tmp_path / name).exit_code == 2
    assert not (tmp_path / name).exists()


def test_an_unknown_lesson_and_no_terminal(learn: Learn) -> None:
    unknown = learn("greddy")
    assert unknown.exit_code == 2
    assert "unknown lesson 'greddy' (did you mean greedy?)" in unknown.stderr
    for args in ((), ("greedy",), ("4",)):
        result = learn(*args)
        assert result.exit_code == 2
        assert "a lesson needs a terminal; in a script use: termchat learn list" in result.stderr


def test_facts_are_found_by_a_word(learn: Learn) -> None:
    assert "  says('TEXT')" in learn("facts").stdout
    some = learn("facts", "entropy").stdout
    assert "mean_entropy" in some
    assert "says(" not in some
    assert learn("facts", "zebra").exit_code == 1


def test_a_handout_names_the_keys_that_were_remapped(learn: Learn, tmp_path: Path) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text('[keys]\nsend = "ctrl+j"\nnewline = ""\ntune = "ctrl+k"\nno-such-key = "x"\n')
    own()
    assert learn("export", tmp_path / "h.md", "--lesson", "mine").exit_code == 0
    assert "1. Press Ctrl+J, and watch. {This} is Ctrl+K t." in (tmp_path / "h.md").read_text()


def test_a_handout_needs_a_lesson(learn: Learn, tmp_path: Path) -> None:
    result = learn("export", tmp_path / "h.html")
    assert result.exit_code == 1
    assert "no lesson was begun yet" in result.stderr
    assert learn("export", tmp_path / "h.pdf", "--lesson", "tokens").exit_code == 1
    assert learn("export", tmp_path / "h.html", "--lesson", "tokenz").exit_code == 2
    assert list(tmp_path.glob("h.*")) == []


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_handout_has_guesses_pictures_and_words(learn: Learn, tmp_path: Path, ending: str) -> None:
    own(EXAMPLE.replace('needs = ["seeds"]', 'terms = ["greedy"]'))
    guess = Guess(1, 40.0, 3.25, "2026-11-23T19:00:00+00:00")
    LessonProgress().keep("mine", LessonState(0, True, (Guess(0, 1, 2, guess.date), guess)))
    picture = paths.lesson_pictures_folder() / "mine" / "01.svg"
    picture.parent.mkdir(parents=True)
    picture.write_text("<svg onload='alert(1)'/>")
    file = tmp_path / f"handout.{ending}"
    assert learn("export", file).exit_code == 0
    text = file.read_text()
    assert "Temperature never changes the order." in text
    assert "You said: 40 %; it was: 3.25 % (2026-11-23)" in text
    assert "You said: the same; it was: another one (2026-11-23)" in text
    assert "Always taking the likeliest token" in text
    assert "Press Enter, and watch." in text
    assert "They laugh here." in text
    assert "onload" not in text
    if ending == "md":
        assert "(<handout-pictures/mine-01.svg>)" in text
        assert (tmp_path / "handout-pictures" / "mine-01.svg").read_bytes() == picture.read_bytes()
    else:
        assert 'src="data:image/svg+xml;base64,' in text
    picture.write_text("<svg/>")
    again = learn("export", file)
    assert again.exit_code == 1
    assert "already exists; pass --force to replace it" in again.stderr
    if ending == "md":
        assert "onload" in (copy := tmp_path / "handout-pictures" / "mine-01.svg").read_text()
    assert learn("export", file, "--force").exit_code == 0
    assert ending == "html" or copy.read_text() == "<svg/>"
