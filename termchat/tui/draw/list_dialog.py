"""A list to choose from, and text to read.

A list is its rows, its line of one and its actions: `ListDialog` has the rest. The keys of the actions are a group of
`keys/tables.py` and call `action_…` methods; those for the highlighted row are named in `ON_ROW`; one that cannot be undone is
asked for twice with `confirm`, and one that needs a name has it typed with `type_name`.

Textual's `OptionList` lays out all rows at each change (5,000 take a quarter of a second), has no columns that follow the
width, and takes the keyboard from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from termchat.tui.draw.dialog import Dialog, KeyHints, Result
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import MUTED, TITLE, column, length
from termchat.tui.themes.theme_file import Palette

Row = TypeVar("Row")
_WHEEL = 3
"""Lines of text that the wheel scrolls."""
_REST_SECONDS = 0.15
"""Time without a key after which the highlighted row is read."""


class ListColumn(NamedTuple):
    """A column of a list: its title, its width in cells, 0 where there is no room, and the gap after it."""

    title: str
    width: int
    right: bool = False
    gap: int = 0


def fill_columns(columns: Iterable[ListColumn], cells: Mapping[str, Run | list[Run]]) -> list[Run]:
    """Render a row: the cells by the titles of their columns; one of several runs has to fit by itself."""
    runs: list[Run] = []
    for name, width, right, gap in columns:
        cell = cells[name]
        if isinstance(cell, tuple):
            runs.append((column(cell[0], width, right=right) + " " * gap, cell[1]))
        else:
            rest = width - length(cell) + gap
            runs += [*cell, *([(" " * rest, Ink())] if rest else [])]
    return runs


class Picker(Sheet):
    """The rows of a dialog, rendered as far as they are in view, one of them chosen. The dialog has the keyboard."""

    DEFAULT_CSS = "Picker { height: 1fr; }"

    def __init__(self, dialog: ListDialog[Any, Any]) -> None:
        super().__init__(self._arrange)
        self._dialog = dialog
        self._top = self.chosen = 0

    @property
    def line(self) -> int:
        """The line of the chosen row, counted from the first row in view."""
        return self.chosen - self._top

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._dialog.rows)

    def show(self, chosen: int | None = None) -> None:
        """Show the rows of the dialog, with the chosen one in view; also before the dialog is open."""
        self.chosen = min(max(self.chosen if chosen is None else chosen, 0), max(self.count - 1, 0))
        if self.is_attached:
            super().show()

    def _arrange(self) -> list[Line]:
        count, rows = self.count, max(self.size.height, 1)
        last = max(count - rows, 0)
        if self._dialog.HIGHLIGHTS:
            self._top = min(max(self._top, self.chosen - rows + 1), self.chosen, last)
        else:
            self._top = self.chosen = min(self.chosen, last)
        return self._dialog.draw(range(self._top, min(self._top + rows, count)), self.chosen, self.room)

    def move(self, how: str) -> None:
        """Choose another row: up, down, page_up, page_down, first or last."""
        page, end = max(self.size.height - 1, 1), self.count
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -end, "last": end}
        self.show(self.chosen + steps[how])

    def on_click(self, event: events.Click) -> None:
        row = self._top + event.y
        if event.button == 1 and row < self.count and self._dialog.HIGHLIGHTS:
            self.show(row)
            self._dialog.moved()
            if event.chain == 2:
                self.call_later(self.app.run_action, f"press({self._dialog.TWICE!r})")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._turn_wheel(event, "up")

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._turn_wheel(event, "down")

    def _turn_wheel(self, event: events.MouseEvent, how: str) -> None:
        event.stop()
        for _ in range(1 if self._dialog.HIGHLIGHTS else _WHEEL):
            self._dialog.action_move(how)

    def on_resize(self) -> None:
        self.show()


class ListDialog(Dialog[Result], Generic[Row, Result]):
    """A dialog with rows, one of them highlighted.

    A subclass renders a row with `line`, and may render a heading and the details of the highlighted row, which are beside the
    list in the class `-beside`, else below it, and hidden in `-low`.
    """

    DEFAULT_CSS = """
    ListDialog > Vertical { width: 110; height: 100%; max-height: 44; padding: 0 1; }
    ListDialog Picker { margin-top: 1; }
    ListDialog .hint { margin-top: 0; }
    ListDialog Input.-off { display: none; }
    ListDialog #body, ListDialog #list { height: 1fr; }
    ListDialog #body { layout: vertical; }
    ListDialog #list { layers: rows above; }
    ListDialog #list Picker { margin-top: 0; }
    ListDialog #list Input, ListDialog #list Input:focus { layer: above; position: absolute; margin: 0; padding: 0; }
    ListDialog #heading, ListDialog #details { margin-top: 1; }
    ListDialog.-beside #body { layout: horizontal; }
    ListDialog.-beside #list { width: 1fr; }
    ListDialog.-beside #details { height: 1fr; margin: 1 0 0 1; }
    ListDialog.-plain #body { margin-top: 1; }
    ListDialog.-plain.-beside #details { margin: 0 0 0 2; }
    ListDialog.-detailed.-low #details { display: none; }
    ListDialog.-low #heading, ListDialog.-low Input, ListDialog.-low Input:focus { margin-top: 0; }
    """
    EMPTY = ""
    """Text in place of rows."""
    KEYS = "LISTS"
    HIGHLIGHTS = True
    """Whether one of the rows is highlighted; else they only scroll."""
    TWICE = "enter"
    """The key that a double click on a row presses."""
    FIELD = ""
    """Placeholder of the field above the list, "" for none."""
    ON_ROW: Sequence[str] = ()
    """Actions that do nothing without a row."""
    INDENT = "  "
    """The cells before the first column."""
    NAME: str | None = None
    """Placeholder of the field that `type_name` opens; None for none."""
    NAME_COLUMN = 0
    """Column of the highlighted row from which that field covers it; 0 puts it above the list."""
    BESIDE = 110
    """Columns of the screen from which the details stand beside the list."""
    LOW = 20
    """Rows of the screen below which the details are hidden."""

    def __init__(self, palette: Palette, *, text: str = "") -> None:
        """`text` is in the field at first."""
        super().__init__()
        self._palette = palette
        self.rows: Sequence[Row] = ()
        self.picker = Picker(self)
        self.field = Field(text, placeholder=self.FIELD, id="search", select_on_focus=False)
        self._name_field = Field(placeholder=self.NAME or "", id="name", classes="-off", select_on_focus=False)
        self._name_field.can_focus = self.field.cursor_blink = self._name_field.cursor_blink = False
        self._heading = Sheet(lambda: [self.render_heading(self._heading.room)], id="heading")
        self.details = Sheet(self._fill_details, id="details")
        self._name_entered: Callable[[str], object] | None = None
        self.asked = ""
        """The action that `confirm` has asked about."""
        self._rest_timer: Timer | None = None
        self._is_detailed = type(self).render_details is not ListDialog.render_details
        self._has_heading = type(self).columns is not ListDialog.columns

    def compose(self) -> ComposeResult:
        """Lay out for the size of the app, so that rows known by now are in the first frame."""
        self._arrange()
        return super().compose()

    def body(self) -> Iterable[Widget]:
        above = self.NAME is not None and not self.NAME_COLUMN
        yield from self.inputs()
        if above:
            yield self._name_field
        if not self._is_detailed:
            yield self.picker
        else:
            with Container(id="body"):
                with Container(id="list"):
                    if self._has_heading:
                        yield self._heading
                    yield self.picker
                    if self.NAME is not None and not above:
                        yield self._name_field
                yield self.details
        yield self.message_label()

    # --- what a list is made of --------------------------------------------------------------------------------------

    def inputs(self) -> Iterable[Widget]:
        if self.FIELD:
            yield self.field

    def columns(self, width: int) -> Sequence[ListColumn]:
        """Return the columns for a width, whose titles are above the rows."""
        return ()

    def render_heading(self, width: int) -> Line:
        columns = self.columns(width)
        titles = fill_columns(columns, {one.title: (one.title, TITLE) for one in columns})
        return Line(((self.INDENT + "".join(title for title, _ in titles), TITLE),), "surface")

    def line(self, row: Row, width: int, *, chosen: bool) -> Line:
        """Render a row; the list gives the `chosen` one its ground."""
        raise NotImplementedError

    def empty_lines(self, width: int) -> list[Line]:
        """Render what stands in place of rows."""
        return [Line(((self.EMPTY, MUTED),))]

    def render_details(self, row: Row, width: int, height: int) -> list[Line]:
        raise NotImplementedError

    def search(self, text: str) -> None:
        """Take in a change of the field's text."""

    def enter(self, text: str) -> None:
        """Act on Enter in the field with that text."""

    def moved(self) -> None:
        """Take in that another row is highlighted."""
        if self.asked:
            self.withdraw()
        self.show_row()

    # --- rows --------------------------------------------------------------------------------------------------------

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
        return self.rows[self.picker.chosen] if self.picker.chosen < len(self.rows) else None

    @property
    def highlighted(self) -> Row:
        """The highlighted row, for actions in `ON_ROW`."""
        return self.rows[self.picker.chosen]

    def set_rows(self, rows: Sequence[Row], at: int | None = None) -> None:
        """Show other rows with one of them highlighted, by default the same place; also before the dialog is open."""
        self.rows = rows
        self.picker.show(at)
        if self.picker.is_attached:
            self.show_row()

    def show_row(self) -> None:
        """Draw all that may depend on the highlighted row."""
        for sheet in self.query(Sheet).exclude("Picker"):
            sheet.show()
        self.put(".title", self.title_line())
        self.put(".hint", self.hint())

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        shown = self.rows[rows.start : rows.stop]
        if not shown:
            return self.empty_lines(width)
        lines = [self.line(row, width, chosen=at == chosen) for at, row in zip(rows, shown, strict=False)]
        here = chosen - rows.start
        lines[here] = lines[here]._replace(ground="panel")
        return lines

    def at_rest(self, read: Callable[[], object]) -> None:
        """Call `read` once no key has been pressed for a moment: reading takes time from moving on."""
        if self._rest_timer is not None:
            self._rest_timer.stop()
        self._rest_timer = self.set_timer(_REST_SECONDS, read)

    def _fill_details(self) -> list[Line]:
        row, view = self.row, self.details
        return self.render_details(row, view.room, view.size.height) if row is not None else []

    # --- actions -----------------------------------------------------------------------------------------------------

    def confirm(self, action: str) -> bool:
        """Return whether an action is asked for again, so that it is wanted; else ask, in `hints`."""
        again = self.asked == action
        self.asked = "" if again else action
        self.put(".hint", self.hint())
        return again

    def withdraw(self) -> None:
        """Take a question and its message back."""
        self.asked = ""
        self.say("")
        self.put(".hint", self.hint())

    @property
    def is_naming(self) -> bool:
        return self._name_entered is not None

    def type_name(self, name: str, entered: Callable[[str], object]) -> None:
        """Have a name typed, beginning with `name`; `entered` gets it with Enter, and calls `end_naming`."""
        field, self._name_entered = self._name_field, entered
        field.value, field.cursor_position, field.can_focus = name, len(name), True
        field.remove_class("-off")
        if self.NAME_COLUMN:
            top = self.picker.region.y - self.query_one("#list").region.y
            field.styles.offset = (self.NAME_COLUMN, top + self.picker.line)
            field.styles.width = max(self.picker.size.width - self.NAME_COLUMN, 1)
        self.set_focus(field)
        self.withdraw()

    def end_naming(self) -> None:
        self._name_entered, self._name_field.can_focus = None, False
        self._name_field.add_class("-off")
        self.set_focus(self.field if self.FIELD else None)
        self.withdraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the list while a name is typed, and those for a row without one."""
        return action == "close" or not (self.is_naming or (action in self.ON_ROW and self.row is None))

    def action_close(self) -> None:
        """Close what was opened last: the name, a question, or the dialog."""
        if self.is_naming:
            self.end_naming()
        elif self.asked:
            self.withdraw()
        else:
            super().action_close()

    def action_move(self, how: str) -> None:
        self.picker.move(how)
        self.moved()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.field:
            self.search(event.value)
        elif self.is_naming:
            self.withdraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self.field:
            self.enter(event.value)
        elif self._name_entered is not None:  # a second Enter in the same burst does nothing
            self._name_entered(" ".join(event.value.split()))

    # --- layout ------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.paint_with(self._palette)

    def paint_with(self, palette: Palette) -> None:
        for sheet in self.query(Sheet):
            sheet.paint_with(palette)

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        if self._is_detailed:
            width, height = self.app.size
            self.set_class(width >= self.BESIDE, "-beside")
            self.set_class(height < self.LOW, "-low")
            self.add_class("-detailed", *([] if self._has_heading else ["-plain"]))


class ReadDialog(ListDialog[Line, None]):
    """Text to read: its lines are scrolled, and none is highlighted."""

    HINTS: KeyHints = (
        ("list-up", "line"), ("list-page-up", "page"), ("read-first", "start and end"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "READING"
    HIGHLIGHTS = False

    def __init__(
        self,
        palette: Palette,
        title: str = "",
        text: Callable[[int], list[Line]] = lambda _: [],
        *,
        hint: str = "",
    ) -> None:
        """`text` renders all lines for a width in cells; a subclass may override `render_text` instead."""
        super().__init__(palette)
        self._title_text, self._text_lines, self.HINT = title or self.TITLE, text, hint or self.HINT

    def title_line(self) -> str:
        return self._title_text

    def render_text(self, width: int) -> list[Line]:
        """Render all lines, at most `width` cells wide."""
        return self._text_lines(width)

    def lay_out(self) -> None:
        """Render the text again, after it has changed."""
        self.set_rows(self.render_text(self.picker.room))

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        return list(self.rows[rows.start : rows.stop])

    def on_lines_view_laid(self) -> None:
        self.lay_out()
