"""The lower edge: the composer, the key line, and who of them has the keyboard."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from textual.app import ComposeResult
from textual.events import DescendantFocus, Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.decoding.samplers import KNOBS
from termchat.engine.port import Feature
from termchat.text import one_line
from termchat.tui.composer.completion import Popup
from termchat.tui.composer.composer import Composer, Edge
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.draw.marks import length
from termchat.tui.keys.key import Label, Situation
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.screen.keyline import KeyLine
from termchat.tui.themes.theme_file import Palette

_INVITES = "write a message"


class Desk(Column):
    """Writing, or turning knobs. TUNE keeps its knob while the app runs, and its undo while the chat stays the same."""

    DEFAULT_CSS = """
    Desk, Desk > Row { height: auto; }
    Desk #prompt { width: 3; }
    Desk StopInput, Desk StopInput:focus { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    """

    class Tuned(Message):
        """A knob was turned, or TUNE was opened or closed."""

    def __init__(self, chat: Chat, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._chat = chat
        self._tune = Tune(chat)
        self._shown = chat.conversation
        self.composer = Composer(placeholder=_INVITES, keymap=keymap)
        self.edge = Edge()
        self.home: Widget | None = None
        """What has the keyboard when TUNE is closed; None is what is `under` it."""
        self.under: Widget | None = None
        """What has the keyboard when nothing else is open; None is the composer."""

    def compose(self) -> ComposeResult:
        yield self.composer.popup
        yield self.edge
        with Row():
            yield LinesView(id="prompt")
            yield self.composer
        yield Slip(id="stops")
        yield StopInput(placeholder="text that ends the reply; \\n is a line break; type it again to remove it")
        yield KeyLine()

    @property
    def tune(self) -> Tune | None:
        """TUNE, while it is open."""
        return self._keys.tuning

    @property
    def knobs(self) -> Tune:
        """What turns knobs, whether TUNE is open or not."""
        return self.tune or self._tune

    def follow(self) -> None:
        """Another chat that is shown has knobs of its own, and nothing to undo."""
        if self._chat.conversation is not self._shown:
            self._shown = self._chat.conversation
            self._tune.forget()

    def open_tune(self, tune: Tune | None = None) -> None:
        """`tune` turns other knobs than the chat's."""
        self._keys.tuning = tune or self._tune
        self.screen.set_focus(self._keys)  # not focus(): the very next key is for it
        self.post_message(self.Tuned())

    def close_tune(self) -> None:
        self.knobs.drop()
        self._keys.tuning = None
        self._edit_stops(False)
        self.screen.set_focus(self.home or self.under or self.query_one(Composer))
        self.post_message(self.Tuned())

    def take_keyboard(self) -> None:
        """Focuses what is open here: the editor of stop sequences, the knobs, else `home`."""
        if self.tune is not None:
            self.screen.set_focus(self._input if self.knobs.editing else self._keys)
        else:
            self.screen.set_focus(self.home or self.under or self.query_one(Composer))

    def back(self) -> bool:
        """Closes the innermost thing; False if nothing was open."""
        if self.tune is None:
            return False
        if self.knobs.editing:
            self._edit_stops(False)
            self.screen.set_focus(self._keys)
        elif not self.tune.drop():
            self.close_tune()
        self.post_message(self.Tuned())
        return True

    def show_keys(
        self,
        situation: Situation,
        asked: Sequence[Label],
        offers: Collection[Feature],
        *,
        thinking: bool,
        words: Mapping[str, str],
        lit: Sequence[str] = (),
    ) -> None:
        """`asked` are the keys of the line above the composer, `words` the keys that do something else now, `lit` those that a
        lesson points at."""
        self._keys.show_keys(situation, asked, offers, thinking=thinking, words=words, lit=lit)

    def show_way(self, words: str, *, instead: bool) -> None:
        """Says who gets letters but the composer, where it is blank in place of the invitation to write (`instead`) or before
        that."""
        invitation = " · or ".join(filter(None, (words, "" if words and instead else _INVITES)))
        if self.composer.placeholder != invitation:
            self.composer.placeholder = invitation
        self.edge.head("" if self.composer.is_blank else words)

    def paint_with(self, palette: Palette) -> None:
        for view in self.query(LinesView):
            view.paint_with(palette)

    def on_mount(self) -> None:
        self.query_one("#prompt", LinesView).show_lines([Line((("›", Ink("accent", bold=True)),))])

    def on_popup_clicked(self, event: Popup.Clicked) -> None:
        self.composer.take(event.number)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget is not self.screen.focused:
            return  # a key that came meanwhile has given the keyboard to somebody else
        if self.tune is not None and isinstance(event.widget, Composer):
            self.close_tune()
        elif self.tune is None and event.widget is self._keys:
            self.take_keyboard()

    def on_key_line_stops_wanted(self, event: KeyLine.StopsWanted) -> None:
        if KNOBS[self.knobs.selected].kind == "biases":
            return  # the screen has a dialog for them
        event.stop()
        self._edit_stops(True)
        self.screen.set_focus(self._input)  # not focus(): the very next key is for it

    def on_key_line_turned(self) -> None:
        self.post_message(self.Tuned())

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
        self.post_message(self.Tuned())

    def on_stop_input_erased(self) -> None:
        self.knobs.drop_text()
        self._list_stops()
        self.post_message(self.Tuned())

    def _edit_stops(self, editing: bool) -> None:
        """The input always opens empty."""
        self.knobs.error = ""
        self.knobs.editing = self._input.display = editing
        self._input.clear()
        self._list_stops()

    def _list_stops(self) -> None:
        knob, room, muted, text = KNOBS[self.knobs.selected], self._keys.room, Ink("muted"), Ink("text")
        head = "stop before  " if knob.name == "stop" else f"{knob.name}  "
        listed = knob.show(getattr(self.knobs.tuning, knob.name))
        runs = [(head, muted), (one_line(listed, room - len(head)), text)]
        if knob.name == "stop" and (after := self.knobs.stops_after):
            left = room - length(runs)
            runs += [("   after  ", muted), (one_line(knob.show(after), left - 10), text)] if left > 20 else []
        line = Line(tuple(runs), "panel")
        self.query_one("#stops", Slip).show_lines([line] if self.knobs.editing else [])

    @property
    def _keys(self) -> KeyLine:
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
