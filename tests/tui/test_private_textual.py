"""Private names of Textual are used in `tui/terminal` alone, each for a reason; an upgrade that takes one away is told here.

A name with a leading underscore counts as used where a class of ours reads, sets or defines a name that one of its Textual
bases has, where a module imports it, and where it is read from an object that is not of ours.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import textual
from textual.binding import Binding

import termchat.tui
import termchat.tui.terminal
from termchat.tui.keys.key import key_of

TUI = Path(termchat.tui.__file__).parent
TEXTUAL = Path(textual.__file__).parent

USED = {
    "clipboard": "app.App._clipboard app.App._driver",
    "driver": """
        driver.Driver._app driver.Driver._auto_restart driver.Driver._debug
        drivers.linux_driver.LinuxDriver._file drivers.linux_driver.LinuxDriver._key_thread
        drivers.linux_driver.LinuxDriver._must_signal_resume drivers.linux_driver.LinuxDriver._sigcont_application
        drivers.linux_driver.LinuxDriver._sigtstp_application
    """,
    "input_stream": """
        _xterm_parser.BRACKETED_PASTE_END _xterm_parser.BRACKETED_PASTE_START _xterm_parser.XTermParser
    """,
    "screens": """
        _compositor.ChopsUpdate _compositor.Compositor _compositor.CompositorMap _compositor.CompositorUpdate
        _compositor.LayoutUpdate _compositor.ReflowResult _compositor.Compositor._dirty_regions
        _compositor.Compositor._full_map _compositor.Compositor._full_map_invalidated
        app.App._exit app.App._handle_exception app.App._start_widget
        screen.Screen._compositor screen.Screen._dirty_widgets screen.Screen._on_timer_update
        screen.Screen._screen_resized screen.Screen._select_state screen.Screen._update_select
        widget.Widget._set_dirty widget.Widget._size_updated widget.Widget._vertical_scrollbar
        widgets._input.Input._WORD_START
    """,
}
"""By module of `tui/terminal`, the private names that it uses; its package says what for."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(node: ast.ClassDef) -> set[str]:
    """The private names that a class defines or sets on its instances."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and _is_self(part.value):
            found.add(part.attr)
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(part.name)
        elif isinstance(part, ast.Assign):
            found |= {target.id for target in part.targets if isinstance(target, ast.Name)}
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            found.add(part.target.id)
    return set(filter(_is_private, found))


def _is_self(node: ast.expr) -> bool:
    is_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return is_super or (isinstance(node, ast.Name) and node.id in ("self", "cls"))


@cache
def _classes_in(path: Path) -> dict[str, set[str]]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name: _defined(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@cache
def _textuals() -> set[str]:
    """All private names of Textual's classes."""
    return {name for path in TEXTUAL.rglob("*.py") for names in _classes_in(path).values() for name in names}


@cache
def _ours() -> set[str]:
    """All private names of our own classes."""
    return {name for path in TUI.parent.rglob("*.py") for names in _classes_in(path).values() for name in names}


def _inherited(cls: type) -> dict[str, str]:
    """The private names of a class's Textual bases, each with the first base that has it."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("textual."):
            for name in _classes_in(Path(inspect.getfile(base)))[base.__name__]:
                found.setdefault(name, f"{base.__name__}.{name}")
    return found


def _uses_in_class(node: ast.ClassDef, cls: type) -> Iterator[str]:
    inherited = _inherited(cls)
    for name in _defined(node) & inherited.keys():
        yield inherited[name]
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is_self(part.value) and part.attr in inherited:
            yield inherited[part.attr]


def uses(path: Path) -> set[str]:
    """The private names of Textual that a module uses: of a class as Class.name, of a module as module.name."""
    module = importlib.import_module(".".join(("termchat.tui", *path.relative_to(TUI).with_suffix("").parts)))
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and isinstance(cls := vars(module).get(node.name), type):
            found.update(_uses_in_class(node, cls))
        elif isinstance(node, ast.Attribute) and not _is_self(node.value) and _is_private(node.attr):
            if node.attr in _textuals() and node.attr not in _classes_of(tree):
                foreign = isinstance(node.value, ast.Attribute) and node.value.attr in ("app", "screen")
                foreign |= isinstance(node.value, ast.Name) and node.value.id in ("app", "screen", "widget", "event")
                if foreign or node.attr not in _ours():
                    found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "textual":
            inside = any(map(_is_private, node.module.split(".")))
            found |= {f"{node.module}.{alias.name}" for alias in node.names if inside or _is_private(alias.name)}
    return found


def _classes_of(tree: ast.Module) -> set[str]:
    return {name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in _defined(node)}


@cache
def modules() -> list[Path]:
    """All modules of the screen, imported."""
    for module in pkgutil.walk_packages(termchat.tui.__path__, "termchat.tui."):
        importlib.import_module(module.name)
    return sorted(path for path in TUI.rglob("*.py") if path.name != "__init__.py")


def test_private_names_are_used_under_terminal_alone() -> None:
    assert len(modules()) > 80
    elsewhere = {str(path.relative_to(TUI)): found for path in modules() if (found := uses(path))}
    assert {name for name in elsewhere if not name.startswith("terminal/")} == set(), elsewhere


@pytest.mark.parametrize(
    "path", [path for path in sorted((TUI / "terminal").glob("*.py")) if path.name != "__init__.py"]
)
def test_each_module_of_terminal_uses_the_names_that_are_listed(path: Path) -> None:
    listed = USED.get(path.stem, "").split()
    assert {name.rpartition(".")[2] for name in uses(path)} == {name.rpartition(".")[2] for name in listed}


@pytest.mark.parametrize("name", sorted({name for names in USED.values() for name in names.split()}))
def test_each_listed_name_is_in_the_textual_that_is_installed(name: str) -> None:
    where, _, last = name.rpartition(".")
    owner = where.rpartition(".")[2]
    if owner[0].isupper():
        module = importlib.import_module(f"textual.{where.rpartition('.')[0]}")
        assert last in _classes_in(Path(inspect.getfile(module)))[owner]
    else:
        assert hasattr(importlib.import_module(f"textual.{where}"), last)


def test_the_reasons_name_all_of_them() -> None:
    told = termchat.tui.terminal.__doc__ or ""
    private = {name.rpartition(".")[2] for names in USED.values() for name in names.split()}
    assert [name for name in sorted(private) if name.startswith("_") and f"`{name}`" not in told] == []


def test_keys_of_characters_have_the_names_that_bindings_give_them() -> None:
    for character in filter(str.isprintable, map(chr, range(33, 0x250))):
        if character != ",":  # it separates keys
            assert [key_of(character)] == [one.key for one in Binding.make_bindings([Binding(character, "")])]
