"""`termchat worker`: the engine's process for a termchat on another machine, which starts it over ssh."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
import msgspec

from termchat.engine.port import EngineError, ModelSpec


@click.command("worker", hidden=True)
def worker() -> None:
    """Work for a termchat on another machine, over stdin and stdout.

    termchat runs this over ssh for an engine with an ssh:// URL. Models, their settings and what `termchat tune` measured are
    those of this machine.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "termchat on another machine starts this over ssh; add [engines.NAME] with its ssh:// URL there"
        )
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "GGML_NO_BACKTRACE": "1"}  # as `LocalEngine` does it
    from termchat.engine.llama.worker import main

    main(_found)


def _found(spec: ModelSpec) -> tuple[ModelSpec, dict[str, Any]]:
    """The model of this machine that another one asks for, run as configured here but for what was said there.

    Raises:
        EngineError: there is none, or it cannot be used.
    """
    from termchat.chat.opening import choose_model
    from termchat.config.fields import EngineSettings
    from termchat.config.settings import load
    from termchat.models.errors import ModelError

    plain = EngineSettings().of_model
    said = {name: getattr(spec, name) for name in plain if name in spec.said or getattr(spec, name) != plain[name]}
    try:
        chosen = choose_model(load(said), spec.path)
    except ModelError as error:
        raise EngineError("model", f"{spec.engine.shown}: {error.message}", error.hint) from error
    found = chosen.spec
    if spec.thinking:
        found = msgspec.structs.replace(found, thinking=spec.thinking)
    return msgspec.structs.replace(found, engine=spec.engine), dict(chosen.recommended)
