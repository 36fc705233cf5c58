"""`termchat completion`: the script that has a shell complete our commands."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    FishComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from termchat.cli.completers import VARIABLE
from termchat.cli.help import Page


@click.command("completion", cls=Page, short_help="Print what has a shell complete commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, /, *, shell: str) -> None:
    """Print a script that has SHELL complete commands, flags, models, chats, themes and settings."""
    made = get_completion_class(shell)
    if made is not None:
        click.echo(made(ctx.find_root().command, {}, "termchat", VARIABLE).source(), nl=False)


_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value line="${COMP_LINE:0:COMP_POINT}" word= had= item
    [[ $line == *[[:space:]] ]] || word="${line##*[[:space:]=]}"
    [[ $COMP_WORDBREAKS == *:* ]] && had="${word%%"${word##*:}"}"
    COMPREPLY=()
    for item in $(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null); do
        type="${item%%%%,*}"
        printf -v value %%q "${item#*,}"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$had"}") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class Bash(BashComplete):
    """Completion for bash 4.4 and newer."""

    source_template = _BASH

    def source(self) -> str:
        """The script; whoever asks for it may well use another shell to do so."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one at the cursor, and this."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        return (words[:-1], words[-1]) if words and not line[-1:].isspace() else (words, "")


@add_completion_class
class Fish(FishComplete):
    """Completion for fish. click's script cuts what it offers at a comma, so half of a description is lost."""

    source_template = FishComplete.source_template.replace("string split", "string split --max 1")
