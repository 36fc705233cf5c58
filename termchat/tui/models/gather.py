"""What a model's file says, and what comes of it on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NamedTuple

from termchat.chat.loading import Choice
from termchat.config.origins import FLAG
from termchat.config.per_model import Picked, RunSettings, keep_picked, run_of
from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.address import EngineAddress
from termchat.engine.port import MOST_CONTEXT, ModelSpec
from termchat.models.errors import ModelError
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.models.downloads import Pull, Pulls

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.models.catalogue import Catalogue
    from termchat.models.disk.discovery import Skipped
    from termchat.models.gguf.header import Header
    from termchat.models.listing import ModelRow
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
        context, memory = _needs(self.header, self.size, run.config)
        return self._replace(run=run, context=context, memory=memory)


def read_facts(row: ModelRow, path: Path, config: Settings, picked: Picked | None, known: Catalogue | None) -> Facts:
    """Reads the file of a row; `picked` is how a person wants it to be run, None what is kept for it.

    Raises:
        ModelError: it cannot be used.
    """
    from termchat.chat.opening import recommend_settings
    from termchat.models.catalogue import load
    from termchat.models.gguf.header import read_header

    header = read_header(path)
    identity = header.identity()
    run = run_of(config, identity, picked)
    advice = recommend_settings(row.wanted, header, known or load())
    knobs = {name: value for name, value in advice.items() if name in KNOBS}
    return Facts(header, row.size, identity, knobs, run, *_needs(header, row.size, run.config))


def _needs(header: Header, size: int | None, config: Settings) -> tuple[int, Memory]:
    """Tokens of context, and memory."""
    from termchat.models.memory import BATCH, estimate

    engine = config.engine
    context = engine.context or min(header.context_length or MOST_CONTEXT, MOST_CONTEXT)
    batch = engine.prefill_batch or (_FAST_BATCH if engine.fast_prefill else BATCH)
    flash = engine.flash_attention != "off"
    return context, estimate(header, context, engine.kv_type, size=size, batch=batch, flash_attention=flash)


class Chosen(NamedTuple):
    """A model that a person wants to chat with, read and checked; or why it cannot be."""

    wanted: str
    choice: Choice | None
    problem: ModelError | None


class _Around(NamedTuple):
    """The catalogue, and bytes of free memory."""

    catalogue: Catalogue
    available: int | None


class _Listed(NamedTuple):
    """A row, and the real path of its file; "" without one."""

    row: ModelRow
    file: str


class _Read(NamedTuple):
    row: ModelRow
    facts: Facts | ModelError


class _Paired(NamedTuple):
    """Why the model of a row cannot draft for the one that is loaded; "" if it can."""

    row: ModelRow
    loaded: ModelRow
    why_not: str


class Models:
    """All models, by what they are asked for with (`ModelRow.wanted`).

    `told` hears in a thread of each download that ended and each model that was chosen; set it before either begins.
    """

    def __init__(self, config: Settings | None = None) -> None:
        self._config = config
        self.rows: dict[str, ModelRow] = {}
        self.sources: dict[str, ModelRow] = {}
        """What is in no list and was downloaded all the same."""
        self.skipped: list[Skipped] = []
        self.catalogue: Catalogue | None = None
        self.available: int | None = None
        """Bytes that programs can still have; None while unknown."""
        self.told: Callable[[Pull | Chosen], object] = lambda _: None
        self.pulls = Pulls(lambda pull: self.told(pull))
        self._files: dict[str, str] = {}
        self._picked: dict[str, Picked] = {}
        self._facts: dict[tuple[str, int | None], Facts | ModelError] = {}
        self._lent: dict[str, Picked | None] = {}
        """Of models that run otherwise for a lesson, what was `_picked` before."""
        self._pairs: dict[tuple[tuple[str, int | None], tuple[str, int | None]], str] = {}
        self.elsewhere: dict[str, ModelRow] = {}
        """Engines on other machines, and the models that those have."""
        self.silent: dict[str, float] = {}
        """Engines that do not answer, and since when that is known, in seconds since the epoch."""
        self._asking: dict[str, BackgroundTask[list[ModelRow]]] = {}
        self._looking: BackgroundTask[_Around | _Listed | Skipped] | None = None
        self._looked_for: str | None = None
        self._seen: set[str] = set()
        self._left_out: list[Skipped] = []
        self._reading: BackgroundTask[_Read | _Paired] | None = None
        self._choosing: BackgroundTask[None] | None = None

    @property
    def config(self) -> Settings:
        """Loaded when it is first asked for."""
        if self._config is None:
            from termchat.config import settings

            self._config = settings.load()
        return self._config

    # --- the list ----------------------------------------------------------------------------------------------------

    def look(self, then: Callable[[], object] = lambda: None) -> None:
        """Looks through the catalogue and the disk in a thread, and calls `then` in it at the end; what is known stays until it
        is found to be gone."""
        if self._looking is None:
            self._seen, self._left_out = set(), []
            self._looking = BackgroundTask(self._look, then)
            self._ask_engines()

    def look_for(self, path: str, then: Callable[[], object]) -> None:
        """Looks unless the model in this file, "" for none, is known, or was looked for last."""
        if self._looked_for != path and (not self.rows or (path and not self.in_file(path))):
            self._looked_for = path
            self.look(then)

    @property
    def looking(self) -> bool:
        return self._looking is not None

    @property
    def chooses(self) -> bool:
        """Whether a model that was asked for is still read."""
        return self._choosing is not None

    @property
    def busy(self) -> bool:
        """Whether `take` may bring something soon."""
        return self.looking or self._reading is not None or self.chooses or bool(self._asking or self.pulls.running)

    def take(self) -> bool:
        """What the threads have found and read since the last call is now known; False if that is nothing."""
        if self._choosing is not None and not self._choosing.running:
            list(self._choosing.take())
            self._choosing = None
        return self._take_found() | self._take_read() | self._take_engines()

    def in_file(self, path: str | Path) -> str:
        """What the model in this file is asked for with; "" while no row has it."""
        file = os.path.realpath(path)
        return next((wanted for wanted, known in self._files.items() if known == file), "")

    def _look(self) -> Iterator[_Around | _Listed | Skipped]:
        from termchat.models import catalogue, listing, memory

        known = catalogue.load()
        yield _Around(known, memory.available())
        for one in listing.gather(self._folders(), known):
            if isinstance(one, listing.ModelRow):
                yield _Listed(one, os.path.realpath(one.path) if one.path is not None else "")
            else:
                yield one

    def _folders(self) -> tuple[str, ...]:
        """Return the folders to search, as the config file has them by now; those of a flag stay."""
        from termchat.config import settings

        given = self.config.origin["model_folders"] == FLAG
        return self.config.model_folders if given else settings.load().model_folders

    def _take_found(self) -> bool:
        looking = self._looking
        if looking is None:
            return False
        over = not looking.running  # asked before the last of it is taken
        some = False
        for one in looking.take():
            some = True
            if isinstance(one, _Around):
                self.catalogue, self.available = one
            elif isinstance(one, _Listed):
                self.rows[one.row.wanted] = one.row
                self._files[one.row.wanted] = one.file
                self._seen.add(one.row.wanted)
            else:
                self._left_out.append(one)
        if over:
            self._looking = None
            self.skipped = self._left_out
            for wanted in self.rows.keys() - self._seen:
                del self.rows[wanted], self._files[wanted]
        return some or over

    def _ask_engines(self) -> None:
        own = self.config.address
        for name in (*self.config.engines, *([own.url] if own.url and not own.name else [])):
            self.ask_engine(name)

    def ask_engine(self, name: str) -> None:
        """Asks an engine elsewhere what it has, in a thread of its own; what is known of it stays until it answers."""
        own = self.config.address
        if name in self._asking or (name not in self.config.engines and name != own.shown):
            return
        address = self.config.engine_at(name) if name in self.config.engines else own
        from termchat.models.listing import ModelRow

        first = ModelRow(
            wanted=address.asked_as(), name=name, state="ready", engine=name, source=address.url, told="asking …"
        )
        self.elsewhere.setdefault(first.wanted, first)
        self._asking[name] = BackgroundTask(partial(_ask_engine, address))

    def asks(self, name: str) -> bool:
        """Whether an engine elsewhere has not answered yet."""
        return name in self._asking

    def _take_engines(self) -> bool:
        some = False
        for name, asking in list(self._asking.items()):
            over = not asking.running
            for rows in asking.take():
                some = True
                old = [wanted for wanted, row in self.elsewhere.items() if row.engine == name]
                for wanted in old:
                    del self.elsewhere[wanted]
                self.elsewhere |= {row.wanted: row for row in rows}
                if all(row.state == "ready" for row in rows):
                    self.silent.pop(name, None)
                else:
                    self.silent.setdefault(name, time())
            if over:
                some = True  # that it no longer asks is news, also where its rows came a look before
                del self._asking[name]
        return some

    # --- what the files say ------------------------------------------------------------------------------------------

    def facts(self, row: ModelRow) -> Facts | ModelError | None:
        """What a row's file says, or why it cannot be used; None while it was not read."""
        return self._facts.get(_key(row))

    def why_not_draft(self, row: ModelRow, loaded: ModelRow) -> str | None:
        """Why a model cannot draft for the one that is loaded, as the end of a sentence; "" if it can, None while unknown."""
        return self._pairs.get((_key(row), _key(loaded)))

    def recommended(self, row: ModelRow) -> Mapping[str, Value]:
        """By knob, as far as is known yet."""
        facts = self.facts(row)
        if isinstance(facts, Facts):
            return facts.recommended
        entry = self.catalogue.entries.get(row.wanted) if self.catalogue is not None else None
        return entry.recommended if entry is not None else {}

    def spare(self, loaded: ModelRow | None) -> int | None:
        """Bytes that a model may take once the loaded one is unloaded; None while unknown.

        Weights are pages of a file, which count as free already; cache and compute buffers are given back.
        """
        facts = self.facts(loaded) if loaded is not None else None
        if self.available is None or not isinstance(facts, Facts):
            return self.available
        return self.available + facts.memory.kv + facts.memory.compute

    def read(
        self, rows: Sequence[ModelRow], loaded: ModelRow | None = None, then: Callable[[], object] = lambda: None
    ) -> None:
        """In order, in a thread, and then whether they can draft for the `loaded` one; replaces those that were still to be
        read. `then` is called in the thread at the end, unless it found nothing."""
        here = [row for row in rows if row.path is not None]
        unread = [row for row in here if self.facts(row) is None]
        unpaired = [] if loaded is None else [row for row in here if self.why_not_draft(row, loaded) is None]
        if self._reading is not None:
            self._reading.stop()
        work = bool(unread or unpaired)
        self._reading = BackgroundTask(lambda: self._read(unread, unpaired, loaded, then)) if work else None

    def _read(
        self,
        unread: Sequence[ModelRow],
        unpaired: Sequence[ModelRow],
        loaded: ModelRow | None,
        then: Callable[[], object],
    ) -> Iterator[_Read | _Paired]:
        found = False
        for row in unread:
            found = True
            try:
                yield _Read(
                    row, read_facts(row, _file_in(row), self.config, self._picked.get(row.wanted), self.catalogue)
                )
            except ModelError as problem:
                yield _Read(row, problem)
        for pair in _paired(unpaired, loaded) if loaded is not None else ():
            found = True
            yield pair
        if found:
            then()

    def _take_read(self) -> bool:
        reading = self._reading
        if reading is None:
            return False
        over = not reading.running
        some = False
        for one in reading.take():
            if isinstance(one, _Read):
                self._facts[_key(one.row)] = one.facts
            else:
                self._pairs[_key(one.row), _key(one.loaded)] = one.why_not
            some = True
        if over:
            self._reading = None
        return some

    # --- what a person wants -----------------------------------------------------------------------------------------

    def choose(self, wanted: str) -> None:
        """Reads and checks the model in a thread; `told` gets it as a `Chosen`."""

        def work() -> Iterator[None]:
            from termchat.chat.opening import choose_model

            try:
                self.told(Chosen(wanted, choose_model(self.config, wanted, self._picked.get(wanted)), None))
            except ModelError as problem:
                self.told(Chosen(wanted, None, problem))
            yield

        self._choosing = BackgroundTask(work)

    def pick(self, row: ModelRow, facts: Facts, *, lesson: bool = False) -> str:
        """Runs the model by these facts from now on, and saves that; returns why it cannot be saved, "" if it is. For a
        `lesson` it is only until `end_lesson`."""
        before, self._picked[row.wanted] = self._picked.get(row.wanted), facts.run.picked
        self._facts[_key(row)] = facts
        if lesson:
            self._lent.setdefault(row.wanted, before)
            return ""
        try:
            keep_picked(facts.run.picked, facts.identity, row.name)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def end_lesson(self) -> None:
        """Models run as they did before the lesson, when they are loaded again."""
        for wanted, picked in self._lent.items():
            del self._picked[wanted]
            if picked is not None:
                self._picked[wanted] = picked
        if self._lent:
            self._lent.clear()
            self._facts.clear()

    def drafts_with(self, identity: str, draft_model: str) -> None:
        """A draft model was chosen in the chat for the model of this identity, and is kept already."""
        for key, facts in self._facts.items():
            if isinstance(facts, Facts) and facts.identity == identity:
                self._facts[key] = facts._replace(run=facts.run.set("draft_model", draft_model))
        for wanted, row in self.rows.items():
            known = self.facts(row)
            if wanted in self._picked and isinstance(known, Facts) and known.identity == identity:
                self._picked[wanted] = known.run.picked

    def pull(self, row: ModelRow) -> None:
        """Also resumes a download; `told` hears of its end."""
        if row.wanted not in self.rows:
            self.sources[row.wanted] = row
        self.pulls.start(row.wanted)

    def here(self, pull: Pull) -> str:
        """What a model that was downloaded is asked for with from now on: its path, if no list has it."""
        if pull.path is None or self.sources.pop(pull.wanted, None) is None:
            return pull.wanted
        return str(pull.path)

    def close(self) -> None:
        """Partial downloads stay."""
        self.told = lambda _: None
        self.pulls.close()


def _ask_engine(address: EngineAddress) -> Iterator[list[ModelRow]]:
    from termchat.models.elsewhere import engine_rows

    rows = engine_rows(address)
    yield rows if address.name else rows[:1]  # what is asked for with a URL is what it has


def _key(row: ModelRow) -> tuple[str, int | None]:
    """Tells files apart, and what a file was before it was replaced."""
    return str(row.path), row.size


def _paired(rows: Iterable[ModelRow], loaded: ModelRow) -> Iterator[_Paired]:
    """Nothing where the file of the loaded model is not on this machine, or cannot be read any more."""
    from termchat.models.draft_pairs import draft_facts, why_not_draft

    with suppress(ModelError):
        wanted = draft_facts(_file_in(loaded), loaded.size or 0)
        for row in rows:
            try:
                why_not = why_not_draft(draft_facts(_file_in(row), row.size or 0), wanted)
            except ModelError as problem:
                why_not = problem.message
            yield _Paired(row, loaded, why_not)


def _file_in(row: ModelRow) -> Path:
    """The file of a row that has one."""
    assert row.path is not None
    return row.path


def file_of(spec: ModelSpec) -> Path:
    """The spec's file, also where its name is no Unicode."""
    return Path(os.fsdecode(spec.path_bytes) if spec.path_bytes else spec.path)
