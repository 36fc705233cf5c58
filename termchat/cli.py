"""The command line: each command is one call into the rooms below. Flags are made from the tables of knobs and options."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click
from click.core import ParameterSource

import termchat
from termchat import settings
from termchat.decoding.samplers import KNOBS, well_formed
from termchat.options import OPTIONS

_NOT_FOR_RUN = ("theme",)
_ON_RECORD = (*_NOT_FOR_RUN, "system", "fast_prefill")
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def _flags(*, without: tuple[str, ...] = (), knobs: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A flag for every option and knob; values are checked by `settings`, so that a refusal is worded the same anywhere."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        made = []
        for name, option in OPTIONS.items():
            if name in without:
                continue
            flag = "--" + name.replace("_", "-")
            if option.kind == "bool":
                made.append(click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=option.help))
            else:
                metavar = "|".join(option.choices) if option.choices else option.kind.upper()
                made.append(click.option(flag, name, metavar=metavar, help=option.help))
        for name, knob in KNOBS.items() if knobs else ():
            flag = "--" + name.replace("_", "-")
            shown = f"{knob.help}  [{knob.show(knob.default)}]"
            if knob.kind == "texts":
                made.append(click.option(flag, name, multiple=True, metavar="TEXT", help=shown + " (may be repeated)"))
            else:
                made.append(click.option(flag, name, metavar="N" if knob.kind != "float" else "X", help=shown))
        for option_ in reversed(made):
            command = option_(command)
        return command

    return add


def _config(flags: dict[str, Any]) -> settings.Config:
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        return settings.load(given)
    except settings.FlagError as error:
        raise click.BadParameter(str(error), param_hint="--" + error.name.replace("_", "-")) from None


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether it is a terminal; Python has no stream at all where the descriptor was closed."""
    return stream is not None and stream.isatty()


def _refuse_flags_before(ctx: click.Context, command: str) -> None:
    """A flag of the chat says nothing to a command; left unread it would look obeyed."""
    taken = {parameter.name for parameter in main.commands[command].params}
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        switched_off = ctx.params[name] is False and parameter.secondary_opts
        flag = (switched_off or parameter.opts)[0]
        if name in taken:
            raise click.UsageError(f"{flag} stands before {command}; put it after: termchat {command} {flag} …")
        raise click.UsageError(f"{flag} is for the chat; {command} has no such flag")


class _Commands(click.Group):
    """Shows the chat's own flags last in the help, after the commands; Ctrl+C ends any of them without a word."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)


@click.group(cls=_Commands, invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(termchat.__version__, "-V", "--version", prog_name="termchat")
@click.option("--resume", is_flag=True, help="reopen the latest chat as it was")
@click.option("--raw", is_flag=True, help="complete text without the model's chat template")
@_flags()
@click.pass_context
def main(ctx: click.Context, /, *, resume: bool, raw: bool, **flags: Any) -> None:
    """Chat with a local model, and see, steer and question every token it draws.

    Without a command, the chat opens in this terminal.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_flags_before(ctx, ctx.invoked_subcommand)
        return
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise click.UsageError("the chat needs a terminal; in a script use: termchat run PROMPT")
    config = _config(flags)
    from termchat.tui.start import start

    sys.exit(start(config, resume=resume, raw=raw))


@main.command()
@click.argument("prompt", required=False)
@click.option("--raw", is_flag=True, help="complete PROMPT without the model's chat template")
@click.option("--json", "as_json", is_flag=True, help="print the record stream, one JSON object a line")
@click.option(
    "--candidates", type=click.IntRange(1, 1000), default=20, show_default=True, help="candidates recorded a step"
)
@_flags(without=_NOT_FOR_RUN)
def run(*, prompt: str | None, raw: bool, as_json: bool, candidates: int, **flags: Any) -> None:
    """Answer PROMPT and leave: the reply's text on stdout, nothing else.

    PROMPT is read from stdin when it is absent or "-". Exit codes: 0 done, 1 failed, 2 usage, 130 and 143 interrupted.
    """
    config = _config(flags)
    if prompt is None or prompt == "-":
        if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
            raise click.UsageError("give a PROMPT, or pipe one in")
        prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not prompt:
        raise click.UsageError("the prompt is empty")
    from termchat.chat.once import answer

    sys.exit(answer(config, well_formed(prompt), raw=raw, as_json=as_json, candidates=candidates))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_flags(without=_ON_RECORD, knobs=False)
def replay(*, file: Path, **flags: Any) -> None:
    """Make every reply in FILE again and say whether each token is the same.

    FILE is a chat saved as .jsonl, or the output of termchat run --json. Model, threads and all that is on record are as they
    were then, but for what flags say. Exit codes: 0 identical, 1 different or failed, 2 usage.
    """
    config = _config(flags)
    from termchat.chat.replay import replay as make_again

    sys.exit(make_again(config, file, click.echo, lambda line: click.echo(line, err=True)))
