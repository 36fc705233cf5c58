"""The distribution of a step as people see it, against float64: percent, bars, the rest, rolls, and the text around it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.conversation.tree import Conversation, Span
from termchat.decoding import dice
from termchat.decoding.records import Candidate, Stage, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.observe import Labels
from termchat.text import cells
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.pages.candidates import SIZES, Rolls, candidate_table, roll_more
from termchat.tui.pages.record import WITH_KNOBS, Shown, sentence_lines, step_lines
from termchat.tui.transcript.tokens import TokenRef
from tests import made_records
from tests.tui.fake_engine import replaced

N_VOCAB = 49_152
SETTINGS = {
    "as they are": SamplerSettings(),
    "hot and uncut": SamplerSettings(temperature=1.6, top_k=0, top_p=1.0, min_p=0.0),
    "greedy": SamplerSettings(temperature=0.0),
}
EIGHTHS = " ▏▎▍▌▋▊▉█"


def softmax(row: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(row - row.max())
    return weights / weights.sum()


def observed(settings: SamplerSettings, seed: int = 5) -> tuple[NDArray[np.float32], Token]:
    """Logits as a model could have them, and the record that the engine makes of them."""
    logits = np.random.default_rng(seed).normal(0, 3, N_VOCAB).astype(np.float32)
    logits[[7, 70, 700]] = (19.0, 18.5, 16.5)
    chain = Chain(settings, N_VOCAB, [])
    drawn = Observer(N_VOCAB, [0], Labels(N_VOCAB, lambda token: f" w{token}"), 20).draw(logits, chain, 42, 3)
    chain.close()
    token = made_records.token(3, b" w7", " w7", token_id=drawn.id)
    return logits, replaced(token, stages=drawn.stages, candidates=drawn.candidates, probability=drawn.probability)


def after_chain(row: NDArray[np.float64], settings: SamplerSettings) -> dict[int, float]:
    """top_k, top_p, min_p and temperature in float64."""
    order = np.argsort(-row, kind="stable")
    order = order[: settings.top_k or None]
    if settings.top_p < 1:
        order = order[: int(np.searchsorted(np.cumsum(softmax(row[order])), settings.top_p)) + 1]
    if settings.min_p > 0:
        order = order[row[order] >= row[order[0]] + math.log(settings.min_p)]
    if settings.temperature <= 0:
        order = order[:1]
    return dict(zip(order.tolist(), softmax(row[order] / (settings.temperature or 1.0)).tolist(), strict=True))


def table(token: Token, width: int = 118, rows: int = 22, **options: object) -> list[str]:
    return [line.text for line in candidate_table(token, [], width, rows, bars=True, **options)]  # type: ignore[arg-type]


def shown_percent(share: float) -> str:
    return f"{share:.1%}" if share == 0 or share >= 0.001 else "<0.1%"


def step(shares: list[float], *, drawn: int = 0, stages: tuple[Stage, ...] = (Stage("top_k", 40),)) -> Token:
    """A step of which `shares` are the probabilities after the chain."""
    candidates = [
        Candidate(at, f" c{at}", 9.0 - at, math.log(0.5 / 2**at), share, 0.1 * at, None if share else "top_p")
        for at, share in enumerate(shares)
    ]
    token = made_records.token(3, b" c", " c", token_id=drawn)
    return replaced(token, candidates=candidates, stages=[Stage("penalties", 49_152), *stages, Stage("dice", 1)])


# --- probabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_model_and_after_are_the_probabilities_over_the_whole_vocabulary(settings: SamplerSettings) -> None:
    logits, token = observed(settings)
    row = logits.astype(np.float64)
    model, after = softmax(row), after_chain(row, settings)
    head, *lines, others = table(token, rows=30)
    assert head.split()[:1] == ["model"]
    assert len(lines) == len(token.candidates) >= 20
    seen = [0.0, 0.0]
    for line, candidate in zip(lines, token.candidates, strict=True):
        share, left = model[candidate.id], after.get(candidate.id, 0.0)
        seen = [seen[0] + share, seen[1] + left]
        found = re.match(r"·w(\d+) +([<\d.]+%) [█▉-▏ ]*? +(?:([<\d.]+%)|cut \w+|not highest) ", line)
        assert found is not None, line
        assert int(found[1]) == candidate.id
        assert found[2] == shown_percent(share)
        assert found[3] == (shown_percent(left) if left else None)
    found = re.match(rf"{N_VOCAB - len(lines):,} others +([<\d.]+%) [█▉-▏ ]*? +([<\d.]+%)", others)
    assert found is not None, others
    assert [found[1], found[2]] == [shown_percent(max(1 - share, 0.0) if share < 1 - 1e-6 else 0.0) for share in seen]


@pytest.mark.parametrize("width", [60, 78, 114, 118, 198])
def test_bars_are_linear_from_0_to_100_percent(width: int) -> None:
    shares = [0.5, 0.25, 0.125, 0.06, 0.04, 0.025]
    head, *lines, _ = table(step(shares), width)
    size = head.index("100%", head.index("after")) + 4 - head.index("0%", head.index("after"))
    begin = head.index("0%", head.index("after"))
    for line, share in zip(lines, shares, strict=True):
        bar = line[begin : begin + size]
        eighths = sum(map(EIGHTHS.index, bar))
        assert bar.rstrip() == "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        assert abs(eighths - share * size * 8) <= 0.5


@pytest.mark.parametrize("width", [36, 44, 57, 78, 100, 114, 118, 198])
def test_at_every_width_each_candidate_has_its_word_and_its_percent(width: int) -> None:
    lines = table(step([0.9, 0.08, 0.02, 0.0]), width)
    for at, (model, after) in enumerate(
        [("50.0%", "90.0%"), ("25.0%", "8.0%"), ("12.5%", "2.0%"), ("6.2%", "cut top_p")]
    ):
        line = lines[1 + at]
        assert line.startswith(f"·c{at} ")
        assert model in line
        assert after in line
        assert len(line) <= width


def test_what_greedy_did_not_take_was_not_cut() -> None:
    greedy = step([1.0, 0.0], stages=(Stage("temperature", 1),))
    candidates = [replaced(one, removed_by=one.removed_by and "temperature") for one in greedy.candidates]
    line = table(replaced(greedy, candidates=candidates))[2]
    assert "not highest" in line
    assert "cut" not in line


def test_what_the_model_said_stays_where_it_is_while_a_knob_turns() -> None:
    cold, hot = table(step([1.0, 0.0, 0.0])), table(step([0.4, 0.3, 0.3]))
    begin = cold[0].index("100%") + len("100%")
    assert [line[:begin] for line in cold] == [line[:begin] for line in hot]
    assert cold[0] == hot[0]  # the axis too
    assert cold[1] != hot[1]


def test_the_rest_of_the_vocabulary_is_one_bar_and_all_of_it_adds_up() -> None:
    token = step([0.4, 0.2, 0.1])  # the chain left more than is on record
    lines = table(token, rows=3)
    assert [line.split()[0] for line in lines[1:]] == ["·c0", "·c1", "49,150"]
    assert re.match(r"49,150 others +25\.0% █+\S* +40\.0% █+", lines[-1])
    assert table(replaced(token, stages=[]))[-1].startswith("others ")  # nobody said how many there are


def test_the_drawn_token_is_marked_and_among_few_rows_too() -> None:
    lines = table(step([0.4, 0.3, 0.2, 0.1], drawn=3), rows=3, numbered=True)
    assert [line[:4] for line in lines[1:3]] == ["1 ·c", "4 ·c"]
    assert lines[2].rstrip().endswith("●")


def test_a_higher_screen_shows_more_candidates() -> None:
    token = observed(SamplerSettings())[1]
    low, high = (step_lines(Shown(token), 118, rows, bars=True, numbered=True) for rows in (14, 50))
    counts = [sum("·w" in line.text for line in lines[1:]) for lines in (low, high)]
    assert 5 <= counts[0] < counts[1] == 20
    assert len(low) <= 14


def test_the_large_view_says_which_time_it_shows_and_what_each_stage_left() -> None:
    token = step([0.9, 0.1, 0.0], stages=(Stage("top_k", 40), Stage("top_p", 2)))
    samplers = SamplerSettings(temperature=0.7)
    then = "\n".join(
        line.text for line in step_lines(Shown(token, samplers=samplers, seed=7), 118, 30, bars=True, numbered=True)
    )
    now = "\n".join(
        line.text for line in step_lines(Shown(token, "RECOMPUTED", WITH_KNOBS), 118, 30, bars=True, numbered=True)
    )
    assert "TOKEN 3 ·c  as recorded" in then
    assert "temp 0.7  seed 7" in then
    assert "LEFT AFTER  penalties 49152  top_k 40  top_p 2  dice 1" in then
    assert "RECOMPUTED 3 ·c  with the current knobs" in now
    assert "as recorded" not in now


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize(("width", "rows"), [(24, 5), (36, 9), (43, 30), (57, 56), (78, 17), (118, 33), (198, 53)])
def test_no_line_is_wider_than_its_room_and_foreign_text_is_shown_as_marks(width: int, rows: int, rolled: bool) -> None:
    hostile = Candidate(99, "\x1b]52;c;x\x07\u202e" + "狐" * 40, 1.0, -3.0, 0.2, 0.5, None)
    token = step([0.5, 0.3, 0.0])
    token = replaced(token, candidates=[*token.candidates, hostile])
    rolls = Rolls(1, 3, 100, 5) if rolled else None
    lines = step_lines(Shown(token), width, rows, bars=True, numbered=True, rolls=rolls)
    text = "".join(line.text for line in lines)
    assert not set("\x1b\x07\u202e\n") & set(text)
    assert width < 36 or all(cells(line.text) <= width for line in lines)
    assert len(lines) <= max(rows, 8)


# --- rolls -----------------------------------------------------------------------------------------------------------


def counted(token: Token, rolls: Rolls, width: int = 118) -> list[int]:
    """What a person reads in the column of rolls, the others last."""
    head, *lines = table(token, width, rolled=rolls)
    end = head.index("rolls") + len("rolls")
    return [int(line[:end].split()[-1]) for line in lines]


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [0.35, 0.2, 0.1, 0.05], [0.04] * 20], ids=["all", "some", "flat"])
def test_the_histogram_is_what_the_dice_draw_in_float64(shares: list[float]) -> None:
    token, n, first = step(shares), 1000, 4711
    missing = 1 - math.fsum(shares)
    ids = [*range(len(shares)), *([2**31 - 1] if missing > 1e-9 else [])]
    logs = np.log(np.array([*shares, *([missing] if missing > 1e-9 else [])], np.float64))
    noise = np.array([dice.draw_noise(seed, token.step, ids) for seed in range(first, first + n)], np.float64)
    expected = np.bincount((logs + noise).argmax(axis=1), minlength=len(shares) + 1)
    seen = counted(token, Rolls(2, token.step, n, first))
    assert seen == expected.tolist()
    assert sum(seen) == n


def test_a_roll_is_what_its_seed_draws_in_a_reply() -> None:
    settings = SamplerSettings(top_k=12, temperature=1.2)
    logits, token = observed(settings)
    chain = Chain(settings, N_VOCAB, [])
    observer = Observer(N_VOCAB, [0], Labels(N_VOCAB, str), 20)
    drawn = [observer.draw(logits, chain, seed, token.step).id for seed in range(80, 280)]
    chain.close()
    rolled = Rolls(1, token.step, 200, 80).count(token)
    assert {i: count for i, count in rolled.items() if count} == {i: drawn.count(i) for i in set(drawn)}
    assert len(set(drawn)) > 1


def test_the_counts_of_rows_that_have_no_room_are_among_the_others() -> None:
    token, rolls = step([0.4, 0.3, 0.2, 0.1]), Rolls(1, 3, 500, 9)
    head, *lines = table(token, rows=3, rolled=rolls)
    end = head.index("rolls") + 5
    assert sum(int(line[:end].split()[-1]) for line in lines) == 500
    assert [line.split()[0] for line in lines] == ["·c0", "·c1", "49,150"]


def told(shown: Shown, rolls: Rolls | None, width: int = 118) -> str:
    return "\n".join(line.text for line in step_lines(shown, width, 30, bars=True, numbered=True, rolls=rolls))


def test_rolls_name_their_seeds_and_at_temperature_0_that_nothing_was_random() -> None:
    token = step([0.6, 0.4])
    assert "r rolls the dice 100 times" in told(Shown(token), None)
    assert "100 ROLLS  seeds 50 to 149  r rolls the dice 1,000 times" in told(Shown(token), Rolls(0, 3, 100, 50))
    greedy = step([0.0, 1.0], drawn=1)
    rolls = Rolls(0, 3, 1000, 50)
    assert rolls.count(greedy) == {0: 0, 1: 1000}
    text = told(Shown(greedy, samplers=SamplerSettings(temperature=0.0)), rolls)
    assert "1,000 ROLLS  nothing was random: temperature 0 leaves one token" in text
    assert "one token was left" in told(Shown(greedy, samplers=SamplerSettings(top_k=1)), rolls)
    assert "nothing was random" not in told(Shown(step([0.9], drawn=0)), rolls)  # others are left, too


def test_rolls_of_an_imported_record_with_impossible_numbers_break_nothing() -> None:
    odd = [
        Candidate(i, f" c{i}", 1.0, -1.0, p, 0.0, None) for i, p in ((2**62, math.nan), (-3, 0.0), (2**31 - 1, -0.5))
    ]
    token = replaced(step([0.5]), step=-7, candidates=odd, stages=[Stage("top_k", -5)])
    assert "100 ROLLS" in told(Shown(token), Rolls(0, -7, 100, 5))
    assert "others" in told(Shown(replaced(token, candidates=odd[:2])), Rolls(0, -7, 100, 5))


def test_more_rolls_begin_with_the_ones_there_are_and_another_step_or_the_end_begins_anew() -> None:
    sizes, firsts = [], []
    rolls = None
    for _ in range(4):
        rolls = roll_more(rolls, 2, 7)
        sizes.append(rolls.n)
        firsts.append(rolls.first)
    assert sizes == [*SIZES, SIZES[0]]
    assert len(set(firsts[:3])) == 1
    assert firsts[3] != firsts[0]
    assert roll_more(rolls, 2, 8).n == roll_more(rolls, 3, 7).n == SIZES[0]
    assert (roll_more(rolls, 2, 7, 250, 42).n, roll_more(rolls, 2, 7, 250, 42).first) == (250, 42)


def test_the_seeds_of_rolls_stay_while_the_distribution_changes() -> None:
    rolls = Rolls(1, 3, 1000, 77)
    warm, cold = step([0.6, 0.4]), step([0.9, 0.1])
    before, after = rolls.count(warm)[0], rolls.count(cold)[0]
    assert before == 1000 - rolls.count(warm)[1]
    assert after > before
    assert rolls.count(warm)[0] == before


# --- the text around it ----------------------------------------------------------------------------------------------


def reply(texts: list[str], *, raw: bool = False) -> tuple[Conversation, list[Span]]:
    chat = Conversation(raw=raw)
    made_records.user(chat, "The capital of France is" if raw else "What is the capital?", [1, 2])
    node = made_records.reply(chat)
    for at, text in enumerate(texts):
        node.add(made_records.token(at, text.encode(), text))
    return chat, [Span(node, len(texts))]


def sentence(
    chat: Conversation, spans: list[Span], at: int | None, width: int = 40, pending: Token | None = None
) -> list[str]:
    cursor = TokenRef(spans[0].node.number, at) if at is not None else None
    return [line.text for line in sentence_lines(chat, spans, cursor, pending, width, 3)]


def test_the_sentence_stands_around_the_token_which_is_between_marks() -> None:
    chat, spans = reply([" Paris", ",", " the", " city", " of", " light", "."], raw=True)
    assert sentence(chat, spans, 0)[0] == "The capital of France is ▐Paris▌, the "
    assert sentence(chat, spans, 3)[1] == "▐city▌ of light."
    chat, spans = reply(["It", " is", "\n\n", "Paris"])
    assert sentence(chat, spans, 1) == ["What is the capital?", "It ▐is▌", ""]
    assert "▐⏎▌" in "".join(sentence(chat, spans, 2))
    assert "▐Paris▌" in "".join(sentence(chat, spans, None))  # without a cursor, the newest
    waiting = sentence(chat, spans, 3, pending=made_records.token(4, b" now", " now"))
    assert "Paris ▐now▌" in "".join(waiting)


@pytest.mark.parametrize("at", [0, 1, 63, 64, 65, 200, 998, 999])
def test_the_line_of_the_token_is_the_middle_one_where_there_is_text_on_both_sides(at: int) -> None:
    chat, spans = reply([f" word{number}" for number in range(1000)])
    lines = sentence(chat, spans, at)
    assert len(lines) == 3
    row = next(row for row, line in enumerate(lines) if f"▐word{at}▌" in line)
    assert row == (2 if at > 990 else 1)
    assert all(cells(line) <= 40 for line in lines)


def test_the_sentence_costs_the_same_in_a_short_reply_and_in_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = Wrapper.feed
    monkeypatch.setattr(Wrapper, "feed", lambda self, text, ink: (fed.append(len(text)), feed(self, text, ink))[1])

    def cost(count: int) -> int:
        chat, spans = reply([" word"] * count)
        fed.clear()
        sentence(chat, spans, count // 2)
        return sum(fed)

    assert cost(20_000) <= cost(1000) + 5 * 64
    chat, spans = reply(["x" * 100_000, " end"])
    fed.clear()
    sentence(chat, spans, 1)
    assert sum(fed) < 5000


def test_no_line_of_the_sentence_steers_the_terminal() -> None:
    chat, spans = reply(["\x1b[2J", "\u202e", " ok"])
    for at in range(3):
        lines = sentence_lines(chat, spans, TokenRef(spans[0].node.number, at), None, 30, 3)
        assert not set("\x1b\u202e") & set("".join(line.text for line in lines))
