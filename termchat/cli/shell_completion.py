"""`termchat completion`: the script with which a shell completes our commands."""

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
from termchat.cli.help import ManualPage


@click.command("completion", cls=ManualPage, short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, *, shell: str) -> None:
    """Print a completion script for SHELL.

    It completes commands, flags, models, saved chats, themes and settings.

    Examples:
      # bash, in ~/.bashrc
      $ eval "$(termchat completion bash)"
      # zsh, in ~/.zshrc after compinit
      $ eval "$(termchat completion zsh)"
      # fish
      $ termchat completion fish > ~/.config/fish/completions/termchat.fish
    See also: help
    """
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
        """Return the script. Unlike click's, this does not check the version of bash: another shell may have asked for it."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor's word, and that word."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        return (words[:-1], words[-1]) if words and not line[-1:].isspace() else (words, "")


@add_completion_class
class Fish(FishComplete):
    """Completion for fish. click's own script cuts descriptions at their first comma."""

    source_template = FishComplete.source_template.replace("string split", "string split --max 1")
