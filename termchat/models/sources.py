"""What a person names to be pulled, and the files that it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from termchat import paths
from termchat.models import hub, names
from termchat.models.entry import Entry, parts
from termchat.models.errors import ModelError
from termchat.models.hub import Hub, Listing

MAIN = "main"

_FORMS = "Give a name from the catalogue, owner/repo, owner/repo:Q4_K_M, owner/repo/file.gguf, or an http(s) address."
_SHORT = re.compile(r"(?:hf\.co|(?:www\.)?huggingface\.co)/", re.IGNORECASE)


class Remote(NamedTuple):
    """One file to download, and where it goes. `size` in bytes and hex `sha256` where they are known beforehand."""

    url: str
    path: Path
    size: int | None = None
    sha256: str = ""


class Repository(NamedTuple):
    """A place on the hub; without a `file` one is chosen, of the `quantization` if one is named."""

    repo: str
    revision: str = MAIN
    file: str = ""
    quantization: str = ""


def understand(text: str, hub_: Hub) -> Repository | str:
    """A place on the hub, or an address elsewhere.

    Raises:
        ModelError: it is written like neither.
    """
    if text.startswith((".", "/", "~")) or "\\" in text:
        raise ModelError(f"{text!r} is a path on this machine: there is nothing to pull", _FORMS)
    address = f"https://{text}" if _SHORT.match(text) else text
    if "://" in address:
        scheme, host, port = hub.origin(address)
        at_home = host in hub.HOSTS or (scheme, host, port) == hub.origin(hub_.endpoint)
        return _page(address) if at_home else address
    bare, _, quantization = text.partition(":")
    owner, _, rest = bare.partition("/")
    name, _, file = rest.partition("/")
    if not hub.is_repo(f"{owner}/{name}") or (file and (quantization or not file.lower().endswith(hub.SUFFIX))):
        raise ModelError(f"{text!r} names no model that can be pulled", _FORMS)
    return Repository(f"{owner}/{name}", MAIN, file, quantization)


def _page(address: str) -> Repository:
    """What a page of the hub is about: https://hub/owner/name, or the same and /blob|resolve|tree/revision/file.

    As in llama.cpp, :QUANTIZATION may stand after the name.
    """
    owner, name, *rest = (*unquote(urlsplit(address).path).strip("/").split("/"), "")
    name, _, quantization = name.partition(":")
    rest = [part for part in rest if part]
    if not hub.is_repo(f"{owner}/{name}") or (rest and (rest[0] not in ("blob", "resolve", "tree") or len(rest) < 2)):
        raise ModelError(f"{hub.shown(address)} is no page of a model or of its file", _FORMS)
    file = "/".join(rest[2:]) if rest and rest[0] != "tree" else ""
    return Repository(f"{owner}/{name}", rest[1] if rest else MAIN, file, quantization)


def of_entry(name: str, entry: Entry, hub_: Hub, folder: Path | None) -> list[Remote]:
    """The files of a catalogue's entry that is downloaded; the first is the one to open.

    Raises:
        ModelError: its name or file cannot be a name on disk.
    """
    first = entry.download_path(name) if folder is None else folder / str(names.checked(entry.filename))
    if entry.url:
        return _beside(entry.url, first, entry.size, entry.sha256)
    alone = len(entry.files) == 1
    return [
        Remote(
            hub_.file(entry.repo, entry.revision or MAIN, file),
            first.with_name(file.rpartition("/")[2]),
            entry.size if alone else None,
            entry.sha256 if alone else "",
        )
        for file in entry.files
    ]


def of_repository(
    place: Repository, hub_: Hub, ask: Callable[[Repository], Listing], folder: Path | None
) -> list[Remote]:
    """The files of a model on the hub, which `ask` tells about; the first is the one to open.

    Raises:
        ModelError: there are no such files, or they have names that are refused.
    """
    listing = ask(place)
    wanted = place.file or hub.choose(place.repo, listing, place.quantization)
    found = []
    for file in parts(wanted):
        size, sha256 = hub.find(place.repo, listing, file)
        inside = names.checked(f"{place.repo}/{file}")
        path = paths.models_folder() / inside if folder is None else folder / inside.name
        found.append(Remote(hub_.file(place.repo, listing.commit, file), path, size, sha256))
    return found


def of_address(url: str, folder: Path | None) -> list[Remote]:
    """The files of a model at an address; the first is the one to open.

    Raises:
        ModelError: it ends in no name of a GGUF file that is allowed on disk.
    """
    _, host, _ = hub.origin(url)
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    if not name.lower().endswith(hub.SUFFIX):
        raise ModelError(f"{hub.shown(url)} does not end in the name of a {hub.SUFFIX} file", "Check the address.")
    folder = paths.models_folder() / str(names.checked(host.replace(":", "-"))) if folder is None else folder
    return _beside(url, folder / str(names.checked(name)), None, "")


def _beside(url: str, first: Path, size: int | None, sha256: str) -> list[Remote]:
    """The file at an address, and if it is a part of a set all of them, which lie beside it."""
    together = parts(first.name)
    if len(together) == 1:
        return [Remote(url, first, size, sha256)]
    address, mark, query = url.partition("?")
    start = address.rpartition("/")[0]
    return [Remote(f"{start}/{quote(part)}{mark}{query}", first.with_name(part)) for part in together]
