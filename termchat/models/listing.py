"""All models one can choose from: those of the catalogue and those on this disk, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from termchat.decoding.records import Count
from termchat.engine.address import SIGN
from termchat.models import catalogue
from termchat.models.disk.discovery import FoundModel, Skipped, discover
from termchat.models.draft_pairs import DraftFacts, draft_facts, drafts_for
from termchat.models.entry import Entry
from termchat.models.errors import ModelError, NotHere
from termchat.models.gguf.brief import quantization_in, read_brief
from termchat.models.gguf.header import check_parts, read_header

State = Literal["ready", "not downloaded", "not installed", "broken"]


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list of models. Its texts may be foreign: sanitise them before they are shown.

    Sizes in bytes, None where unknown. `wanted` is what to give to `--model`, and tells rows apart: a later row with the same
    replaces an earlier one.
    """

    wanted: str
    name: str
    state: State
    description: str = ""
    architecture: str = ""
    size_label: str = ""
    quantization: str = ""
    context: Count | None = None
    size: Count | None = None
    about: bool = False
    """Whether the size is only about that."""
    license: str = ""
    needs: str = ""
    draft_model: str = ""
    """The name of the model that can draft for it, as the catalogue says."""
    draft_models: tuple[str, ...] = ()
    """Those on this machine that can, by `wanted`, the smallest first; () where nobody looked."""
    source: str = ""
    """Where it comes from or lies, in a few words."""
    catalogued: bool = False
    path: Path | None = None
    """Of its first file, when it is here."""
    problem: str = ""
    """Why it cannot be used as it is, and what to do."""
    engine: str = ""
    """The name of the engine elsewhere that has it; "" for this machine."""
    told: str = ""
    """What that engine says of it; in its own row (`is_engine`) what there is, and how it draws, or why it does not answer."""
    round_trip: float | None = None
    """To that engine, in seconds; None where unknown."""
    serves: tuple[str, ...] = ()
    """A server's names for the model; in the row of an engine those of the only one there, () where it has several."""

    @property
    def is_engine(self) -> bool:
        """Whether it is the row of an engine elsewhere, and not of one of several models there."""
        return bool(self.engine) and self.wanted == f"{SIGN}{self.engine}"

    @property
    def is_server(self) -> bool:
        """Whether what has it is a server, and not a termchat on another machine."""
        return bool(self.engine) and self.source.startswith(("http://", "https://"))

    @property
    def best_draft(self) -> str:
        """The one to draft for it: the catalogue's, if it is here or none is; else the smallest that is here; "" for none."""
        return (
            self.draft_model if self.draft_model in self.draft_models or not self.draft_models else self.draft_models[0]
        )


class Listing(msgspec.Struct, frozen=True):
    """Rows in order, what was left out on the disk, and what is wrong with the catalogues."""

    rows: list[ModelRow]
    skipped: list[Skipped]
    problems: tuple[str, ...]


def listing(folders: Iterable[str | Path] = (), models: catalogue.Catalogue | None = None) -> Listing:
    """The whole list: the catalogue in its order, then what was found, by name."""
    known = catalogue.load() if models is None else models
    rows: dict[str, ModelRow] = {}
    skipped = []
    for one in gather(folders, known):
        if isinstance(one, Skipped):
            skipped.append(one)
        else:
            rows[one.wanted] = one
    found = sorted((row for row in rows.values() if not row.catalogued), key=lambda row: (row.name.lower(), row.wanted))
    return Listing([*(row for row in rows.values() if row.catalogued), *found], skipped, known.problems)


def with_drafts(rows: Iterable[ModelRow]) -> list[ModelRow]:
    """The rows with their `draft_models`. Takes milliseconds for each model that is here: its vocabulary is read."""
    listed = list(rows)
    facts: dict[str, DraftFacts] = {}
    for row in listed:
        if row.state == "ready" and row.path is not None and row.size is not None:
            with suppress(ModelError):
                facts[row.wanted] = draft_facts(row.path, row.size)
    able = {wanted: tuple(drafts_for(one, facts.items())) for wanted, one in facts.items()}
    return [msgspec.structs.replace(row, draft_models=able.get(row.wanted, ())) for row in listed]


def gather(
    folders: Iterable[str | Path] = (), models: catalogue.Catalogue | None = None
) -> Iterator[ModelRow | Skipped]:
    """The rows as they are found, for a screen that fills: the catalogue at once, then the disk."""
    known = (catalogue.load() if models is None else models).entries
    here: set[Path] = set()
    away: dict[str, Entry] = {}
    for name, entry in known.items():
        row = _catalogued(name, entry)
        if row.path is not None:
            here.add(_real(row.path))
        elif row.state == "not downloaded" and entry.size:
            away[name] = entry
        yield row
    for one in discover(folders):
        checked = one if isinstance(one, Skipped) else _not_whole(one) or one
        if isinstance(checked, Skipped):
            yield checked
            continue
        copies = [name for name, entry in away.items() if checked.is_copy_of(entry)]
        if copies:
            yield _ready(copies[0], away.pop(copies[0]), checked.path, checked.place)
        elif _real(checked.path) not in here:
            yield _on_disk(checked)


def _catalogued(name: str, entry: Entry) -> ModelRow:
    try:
        return _ready(name, entry, entry.locate(name), entry.source)
    except NotHere as error:
        return _row(name, entry, entry.state, problem=error)
    except ModelError as error:
        return _row(name, entry, "broken", problem=error)


def _ready(name: str, entry: Entry, path: Path, source: str) -> ModelRow:
    """The row of an entry whose file is on this machine, if it can be read."""
    try:
        brief = read_brief(path)
        _check_whole(path)
    except ModelError as error:
        return _row(name, entry, "broken", problem=error)
    return msgspec.structs.replace(
        _row(name, entry, "ready"),
        architecture=brief.architecture,
        size_label=brief.size_label,
        quantization=brief.quantization,
        context=entry.context or brief.context_length,
        size=entry.size_at(path),
        about=False,
        source=source,
        path=path,
    )


def _row(name: str, entry: Entry, state: State, problem: ModelError | None = None) -> ModelRow:
    return ModelRow(
        wanted=name,
        name=name,
        state=state,
        description=entry.description,
        quantization=quantization_in(entry.filename),
        context=entry.context,
        size=entry.size or entry.about_size,
        about=entry.size is None and entry.about_size is not None,
        license=entry.license,
        needs=entry.needs,
        draft_model=entry.draft_model,
        source=entry.source,
        catalogued=True,
        problem=f"{problem.message}. {problem.hint}".strip() if problem else "",
    )


def _check_whole(path: Path) -> None:
    """Refuse a model whose files lack something, as those of a download that was cut off. Takes milliseconds: the vocabulary
    stands before what says how long a file has to be.

    Raises:
        ModelError: says what is missing.
    """
    read_header(path)
    check_parts(path)


def _not_whole(found: FoundModel) -> Skipped | None:
    try:
        _check_whole(found.path)
    except ModelError as error:
        reason = error.message.removeprefix(str(found.path)).removeprefix(found.path.name).lstrip(": ")
        return Skipped(path=found.path, reason=reason, place=found.place)
    return None


def _on_disk(found: FoundModel) -> ModelRow:
    return ModelRow(
        wanted=str(found.path),
        name=found.name,
        state="ready",
        description=found.brief.name,
        architecture=found.brief.architecture,
        size_label=found.brief.size_label,
        quantization=found.brief.quantization,
        context=found.brief.context_length,
        size=found.size,
        source=found.place,
        path=found.path,
    )


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
