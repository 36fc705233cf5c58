"""Where programs keep their models, as a table: the variables that move a folder, and where it is without them.

Every folder of a program is looked at, not only the one its variables name now: a model is still there after the folder
for new ones has been moved. How a folder is laid out is seen when it is read, in `discovery`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from termchat import paths, regular_files

MAX_POINTER = 4096
"""Bytes of the largest file that says where a folder is."""

ANYWHERE = ""


class ProgramFolders(NamedTuple):
    """The folders of one program, by `sys.platform`; those under `ANYWHERE` are the same on every system.

    A folder begins with `~`, with a `$VARIABLE` (it is left out when that is not set) or with `@` and a file whose content
    is the beginning.
    """

    name: str
    folders: Mapping[str, tuple[str, ...]]


PLACES: tuple[ProgramFolders, ...] = (
    ProgramFolders(
        "Hugging Face",
        {
            ANYWHERE: (
                "$HF_HUB_CACHE",
                "$HUGGINGFACE_HUB_CACHE",
                "$HF_HOME/hub",
                "$XDG_CACHE_HOME/huggingface/hub",
                "~/.cache/huggingface/hub",
            )
        },
    ),
    ProgramFolders(
        "llama.cpp",
        {
            ANYWHERE: ("$LLAMA_CACHE",),
            "linux": ("$XDG_CACHE_HOME/llama.cpp", "~/.cache/llama.cpp"),
            "darwin": ("~/Library/Caches/llama.cpp",),
            "win32": ("$LOCALAPPDATA/llama.cpp",),
        },
    ),
    ProgramFolders(
        "LM Studio",
        {ANYWHERE: ("@~/.lmstudio-home-pointer/models", "~/.lmstudio/models", "~/.cache/lm-studio/models")},
    ),
    ProgramFolders(
        "Ollama",
        {
            ANYWHERE: ("$OLLAMA_MODELS", "~/.ollama/models"),
            "linux": ("/usr/share/ollama/.ollama/models", "/var/lib/ollama/.ollama/models"),
        },
    ),
    ProgramFolders(
        "Jan",
        {
            "linux": ("$XDG_DATA_HOME/Jan/data/llamacpp", "~/.local/share/Jan/data/llamacpp"),
            "darwin": ("~/Library/Application Support/Jan/data/llamacpp",),
            "win32": ("$APPDATA/Jan/data/llamacpp",),
        },
    ),
    ProgramFolders(
        "GPT4All",
        {
            "linux": ("$XDG_DATA_HOME/nomic.ai/GPT4All", "~/.local/share/nomic.ai/GPT4All"),
            "darwin": ("~/Library/Application Support/nomic.ai/GPT4All",),
            "win32": ("$LOCALAPPDATA/nomic.ai/GPT4All",),
        },
    ),
)


class Root(NamedTuple):
    """A folder to look into, and whose it is."""

    place: str
    path: Path


def roots(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Iterator[Root]:
    """The existing folders of all programs, each once; our own first.

    One that may not be entered is among them, so that whoever reads it can say so.
    """
    environ = os.environ if environ is None else environ
    candidates = [Root("termchat", paths.models_folder())]
    for place in PLACES:
        for text in (*place.folders.get(ANYWHERE, ()), *place.folders.get(platform, ())):
            path = _expanded(text, environ)
            if path is not None:
                candidates.append(Root(place.name, path))
    seen: set[str] = set()
    for root in candidates:
        real = os.path.realpath(root.path)
        if real not in seen and _is_there(real):
            seen.add(real)
            yield root


def repository_folder(repo: str) -> str:
    """Of `owner/name`, in a cache of Hugging Face's layout."""
    return "models--" + repo.replace("/", "--")


def _is_there(folder: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(folder).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _expanded(text: str, environ: Mapping[str, str]) -> Path | None:
    """None where a variable, a file or the home folder that it begins with is missing."""
    if text.startswith("@"):
        pointer, _, rest = text[1:].rpartition("/")
        file = _expanded(pointer, environ)
        content = _content(file) if file is not None else ""
        return Path(content, rest) if content else None
    first, _, rest = text.partition("/")
    if first.startswith("$"):
        value = environ.get(first[1:], "")
        return Path(value, rest) if value else None
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no home folder
        return None


def _content(file: Path) -> str:
    try:
        return os.fsdecode(regular_files.read(file, MAX_POINTER)).replace("\0", "").strip()
    except OSError:
        return ""
