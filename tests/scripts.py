"""The program as a script starts it, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TERMCHAT = [sys.executable, "-m", "termchat"]


def environment(home: Path) -> dict[str, str]:
    """What a script passes on, with all folders in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERMCHAT_")}
    return kept | {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}


def use_model(home: Path, model: Path) -> Path:
    """Have the programs of this home use the model where no flag says otherwise."""
    folder = Path(environment(home)["XDG_CONFIG_HOME"]) / "termchat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'model = "{model}"\n')
    return home


def termchat(home: Path, *args: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TERMCHAT, *map(str, args)],
        input=stdin,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str], code: int = 0) -> str:
    """What a command printed that ended with this code and complained of nothing."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def altered(path: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A transcript in JSON lines with each line changed in place."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target
