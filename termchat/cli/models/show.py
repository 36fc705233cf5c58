"""`termchat models show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from termchat.cli import completers
from termchat.cli.flags import FOLDERS, config, flags
from termchat.cli.help import Page
from termchat.cli.output import facts, fail, tell_json
from termchat.models.errors import ModelError, NotHere
from termchat.text import home, size

if TYPE_CHECKING:
    from termchat.models.entry import Entry


@click.command("show", cls=Page)
@click.argument("model", shell_complete=completers.models)
@flags(only=FOLDERS, knobs=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def command(*, model: str, as_json: bool, **given: Any) -> None:
    """Say all that is known of MODEL.

    With --json: name, state, path, description, license, source, needs, size (bytes), sha256, architecture, size_label,
    quantization, parameters, context (tokens), layers, vocabulary, tokenizer, chat_template (true or false), thinking (what
    opens and closes a thought), recommended (by knob), memory (bytes that it takes with its whole context, about), problem;
    null where unknown.
    """
    from termchat.models import catalogue

    known = catalogue.load()
    entry = known.entries.get(model)
    told: dict[str, Any] = dict.fromkeys(_FIELDS)
    told.update(name=model, state="ready", problem="")
    if entry is not None:
        told.update(_of_entry(entry))
    try:
        name, path = catalogue.resolve(model, known, config(given).model_folders)
        told["name"] = name
        _of_file(told, path)
    except NotHere as error:
        told.update(state=entry.state if entry else "not downloaded", problem=f"{error.message}. {error.hint}")
    except ModelError as error:
        if entry is None:
            fail(error)
        told.update(state="broken", problem=f"{error.message}. {error.hint}")
    if as_json:
        tell_json(told)
    else:
        facts([(name.replace("_", " "), _FIELDS[name](told[name])) for name in _FIELDS])


def _of_entry(entry: Entry) -> dict[str, Any]:
    return {
        "description": entry.description,
        "license": entry.license or None,
        "source": entry.source,
        "needs": entry.needs or None,
        "size": entry.size or entry.about_size,
        "sha256": entry.sha256 or None,
        "context": entry.context,
        "thinking": list(entry.thinking) or None,
        "recommended": entry.recommended or None,
    }


def _of_file(told: dict[str, Any], path: Path) -> None:
    """Adds what the file says.

    Raises:
        ModelError: it cannot be read.
    """
    from termchat.models import memory
    from termchat.models.download.transfer import note_path, read_note
    from termchat.models.entry import parts
    from termchat.models.gguf.header import read_header

    header, note = read_header(path), read_note(note_path(path))
    here = sum(path.with_name(part).stat().st_size for part in parts(path.name))
    told.update(
        path=path,
        description=told["description"] or header.name or None,
        source=told["source"] or (note.url if note else None),
        size=here,
        sha256=told["sha256"] or (note.sha256 if note else None),
        architecture=header.architecture,
        size_label=header.size_label or None,
        quantization=header.quantization,
        parameters=header.parameters,
        context=header.context_length or told["context"],
        layers=header.block_count,
        vocabulary=header.vocabulary,
        tokenizer=header.tokenizer or None,
        chat_template=header.template is not None,
        recommended=told["recommended"] or header.recommended or None,
        memory=memory.estimate(header, header.context_length or 0, size=here).total if header.context_length else None,
    )


def _text(value: Any) -> str:
    return "" if value is None else home(value) if isinstance(value, Path) else str(value)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return "" if value is None else f"{size(value)} ({value:,} bytes)"


def _yes(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _texts(value: list[str] | None) -> str:
    return " … ".join(value or ())


def _knobs(value: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {setting}" for name, setting in (value or {}).items())


_FIELDS = {
    "name": _text,
    "state": _text,
    "path": _text,
    "description": _text,
    "license": _text,
    "source": _text,
    "needs": _text,
    "size": _bytes,
    "sha256": _text,
    "architecture": _text,
    "size_label": _text,
    "quantization": _text,
    "parameters": _number,
    "context": _number,
    "layers": _number,
    "vocabulary": _number,
    "tokenizer": _text,
    "chat_template": _yes,
    "thinking": _texts,
    "recommended": _knobs,
    "memory": _bytes,
    "problem": _text,
}
"""What `show` tells, in order, and how people read it."""
