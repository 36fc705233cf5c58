"""The tokens of a text: its pieces in line, its ids, or one JSON object."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator

import msgspec

from termchat.chat.opening import find_model
from termchat.config.settings import Settings
from termchat.decoding.records import Failed
from termchat.engine.port import Command, Engine, EngineError, Event, Load, Progress, Tokenize, Tokenized
from termchat.models.errors import ModelError
from termchat.text import extent, sanitize

_CONTEXT = 512
"""Tokens of the context, which nothing is decoded in."""
_BORDER = "│"


def tokenize(config: Settings, engine: Engine, text: str, *, ids: bool, as_json: bool) -> int:
    """Prints the tokens of a text, and closes the engine; returns the exit code."""
    try:
        spec = msgspec.structs.replace(find_model(config)[1], context=_CONTEXT, gpu_layers=0)
        _answer(engine, Load(spec))
        tokenized = _answer(engine, Tokenize(text))
        assert isinstance(tokenized, Tokenized)
    except (ModelError, EngineError) as error:
        print(sanitize(f"termchat: {error.message}"), file=sys.stderr)
        if error.hint:
            print(sanitize(f"  {error.hint}"), file=sys.stderr)
        return 1
    finally:
        engine.close()
    if as_json:
        print(json.dumps({"model": spec.name, "tokens": list(_objects(tokenized))}))
    elif ids:
        print("".join(f"{token}\n" for token in tokenized.ids), end="")
    else:
        print(_in_line(tokenized))
        count = len(tokenized.ids)
        print(f"{count:,} token{'' if count == 1 else 's'}, {extent(text.encode())}")
    return 0


def _answer(engine: Engine, command: Command) -> Event:
    """The last event that answers a command.

    Raises:
        EngineError: the command failed, or the engine died.
    """
    number = engine.send(command)
    while engine.alive:
        for answered, event in engine.receive(0.5):
            if isinstance(event, Failed):
                raise EngineError(event.kind, event.message, event.hint)
            if answered == number and not isinstance(event, Progress):
                return event
    raise EngineError("engine", "the engine process has stopped")


def _objects(tokenized: Tokenized) -> Iterator[dict[str, object]]:
    for token_id, name, piece in zip(tokenized.ids, tokenized.names, tokenized.pieces, strict=True):
        yield {"id": token_id, "text": name, "bytes": base64.b64encode(piece).decode("ascii")}


def _in_line(tokenized: Tokenized) -> str:
    """The pieces with borders between them; a line ends where one of the text ends."""
    shown = _BORDER.join(tokenized.show_tokens())
    return shown.replace(f"⏎{_BORDER}", "⏎\n")
