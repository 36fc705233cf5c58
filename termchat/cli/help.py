"""Manual pages: what `--help` prints besides a command's description and options, and `termchat help`.

The pages are data, by the name of the command without `termchat`. They are not read lazily: importing them takes less than
a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

Pairs = tuple[tuple[str, str], ...]

_INDENT = 2

_DONE, _FAILED = ("0", "done"), ("1", "failed; the reason is on stderr")
_USAGE, _INTERRUPTED = ("2", "the command line is wrong"), ("130", "interrupted with Ctrl+C")
_PIPE = ("141", "the program reading the output closed the pipe")
_CODES: Pairs = (_DONE, _FAILED, _USAGE, _INTERRUPTED)
_WRONG: Pairs = (("0", "no mistakes"), ("1", "mistakes were found and listed"), _USAGE, _INTERRUPTED)

_SETTINGS = ("TERMCHAT_…", "any setting, for example TERMCHAT_TOP_K for --top-k; flags take precedence")
_XDG = ("XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_STATE_HOME", "move the folders below out of the home folder")
_CONFIG = ("~/.config/termchat/config.toml", "settings; see termchat config")
_STORE = ("~/.local/share/termchat/sessions.db", "saved chats")
_MODELS = ("~/.local/share/termchat/models/", "downloaded models")
_OWN_MODELS = ("~/.config/termchat/models.toml", "your own model catalogue")
_PRESETS = ("~/.config/termchat/presets.toml", "your own presets")
_PERSONAS = ("~/.config/termchat/personas.toml", "your own personas")
_THEMES = ("~/.config/termchat/themes/", "your own themes")
_LESSONS = ("~/.local/share/termchat/lessons/", "your own lessons")
_PROGRESS = ("~/.local/share/termchat/lessons.json", "your progress in lessons")
_TUNED = ("~/.local/state/termchat/tuned.json", "results of termchat tune")
_HUB: Pairs = (
    ("HF_TOKEN", "access token for gated models"),
    ("HF_ENDPOINT", "mirror to use instead of https://huggingface.co"),
    ("HF_HUB_OFFLINE, TERMCHAT_OFFLINE", "1: stay offline"),
    ("HTTPS_PROXY, NO_PROXY", "proxy settings"),
)


class Manual(NamedTuple):
    """What a page has besides description and options. An example is a pair: what it does, and the line to type."""

    examples: Pairs
    see: tuple[str, ...] = ()
    environment: Pairs = ()
    files: Pairs = ()
    codes: Pairs = _CODES


def page_of(path: str) -> Manual:
    """The page of a command by its whole name: "termchat models pull"."""
    return PAGES.get(path.partition(" ")[2], Manual(()))


PAGES: dict[str, Manual] = {
    "": Manual(
        (
            ("Chat with the default model", "termchat"),
            (
                "Chat with another model, greedy, with a system prompt",
                'termchat --model qwen3-0.6b --temperature 0 --system "Be brief."',
            ),
            ("Resume the latest chat", "termchat --resume"),
            ("Print one reply, for a script", 'termchat run "Name three rivers."'),
        ),
        ("run", "models", "sessions", "config", "doctor", "help"),
        (
            _SETTINGS,
            ("NO_COLOR", "no colours"),
            ("TERM", 'terminal type; the chat does not run on "dumb"'),
            ("VISUAL, EDITOR", "editor for writing a message (F8)"),
            _XDG,
        ),
        (_CONFIG, _OWN_MODELS, _PRESETS, _PERSONAS, _THEMES, _STORE, _MODELS, _TUNED),
    ),
    "run": Manual(
        (
            ("Print one reply", 'termchat run "Why is the sky blue?"'),
            ("Print the same reply every time", 'termchat run --seed 42 --max-tokens 80 "Tell me a joke."'),
            ("Print three different replies", 'termchat run -n 3 "Name a river."'),
            ("Print four replies, decoded together", 'termchat run --walks 4 "Name a river."'),
            (
                "Print three replies for each of three temperatures",
                'termchat run --grid temperature=0,0.7,1.5 --runs 3 "Name a river."',
            ),
            (
                "Print the most common answer of eight replies",
                'termchat run --vote "\\d+" "What is 17 + 25?"',
            ),
            ("Print the two best replies of a beam search", 'termchat run --beams 4 --n-best 2 "Name a river."'),
            ("Ask about a file", 'termchat run --system "Summarise this." < notes.txt'),
            ("Answer a chat in OpenAI format", "termchat run --messages - < chat.json"),
            ("Print every token with its candidates, for a program", "termchat run --json hello > reply.jsonl"),
            ("Complete raw text without a chat template", 'termchat run --raw --stop "\\n" "The capital of France is"'),
        ),
        ("replay", "models list", "config show"),
        (_SETTINGS,),
        (_CONFIG, _MODELS),
        (
            ("0", "done: the reply ended by itself, at a stop sequence or at --max-tokens"),
            _FAILED,
            _USAGE,
            ("3", "a reply was cut off: the context is full, or the reply ended before it matched its constraint"),
            _INTERRUPTED,
            _PIPE,
            ("143", "ended by SIGTERM"),
        ),
    ),
    "replay": Manual(
        (
            ("Check that a reply is reproducible", "termchat run --json hello > a.jsonl && termchat replay a.jsonl"),
            ("Replay only the third walk", "termchat replay --walk 2 a.jsonl"),
            ("Replay a reply of another machine", "termchat replay --anywhere a.jsonl"),
            ("Replay a saved chat", "termchat sessions export last -o chat.jsonl && termchat replay chat.jsonl"),
        ),
        ("compare", "run", "sessions export"),
        (_SETTINGS,),
        (_CONFIG,),
        (("0", "everything is identical"), ("1", "something differs, or the replay failed"), _USAGE, _INTERRUPTED),
    ),
    "compare": Manual(
        (
            ("See why two runs differ", "termchat compare a.jsonl b.jsonl"),
            (
                "Compare the last reply of a chat with its version before",
                "termchat sessions export last | termchat compare -",
            ),
        ),
        ("replay", "run", "sessions export"),
        (),
        (),
        (("0", "the tokens are identical"), ("1", "a token differs, or a file cannot be read"), _USAGE, _INTERRUPTED),
    ),
    "tokens": Manual(
        (
            ("See the tokens of a text", 'termchat tokens "How many r are in strawberry?"'),
            ("Count the tokens of a file", "termchat tokens --ids < notes.txt | wc -l"),
        ),
        ("run", "models list"),
        (_SETTINGS,),
        (_CONFIG, _MODELS),
        (*_CODES, _PIPE),
    ),
    "tune": Manual(
        (
            ("Measure the default model, in about a minute", "termchat tune"),
            ("Measure another model without saving", "termchat tune --dry-run --seconds 20 qwen3-0.6b"),
        ),
        ("doctor", "config show"),
        (_SETTINGS,),
        (_CONFIG, _TUNED),
    ),
    "doctor": Manual(
        (
            ("Look for problems", "termchat doctor"),
            ("Write a report for a bug report", "termchat doctor > report.txt"),
        ),
        ("config check", "locate", "models list"),
        (_SETTINGS,),
        (_CONFIG,),
        (("0", "no problems"), ("1", "problems were found"), _USAGE, _INTERRUPTED),
    ),
    "learn": Manual(
        (
            ("Choose a lesson", "termchat learn"),
            ("Begin one", "termchat learn greedy"),
            ("For a projector", "termchat learn --big"),
            ("See how far you are", "termchat learn list"),
            ("Write your own", "termchat learn new mine.toml && termchat learn check mine.toml"),
        ),
        ("run", "sessions"),
        (_SETTINGS, _XDG),
        (_LESSONS, _PROGRESS),
    ),
    "learn list": Manual((("As JSON", "termchat learn list --json"),), ("learn",), (_XDG,), (_LESSONS, _PROGRESS)),
    "learn check": Manual(
        (
            ("Check a lesson and play it", "termchat learn check mine.toml"),
            ("Only read it", "termchat learn check --read-only mine.toml"),
        ),
        ("learn new", "learn facts"),
        (_SETTINGS,),
        codes=(("0", "the lesson works"), ("1", "mistakes were found and listed"), _USAGE, _INTERRUPTED),
    ),
    "learn new": Manual(
        (("Write one where termchat finds it", "termchat learn new ~/.local/share/termchat/lessons/mine.toml"),),
        ("learn check", "learn facts"),
        files=(_LESSONS,),
    ),
    "learn facts": Manual((("Facts about entropy", "termchat learn facts entropy"),), ("learn check", "learn new")),
    "learn export": Manual(
        (
            ("One page of all that you have begun", "termchat learn export lessons.html"),
            ("One lesson as Markdown", "termchat learn export greedy.md --lesson greedy"),
        ),
        ("learn list", "sessions export"),
        (_XDG,),
        (_PROGRESS, _STORE),
    ),
    "models": Manual(
        (
            ("List all models", "termchat models list"),
            ("Download a model and chat with it", "termchat models pull qwen3-0.6b && termchat --model qwen3-0.6b"),
        ),
        ("tune", "locate"),
        _HUB,
        (_OWN_MODELS, _MODELS),
    ),
    "models add": Manual(
        (
            ("Add a file of your own", "termchat models add mine ~/models/mine.gguf"),
            ("Add a model from Hugging Face", "termchat models add tiny unsloth/SmolLM2-135M-Instruct-GGUF:Q8_0"),
        ),
        ("models list", "models pull"),
        _HUB,
        (_OWN_MODELS,),
    ),
    "models list": Manual(
        (
            ("List all models", "termchat models list"),
            (
                "Names of the models on this machine",
                "termchat models list --json | jq -r '.models[]|select(.state==\"ready\").wanted'",
            ),
        ),
        ("models show", "models pull"),
        (_SETTINGS,),
        (_OWN_MODELS, _MODELS),
    ),
    "models pull": Manual(
        (
            ("Download a model from the list", "termchat models pull qwen3-0.6b"),
            ("Download from Hugging Face", "termchat models pull ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"),
            ("Download from any URL, into a folder", "termchat models pull --to ~/models https://example.com/a.gguf"),
        ),
        ("models list", "models verify", "models rm"),
        _HUB,
        (_MODELS,),
        (
            _DONE,
            _FAILED,
            _USAGE,
            ("130", "interrupted with Ctrl+C; the partial download is kept and resumes next time"),
        ),
    ),
    "models rm": Manual(
        (("Remove without asking", "termchat models rm --yes qwen3-0.6b"),),
        ("models list", "models pull"),
        (),
        (_MODELS,),
    ),
    "models show": Manual(
        (
            ("Describe a model", "termchat models show smollm2"),
            ("Describe any GGUF file", "termchat models show ./mine.gguf"),
        ),
        ("models list", "config show"),
        (_SETTINGS,),
        (_OWN_MODELS, _MODELS),
    ),
    "models verify": Manual(
        (("Check all models", "termchat models verify"), ("Check one", "termchat models verify smollm2")),
        ("models pull",),
        (_SETTINGS,),
        (_MODELS,),
        (("0", "no damage found"), ("1", "a file is damaged or missing"), _USAGE, _INTERRUPTED),
    ),
    "sessions": Manual(
        (
            ("List the latest chats", "termchat sessions list -n 10"),
            ("Read a chat", "termchat sessions show last | less"),
            ("Reopen a chat", "termchat --resume last"),
        ),
        ("replay", "locate"),
        (_XDG,),
        (_STORE,),
    ),
    "sessions export": Manual(
        (
            ("As readable Markdown", "termchat sessions export last -o chat.md"),
            ("Everything, for importing elsewhere", "termchat sessions export last > chat.jsonl"),
        ),
        ("sessions import", "sessions show", "replay"),
        (),
        (_STORE,),
    ),
    "sessions import": Manual(
        (("Import an exported chat", "termchat sessions import chat.jsonl"),),
        ("sessions export", "sessions list"),
        (),
        (_STORE,),
    ),
    "sessions list": Manual(
        (
            ("List the latest ten", "termchat sessions list -n 10"),
            ("Deleted chats that can be restored", "termchat sessions list --deleted"),
        ),
        ("sessions search", "sessions show", "sessions restore"),
        (),
        (_STORE,),
    ),
    "sessions rename": Manual(
        (("Rename the latest chat", 'termchat sessions rename last "Rivers"'),), ("sessions list",), (), (_STORE,)
    ),
    "sessions restore": Manual(
        (("Restore a deleted chat", "termchat sessions restore 01j"),), ("sessions list", "sessions rm"), (), (_STORE,)
    ),
    "sessions rm": Manual(
        (
            ("Delete the latest chat", "termchat sessions rm last"),
            ("Delete permanently", "termchat sessions rm --now --yes 01j"),
        ),
        ("sessions restore",),
        (),
        (_STORE,),
    ),
    "sessions search": Manual(
        (("Both words, or words that start with them", "termchat sessions search river alp"),),
        ("sessions list", "sessions show"),
        (),
        (_STORE,),
    ),
    "sessions show": Manual(
        (
            ("Print the latest chat", "termchat sessions show last"),
            ("Details as JSON", "termchat sessions show --json last"),
        ),
        ("sessions export",),
        (),
        (_STORE,),
    ),
    "config": Manual(
        (
            ("Edit a documented config file", "termchat config edit"),
            ("See what is set, and where", "termchat config show"),
            ("Change one setting", "termchat config set theme light"),
        ),
        ("doctor", "locate"),
        (_SETTINGS, _XDG),
        (_CONFIG, _THEMES),
    ),
    "config check": Manual(
        (("Before committing dotfiles", "termchat config check"),), ("doctor",), (_SETTINGS,), (_CONFIG,), _WRONG
    ),
    "config edit": Manual(
        (("Use another editor", "EDITOR=vim termchat config edit"),),
        ("config check", "config set"),
        (("VISUAL, EDITOR", "the editor, with any flags"),),
        (_CONFIG,),
        _WRONG,
    ),
    "config init": Manual(
        (("Look at the file first", "termchat config init --print | less"),), ("config edit",), (), (_CONFIG,)
    ),
    "config path": Manual(
        (("Open the file by hand", 'vim "$(termchat config path)"'),), ("locate",), (_XDG,), (_CONFIG,)
    ),
    "config set": Manual(
        (
            ("Set a knob", "termchat config set temperature 0.2"),
            ("Set stop sequences", 'termchat config set stop "\\n\\n" END'),
            ("Change a key", "termchat config set keys.tune ctrl+k"),
        ),
        ("config unset", "config show"),
        (),
        (_CONFIG,),
    ),
    "config show": Manual(
        (
            ("Print all settings", "termchat config show"),
            ("See where temperature is set", "termchat config show temperature"),
        ),
        ("config set", "config check"),
        (_SETTINGS,),
        (_CONFIG,),
    ),
    "config unset": Manual(
        (("Return to the default", "termchat config unset temperature"),), ("config set",), (), (_CONFIG,)
    ),
    "locate": Manual(
        (
            ("List all files and folders", "termchat locate"),
            ("Back up the saved chats", 'cp "$(termchat locate store)" backup.db'),
        ),
        ("config path", "doctor"),
        (_XDG,),
    ),
    "completion": Manual(
        (
            ("bash, in ~/.bashrc", 'eval "$(termchat completion bash)"'),
            ("zsh, in ~/.zshrc after compinit", 'eval "$(termchat completion zsh)"'),
            ("fish", "termchat completion fish > ~/.config/fish/completions/termchat.fish"),
        ),
        ("help",),
    ),
    "help": Manual((("Describe one command", "termchat help models pull"),), ()),
}


class Grouped(click.Option):
    """An option that `--help` lists in a group."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class Page(click.Command):
    """A command whose help is a page of the manual: options in groups, then what `PAGES` has for it."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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

    command_class = Page

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from termchat.text import guess_of

            message = f"{error.message.removesuffix('.')}{guess_of(args[0], self.list_commands(ctx))}"
            raise click.UsageError(message, error.ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        Page.format_options(self, ctx, formatter)


@click.command("help", cls=Page, short_help="Print the manual page of a command.")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, /, *, names: tuple[str, ...]) -> None:
    """Print the manual page of COMMAND, or of termchat itself."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise click.UsageError(f"unknown command {' '.join(names)!r}")
        at = click.Context(found, at, name)
    click.echo(at.get_help())
