"""The list of models while a recording is played: its model is among them where it was recorded in several ways."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from termchat.chat.loading import Choice
from termchat.config.per_model import Picked, RunSettings
from termchat.config.settings import Settings
from termchat.models.errors import ModelError
from termchat.models.gguf.header import Header
from termchat.models.listing import ModelRow
from termchat.models.memory import Memory
from termchat.tui.demo.engine import NOT_RECORDED, SPEC
from termchat.tui.lists.gather import Facts, Models, file_of

_RECORDED = frozenset({"fast_prefill"})
"""The engine settings that were recorded with several values."""


class RecordedModels(Models):
    """`header` gives that of the file of the model that was recorded; None where only one way to load it was."""

    def __init__(self, config: Settings, header: Callable[[], Header | None]) -> None:
        super().__init__(config)
        self._header = header

    def look(self) -> None:
        if (header := self._header()) is not None:
            self.sources[SPEC.name] = _row(header)
            self._files[SPEC.name] = os.path.realpath(file_of(SPEC))
        else:
            self.sources.pop(SPEC.name, None)
            self._files.pop(SPEC.name, None)
        super().look()

    def facts(self, row: ModelRow) -> Facts | ModelError | None:
        header = self._header()
        if row.wanted != SPEC.name or header is None:
            return super().facts(row)
        return Facts(header, header.file_size, "", {}, self._run, 0, Memory(0, 0, 0)).run_as(self._run)

    def choose(self, wanted: str, hear: Callable[[Choice | ModelError], object]) -> None:
        if wanted != SPEC.name:
            super().choose(wanted, hear)
        elif self._run.picked.settings.keys() <= _RECORDED:
            spec = msgspec.structs.replace(SPEC, fast_prefill=self._run.config.engine.fast_prefill)
            self.deliver(partial(hear, Choice(spec, {})))
        else:
            settings = " and ".join(sorted(_RECORDED))
            refused = ModelError(NOT_RECORDED, f"only {settings} can be changed here")
            self.deliver(partial(hear, refused))

    @property
    def _run(self) -> RunSettings:
        return RunSettings(self.config, self._picked.get(SPEC.name, Picked()), {})


def _row(header: Header) -> ModelRow:
    return ModelRow(
        wanted=SPEC.name,
        name=SPEC.name,
        state="ready",
        architecture=header.architecture,
        quantization=header.quantization,
        context=header.context_length,
        size=header.file_size,
        source="a recording",
        path=Path(SPEC.name),
    )
