"""Writing an earlier message, or the system prompt, anew: it comes into the composer, and what is made of it goes out on a
branch of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from termchat.conversation.tree import HEAD, Conversation, Node, Span
from termchat.tui.draw.ink import Line
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.asking import strip_line
from termchat.tui.screen.parts import Parts
from termchat.tui.transcript.document import Anchor

Said = list[Span]
"""A message of a person, or all pieces of a reply."""


def messages_of(chat: Conversation) -> list[Said]:
    """The messages of the path; the system prompt first, where there can be one."""
    messages: list[Said] = [] if chat.raw else [[Span(chat.head, 0)]]
    for user, spans in groupby(chat.find_path(), key=lambda span: span.node.role == "user"):
        group = list(spans)
        messages += [[span] for span in group] if user else [group]
    return messages


def text_of(said: Said) -> str:
    return "".join(span.node.text(span.count) for span in said)


class Rewriting:
    """One message at a time; the draft comes back afterwards. A message that was changed and left stays so.

    Args:
        opened: is called whenever another message is the one that is edited.
    """

    def __init__(self, parts: Parts, opened: Callable[[], None]) -> None:
        chat, transcript, composer = parts.chat, parts.transcript, parts.composer
        self._chat, self._transcript, self._composer, self._do = chat, transcript, composer, parts.do
        self._opened = opened
        self._conversation = chat.conversation
        self._messages = messages_of(chat.conversation)
        self._written: dict[int, str] = {}
        self._place = transcript.place
        self._at = 0

    @property
    def is_stale(self) -> bool:
        """Whether another chat is shown."""
        return self._chat.conversation is not self._conversation

    def begin(self, node: int | None) -> bool:
        """Opens the message that `node` is part of, else your last one, else the system prompt; False if there is none."""
        at = self._find(node)
        if at is None:
            return False
        self._composer.beyond = self.step
        self._composer.aside = self._composer.message
        self._open(at)
        return True

    def open(self, node: int) -> None:
        """Opens the message that a node is part of instead."""
        if (at := self._find(node)) is not None:
            self.step(at - self._at)

    def _find(self, node: int | None) -> int | None:
        those = [
            at
            for at, said in enumerate(self._messages)
            if any(span.node.number == node if node is not None else span.node.role == "user" for span in said)
        ]
        return those[-1] if those else None

    def step(self, by: int) -> bool:
        """False where there is no previous or next message."""
        if not 0 <= self._at + by < len(self._messages):
            return False
        if self._composer.message != text_of(self._messages[self._at]):
            self._written[self._at] = self._composer.message
        self._open(self._at + by)
        return True

    def back(self) -> bool:
        """Before the first message comes the last."""
        return self.step(-1) or self.step(len(self._messages) - 1 - self._at)

    def end(self, *, returns: bool) -> None:
        """Restores the draft; with `returns` also the scroll position."""
        self._composer.beyond = lambda _: False
        self._composer.sends_blank = False
        draft, self._composer.aside = self._composer.draft, None
        self._composer.put(draft)
        if returns and not self.is_stale:
            self._transcript.return_to(self._place)

    def send(self, text: str) -> None:
        said = self._messages[self._at]
        self.end(returns=False)
        if said[0].node.number == HEAD:
            self._composer.hand_over(text, self._prompt)
        elif said[0].node.role == "user":
            self._composer.hand_over(text, lambda whole: self._edit(said[0].node, whole))
        else:
            self._transcript.follow()
            self._do(lambda: self._chat.forks.replace_reply(said, text))

    def _edit(self, node: Node, text: str) -> None:
        if self.is_stale:  # while its files were read
            self._composer.give_back(text)
            return
        self._transcript.follow()
        self._do(lambda: self._chat.forks.edit_message(node, text))

    def _prompt(self, text: str) -> None:
        if self.is_stale:
            self._composer.give_back(text)
            return
        self._transcript.follow()
        self._do(lambda: self._chat.forks.edit_system(text))

    def line(self, room: int) -> Line:
        node, head = self._messages[self._at][0].node, self._messages[0][0].node.number == HEAD
        which = f"{self._at + (not head)} of {len(self._messages) - head}"
        if node.number == HEAD:
            what = "editing the system prompt"
            does = "Enter sends your first message again, on a new branch"
            if self._conversation.leaf is None:
                does = "Enter saves it"
        elif node.role == "user":
            what, does = f"editing message {which}", "Enter sends it as a new branch"
        else:
            what, does = f"editing reply {which}", "Enter applies the edit on a new branch"
        hints = (
            f"{does}, Esc cancels, ↑ ↓ or {name_of('edit')} selects another",
            f"{does}, Esc cancels",
            "Esc cancels",
        )
        fitting = (hint for hint in hints if len(what) + len(hint) + 4 <= room)
        return strip_line(what, "", next(fitting, ""), room)

    def _open(self, at: int) -> None:
        self._at = at
        said = self._messages[at]
        self._composer.sends_blank = said[0].node.number == HEAD
        self._composer.put(self._written.get(at, text_of(said)))
        parts = self._transcript.parts()
        number = said[0].node.number
        turn = next((index for index, turn in enumerate(parts) if any(p.node.number == number for p in turn)), None)
        if turn is not None:
            self._transcript.bring(Anchor(turn, -1))
        self._opened()
