"""What a click and the wheel do on the chat's screen where a key would have to be found first."""

from __future__ import annotations

from collections.abc import Callable

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.desk import Desk
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.tokens.token_bar import Tokens


class Pointing:
    """Turns knobs, and takes candidates.

    Args:
        open_tune: opens TUNE, and what has to be seen with it.
        do: does something to the chat and has the screen take in what came of it.
    """

    def __init__(
        self,
        chat: Chat,
        desk: Desk,
        tokens: Tokens,
        open_tune: Callable[[], None],
        do: Callable[[Callable[[], object]], None],
    ) -> None:
        self._chat, self._desk, self._tokens, self._open_tune, self._do = chat, desk, tokens, open_tune, do

    def tune(self, knob: str) -> None:
        """Opens TUNE on a knob."""
        if self._desk.tune is None:
            self._open_tune()
        self._desk.knobs.select(knob)
        self._desk.post_message(Desk.Tuned())

    def turned(self, event: KnobsView.Turned) -> None:
        """The wheel over a knob."""
        self._desk.knobs.turn(event.knob, event.steps, coarse=event.coarse)
        if self._desk.tune is None:
            self._desk.knobs.back()  # nobody reads there what the knob said to it
        self._desk.post_message(Desk.Tuned())

    def slid(self, event: KnobsView.Slid) -> None:
        """A bar that is dragged."""
        self._desk.knobs.slide(event.knob, event.fraction, begins=event.begins)
        self._desk.post_message(Desk.Tuned())

    def choose(self, number: int) -> None:
        """Candidate `number`, from 1, does what its digit does; outside of token mode it is taken where a reply waits."""
        paused = self._chat.paused
        if self._tokens.mode.open:
            self._tokens.action_choose(number)
        elif paused is not None and number <= len(paused.token.candidates):
            self._do(lambda: self._chat.replies.force([paused.token.candidates[number - 1].id]))
        else:
            told = Notice("no reply waits for a token", f"{name_of('tokens')} opens token mode: there a click forks")
            self._do(lambda: self._chat.changed(told))
