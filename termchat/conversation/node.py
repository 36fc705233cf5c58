"""One node of a conversation: what a person wrote, or a run of the loop with its tokens as columns."""

from __future__ import annotations

import codecs
import copy
import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import gt
from typing import Annotated, Literal, NamedTuple

import msgspec

from termchat.conversation.draft_columns import DraftColumns
from termchat.conversation.token_texts import Texts
from termchat.conversation.unsent import Wish
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.group import Group
from termchat.decoding.loops import sign_of
from termchat.decoding.records import (
    ABSENT,
    BOUNDS,
    TAIL,
    UNKNOWN,
    Beams,
    Draft,
    Failed,
    Finished,
    Prefill,
    Ranking,
    Record,
    SettingsRecord,
    Start,
    Token,
)

Role = Literal["user", "assistant"]

LARGEST_MESSAGE = 1_000_000
"""Characters of what a person writes, files and all, at most: few contexts hold a quarter of it."""


def is_too_large(text: str) -> bool:
    """Return whether a message is larger than `LARGEST_MESSAGE`."""
    return len(text) > LARGEST_MESSAGE


_ARRAYS = (
    "ids", "ends", "logits", "logprobs", "ranks", "probabilities", "entropies", "p_ends", "settings", "forced",
    "decode_us", "sample_us", "allowed", "bent",
)  # fmt: skip

_TIES = {"margins": ABSENT, "near_ties": UNKNOWN}
"""Columns that are packed behind the others, and what stands there for None."""


class TokenStep(NamedTuple):
    """The fields of a token that count in its round of drafting: see `draft_figures`."""

    id: int
    bytes: bytes
    text: str
    decode_us: int
    sample_us: int
    draft: Draft | None


class _Rare(msgspec.Struct, array_like=True):
    """What few tokens have, as it is packed."""

    states: dict[int, dict[str, float]]
    end_tokens: list[int]
    thought: int
    drafts: bytes | None = None
    margins: bytes | None = None
    near_ties: bytes | None = None


class TokenColumns:
    """The tokens of a reply as columns, one array a field; candidates stay in the store.

    `texts[i]` is what token i let out (see `Token.text`); `settings[i]` is the number of its `Settings` record; `forced[i]` is
    1 where the token was not drawn: a person chose it, or with `searched` a search did. A constraint allowed `allowed[i]`
    tokens, and bent the draw by `bent[i]`, the -ln of the mass that it kept; both are 0 where there was none. `margins[i]` and
    `near_ties[i]` are `Token.margin` and `Token.near_tie`: NaN and -1 for None, else 1 for a near tie and 0. `states` holds
    what stages of the chain remembered at token i, where they did, and `end_tokens` which are end tokens; `most_unlisted` is
    the largest `Token.unlisted`. The first `thought` tokens are thoughts; of the first `unsure` ones it is not known yet, and
    there are no thoughts then. `drafts` are the rounds of drafting, None as long as nothing was drafted. `columns[i]` and a
    loop give steps, for the rules of `draft_figures`.
    """

    def __init__(self) -> None:
        self.ids = array("i")
        self.texts = Texts()
        self.data = bytearray()
        self.ends = array("I")
        self.logits = array("f")
        self.logprobs = array("f")
        self.ranks = array("i")
        self.probabilities = array("f")
        self.entropies = array("f")
        self.p_ends = array("f")
        self.settings = array("i")
        self.forced = array("b")
        self.decode_us = array("i")
        self.sample_us = array("i")
        self.allowed = array("i")
        self.bent = array("f")
        self.margins = array("f")
        self.near_ties = array("b")
        self.states: dict[int, dict[str, float]] = {}
        self.most_unlisted = 0.0
        self.end_tokens: list[int] = []
        self.thought = self.unsure = 0
        self.searched = False
        self.drafts: DraftColumns | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> TokenStep:
        begin = self.ends[index - 1] if index else 0
        return TokenStep(
            self.ids[index], bytes(self.data[begin : self.ends[index]]), self.texts[index], self.decode_us[index],
            self.sample_us[index], self.find_draft(index),
        )  # fmt: skip

    def __iter__(self) -> Iterator[TokenStep]:
        return map(self.__getitem__, range(len(self)))

    def find_draft(self, index: int) -> Draft | None:
        """Return the draft of a token."""
        return None if self.drafts is None else self.drafts.find_draft(index)

    def read_unlisted(self, index: int) -> float:
        """Return the `Token.unlisted` of a token."""
        return self.states.get(index, {}).get(TAIL, 0.0)

    def find_most_unlisted(self, count: int) -> float:
        """Return the largest `Token.unlisted` of the first `count` tokens."""
        if count >= len(self):
            return self.most_unlisted
        return max((self.read_unlisted(index) for index in self.states if index < count), default=0.0)

    def row_us(self, begin: int, end: int) -> Sequence[int]:
        """Return the decode time of each token from `begin` to `end`: for one that came out of a round of drafting the time
        of the round, divided by its rows. It does not change as tokens come, and is like what a step alone takes: use it to
        compare steps, and `spent_us` to add them up."""
        plain = self.decode_us[begin:end]
        return plain if self.drafts is None else self.drafts.row_us(self.decode_us, begin, begin + len(plain))

    def spent_us(self, begin: int, end: int) -> int:
        """Return how long tokens `begin` to `end` took: drafting, decoding and sampling."""
        drafting = 0 if self.drafts is None else self.drafts.drafting_us(begin, end)
        return drafting + sum(self.decode_us[begin:end]) + sum(self.sample_us[begin:end])

    def packed(self) -> list[bytes]:
        """Return all columns as bytes."""
        arrays = (getattr(self, name).tobytes() for name in _ARRAYS)
        drafts = None if self.drafts is None else self.drafts.packed()
        ties = (getattr(self, name).tobytes() for name in _TIES)
        return [
            *self.texts.packed(),
            bytes(self.data),
            *arrays,
            msgspec.msgpack.encode(_Rare(self.states, self.end_tokens, self.thought, drafts, *ties)),
        ]

    @classmethod
    def unpacked(cls, packed: Sequence[bytes]) -> TokenColumns:
        """Read the result of `packed`. Raises ValueError where the columns do not fit to each other."""
        columns = cls()
        texts, ends, data, *arrays, rare = packed
        columns.texts = Texts.unpacked(texts, ends)
        columns.data += data
        for name, content in zip(_ARRAYS, arrays, strict=True):
            getattr(columns, name).frombytes(content)
        found, count = msgspec.msgpack.decode(rare, type=_Rare), len(columns.texts)
        for name, none in _TIES.items():
            if (content := getattr(found, name)) is None:  # packed before margins were recorded
                getattr(columns, name).extend([none] * count)
            else:
                getattr(columns, name).frombytes(content)
        if {len(getattr(columns, name)) for name in (*_ARRAYS, *_TIES)} != {count}:
            raise ValueError("the columns have different lengths")
        columns.states, columns.end_tokens, columns.thought = found.states, found.end_tokens, found.thought
        columns.most_unlisted = max(map(columns.read_unlisted, columns.states), default=0.0)
        columns.drafts = None if found.drafts is None else DraftColumns.unpacked(found.drafts)
        return columns

    def check(self) -> None:
        """Raise ValueError where a number cannot be, see `drop_impossible`. NaN counts for nothing unless it comes first."""
        count, ends = len(self), self.ends
        columns = (self.logprobs, self.probabilities, self.p_ends, self.logits, self.entropies)
        for name, column in zip(("logprob", "probability", "p_end", "logit", "entropy"), columns, strict=True):
            if count and (min(column) < BOUNDS[name][0] or max(column) > BOUNDS[name][1]):
                raise ValueError(f"{name} of a token is out of range")
        places = (*self.states, *self.end_tokens, self.thought - 1)
        if min(places, default=0) < -1 or max(places, default=0) > max(count - 1, 0):
            raise ValueError("a token is missing")
        if any(map(gt, ends, ends[1:])) or (ends[-1] if ends else 0) != len(self.data):
            raise ValueError("the tokens end elsewhere")

    @property
    def by_hand(self) -> array[int]:
        """1 where a person chose the token."""
        return array("b", bytes(len(self))) if self.searched else self.forced

    def iterate_pieces(self) -> Iterator[bytes]:
        """Yield the bytes of each token."""
        return (bytes(self.data[start:end]) for start, end in pairwise((0, *self.ends)))

    @property
    def has_ids(self) -> bool:
        """Whether the engine sent ids, not only texts."""
        return not self.ids or self.ids[0] != UNKNOWN

    def list_signs(self, begin: int = 0, end: int | None = None) -> Sequence[int]:
        """Return values that tell tokens `begin` to `end` apart: their ids, or hashes of their bytes from an engine without
        ids.
        """
        ids = self.ids[begin:end]
        if UNKNOWN not in ids:
            return ids
        return [sign_of(id, self[begin + at].bytes) for at, id in enumerate(ids)]

    def append_token(self, token: Token) -> None:
        """Add the newest token."""
        if token.state:
            self.states[len(self.ids)] = token.state
            self.most_unlisted = max(self.most_unlisted, token.unlisted)
        if token.end:
            self.end_tokens.append(len(self.ids))
        if token.draft is not None:
            self.drafts = self.drafts or DraftColumns()
            self.drafts.append_draft(len(self.ids), token.draft)
        self.ids.append(token.id)
        self.texts.append(token.text)
        self.data += token.bytes
        self.ends.append(len(self.data))
        self.logits.append(token.logit)
        self.logprobs.append(token.logprob)
        self.ranks.append(token.rank)
        self.probabilities.append(token.probability)
        self.entropies.append(token.entropy)
        self.p_ends.append(token.p_end)
        self.settings.append(token.settings)
        self.forced.append(token.forced)
        self.decode_us.append(min(token.decode_us, 2**31 - 1))
        self.sample_us.append(min(token.sample_us, 2**31 - 1))
        grammar = next((stage for stage in token.stages if stage.name == GRAMMAR), None)
        self.allowed.append(0 if grammar is None else grammar.survivors)
        self.bent.append(0 if grammar is None or not grammar.mass else -math.log(grammar.mass))
        self.margins.append(ABSENT if token.margin is None else token.margin)
        self.near_ties.append(UNKNOWN if token.near_tie is None else token.near_tie)
        if token.phase == "thinking":
            self.thought = len(self.ids)
        self.unsure = len(self.ids) if token.phase is None else 0


class Omission(msgspec.Struct, frozen=True):
    """The turns that a prompt leaves out: so many of its path, oldest first. `summary` is the number of the reply, on a
    branch of its own, that replaces them, if any.
    """

    turns: Annotated[int, msgspec.Meta(ge=0)]
    summary: int | None = None

    def __str__(self) -> str:
        turns = f"the oldest {self.turns} turns" if self.turns != 1 else "the oldest turn"
        return f"from here on the model {'does not see' if self.summary is None else 'sees a summary of'} {turns}"


class Node:
    """One turn, or a piece of one: a person's message, or one run of the loop.

    A user node's `ids` are the prompt ids that its text added to the path, scaffold and system message included; where
    the template makes another prompt of what stands before, they are the `whole` prompt and stand for all ids before them; so
    they are where turns were `omitted` because the context was full. A
    reply's `ids` are its tokens'. Append-only: records go in with `add`. `continued` says that another run of the loop
    goes on where this one ended. `earlier` is the reply before it on its path, or the piece before it of the same reply.
    `name` is what a person calls the branch that begins here ("" if nothing); a `deleted` node is hidden with all that
    grew from it, and can come back. `system` is the system prompt of a first turn that has another one than the chat began
    with. `wish` is how a message is to be answered, until its reply begins. `think` is what its template was told about
    thinking, as far as that is known. `beams` and `ranking` are the group's, and its walk 0 has them.
    """

    def __init__(self, number: int, parent: int | None, at: int, role: Role, *, text: str = "") -> None:
        self.number = number
        self.parent = parent
        self.at = at
        self.role: Role = role
        self.written = text
        self.prompt_ids = array("i")
        self.whole = False
        self.omitted: Omission | None = None
        self.system: str | None = None
        self.think: bool | None = None
        self.wish: Wish | None = None
        self.continued = False
        self.earlier: Node | None = None
        self.name = ""
        self.deleted = False
        self.tokens = TokenColumns()
        self.start: Start | None = None
        self.settings: list[SettingsRecord] = []
        self.settings_at: list[int] = []
        self.prefill: Prefill | None = None
        self.finished: Finished | None = None
        self.failed: Failed | None = None
        self.beams: list[Beams] = []
        self.ranking: Ranking | None = None

    def freeze_node(self) -> Node:
        """Return the node as it is now; one that is done is itself."""
        if self.done:
            return self
        node = copy.copy(self)
        node.tokens = copy.deepcopy(self.tokens)
        node.settings, node.settings_at = list(self.settings), list(self.settings_at)
        node.beams = list(self.beams)
        return node

    @property
    def ids(self) -> array[int]:
        """The node's own ids."""
        return self.tokens.ids if self.role == "assistant" else self.prompt_ids

    @property
    def done(self) -> bool:
        """Whether no further record will come; a ranking may, once all walks of the group are done."""
        return self.role == "user" or self.finished is not None or self.failed is not None

    @property
    def walk(self) -> int | None:
        """Which walk of its group a reply is; None for a single one, and until it starts."""
        return self.start.walk if self.start is not None else None

    @property
    def group(self) -> Group | None:
        """See `walk`."""
        return self.start.group if self.start is not None else None

    @property
    def size(self) -> int | None:
        """Number of tokens of a reply; the engine's own count if it sent no ids, None if unknown."""
        if self.tokens.has_ids:
            return len(self.tokens)
        return self.finished.tokens if self.finished is not None and self.finished.tokens >= 0 else None

    @property
    def pending(self) -> str:
        """Text at the end of a reply that came with no token: withheld for a stop that did not come or was passed over, and
        U+FFFD for part of a character, unless the reply was `continued`, which completes it.
        """
        end = self.finished
        if end is None:
            return ""
        if self.continued:
            return end.held.removesuffix("\ufffd")
        return end.held if end.reason != "stop" else ""

    def add(self, record: Record) -> None:
        """Take the next record of this reply. `settings_at[i]` is the count of tokens before `settings[i]`."""
        if isinstance(record, Token):
            self.tokens.append_token(record)
        elif isinstance(record, Start):
            self.start = record
            self.tokens.searched = record.group is not None and record.group.beams is not None
        elif isinstance(record, SettingsRecord):
            self.settings.append(record)
            self.settings_at.append(len(self.tokens))
        elif isinstance(record, Prefill):
            self.prefill = record
        elif isinstance(record, Finished):
            self.finished = record
        elif isinstance(record, Failed):
            self.failed = record
        elif isinstance(record, Beams):
            self.beams.append(record)
        elif isinstance(record, Ranking):
            self.ranking = record

    def settings_before(self, index: int) -> SettingsRecord | None:
        """Return the settings that are in force before token `index`."""
        reached = bisect_right(self.settings_at, index)
        return self.settings[reached - 1] if reached else None

    def text(self, count: int | None = None) -> str:
        """Return the shown text of the node; of a reply, that of its first `count` tokens."""
        if self.role == "user":
            return self.written
        if count is None or count >= len(self.ids):
            return self.tokens.texts.join_texts() + self.pending
        if count >= self.count_kept():
            return self.tokens.texts.join_texts()
        return self.tokens.texts.join_texts(count)

    def count_kept(self) -> int:
        """Return how many of its ids the next turn grows from: all, but for tokens that a stop sequence swallowed whole."""
        if self.finished is None or self.finished.reason != "stop":
            return len(self.ids)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        ends = list(accumulate(len(decoder.decode(piece)) for piece in self.tokens.iterate_pieces()))
        decoded = (ends[-1] if ends else 0) + len(decoder.decode(b"", final=True))
        shown = self.tokens.texts.start(len(self.tokens))
        # A reply that goes on may complete a character of the node before: decoded alone, its bytes count otherwise.
        carried = shown + len(self.finished.held) - decoded
        if shown <= max(carried, 0):
            return 0
        return min(sum(end + carried < shown for end in ends) + 1, len(ends))
