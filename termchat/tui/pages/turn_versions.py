"""Going from one version of a turn to another: by key, by a click on its head, by name."""

from __future__ import annotations

from itertools import count

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.conversation.tree import HEAD, Conversation
from termchat.conversation.versions import Versions, leaf_of
from termchat.tui.keys.tables import name_of
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.tokens import TokenRef
from termchat.tui.transcript.turn_source import Part

TurnParts = tuple[Part, ...]


class TurnVersions:
    """Shows the versions of a turn, and makes more. It remembers which leaves were shown, so that each version is shown again
    as it was left."""

    def __init__(self, chat: Chat, transcript: TranscriptView) -> None:
        self._chat, self._transcript, self._tell = chat, transcript, chat.add_changes
        self._conversation: Conversation | None = None
        self._times = count()
        self._used: dict[int, int] = {}

    def shown(self) -> None:
        """Remember the path that is shown."""
        chat = self._chat.conversation
        if chat is not self._conversation:
            self._conversation, self._used = chat, {}
        if chat.leaf is not None:
            self._used[chat.leaf] = next(self._times)

    def step(self, by: int, node: int | None = None) -> None:
        """Show the version before (-1) or behind (1) of the turn that a node is in; without one, of the reply under the token
        cursor, else of the last turn that has other versions."""
        chat, turns = self._chat.conversation, self._transcript.parts()
        turn = self._find_turn(turns, node)
        if turn is None:
            hint = f"{name_of('regenerate')} makes another reply"
            self._tell(Notice("no turn in this chat has other versions", hint))
            return
        parts = turns[turn]
        this, ends = _list_versions(Versions(chat), parts)
        if len(ends) == 1:
            self._tell(Notice("this reply has no other version", f"{name_of('regenerate')} regenerates the last reply"))
        elif not 0 <= this + by < len(ends):
            self._tell(Notice(f"this is the {'first' if by < 0 else 'last'} of {len(ends)} versions"))
        elif self._chat.busy:
            why = "a reply is paused" if self._chat.paused is not None else "a reply is running"
            self._tell(Notice(f"cannot show another version: {why}", f"{name_of('back')} stops it"))
        else:
            leaves = (leaf_of(chat, end, self._used) for end in ends[this + by])
            self._show_leaf(turn, max(leaves, key=lambda leaf: (self._used.get(leaf, -1), leaf)))

    def regenerate(self, *, same: bool = False) -> None:
        """Write another reply to the last message; a notice explains the same dice unless they were asked for."""
        now, tree = self._chat.tuning, self._chat.conversation
        spans = tree.find_reply()
        start = spans[0].node.start if spans else None
        alike = start is not None and start.seed == now.seed
        alike = alike and all(one.samplers == now.samplers() for one in spans[-1].node.settings[-1:])
        before = len(tree.nodes)
        self._chat.forks.regenerate(same=same)
        if alike and not same and len(tree.nodes) > before:
            message = f"seed {now.seed} is fixed, so the reply uses the same dice"
            self._tell(Notice(message, "to get a different reply, change a knob or clear the seed"))

    def _find_turn(self, turns: list[TurnParts], node: int | None) -> int | None:
        cursor = self._transcript.cursor
        wanted = node if node is not None else cursor.node if cursor is not None else None
        versions = Versions(self._chat.conversation)
        for at in range(len(turns) - 1, -1, -1):
            if wanted is None:
                if len(_list_versions(versions, turns[at])[1]) > 1:
                    return at
            elif any(part.node.number == wanted for part in turns[at]):
                return at
        return None

    def _show_leaf(self, turn: int, leaf: int) -> None:
        """Show the path to a leaf, the head of the turn on the row where it was, and a cursor in the turn as far into it."""
        transcript = self._transcript
        row, cursor = transcript.row_of(turn), transcript.cursor
        before = _list_tokens(transcript.parts()[turn])
        self._chat.branches.select_leaf(leaf)
        transcript.show(self._chat.conversation, running=self._chat.busy)
        transcript.hold(turn, row)
        if cursor in before and (tokens := _list_tokens(transcript.parts()[turn])):
            transcript.set_cursor(tokens[min(before.index(cursor), len(tokens) - 1)])


def _list_versions(versions: Versions, parts: TurnParts) -> tuple[int, list[list[int]]]:
    """Which of its versions a turn is, and the nodes that each of them ends in: of a system prompt there may be several."""
    if parts[0].node.number == HEAD:
        return versions.of_prompt()
    this, ends = versions.find_versions(parts[0].node, parts[-1].node)
    return this, [[end] for end in ends]


def _list_tokens(parts: TurnParts) -> list[TokenRef]:
    """List the tokens of a turn that the cursor can be on."""
    return [TokenRef(part.node.number, at) for part in parts for at in range(part.reached)]
