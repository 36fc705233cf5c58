"""Small lists and a question: earlier and queued messages, breakpoints, keys, themes, and what to drop from a full context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from textual.content import Content
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Label

from termchat.chat.changes import Full, Way
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding.conditions import EXAMPLES, ConditionError, format_condition, parse
from termchat.text import one_line, sanitize
from termchat.tui.composer.chat_composer import matches
from termchat.tui.draw.dialog import Dialog
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.list_dialog import ListDialog, ReadDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, bar, column, prose
from termchat.tui.keys import tables
from termchat.tui.keys.key import displayed, families, keys_of
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import AUTO, Palette
from termchat.tui.transcript.looks import legend_line

_MOST_DRAWN = 2_000
"""Characters of a message that are drawn."""
_INTERVAL = 0.2
"""Seconds between looks at the queue."""
_KEY = 14
"""Cells of the column with the keys."""
_THEME = 18
_GROUND = "code_background"
_CODE, _PLAIN, _SAID = (Ink(color, _GROUND) for color in ("code_keyword", "code", "code_comment"))
_SAMPLE: Sequence[Line] = (
    Line(((" you  ", Ink("user", bold=True)), ("Write a story.", TEXT)), "panel"),
    Line(((" model ", Ink("reply")), ("Once upon a time a ", TEXT), ("fox", STRONG), (" met …", TEXT))),
    Line(((" def ", _CODE), ("fox", Ink("code_name", _GROUND)), ("():  ", _PLAIN), ("# sly", _SAID)), _GROUND),
    Line((
        (" changed", Ink("stamp")), (" fine", Ink("success")), (" warning", Ink("warning")), (" error", Ink("error")),
        (" link", Ink("link")),
    )),
    Line(((" k ", ACCENT), ("top_k  ", TEXT), *bar(0.4, 16), ("   left 23", MUTED))),
    BLANK,
    Line(((" ", TEXT), *legend_line("probability").runs)),
)  # fmt: skip
"""The colours of a theme: speakers, marks, code, a bar, and the heat."""
_LIMITS = {
    "none": "NO_COLOR is set, so bold, underline and reverse replace colours.",
    "16": "This terminal has 16 colours; these themes use its own palette.",
}
_ACTIONS = {
    "pause": ("pauses at  ", Ink("stamp")),
    "stop": ("stops  at  ", Ink("warning")),
    "ignore": ("ignores    ", Ink("stamp")),
}


class HistoryDialog(ListDialog[str, str]):
    """Earlier messages, the newest first; the result is the one to write again. `typed` is searched for at first."""

    DEFAULT_CSS = "HistoryDialog Input { margin-bottom: 0; }"
    TITLE = "Message history"
    FIELD = "search"
    HINTS = (("history-enter", "puts it back into the composer"), ("close", "closes"))
    KEYS = "MESSAGE HISTORY"

    def __init__(self, palette: Palette, texts: Sequence[str], typed: str) -> None:
        typed = typed if "\n" not in typed else ""
        super().__init__(palette, text=typed)
        self._texts = texts
        self.search(typed)

    def search(self, text: str) -> None:
        self.set_rows([one for one in self._texts if matches(one, text)] if text else self._texts, 0)

    def line(self, row: str, width: int, *, chosen: bool) -> Line:
        return Line(((one_line(row[:_MOST_DRAWN], width), STRONG if chosen else TEXT),))

    def empty_lines(self, width: int) -> list[Line]:
        return [Line((("no message matches" if self._texts else "no messages yet", MUTED),))]

    def enter(self, text: str) -> None:
        if self.row is not None:
            self.dismiss(self.row)


class QueueDialog(ListDialog[tuple[int, str], int]):
    """Numbered messages, the next to be sent first; the result is the index of the one to edit. A message that is sent leaves
    the list."""

    DEFAULT_CSS = "QueueDialog > Vertical { max-height: 20; }"
    TITLE = "Queued messages"
    EMPTY = "the queue is empty"
    HINTS = (
        ("queue-edit", "edits it"), ("queue-remove", "removes it"), ("queue-earlier", "moves it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "QUEUE"

    def __init__(self, palette: Palette, chat: Chat) -> None:
        super().__init__(palette)
        self._chat = chat

    def on_mount(self) -> None:
        self.set_interval(_INTERVAL, self._refresh)
        self._refresh()

    def line(self, row: tuple[int, str], width: int, *, chosen: bool) -> Line:
        number, text = row
        return Line(((f"{number:>2}  ", MUTED), (one_line(text[:_MOST_DRAWN], width - 4), STRONG if chosen else TEXT)))

    def action_edit(self) -> None:
        if self._refresh():
            self.dismiss(self.picker.chosen)

    def action_drop(self) -> None:
        if self._refresh():
            self._chat.turns.take_back(self.picker.chosen)
            self._refresh()

    def action_shift(self, rows: int) -> None:
        to = self.picker.chosen + rows
        if self._refresh() and 0 <= to < len(self.rows):
            self._chat.turns.move_queued(self.picker.chosen, to)
            self.set_rows(list(enumerate(self._chat.turns.queue, 1)), to)

    def _refresh(self) -> bool:
        """Show the queue as it is; the highlight stays on its message while that waits. Return whether the rows were right."""
        before, texts = self.row, list(self._chat.turns.queue)
        rows = list(enumerate(texts, 1))
        if rows == self.rows:
            return bool(rows)
        self.set_rows(rows, texts.index(before[1]) if before is not None and before[1] in texts else None)
        return False


class BreakpointsDialog(ListDialog[Breakpoint, None]):
    """The breakpoints and stop rules of the chat, and a field for one more. Changes apply at once, also to a running reply."""

    DEFAULT_CSS = "BreakpointsDialog > Vertical { width: 76; max-height: 24; }"
    TITLE = "Breakpoints and stop rules"
    FIELD = "entropy > 3"
    HINT = "stop RULE ends the reply, RULE pauses it."
    HINTS = (
        ("rule-enter", "adds the rule, or turns the selected one on or off"),
        ("rule-delete", "deletes it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "BREAKPOINTS"

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__(palette)
        self._chat = chat
        self.field.suggester = SuggestFromList([*EXAMPLES, *map("stop {}".format, EXAMPLES[:-1])])
        self.set_rows(chat.breakpoints)

    def line(self, row: Breakpoint, width: int, *, chosen: bool) -> Line:
        """Render a rule: its switch, its action and its condition."""
        does, ink = _ACTIONS[row.condition.action]
        words = format_condition(row.condition).removeprefix("stop ").removeprefix("ignore ")
        text = one_line(words, max(width - 15, 4))
        box = "[x] " if row.enabled else "[ ] "
        return Line(((box, ACCENT), (does, ink if row.enabled else MUTED), (text, TEXT if row.enabled else MUTED)))

    def empty_lines(self, width: int) -> list[Line]:
        half = width // 2
        pairs = zip_longest(EXAMPLES[::2], EXAMPLES[1::2], fillvalue="")
        texts = ("for example:", *(f"{column(one, half)}{other}" for one, other in pairs))
        return [Line(((one_line(text, width), MUTED),)) for text in texts]

    def search(self, text: str) -> None:
        self.say("")

    def enter(self, text: str) -> None:
        """Add the typed rule and highlight it; without one, turn the highlighted rule on or off."""
        rules, chosen = self._chat.breakpoints, self.picker.chosen
        if not text.strip():
            rows = enumerate(rules)
            self._set_rules(tuple(Breakpoint(rule.condition, rule.enabled != (at == chosen)) for at, rule in rows))
            return
        try:
            condition = parse(text)
        except ConditionError as error:
            self.say(str(error))
            return
        self.field.clear()
        if all(rule.condition != condition for rule in rules):
            rules = (*rules, Breakpoint(condition))
        self._set_rules(rules, [rule.condition for rule in rules].index(condition))

    def action_drop(self) -> None:
        self._set_rules(tuple(rule for at, rule in enumerate(self._chat.breakpoints) if at != self.picker.chosen))

    def _set_rules(self, rules: tuple[Breakpoint, ...], at: int | None = None) -> None:
        if rules != self._chat.breakpoints:
            self._chat.set_breakpoints(rules)
        self.set_rows(self._chat.breakpoints, at)


class KeyList(ReadDialog):
    """All keys, those of the place where it was opened first, filtered by the words typed.

    `place` is the title of the group that is listed first.
    """

    TITLE = "Keys"
    HINT = "Remap a key under [keys] in config.toml, using the id in [brackets]."
    FIELD = "filter"
    HINTS = (("list-up", "line"), ("list-page-up", "page"), ("close", "closes"))
    KEYS = "LISTS"

    def __init__(self, palette: Palette, place: str) -> None:
        super().__init__(palette)
        here = [group for group in tables.GROUPS if group.title == place]
        beside = [group for group in tables.GROUPS if any(group.table in one.at for one in here)]
        self._groups = list({group.title: group for group in (*here, *beside, *tables.GROUPS)}.values())

    def search(self, text: str) -> None:
        self.picker.move("first")
        self.lay_out()

    def render_text(self, width: int) -> list[Line]:
        """Render a line per key, or more if its help is long."""
        words = self.field.value.lower().split()
        lines: list[Line] = []
        for group in self._groups:
            title = [BLANK] * bool(lines) + [Line(((group.title, TITLE),))]
            for family in families(group.table):
                first, names = family[0], displayed(family)
                parts = (group.title, names, first.help, *(key.id for key in family), *keys_of(first))
                if not all(word in " ".join(parts).lower() for word in words):
                    continue
                ids = f"[{first.id}]" if first.action else ""
                text = prose(f"{first.help} {ids}", max(width - _KEY, 1))
                labels = [names or "no key", *[""] * len(text)]
                ink = ACCENT if names else MUTED
                lines += title
                lines += [
                    Line(((column(name, _KEY), ink), *line.runs)) for name, line in zip(labels, text, strict=False)
                ]
                title = []
        return lines or [Line((("no key matches", MUTED),))]


class ThemePicker(ListDialog[str, str]):
    """All themes; the highlighted one is shown at once, on the chat and on a sample.

    Its result is the name of the chosen theme, or "auto". `preview` shows one; the caller undoes that after Esc.
    """

    DEFAULT_CSS = """
    ThemePicker { align: right middle; background: transparent; }
    ThemePicker > Vertical { width: 46; max-height: 32; }
    ThemePicker.-tight #body { margin-top: 0; }
    ThemePicker #details { height: 7; }
    """
    TITLE = "Themes"
    HINTS = (("list-up", "shows"), ("theme-keep", "keeps"), ("close", "cancels"))
    KEYS = "THEMES"
    BESIDE = 1 << 20
    LOW = 16

    def __init__(self, chooser: ThemeChooser, preview: Callable[[str], None]) -> None:
        super().__init__(chooser.of(chooser.wanted))
        self._chooser, self._preview = chooser, preview
        shown = chooser.all() if chooser.depth != "none" else ()
        names = [AUTO, *sorted(shown, key=lambda name: (not chooser.of(name).dark, name))]
        self.set_rows(names, names.index(chooser.wanted) if chooser.wanted in names else 0)
        self.problem = "; ".join(map(str, chooser.problems))

    def hint(self) -> Content:
        return tables.hint(*self.HINTS, before=_LIMITS.get(self._chooser.depth, ""))

    def moved(self) -> None:
        assert self.row is not None
        self._preview(self.row)
        self.paint_with(self._chooser.of(self.row))

    def action_keep(self) -> None:
        self.dismiss(self.row)

    def line(self, row: str, width: int, *, chosen: bool) -> Line:
        kept = "●" if row == self._chooser.wanted else " "
        kind = "match the terminal" if row == AUTO else "dark" if self._chooser.of(row).dark else "light"
        return Line(((f"{kept} ", ACCENT), (column(row, _THEME), STRONG if chosen else TEXT), (kind, MUTED)))

    def render_details(self, row: str, width: int, height: int) -> list[Line]:
        return list(_SAMPLE)


class FullDialog(Dialog[Way]):
    """Asks what to do when the context is full; None means nothing."""

    KEYS = "CONTEXT FULL"
    TITLE = "The context is full"

    def __init__(self, full: Full) -> None:
        super().__init__()
        self._full = full

    def body(self) -> Iterable[Widget]:
        full = self._full
        turns = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
        if full.failure is not None:
            why, then, back = full.failure.message, "send the message", "put the message back into the composer"
        else:
            why, then = "the reply was cut off because the context is full", "regenerate the reply"
            back = "leave the chat as it is now"
        yield Label(sanitize(why, keep=""), classes="hint", markup=False)
        drop = tables.link("full-drop", f"drop {turns} from the model's context, then {then}", gap="  ")
        yield Label(drop, classes="hint", markup=False)
        if full.can_summarise:
            summarise = f"let the model summarise {turns}, then {then}"
            yield Label(tables.link("full-summarise", summarise, gap="  "), markup=False)
        yield Label(tables.link("close", back, gap="  "), markup=False)

    def hint(self) -> Content:
        return Content("Nothing is deleted: the turns stay in the saved chat.")

    def action_choose(self, way: Way) -> None:
        if way != "summarise" or self._full.can_summarise:
            self.dismiss(way)
