"""The reply that the panels show, and what was read of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.tui.draw.marks import again
from termchat.tui.pages.record import WITH_KNOBS, Shown, settings_of
from termchat.tui.pages.rolls import Rolls
from termchat.tui.pages.token_mode import TokenMode
from termchat.tui.pages.tune import Tune
from termchat.tui.transcript.tokens import TokenRef

if TYPE_CHECKING:  # not on the first page, so that the first frame does not wait for them
    from termchat.decoding.drafting import Forecast
    from termchat.tui.pages.drafts import DraftForecasting, ReplyDrafts
    from termchat.tui.pages.plots.trace import Trace


class ShownReply:
    """The source of the pages of the panels; `computed` is called in a thread when a result is ready.

    `tune` and `mode` are TUNE and token mode while they are open: the knob of TUNE stands out, and pages are about the token
    under the `cursor`. `rolls` are the newest, whichever step they are of.
    """

    chat: Chat

    def __init__(self, computed: Callable[[], object]) -> None:
        self.reply: Sequence[Span] = ()
        self.cursor: TokenRef | None = None
        self.tune: Tune | None = None
        self.mode: TokenMode | None = None
        self.rolls: Rolls | None = None
        self._computed = computed
        self._trace: Trace | None = None
        self._drafts: ReplyDrafts | None = None
        self._forecasting: DraftForecasting | None = None

    def trace(self, columns: int) -> Trace:
        """Read on what the plots show, for so many columns."""
        from termchat.tui.pages.plots.trace import Trace

        self._trace = self._trace or Trace()
        self._trace.follow(self.reply, columns, self.cursor)
        return self._trace

    def drafts(self) -> ReplyDrafts:
        """Read on what drafts did."""
        from termchat.tui.pages.drafts import ReplyDrafts

        self._drafts = self._drafts or ReplyDrafts()
        self._drafts.follow(self.chat, self.reply)
        return self._drafts

    def forecast(self) -> Forecast | None:
        """What drafts would have gained; None while that is computed."""
        from termchat.tui.pages.drafts import DraftForecasting

        self._forecasting = self._forecasting or DraftForecasting(self._computed)
        return self._forecasting.of(self.chat, self.reply, self.drafts())


def shown_step(chat: Chat, mode: TokenMode | None) -> Shown | None:
    """The step that pages are about: in token mode that of the token under the cursor (None while the model is asked for it),
    else the newest of the reply that the chat ends in."""
    if mode is not None:
        return mode.shown()
    live, leaf = chat.live, chat.conversation.leaf
    node = chat.conversation.nodes[leaf] if leaf is not None else None
    if (token := live.shown) is None or node is None or not (len(node.tokens) or live.pending is not None):
        return None
    now = chat.tuning.samplers()
    seed = node.start.seed if node.start is not None else None
    if live.pending is not None:
        return Shown(token, "PENDING", "waiting", "", now, True, True, seed, node.number)
    if live.preview is not None:
        note = again(chat.tolerance) if live.preview_recomputed else ""
        return Shown(token, "PREVIEW", WITH_KNOBS, note, now, True, seed=seed, node=node.number)
    then = settings_of(node, token.settings)
    return Shown(token, samplers=then, now=chat.busy or then == now, seed=seed, node=node.number)
