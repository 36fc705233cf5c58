"""`termchat help`: the help of a command, as its --help says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

Pairs = tuple[tuple[str, str], ...]

_DONE, _FAILED = ("0", "done"), ("1", "failed; the reason is on stderr")
_USAGE, _INTERRUPTED = ("2", "the command line is wrong"), ("130", "interrupted with Ctrl+C")
_PIPE = ("141", "the reader of the output has closed it")
CODES: Pairs = (_DONE, _FAILED, _USAGE, _INTERRUPTED)
_WRONG: Pairs = (("0", "all is well"), ("1", "something is wrong, and is told"), _USAGE, _INTERRUPTED)

_SETTINGS = ("TERMCHAT_…", "any setting: TERMCHAT_TOP_K is --top-k; flags go before")
_XDG = ("XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME", "where the folders below are, if not in the home folder")
_CONFIG = ("~/.config/termchat/config.toml", "the settings; see termchat config")
_STORE = ("~/.local/share/termchat/sessions.db", "the saved chats")
_MODELS = ("~/.local/share/termchat/models/", "downloaded models")
_OWN_MODELS = ("~/.config/termchat/models.toml", "your own list of models")
_PERSONAS = ("~/.config/termchat/personas.toml", "your own personas")
_THEMES = ("~/.config/termchat/themes/", "your own themes")
_TUNED = ("~/.local/state/termchat/tuned.json", "what was measured")
_HUB: Pairs = (
    ("HF_TOKEN", "shown to Hugging Face, for models that ask for it"),
    ("HF_ENDPOINT", "a mirror to use instead of https://huggingface.co"),
    ("HF_HUB_OFFLINE, TERMCHAT_OFFLINE", "1: go nowhere"),
    ("HTTPS_PROXY, NO_PROXY", "how to get there"),
)


class Manual(NamedTuple):
    """What a page has besides description and options. An example is what it does, and the line to type."""

    examples: Pairs
    see: tuple[str, ...] = ()
    environment: Pairs = ()
    files: Pairs = ()
    codes: Pairs = CODES


def page_of(path: str) -> Manual:
    """The page of a command by its whole name: "termchat models pull"."""
    return PAGES.get(path.partition(" ")[2], Manual(()))


PAGES: dict[str, Manual] = {
    "": Manual(
        (
            ("Chat with the default model", "termchat"),
            (
                "Chat with another, greedily, about something",
                'termchat --model qwen3-0.6b --temperature 0 --system "Be brief."',
            ),
            ("Go on with the chat before", "termchat --resume"),
            ("One answer, for a script", 'termchat run "Name three rivers."'),
        ),
        ("run", "models", "sessions", "config", "doctor", "help"),
        (
            _SETTINGS,
            ("NO_COLOR", "no colours"),
            ("TERM", "what the terminal can; dumb is refused"),
            ("VISUAL, EDITOR", "what a message is written in, when asked for"),
            _XDG,
        ),
        (_CONFIG, _OWN_MODELS, _PERSONAS, _THEMES, _STORE, _MODELS, _TUNED),
    ),
    "run": Manual(
        (
            ("One answer", 'termchat run "Why is the sky blue?"'),
            ("The same answer each time", 'termchat run --seed 42 --max-tokens 80 "Tell me a joke."'),
            ("About a file", 'termchat run --system "Summarise this." < notes.txt'),
            ("Every token with its candidates, for a program", "termchat run --json hello > reply.jsonl"),
            ("Complete text, without a chat around it", 'termchat run --raw --stop "\\n" "The capital of France is"'),
        ),
        ("replay", "models list", "config show"),
        (_SETTINGS,),
        (_CONFIG, _MODELS),
        (*CODES, _PIPE, ("143", "ended by SIGTERM")),
    ),
    "replay": Manual(
        (
            ("Check that a reply can be made again", "termchat run --json hello > a.jsonl && termchat replay a.jsonl"),
            ("A saved chat", "termchat sessions export last -o chat.jsonl && termchat replay chat.jsonl"),
        ),
        ("run", "sessions export"),
        (_SETTINGS,),
        (_CONFIG,),
        (("0", "every token is the same"), ("1", "one is another, or it failed"), _USAGE, _INTERRUPTED),
    ),
    "tune": Manual(
        (
            ("The default model, in about a minute", "termchat tune"),
            ("Another, only to look", "termchat tune --dry-run --seconds 20 qwen3-0.6b"),
        ),
        ("doctor", "config show"),
        (_SETTINGS,),
        (_CONFIG, _TUNED),
    ),
    "doctor": Manual(
        (
            ("What is wrong, if anything", "termchat doctor"),
            ("For a bug report", "termchat doctor > report.txt"),
        ),
        ("config check", "locate", "models list"),
        (_SETTINGS,),
        (_CONFIG,),
        (("0", "all is well"), ("1", "there is something to do"), _USAGE, _INTERRUPTED),
    ),
    "models": Manual(
        (
            ("What there is", "termchat models list"),
            ("Get one, and chat with it", "termchat models pull qwen3-0.6b && termchat --model qwen3-0.6b"),
        ),
        ("tune", "locate"),
        _HUB,
        (_OWN_MODELS, _MODELS),
    ),
    "models add": Manual(
        (
            ("A file of your own", "termchat models add mine ~/models/mine.gguf"),
            ("One from Hugging Face", "termchat models add tiny unsloth/SmolLM2-135M-Instruct-GGUF:Q8_0"),
        ),
        ("models list", "models pull"),
        _HUB,
        (_OWN_MODELS,),
    ),
    "models list": Manual(
        (
            ("All of them", "termchat models list"),
            (
                "The names of those that are here",
                "termchat models list --json | jq -r '.models[]|select(.state==\"ready\").wanted'",
            ),
        ),
        ("models show", "models pull"),
        (_SETTINGS,),
        (_OWN_MODELS, _MODELS),
    ),
    "models pull": Manual(
        (
            ("One from the list", "termchat models pull qwen3-0.6b"),
            ("One from Hugging Face", "termchat models pull ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"),
            ("From anywhere, to a folder", "termchat models pull --to ~/models https://example.com/a.gguf"),
        ),
        ("models list", "models verify", "models rm"),
        _HUB,
        (_MODELS,),
        (_DONE, _FAILED, _USAGE, ("130", "interrupted with Ctrl+C; what came is kept, and resumed the next time")),
    ),
    "models rm": Manual(
        (("Without being asked", "termchat models rm --yes qwen3-0.6b"),),
        ("models list", "models pull"),
        (),
        (_MODELS,),
    ),
    "models show": Manual(
        (
            ("What is known of a model", "termchat models show smollm2"),
            ("Of any file", "termchat models show ./mine.gguf"),
        ),
        ("models list", "config show"),
        (_SETTINGS,),
        (_OWN_MODELS, _MODELS),
    ),
    "models verify": Manual(
        (("All that are here", "termchat models verify"), ("One", "termchat models verify smollm2")),
        ("models pull",),
        (_SETTINGS,),
        (_MODELS,),
        (("0", "all are sound, as far as can be told"), ("1", "one is damaged, or not here"), _USAGE, _INTERRUPTED),
    ),
    "sessions": Manual(
        (
            ("The last ones", "termchat sessions list -n 10"),
            ("Read one", "termchat sessions show last | less"),
            ("Open it again", "termchat --resume last"),
        ),
        ("replay", "locate"),
        (_XDG,),
        (_STORE,),
    ),
    "sessions export": Manual(
        (
            ("For people", "termchat sessions export last -o chat.md"),
            ("All of it, to be taken in elsewhere", "termchat sessions export last > chat.jsonl"),
        ),
        ("sessions import", "sessions show", "replay"),
        (),
        (_STORE,),
    ),
    "sessions import": Manual(
        (("A chat from elsewhere", "termchat sessions import chat.jsonl"),),
        ("sessions export", "sessions list"),
        (),
        (_STORE,),
    ),
    "sessions list": Manual(
        (("The last ten", "termchat sessions list -n 10"), ("What can come back", "termchat sessions list --deleted")),
        ("sessions search", "sessions show", "sessions restore"),
        (),
        (_STORE,),
    ),
    "sessions rename": Manual(
        (("The last used", 'termchat sessions rename last "Rivers"'),), ("sessions list",), (), (_STORE,)
    ),
    "sessions restore": Manual(
        (("Take back a deletion", "termchat sessions restore 01j"),), ("sessions list", "sessions rm"), (), (_STORE,)
    ),
    "sessions rm": Manual(
        (("The last used", "termchat sessions rm last"), ("For good", "termchat sessions rm --now --yes 01j")),
        ("sessions restore",),
        (),
        (_STORE,),
    ),
    "sessions search": Manual(
        (("Both words, or their beginnings", "termchat sessions search river alp"),),
        ("sessions list", "sessions show"),
        (),
        (_STORE,),
    ),
    "sessions show": Manual(
        (("The last used", "termchat sessions show last"), ("Its facts", "termchat sessions show --json last")),
        ("sessions export",),
        (),
        (_STORE,),
    ),
    "config": Manual(
        (
            ("A file that explains itself, in your editor", "termchat config edit"),
            ("What is set, and where", "termchat config show"),
            ("Change one thing", "termchat config set theme light"),
        ),
        ("doctor", "locate"),
        (_SETTINGS, _XDG),
        (_CONFIG, _THEMES),
    ),
    "config check": Manual(
        (("Before a commit of dotfiles", "termchat config check"),), ("doctor",), (_SETTINGS,), (_CONFIG,), _WRONG
    ),
    "config edit": Manual(
        (("With another editor", "EDITOR=vim termchat config edit"),),
        ("config check", "config set"),
        (("VISUAL, EDITOR", "the editor, with its flags"),),
        (_CONFIG,),
        _WRONG,
    ),
    "config init": Manual(
        (("Look at it first", "termchat config init --print | less"),), ("config edit",), (), (_CONFIG,)
    ),
    "config path": Manual((("Open it by hand", 'vim "$(termchat config path)"'),), ("locate",), (_XDG,), (_CONFIG,)),
    "config set": Manual(
        (
            ("A knob", "termchat config set temperature 0.2"),
            ("Texts that end a reply", 'termchat config set stop "\\n\\n" END'),
            ("A key", "termchat config set keys.tune ctrl+k"),
        ),
        ("config unset", "config show"),
        (),
        (_CONFIG,),
    ),
    "config show": Manual(
        (
            ("All of them", "termchat config show"),
            ("Why is it so warm", "termchat config show temperature"),
        ),
        ("config set", "config check"),
        (_SETTINGS,),
        (_CONFIG,),
    ),
    "config unset": Manual(
        (("The default again", "termchat config unset temperature"),), ("config set",), (), (_CONFIG,)
    ),
    "locate": Manual(
        (("All places", "termchat locate"), ("A copy of the chats", 'cp "$(termchat locate store)" backup.db')),
        ("config path", "doctor"),
        (_XDG,),
    ),
    "completion": Manual(
        (
            ("bash, in ~/.bashrc", 'eval "$(termchat completion bash)"'),
            ("zsh, in ~/.zshrc behind compinit", 'eval "$(termchat completion zsh)"'),
            ("fish", "termchat completion fish > ~/.config/fish/completions/termchat.fish"),
        ),
        ("help",),
    ),
    "help": Manual((("All about one command", "termchat help models pull"),), ()),
}
"""By the command's name without `termchat`."""


_INDENT = 2


class Grouped(click.Option):
    """An option that stands in a group of the help."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class Page(click.Command):
    """A command whose help is a page of `termchat.cli.manual`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, group by group; those that are the command's own first."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(parameter, "group", ""), []).append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(f"{group} options" if group else "Options"):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the epilog, and what the manual has besides."""
        super().format_epilog(ctx, formatter)

        page = page_of(ctx.command_path)
        _pairs(formatter, "Environment", page.environment)
        _pairs(formatter, "Files", page.files)
        _pairs(formatter, "Exit codes", page.codes)
        if page.examples:
            with formatter.section("Examples"):
                for what, line in page.examples:
                    formatter.write(f"{'':{_INDENT}}# {what}\n{'':{_INDENT}}$ {line}\n")
        if page.see:
            with formatter.section("See also"):
                formatter.write_text(", ".join(f"termchat {name}" for name in page.see))


def _pairs(formatter: click.HelpFormatter, title: str, pairs: Sequence[tuple[str, str]]) -> None:
    if pairs:
        with formatter.section(title):
            formatter.write_dl(pairs)


class PageGroup(Page, click.Group):
    """A group of commands whose help is a page of the manual: the commands first, then the options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands and the options."""
        self.format_commands(ctx, formatter)
        Page.format_options(self, ctx, formatter)


@click.command("help", cls=Page, short_help="Print the help of a command.")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, /, *, names: tuple[str, ...]) -> None:
    """Print the help of COMMAND, or of termchat itself."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no command {' '.join(names)!r}")
        at = click.Context(found, at, name)
    click.echo(at.get_help())
