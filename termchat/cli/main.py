"""`termchat`: the chat itself, and the group that the commands belong to."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, ClassVar, NoReturn, TextIO

import click
from click.core import ParameterSource

import termchat
from termchat.cli import completers
from termchat.cli.completers import VARIABLE
from termchat.cli.flags import config, flags
from termchat.cli.help import PageGroup
from termchat.cli.output import complain
from termchat.text import guess_of, sanitize


class Lazily(PageGroup):
    """A group whose commands are the `command` of `modules` of `package`, by the name of the command."""

    package: ClassVar[str]
    modules: ClassVar[Mapping[str, str]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return [*self.modules]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one of that name, imported now."""
        if cmd_name not in self.modules:
            return None
        found: click.Command = import_module(f"{self.package}.{self.modules[cmd_name]}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, and the rest. Raises UsageError, with a guess, where there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = f"{error.message.removesuffix('.')}{guess_of(args[0], self.modules)}"
            raise click.UsageError(said, error.ctx) from None


def group(package: str, modules: Mapping[str, str]) -> type[Lazily]:
    """Such a group."""
    return type("Lazily", (Lazily,), {"package": package, "modules": modules})


if VARIABLE in os.environ:
    import_module("termchat.cli.shell_completion")

_RESUME, _LATEST = "--resume", "last"
_VERSION = ("-V", "--version")
_DUMB = ("", "dumb", "unknown")
"""What TERM is where nothing can be placed on the screen; "" is also where it is not set."""
_SIGPIPE = 13
"""Windows has no such signal."""
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@contextmanager
def _well_ended() -> Iterator[None]:
    """Ctrl+C, and a reader who has seen enough (`| head`), end a command without a word, with the code that shells expect.
    A stdout that takes nothing is told of.

    Click quotes what it refuses: nothing in that may steer the terminal.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        _drop(sys.stdout)
        sys.exit(128 + _SIGPIPE)
    except OSError as error:
        if error.filename is not None:  # of a file, which whoever opened it should have told of
            raise
        complain(f"the output cannot be written: {error.strerror or error}")
        _drop(sys.stdout)
        sys.exit(1)
    except click.ClickException as error:
        said = sanitize(error.format_message())
        error.format_message = lambda: said  # type: ignore[method-assign]
        raise


def _drop(stream: TextIO) -> None:
    """Has what is still in the buffer go nowhere at exit, where it would fail once more."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _leave(code: int) -> NoReturn:
    """Ends the program, also where the terminal is gone: what it was not told would make another code of it."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # Python has none where the descriptor was closed
        try:
            stream.flush()
        except OSError:
            _drop(stream)
    sys.exit(code)


class _Commands(Lazily):
    """All commands, each a module of its name. One's name behind `--resume` is that command, and not a saved chat."""

    package = "termchat.cli"
    _parses_plainly = False
    modules: ClassVar = {
        "completion": "shell_completion", "config": "config", "doctor": "doctor", "help": "help", "locate": "locate",
        "models": "models", "replay": "replay", "run": "run", "sessions": "sessions", "tune": "tune",
    }  # fmt: skip

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for at in range(len(args) - 1):
            if args[at] == _RESUME and args[at + 1] in self.modules:
                args = [*args[:at], f"{_RESUME}={_LATEST}", *args[at + 1 :]]
        self._parses_plainly = not args or args[0] in (*self.modules, *_VERSION)
        try:
            return super().parse_args(ctx, args)
        finally:
            self._parses_plainly = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """With a flag for every setting. They are made when somebody asks: what they are made from takes time to import."""
        if not (self._parses_plainly or any(one.name == "model" for one in self.params)):
            flags()(self)
        return super().get_params(ctx)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _well_ended():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _well_ended():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        return super().main(*args, **{"complete_var": VARIABLE, **kwargs})


@click.group(cls=_Commands, invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(termchat.__version__, *_VERSION, prog_name="termchat")
@click.option(
    _RESUME,
    metavar="[SESSION]",
    is_flag=False,
    flag_value=_LATEST,
    shell_complete=completers.sessions,
    help="reopen a chat as it was: the latest, or the one whose id begins so (see termchat sessions list)",
)
@click.option("--raw", is_flag=True, help="complete text without the model's chat template")
@click.option("--demo", is_flag=True, help="play a recorded session; needs no model")
@click.pass_context
def main(ctx: click.Context, /, *, resume: str | None, raw: bool, demo: bool, **given: Any) -> None:
    """Chat with a local model, and see, steer and question every token it draws.

    Without a command, the chat opens in this terminal.
    """
    if ctx.invoked_subcommand is not None:
        gc.enable()  # see `termchat.__main__`
        _refuse_flags_before(ctx, ctx.invoked_subcommand)
        return
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise click.UsageError("the chat needs a terminal; in a script use: termchat run PROMPT")
    if sys.platform != "win32" and os.environ.get("TERM", "") in _DUMB:
        raise click.UsageError(
            "the chat needs a terminal that can place its cursor, and TERM says that this one cannot. To ask something here, "
            "use: termchat run PROMPT. If it can: TERM=xterm-256color termchat"
        )
    if demo:
        from termchat.tui.demo.player import start as play

        _leave(play(config(given)))
    from termchat import paths
    from termchat.engine.make import make_engine

    # Before the settings and the screen are imported, which takes as long as the process takes to start.
    engine = make_engine(paths.log_file(), start=True)
    chosen = config(given)
    from termchat.tui.start import start

    _leave(start(chosen, engine, resume=resume, raw=raw))


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal; Python has no stream at all where the descriptor was closed."""
    return stream is not None and stream.isatty()


def _refuse_flags_before(ctx: click.Context, command: str) -> None:
    """A flag of the chat says nothing to a command; left unread it would look obeyed."""
    found = main.get_command(ctx, command)
    taken = {parameter.name for parameter in found.params} if found is not None else set()
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        switched_off = ctx.params[name] is False and parameter.secondary_opts
        flag = (switched_off or parameter.opts)[0]
        if name in taken:
            raise click.UsageError(f"{flag} stands before {command}; put it after: termchat {command} {flag} …")
        raise click.UsageError(f"{flag} is for the chat; {command} has no such flag")
