"""Downloads a model by what a person calls it: `pull`.

    understand what is meant (`hub`) → ask the hub where needed (`web`) → each file: `transfer` → its place

Every step is safe to end at any moment, by a signal, a lost network or a loss of power: pulling again resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from termchat.models import catalogue
from termchat.models.catalogue import Catalogue
from termchat.models.download import hub
from termchat.models.download.hub import HubFiles, Remote, Repository, of_address, of_entry, of_repository, understand
from termchat.models.download.progress import BACKOFF, Gauge, Patience, Pulling
from termchat.models.download.transfer import Download
from termchat.models.download.web import Later, Web
from termchat.models.errors import ModelError


class PullCancelled(ModelError):
    """A download was ended by whoever wanted it."""


def pull(
    source: str,
    destination: Path | None = None,
    *,
    progress: Callable[[Pulling], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    known: Catalogue | None = None,
    backoff: Sequence[float] = BACKOFF,
) -> Path:
    """Downloads a model and returns the path of its (first) file. Blocks; meant for a thread.

    Args:
        source: a catalogue name, `owner/repo`, `owner/repo:QUANTIZATION`, `owner/repo/file.gguf`, or an http(s) address.
        destination: the folder for its files; None is where termchat keeps models.
        progress: called about ten times a second, from the calling thread.
        cancelled: asked as often; what came is kept for another time.
        known: the catalogue; None reads it.
        backoff: seconds before each next try after a failure.

    Raises:
        PullCancelled: as asked for.
        ModelError: it cannot be had.
    """

    def poll() -> None:
        if cancelled():
            raise PullCancelled(f"the download of {source} was stopped", "Pull it again to resume.")

    entry = (catalogue.load() if known is None else known).entries.get(source)
    if entry is not None and not entry.downloaded:
        return entry.locate(source)
    gauge = Gauge(progress, poll)
    web = Web(gauge.poll)
    try:
        gauge.begin(source, 0, None, alone=True)
        if entry is not None:
            remotes = of_entry(source, entry, web.hub, destination)
        else:
            remotes = _named(source, web, destination, gauge, backoff)
        _all(remotes, web, gauge, backoff, entry.size if entry is not None else None)
    finally:
        web.close()
    return remotes[0].path


def asked(source: str) -> tuple[Repository, HubFiles]:
    """The place on the hub that `source` names, and what is there.

    Raises:
        ModelError: it names none, or cannot be had.
    """
    gauge = Gauge(lambda _: None, lambda: None)
    web = Web(gauge.poll)
    try:
        place = understand(source, web.hub)
        if isinstance(place, str):
            raise ModelError(f"{source!r} is not on the hub", "Give owner/repo.")
        return place, _listing(place, web, gauge, BACKOFF)
    finally:
        web.close()


def _named(source: str, web: Web, folder: Path | None, gauge: Gauge, backoff: Sequence[float]) -> list[Remote]:
    meant = understand(source, web.hub)
    if isinstance(meant, str):
        return of_address(meant, folder)
    return of_repository(meant, web.hub, lambda place: _listing(place, web, gauge, backoff), folder)


def _listing(place: Repository, web: Web, gauge: Gauge, backoff: Sequence[float]) -> HubFiles:
    """The files of a repository, asked for again while the server is busy."""
    patience = Patience(gauge, backoff)
    while True:
        gauge.at("asking", 0)
        try:
            return hub.read_listing(place.repo, web.read(web.hub.listing(place.repo, place.revision)))
        except Later as error:
            patience.spend(place.repo, error, "Try again later.")


def _all(remotes: Sequence[Remote], web: Web, gauge: Gauge, backoff: Sequence[float], size: int | None) -> None:
    sizes = [remote.size for remote in remotes]
    total = size if None in sizes else sum(known for known in sizes if known is not None)
    before = 0
    for number, remote in enumerate(remotes):
        gauge.begin(remote.path.name, before, total, alone=len(remotes) == 1)
        before += Download(web, remote, gauge, whole=number == 0, backoff=backoff).run()
