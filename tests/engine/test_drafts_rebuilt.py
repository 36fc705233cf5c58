"""Cells that were decoded in rounds of drafting: whoever goes on from one of their tokens finds the bits that were there, kept
or decoded again, or is told that it does not."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from termchat.conversation.batch_shapes import shapes_of
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.drafting import BatchTimes, DraftSettings
from termchat.decoding.records import Candidate, Record, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama import speculation
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import ModelSpec, Scripted
from tests.engine.conftest import know_rows, records, request, tokens
from tests.made_drafts import rounds_of

TEXT = "The ship sailed on over the wide, quiet water; nobody said a word. " * 40
LENGTH = 22
TUNING = Tuning(temperature=1.0, max_tokens=LENGTH)
FAULTS = (15,)


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine measures anything; how much is drafted depends on it."""
    monkeypatch.setattr(BatchTimes, "add", lambda *_: None)


def session_of(path: Path, threads: int, kv_type: str, rows_alike: int = 63) -> ModelSession:
    spec = ModelSpec(str(path), "small", context=1024, threads=threads, threads_batch=threads, kv_type=kv_type)
    return know_rows(ModelSession(spec, lambda _: None), rows_alike)


def drafted(session: ModelSession, length: int) -> tuple[Conversation, list[Record]]:
    """A chat with a reply to a text, which it copies but for some tokens, so that drafts are accepted and rejected."""
    ids = session.model.tokenize(TEXT, special=False)
    said = [i + 1 if at in FAULTS else i for at, i in enumerate(ids[length : length + LENGTH])]
    script = tuple(Scripted(step, id=i) for step, i in enumerate(said))
    session.cache.rewind_to(0)
    session._learned = speculation.Learned()
    stream = records(session, request(ids[:length], TUNING, draft=DraftSettings("ngram"), script=script))
    chat = Conversation()
    asked = chat.grow_node("user", parent=None, at=0, text=TEXT)
    asked.prompt_ids = array("i", ids[:length])
    node = chat.grow_node("assistant", parent=asked.number, at=length)
    for record in stream:
        node.add(record)
    return chat, stream


def forked(session: ModelSession, chat: Conversation, at: int) -> list[Record]:
    """Another way to go on from one of the reply's tokens, for three tokens."""
    fork: Node = chat.grow_node("assistant", parent=2, at=at)
    shapes = shapes_of(chat, fork.number)
    assert shapes is not None
    tuning = Tuning(temperature=1.0, max_tokens=at + 3)
    made = request(chat.ids_before(fork.number), tuning, done=at, shapes=shapes, rebuild_exactly=True)
    found = records(session, made)
    chat.drop_node(fork)
    return found


def bits(made: Sequence[Token]) -> list[object]:
    return [(token.id, token.logprob, token.entropy, list(token.candidates)) for token in made]


def shown(token: Token) -> list[Candidate]:
    """The likeliest candidates; a forced token may be one more."""
    return list(token.candidates)[:20]


class Way(NamedTuple):
    """A token of a drafted reply, and what follows there when the cells were kept, and when they are decoded again."""

    token: Token
    kept: list[Record]
    rebuilt: list[Record]


def ways_on(session: ModelSession, chat: Conversation, stream: list[Record]) -> list[Way]:
    """From places of a reply that was just made; the last come first, so that the cells of all others are still there."""
    places = range(LENGTH - 1, 0, -3)
    kept = [forked(session, chat, at) for at in places]
    found = []
    for at, stayed in zip(places, kept, strict=True):
        session.cache.rewind_to(0)
        found.append(Way(tokens(stream)[at], stayed, forked(session, chat, at)))
    return found


def exact(stream: list[Record]) -> bool:
    begun = stream[0]
    assert isinstance(begun, Start)
    return begun.exact


@pytest.mark.parametrize(
    ("threads", "kv_type", "length", "is_exact"),
    [(1, "f16", SPLIT - 8, True), (2, "f16", 60, False), (2, "f16", SPLIT - 8, False), (2, "bf16", SPLIT - 8, True)],
)
def test_a_fork_finds_the_cells_as_they_were(
    small_model_path: Path, threads: int, kv_type: str, length: int, is_exact: bool
) -> None:
    with closing(session_of(small_model_path, threads, kv_type)) as session:
        chat, stream = drafted(session, length)
        assert exact(stream) is is_exact
        rounds = rounds_of(tokens(stream))
        assert {made.corrected is None for made in rounds} == {True, False}
        assert max(made.begin + made.accepted for made in rounds) + length > SPLIT or length == 60
        for token, kept, rebuilt in ways_on(session, chat, stream):
            assert exact(kept)
            assert exact(rebuilt)
            assert bits(tokens(kept)) == bits(tokens(rebuilt))
            assert shown(tokens(kept)[0]) == shown(token)


def test_where_rows_of_a_batch_have_other_bits_it_says_so(made_model: Callable[[str], Path]) -> None:
    """The cells that are kept are those that were there; but the last id is decoded again, which is not in a round then."""
    with closing(session_of(made_model("half"), 1, "f16", 1)) as session:
        chat, stream = drafted(session, 60)
        assert not exact(stream)
        first = rounds_of(tokens(stream))[0].begin
        for token, kept, rebuilt in ways_on(session, chat, stream):
            stands_on_a_round = token.step >= first
            assert exact(kept) is exact(rebuilt) is not stands_on_a_round
            if token.draft is None and token.decode_us:
                assert shown(tokens(kept)[0]) == shown(token)
