"""The Hugging Face hub and other sources: from what a person wrote to the files to download.

`understand` reads a repository, a page or an address; `Hub` is the endpoint with its token, which only the hub itself is shown;
`of_entry`, `of_repository` and `of_address` give the remote files of a model with their places on disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec

from termchat import paths, regular_files
from termchat.models import catalogue
from termchat.models.entry import Entry, parts
from termchat.models.errors import ModelError
from termchat.text import UNREADABLE, explain_unreadable

HOME = "https://huggingface.co"
HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
PREFERRED = "Q4_K_M"
SUFFIX = ".gguf"

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TOKEN = re.compile(r"[\x21-\x7e]{1,500}")
_OFFLINE = ("TERMCHAT_OFFLINE", "HF_HUB_OFFLINE")
_YES = frozenset({"1", "on", "yes", "true"})
_COMPANIONS = ("mmproj", "imatrix")
"""In the names of GGUF files that come with a model and are none."""
_PORTS = {"http": 80, "https": 443}
_MOST_NAMED = 12


MAIN = "main"
_FORMS = "Give a name from the catalogue, owner/repo, owner/repo:Q4_K_M, owner/repo/file.gguf, or an http(s) address."
_SHORT = re.compile(r"(?:hf\.co|(?:www\.)?huggingface\.co)/", re.IGNORECASE)


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port.

    Raises:
        ModelError: it is no http(s) address.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        host = ""
    if not host or parts.scheme not in _PORTS:
        raise ModelError(f"{shown(url)!r} is not an http or https address", "Check the address.")
    return parts.scheme, host, port


def shown(url: str) -> str:
    """An address without its secrets: password and query."""
    return re.sub(r"^([a-z]+://)[^/?#]*@", r"\1", url.partition("#")[0].partition("?")[0], flags=re.IGNORECASE)


def is_repo(text: str) -> bool:
    return _REPO.fullmatch(text) is not None and ".." not in text


def offline(environ: Mapping[str, str] = os.environ) -> str:
    """The variable that forbids the network; "" if none does."""
    return next((name for name in _OFFLINE if environ.get(name, "").strip().lower() in _YES), "")


class File(NamedTuple):
    """A file of a repository: bytes, and hex SHA-256 where the hub keeps it ("" for small text files)."""

    size: int | None
    sha256: str


class HubFiles(NamedTuple):
    """The files of a repository at a commit, by path."""

    commit: str
    files: dict[str, File]


class Hub(msgspec.Struct, frozen=True):
    """A hub, and the token it may see. `endpoint` has no / at its end."""

    endpoint: str = HOME
    token: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Hub:
        """The one that HF_ENDPOINT names; the token of HF_TOKEN, or of the file that `hf auth login` writes.

        Raises:
            ModelError: one of them cannot be used; the message does not hold the token.
        """
        endpoint = environ.get("HF_ENDPOINT", "").strip().rstrip("/") or HOME
        try:
            origin(endpoint)
        except ModelError as error:
            raise ModelError(
                f"HF_ENDPOINT: {error.message}", "Set it to an address such as https://huggingface.co"
            ) from None
        token = _token(environ)
        if token and not _TOKEN.fullmatch(token):
            raise ModelError("the Hugging Face token contains invalid characters", "Set HF_TOKEN again.")
        return cls(endpoint, token)

    def headers(self, url: str) -> dict[str, str]:
        """The token, but only for the hub's own address, encrypted or on this machine."""
        scheme, host, _ = origin(url)
        safe = scheme == "https" or host in ("localhost", "::1") or host.startswith("127.")
        if self.token and safe and origin(url) == origin(self.endpoint):
            return {"Authorization": f"Bearer {self.token}"}
        return {}

    def file(self, repo: str, revision: str, path: str) -> str:
        return f"{self.endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(path)}"

    def listing(self, repo: str, revision: str) -> str:
        """The address that answers what `read_listing` reads."""
        return f"{self.endpoint}/api/models/{repo}/revision/{quote(revision, safe='')}?blobs=true"


def _token(environ: Mapping[str, str]) -> str:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := environ.get(name, "").strip():
            return token
    if environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").strip().lower() in _YES:
        return ""
    cache = environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    path = environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")
    try:
        return regular_files.read(Path(os.path.expanduser(path)), 1000).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class _Large(msgspec.Struct):
    sha256: str = ""


class _Sibling(msgspec.Struct):
    rfilename: str
    size: int | None = None
    lfs: _Large | None = None


class _Model(msgspec.Struct):
    sha: str
    siblings: list[_Sibling] = []


def read_listing(repo: str, answer: bytes) -> HubFiles:
    """Raises:
    ModelError: the answer cannot be understood.
    """
    try:
        model = msgspec.json.decode(answer, type=_Model)
    except UNREADABLE as error:
        what = f"unexpected answer from the hub about {repo}: {explain_unreadable(error)}"
        raise ModelError(what, "Check HF_ENDPOINT.") from error
    return HubFiles(model.sha, {s.rfilename: File(s.size, s.lfs.sha256 if s.lfs else "") for s in model.siblings})


def choose(repo: str, listing: HubFiles, quantization: str = "") -> str:
    """The model's (first) file: of this quantization, else Q4_K_M, else the first.

    Raises:
        ModelError: there is none.
    """
    models = sorted(
        path
        for path in listing.files
        if path.lower().endswith(SUFFIX) and not any(word in path.lower() for word in _COMPANIONS)
    )
    if not models:
        raise ModelError(f"{repo} has no GGUF file", "Look for a repository of this model whose name ends in -GGUF.")
    word = re.compile(rf"(?:^|[-._/]){re.escape(quantization or PREFERRED)}(?=[-./])", re.IGNORECASE)
    found = [path for path in models if word.search(path)]
    if found or not quantization:
        return (found or models)[0]
    raise ModelError(f"{repo} has no file with quantization {quantization!r}", f"It has {_some(models)}.")


def find(repo: str, listing: HubFiles, path: str) -> File:
    """Raises:
    ModelError: the repository has no file of that name.
    """
    if path in listing.files:
        return listing.files[path]
    models = sorted(name for name in listing.files if name.lower().endswith(SUFFIX))
    raise ModelError(f"{repo} has no file {path!r}", f"It has {_some(models)}." if models else "It has no GGUF file.")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


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
    """A place on the hub, or an http(s) address elsewhere.

    Raises:
        ModelError: it is written like neither.
    """
    if text.startswith((".", "/", "~")) or "\\" in text:
        raise ModelError(f"{text!r} is a path on this machine; there is nothing to download", _FORMS)
    address = f"https://{text}" if _SHORT.match(text) else text
    if "://" in address:
        scheme, host, port = origin(address)
        at_home = host in HOSTS or (scheme, host, port) == origin(hub_.endpoint)
        return _page(address) if at_home else address
    bare, _, quantization = text.partition(":")
    owner, _, rest = bare.partition("/")
    name, _, file = rest.partition("/")
    if not is_repo(f"{owner}/{name}") or (file and (quantization or not file.lower().endswith(SUFFIX))):
        raise ModelError(f"no downloadable model named {text!r}", _FORMS)
    return Repository(f"{owner}/{name}", MAIN, file, quantization)


def _page(address: str) -> Repository:
    """What a page of the hub is about: https://hub/owner/name, or the same and /blob|resolve|tree/revision/file.

    As in llama.cpp, :QUANTIZATION may stand after the name.
    """
    owner, name, *rest = (*unquote(urlsplit(address).path).strip("/").split("/"), "")
    name, _, quantization = name.partition(":")
    rest = [part for part in rest if part]
    if not is_repo(f"{owner}/{name}") or (rest and (rest[0] not in ("blob", "resolve", "tree") or len(rest) < 2)):
        raise ModelError(f"{shown(address)} is not the page of a model or a model file", _FORMS)
    file = "/".join(rest[2:]) if rest and rest[0] != "tree" else ""
    return Repository(f"{owner}/{name}", rest[1] if rest else MAIN, file, quantization)


def of_entry(name: str, entry: Entry, hub_: Hub, folder: Path | None) -> list[Remote]:
    """The files of a catalogue's entry that is downloaded; the first is the one to open.

    Raises:
        ModelError: its name or file cannot be a name on disk.
    """
    first = entry.download_path(name) if folder is None else folder / str(catalogue.checked(entry.filename))
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
    place: Repository, hub_: Hub, ask: Callable[[Repository], HubFiles], folder: Path | None
) -> list[Remote]:
    """The files of a model on the hub, which `ask` tells about; the first is the one to open.

    Raises:
        ModelError: there are no such files, or they have names that are refused.
    """
    listing = ask(place)
    wanted = place.file or choose(place.repo, listing, place.quantization)
    found = []
    for file in parts(wanted):
        size, sha256 = find(place.repo, listing, file)
        inside = catalogue.checked(f"{place.repo}/{file}")
        path = paths.models_folder() / inside if folder is None else folder / inside.name
        found.append(Remote(hub_.file(place.repo, listing.commit, file), path, size, sha256))
    return found


def of_address(url: str, folder: Path | None) -> list[Remote]:
    """The files of a model at an address; the first is the one to open.

    Raises:
        ModelError: it ends in no name of a GGUF file that is allowed on disk.
    """
    _, host, _ = origin(url)
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    if not name.lower().endswith(SUFFIX):
        raise ModelError(f"{shown(url)} does not end in the name of a {SUFFIX} file", "Check the address.")
    folder = paths.models_folder() / str(catalogue.checked(host.replace(":", "-"))) if folder is None else folder
    return _beside(url, folder / str(catalogue.checked(name)), None, "")


def _beside(url: str, first: Path, size: int | None, sha256: str) -> list[Remote]:
    """The file at an address, and if it is a part of a set all of them, which lie beside it."""
    together = parts(first.name)
    if len(together) == 1:
        return [Remote(url, first, size, sha256)]
    address, mark, query = url.partition("?")
    start = address.rpartition("/")[0]
    return [Remote(f"{start}/{quote(part)}{mark}{query}", first.with_name(part)) for part in together]
