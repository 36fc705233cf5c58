"""The list of models in order, filtered, with one highlighted; without a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from termchat.chat.service import Chat
from termchat.engine.port import ModelSpec
from termchat.models.errors import ModelError
from termchat.models.listing import ModelRow
from termchat.text import cells, size
from termchat.tui.models.downloads import Pull
from termchat.tui.models.gather import Facts, Models, file_of
from termchat.tui.models.model_lines import (
    DownloadRow,
    DraftRole,
    Item,
    Known,
    Need,
    RunningModel,
    State,
    matches,
    memory_text,
    need_told,
    rank,
    text_of,
)

if TYPE_CHECKING:
    from termchat.decoding.setting import Value

_ANYWHERE = re.compile(r"https?://\S+|hf\.co/\S+|[\w.-]+/[\w.-]+\S*")
"""A filter that may name a model to download."""
_PATH = ("/", "~", "./", "../")
"""How a filter begins that is a path."""


class ModelList:
    """What is known of models (`Models`), seen from a chat. `shown` are those that pass the filter, `at` is highlighted."""

    def __init__(self, chat: Chat, models: Models) -> None:
        self._chat, self._models = chat, models
        self._ordered: list[tuple[ModelRow, str]] = []
        self._filter = ""
        self._selected = ""
        self.loaded: ModelRow | None = None
        self.drafter = ""
        """The model that drafts for the loaded one, by what it is asked for with; "" for none."""
        self.longest = 0
        """Cells of the longest name of all."""
        self.shown: list[ModelRow] = []
        self.at = 0

    @property
    def row(self) -> ModelRow | None:
        """The highlighted model; None where the filter leaves none."""
        return self.shown[self.at] if self.shown else None

    @property
    def facts(self) -> Facts | ModelError | None:
        """What the file of the highlighted model says; None until it is read."""
        return self._models.facts(self.row) if self.row is not None else None

    @property
    def pull(self) -> Pull | None:
        """The highlighted download, while it runs."""
        pull = self._models.pulls.of(self.row.wanted) if self.row is not None else None
        return pull if pull is not None and pull.running else None

    def gather(self) -> None:
        """Takes in all that is known by now; the highlighted model stays the same."""
        models, chat = self._models, self._chat
        there = chat.spec is not None and (chat.model is not None or chat.phase == "loading")
        rows = models.rows | models.sources | models.elsewhere
        wanted = wanted_as(chat.spec, models) if there and chat.spec is not None else ""
        found = rows.get(wanted) or (self._own_choice(rows) if there else None)
        self.loaded = found if found is not None and not self._has_another(found) else self._unlisted()
        self.drafter = models.in_file(chat.host.drafter.path) if chat.host.drafter is not None else ""
        if self.loaded is not None:
            rows[self.loaded.wanted] = self.loaded
        ordered = sorted(enumerate(rows.values()), key=lambda one: rank(self.state(one[1]), one[1], one[0]))
        self._ordered = [(row, text_of(row)) for _, row in ordered]
        self._show()

    def filter(self, text: str) -> None:
        """Every word must be somewhere in a row. The first row is highlighted."""
        self._filter, self._selected = text.strip(), ""
        self._show()

    def choose(self, at: int) -> None:
        self.at = at
        self._selected = self.shown[at].wanted if self.shown else ""

    def highlight(self, wanted: str) -> None:
        """Highlights a model once it is found."""
        self._selected = wanted

    def follow(self, wanted: str, renamed: str) -> None:
        """Keeps a model highlighted that is asked for by another word from now on."""
        if self._selected == wanted:
            self._selected = renamed

    def state(self, row: ModelRow) -> State:
        pull = self._models.pulls.of(row.wanted)
        if self.loaded is not None and row.wanted == self.loaded.wanted:
            return "loaded" if self._chat.model is not None else "loading"
        if pull is not None and pull.running:
            return "downloading"
        if pull is not None and pull.path is not None and pull.path.exists():  # and the list does not know it yet
            return "on disk"
        if row.engine:
            return "elsewhere" if row.state == "ready" else "no answer"
        return "on disk" if row.state == "ready" else row.state

    def item(self, row: ModelRow) -> Item:
        facts = self._models.facts(row)
        pull = self._models.pulls.of(row.wanted)
        download = DownloadRow(pull.now, pull.running, pull.problem) if pull is not None and pull.path is None else None
        need = Need(facts.memory.total, about=False) if isinstance(facts, Facts) else need_told(row)
        since = self._models.silent.get(row.engine)
        return Item(row, self.state(row), need, self.spare, download, self.draft_role(row), since)

    def known(self, row: ModelRow) -> Known:
        info, facts = self._chat.model, self._models.facts(row)
        running = None
        if info is not None and row is self.loaded:
            running = RunningModel(info, facts.run.config if isinstance(facts, Facts) else None)
        return Known(facts, self._models.recommended(row), running, self._drafts(row))

    @property
    def drafted_for(self) -> ModelRow | None:
        """The loaded model, if others of this machine can draft for it."""
        here = self.loaded is not None and self.loaded.path is not None
        return self.loaded if here and self._chat.model is not None and "drafts" in self._chat.engine.offers else None

    def draft_role(self, row: ModelRow) -> DraftRole:
        loaded = self.drafted_for
        if loaded is None or row.wanted == loaded.wanted:
            return ""
        if row.wanted == self.drafter:
            return "draft model"
        return "can draft" if row.path is not None and self.why_not_draft(row) == "" else ""

    def why_not_draft(self, row: ModelRow) -> str | None:
        """Why it cannot draft for the loaded model, as the end of a sentence; "" if it can, None while that is unknown."""
        loaded = self.drafted_for
        return self._models.why_not_draft(row, loaded) if loaded is not None else None

    def _drafts(self, row: ModelRow) -> str:
        """What a model has to do with speculation, in words; "" for nothing, and while that is unknown."""
        loaded, why_not = self.drafted_for, self.why_not_draft(row)
        if loaded is not None and row.wanted == loaded.wanted:
            return self._drafts_for_loaded(loaded)
        if loaded is not None and row.wanted == self.drafter:
            return f"it drafts for {loaded.name}"
        if loaded is not None and row.path is not None and why_not is not None:
            return f"it cannot draft for {loaded.name}: {why_not}" if why_not else _able(row, loaded)
        if loaded is not None and row.wanted == loaded.draft_model:
            return f"it can draft for {loaded.name} once it is downloaded"
        return f"{row.draft_model} can draft for it" if row.draft_model else ""

    def _drafts_for_loaded(self, loaded: ModelRow) -> str:
        info, failure = self._chat.host.drafter, self._chat.host.drafter_failure
        if info is not None:
            return f"{info.name} drafts for it"
        if failure is not None:
            return failure.message
        able = [row.name for row, _ in self._ordered if self.draft_role(row)]
        if able:
            return f"{', '.join(able)} can draft for it"
        named = self._models.rows.get(loaded.draft_model)
        away = named is not None and named.path is None
        return f"{loaded.draft_model} can draft for it once it is downloaded" if away else ""

    def running(self, row: ModelRow) -> dict[str, Value]:
        """The engine settings in effect; empty for all models but the loaded one."""
        info = self._chat.model
        if info is None or row is not self.loaded:
            return {}
        return {
            name: getattr(info, name) for name in self._models.config.engine.__struct_fields__ if hasattr(info, name)
        }

    def memory(self, row: ModelRow, facts: Facts) -> str:
        item = Item(row, self.state(row), Need(facts.memory.total, about=False), self.spare)
        return memory_text(item, facts)

    @property
    def spare(self) -> int | None:
        """Bytes of memory that a model may take; None where unknown, as with a GPU, whose memory is not looked at."""
        info = self._chat.model
        if info is not None and info.gpu_layers:
            return None
        return self._models.spare(self.loaded)

    def title(self, width: int) -> str:
        """The counts and the free memory, in at most `width` cells."""
        mine = [row for row, _ in self._ordered if not row.engine]
        here = sum(row.state == "ready" for row in mine)
        away, spare = len(mine) - here, size(self.spare)
        long, short = [], []
        if self._ordered:
            long += [f"{here} on this machine", f"{away} to download"]
            short += [f"{here} on disk", f"{away} to download"]
        if self._models.looking:
            long.append("looking …")
            short.append("looking …")
        if spare:
            long.append(f"{spare} of memory free")
            short.append(f"{spare} free")
        if cells(told := ", ".join(long)) <= width:
            return told
        while short and cells(", ".join(short)) > width:
            short.pop()
        return ", ".join(short)

    def _show(self) -> None:
        words = self._filter.lower().split()
        self.shown = [row for row, text in self._ordered if matches(text, words)]
        if not self.shown and self._filter.startswith(_PATH):
            self.shown = [_in_file(self._filter)]
        elif not self.shown and _ANYWHERE.fullmatch(self._filter):
            self.shown = [_anywhere(self._filter)]
        found = (at for at, row in enumerate(self.shown) if row.wanted == self._selected)
        self.at = next(found, 0)
        rows = (*(row for row, _ in self._ordered), *self.shown)
        self.longest = max((cells(row.name) for row in rows), default=0)

    def _own_choice(self, rows: Mapping[str, ModelRow]) -> ModelRow | None:
        """The row of the engine whose one model is the loaded one."""
        spec = self._chat.spec
        if spec is None or not spec.engine.url:
            return None
        there = [row for row in rows.values() if row.engine == spec.engine.shown]
        one = len(there) == 1 and spec.engine.scheme != "ssh"  # whatever it was asked for with
        return rows.get(spec.engine.asked_as()) if one or spec.path == spec.engine.model else None

    def _has_another(self, row: ModelRow) -> bool:
        """Whether an engine has got another model in place of the one that was loaded."""
        info = self._chat.model
        return info is not None and bool(row.serves) and info.path not in row.serves

    def _unlisted(self) -> ModelRow | None:
        """A row for a loaded model that is in no list."""
        spec, info = self._chat.spec, self._chat.model
        if spec is None or info is None or not (spec.path or spec.engine.url):  # a recording has no file
            return None
        there = spec.engine.shown if spec.engine.url else ""
        return ModelRow(
            wanted=spec.engine.asked_as(spec.path or info.path) if there else spec.path,
            name=f"{there}: {info.name}" if there else info.name,
            state="ready",
            engine=there,
            source=spec.engine.url,
            architecture=info.architecture,
            quantization=info.quantization,
            context=(info.context if there else info.context_trained) or None,
            size=info.size,
            path=None if there else file_of(spec),
        )


def _able(row: ModelRow, loaded: ModelRow) -> str:
    """The smaller it is, the sooner its drafts pay."""
    share = f", with {row.size / loaded.size:.0%} of its size" if row.size and loaded.size else ""
    return f"it can draft for {loaded.name}{share}"


def wanted_as(spec: ModelSpec, models: Models) -> str:
    """What the model of a spec is asked for with; "" while no row has it."""
    return spec.engine.asked_as(spec.path) if spec.engine.url else models.in_file(file_of(spec))


def _in_file(text: str) -> ModelRow:
    """A row for the model in a file that is in no list, or with what is wrong with its path."""
    from termchat.models.catalogue import Catalogue, resolve

    try:
        name, path = resolve(text, Catalogue({}))
        return ModelRow(wanted=text, name=name, state="ready", source="file", path=path, size=path.stat().st_size)
    except (ModelError, OSError) as error:
        problem = f"{error.message}. {error.hint}" if isinstance(error, ModelError) else str(error)
        return ModelRow(wanted=text, name=text, state="broken", source="file", problem=problem.strip())


def _anywhere(text: str) -> ModelRow:
    """A row for a model to download that is in no list."""
    source = text.partition("://")[2].partition("/")[0] if "://" in text else "Hugging Face"
    return ModelRow(wanted=text, name=text, state="not downloaded", source=source)
