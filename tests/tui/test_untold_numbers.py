"""What is shown of a reply whose server tells the model's candidates and no more: the rest is a dash, or nothing."""

from __future__ import annotations

import math

import msgspec
import pytest

from termchat.chat.live import Live
from termchat.conversation.node import Node, TokenColumns
from termchat.conversation.tree import Span
from termchat.decoding.records import ABSENT, TAIL, UNKNOWN, Candidate, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.abilities import VLLM, find_refusal
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import TITLE
from termchat.tui.pages.candidates import Rolls, can_roll, candidate_table
from termchat.tui.pages.chain_view import chain_lines
from termchat.tui.pages.panel_pages import timing_lines
from termchat.tui.pages.plots import Trace, columns_of, plot_lines
from termchat.tui.pages.record import Shown, from_columns, step_lines
from termchat.tui.pages.token_answers import ending_lines
from termchat.tui.transcript.looks import LOOKS, next_look
from termchat.tui.transcript.tokens import find_surprise, find_uncertain
from termchat.tui.transcript.turn_source import Part
from tests import made_records
from tests.made_records import finished
from tests.tui.fake_engine import replaced


def streamed(step: int, **fields: object) -> Token:
    """A token as a server tells it."""
    listed = [Candidate(i, f" c{i}", ABSENT, -0.5 - i, ABSENT, ABSENT, None) for i in range(5)]
    token = Token(
        step,
        30 + step,
        1,
        b" c1",
        " c1",
        ABSENT,
        -1.5,
        1,
        ABSENT,
        2.5,
        0.01,
        0,
        False,
        [],
        listed,
        {TAIL: 0.1},
        6100,
        0,
    )
    return replaced(token, **fields)


def untold(step: int) -> Token:
    """One of which nothing is told but what it is, as of a part of a character."""
    return streamed(step, logprob=ABSENT, rank=UNKNOWN, entropy=ABSENT, p_end=ABSENT, candidates=[], state={})


def text(lines: list[Line]) -> str:
    return "\n".join("".join(said for said, _ in line.runs) for line in lines)


def node_of(*tokens: Token) -> Node:
    node = Node(2, 1, 0, "assistant")
    for token in tokens:
        node.add(token)
    return node


@pytest.mark.parametrize("bars", [False, True])
@pytest.mark.parametrize("width", [40, 60, 120])
def test_candidates_have_only_the_columns_that_are_told(width: int, bars: bool) -> None:
    shown = text(candidate_table(streamed(0), [("NEXT", TITLE)], width, 8, bars=bars))
    assert "model" in shown
    assert not any(head in shown for head in ("logit", "after", "dice", "nan"))
    row = next(line for line in shown.splitlines() if "c1" in line)
    assert row.rstrip().endswith("●")
    assert f"{math.exp(-1.5):.1%}" in row


@pytest.mark.parametrize("make", [streamed, untold])
def test_a_step_shows_no_number_that_is_none(make: type[Token]) -> None:
    shown = Shown(make(3))
    for lines in (
        step_lines(shown, 60, 30),
        step_lines(shown, 118, 30, bars=True, numbered=True, rolls=Rolls(0, 3, 100, 5)),
    ):
        said = text(lines)
        assert "nan" not in said
        assert "after" not in said
        assert "ROLLS" not in said
        assert "rolls the dice" not in said
    facts = text(step_lines(shown, 60, 30))
    assert ("rank 2" in facts) is (make is streamed)
    assert ("entropy ≤2.50 bit" in facts) is (make is streamed)
    assert not can_roll(shown.token)


def test_the_chain_says_once_why_nothing_is_told_of_its_stages() -> None:
    why = find_refusal("stages", VLLM.list_features(), VLLM, "lab")
    said = " ".join(text(chain_lines(Tuning(), streamed(0), 44, unseen=why)).split())
    assert "lab cannot show what each stage of the chain left: it draws there" in said
    local = made_records.token(0, b"a", "a")
    assert local.stages
    assert "lab" not in text(chain_lines(Tuning(), local, 44, unseen=why))  # it is on record


def test_the_look_of_the_chain_is_passed_over_where_nothing_is_told_of_it() -> None:
    there, here = node_of(streamed(0), untold(1)), node_of(made_records.token(0, b"a", "a"))
    assert next_look(LOOKS, "probability", (node for node in [there])) == "entropy"
    assert next_look(LOOKS, "probability", [there, here]) == "after"
    assert next_look(LOOKS, "probability", []) == "after"


def test_the_timing_panel_shows_bounds_and_dashes() -> None:
    live = Live()
    live.take_record(streamed(0))
    said = text(timing_lines(live, 60))
    assert "entropy ≤2.50 bit" in said
    assert "sampling –" in said
    assert "p(end) ≤1.00%  10.00% not listed" in said
    assert "p(end) ≤1.00%" in text(timing_lines(live, 44))
    live.take_record(msgspec.structs.replace(streamed(0), p_end=2e-6))
    assert "p(end) <0.01%" in text(timing_lines(live, 60))  # which is a bound itself
    live.take_record(untold(1))
    said = text(timing_lines(live, 60))
    assert "entropy –" in said
    assert "p(end) –" in said
    assert "nan" not in said


def test_the_chain_claims_no_survivors() -> None:
    said = text(chain_lines(Tuning(), streamed(0), 60))
    (knob,) = [line for line in said.splitlines() if "top_k" in line]
    assert knob.rstrip().endswith(("─", "━"))


@pytest.mark.parametrize("tokens", [[streamed(0), untold(1), streamed(2)], [untold(at) for at in range(5)]])
def test_plots_of_a_reply_stand_without_some_numbers_or_all(tokens: list[Token]) -> None:
    trace = Trace([Span(node_of(*tokens), len(tokens))], columns_of(60))
    for measure in ("entropy", "probability"):
        said = text(plot_lines(measure, trace, 60, 8))
        assert "nan" not in said
    assert trace.find_peak("entropy", 0) is not None


@pytest.mark.parametrize(("width", "shown"), [(40, " ≤2.50"), (60, " ≤2.50, 10.00% not listed")])
def test_the_plot_of_the_entropy_names_a_bound_as_one(width: int, shown: str) -> None:
    trace = Trace([Span(node_of(untold(0), streamed(1)), 2)], columns_of(width))
    assert plot_lines("entropy", trace, width, 8)[0].text.endswith(shown)
    trace = Trace([Span(node_of(streamed(0), replaced(streamed(1), state={})), 2)], columns_of(width))
    assert plot_lines("entropy", trace, width, 8)[0].text.endswith(" 2.50")


def test_what_memory_holds_of_a_token_keeps_its_bounds() -> None:
    tokens = node_of(untold(0), streamed(1)).tokens
    again = TokenColumns.unpacked(tokens.packed())
    assert tokens.most_unlisted == again.most_unlisted == 0.1
    node = node_of(untold(0), streamed(1))
    facts = text(step_lines(Shown(from_columns(node, 1, 1)), 60, 30))
    for fact in ("entropy ≤2.50 bit", "p(end) ≤1.00%", "not listed 10.00%"):
        assert fact in facts
    assert "≤" not in text(step_lines(Shown(from_columns(node, 0, 0)), 60, 30))


def test_why_it_ended_tells_what_is_known() -> None:
    node = node_of(streamed(0, p_end=0.25), untold(1), streamed(2, p_end=0.75))
    node.add(finished("end", "<|im_end|>"))
    said = text(ending_lines([Span(node, 3)], 80, 20))
    assert "The end token had rank 2; p(end) was ≤75.00%, 10.00% not listed." in said
    assert said.index(" ≤75.00%", said.index("HIGHEST")) < said.index(" ≤25.00%")
    assert next(line for line in said.splitlines() if "HIGHEST" in line).endswith("  up to 10.00% not listed")
    assert "nan" not in said
    nothing = node_of(untold(0), untold(1))
    nothing.add(finished("end", "<|im_end|>"))
    said = text(ending_lines([Span(nothing, 2)], 80, 20))
    assert "does not tell how likely the end was" in said
    assert "nan" not in said
    assert "HIGHEST" not in said


def test_jumps_pass_over_what_is_not_known() -> None:
    tokens = [untold(0), streamed(1, entropy=1.0, rank=0, logprob=-0.1), untold(2), streamed(3, entropy=5.0), untold(4)]
    parts = [Part(node_of(*tokens), None, 5)]
    assert find_uncertain(parts, range(2, 5)) == 3
    assert find_surprise(parts, range(5)) == 3
    nothing = [Part(node_of(untold(0), untold(1)), None, 2)]
    assert find_uncertain(nothing, range(2)) is None
    assert find_surprise(nothing, range(2)) is None
