"""All models: to load, to download, to look at, and to set how each runs; with a welcome where there is none yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from textwrap import wrap

from textual.content import Content
from textual.widget import Widget

from termchat.chat.changes import Notice
from termchat.chat.loading import Choice
from termchat.chat.service import Chat
from termchat.config.per_model import Picked, RunSettings
from termchat.models.disk.discovery import Skipped
from termchat.models.errors import ModelError
from termchat.models.listing import ModelRow
from termchat.text import cells, home, one_line, size
from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.list_dialog import ListDialog, ReadDialog
from termchat.tui.draw.marks import MUTED, TEXT, prose
from termchat.tui.keys.tables import hint
from termchat.tui.lists.engine_dialog import EngineDialog
from termchat.tui.lists.gather import Chosen, Facts, Models, Pull, file_of
from termchat.tui.lists.model_lines import (
    DRAFT_ROLES,
    STATES,
    DraftRole,
    Item,
    State,
    heading,
    matches,
    memory_text,
    model_line,
    model_lines,
    rank,
    text_of,
)
from termchat.tui.lists.welcome import first_run_lines
from termchat.tui.terminal.screens import draw_now
from termchat.tui.themes.theme_file import Palette

_ANYWHERE = re.compile(r"https?://\S+|hf\.co/\S+|[\w.-]+/[\w.-]+\S*")
"""A filter that may name a model to download."""
_PATH = ("/", "~", "./", "../")
"""How a filter begins that is a path."""
_WIDEST = 180
_HINT_LINES = 2
"""Lines of keys below the list on a low screen."""


class ModelsDialog(ListDialog[ModelRow, Choice]):
    """All models. The result is the one to chat with; downloads continue after it is closed.

    Args:
        draft: has a model draft for the loaded one, "" none.
        problem: what a person should read first.
        first: it is the first dialog that a person without a model sees: a welcome is above the list.
    """

    DEFAULT_CSS = """
    ModelsDialog > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    ModelsDialog #details { height: 8; }
    ModelsDialog.-beside #details { width: 36%; height: 1fr; }
    ModelsDialog.-low .hint { max-height: 2; }
    ModelsDialog.-first #welcome { height: 8; margin-top: 1; }
    ModelsDialog.-first #details { display: none; }
    ModelsDialog.-first.-beside #details { display: block; }
    ModelsDialog.-first.-beside #welcome { height: 7; }
    ModelsDialog.-first.-low #welcome { display: none; }
    ModelsDialog.-first Input, ModelsDialog.-first Input:focus { margin-top: 0; }
    ModelsDialog.-first #heading { margin-top: 0; }
    """
    TITLE = "Models"
    FIELD = "type a filter, a path, or owner/repo to download from Hugging Face"
    KEYS = "MODELS"
    BESIDE = 118

    def __init__(
        self,
        chat: Chat,
        models: Models,
        palette: Palette,
        draft: Callable[[str], None],
        problem: str = "",
        *,
        first: bool = False,
    ) -> None:
        super().__init__(palette)
        self.chat, self.models, self._draft, self.problem = chat, models, draft, problem
        self.set_class(first, "-first")
        self._ordered: list[tuple[ModelRow, str]] = []
        """All models with the text that is searched."""
        self.loaded: ModelRow | None = None
        self.drafter = ""
        """The model that drafts for the loaded one, by what it is asked for with; "" for none."""
        self.longest = 0
        """Cells of the longest name of all."""
        self._selected = models.config.model if problem else ""
        """The model to highlight once it is listed, by what it is asked for with; "" for the first."""
        self._welcome = Sheet(self._welcomed, id="welcome") if first else None
        self._engine_of = ""
        """The model whose settings are shown as soon as its file is read."""
        self._asked = ""
        """The engine that a person had asked again."""
        self._seen = chat.phase, chat.host.drafter, chat.host.drafter_failure
        self._order_models()
        self._filter_rows()
        self.set_rows(self.rows)

    def inputs(self) -> Iterable[Widget]:
        if self._welcome is not None:
            yield self._welcome
        yield self.field

    def on_mount(self) -> None:
        self.set_interval(1 / FRAMES, self._look)
        self.call_after_refresh(self.models.look)

    def on_lines_view_laid(self) -> None:
        self.changed()

    def line(self, row: ModelRow, width: int, *, chosen: bool) -> Line:
        return model_line(self._item(row), width, self.longest)

    def empty_lines(self, width: int) -> list[Line]:
        looking = self.models.looking or not self.models.rows
        return [Line((("looking …" if looking else "no model matches", MUTED),))]

    def _look(self) -> None:
        """Take in the results of threads."""
        if self.models.take() | self._has_changed():
            self.gather()
        elif self.models.downloads:
            self.set_rows(self.rows)

    def _has_changed(self) -> bool:
        """Return whether the chat has changed; tell what became of a draft model."""
        chat, before = self.chat, self._seen
        self._seen = chat.phase, chat.host.drafter, chat.host.drafter_failure
        if chat.host.drafter_failure not in (None, before[2]):
            self.say("; ".join(filter(None, (chat.host.drafter_failure.message, chat.host.drafter_failure.hint))))
        elif chat.host.drafter is not None and chat.host.drafter != before[1]:
            self.tell(f"{chat.host.drafter.name} drafts for {self.loaded.name if self.loaded else 'it'}")
        elif chat.host.drafter is None and before[1] is not None and self.drafted_for is not None:
            self.tell(f"{before[1].name} is unloaded and drafts no more")
        return before != self._seen

    def gather(self) -> None:
        self._order_models()
        self._filter_rows()
        self.changed()
        self._open_engine()
        if self._asked and not self.models.asks(self._asked):
            rows = (row for row in self.models.elsewhere.values() if row.is_engine and row.engine == self._asked)
            problem = next((row.problem for row in rows), "")
            self.say(problem) if problem else self.tell(f"{self._asked} answers")
            self._asked = ""

    def changed(self) -> None:
        """Draw the rows with the selected one highlighted, and have their files read once they stay in view."""
        self.set_rows(self.rows, next((at for at, row in enumerate(self.rows) if row.wanted == self._selected), 0))
        self.at_rest(self._read)

    def render_heading(self, width: int) -> Line:
        return heading(width, self.longest)

    def render_details(self, row: ModelRow, width: int, height: int) -> list[Line]:
        item, info = self._item(row), self.chat.model if row is self.loaded else None
        config = item.facts.run.config if info is not None and isinstance(item.facts, Facts) else None
        item = item._replace(
            recommended=self.models.recommended(row), running=info, config=config, speculation=self._drafts(row)
        )
        return model_lines(item, width, height)

    def _welcomed(self) -> Sequence[Line]:
        assert self._welcome is not None
        rows, models = list(self.models.rows.values()), self.models
        return first_run_lines(rows, self._welcome.room, looking=models.looking or not rows)

    def hint(self) -> Content:
        """Name as many keys as there is room for, always the one that closes."""
        row = self.row
        state = self.state(row) if row is not None else None
        does: list[tuple[str, str]] = []
        note = ""
        if row is not None and state is not None:
            role = self.draft_role(row)
            does += [*STATES[state].hints, *(DRAFT_ROLES[role].hints if role else ())]
            note = STATES[state].note
        does += [("model-skipped", "skipped files")] if self.models.skipped else []
        end = ("close", "closes; the download continues" if state == "downloading" else "closes")
        while does and len(wrap(hint(*does, end, before=note).plain, self._inside)) > _HINT_LINES:
            does.pop()
        return hint(*does, end, before=note)

    def title_line(self) -> str:
        if self._welcome is not None:
            return "Welcome to termchat"
        return one_line(f"{self.TITLE}   {self._counts(self._inside - len(self.TITLE) - 3)}", self._inside)

    @property
    def _inside(self) -> int:
        """Cells between the borders and their padding."""
        return max(min(self.app.size.width, _WIDEST) - 4, 1)

    def _read(self) -> None:
        """Read the files of the rows in view, the highlighted one first."""
        at, height = self.picker.chosen, max(self.picker.size.height, 1)
        wanted = [self.row, self.loaded, *self.rows[max(at - height, 0) : at + height]]
        self.models.read([row for row in wanted if row is not None], self.drafted_for)

    def search(self, text: str) -> None:
        self.say("")
        self._selected = ""
        self._filter_rows()
        self.changed()
        draw_now(self)  # whoever types waits for it

    def enter(self, text: str) -> None:
        row = self.row
        if row is None or not self.is_current:  # a second Enter in the same burst does nothing
            return
        self.say("")
        match self.state(row):
            case "loaded" | "loading":
                self.dismiss(None)
            case "on disk" | "elsewhere":
                if self._refuse_while_busy():
                    return
                self.models.choose(row.wanted)
            case "downloading":
                self.say("already downloading; Del stops it")
            case "not downloaded":
                self.models.pull(row)
                self.gather()
            case "no answer":
                self._ask_again(row)
            case "not installed" | "broken":
                self.say(row.problem)

    def moved(self) -> None:
        self._selected = self.row.wanted if self.row is not None else ""
        self.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Del to the filter without a download to stop."""
        return action != "cancel" or self._pull is not None

    @property
    def _pull(self) -> Pull | None:
        """The highlighted download, while it runs."""
        pull = self.models.pulls.get(self.row.wanted) if self.row is not None else None
        return pull if pull is not None and pull.running else None

    def action_cancel(self) -> None:
        if self._pull is not None:
            self._pull.cancel()

    def action_unload(self) -> None:
        loaded = self.loaded
        if loaded is not None and not self._refuse_while_busy():
            self.chat.loading.unload_model()
            unloaded = "is unloaded and its memory is free; the next message reloads it"
            disconnected = "is disconnected, and its server keeps the model; the next message connects again"
            self.tell(f"{loaded.name} {disconnected if loaded.is_server else unloaded}")
            self._again()

    def action_draft(self) -> None:
        row = self.row
        if row is not None:
            self.say("")
            if self.draft_role(row) == "draft model":
                self._draft("")
            elif why_not := self._why_not_draft(row):
                self.say(why_not)
            else:
                self.tell(f"loading {row.name} to draft …")
                self._draft(row.wanted)

    def _why_not_draft(self, row: ModelRow) -> str:
        loaded = self.drafted_for
        if self.chat.cannot_draft:
            return f"nothing can be drafted: {self.chat.cannot_draft}"
        if loaded is None and self.loaded is not None and self.loaded.engine:
            return "the loaded model is on another machine: --draft names a draft model there"
        if loaded is None:
            return "load a model first, for which this one is to draft"
        if row.wanted == loaded.wanted:
            return f"choose a smaller model to draft for {row.name}"
        if row.path is None:
            return "it is on another machine" if row.engine else "download it first to draft with it"
        why_not = self._pair_problem(row)
        return f"{row.name} cannot draft for {loaded.name}: {why_not}" if why_not else ""

    def action_reload(self) -> None:
        """Reload the loaded model, or ask the highlighted engine again."""
        row = self.row
        if row is not None and self.state(row) in ("elsewhere", "no answer"):
            self._ask_again(row)
            return
        if self.chat.spec is not None and not self._refuse_while_busy():
            self.chat.loading.reload_model()
            self.dismiss(None)

    def action_skipped(self) -> None:
        self.app.push_screen(ReadDialog(self._palette, "Skipped files", partial(skipped_lines, self.models.skipped)))

    @property
    def gathers(self) -> bool:
        """Whether its rows, or the model or the settings that were asked for, are not there yet."""
        return self.models.looking or self.models.chooses or not self.models.rows or bool(self._engine_of)

    def action_engine(self) -> None:
        row = self.row
        if row is None:
            return
        self._engine_of = row.wanted if row.path is not None else ""
        if row.path is not None:
            self.say("")
            self._open_engine()
        elif row.engine:
            place = "where its server is started" if row.is_server else "on its own machine, in config.toml there"
            self.say(f"how it runs is set {place}")
        else:
            self.say("download it first to change its settings")

    def _open_engine(self) -> None:
        row = self.row
        facts = self.models.facts(row) if row is not None else None
        if row is None or facts is None or row.wanted != self._engine_of or not self.is_current:
            return
        self._engine_of = ""
        if isinstance(facts, ModelError):
            self._say_error(facts)
            return

        def closed(picked: Picked | None) -> None:
            if picked is not None:
                self._load(row, facts, picked)

        def memory(run: RunSettings) -> str:
            return memory_text(Item(row, self.state(row), facts.run_as(run), self.spare))

        info = self.chat.model if row is self.loaded else None
        options = self.models.config.engine.__struct_fields__
        in_effect = {name: getattr(info, name) for name in options if hasattr(info, name)}
        self.app.push_screen(EngineDialog(self._palette, row.name, facts.run, self.chat, in_effect, memory), closed)

    def _load(self, row: ModelRow, facts: Facts, picked: Picked) -> None:
        if picked == facts.run.picked and self.state(row) == "loaded":
            self.dismiss(None)
            return
        lesson = bool(self.chat.lesson)
        problem = self.models.pick(row, facts.run_as(facts.run._replace(picked=picked)), lesson=lesson)
        if lesson:
            self.chat.add_changes(Notice("these settings last until you leave the lesson"))
        if problem:
            text = f"the settings of {row.name} could not be saved: {problem}"
            self.chat.add_changes(Notice(text, "they apply until you quit termchat", "warning"))
        self.models.choose(row.wanted)

    def chosen(self, chosen: Chosen) -> None:
        if chosen.problem is not None:
            self._say_error(chosen.problem)
        elif self.is_current and not self._refuse_while_busy():
            self.dismiss(chosen.choice)

    def pulled(self, pull: Pull, wanted: str) -> None:
        """Show the end of a download; from now on its model is asked for with `wanted`."""
        if pull.path is not None:
            self._selected = wanted if self._selected == pull.wanted else self._selected
            self.tell(f"{pull.wanted} is downloaded; Enter chats with it")
        elif pull.problem is not None and not pull.cancelled:
            self._say_error(pull.problem)
        self._again()

    def _again(self) -> None:
        self.gather()
        self.models.look()

    def _ask_again(self, row: ModelRow) -> None:
        self.say("")
        self.tell(f"asking {row.engine} …")
        self._asked = row.engine
        self.models.ask_engine(row.engine)

    def _refuse_while_busy(self) -> bool:
        """Return whether a reply is running, and say so."""
        if self.chat.busy:
            self.say("a reply is running; stop it first (press Esc twice: close this list, then stop)")
        return self.chat.busy

    def _say_error(self, error: ModelError) -> None:
        self.say(f"{error.message}. {error.hint}".strip())

    # --- the models as the chat sees them ----------------------------------------------------------------------------

    def _order_models(self) -> None:
        """Put all models that are known in order, and find the loaded one among them."""
        models, chat = self.models, self.chat
        there = chat.spec is not None and (chat.model is not None or chat.phase == "loading")
        rows = models.rows | models.sources | models.elsewhere
        wanted = ""
        if there and chat.spec is not None:
            spec = chat.spec
            wanted = spec.engine.asked_as(spec.path) if spec.engine.url else models.in_file(file_of(spec))
        match, info = rows.get(wanted) or (self._own_choice(rows) if there else None), chat.model
        # An engine may have got another model in place of the one that was loaded.
        other = match is not None and info is not None and bool(match.serves) and info.path not in match.serves
        self.loaded = self._unlisted() if match is None or other else match
        self.drafter = models.in_file(chat.host.drafter.path) if chat.host.drafter is not None else ""
        if self.loaded is not None:
            rows[self.loaded.wanted] = self.loaded
        ordered = sorted(enumerate(rows.values()), key=lambda one: rank(self.state(one[1]), one[1], one[0]))
        self._ordered = [(row, text_of(row)) for _, row in ordered]

    def _filter_rows(self) -> None:
        """List the models with all the typed words, else the one that the text names: a file, or a model to download."""
        text = self.field.value.strip()
        words = text.lower().split()
        rows = [row for row, searched in self._ordered if matches(searched, words)]
        if not rows and text.startswith(_PATH):
            rows = [_in_file(text)]
        elif not rows and _ANYWHERE.fullmatch(text):
            rows = [_anywhere(text)]
        self.longest = max((cells(row.name) for row in (*(row for row, _ in self._ordered), *rows)), default=0)
        self.rows = rows

    def state(self, row: ModelRow) -> State:
        pull = self.models.pulls.get(row.wanted)
        if self.loaded is not None and row.wanted == self.loaded.wanted:
            return "loaded" if self.chat.model is not None else "loading"
        if pull is not None and pull.running:
            return "downloading"
        if pull is not None and pull.path is not None and pull.path.exists():  # and the list does not know it yet
            return "on disk"
        if row.engine:
            return "elsewhere" if row.state == "ready" else "no answer"
        return "on disk" if row.state == "ready" else row.state

    def _item(self, row: ModelRow) -> Item:
        pull = self.models.pulls.get(row.wanted)
        return Item(
            row, self.state(row), self.models.facts(row), self.spare, pull if pull and pull.path is None else None,
            self.draft_role(row), self.models.silent.get(row.engine),
        )  # fmt: skip

    @property
    def drafted_for(self) -> ModelRow | None:
        """The loaded model, if others of this machine can draft for it."""
        here = self.loaded is not None and self.loaded.path is not None
        return self.loaded if here and self.chat.model is not None and "drafts" in self.chat.engine.offers else None

    def draft_role(self, row: ModelRow) -> DraftRole:
        loaded = self.drafted_for
        if loaded is None or row.wanted == loaded.wanted:
            return ""
        if row.wanted == self.drafter:
            return "draft model"
        return "can draft" if row.path is not None and self._pair_problem(row) == "" else ""

    def _pair_problem(self, row: ModelRow) -> str | None:
        """Return why it cannot draft for the loaded model, as the end of a sentence; "" if it can, None while unknown."""
        loaded = self.drafted_for
        return self.models.why_not_draft(row, loaded) if loaded is not None else None

    def _drafts(self, row: ModelRow) -> str:
        """Describe a model's part in speculation; "" for none, and while unknown."""
        loaded, why_not = self.drafted_for, self._pair_problem(row)
        if loaded is not None and row.wanted == loaded.wanted:
            return self._drafts_for_loaded(loaded)
        if loaded is not None and row.wanted == self.drafter:
            return f"it drafts for {loaded.name}"
        if loaded is not None and row.path is not None and why_not is not None:
            if why_not:
                return f"it cannot draft for {loaded.name}: {why_not}"
            share = f", with {row.size / loaded.size:.0%} of its size" if row.size and loaded.size else ""
            return f"it can draft for {loaded.name}{share}"  # the smaller it is, the sooner its drafts pay
        if loaded is not None and row.wanted == loaded.draft_model:
            return f"it can draft for {loaded.name} once it is downloaded"
        return f"{row.draft_model} can draft for it" if row.draft_model else ""

    def _drafts_for_loaded(self, loaded: ModelRow) -> str:
        info, failure = self.chat.host.drafter, self.chat.host.drafter_failure
        if info is not None:
            return f"{info.name} drafts for it"
        if failure is not None:
            return failure.message
        able = [row.name for row, _ in self._ordered if self.draft_role(row)]
        if able:
            return f"{', '.join(able)} can draft for it"
        named = self.models.rows.get(loaded.draft_model)
        away = named is not None and named.path is None
        return f"{loaded.draft_model} can draft for it once it is downloaded" if away else ""

    @property
    def spare(self) -> int | None:
        """Bytes of memory that a model may take; None where unknown, as with a GPU, whose memory is not looked at."""
        info = self.chat.model
        if info is not None and info.gpu_layers:
            return None
        return self.models.spare(self.loaded)

    def _counts(self, width: int) -> str:
        """Return the numbers of models and the free memory, in at most `width` cells."""
        local = [row for row, _ in self._ordered if not row.engine]
        here, spare = sum(row.state == "ready" for row in local), size(self.spare)
        away = f"{len(local) - here} to download"
        texts = [(f"{here} on this machine", f"{here} on disk"), (away, away)] if self._ordered else []
        texts += [("looking …", "looking …")] if self.models.looking else []
        texts += [(f"{spare} of memory free", f"{spare} free")] if spare else []
        whole = ", ".join(long for long, _ in texts)
        if cells(whole) <= width:
            return whole
        while texts and cells(", ".join(short for _, short in texts)) > width:
            texts.pop()
        return ", ".join(short for _, short in texts)

    def _own_choice(self, rows: Mapping[str, ModelRow]) -> ModelRow | None:
        """Return the row of the engine whose one model is the loaded one."""
        spec = self.chat.spec
        if spec is None or not spec.engine.url:
            return None
        there = [row for row in rows.values() if row.engine == spec.engine.shown]
        one = len(there) == 1 and spec.engine.scheme != "ssh"  # whatever it was asked for with
        return rows.get(spec.engine.asked_as()) if one or spec.path == spec.engine.model else None

    def _unlisted(self) -> ModelRow | None:
        """Make a row for a loaded model that is in no list."""
        spec, info = self.chat.spec, self.chat.model
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


def skipped_lines(skipped: Iterable[Skipped], width: int) -> list[Line]:
    """Render the files and folders that are not in the list, and why."""
    lines: list[Line] = []
    for one in skipped:
        lines += prose(home(one.path), width, TEXT)
        lines += [Line((("  ", MUTED), *line.runs)) for line in prose(one.reason, width - 2, Ink("warning"))]
    return lines


def _in_file(text: str) -> ModelRow:
    """Make a row for the model in a file that is in no list, or with the problem of its path."""
    from termchat.models.catalogue import Catalogue, resolve

    try:
        name, path = resolve(text, Catalogue({}))
        return ModelRow(wanted=text, name=name, state="ready", source="file", path=path, size=path.stat().st_size)
    except (ModelError, OSError) as error:
        problem = f"{error.message}. {error.hint}" if isinstance(error, ModelError) else str(error)
        return ModelRow(wanted=text, name=text, state="broken", source="file", problem=problem.strip())


def _anywhere(text: str) -> ModelRow:
    """Make a row for a model to download that is in no list."""
    source = text.partition("://")[2].partition("/")[0] if "://" in text else "Hugging Face"
    return ModelRow(wanted=text, name=text, state="not downloaded", source=source)
