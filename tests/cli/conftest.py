"""The servers and the home of the pull tests, and the commands run in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from termchat.cli import main
from tests.pull.conftest import home, server

__all__ = ["home", "server"]


@pytest.fixture
def termchat() -> Callable[..., Result]:
    """`termchat models …` without a terminal."""
    return lambda *args: CliRunner().invoke(main, ["models", *map(str, args)])
