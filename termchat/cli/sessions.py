"""`termchat sessions`: list, search, show, rename, export, import and delete saved chats.

What a command works with is imported when it runs, so that `--help` and completion wait for none of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from termchat.cli import completers
from termchat.cli.help import PageGroup
from termchat.cli.output import complain, print_json, table
from termchat.conversation.transcripts import FORMATS
from termchat.text import one_line, sanitize

if TYPE_CHECKING:
    from termchat.conversation.session import SessionSummary
    from termchat.conversation.store.store import Store
    from termchat.decoding.records import Record

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST = 1_000_000
"""Chats in a list, at most."""

_TITLES = ("ID", "USED", "TURNS", "TOKENS", "MODEL", "TITLE")
_RIGHT = frozenset({"TURNS", "TOKENS"})
_TITLE_CELLS = 80
"""Cells of a title, so that one long title does not make every line long."""

_DEFAULT_FORMAT = "jsonl"
_READABLE = tuple(name for name, form in FORMATS.items() if form.signs)
_EXTENSIONS = ", ".join(f"{form.endings[0]} ({form.what})" for form in FORMATS.values())

_PATIENCE_S = 600.0
"""How long a command waits for a damaged file to be repaired, or for its own changes to be written."""

_SILENT_S = 2.0
"""How long a repair may take before it is reported."""


@click.group("sessions", cls=PageGroup)
def sessions() -> None:
    """List, search, show, rename, export and delete saved chats.

    SESSION is an id, the unambiguous start of one, or `last`.
    """


def _limit(default: int) -> Callable[[Command], Command]:
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, _MOST),
        default=default,
        show_default=True,
        help="maximum number of chats to list",
    )


# --- finding and reading ---------------------------------------------------------------------------------------------


@sessions.command("list")
@_limit(100)
@click.option("--deleted", is_flag=True, help="list deleted chats that can still be restored")
@click.option("--lessons", is_flag=True, help="list the chats of lessons, which are kept apart from the others")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def list_(*, limit: int, deleted: bool, lessons: bool, as_json: bool) -> None:
    """List saved chats, most recently used first.

    With --json: `sessions`, each with id, title, created and updated (UTC, ISO 8601), turns (your messages), tokens (in
    the replies), model, snippet ("").
    """
    with opened() as store:
        found = store.sessions(limit, deleted=deleted, lessons=lessons)
    if as_json:
        print_json({"sessions": _objects(found)})
    else:
        table(_TITLES, _rows(found), _RIGHT)


@sessions.command("search", short_help="Find saved chats that contain all WORDS.")
@click.argument("words", nargs=-1, required=True)
@_limit(20)
@click.option("--deleted", is_flag=True, help="search deleted chats that can still be restored")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def search(*, words: tuple[str, ...], limit: int, deleted: bool, as_json: bool) -> None:
    """Find saved chats that contain all WORDS, also within other words; best matches first.

    Searches titles, messages and replies. With --json: `sessions`, with the fields that `list` prints; in a snippet, the
    match is between U+0002 and U+0003.
    """
    with opened() as store:
        found = store.sessions(limit, search=" ".join(words), deleted=deleted)
    if as_json:
        print_json({"sessions": _objects(found)})
        return
    snippets = [one.snippet.replace("\x02", "").replace("\x03", "") for one in found]
    table((*_TITLES, "FOUND"), [(*row, text) for row, text in zip(_rows(found), snippets, strict=True)], _RIGHT)


@sessions.command("show")
@click.argument("session", shell_complete=completers.sessions)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def show(*, session: str, as_json: bool) -> None:
    """Print SESSION with its details.

    With --json: id, title, named (you chose the title), created and updated (UTC, ISO 8601), model (name, path, identity),
    system, raw, tuning (knobs), branches (ends of the tree), tokens (in all replies), turns (each with role and text). Use
    `export` for every token and branch.
    """
    with opened() as store:
        info = store.load(store.find(session))
        conversation = info.conversation
        if not as_json:
            for line in FORMATS["md"].writer(conversation, info, partial(store.records, info.id)):
                click.echo(sanitize(line))
            return
    import msgspec

    print_json(
        {
            "id": info.id,
            "title": conversation.title,
            "named": info.named,
            "created": _stamp(info.created),
            "updated": _stamp(info.updated),
            "model": msgspec.to_builtins(info.model),
            "system": conversation.system,
            "raw": conversation.raw,
            "tuning": msgspec.to_builtins(info.tuning),
            "branches": len(conversation.list_leaves()),
            "tokens": sum(len(node.tokens) for node in conversation.nodes.values()),
            "turns": [{"role": role, "text": text} for role, text in conversation.list_turns()],
        }
    )


# --- changing --------------------------------------------------------------------------------------------------------


@sessions.command("rename")
@click.argument("session", shell_complete=completers.sessions)
@click.argument("title")
def rename(*, session: str, title: str) -> None:
    """Change the title of SESSION."""
    if not title.split():
        raise click.UsageError("the title is empty")
    with opened() as store:
        store.rename(store.find(session), title)


@sessions.command("rm")
@click.argument("names", metavar="SESSION...", nargs=-1, required=True, shell_complete=completers.sessions)
@click.option("--now", is_flag=True, help="delete permanently, right away; this cannot be undone")
@click.option("-y", "--yes", is_flag=True, help="with --now: do not ask for confirmation")
def rm(*, names: tuple[str, ...], now: bool, yes: bool) -> None:
    """Delete SESSION.

    `restore` brings it back for a week; after that it is gone.
    """
    with opened() as store:
        found = list(dict.fromkeys(store.find(name) for name in names))
        if now and not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise click.UsageError("cannot ask for confirmation here; use --yes to delete it permanently")
            click.confirm(f"Permanently delete {sanitize(', '.join(found))}?", abort=True, err=True)
        for session in found:
            if now:
                store.purge(session)
            else:
                store.delete(session)
    for session in map(sanitize, found):  # an id may be damaged, or of a file from elsewhere
        undo = "" if now else f"; to undo: termchat sessions restore {session}"
        click.echo(f"deleted {session}{undo}", err=True)


@sessions.command("restore", short_help="Restore a deleted SESSION.")
@click.argument("session", shell_complete=completers.sessions)
def restore(*, session: str) -> None:
    """Restore a deleted SESSION; `list --deleted` shows which ones can be restored."""
    with opened() as store:
        found = store.find(session)
        if all(one.id != found for one in store.sessions(_MOST, deleted=True)):
            complain(f"{found} is not deleted", "termchat sessions list --deleted shows deleted chats.")
            sys.exit(1)
        store.restore(found)


# --- out and in ------------------------------------------------------------------------------------------------------


@sessions.command("export", epilog=f"File extensions: {_EXTENSIONS}.")
@click.argument("session", shell_complete=completers.sessions)
@click.option(
    "--format", "form", type=click.Choice(tuple(FORMATS)), help="override the format chosen by FILE's extension"
)
@click.option("-o", "--output", metavar="FILE", default="-", help="output file; - is standard output (the default)")
@click.option("--force", is_flag=True, help="replace FILE if it exists")
def export(*, session: str, form: str | None, output: str, force: bool) -> None:
    """Write SESSION to a file, or to standard output.

    FILE's extension chooses the format. Standard output is JSON Lines, which keeps every record and can be imported again.
    FILE is written completely or not at all.
    """
    from termchat.conversation.transcripts import export as exporting
    from termchat.conversation.transcripts.transcript import TranscriptError, limit_records

    if output == "-" and sys.stdout is None:
        complain("stdout is closed")
        sys.exit(1)
    with opened() as store:
        found = store.find(session)
        store.read_through(found)  # so that damage is found before the first line is written
        stored = store.load(found)
        nodes = stored.conversation.nodes

        def records(number: int) -> Iterator[Record]:
            return limit_records(nodes[number], store.records(found, number))

        chosen = FORMATS[form] if form else None
        try:
            if output == "-":
                out, lines = sys.stdout.buffer, FORMATS[form or _DEFAULT_FORMAT].writer
                for line in lines(stored.conversation, stored, records):
                    out.write(line.encode("utf-8", "replace") + b"\n")
                out.flush()
                return
            path = exporting.write(Path(output), stored.conversation, stored, records, form=chosen, replace=force)
        except TranscriptError as error:
            complain(error.message, error.hint)
            sys.exit(1)
    click.echo(f"saved {sanitize(str(path), keep='')}", err=True)


@sessions.command("import", short_help="Import chats from FILE.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option("--format", "form", type=click.Choice(_READABLE), help="override the detected format")
def import_(*, files: tuple[Path, ...], form: str | None) -> None:
    """Import chats from FILE: termchat JSON Lines, OpenAI messages or ShareGPT. Use - for stdin.

    Each chat is saved as a new one, and its id is printed, one per line. A chat or message that cannot be read is left out
    and named, and the exit code is 1. The other chats and files are still imported.
    """
    from termchat.conversation.transcripts import importing
    from termchat.conversation.transcripts.transcript import TranscriptError

    failed = False
    with opened() as store:
        for file in files:
            try:
                with importing.open_readable(file) as path:
                    for transcript in importing.chats(path, FORMATS[form] if form else None):
                        click.echo(importing.keep_transcript(store, transcript))
                        title = one_line(transcript.conversation.title or "a chat", 60)
                        click.echo(f"imported {title}", err=True)
                        if transcript.halves:
                            click.echo(_half_characters(transcript.halves), err=True)
                        for problem in transcript.left_out:
                            complain(f"left out of {file.name}: {problem}")
                            failed = True
            except TranscriptError as error:
                complain(error.message, error.hint)
                failed = True
    sys.exit(1 if failed else 0)


def _half_characters(count: int) -> str:
    what = "1 half character in it was" if count == 1 else f"{count:,} half characters in it were"
    return f"  {what} replaced by U+FFFD: half a character cannot be stored"


# --- the store, and its rows -----------------------------------------------------------------------------------------


@contextmanager
def opened() -> Iterator[Store]:
    """The store of saved chats. An error of it is reported, and ends the command with 1."""
    from termchat import paths
    from termchat.conversation.store.store import Store, StoreError

    try:
        store = Store.open(paths.store_file(), _PATIENCE_S)
        patience, over = _PATIENCE_S, threading.Event()
        threading.Thread(target=_report_repair, args=(store, over), daemon=True).start()
        try:
            yield store
        except KeyboardInterrupt:
            patience = 0.0  # whoever opens the file next goes on with the repair
            raise
        finally:
            written = store.close(patience)
            over.set()
            for notice in store.notices():
                complain(notice.message, notice.hint)
        if not written:
            raise StoreError(f"not saved: {store.problem() or 'writing takes too long'}", "Fix that and try again.")
    except StoreError as error:
        complain(error.message, error.hint)
        sys.exit(1)


def _report_repair(store: Store, over: threading.Event) -> None:
    while not over.wait(_SILENT_S):
        if store.opening():
            complain("the saved-chats file is damaged; recovering what can still be read", "This can take a minute.")
            return


def _rows(found: Sequence[SessionSummary]) -> list[tuple[str, ...]]:
    return [
        (
            one.id,
            f"{datetime.fromtimestamp(one.updated).astimezone():%Y-%m-%d %H:%M}",
            f"{one.turns:,}",
            f"{one.tokens:,}",
            one.model,
            one_line(one.called, _TITLE_CELLS),
        )
        for one in found
    ]


def _stamp(seconds: float) -> str:
    """A time since the epoch as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _objects(found: Sequence[SessionSummary]) -> list[dict[str, Any]]:
    import msgspec

    return [
        msgspec.structs.asdict(one) | {"created": _stamp(one.created), "updated": _stamp(one.updated)} for one in found
    ]
