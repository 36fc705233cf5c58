"""Records of a drafted reply, as the engine writes them."""

from __future__ import annotations

import msgspec

from termchat.decoding.draft_figures import DraftedSteps, Round, round_at
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Draft, DraftToken, Finished, Record, SettingsRecord, Token
from tests.made_records import stream


def drafted_stream(prompt: list[int], by: str = "small", rejected: str = " ·x") -> list[Record]:
    """Eight tokens: a plain one; a round of three drafted ones, the last of which is rejected; a round of two, both of which
    are accepted, with the token behind them; and a plain one. Whoever drafted the second round is called `by`; `rejected`
    is the rejected token."""
    made = stream(prompt, [b"a", b" b", b" c", b" d", b"\xe2\x82", b"\xac", b" g", b" h"])
    three = [DraftToken(1001, " b"), DraftToken(1002, " c"), DraftToken(9, rejected)]
    two = [DraftToken(1004, "<E2>"), DraftToken(1005, "<82>")]
    drafts = {
        1: Draft("ngram", True, three, 120),
        2: Draft("ngram", True, three[1:2]),
        3: Draft("ngram", False, three[2:]),
        4: Draft(by, True, two, 3000),
        5: Draft(by, True, two[1:]),
    }
    for at, record in enumerate(made):
        if isinstance(record, Token):
            decode_us = 0 if record.step in (2, 3, 5, 6) else 12_400 if record.step in drafts else record.decode_us
            made[at] = msgspec.structs.replace(record, draft=drafts.get(record.step), decode_us=decode_us)
        elif isinstance(record, SettingsRecord):
            made[at] = msgspec.structs.replace(record, draft=DraftSettings("ngram", 7), drafting="accepted 12 %")
        elif isinstance(record, Finished):
            made[at] = msgspec.structs.replace(record, drafted=5, accepted=4, rounds=2)
    return made


def rounds_of(tokens: DraftedSteps) -> list[Round]:
    """All rounds of a reply, each found from each of its tokens."""
    rounds = [round_at(tokens, index) for index in range(len(tokens))]
    return list({each.begin: each for each in rounds if each is not None}.values())
