"""The shells that can complete: click's ways to do it, a better one for fish, and our own for bash.

Bash takes `:` and `=` for the ends of words, and models have names such as llama3.2:1b. So it hands over the whole line, and
what it has of the word already is taken off what it gets. It writes a name into the line as it is: those that mean something
to a shell are quoted before.
"""

from __future__ import annotations

import os

from click.shell_completion import BashComplete, FishComplete, add_completion_class, split_arg_string

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
