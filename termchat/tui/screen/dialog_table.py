"""The dialogs of the chat screen, by name. Each row imports its dialog when it is opened: the first frame has none of them.

The action `dialog('NAME')` opens one. A key whose action that is (`keys/tables.py`) is at the same time its entry in the
palette and its slash command. The help and the themes, which work on every screen, are the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termchat.chat.changes import Way
    from termchat.config.presets import Preset
    from termchat.conversation.tree import Node
    from termchat.decoding.group import GroupKind
    from termchat.tui.screen.features import Features


def _full(features: Features) -> None:
    from termchat.tui.dialogs.full import FullDialog

    parts, chat = features.parts, features.parts.chat

    def closed(way: Way | None) -> None:
        parts.do(lambda: chat.turns.make_room(way or "stop"))

    if chat.full is not None:
        parts.open(FullDialog(chat.full), closed)


def _breakpoints(features: Features) -> None:
    from termchat.tui.tokens.breakpoints import BreakpointsDialog

    features.parts.open(BreakpointsDialog(features.parts.chat, features.parts.palette()))


def _bias(features: Features) -> None:
    """Shows the logit biases; in token mode with the candidates of the token under the cursor."""
    from termchat.tui.tokens.bias_dialog import BiasDialog

    parts = features.parts
    shown = parts.tokens.mode.shown() if parts.tokens.mode.open else None
    token = shown.token if shown is not None else None
    parts.tokens.read(BiasDialog(parts.chat, parts.desk.knobs, parts.do, parts.palette(), token))


def _tree(features: Features) -> None:
    from termchat.tui.tokens.branch_tree import TreeDialog

    parts, chat = features.parts, features.parts.chat

    def closed(leaf: int | None) -> None:
        if leaf is not None and leaf != chat.conversation.leaf:
            chat.branches.select_leaf(leaf)
            parts.tokens.follow()

    parts.open(TreeDialog(chat, parts.palette(), features.conversations.sessions), closed)


def _tokens_of(features: Features, title: str, node_of: Callable[[Node], Node | None]) -> None:
    """Shows the tokens of a node that belongs to the reply under the cursor, given its first one."""
    from termchat.tui.tokens.tokenizer import PiecesDialog

    parts, chat = features.parts, features.parts.chat
    reply = parts.tokens.transcript.cursor_reply
    node = node_of(reply[0].node) if reply else None
    if node is not None:
        parts.tokens.read(PiecesDialog(parts.palette(), title))
        chat.questions.tokens_of(node)
        parts.tokens.follow()


def _prompt(features: Features) -> None:
    nodes = features.parts.chat.conversation.nodes
    _tokens_of(features, "Prompt", lambda first: nodes[first.parent] if first.parent is not None else None)


def tokenize(features: Features, text: str) -> None:
    """Shows the tokens of a text, which can be typed on."""
    from termchat.tui.tokens.tokenizer import MOST_TYPED, PiecesDialog, TokenizerDialog

    parts = features.parts

    def ask(text: str) -> None:
        parts.chat.questions.ask_tokens(text)
        parts.tokens.follow()

    if len(text) <= MOST_TYPED:
        parts.tokens.read(TokenizerDialog(parts.palette(), text, ask))
    else:
        parts.tokens.read(PiecesDialog(parts.palette(), "Tokens"))
        ask(text)


def _constraint(features: Features) -> None:
    from termchat.tui.constraint.constraint_dialog import ConstraintDialog

    features.parts.open(ConstraintDialog(features.constraining, features.parts.chat.constraint))


def _presets(features: Features) -> None:
    from termchat.tui.presets.applying import apply
    from termchat.tui.presets.preset_dialog import PresetsDialog

    parts = features.parts

    def closed(chosen: Preset | None) -> None:
        if chosen is not None:
            apply(parts, chosen)

    parts.open(PresetsDialog(parts), closed)


def _walks(kind: GroupKind) -> Callable[[Features], None]:
    def open(features: Features) -> None:
        from termchat.tui.walks.walk_start import open_dialog

        open_dialog(features.parts, kind)

    return open


DIALOGS: Mapping[str, Callable[[Features], None]] = {
    "models": lambda features: features.choosing.open(),
    "sessions": lambda features: features.conversations.browse(),
    "setup": lambda features: features.conversations.set_up(),
    "save": lambda features: features.conversations.save(),
    "persona": lambda features: features.personating.open(),
    "presets": _presets,
    "history": lambda features: features.writing.browse_history(),
    "queue": lambda features: features.writing.browse_queue(),
    "full": _full,
    "breakpoints": _breakpoints,
    "constraint": _constraint,
    "bias": _bias,
    "tree": _tree,
    "prompt": _prompt,
    "reply-tokens": lambda features: _tokens_of(features, "Reply", lambda first: first),
    "tokenize": lambda features: tokenize(features, features.parts.composer.message),
    "walks": _walks("walks"),
    "grid": _walks("grid"),
    "ab": _walks("compare"),
    "best": _walks("best"),
    "vote": _walks("vote"),
    "beams": _walks("beams"),
}
