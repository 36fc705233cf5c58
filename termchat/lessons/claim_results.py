"""What was measured of lessons' claims, by model: kept in one small file, so that it is measured once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from termchat import atomic, paths, regular_files
from termchat.lessons.lesson import Claim

_VERSION = 1
_MOST_BYTES = 4 << 20


def claim_key(claim: Claim) -> str:
    """What tells claims apart by what is measured: the same for the same prompt, settings and checks."""
    made = claim._replace(what="", otherwise="", checks=(), step=0)  # type: ignore[arg-type]
    checks = [check.written for check in claim.checks]
    return hashlib.sha256(repr((tuple(made), sorted(claim.knobs.items()), checks)).encode()).hexdigest()[:20]


class ClaimResults:
    """Whether each claim holds, by the name of a model and the claim's key. A file that cannot be read or written is no
    reason to stop: then it is measured again."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or paths.lesson_claims_file()

    def known(self, model: str) -> Mapping[str, bool]:
        return self._read().get(model, {})

    def keep(self, model: str, results: Mapping[str, bool]) -> None:
        models = self._read()
        models[model] = {**models.get(model, {}), **results}
        try:
            atomic.replace(self._file, json.dumps({"version": _VERSION, "models": models}).encode())
        except OSError:
            return

    def _read(self) -> dict[str, dict[str, bool]]:
        try:
            found: Any = json.loads(regular_files.read(self._file, _MOST_BYTES))
            if found["version"] != _VERSION:
                return {}
            return {
                str(model): {str(key): value for key, value in results.items() if isinstance(value, bool)}
                for model, results in found["models"].items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}
