"""How many tokens a message would add to the context, before it is sent.

The number is that of the ids that the next turn would decode for it: the message in the template, with what the template puts
around it, and the system message where it is the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from termchat.chat.inquiries import Inquiry, Newest
from termchat.chat.prompting import build_messages, build_question
from termchat.chat.state import State
from termchat.decoding.records import Failed
from termchat.engine.port import Message, Rendered, Tokenized

SAMPLED = 200_000
"""Characters of a longer message that are counted; the rest is thought to be like them."""


Around = Literal["nothing", "template", "template and system prompt", "whole chat"]
"""What is counted with a message: the whole chat where its prompt does not begin with what was read before."""


class Size(NamedTuple):
    """`tokens` of a message and those `around` it, of the `free` ones of the context; `about`: a part was estimated."""

    tokens: int
    free: int
    around: Around = "template"
    about: bool = False

    @property
    def fits(self) -> bool:
        return self.tokens <= self.free


class Sizing:
    """Counts one message at a time; a newer one replaces those still waiting."""

    def __init__(self, chat: State) -> None:
        self._chat = chat
        self._newest: Newest[Size | None] = Newest(chat.host)

    def ask_size(self, text: str, hear: Callable[[Size | None], None]) -> None:
        """`hear` gets the size of this message as the next one of the chat that is shown, None where it cannot be counted."""
        chat = self._chat
        if chat.model is None or not chat.model.abilities.ids:
            hear(None)
            return
        self._newest.ask_next(self._ask_ids(text), lambda size: hear(None if isinstance(size, Failed) else size))

    def _ask_ids(self, text: str) -> Inquiry[Size | None]:
        chat, tree, model = self._chat, self._chat.conversation, self._chat.model
        if model is None:
            return None
        counted = text[:SAMPLED]
        parent = tree.nodes[tree.leaf] if tree.leaf is not None else None
        whole = chat.is_foreign()
        said = [*build_messages(tree, model=model), Message("user", counted)]
        answer = yield build_question(chat, said, counted, parent, anew=whole)
        assert isinstance(answer, (Rendered, Tokenized))
        tokens = len(answer.ids)
        if isinstance(answer, Rendered):
            whole = answer.whole
            running = parent is not None and not parent.done
            if running and not whole and answer.ids[:1] and answer.ids[0] in model.end_ids:
                tokens -= 1  # the reply will have it as its own end
        taken = 0 if whole or parent is None else tree.count_ids(parent.number) - len(parent.ids) + parent.count_kept()
        about = len(counted) < len(text)
        if about:
            tokens = tokens * len(text) // len(counted)
        around: Around = "nothing" if tree.raw else "template"
        if whole and parent is not None:
            around = "whole chat"
        elif parent is None and tree.system and not tree.raw:
            around = "template and system prompt"
        return Size(tokens, max(model.context - taken, 0), around, about)
