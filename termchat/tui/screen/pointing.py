"""What a click and the wheel do on the chat's screen where a key would have to be found first."""

from __future__ import annotations

from termchat.chat.changes import Notice
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.screen.desk import Desk
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.screen.parts import Parts


class Pointing:
    def __init__(self, parts: Parts) -> None:
        self._parts, self._chat, self._desk, self._tokens = parts, parts.chat, parts.desk, parts.tokens

    def open_tune(self, tune: Tune | None = None) -> None:
        """With the panels, if they are hidden. `tune` turns other knobs than the chat's."""
        self._parts.drawer.need("tune")
        self._desk.open_tune(tune)

    def tune(self, knob: str) -> None:
        if self._desk.tune is None:
            self.open_tune()
        self._desk.knobs.select(knob)
        self._desk.post_message(Desk.Tuned())

    def all_knobs(self) -> None:
        """Opens TUNE with every knob, or hides again those that do nothing."""
        knobs = self._desk.knobs
        if self._desk.tune is None:
            self.open_tune()
        knobs.unfolded = not knobs.unfolded
        self._desk.post_message(Desk.Tuned())

    def turned(self, event: KnobsView.Turned) -> None:
        self._desk.knobs.turn(event.knob, event.steps, coarse=event.coarse)
        if self._desk.tune is None:
            self._desk.knobs.back()  # nobody reads there what the knob said to it
        self._desk.post_message(Desk.Tuned())

    def slid(self, event: KnobsView.Slid) -> None:
        self._desk.knobs.slide(event.knob, event.fraction, begins=event.begins)
        self._desk.post_message(Desk.Tuned())

    def carried(self, event: KnobsView.Carried) -> None:
        self._desk.knobs.carry(event.knob, event.onto, down=event.down, begins=event.begins)
        if self._desk.tune is None:
            self._desk.knobs.back()
        self._desk.post_message(Desk.Tuned())

    def choose(self, number: int) -> None:
        """Candidate `number`, from 1, does what its digit does; outside of token mode it is taken where a reply waits."""
        paused = self._chat.paused
        if self._tokens.mode.open:
            self._tokens.action_choose(number)
        elif paused is not None and number <= len(paused.token.candidates):
            self._parts.do(lambda: self._chat.replies.force_tokens([paused.token.candidates[number - 1].id]))
        else:
            told = Notice("no reply is paused", f"to fork with a click, open token mode ({name_of('tokens')})")
            self._parts.do(lambda: self._chat.add_changes(told))
