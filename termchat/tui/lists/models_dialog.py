"""All models: to load, to download, to look at, and to set how each runs; with a welcome where there is none yet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import wrap

from textual.content import Content
from textual.widget import Widget

from termchat.chat.changes import Notice
from termchat.chat.loading import Choice
from termchat.config.per_model import Picked
from termchat.engine.address import SIGN
from termchat.models.disk.discovery import Skipped
from termchat.models.errors import ModelError
from termchat.models.listing import ModelRow
from termchat.text import cells, home, size
from termchat.tui.context import ScreenContext
from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.list_dialog import ListColumn, ListDialog, ReadDialog
from termchat.tui.draw.marks import MUTED, TEXT, prose
from termchat.tui.keys.tables import hint
from termchat.tui.lists.engine_dialog import EngineDialog
from termchat.tui.lists.gather import Facts, Models, Pull, file_of
from termchat.tui.lists.model_lines import (
    DRAFT_ROLES,
    STATES,
    DraftRole,
    Item,
    State,
    first_run_lines,
    list_columns,
    matches,
    model_line,
    model_lines,
    rank,
)
from termchat.tui.terminal.screens import draw_now

_ANYWHERE = re.compile(r"https?://\S+|hf\.co/\S+|[\w.-]+/[\w.-]+\S*")
"""A filter that may name a model to download."""
_PATH = ("/", "~", "./", "../")
"""How a filter begins that is a path."""
_WIDEST = 180
_HINT_LINES = 2
"""Lines of keys below the list on a low screen."""


class ModelsDialog(ListDialog[Item, Choice]):
    """All models. The result is the one to chat with; downloads continue after it is closed.

    Args:
        draft: has a model draft for the loaded one, by what it is asked for with; "" has none.
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
    ON_ROW = ("engine", "draft", "cancel")
    FIELD = "type a filter, a path, or owner/repo to download from Hugging Face"
    KEYS = "MODELS"
    BESIDE = 118

    def __init__(
        self,
        screen: ScreenContext,
        models: Models,
        draft: Callable[[str], None],
        problem: str = "",
        *,
        first: bool = False,
    ) -> None:
        super().__init__(screen.palette)
        self.chat, self.models, self._draft_with, self.problem = screen.chat, models, draft, problem
        self.set_class(first, "-first")
        self._selected = models.config.model if problem else ""
        """The model to highlight once it is listed, by what it is asked for with; "" for the first."""
        self._welcome = Sheet(self._fill_welcome, id="welcome") if first else None
        self._engine_of = ""
        """The model whose settings are shown as soon as its file is read."""
        self._asked = ""
        """The engine that a person had asked again."""
        self._seen = self.chat.phase, self.chat.host.drafter, self.chat.host.drafter_failure, models.news
        self._order_models()
        self._filter_rows()

    def inputs(self) -> Iterable[Widget]:
        if self._welcome is not None:
            yield self._welcome
        yield self.field

    def on_mount(self) -> None:
        self.set_interval(1 / FRAMES, self._take_news)
        self.call_after_refresh(self.models.look)

    def on_lines_view_laid(self) -> None:
        self.show_rows()

    def line(self, row: Item, width: int, *, chosen: bool) -> Line:
        return model_line(row, width, self.longest)

    def empty_lines(self, width: int) -> list[Line]:
        looking = self.models.looking or not self.models.rows
        return [Line((("looking …" if looking else "no model matches", MUTED),))]

    def _take_news(self) -> None:
        """Take in the results of threads and changes of the chat; tell what became of a draft model."""
        self.models.take()
        host, before = self.chat.host, self._seen
        self._seen = self.chat.phase, host.drafter, host.drafter_failure, self.models.news
        if host.drafter_failure not in (None, before[2]):
            self.say("; ".join(filter(None, (host.drafter_failure.message, host.drafter_failure.hint))))
        elif host.drafter is not None and host.drafter != before[1]:
            self.tell(f"{host.drafter.name} drafts for {self.loaded.name if self.loaded else 'it'}")
        elif host.drafter is None and before[1] is not None and self.drafted_for is not None:
            self.tell(f"{before[1].name} is unloaded and drafts no more")
        if before != self._seen:
            self.list_models()
        elif self.models.downloads:
            self.set_rows(self.rows)

    def list_models(self) -> None:
        """List all models again, with the facts that are known by now."""
        self._order_models()
        self.show_rows()
        self._open_engine()
        if self._asked and not self.models.asks(self._asked):
            problem = self.models.rows[f"{SIGN}{self._asked}"].problem
            self.say(problem) if problem else self.tell(f"{self._asked} answers")
            self._asked = ""

    def show_rows(self) -> None:
        """Draw the rows with the selected one highlighted, and have their files read once they stay in view."""
        self._filter_rows()
        self.set_rows(self.rows, next((at for at, item in enumerate(self.rows) if item.wanted == self._selected), 0))
        self.at_rest(self._read_files)

    def columns(self, width: int) -> list[ListColumn]:
        return list_columns(width, self.longest)

    def render_details(self, row: Item, width: int, height: int) -> list[Line]:
        item = row._replace(recommended=self.models.recommended(row.row), speculation=self._describe_drafts(row))
        return model_lines(item, width, height)

    def _fill_welcome(self) -> list[Line]:
        assert self._welcome is not None
        rows = [row for row in self.models.rows.values() if not row.engine]
        return first_run_lines(rows, self._welcome.room, looking=self.models.looking or not rows)

    def hint(self) -> Content:
        """Name as many keys as fit, always the one that closes."""
        does: list[tuple[str, str]] = []
        state, note = None, ""
        if (item := self.row) is not None:
            state, note = item.state, STATES[item.state].note
            does = [*STATES[item.state].hints, *(DRAFT_ROLES[item.drafts].hints if item.drafts else ())]
        does += [("model-skipped", "skipped files")] if self.models.skipped else []
        end = ("close", "closes; the download continues" if state == "downloading" else "closes")
        width = max(min(self.app.size.width, _WIDEST) - 4, 1)
        while does and len(wrap(hint(*does, end, before=note).plain, width)) > _HINT_LINES:
            does.pop()
        return hint(*does, end, before=note)

    def title_line(self) -> str:
        """Return the title with the numbers of models and the free memory."""
        if self._welcome is not None:
            return "Welcome to termchat"
        local = [item.row for item in self._ordered if not item.row.engine]
        here, spare = sum(row.state == "ready" for row in local), size(self.spare)
        texts = [f"{here} on this machine", f"{len(local) - here} to download"] if self._ordered else []
        texts += ["looking …"] if self.models.looking else []
        texts += [f"{spare} of memory free"] if spare else []
        return f"{self.TITLE}   {', '.join(texts)}"

    def _read_files(self) -> None:
        """Read the files of the rows in view, the highlighted one first."""
        at, height = self.picker.chosen, max(self.picker.size.height, 1)
        first = [self.row.row] if self.row is not None else []
        loaded = [self.loaded] if self.loaded is not None else []
        near = [item.row for item in self.rows[max(at - height, 0) : at + height]]
        self.models.read([*first, *loaded, *near], self.drafted_for)

    def search(self, text: str) -> None:
        self.say("")
        self._selected = ""
        self.show_rows()
        draw_now(self)  # whoever types waits for it

    def enter(self, text: str) -> None:
        item = self.row
        if item is None or not self.is_current:  # a second Enter in the same burst does nothing
            return
        self.say("")
        match item.state:
            case "loaded" | "loading":
                self.dismiss(None)
            case "on disk" | "elsewhere":
                if not self._refuse_while_busy():
                    self.models.choose(item.wanted, self.take_choice)
            case "downloading":
                self.say("already downloading; Del stops it")
            case "not downloaded":
                self.models.pull(item.row)
                self.list_models()
            case "no answer":
                self._ask_again(item.row)
            case "not installed" | "broken":
                self.say(item.row.problem)

    def moved(self) -> None:
        self._selected = self.row.wanted if self.row is not None else ""
        self.show_row()
        self.at_rest(self._read_files)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Del to the filter without a download to stop."""
        stops = self.row is not None and self.row.state == "downloading"
        return super().check_action(action, parameters) and (action != "cancel" or stops)

    def action_cancel(self) -> None:
        if (pull := self.highlighted.pull) is not None:
            pull.cancel()

    def action_unload(self) -> None:
        loaded = self.loaded
        if loaded is not None and not self._refuse_while_busy():
            self.chat.loading.unload_model()
            unloaded = "is unloaded and its memory is free; the next message reloads it"
            disconnected = "is disconnected, and its server keeps the model; the next message connects again"
            self.tell(f"{loaded.name} {disconnected if loaded.is_server else unloaded}")
            self._look_again()

    def action_draft(self) -> None:
        item = self.highlighted
        self.say("")
        if item.drafts == "draft model":
            self._draft_with("")
        elif why_not := self._why_not_draft(item):
            self.say(why_not)
        else:
            self.tell(f"loading {item.row.name} to draft …")
            self._draft_with(item.wanted)

    def action_reload(self) -> None:
        """Reload the loaded model, or ask the highlighted engine again."""
        item = self.row
        if item is not None and item.state in ("elsewhere", "no answer"):
            self._ask_again(item.row)
        elif self.chat.spec is not None and not self._refuse_while_busy():
            self.chat.loading.reload_model()
            self.dismiss(None)

    def action_skipped(self) -> None:
        self.app.push_screen(ReadDialog(self._palette, "Skipped files", partial(skipped_lines, self.models.skipped)))

    @property
    def gathers(self) -> bool:
        """Whether its rows, or the model or the settings that were asked for, are not there yet."""
        return self.models.looking or self.models.chooses or not self.models.rows or bool(self._engine_of)

    def action_engine(self) -> None:
        row = self.highlighted.row
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
        """Show the settings that were asked for, once the file of the model is read."""
        item = self.row
        facts = item.facts if item is not None and item.wanted == self._engine_of else None
        if item is None or facts is None or not self.is_current:
            return
        self._engine_of = ""
        if isinstance(facts, ModelError):
            self._say_error(facts)
            return

        def closed(picked: Picked | None) -> None:
            if picked == facts.run.picked and self._make_item(item.row).state == "loaded":
                self.dismiss(None)
            elif picked is not None:
                self._save_settings(item.row, replace(facts, run=facts.run._replace(picked=picked)))
                self.list_models()
                self.models.choose(item.wanted, self.take_choice)

        self.app.push_screen(EngineDialog(self._palette, item, self.chat), closed)

    def _save_settings(self, row: ModelRow, facts: Facts) -> None:
        if self.chat.lesson:
            self.chat.add_changes(Notice("these settings last until you leave the lesson"))
        if problem := self.models.pick(row, facts, lesson=bool(self.chat.lesson)):
            text = f"the settings of {row.name} could not be saved: {problem}"
            self.chat.add_changes(Notice(text, "they apply until you quit termchat", "warning"))

    def take_choice(self, choice: Choice | ModelError) -> None:
        """Close with a model that was read, if the list is still there, or show the problem with it."""
        if self.is_attached and isinstance(choice, ModelError):
            self._say_error(choice)
        elif self.is_attached and isinstance(choice, Choice) and not self._refuse_while_busy():
            self.dismiss(choice)

    def show_pulled(self, pull: Pull, wanted: str) -> None:
        """Show the end of a download; from now on its model is asked for with `wanted`."""
        if pull.path is not None:
            self._selected = wanted if self._selected == pull.wanted else self._selected
            self.tell(f"{pull.wanted} is downloaded; Enter chats with it")
        elif pull.problem is not None and not pull.cancelled:
            self._say_error(pull.problem)
        self._look_again()

    def _look_again(self) -> None:
        self.list_models()
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
        drafter, rows = self.chat.host.drafter, dict(self.models.rows)
        self.loaded: ModelRow | None = self._find_loaded()
        self._drafter = self.models.in_file(drafter.path) if drafter is not None else ""
        if self.loaded is not None:
            rows[self.loaded.wanted] = self.loaded
        info, here = self.chat.model, self.loaded is not None and self.loaded.path is not None
        drafts = here and info is not None and "drafts" in self.chat.engine.offers
        self.drafted_for = self.loaded if drafts else None
        """The loaded model, if others of this machine can draft for it."""
        # The memory of a GPU is not looked at.
        self.spare = self.models.spare(self.loaded) if info is None or not info.gpu_layers else None
        """Bytes of memory that a model may take; None where unknown."""
        self._ordered = sorted(map(self._make_item, rows.values()), key=rank)

    def _find_loaded(self) -> ModelRow | None:
        """Find the row of the model that is loaded or loading; make one if it is in no list."""
        spec, info, rows = self.chat.spec, self.chat.model, self.models.rows
        if spec is None or (info is None and self.chat.phase != "loading"):
            return None
        engine = spec.engine
        wanted = engine.asked_as(spec.path) if engine.url else self.models.in_file(file_of(spec))
        if wanted not in rows and engine.url:
            there = [one for one in rows.values() if one.engine == engine.shown]
            if spec.path == engine.model or (len(there) == 1 and engine.scheme != "ssh"):
                wanted = engine.asked_as()  # whatever it was asked for with
        row = rows.get(wanted)
        # An engine may have got another model in place of the one that was loaded.
        if row is not None and (info is None or not row.serves or info.path in row.serves):
            return row
        if info is None or not (spec.path or engine.url):  # a recording has no file
            return None
        place = engine.shown if engine.url else ""
        return ModelRow(
            wanted=engine.asked_as(spec.path or info.path) if place else spec.path,
            name=f"{place}: {info.name}" if place else info.name,
            state="ready",
            engine=place,
            source=engine.url,
            architecture=info.architecture,
            quantization=info.quantization,
            context=(info.context if place else info.context_trained) or None,
            size=info.size,
            path=None if place else file_of(spec),
        )

    def _filter_rows(self) -> None:
        """List the models with all the typed words, else the one that the text names: a file, or a model to download."""
        text = self.field.value.strip()
        words = text.lower().split()
        rows = [item for item in self._ordered if matches(item.row, words)]
        if not rows and text.startswith(_PATH):
            file = Path(os.path.expanduser(text))
            rows = [self._make_item(ModelRow(wanted=text, name=file.stem, state="ready", source="file", path=file))]
        elif not rows and _ANYWHERE.fullmatch(text):
            source = text.partition("://")[2].partition("/")[0] if "://" in text else "Hugging Face"
            rows = [self._make_item(ModelRow(wanted=text, name=text, state="not downloaded", source=source))]
        self.longest = max((cells(item.row.name) for item in (*self._ordered, *rows)), default=0)
        """Cells of the longest name of all."""
        self.rows = rows

    def _make_item(self, row: ModelRow) -> Item:
        models, loaded, drafted_for = self.models, self.loaded, self.drafted_for
        info, pull, facts = None, models.pulls.get(row.wanted), models.facts(row)
        if loaded is not None and row.wanted == loaded.wanted:
            info = self.chat.model
            state: State = "loaded" if info is not None else "loading"
        elif pull is not None and pull.running:
            state = "downloading"
        elif pull is not None and pull.path is not None and pull.path.exists():  # and the list does not know it yet
            state = "on disk"
        elif row.engine:
            state = "elsewhere" if row.state == "ready" else "no answer"
        else:
            state = "on disk" if row.state == "ready" else row.state
        drafts: DraftRole = ""
        why_not = None
        if drafted_for is not None and row.wanted != drafted_for.wanted:
            why_not = models.why_not_draft(row, drafted_for) if row.path is not None else None
            drafts = "draft model" if row.wanted == self._drafter else "can draft" if why_not == "" else ""
        pull = pull if pull is not None and pull.path is None else None
        since = models.silent.get(row.engine)
        return Item(row, state, facts, self.spare, pull, drafts, why_not, since, info)

    def _why_not_draft(self, item: Item) -> str:
        """Explain why a model cannot draft for the loaded one; "" if it can, and while unknown."""
        row, loaded = item.row, self.drafted_for
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
        return f"{row.name} cannot draft for {loaded.name}: {item.why_not_draft}" if item.why_not_draft else ""

    def _describe_drafts(self, item: Item) -> str:
        """Describe a model's part in speculation; "" for none, and while unknown."""
        row, loaded, host = item.row, self.drafted_for, self.chat.host
        able = row.draft_model
        if loaded is not None and row.wanted == loaded.wanted:
            if host.drafter is not None:
                return f"{host.drafter.name} drafts for it"
            if host.drafter_failure is not None:
                return host.drafter_failure.message
            able = ", ".join(one.row.name for one in self._ordered if one.drafts) or able
        elif loaded is not None and item.drafts == "draft model":
            return f"it drafts for {loaded.name}"
        elif loaded is not None and item.why_not_draft:
            return f"it cannot draft for {loaded.name}: {item.why_not_draft}"
        elif loaded is not None and (item.drafts or row.wanted == loaded.draft_model):
            # The smaller it is, the sooner its drafts pay.
            share = f", with {row.size / loaded.size:.0%} of its size" if row.size and loaded.size else ""
            return f"it can draft for {loaded.name}{share}"
        return f"{able} can draft for it" if able else ""


def skipped_lines(skipped: Iterable[Skipped], width: int) -> list[Line]:
    """Render the files and folders that are not in the list, and why."""
    lines: list[Line] = []
    for one in skipped:
        lines += prose(home(one.path), width, TEXT)
        lines += [Line((("  ", MUTED), *line.runs)) for line in prose(one.reason, width - 2, Ink("warning"))]
    return lines
