"""The dialogs of the chat screen, by name. Each row imports its dialog when it is opened: the first frame has none of them.

The action `dialog('NAME')` opens one. A key whose action that is (`keys/tables.py`) is at the same time its entry in the
palette and its slash command. The help and the themes, which work on every screen, are the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from termchat.tui.context import ScreenContext

if TYPE_CHECKING:
    from termchat.chat.changes import Way
    from termchat.config.presets import Preset
    from termchat.conversation.tree import Node
    from termchat.decoding.group import GroupKind
    from termchat.tui.constraint.constraint_setting import ConstraintSetting
    from termchat.tui.lists.chat_switching import ChatSwitching
    from termchat.tui.lists.model_switching import ModelSwitching


class DialogScreen(ScreenContext):
    """A screen with the rooms that open dialogs and act on their results."""

    choosing: ModelSwitching
    conversations: ChatSwitching
    constraining: ConstraintSetting


def _history(screen: DialogScreen) -> None:
    from termchat.tui.lists.history_dialog import HistoryDialog

    composer = screen.composer

    def closed(text: str | None) -> None:
        if text is not None:
            composer.put(text)

    screen.open(HistoryDialog(screen.palette, composer.earlier.texts, composer.message), closed)


def _queue(screen: DialogScreen) -> None:
    from termchat.tui.lists.history_dialog import QueueDialog

    turns = screen.chat.turns

    def closed(number: int | None) -> None:
        if number is not None and number < len(turns.queue):
            screen.composer.give_back(turns.take_back(number))

    screen.open(QueueDialog(screen.palette, screen.chat), closed)


def _full(screen: DialogScreen) -> None:
    from termchat.tui.lists.full import FullDialog

    chat = screen.chat

    def closed(way: Way | None) -> None:
        chat.turns.make_room(way or "stop")

    if chat.full is not None:
        screen.open(FullDialog(chat.full), closed)


def _breakpoints(screen: DialogScreen) -> None:
    from termchat.tui.lists.breakpoints import BreakpointsDialog

    screen.open(BreakpointsDialog(screen.chat, screen.palette))


def _bias(screen: DialogScreen) -> None:
    """Show the logit biases; in token mode with the candidates of the token under the cursor."""
    from termchat.tui.tokens.bias_dialog import BiasDialog

    shown = screen.tokens.mode.shown() if screen.tokens.mode.open else None
    token = shown.token if shown is not None else None
    screen.tokens.read(BiasDialog(screen.chat, screen.knobs, screen.palette, token))


def _tree(screen: DialogScreen) -> None:
    from termchat.tui.lists.branch_tree import TreeDialog

    chat = screen.chat

    def closed(leaf: int | None) -> None:
        if leaf is not None and leaf != chat.conversation.leaf:
            chat.branches.select_leaf(leaf)
            screen.tokens.follow()

    screen.open(TreeDialog(chat, screen.palette, screen.conversations.sessions), closed)


def _tokens_of(screen: DialogScreen, title: str, node_of: Callable[[Node], Node | None]) -> None:
    """Show the tokens of a node that belongs to the reply under the cursor, given its first one."""
    from termchat.tui.tokens.tokenizer import PiecesDialog

    chat = screen.chat
    reply = screen.tokens.transcript.cursor_reply
    node = node_of(reply[0].node) if reply else None
    if node is not None:
        screen.tokens.read(PiecesDialog(screen.palette, title))
        chat.questions.tokens_of(node)
        screen.tokens.follow()


def _prompt(screen: DialogScreen) -> None:
    nodes = screen.chat.conversation.nodes
    _tokens_of(screen, "Prompt", lambda first: nodes[first.parent] if first.parent is not None else None)


def tokenize(screen: DialogScreen, text: str) -> None:
    """Show the tokens of a text, which can be typed on."""
    from termchat.tui.tokens.tokenizer import MOST_TYPED, PiecesDialog, TokenizerDialog

    def ask(text: str) -> None:
        screen.chat.questions.ask_tokens(text)
        screen.tokens.follow()

    if len(text) <= MOST_TYPED:
        screen.tokens.read(TokenizerDialog(screen.palette, text, ask))
    else:
        screen.tokens.read(PiecesDialog(screen.palette, "Tokens"))
        ask(text)


def _constraint(screen: DialogScreen) -> None:
    from termchat.tui.constraint.constraint_dialog import ConstraintDialog

    screen.open(ConstraintDialog(screen.constraining, screen.chat.constraint))


def _presets(screen: DialogScreen) -> None:
    from termchat.tui.lists.preset_dialog import PresetsDialog, apply_preset

    def closed(chosen: Preset | None) -> None:
        if chosen is not None:
            apply_preset(screen, chosen)

    screen.open(PresetsDialog(screen), closed)


def _walks(kind: GroupKind) -> Callable[[DialogScreen], None]:
    def open(screen: DialogScreen) -> None:
        from termchat.tui.screen.walks_dialog import open_dialog

        open_dialog(screen, kind)

    return open


DIALOGS: Mapping[str, Callable[[DialogScreen], None]] = {
    "models": lambda screen: screen.choosing.open(),
    "sessions": lambda screen: screen.conversations.browse(),
    "setup": lambda screen: screen.conversations.set_up(),
    "save": lambda screen: screen.conversations.save(),
    "persona": lambda screen: screen.conversations.browse_personas(),
    "presets": _presets,
    "history": _history,
    "queue": _queue,
    "full": _full,
    "breakpoints": _breakpoints,
    "constraint": _constraint,
    "bias": _bias,
    "tree": _tree,
    "prompt": _prompt,
    "reply-tokens": lambda screen: _tokens_of(screen, "Reply", lambda first: first),
    "tokenize": lambda screen: tokenize(screen, screen.composer.message),
    "walks": _walks("walks"),
    "grid": _walks("grid"),
    "ab": _walks("compare"),
    "best": _walks("best"),
    "vote": _walks("vote"),
    "beams": _walks("beams"),
}
