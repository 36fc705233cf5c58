"""Amounts as people say them: bytes, seconds, and a path without the home folder."""

from __future__ import annotations

from pathlib import Path

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float | None) -> str:
    """Bytes: 98 MB, 1.06 GB; "" if unknown."""
    if count is None:
        return ""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    digits = 0 if unit < 2 or count >= 99.5 else 1 if count >= 9.95 else 2
    return f"{count:.{digits}f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Seconds: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def home(path: Path | str) -> str:
    """A path with the home folder as ~."""
    text, own = str(path), str(Path.home())
    return "~" + text[len(own) :] if text.startswith(own + "/") else text
