"""The dialogs of the chat screen, by name. Each row imports its dialog when it is opened: the first frame has none of them.

The action `dialog('NAME')` opens one. A key whose action that is (`keys/tables.py`) is at the same time its entry in the
palette and its slash command. The help and the themes, which work on every screen, are the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termchat.chat.changes import Way
    from termchat.tui.screen.features import Features


def _full(features: Features) -> None:
    from termchat.tui.dialogs.full import FullDialog

    parts, chat = features.parts, features.parts.chat

    def closed(way: Way | None) -> None:
        parts.do(lambda: chat.turns.room.make(way or "stop"))

    if chat.full is not None:
        parts.open(FullDialog(chat.full), closed)


def _breakpoints(features: Features) -> None:
    from termchat.tui.tokens.breakpoints import BreakpointsDialog

    features.parts.open(BreakpointsDialog(features.parts.chat, features.parts.palette()))


def _tree(features: Features) -> None:
    from termchat.tui.tokens.branch_tree import TreeDialog

    parts, chat = features.parts, features.parts.chat

    def closed(leaf: int | None) -> None:
        if leaf is not None and leaf != chat.conversation.leaf:
            chat.branches.select(leaf)
            parts.tokens.follow()

    parts.open(TreeDialog(chat, parts.palette(), features.conversations.sessions), closed)


def _prompt(features: Features) -> None:
    from termchat.tui.tokens.tokenizer import PiecesDialog

    parts, chat = features.parts, features.parts.chat
    reply = parts.transcript.cursor_reply
    parent = reply[0].node.parent if reply else None
    if parent is not None:
        parts.tokens.read(PiecesDialog(parts.palette()))
        chat.questions.tokens_of(chat.conversation.nodes[parent])
        parts.tokens.follow()


def _tokenizer(features: Features) -> None:
    from termchat.tui.tokens.tokenizer import TokenizerDialog

    parts = features.parts

    def ask(text: str) -> None:
        parts.chat.questions.tokens(text)
        parts.tokens.follow()

    parts.tokens.read(TokenizerDialog(parts.palette(), parts.composer.message, ask))


DIALOGS: Mapping[str, Callable[[Features], None]] = {
    "models": lambda features: features.choosing.open(),
    "sessions": lambda features: features.conversations.browse(),
    "setup": lambda features: features.conversations.set_up(),
    "save": lambda features: features.conversations.save(),
    "persona": lambda features: features.personating.open(),
    "history": lambda features: features.writing.browse_history(),
    "queue": lambda features: features.writing.browse_queue(),
    "full": _full,
    "breakpoints": _breakpoints,
    "tree": _tree,
    "prompt": _prompt,
    "tokenize": _tokenizer,
}
