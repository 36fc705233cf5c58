"""The lower edge: the composer, and the key line, which is TUNE's while that is open."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import DescendantFocus, Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui.composer.composer import Composer
from termchat.tui.context import ScreenContext
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.draw.marks import length
from termchat.tui.pages.tune import Tune
from termchat.tui.screen.keyline import KeyLine
from termchat.tui.themes.theme_file import Palette

INVITATION = "write a message"


class BottomBar(Column):
    """Writing, or turning knobs. TUNE keeps its knob while the app runs, and its undo while the chat stays the same."""

    DEFAULT_CSS = """
    BottomBar, BottomBar > Row { height: auto; }
    BottomBar #prompt { width: 3; }
    BottomBar StopInput, BottomBar StopInput:focus { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self, context: ScreenContext, tune: Tune) -> None:
        super().__init__()
        self._chat_screen = context
        self._tune = tune
        self._conversation = context.chat.conversation

    def compose(self) -> ComposeResult:
        composer = self._chat_screen.composer
        yield composer.popup
        yield composer.edge
        with Row():
            yield LinesView(id="prompt")
            yield composer
        yield Slip(id="stops")
        yield StopInput(placeholder="text that ends the reply; \\n is a line break; type it again to remove it")
        yield KeyLine()

    @property
    def tune(self) -> Tune | None:
        """TUNE, while it is open."""
        return self.keys.tuning

    @property
    def knobs(self) -> Tune:
        """TUNE, open or not."""
        return self.tune or self._tune

    def follow(self) -> None:
        """Forget what can be undone if another chat is shown: that has knobs of its own."""
        if self._chat_screen.chat.conversation is not self._conversation:
            self._conversation = self._chat_screen.chat.conversation
            self._tune.forget()

    def open_tune(self, tune: Tune | None = None) -> None:
        """Open TUNE; `tune` turns other knobs than the chat's."""
        self.keys.tuning = tune or self._tune
        self.screen.set_focus(self.keys)  # not focus(): the very next key is for it
        self.post_message(KeyLine.Turned())

    def close_tune(self) -> None:
        self.knobs.drop()
        self.keys.tuning = None
        self._edit_stops(False)
        self._chat_screen.take_keyboard()
        self.post_message(KeyLine.Turned())

    @property
    def tune_home(self) -> Widget | None:
        """The widget of TUNE that takes keys, while it is open."""
        if self.tune is None:
            return None
        return self._input if self.knobs.editing else self.keys

    def back(self) -> bool:
        """Close the innermost part of TUNE; return False if it is not open."""
        if self.tune is None:
            return False
        if self.knobs.editing:
            self._edit_stops(False)
            self.screen.set_focus(self.keys)
        elif not self.tune.drop():
            self.close_tune()
        self.post_message(KeyLine.Turned())
        return True

    def show_way(self, words: str, *, instead: bool) -> None:
        """Show who gets letters besides the composer: in a blank field before the invitation to write, or `instead` of it."""
        invitation = " · or ".join(filter(None, (words, "" if words and instead else INVITATION)))
        composer = self._chat_screen.composer
        if composer.placeholder != invitation:
            composer.placeholder = invitation
        composer.edge.head("" if composer.is_blank else words)

    def paint_with(self, palette: Palette) -> None:
        for view in self.query(LinesView):
            view.paint_with(palette)

    def on_mount(self) -> None:
        self.query_one("#prompt", LinesView).show_lines([Line((("›", Ink("accent", bold=True)),))])

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget is not self.screen.focused:
            return  # a key that came meanwhile has given the keyboard to somebody else
        if self.tune is not None and isinstance(event.widget, Composer):
            self.close_tune()
        elif self.tune is None and event.widget is self.keys:
            self._chat_screen.take_keyboard()

    def on_key_line_stops_wanted(self, event: KeyLine.StopsWanted) -> None:
        if KNOBS[self.knobs.selected].kind == "biases":
            return  # the screen has a dialog for them
        event.stop()
        self._edit_stops(True)
        self.screen.set_focus(self._input)  # not focus(): the very next key is for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value:
            self.back()
            return
        self.knobs.write(event.value)
        self._stops_changed()

    def on_stop_input_kept(self) -> None:
        if self.knobs.selected != "stop":
            return
        self.knobs.toggle_stop_after(self._input.value)
        self._stops_changed()

    def _stops_changed(self) -> None:
        if not self.knobs.error:
            self._input.clear()
        self._list_stops()
        self.post_message(KeyLine.Turned())

    def on_stop_input_erased(self) -> None:
        self.knobs.drop_text()
        self._list_stops()
        self.post_message(KeyLine.Turned())

    def _edit_stops(self, editing: bool) -> None:
        """Open or close the input for texts; it always opens empty."""
        self.knobs.error = ""
        self.knobs.editing = self._input.display = editing
        self._input.clear()
        self._list_stops()

    def _list_stops(self) -> None:
        knob, room, muted, text = KNOBS[self.knobs.selected], self.keys.room, Ink("muted"), Ink("text")
        head = "stop before  " if knob.name == "stop" else f"{knob.name}  "
        listed = knob.show(getattr(self.knobs.tuning, knob.name))
        runs = [(head, muted), (one_line(listed, room - len(head)), text)]
        if knob.name == "stop" and (after := self.knobs.stops_after):
            left = room - length(runs)
            runs += [("   after  ", muted), (one_line(knob.show(after), left - 10), text)] if left > 20 else []
        line = Line(tuple(runs), "panel")
        self.query_one("#stops", Slip).show_lines([line] if self.knobs.editing else [])

    @property
    def keys(self) -> KeyLine:
        return self.query_one(KeyLine)

    @property
    def _input(self) -> StopInput:
        return self.query_one(StopInput)


class StopInput(Field):
    class Erased(Message):
        """Backspace, with nothing left to erase."""

    class Kept(Message):
        """Tab: the text is to stay in the reply."""

    def on_key(self, event: Key) -> None:
        if event.key == "tab":
            event.stop()
            event.prevent_default()
            if self.value:
                self.post_message(self.Kept())

    def action_delete_left(self) -> None:
        if self.value:
            super().action_delete_left()
        else:
            self.post_message(self.Erased())
