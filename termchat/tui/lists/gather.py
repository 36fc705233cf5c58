"""All models, searched for, read, checked and downloaded in threads; and the saved chats, read and changed in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING

from termchat.chat.loading import Choice
from termchat.config.origins import FLAG
from termchat.config.per_model import Picked, RunSettings, keep_picked, run_of
from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.store.database import StoreError
from termchat.conversation.tree import Node, Role
from termchat.decoding.records import Token
from termchat.decoding.samplers import KNOBS, Value
from termchat.engine.address import EngineAddress
from termchat.engine.port import MOST_CONTEXT, ModelSpec
from termchat.models.errors import ModelError
from termchat.tui.draw.background import BackgroundTask, TaskQueue

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.conversation.store.store import Store
    from termchat.models.catalogue import Catalogue
    from termchat.models.disk.discovery import Skipped
    from termchat.models.download.progress import Pulling
    from termchat.models.gguf.header import Header
    from termchat.models.listing import ModelRow
    from termchat.models.memory import Memory


_FAST_BATCH = 512
_PATIENCE = 2.0
"""Seconds that the end of the app waits for downloads to store their parts; others are found again anyway."""


class Pull:
    """One download. `now` is its progress, None before anything is known; it is over when `path` or `problem` is set."""

    def __init__(self, wanted: str, ended: Callable[[Pull], object]) -> None:
        self.wanted = wanted
        self.now: Pulling | None = None
        self.path: Path | None = None
        self.problem: ModelError | None = None
        self.cancelled = False
        """Whether it was ended by hand; the partial download stays."""
        self.task: BackgroundTask[None] = BackgroundTask(self._work, lambda: ended(self))

    @property
    def running(self) -> bool:
        return self.path is None and self.problem is None

    def cancel(self) -> None:
        """End the download, in about a tenth of a second."""
        self.cancelled = True

    def _work(self) -> Iterator[None]:
        from termchat.models.download.pull import pull  # a slow import, in this thread

        try:
            self.path = pull(self.wanted, progress=partial(setattr, self, "now"), cancelled=lambda: self.cancelled)
        except ModelError as problem:
            self.problem = problem
        except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
            self.problem = ModelError(f"{self.wanted} could not be downloaded: {mistake!r}")
        yield


@dataclass(frozen=True)
class Facts:
    """A file that was read, and how its model would be run.

    `size` is that of all its files, in bytes; `identity` its SHA-256; `recommended` the knobs for it, by name.
    """

    header: Header
    size: int | None
    identity: str
    recommended: Mapping[str, Value]
    run: RunSettings

    @property
    def context(self) -> int:
        """Tokens of context that it would have."""
        return self.run.config.engine.context or min(self.header.context_length or MOST_CONTEXT, MOST_CONTEXT)

    @cached_property
    def memory(self) -> Memory:
        """The memory that it would take."""
        from termchat.models.memory import BATCH, estimate

        engine = self.run.config.engine
        batch = engine.prefill_batch or (_FAST_BATCH if engine.fast_prefill else BATCH)
        flash = engine.flash_attention != "off"
        return estimate(self.header, self.context, engine.kv_type, size=self.size, batch=batch, flash_attention=flash)


Turns = Sequence[tuple[Role, str]]
"""Roles and texts of turns."""
Opened = tuple[Session, Choice | None, str]
"""See `opening.fetch_session`."""
Update = Callable[[], object]
"""A result of a thread: `Models.take` calls it, in the event loop."""


class Models:
    """All models, by what they are asked for with (`ModelRow.wanted`).

    `deliver` has a call made in the event loop; with it a thread calls `pulled` with a download that ended, and `learnt` once
    more is known of models.
    """

    def __init__(self, config: Settings | None = None) -> None:
        self._config = config
        self.rows: dict[str, ModelRow] = {}
        """Models of this machine and of the catalogue, downloads, engines on other machines, and the models that those have."""
        self.skipped: list[Skipped] = []
        self.catalogue: Catalogue | None = None
        self.available: int | None = None
        """Bytes of free memory; None while unknown."""
        self.deliver: Callable[[Callable[[], object]], object] = lambda _: None
        self.pulled: Callable[[Pull], object] = lambda _: None
        self.learnt: Callable[[], object] = lambda: None
        self.pulls: dict[str, Pull] = {}
        """The last download of each model in this run of the app."""
        self._files: dict[str, str] = {}
        """Files of rows of this machine, "" for those without."""
        self._unlisted: set[str] = set()
        """Downloads that no list has."""
        self._picked: dict[str, Picked] = {}
        self._facts: dict[tuple[str, int | None], Facts | ModelError] = {}
        self._picked_before: dict[str, Picked] | None = None
        """The settings of before the lesson that has changed some."""
        self._pairs: dict[tuple[tuple[str, int | None], tuple[str, int | None]], str] = {}
        self.silent: dict[str, float] = {}
        """Engines without an answer, and the first time without, in seconds since the epoch."""
        self._tasks: dict[str, BackgroundTask[Update]] = {}
        """Threads at work: one that looks, one that reads, one that chooses, and one for each engine that is asked."""
        self.news = 0
        """Times that `take` has changed something: the list and the composer both take."""

    @property
    def config(self) -> Settings:
        """The settings, loaded at the first use."""
        if self._config is None:
            from termchat.config import settings

            self._config = settings.load()
        return self._config

    # --- the list ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Search the catalogue and the disk in a thread; known rows stay until they prove to be gone."""
        if self.looking:
            return
        self._tasks["look"] = BackgroundTask(self._search, lambda: self.deliver(self.learnt))
        own = self.config.address
        for name in (*self.config.engines, *([own.url] if own.url and not own.name else [])):
            self.ask_engine(name)

    @property
    def looking(self) -> bool:
        return "look" in self._tasks

    @property
    def chooses(self) -> bool:
        """Whether a chosen model is still being read."""
        return "choose" in self._tasks

    def take(self) -> bool:
        """Take in the results of the threads since the last call; return whether anything changed."""
        changed = False
        for kind, task in list(self._tasks.items()):
            is_over = not task.running  # asked before the last results are taken
            updates = list(task.take())
            for update in updates:
                update()
            if is_over:
                del self._tasks[kind]
            changed |= bool(updates) or (is_over and kind not in ("read", "choose"))
        self.news += changed
        return changed

    def in_file(self, path: str | Path) -> str:
        """Return the word that asks for the model in this file; "" while no row has it."""
        file = os.path.realpath(path)
        return next((wanted for wanted, known in self._files.items() if known == file), "")

    def _search(self) -> Iterator[Update]:
        from termchat.config import settings
        from termchat.models import catalogue, listing, memory

        known = catalogue.load()
        yield partial(setattr, self, "catalogue", known)
        yield partial(setattr, self, "available", memory.available())
        files: dict[str, str] = {}
        skipped: list[Skipped] = []
        # The folders are those that the config file has by now; those of a flag stay.
        given = self.config.origin["model_folders"] == FLAG
        for one in listing.gather((self.config if given else settings.load()).model_folders, known):
            if isinstance(one, listing.ModelRow):
                files[one.wanted] = os.path.realpath(one.path) if one.path is not None else ""
                yield partial(self.rows.__setitem__, one.wanted, one)
                yield partial(self._files.__setitem__, one.wanted, files[one.wanted])
            else:
                skipped.append(one)

        def drop_others() -> None:
            self.skipped = skipped
            for wanted in self._files.keys() - files.keys() - self._unlisted:
                del self.rows[wanted], self._files[wanted]

        yield drop_others

    def ask_engine(self, name: str) -> None:
        """Ask an engine for its models, in a thread of its own; known rows stay until it answers."""
        own = self.config.address
        if self.asks(name) or (name not in self.config.engines and name != own.shown):
            return
        address = self.config.engine_at(name) if name in self.config.engines else own
        from termchat.models.listing import ModelRow

        first = ModelRow(
            wanted=address.asked_as(), name=name, state="ready", engine=name, source=address.url, told="asking …"
        )
        self.rows.setdefault(first.wanted, first)
        self._tasks[f"ask {name}"] = BackgroundTask(
            lambda: (partial(self._list_engine, name, rows) for rows in _ask_engine(address))
        )

    def _list_engine(self, name: str, rows: Sequence[ModelRow]) -> None:
        """Put the rows of an engine in place of those known before."""
        for wanted in [wanted for wanted, row in self.rows.items() if row.engine == name]:
            del self.rows[wanted]
        self.rows.update((row.wanted, row) for row in rows)
        if all(row.state == "ready" for row in rows):
            self.silent.pop(name, None)
        else:
            self.silent.setdefault(name, time())

    def asks(self, name: str) -> bool:
        """Return whether the answer of an engine is pending."""
        return f"ask {name}" in self._tasks

    # --- what the files say ------------------------------------------------------------------------------------------

    def facts(self, row: ModelRow) -> Facts | ModelError | None:
        """Return the facts of a row's file, or the problem with it; None until it is read."""
        return self._facts.get(_file_key(row))

    def why_not_draft(self, row: ModelRow, loaded: ModelRow) -> str | None:
        """Return why a model cannot draft for the loaded one, as the end of a sentence; "" if it can, None while unknown."""
        return self._pairs.get((_file_key(row), _file_key(loaded)))

    def recommended(self, row: ModelRow) -> Mapping[str, Value]:
        """Return the recommended knobs, as far as they are known yet."""
        facts = self.facts(row)
        if isinstance(facts, Facts):
            return facts.recommended
        entry = self.catalogue.entries.get(row.wanted) if self.catalogue is not None else None
        return entry.recommended if entry is not None else {}

    def spare(self, loaded: ModelRow | None) -> int | None:
        """Return the bytes of memory free for a model after the loaded one is unloaded; None while unknown.

        Weights are pages of a file, which count as free already; cache and compute buffers are given back.
        """
        facts = self.facts(loaded) if loaded is not None else None
        if self.available is None or not isinstance(facts, Facts):
            return self.available
        return self.available + facts.memory.kv + facts.memory.compute

    def read(self, rows: Sequence[ModelRow], loaded: ModelRow | None = None) -> None:
        """Read files in order, in a thread, and compare those that were read before with the `loaded` one as drafters; rows of
        the call before are dropped."""
        here = {row.wanted: row for row in rows if row.path is not None}
        unread = [row for row in here.values() if self.facts(row) is None]
        unpaired: list[ModelRow] = []
        if loaded is not None and isinstance(self.facts(loaded), Facts):
            known = (row for row in here.values() if isinstance(self.facts(row), Facts))
            unpaired = [row for row in known if self.why_not_draft(row, loaded) is None]
        if (before := self._tasks.pop("read", None)) is not None:
            before.stop()
        if unread or unpaired:
            work = partial(self._read_files, unread, unpaired, loaded)
            self._tasks["read"] = BackgroundTask(work, lambda: self.deliver(self.learnt))

    def _read_files(
        self, unread: Sequence[ModelRow], unpaired: Sequence[ModelRow], loaded: ModelRow | None
    ) -> Iterator[Update]:
        from termchat.models.draft_pairs import draft_facts, why_not_draft

        for row in unread:
            try:
                yield partial(self._facts.__setitem__, _file_key(row), self._read_facts(row))
            except ModelError as problem:
                yield partial(self._facts.__setitem__, _file_key(row), problem)
        for row in unpaired:
            assert loaded is not None
            try:
                wanted = draft_facts(_file_in(loaded), loaded.size or 0)
                why_not = why_not_draft(draft_facts(_file_in(row), row.size or 0), wanted)
            except ModelError as problem:
                why_not = problem.message
            yield partial(self._pairs.__setitem__, (_file_key(row), _file_key(loaded)), why_not)

    def _read_facts(self, row: ModelRow) -> Facts:
        """Read the file of a row.

        Raises:
            ModelError: it cannot be used.
        """
        from termchat.chat.opening import recommend_settings
        from termchat.models.catalogue import load
        from termchat.models.gguf.header import read_header

        header = read_header(_file_in(row))
        identity = header.identity()
        run = run_of(self.config, identity, self._picked.get(row.wanted))
        advice = recommend_settings(row.wanted, header, self.catalogue or load())
        knobs = {name: value for name, value in advice.items() if name in KNOBS}
        return Facts(header, row.size, identity, knobs, run)

    # --- what a person wants -----------------------------------------------------------------------------------------

    def choose(self, wanted: str, hear: Callable[[Choice | ModelError], object]) -> None:
        """Read and check a model in a thread; `hear` gets it, or the problem with it, in the event loop."""

        def work() -> Iterable[Update]:
            from termchat.chat.opening import choose_model

            try:
                choice: Choice | ModelError = choose_model(self.config, wanted, self._picked.get(wanted))
            except ModelError as problem:
                choice = problem
            self.deliver(partial(hear, choice))
            return ()

        self._tasks["choose"] = BackgroundTask(work)

    def pick(self, row: ModelRow, facts: Facts, *, lesson: bool = False) -> str:
        """Run the model by these facts from now on, and save them; return the problem of saving, "" for none. In a `lesson`
        they are not saved, and last until `end_lesson`."""
        if lesson and self._picked_before is None:
            self._picked_before = dict(self._picked)
        self._picked[row.wanted], self._facts[_file_key(row)] = facts.run.picked, facts
        if lesson:
            return ""
        try:
            keep_picked(facts.run.picked, facts.identity, row.name)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def end_lesson(self) -> None:
        """Restore the settings of before the lesson, for the next load of a model."""
        if self._picked_before is not None:
            self._picked, self._picked_before = self._picked_before, None
            self._facts.clear()

    def drafts_with(self, identity: str, draft_model: str) -> None:
        """Take in that a draft model was chosen in the chat for the model of this identity, and saved."""
        for wanted, row in self.rows.items():
            facts = self.facts(row)
            if isinstance(facts, Facts) and facts.identity == identity:
                run = facts.run.set("draft_model", draft_model)
                self._facts[_file_key(row)] = replace(facts, run=run)
                if wanted in self._picked:
                    self._picked[wanted] = run.picked

    def pull(self, row: ModelRow) -> None:
        """Start or resume a download."""
        if row.wanted not in self.rows:
            self.rows[row.wanted] = row
            self._unlisted.add(row.wanted)
        pull = self.pulls.get(row.wanted)
        if pull is None or not pull.running:
            self.pulls[row.wanted] = Pull(row.wanted, lambda pull: self.deliver(partial(self.pulled, pull)))

    @property
    def downloads(self) -> list[Pull]:
        """The running downloads."""
        return [pull for pull in self.pulls.values() if pull.running]

    def here(self, pull: Pull) -> str:
        """Return the word that asks for a downloaded model from now on: its path, if no list has it."""
        if pull.path is None or pull.wanted not in self._unlisted:
            return pull.wanted
        self._unlisted.discard(pull.wanted)
        del self.rows[pull.wanted]
        return str(pull.path)

    def close(self) -> None:
        """Stop the downloads; partial files stay."""
        self.deliver = lambda _: None
        for pull in (running := self.downloads):
            pull.cancel()
        end = monotonic() + _PATIENCE
        for pull in running:
            pull.task.join(max(end - monotonic(), 0))


class SessionList:
    """The saved chats, read and changed by a thread, never the event loop; its caches outlive the dialogs.

    `deliver` is set by the dialog: it takes, in the thread of `work`, what is to be called in the event loop.
    """

    def __init__(self, store: Store, config: Settings) -> None:
        self.store, self.config = store, config
        self.deliver: Callable[[Callable[[], object]], object] = lambda _: None
        self.work = TaskQueue(lambda call: self.deliver(call), (StoreError, OSError))
        self.listed: tuple[str, Sequence[SessionSummary]] = ("", ())
        """The words that were last searched for, "" for all chats, and the newest chats that have them."""
        self.previews: dict[tuple[str, float], Turns] = {}
        """The last turns of chats, by id and time of change."""
        self.deleted: list[SessionSummary] = []
        """Chats that can be restored, in the order of their deletion."""

    def token(self, session: str, node: Node, index: int) -> Token | None:
        """Read a token's record of any chat, a few at a time; None also if it cannot be read."""
        with suppress(StoreError):
            return self.store.token(session, node.number, index)
        return None

    def of_lesson(self, lesson: str) -> Session | None:
        """Read the chat in which a lesson was last left, if it is kept. It waits for the disk."""
        with suppress(StoreError):
            session = self.store.of_lesson(lesson)
            return self.store.load(session) if session is not None else None
        return None


def _ask_engine(address: EngineAddress) -> Iterator[list[ModelRow]]:
    from termchat.models.elsewhere import engine_rows

    rows = engine_rows(address)
    yield rows if address.name else rows[:1]  # what is asked for with a URL is what it has


def _file_key(row: ModelRow) -> tuple[str, int | None]:
    """Return the key of a file, which differs for its replacement."""
    return str(row.path), row.size


def _file_in(row: ModelRow) -> Path:
    """Return the file of a row that has one."""
    assert row.path is not None
    return row.path


def file_of(spec: ModelSpec) -> Path:
    """Return the spec's file, also with a name that is no Unicode."""
    return Path(os.fsdecode(spec.path_bytes) if spec.path_bytes else spec.path)
