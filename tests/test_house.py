"""The order of the house: one name for one thing, and a map in every room."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import termchat

ROOT = Path(termchat.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")

# A name in backticks that is meant as a file: `cache.py`, `observe.c`, `llama/worker.py`, or of our own: `termchat.cli.tasks`.
_FILE = re.compile(r"`([\w./]+\.(?:py|c|toml|json))`")
_DOTTED = re.compile(r"`termchat((?:\.\w+)+)`")
# A line of the map that is about modules: "- `run`: …", "- `run`, `replay`: …".
_ITEM = re.compile(r"^ *- ((?:`\w+`(?:, | and |/)?)+)", re.MULTILINE)


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
    """What a map names that does not exist: files, dotted modules, and the modules that its list explains."""

    def is_there(name: str) -> bool:
        return any((place / name).exists() for place in (package, ROOT, ROOT.parent))

    def is_module(dotted: str) -> bool:
        at = ROOT
        for part in dotted.strip(".").split("."):
            if (at / f"{part}.py").is_file():
                return True  # what follows is a name in it
            if not (at / part).is_dir():
                return f" {part} " in f" {' '.join(names_in(at / '__init__.py'))} "
            at /= part
        return True

    lost = [name for name in _FILE.findall(text) if not is_there(name)]
    lost += [f"termchat{name}" for name in _DOTTED.findall(text) if not is_module(name)]
    for names in _ITEM.findall(text):
        lost += [
            name
            for name in re.findall(r"`(\w+)`", names)
            if not any(is_there(file) for file in (f"{name}.py", f"{name}/__init__.py", name))
        ]
    return lost


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
    assert missing(ROOT / "cli", text) == ["lost.py", "termchat.nowhere.at_all", "gone"]
