"""`termchat`: the chat itself, and the group of all commands."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click
from click.core import ParameterSource

import termchat
from termchat.cli import completers
from termchat.cli.completers import VARIABLE
from termchat.cli.constraint_flags import constraint_flags, constraint_of
from termchat.cli.help import PageGroup
from termchat.cli.terminal_check import check_terminal

if TYPE_CHECKING:
    from termchat.engine.port import Engine

COMMANDS = {
    "compare": ("tasks", "compare"),
    "completion": ("shell_completion", "completion"),
    "config": ("config", "config"),
    "doctor": ("tasks", "doctor"),
    "help": ("help", "help_"),
    "learn": ("learn", "learn"),
    "locate": ("locate", "locate"),
    "models": ("models", "models"),
    "replay": ("tasks", "replay"),
    "run": ("tasks", "run"),
    "sessions": ("sessions", "sessions"),
    "tokens": ("tasks", "tokens"),
    "tune": ("tasks", "tune"),
    "worker": ("remote_worker", "worker"),
}
"""The module of each command in this package, imported when the command is asked for, and the command's name there."""

_HIDDEN = ("worker",)
"""Commands that no person types."""
_ANSWERS = ("run", "tokens")
_ELSEWHERE = "--engine"
"""The flag with which no engine is wanted here."""
_RESUME, _LATEST = "--resume", "last"
_VERSION = ("-V", "--version")
_SIGPIPE = 13
"""Windows has no such signal."""
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

if VARIABLE in os.environ:
    import_module("termchat.cli.shell_completion")


class _Commands(PageGroup):
    """Every command by its name, and the flags of the settings; both are imported when they are needed.

    A command's name after `--resume` is that command, not a saved chat.
    """

    _without_flags = False
    """The line that is being parsed holds no flag of a setting."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if name not in _HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f"termchat.cli.{module}"), name)
        return found

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not (self._without_flags or any(parameter.name == "model" for parameter in self.params)):
            from termchat.cli.flags import flags

            flags()(self)
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for at in range(len(args) - 1):
            if args[at] == _RESUME and args[at + 1] in COMMANDS:
                args = [*args[:at], f"{_RESUME}={_LATEST}", *args[at + 1 :]]
        self._without_flags = not args or args[0] in (*COMMANDS, *_VERSION)
        try:
            return super().parse_args(ctx, args)
        finally:
            self._without_flags = False

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Start the engine for commands that need it before their settings are imported: both take as long."""
        if args[0] in _ANSWERS and not ctx.resilient_parsing and not {"-h", "--help"} & {*args}:
            ctx.obj = _make_engine(started=not any(arg.partition("=")[0] == _ELSEWHERE for arg in args))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _ending_well():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _ending_well():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        return super().main(*args, **{"complete_var": VARIABLE, **kwargs})


@contextmanager
def _ending_well() -> Iterator[None]:
    """End a command silently, with the code that shells expect, on Ctrl+C and when the reader of its output has gone
    (`| head`); report an output that cannot be written.

    Click quotes refused values: nothing in them may steer the terminal.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        _discard_output(sys.stdout)
        sys.exit(128 + _SIGPIPE)
    except OSError as error:
        if error.filename is not None:  # of a file, which whoever opened it should have reported
            raise
        from termchat.cli.output import complain

        complain(f"the output cannot be written: {error.strerror or error}")
        _discard_output(sys.stdout)
        sys.exit(1)
    except click.ClickException as error:
        from termchat.text import sanitize

        message = sanitize(error.format_message())
        error.format_message = lambda: message  # type: ignore[method-assign]
        raise


def _discard_output(stream: TextIO) -> None:
    """Discard the rest of the buffer, which would fail once more at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _leave(code: int) -> NoReturn:
    """End the program with this code, even if the terminal is gone and the rest of the output fails."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # Python has none where the descriptor was closed
        try:
            stream.flush()
        except OSError:
            _discard_output(stream)
    sys.exit(code)


@click.group(cls=_Commands, invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(termchat.__version__, *_VERSION, prog_name="termchat")
@click.option(
    _RESUME,
    metavar="[SESSION]",
    is_flag=False,
    flag_value=_LATEST,
    shell_complete=completers.sessions,
    help="reopen the latest saved chat, or the one whose id starts with SESSION (see termchat sessions list)",
)
@click.option("--raw", is_flag=True, help="complete text without the model's chat template")
@constraint_flags
@click.option("--demo", is_flag=True, help="play a recorded session; needs no model")
@click.pass_context
def main(ctx: click.Context, /, *, resume: str | None, raw: bool, demo: bool, **given: Any) -> None:
    """Chat with a local model; inspect, steer and question every token it draws.

    Without a command, termchat opens the chat in this terminal.

    Environment:
      settings
      NO_COLOR: no colours
      TERM: terminal type; the chat does not run on "dumb"
      VISUAL, EDITOR: editor for writing a message (F8)
      folders
    Files: config, own models, presets, personas, themes, sessions, models, tuned
    Examples:
      # Chat with the default model
      $ termchat
      # Chat with another model, greedy, with a system prompt
      $ termchat --model qwen3-0.6b --temperature 0 --system "Be brief."
      # Resume the latest chat
      $ termchat --resume
      # Print one reply, for a script
      $ termchat run "Name three rivers."
    See also: run, models, sessions, config, doctor, help
    """
    if ctx.invoked_subcommand is not None:
        gc.enable()  # see `termchat.__main__`
        _refuse_flags_before(ctx, ctx.invoked_subcommand)
        return
    check_terminal("the chat", "termchat run PROMPT")
    if demo:
        from termchat.cli.flags import read_settings
        from termchat.tui.demo_player import start as play

        if constraint_of(given) is not None:
            raise click.UsageError("the demo takes no constraint")
        _leave(play(read_settings(given)))
    engine = _make_engine(started=given.get("default_engine") is None)
    # before the settings and the screen are imported, which takes as long as the process takes to start
    from termchat.cli.flags import read_settings

    constraint = constraint_of(given)
    chosen = read_settings(given)
    from termchat.tui.start import start

    _leave(start(chosen, engine, resume=resume, raw=raw, constraint=constraint))


def _make_engine(*, started: bool) -> Engine:
    from termchat import paths
    from termchat.engine.make import make_engine

    return make_engine(paths.log_file(), started=started)


def _refuse_flags_before(ctx: click.Context, command: str) -> None:
    """Refuse flags of the chat in front of a command, which would ignore them."""
    found = main.get_command(ctx, command)
    taken = {parameter.name for parameter in found.params} if found is not None else set()
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in ctx.params or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        switched_off = ctx.params[name] is False and parameter.secondary_opts
        flag = (switched_off or parameter.opts)[0]
        if name in taken:
            raise click.UsageError(f"put {flag} after {command}: termchat {command} {flag} …")
        raise click.UsageError(f"{flag} only works for the chat; {command} has no such flag")
