"""No module of termchat imports another one in a circle, not even where only a type is wanted or inside a function."""

import ast
from collections.abc import Iterator
from pathlib import Path

import termchat

ROOT = Path(termchat.__file__).parent


def modules(root: Path) -> dict[str, Path]:
    """The modules of the package, by their dotted names."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module, package: str, known: set[str]) -> Iterator[str]:
    """The modules that a source names in its imports. `from package import module` is an import of that module alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                if inner in known or origin in known:
                    yield inner if inner in known else origin


def graph(root: Path) -> dict[str, set[str]]:
    paths = modules(root)
    edges = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        edges[name] = set(imported(ast.parse(path.read_text("utf-8")), package, set(paths)))
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components with more than one module, each sorted (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(edges[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            component = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(component) > 1:
                found.append(sorted(component))

    for name in edges:
        if name not in index:
            visit(name)
    return sorted(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = circles(graph(ROOT))
    assert not found, "\n".join("a circle of imports: " + ", ".join(circle) for circle in found)


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    root = tmp_path / "made"
    (root / "inner").mkdir(parents=True)
    sources = {
        "__init__": "VERSION = 1\n",
        "typed": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.lazy import f\n",
        "lazy": "def f():\n    from . import typed\n",
        "free": "import made.typed\nfrom made import VERSION, inner\n",
        "inner/__init__": "from made.inner.part import a\nb = 1\n",
        "inner/part": "from . import other\n",
        "inner/other": "a = 1\n",
    }
    for name, source in sources.items():
        (root / f"{name}.py").write_text(source, "utf-8")
    assert circles(graph(root)) == [["made.lazy", "made.typed"]]
    (root / "inner" / "other.py").write_text("from made.inner import b\n", "utf-8")
    assert circles(graph(root)) == [["made.inner", "made.inner.other", "made.inner.part"], ["made.lazy", "made.typed"]]
