"""What is said of a step at which two replies with the same dice part."""

from __future__ import annotations

import msgspec
import pytest

from termchat.decoding.parting import find_parting
from termchat.decoding.records import Candidate, Token
from tests.made_records import token

TIE = " · near tie: the setting may not be the cause"


def drawn(id: int, shift: float, near_tie: bool | None, *, forced: bool = False) -> Token:
    listed = [Candidate(at, f" w{at}", 5.0 - at + shift * at, -1.0 - at, 0.5, 0.1 * at, None) for at in (0, 1)]
    made = token(3, b"w", "w", token_id=id)
    return msgspec.structs.replace(made, candidates=listed, near_tie=near_tie, forced=forced)


@pytest.mark.parametrize(
    ("ties", "shift", "forced", "told"),
    [
        ((True, False), 0.2, False, True),
        ((None, True), 0.2, False, True),
        ((True, True), 0.0, False, False),  # the logits are the same
        ((False, None), 0.2, False, False),
        ((True, True), 0.2, True, False),
    ],
)
def test_a_near_tie_is_told_where_the_logits_differ(
    ties: tuple[bool | None, bool | None], shift: float, forced: bool, told: bool
) -> None:
    found = find_parting(drawn(0, 0.0, ties[0]), drawn(1, shift, ties[1], forced=forced))
    assert str(found).endswith(TIE) is found.tie is told
