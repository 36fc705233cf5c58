"""Calling the `fetch` fixture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from termchat.models.errors import ModelError

Fetch = Callable[..., Path]


def refusal(fetch: Fetch, source: str, **how: object) -> str:
    with pytest.raises(ModelError) as caught:
        fetch(source, **how)
    return f"{caught.value.message} | {caught.value.hint}"
