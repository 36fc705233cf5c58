"""What may be loaded on the way to where: asked of a fresh interpreter, since this one has loaded everything."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("llama_cpp", "numpy")
SCREEN = ("textual", "rich")
NET = ("httpx",)
SETTINGS = ("pydantic", "pydantic_settings")
"""What reads the settings takes as long as half the screen: it is loaded by those who read them, once the engine starts."""

MUST_NOT_LOAD = [
    ("termchat", (*HEAVY, *SCREEN, *SETTINGS)),
    ("termchat.cli", (*HEAVY, *SCREEN, *NET, *SETTINGS)),
    ("termchat.config.settings", (*HEAVY, *SCREEN)),
    ("termchat.tui.app", (*HEAVY, *NET, *SETTINGS)),
    ("termchat.tui.start", (*HEAVY, *NET, *SETTINGS)),
    ("termchat.config.fields", (*HEAVY, *SCREEN, *SETTINGS)),
    ("termchat.chat", (*HEAVY, *SCREEN, *SETTINGS)),
    ("termchat.chat.service", (*HEAVY, *SCREEN, *SETTINGS)),
    ("termchat.conversation", (*HEAVY, *SCREEN)),
    ("termchat.conversation.store.store", (*HEAVY, *SCREEN)),
    ("termchat.models.catalogue", (*HEAVY, *SCREEN)),
    ("termchat.models.gguf.header", (*HEAVY, *SCREEN)),
    ("termchat.models.download.pull", (*HEAVY, *SCREEN, *NET)),
    ("termchat.engine.local", (*HEAVY, *SCREEN, *SETTINGS)),
    ("termchat.engine.llama.worker", (*SCREEN, *SETTINGS)),
]


def loaded_by(module: str) -> set[str]:
    """Top-level names of all that is loaded after importing a module."""
    code = f"import json, sys, {module}; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(("module", "forbidden"), MUST_NOT_LOAD, ids=[module for module, _ in MUST_NOT_LOAD])
def test_importing_it_loads_nothing_it_should_not(module: str, forbidden: tuple[str, ...]) -> None:
    assert loaded_by(module).isdisjoint(forbidden)


def test_the_question_is_asked_rightly() -> None:
    assert "numpy" in loaded_by("numpy.linalg")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_loads_neither_model_nor_screen(argument: str) -> None:
    code = (
        "import json, sys\n"
        f"sys.argv = ['termchat', '{argument}']\n"
        "try:\n    from termchat.cli import main; main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert ("Usage" if argument == "--help" else "termchat") in done.stdout
    assert set(json.loads(done.stdout.splitlines()[-1])).isdisjoint((*HEAVY, *SCREEN, *NET, *SETTINGS))


def test_no_module_of_the_tests_imports_from_a_test_file() -> None:
    """What several tests need stands in a module of its own, or in a conftest."""
    tests = Path(__file__).parent
    importers = []
    for file in sorted(tests.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported = [node.module or "", *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                continue
            if any(part.startswith("test_") for name in imported for part in name.split(".")):
                importers.append(f"{file.relative_to(tests)}:{node.lineno}")
    assert importers == []
