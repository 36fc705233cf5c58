"""The shown step under the knobs as they are, while nothing runs."""

from __future__ import annotations

from functools import partial

from termchat.chat.changes import LiveChanged
from termchat.chat.line import Inquiry, Newest
from termchat.chat.live import Live
from termchat.chat.state import State
from termchat.decoding.records import Failed
from termchat.engine.port import Inspect, Inspected


class Preview:
    """Reshapes the last distribution as knobs are turned."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._newest: Newest[Inspected] = Newest(state.line)

    def ask(self) -> None:
        """Asks for the last step of the last reply, if there is one and this model made it."""
        state = self._state
        spans = state.conversation.reply()
        start = spans[0].node.start if spans else None
        tokens = sum(span.count for span in spans)
        if state.phase != "idle" or start is None or not tokens or state.is_foreign():
            return
        question = Inspect(
            ids=state.conversation.ids()[:-1],
            samplers=state.tuning.samplers(),
            seed=start.seed,
            done=tokens - 1,
            candidates=state.candidates,
        )
        self._newest.ask(_inspected(question), partial(self._hear, state.live))

    def _hear(self, live: Live, answer: Inspected | Failed) -> None:
        # Other live values: another chat is shown. A failure is nobody's concern: the recorded step stays.
        if isinstance(answer, Inspected) and live is self._state.live and not self._state.busy:
            live.preview, live.preview_recomputed = answer.token, answer.recomputed
            self._state.changed(LiveChanged())


def _inspected(question: Inspect) -> Inquiry[Inspected]:
    answer = yield question
    assert isinstance(answer, Inspected)
    return answer
