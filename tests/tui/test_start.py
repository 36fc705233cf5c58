"""The app as it is put together from a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.engine.port import ModelSpec
from termchat.settings import Config, load
from termchat.tui import start


def test_advice_of_the_model_that_is_refused_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_model(config: Config) -> tuple[Config, ModelSpec]:
        return config.with_recommended({"temperature": 9.0}), ModelSpec("/m.gguf", "m")

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(start, "find_model", find_model)
    app = start.build(load({}, {"TERMCHAT_TOPP": "1"}, tmp_path / "none"))
    assert [notice.message.split(":")[0] for notice in app._notices] == [
        "TERMCHAT_TOPP",
        "the model's recommendation is ignored",
    ]
    app._at_end()
