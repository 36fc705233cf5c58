"""Conversations made at random: every branch, piece and damage that a store may hold, with texts that are hard to write."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from termchat.conversation.node import Omission
from termchat.conversation.session import Breakpoint, ModelRef, Session, View
from termchat.conversation.tree import Node, Place
from termchat.decoding.conditions import After, Every, IgnoreEnd, Loop, Text, Threshold
from termchat.decoding.escapes import well_formed
from termchat.decoding.group import BeamSettings, GridKnob, Group, GroupKind
from termchat.decoding.records import (
    UNTOLD,
    Candidate,
    Draft,
    DraftToken,
    Failed,
    Reason,
    Record,
    Stage,
    Start,
    Token,
    drop_impossible,
)
from tests.formats.example_chats import ExampleChat
from tests.made_records import settings, stream
from tests.made_walks import beams, ranking

_TEXTS = (
    *"ab \n\r\t\0=+-@|`<>&\"'\\,;#*", "\r\n", "\u2028", "\x85", "\ud800", "\udfff", "🦊", "e\u0301", "```", "</script>", "<!--",
    "\\n", "\x1b[31m", "\ufeff", "\u202e", "\U0010ffff", "\uffff", "\ue000", "⟦", "null", "x" * 300,
)  # fmt: skip
_NUMBERS = (0.0, -0.0, 1.0, 1 / 3, 5e-324, 1.7976931348623157e308, 1e16, float("nan"), float("inf"))
_RULES = (
    Threshold("entropy", ">", 3.5, "stop"), Every(20), Text("a/b", regex=True), Text('"\\\n', action="stop"),
    Threshold("model", "<", 0.05, steps=5), After(30.0, "seconds", "stop"), After(3.0, "sentences"), Loop(), IgnoreEnd(),
)  # fmt: skip
_REASONS: tuple[Reason | None, ...] = ("end", "user", "length", "rule", "context", None)


def tree(seed: int) -> ExampleChat:
    """A conversation, another one for every seed."""
    return _Tree(random.Random(seed)).made


class _Tree:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.made = ExampleChat(self._text(), self._info())
        chat = self.made.chat
        chat.raw, chat.title = dice.random() < 0.2, self._text()
        for _ in range(dice.randrange(1, 12)):
            node = self._group() if chat.nodes and dice.random() < 0.15 else self._node()
            node.name = self._text() if dice.random() < 0.2 else ""
            if dice.random() < 0.08:
                chat.delete_node(node.number)
        if dice.random() < 0.5:
            chat.leaf = dice.choice(list(chat.nodes))

    def _text(self) -> str:
        return "".join(self._dice.choices(_TEXTS, k=self._dice.randrange(6)))

    def _whole(self) -> str:
        """A text as an engine writes it, without half characters."""
        return well_formed(self._text())

    def _info(self) -> Session:
        rules = tuple(Breakpoint(self._dice.choice(_RULES), bool(on)) for on in range(self._dice.randrange(3)))
        view = View(self._dice.choice([None, Place(1, 1)]), "entropy")
        return Session("x", 1.7e9, 1.7e9 + 1 / 3, ModelRef(self._text(), "a.gguf"), breakpoints=rules, view=view)

    def _node(self) -> Node:
        chat, dice = self.made.chat, self._dice
        if not chat.nodes or dice.random() < 0.1:
            first = chat.grow_node("user", parent=None, at=0, text=self._text())
            first.system = self._whole() if dice.random() < 0.5 else None
            return first
        parent = dice.choice([*chat.nodes.values()] + [chat.nodes[max(chat.nodes)]] * 3)
        at = dice.choice([0, parent.count_kept(), len(parent.ids), dice.randrange(len(parent.ids) + 1)])
        if dice.random() < 0.4:
            node = chat.grow_node("user", parent=parent.number, at=at, text=self._text())
            node.prompt_ids.extend(dice.choices([0, 5, 49151, 2**31 - 1], k=dice.randrange(4)))
            node.whole = dice.random() < 0.2
            node.omitted = Omission(dice.randrange(3)) if dice.random() < 0.2 else None
            return node
        return self._reply(parent, at)

    def _reply(self, parent: Node, at: int, walk: int | None = None, of: Group | None = None) -> Node:
        chat = self.made.chat
        done = b"".join(list(parent.tokens.iterate_pieces())[:at]) if parent.role == "assistant" else b""
        node = chat.grow_node("assistant", parent=parent.number, at=at)
        records = self._records(chat.ids_before(node.number), done)
        self.made.known[node.number] = records if of is None else list(self._walked(records, walk, of))
        for record in self.made.known[node.number]:
            node.add(record)
        return node

    def _group(self) -> Node:
        """Replies from one place, one of them perhaps from a token of another; the first may have beams and a ranking."""
        chat, dice = self.made.chat, self._dice
        kind: GroupKind = dice.choice(["walks", "grid", "compare", "best", "vote", "beams"])
        size = dice.randrange(1, 5)
        of = Group(
            dice.randrange(2**53), kind, size, (GridKnob("temperature", (0.0, 1.5)),) * (kind == "grid"), size,
            dice.random() < 0.3, self._whole() if kind == "vote" else "", BeamSettings(4) if kind == "beams" else None,
        )  # fmt: skip
        parent = dice.choice(list(chat.nodes.values()))
        at = dice.randrange(len(parent.ids) + 1)
        walks = [self._reply(parent, at, walk, of) for walk in range(size)]
        if dice.random() < 0.3:
            walks.append(self._reply(walks[-1], dice.randrange(len(walks[-1].ids) + 1), size, of))
        first = walks[0]
        more: list[Record] = [beams(step) for step in range(dice.randrange(4))] if kind == "beams" else []
        more += [ranking(len(walks))] if dice.random() < 0.5 else []
        self.made.known[first.number] += more
        for record in more:
            first.add(record)
        chat.leaf = dice.choice(walks).number
        return walks[-1]

    @staticmethod
    def _walked(records: list[Record], walk: int | None, of: Group) -> Iterator[Record]:
        for record in records:
            began = {"group": of} if isinstance(record, Start) else {}
            yield msgspec.structs.replace(record, walk=walk, **began)

    def _records(self, before: list[int], done: bytes) -> list[Record]:
        """Of a reply as it ran, or of one that lost a part."""
        dice = self._dice
        turned = {at: settings(at + 1, temperature=1.5, stops=(self._whole() + "s",)) for at in range(8) if at % 3 == 1}
        stops = (self._whole() + "a",) if dice.random() < 0.5 else ()
        records = stream(
            before,
            self._pieces(),
            stops=stops,
            reason=dice.choice(_REASONS),
            seed=dice.randrange(2**53),
            turned=turned,
            done=done,
        )
        records = [self._token(record) if isinstance(record, Token) else record for record in records]
        damaged = (records[: dice.randrange(len(records))], records[1:], [Failed("engine", self._whole())], [])
        return dice.choice(damaged) if dice.random() < 0.2 else records

    def _pieces(self) -> list[bytes]:
        data = self._whole().encode() + bytes(self._dice.choices(range(256), k=self._dice.randrange(4)))
        cuts = sorted(self._dice.choices(range(len(data) + 1), k=6))
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _token(self, token: Token) -> Token:
        def number() -> float:
            return self._dice.choice(_NUMBERS)

        candidates = [
            Candidate(at, self._whole(), number(), -number(), number(), -number(), self._whole() or None)
            for at in range(2)
        ]
        made = msgspec.structs.replace(
            token, draft=_draft(token.id), forced=self._dice.random() < 0.3, logit=-number(),
            logprob=-number(), probability=number(), entropy=number(), p_end=number(),
            rank=self._dice.choice([0, 300, 2**31 - 1]), candidates=candidates, stages=[Stage(self._whole(), 5)],
            state={self._whole(): number()}, decode_us=self._dice.choice([0, 5, 2**40]),
        )  # fmt: skip
        made = drop_impossible(made)
        return self._partly_told(made) if self._dice.random() < 0.3 else made

    def _partly_told(self, token: Token) -> Token:
        """The token as an engine elsewhere may tell it; sometimes only its text."""
        dice, least = self._dice, self._dice.choice([0, 0.5])

        def lost(kind: type) -> dict[str, object]:
            return {name: nothing for name, nothing in UNTOLD[kind].items() if dice.random() >= least}

        told = [msgspec.structs.replace(one, **lost(Candidate)) for one in token.candidates]
        return msgspec.structs.replace(token, **{"candidates": told} | lost(Token))


def _draft(token: int) -> Draft | None:
    """Something was drafted for every other token: not always what an engine would say."""
    dice = random.Random(token)
    guesses = [DraftToken(at, well_formed(dice.choice(_TEXTS))) for at in range(dice.choice([1, 3]))]
    draft = Draft(well_formed(dice.choice(_TEXTS)), dice.random() < 0.7, guesses, dice.choice([0, 9, 2**40]))
    return draft if dice.random() < 0.5 else None
