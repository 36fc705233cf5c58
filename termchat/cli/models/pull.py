"""`termchat models pull`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from termchat.cli import completers
from termchat.cli.help import Page
from termchat.cli.output import ProgressLine, complain, fail, tell_json, tell_path
from termchat.models.errors import ModelError
from termchat.text import duration, size

if TYPE_CHECKING:
    from termchat.models.download.progress import Pulling


@click.command("pull", cls=Page)
@click.argument("source", shell_complete=completers.catalogued)
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER", help="put it there")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object when it is here")
def command(*, source: str, folder: Path | None, as_json: bool) -> None:
    """Download SOURCE, and print the path of its (first) file.

    SOURCE is a name from the catalogue, owner/repo, owner/repo:QUANT or owner/repo/file.gguf on Hugging Face, or an http(s)
    address. Without QUANT, Q4_K_M is taken, else the first. What was begun is resumed; what is here already stays. HF_TOKEN,
    HF_ENDPOINT and HF_HUB_OFFLINE are obeyed.

    With --json: path, and files, each with path, size (bytes), sha256, url.
    """
    from termchat.models.download.pull import pull

    line = ProgressLine()
    try:
        path = pull(
            source, folder, progress=lambda now: line.show(_progress(now), now.note.partition(";")[0] or now.file)
        )
    except ModelError as error:
        line.end()
        fail(error)
    except KeyboardInterrupt:
        line.end()
        complain("stopped; what came is kept", "Run it again to resume.")
        sys.exit(128 + signal.SIGINT)
    line.end()
    if as_json:
        tell_json(_told(path))
    else:
        tell_path(path)


def _progress(now: Pulling) -> str:
    here = f"{size(now.done)} of {size(now.total)}" if now.total is not None else size(now.done)
    share = f"{now.done / now.total:4.0%}" if now.total else ""
    what = {
        "asking": "asking for it",
        "waiting": now.note,
        "checking": "checking what is here",
        "downloading": f"{size(now.rate)}/s" if now.rate else "",
        "placing": "checking it",
    }[now.stage]
    left = f"{duration(now.left)} left" if now.left is not None else ""
    return "  ".join(part for part in (now.file, share, here if now.done else "", what, left) if part)


def _told(path: Path) -> dict[str, object]:
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
