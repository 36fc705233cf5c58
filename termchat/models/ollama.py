"""Ollama's folder: manifests that name models, and blobs that hold them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from termchat.models.walk import Candidate, Refused, candidate

MODEL_LAYER = "application/vnd.ollama.image.model"
MAX_MANIFEST = 1 << 20
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_HOME = ("registry.ollama.ai", "library")


class Tagged(NamedTuple):
    """A model under the name that Ollama gives it."""

    name: str
    found: Candidate | Refused


def is_ollama(folder: Path) -> bool:
    """Whether a folder is laid out as Ollama's `models` is."""
    return os.path.isdir(folder / "manifests") and os.path.isdir(folder / "blobs")


def models(folder: Path) -> Iterator[Tagged]:
    """The models of all manifests, host/namespace/model/tag, in the order of their names."""
    manifests = folder / "manifests"
    for manifest in sorted(manifests.glob("*/*/*/*")):
        parts = manifest.relative_to(manifests).parts
        yield Tagged(_name(*parts), _model(manifest, folder / "blobs"))
    for blob in sorted((folder / "blobs").glob("*-partial")):
        yield Tagged(blob.name, Refused(blob, "is a download that is not finished"))


def _name(host: str, namespace: str, model: str, tag: str) -> str:
    """The name as `ollama list` shows it."""
    where = () if (host, namespace) == _HOME else (namespace,) if host == _HOME[0] else (host, namespace)
    return f"{'/'.join((*where, model))}:{tag}"


def _model(manifest: Path, blobs: Path) -> Candidate | Refused:
    if not os.path.isfile(manifest):
        return Refused(manifest, "is not a regular file")
    try:
        with manifest.open("rb") as file:
            content = msgspec.json.decode(file.read(MAX_MANIFEST))
        digest = _DIGEST.fullmatch(_layer(content)["digest"])
    except OSError as error:
        return Refused(manifest, f"cannot be read: {error.strerror}")
    except (msgspec.DecodeError, LookupError, TypeError):
        return Refused(manifest, "is a manifest that names no GGUF file")
    if digest is None:
        return Refused(manifest, "is a manifest with a digest that is none")
    return candidate((blobs / f"sha256-{digest[1]}",))


def _layer(content: Any) -> dict[str, Any]:
    for layer in content["layers"]:
        if layer["mediaType"] == MODEL_LAYER:
            return dict(layer)
    raise LookupError(MODEL_LAYER)
