"""What drafts tokens for a reply, what it is told, and what it may know of the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from termchat.decoding.drafting import BatchTimes
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.grammars import Follower


class Verified(NamedTuple):
    """What became of a decode of `rows` rows in `us` microseconds: so many tokens were `drafted`, and `accepted` of them, for
    whoever drafted them; 0 for all others."""

    rows: int
    us: int
    drafted: int
    accepted: int = 0


class Drafter(Protocol):
    """Guesses tokens. It is given all ids so far, the same list each time. Whatever it raises ends its drafts, and no reply."""

    by: str
    """Its name in records."""
    always: bool
    """Whether it drafts where that does not pay, too."""

    @property
    def why(self) -> str:
        """Why it drafts nothing at present; "" where it does."""

    def learn(self, ids: list[int], last: Verified, most: int, times: BatchTimes) -> None:
        """The dice took the newest ids, since the last decode. A draft may have `most` tokens."""

    def expects(self, most: int, times: BatchTimes) -> float:
        """How many times as fast it is likely to make the next tokens; 0.0 where it is not to be asked."""

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """What follows, as far as it pays: none to `most` ids."""


class Drawing(Protocol):
    """What a reply draws its next token with."""

    samplers: SamplerSettings

    @property
    def forced(self) -> int | None:
        """The id that is taken next, whatever the dice say."""

    @property
    def state(self) -> Mapping[str, float]:
        """What mirostat and adaptive_p remember."""

    def fork_constraint(self) -> Follower | None:
        """A constraint that goes another way from here on; None without one."""
