"""`termchat learn`: lessons on decoding, in the app; and to list, check, write and export them.

What a command works with is imported when it runs, so that `--help` and completion wait for none of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import flags, read_settings
from termchat.cli.help import ManualPage, PageGroup
from termchat.cli.output import complain, print_json, table, width
from termchat.cli.terminal_check import check_terminal
from termchat.text import one_line, sanitize

if TYPE_CHECKING:
    from termchat.engine.port import Engine
    from termchat.lessons.playing import LessonProgress

_TITLES = ("NO", "ID", "MIN", "DONE", "TITLE")
_RIGHT = frozenset({"NO", "MIN"})
_BEGIN = "begin"
_FILE = click.Path(dir_okay=False, path_type=Path)


class _Learn(PageGroup):
    """What is no command is the name of a lesson; nothing at all opens the list."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in super().list_commands(ctx) if name != _BEGIN]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = [_BEGIN, *args]
        return super().parse_args(ctx, args)


class _BeginContext(click.Context):
    @property
    def command_path(self) -> str:
        """Nobody types the name of the command that begins a lesson."""
        return self.parent.command_path if self.parent is not None else super().command_path


class _Begin(ManualPage):
    context_class = _BeginContext

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the group: to begin a lesson is what it does."""
        learn.format_epilog(ctx, formatter)


@click.group(
    "learn", cls=_Learn, subcommand_metavar="[LESSON] | COMMAND [ARGS]...", short_help="Learn decoding by doing it."
)
def learn() -> None:
    """Learn how a language model picks its words, on a real model, in the real app.

    Without a command, termchat opens with the list of lessons, or begins LESSON (an id or a number). The flags of the chat
    work here, too: termchat learn greedy --model qwen3-0.6b. Without a model, --demo plays recordings of the lessons. Your own
    lessons are TOML files in one folder (see `new`).

    Environment: settings, folders
    Files: lessons, progress
    Examples:
      # Choose a lesson
      $ termchat learn
      # Begin one
      $ termchat learn greedy
      # For a projector
      $ termchat learn --big
      # See how far you are
      $ termchat learn list
      # Write your own
      $ termchat learn new mine.toml && termchat learn check mine.toml
    See also: run, sessions
    """


@learn.command(_BEGIN, hidden=True, cls=_Begin)
@click.argument("lesson", required=False, default="", shell_complete=completers.lessons)
@click.option("--demo", is_flag=True, help="play recordings of the lessons; needs no model")
@flags()
def begin(*, lesson: str, demo: bool, **given: Any) -> None:
    """Begin LESSON, or list all lessons."""
    from termchat.lessons.lesson_file import LessonRefused, read_shelf

    if lesson:
        try:
            lesson = read_shelf().lesson(lesson).id
        except LessonRefused as error:
            complain(str(error), "List them with: termchat learn list")
            sys.exit(2)
    check_terminal("a lesson", "termchat learn list")
    chosen = read_settings(given)
    if demo:
        from termchat.tui.demo_player import start as play

        sys.exit(play(chosen, lesson=lesson))
    from termchat.tui.start import start

    sys.exit(start(chosen, _make_engine(), lesson=lesson))


@learn.command("list", short_help="List all lessons with your progress.")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def list_(*, as_json: bool) -> None:
    """List all lessons: number, id, minutes, how far you are, title.

    With --json: `lessons`, each with number, id, title, minutes, summary, needs, steps, step (completed), done, file;
    and `broken`, files that are no lesson, each with its problems.

    Environment: folders
    Files: lessons, progress
    Examples:
      # As JSON
      $ termchat learn list --json
    See also: learn
    """
    from termchat import paths
    from termchat.lessons.lesson_file import read_shelf
    from termchat.tui.lessons.lesson_words import lesson_names

    shelf, progress = read_shelf(names=lesson_names()), _read_progress()
    states = [(lesson, progress.of(lesson.id)) for lesson in shelf.lessons]
    if as_json:
        lessons = [
            {
                "number": lesson.number,
                "id": lesson.id,
                "title": lesson.title,
                "minutes": lesson.minutes,
                "summary": lesson.summary,
                "needs": list(lesson.needs),
                "steps": len(lesson.steps),
                "step": state.step,
                "done": state.done,
                "file": str(lesson.path),
            }
            for lesson, state in states
        ]
        broken = [
            {"file": str(error.path), "problems": [problem._asdict() for problem in error.problems]}
            for error in shelf.broken
        ]
        print_json({"lessons": lessons, "broken": broken})
        return
    rows = []
    for lesson, state in states:
        standing = "done" if state.done else ""
        if state.step:
            standing = f"step {state.step + 1} of {len(lesson.steps)}{', done before' if state.done else ''}"
        summary = f"{lesson.title}: {lesson.summary}"
        rows.append((lesson.number.lstrip("0"), lesson.id, str(lesson.minutes), standing, summary))
    table(_TITLES, rows, _RIGHT)
    for error in shelf.broken:
        complain(f"no lesson: {error}", f"Check it with: termchat learn check {error.path}")
    click.echo(f"your own lessons: {paths.lessons_folder()}", err=True)


@learn.command("check", short_help="Check a lesson, and play it through.")
@click.argument("file", type=_FILE)
@click.option("--read-only", "only_read", is_flag=True, help="only read the file; load no model")
@flags(knobs=False)
def check(*, file: Path, only_read: bool, **given: Any) -> None:
    """Say what is wrong with the lesson in FILE, line by line; then play it through by its deeds in an app that nobody sees,
    and say what its steps claim that is not so with this model. Nothing of that is saved.

    Environment: settings
    Exit codes:
      0: the lesson works
      1: mistakes were found and listed
      2, 130
    Examples:
      # Check a lesson and play it
      $ termchat learn check mine.toml
      # Only read it
      $ termchat learn check --read-only mine.toml
    See also: learn new, learn facts
    """
    chosen = read_settings(given)
    from termchat.chat.opening import find_model
    from termchat.lessons.lesson_file import LessonError, read_lesson
    from termchat.models.errors import ModelError
    from termchat.toml import TomlFile
    from termchat.tui.lessons.lesson_words import lesson_names
    from termchat.tui.start import play_unseen

    problems: list[str] = []
    try:
        lesson = read_lesson(file, lesson_names())
        steps, claims = len(lesson.steps), sum(len(step.claims) for step in lesson.steps)
        counts = f"{steps} step{'s' * (steps != 1)}, {claims} claim{'s' * (claims != 1)}"
        click.echo(sanitize(f"{file}: {lesson.title}: {counts}, well written", keep=""))
        if "claims" in TomlFile(file).table:
            hint = 'in place of each, write claim = "…" in the step that it is about'
            complain(f"{sanitize(str(file), keep='')}: [[claims]] of an earlier version are not checked", hint)
        if not only_read:
            find_model(chosen)
            problems = [f"{file}: {problem}" for problem in play_unseen(chosen, lesson, say=click.echo)]
    except LessonError as error:
        problems = [f"{file}{f', line {one.line}' if one.line else ''}: {one.message}" for one in error.problems]
    except ModelError as error:
        problems = [f"{error.message}{'; ' + error.hint if error.hint else ''}"]
    for problem in problems:
        complain(sanitize(problem, keep=""))
    if problems:
        sys.exit(1)
    if not only_read:
        click.echo("the lesson works")


@learn.command("new", short_help="Write a commented example.")
@click.argument("file", type=_FILE)
def new(*, file: Path) -> None:
    """Write a lesson with comments to FILE, to be changed into your own. An existing file is not touched.

    Files: lessons
    Examples:
      # Write one where termchat finds it
      $ termchat learn new ~/.local/share/termchat/lessons/mine.toml
    See also: learn check, learn facts
    """
    from termchat import atomic, paths, regular_files
    from termchat.lessons.lesson_file import EXAMPLE

    try:
        if file.suffix != ".toml":
            complain(f"{sanitize(file.name, keep='')}: a lesson's file ends in .toml")
            sys.exit(2)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() or file.is_symlink():
            raise FileExistsError(file)
        with atomic.writing(file, overwrite=False) as stream:
            stream.write(EXAMPLE.read_bytes())
    except FileExistsError:
        complain(f"{file} already exists; it was not touched", "Choose another name.")
        sys.exit(1)
    except OSError as error:
        complain(f"{file} cannot be written: {regular_files.problem(error)}")
        sys.exit(1)
    click.echo(f"wrote {sanitize(str(file), keep='')}", err=True)
    if file.resolve().parent != paths.lessons_folder().resolve():
        click.echo(f"put it here to have it in the list: {paths.lessons_folder()}", err=True)


@learn.command("facts", short_help="List what a lesson can check.")
@click.argument("word", required=False, default="")
def facts(*, word: str) -> None:
    """List the facts that checks can ask for, each with what it means; only those that contain WORD, if it is given.

    Examples:
      # Facts about entropy
      $ termchat learn facts entropy
    See also: learn check, learn new
    """
    from termchat.lessons.lesson_facts import FACT_GROUPS

    marks = {"none": "", "text": "('TEXT')", "text?": "", "knob": "('KNOB')", "condition": "('CONDITION')"}
    found = False
    for heading, entries in FACT_GROUPS.items():
        rows = [
            (f"{name}{marks[entry.argument]}", entry.help)
            for name, entry in entries.items()
            if word.lower() in name.lower() or word.lower() in entry.help.lower()
        ]
        if rows:
            click.echo(f"{chr(10) if found else ''}{heading}")
            found = True
            wide = max(len(name) for name, _ in rows)
            for name, help in rows:
                click.echo(one_line(f"  {name:<{wide}}  {help}", width()))
    if not found:
        complain(f"no fact contains {word!r}")
        sys.exit(1)


@learn.command("export", short_help="Write a handout with your guesses and results.")
@click.argument("file", required=False, default="lessons.html", type=_FILE)
@click.option(
    "--lesson",
    "wanted",
    multiple=True,
    metavar="ID",
    shell_complete=completers.lessons,
    help="only this lesson (may be repeated); otherwise all that you have begun",
)
@click.option("--force", is_flag=True, help="replace FILE if it exists")  # fmt: skip
def export(*, file: Path, wanted: tuple[str, ...], force: bool) -> None:
    """Write a handout to FILE (.html or .md): what each lesson showed, the notes for a presenter, your guesses beside what
    came, your replies, pictures of the screen, and the words that were explained.

    FILE is lessons.html if it is missing. The pictures of a .md file are in a folder beside it.

    Environment: folders
    Files: progress, sessions
    Examples:
      # One page of all that you have begun
      $ termchat learn export lessons.html
      # One lesson as Markdown
      $ termchat learn export greedy.md --lesson greedy
    See also: learn list, sessions export
    """
    from termchat import paths
    from termchat.cli.sessions import open_store
    from termchat.commands import lesson_handout
    from termchat.lessons.lesson_file import LessonRefused, read_shelf

    name_keys = _key_words()
    shelf, progress = read_shelf(), _read_progress()
    try:
        states = {lesson.id: progress.of(lesson.id) for lesson in shelf.lessons}
        begun = [one for one in shelf.lessons if (at := states[one.id]).done or at.step or at.guesses]
        lessons = [shelf.lesson(name) for name in wanted] or begun
    except LessonRefused as error:
        complain(str(error), "List them with: termchat learn list")
        sys.exit(2)
    if not lessons:
        complain("no lesson was begun yet", "Begin one with termchat learn, or name one: --lesson ID")
        sys.exit(1)
    results: dict[str, list[lesson_handout.HandoutReply]] = {}
    if paths.store_file().exists():
        with open_store() as store:
            results = {lesson.id: lesson_handout.replies_of(store, lesson.id) for lesson in lessons}
    made = [
        lesson_handout.handout_of(lesson, progress.of(lesson.id), name_keys, results.get(lesson.id, []))
        for lesson in lessons
    ]
    try:
        written = lesson_handout.write(file, made, replace=force)
    except lesson_handout.HandoutError as error:
        complain(str(error))
        sys.exit(1)
    more = f" and {len(written) - 1} pictures" if len(written) > 1 else ""
    click.echo(f"wrote {sanitize(str(file), keep='')}{more}", err=True)


def _key_words() -> Callable[[str], str]:
    """Return the function that names a key by its id, as remapped by the user."""
    from termchat.tui.keys.key import remap
    from termchat.tui.keys.remap import checked
    from termchat.tui.lessons.lesson_words import name_keys

    chosen = read_settings({})
    remap(checked(chosen.keys, chosen.key_places)[0])
    return name_keys


def _read_progress() -> LessonProgress:
    from termchat.lessons.playing import LessonProgress

    return LessonProgress(warn=complain)


def _make_engine() -> Engine:
    from termchat import paths
    from termchat.engine.make import make_engine

    return make_engine(paths.log_file())
