"""The order of the house: one name for one thing, and a map in every room."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import termchat

ROOT = Path(termchat.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")

_FILE = re.compile(r"`([\w./]+\.(?:py|c|toml|json))`")
"""A file, as in `observe.c`."""
_NAME = re.compile(r"`([a-z][a-z0-9_]*(?:\.\w+)*)`")
"""A module or what it defines, as in `worker`, `llama.worker` or `termchat.cli.tasks`. Names of other things are written
otherwise: commands as `termchat run`, classes with a capital letter, functions as `load()`; private names of other libraries
begin with an underscore."""


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""


def repeated(named: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """Names that stand for more than one thing, with their files."""
    files = defaultdict(list)
    for name, file in named:
        files[name].append(file)
    return {name: found for name, found in files.items() if len(found) > 1}


def public_classes() -> Iterator[tuple[str, str]]:
    for path in [*MODULES, *(package / "__init__.py" for package in PACKAGES)]:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, shown(path)


def missing(package: Path, text: str) -> list[str]:
    """What a map names that does not exist: its files, and modules of the package, of termchat or installed."""
    places = (package, package.parent, ROOT, ROOT.parent)
    lost = [name for name in _FILE.findall(text) if not any((place / name).exists() for place in places)]
    defined = {name for path in package.glob("*.py") for name in names_in(path)}
    for name in sorted({*_NAME.findall(text)} - {*_FILE.findall(text)}):
        parts = name.split(".")
        ours = any(is_module(place, parts) for place in places)
        if not (name in defined or ours or (parts[0] != "termchat" and find_spec(parts[0]))):
            lost.append(name)
    return lost


def is_module(at: Path, parts: list[str]) -> bool:
    """These parts lead from a folder to a module or a package, or to a name in one."""
    for part in parts:
        if (at / f"{part}.py").is_file():
            return True
        if not (at / part).is_dir():
            return (at / "__init__.py").is_file() and part in names_in(at / "__init__.py")
        at /= part
    return True


def names_in(module: Path) -> set[str]:
    """What a module defines or imports at its top level."""
    names = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_no_two_modules_have_one_name() -> None:
    assert repeated((path.stem, shown(path)) for path in MODULES) == {}


def test_no_two_public_classes_have_one_name() -> None:
    assert repeated(public_classes()) == {}


@pytest.mark.parametrize("package", PACKAGES, ids=shown)
def test_every_package_has_a_map_whose_modules_exist(package: Path) -> None:
    text = docstring(package)
    assert text
    assert missing(package, text) == []


def test_a_module_that_is_gone_is_found() -> None:
    text = (
        "`lost.py` and `termchat.nowhere.at_all`, beside `main.py` and `termchat.cli.main`.\n\n- `gone`, `main`: text"
    )
    assert missing(ROOT / "cli", text) == ["lost.py", "gone", "termchat.nowhere.at_all"]
