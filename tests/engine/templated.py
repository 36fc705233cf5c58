"""The real model with another chat template."""

from __future__ import annotations

from termchat.engine.llama.model import Model


class FakeTemplate:
    """A model with another template."""

    def __init__(self, model: Model, source: str) -> None:
        self._model, self.template = model, source

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)
