"""`termchat models`: list, download, describe, check and remove models.

What a command works with is imported when it runs, so that `--help` and completion wait for none of it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import FOLDERS, flags, read_settings
from termchat.cli.help import PageGroup
from termchat.cli.output import ProgressLine, complain, facts, fail, print_json, print_path, table
from termchat.decoding.samplers import KNOBS
from termchat.engine.address import HERE, EngineAddress
from termchat.engine.port import EngineError
from termchat.models.errors import ModelError, NotHere
from termchat.text import duration, home, sanitize, size

if TYPE_CHECKING:
    from termchat.models.catalogue import Catalogue
    from termchat.models.download.progress import Pulling
    from termchat.models.listing import Listing

_TITLES = ("NAME", "SIZE", "QUANT", "CONTEXT", "STATE", "DRAFT MODEL", "FROM", "DESCRIPTION")
_RIGHT = frozenset({"SIZE", "CONTEXT"})

_STAGES = {
    "asking": "connecting",
    "checking": "checking the partial download",
    "placing": "checking the file",
}
"""What a pull does while it neither downloads nor waits, which have their own words."""

_STATES = {"unknown": "looks like a valid model, but there is no SHA-256 to compare with"}
"""What the states of a verified file mean that are no problem."""

_FIELDS = (
    "name", "state", "path", "description", "license", "source", "needs", "size", "sha256", "fingerprint", "architecture",
    "size_label", "quantization", "parameters", "context", "layers", "vocabulary", "tokenizer", "chat_template", "thinking",
    "recommended", "memory", "draft_model", "draft_models", "problem",
)  # fmt: skip
"""The fields of `show` in their order."""
_BYTES = ("size", "memory")
_OF_ENTRY = ("description", "license", "source", "needs", "sha256", "context", "recommended", "draft_model")
"""The fields of `show` that an entry of the catalogue has."""


@click.group("models", cls=PageGroup)
def models() -> None:
    """List, download, check and remove models.

    MODEL is a name from the list, or a path.

    Environment: hub
    Files: own models, models
    Examples:
      # List all models
      $ termchat models list
      # Download a model and chat with it
      $ termchat models pull qwen3-0.6b && termchat --model qwen3-0.6b
    See also: tune, locate
    """


@models.command("add")
@click.argument("name")
@click.argument("source")
@click.option(
    "--description",
    default="",
    metavar="TEXT",
    help="one-line description for the list  [default: the source's own title]",
)
@click.option("--license", default="", metavar="TEXT", help="its license")
def add(*, name: str, source: str, description: str, license: str) -> None:
    """Add SOURCE to your own models.toml under NAME.

    models.toml is in the config folder. Nothing is downloaded.

    SOURCE is a path to a GGUF file; owner/repo, owner/repo:QUANT or owner/repo/file.gguf on Hugging Face; or an http(s)
    address.

    Environment: hub
    Files: own models
    Examples:
      # Add a file of your own
      $ termchat models add mine ~/models/mine.gguf
      # Add a model from Hugging Face
      $ termchat models add tiny unsloth/SmolLM2-135M-Instruct-GGUF:Q8_0
    See also: models list, models pull
    """
    from termchat.models import manage

    try:
        file = manage.add(name, source, description=description, license=license)
    except ModelError as error:
        fail(error)
    click.echo(f"added {sanitize(name)} to {sanitize(home(file))}", err=True)


@models.command("list", short_help="List models, downloaded or not.")
@flags(only=("default_engine", "remote_command", *FOLDERS), knobs=False)
@click.option("--skipped", is_flag=True, help="also list files that were skipped, and why")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def list_(*, skipped: bool, as_json: bool, **given: Any) -> None:
    """List the models in the catalogue and those on this machine, or with --engine those of an engine elsewhere.

    DRAFT MODEL names a smaller model of the same vocabulary, which can draft for it (--draft): one on this machine, else one
    to download.

    With --json: `models`, each with wanted (what to give to --model), name, state (ready, not downloaded, not installed,
    broken), description, architecture, size_label, quantization, context (tokens), size (bytes), about (size is not exact),
    license, needs, draft_model (the one that the catalogue names to draft for it), draft_models (those on this machine that
    can, as --draft takes them, the smallest first), source, catalogued, path, problem, and of an engine elsewhere engine, told
    (what it says), round_trip (in seconds) and serves (a server's names for the model); `skipped`, each with path,
    reason, place; and `problems` of the catalogues.

    Environment: settings
    Files: own models, models
    Examples:
      # List all models
      $ termchat models list
      # Names of the models on this machine
      $ termchat models list --json | jq -r '.models[]|select(.state=="ready").wanted'
    See also: models show, models pull
    """
    import msgspec

    from termchat.models.listing import listing, with_drafts

    elsewhere = read_settings(given).address if given["default_engine"] else HERE
    if elsewhere.url:
        found = _list_models_at(elsewhere)
        listed = found.rows
    else:
        found = listing(read_settings(given).model_folders)
        listed = with_drafts(found.rows)
    names = {row.wanted: row.name for row in listed}
    if as_json:
        print_json(
            {
                "models": [msgspec.structs.asdict(row) for row in listed],
                "skipped": [{"path": one.path, "reason": one.reason, "place": one.place} for one in found.skipped],
                "problems": found.problems,
            }
        )
        return
    rows = [
        (
            row.name,
            ("~" if row.about else "") + size(row.size),
            row.quantization,
            f"{row.context:,}" if row.context else "",
            row.state,
            names.get(row.best_draft, row.best_draft),
            row.source,
            row.problem if row.state == "broken" else row.description,
        )
        for row in listed
    ]
    table(_TITLES, rows, _RIGHT)
    if skipped and found.skipped:
        click.echo()
        table(("SKIPPED", "WHY"), [(home(one.path), one.reason) for one in found.skipped])
    elif found.skipped:
        count = len(found.skipped)
        what = "1 file or folder was" if count == 1 else f"{count} files and folders were"
        click.echo(f"{what} skipped; use --skipped to see why", err=True)
    for problem in found.problems:
        complain(problem)


def _list_models_at(address: EngineAddress) -> Listing:
    from termchat.models.elsewhere import models_of
    from termchat.models.listing import Listing

    try:
        return Listing(models_of(address), [], ())
    except EngineError as error:
        fail(ModelError(error.message, error.hint))


# --- pull ------------------------------------------------------------------------------------------------------------


@models.command("pull", short_help="Download a model and print its path.")
@click.argument("source", shell_complete=completers.catalogued)
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="download to FOLDER"
)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object when the download is complete")
def pull(*, source: str, folder: Path | None, as_json: bool) -> None:
    """Download SOURCE and print the path of its file (or of the first, if there are several).

    SOURCE is a name from the catalogue; owner/repo, owner/repo:QUANT or owner/repo/file.gguf on Hugging Face; or an http(s)
    address. Without QUANT, Q4_K_M is chosen, otherwise the first file. Partial downloads resume; complete files are not
    downloaded again. HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are respected.

    With --json: path, and files, each with path, size (bytes), sha256, url.

    Environment: hub
    Files: models
    Exit codes:
      0, 1, 2
      130: interrupted with Ctrl+C; the partial download is kept and resumes next time
    Examples:
      # Download a model from the list
      $ termchat models pull qwen3-0.6b
      # Download from Hugging Face
      $ termchat models pull ggml-org/gemma-3-4b-it-GGUF:Q4_K_M
      # Download from any URL, into a folder
      $ termchat models pull --to ~/models https://example.com/a.gguf
    See also: models list, models verify, models rm
    """
    from termchat.models.download import pull as download

    line = ProgressLine()
    try:
        path = download.pull(
            source,
            folder,
            progress=lambda now: line.show(_format_progress(now), now.note.partition(";")[0] or now.file),
        )
    except ModelError as error:
        line.end()
        fail(error)
    except KeyboardInterrupt:
        line.end()
        complain("stopped; the part already downloaded is kept", "Run the command again to resume.")
        sys.exit(128 + signal.SIGINT)
    line.end()
    if as_json:
        print_json(_describe_pull(path))
    else:
        print_path(path)


def _format_progress(now: Pulling) -> str:
    done = f"{size(now.done)} of {size(now.total)}" if now.total is not None else size(now.done)
    share = f"{now.done / now.total:4.0%}" if now.total else ""
    stages = {**_STAGES, "waiting": now.note, "downloading": f"{size(now.rate)}/s" if now.rate else ""}
    left = f"{duration(now.left)} left" if now.left is not None else ""
    return "  ".join(part for part in (now.file, share, done if now.done else "", stages[now.stage], left) if part)


def _describe_pull(path: Path) -> dict[str, object]:
    from termchat.models.download.transfer import note_path, read_note
    from termchat.models.entry import parts

    files = []
    for part in parts(path.name):
        file = path.with_name(part)
        note = read_note(note_path(file))
        files.append(
            {
                "path": file,
                "size": file.stat().st_size,
                "sha256": note.sha256 if note else None,
                "url": note.url if note else None,
            }
        )
    return {"path": path, "files": files}


# --- rm and verify ---------------------------------------------------------------------------------------------------


@models.command("rm", short_help="Remove a downloaded model.")
@click.argument("model", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("-y", "--yes", is_flag=True, help="do not ask for confirmation")
def rm(*, model: str, yes: bool, **given: Any) -> None:
    """Remove MODEL, if termchat downloaded it.

    Files that other programs put on this disk are not touched.

    Files: models
    Examples:
      # Remove without asking
      $ termchat models rm --yes qwen3-0.6b
    See also: models list, models pull
    """
    from termchat.models import catalogue, manage

    try:
        files = manage.removable(model, catalogue.load(), read_settings(given).model_folders)
        freed = size(sum(file.stat().st_size for file in files))
        if not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise click.UsageError("cannot ask for confirmation here; use --yes to remove it")
            for file in files:
                click.echo(sanitize(home(file)), err=True)
            what = "this file" if len(files) == 1 else "these files"
            click.confirm(f"Remove {what} and free {freed}?", abort=True, err=True)
        manage.remove(files)
    except ModelError as error:
        fail(error)
    click.echo(f"removed {sanitize(model)}, {freed} freed", err=True)


@models.command("verify", short_help="Check models against their SHA-256.")
@click.argument("names", nargs=-1, metavar="[MODEL]...", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def verify(*, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Check MODEL's file against its SHA-256.

    Without MODEL, check every catalogue model on this machine.

    With --json: `files`, each with model, path, state (ok, damaged, or unknown if there is no hash to compare with), sha256,
    expected, problem. Exits with 1 if a file is damaged or missing.

    Environment: settings
    Files: models
    Exit codes:
      0: no damage found
      1: a file is damaged or missing
      2, 130
    Examples:
      # Check all models
      $ termchat models verify
      # Check one
      $ termchat models verify smollm2
    See also: models pull
    """
    import msgspec

    from termchat.models import catalogue, manage

    known, folders = catalogue.load(), read_settings(given).model_folders
    line = ProgressLine()
    files: list[dict[str, object]] = []
    failed = False

    def progress(path: Path, done: int) -> None:
        line.show(f"reading {path.name}  {size(done)} of {size(path.stat().st_size)}", path.name)

    for name in names or _find_local(known):
        try:
            verified = manage.verify(name, known, progress, folders)
            files += [{"model": name, **msgspec.structs.asdict(one)} for one in verified]
        except ModelError as error:
            line.end()
            complain(error.message, error.hint)
            failed = True
        finally:
            line.end()
    if as_json:
        print_json({"files": files})
    elif files:
        rows = [
            (str(f["state"]), home(str(f["path"])), str(f["problem"] or _STATES.get(str(f["state"]), "")))
            for f in files
        ]
        table(("STATE", "FILE", "PROBLEM"), rows)
    sys.exit(1 if failed or any(file["state"] == "damaged" for file in files) else 0)


def _find_local(known: Catalogue) -> list[str]:
    """Find the models of the catalogue whose files exist, damaged or not."""
    found = []
    for name, entry in known.entries.items():
        try:
            entry.locate(name)
        except NotHere:
            continue
        except ModelError:
            pass  # damaged: `verify` reports it
        found.append(name)
    return found


# --- show ------------------------------------------------------------------------------------------------------------


@models.command("show")
@click.argument("model", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def show(*, model: str, as_json: bool, **given: Any) -> None:
    """Show everything termchat knows about MODEL.

    With --json: name, state, path, description, license, source, needs, size (bytes), sha256 (of the whole file),
    fingerprint (of its header and size; model.sha256 in records), architecture, size_label, quantization, parameters,
    context (tokens), layers, vocabulary, tokenizer, chat_template (true or false), thinking (the opening and closing tags),
    recommended (by knob), memory (approximate bytes needed with the whole context), draft_model (the one that the catalogue
    names to draft for it), draft_models (those on this machine that can, as --draft takes them), problem; null where unknown.

    Environment: settings
    Files: own models, models
    Examples:
      # Describe a model
      $ termchat models show smollm2
      # Describe any GGUF file
      $ termchat models show ./mine.gguf
    See also: models list, config show
    """
    from termchat.models import catalogue

    known = catalogue.load()
    entry = known.entries.get(model)
    values: dict[str, Any] = dict.fromkeys(_FIELDS)
    values.update(name=model, state="ready", problem="")
    if entry is not None:
        values |= {name: getattr(entry, name) or None for name in _OF_ENTRY}
        values["size"] = entry.size or entry.about_size
        values["thinking"] = list(entry.thinking) or None
    try:
        name, path = catalogue.resolve(model, known, read_settings(given).model_folders)
        values["name"] = name
        _add_file(values, path)
        values["draft_models"] = _find_drafts(path, known, read_settings(given).model_folders)
    except NotHere as error:
        values.update(state=entry.state if entry else "not downloaded", problem=f"{error.message}. {error.hint}")
    except ModelError as error:
        if entry is None:
            fail(error)
        values.update(state="broken", problem=f"{error.message}. {error.hint}")
    if as_json:
        print_json(values)
    else:
        facts([(name.replace("_", " "), _format(name, value)) for name, value in values.items()])


def _add_file(values: dict[str, Any], path: Path) -> None:
    """Add the fields of the file's header.

    Raises:
        ModelError: it cannot be read.
    """
    from termchat.models import memory
    from termchat.models.download.transfer import note_path, read_note
    from termchat.models.entry import parts
    from termchat.models.gguf.header import read_header

    header, note = read_header(path), read_note(note_path(path))
    on_disk = sum(path.with_name(part).stat().st_size for part in parts(path.name))
    values.update(
        path=path,
        description=values["description"] or header.name or None,
        source=values["source"] or (note.url if note else None),
        size=on_disk,
        sha256=values["sha256"] or (note.sha256 if note else None),
        fingerprint=header.identity(),
        architecture=header.architecture,
        size_label=header.size_label or None,
        quantization=header.quantization,
        parameters=header.parameters,
        context=header.context_length or values["context"],
        layers=header.block_count,
        vocabulary=header.vocabulary,
        tokenizer=header.tokenizer or None,
        chat_template=header.template is not None,
        recommended=values["recommended"] or header.recommended or None,
        memory=memory.estimate(header, header.context_length or 0, size=on_disk).total
        if header.context_length
        else None,
    )


def _find_drafts(path: Path, known: Catalogue, folders: Iterable[str | Path]) -> list[str]:
    """Find the models on this machine that can draft for the model in this file, as --draft takes them."""
    from termchat.models.listing import listing, with_drafts

    found = with_drafts(listing(folders, known).rows)
    return next((list(row.draft_models) for row in found if row.path is not None and row.path.samefile(path)), [])


def _format(name: str, value: Any) -> str:
    """Format a field of `show` for people; "" where it is unknown."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{size(value)} ({value:,} bytes)" if name in _BYTES else f"{value:,}"
        case list():
            return " … ".join(value) if name == "thinking" else ", ".join(map(home, value))
        case dict():
            return ", ".join(f"{knob} {KNOBS[knob].show(setting)}" for knob, setting in value.items())
    return home(value) if isinstance(value, Path) else str(value)
