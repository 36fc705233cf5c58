"""A hatchling build hook that compiles `observe.c`; where that cannot be done termchat runs without it, slower.

Not a part of the program: pyproject.toml names it, and wheels leave it out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("termchat/engine/llama/observe.c")  # from the checkout's root
LIBRARY = SOURCE.with_name("libobserve.so")
FLAGS = ("-O3", "-std=c11", "-fPIC", "-shared", "-Wno-psabi")


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is there only while it builds
    """Puts the library beside its source; a wheel that holds it is one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds, for an editable install too."""
        if not self._compile_library(Path(self.root, SOURCE), Path(self.root, LIBRARY)):
            return
        build_data["artifacts"].append(f"/{LIBRARY}")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def _compile_library(self, source: Path, library: Path) -> bool:
        found = next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")
        compiler = shlex.split(os.environ.get("CC") or found)
        building = library.with_suffix(f".{os.getpid()}")  # never a half-written library under its own name
        try:
            subprocess.run([*compiler, *FLAGS, "-o", str(building), str(source), "-lm"], check=True)
            building.replace(library)
        except (OSError, subprocess.CalledProcessError) as error:
            building.unlink(missing_ok=True)
            library.unlink(missing_ok=True)  # it may be of an older source
            self.app.display_warning(f"{SOURCE} was not compiled ({error}): termchat runs without it, more slowly")
            return False
        return True
