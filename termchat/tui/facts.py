"""What a model's file says, and what comes of it on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termchat.config.per_model import Picked, RunSettings, run_of
from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.port import MOST_CONTEXT
from termchat.settings import Config

if TYPE_CHECKING:  # they are loaded in the thread that needs them
    from termchat.models.catalogue import Catalogue
    from termchat.models.gguf.header import Header
    from termchat.models.listing import Row
    from termchat.models.memory import Memory

_FAST_BATCH = 512


class Facts(NamedTuple):
    """A file that was read, and how its model would be run: with `context` tokens, which takes `memory`.

    `size` is that of all its files, in bytes; `identity` its SHA-256; `recommended` the knobs for it, by name.
    """

    header: Header
    size: int | None
    identity: str
    recommended: Mapping[str, Value]
    run: RunSettings
    context: int
    memory: Memory

    def run_as(self, run: RunSettings) -> Facts:
        """The same model, run in another way."""
        context, memory = _needs(self.header, self.size, run.config)
        return self._replace(run=run, context=context, memory=memory)


def read_facts(row: Row, path: Path, config: Config, picked: Picked | None, known: Catalogue | None) -> Facts:
    """Reads the file of a row; `picked` is how a person wants it to be run, None what is kept for it.

    Raises:
        ModelError: it cannot be used.
    """
    from termchat.chat.opening import recommended
    from termchat.models.catalogue import load
    from termchat.models.gguf.header import read_header

    header = read_header(path)
    identity = header.identity()
    run = run_of(config, identity, picked)
    advice = recommended(row.wanted, header, known or load())
    knobs = {name: value for name, value in advice.items() if name in KNOBS}
    return Facts(header, row.size, identity, knobs, run, *_needs(header, row.size, run.config))


def _needs(header: Header, size: int | None, config: Config) -> tuple[int, Memory]:
    """Tokens of context, and memory."""
    from termchat.models.memory import BATCH, estimate

    engine = config.engine
    context = engine["context"] or min(header.context_length or MOST_CONTEXT, MOST_CONTEXT)
    batch = engine["prefill_batch"] or (_FAST_BATCH if engine["fast_prefill"] else BATCH)
    flash = engine["flash_attention"] != "off"
    return context, estimate(header, context, engine["kv_type"], size=size, batch=batch, flash_attention=flash)
