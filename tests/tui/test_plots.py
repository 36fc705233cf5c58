"""The plots of a reply against numbers that numpy computes: heights, labels, foldings, outliers."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from termchat.conversation.node import Node
from termchat.conversation.tree import Span
from termchat.tui.draw.ink import Line
from termchat.tui.pages.plots import (
    EIGHTHS,
    LABEL,
    PLOTS,
    Axis,
    Bar,
    Measure,
    Tick,
    Trace,
    columns_of,
    fit_rows,
    format_number,
    make_ticks,
    plot,
    plot_lines,
    round_up,
    stack_plots,
)
from termchat.tui.transcript.tokens import TokenRef
from tests import made_records
from tests.tui.fake_engine import replaced

REPLY: tuple[Measure, ...] = ("entropy", "probability", "time")


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def heights(lines: list[Line], columns: int) -> list[int]:
    """What a person counts: the eighths of every column, from its rows alone."""
    rows = [line.text[LABEL:] for line in lines]
    return [sum(EIGHTHS.find(row[column]) for row in rows if row[column] in EIGHTHS) for column in range(columns)]


def labels(lines: list[Line]) -> list[str]:
    return [line.text[: LABEL - 1].strip() for line in lines]


def reply_of(
    entropies: list[float], logprobs: list[float] | None = None, times: list[int] | None = None, number: int = 2
) -> Node:
    node = Node(number, 1, 0, "assistant")
    for at, entropy in enumerate(entropies):
        token = made_records.token(at, b" w", f" w{at}")
        logprob, time = (logprobs or [-1.0] * len(entropies))[at], (times or [6000] * len(entropies))[at]
        node.add(replaced(token, entropy=entropy, logprob=logprob, decode_us=time))
    return node


def traced(node: Node, width: int = 43, cursor: int | None = None) -> Trace:
    ref = TokenRef(node.number, cursor) if cursor is not None else None
    return Trace([Span(node, len(node.tokens))], columns_of(width), ref)


# --- drawing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 15])
@pytest.mark.parametrize("top", [1.0, 8.0, 250.0])
def test_a_column_is_as_high_as_its_value_to_an_eighth_of_a_row(rows: int, top: float) -> None:
    values = np.linspace(0, top, 97)
    lines = plot([Bar(value) for value in values], Axis(top, format_number), rows, [])[:rows]
    expected = values / top * rows * 8
    assert np.abs(np.array(heights(lines, 97)) - expected).max() <= 1
    assert heights(lines, 97)[0] == 0
    assert heights(lines, 97)[-1] == rows * 8


@pytest.mark.parametrize("rows", [2, 4, 6, 8, 10, 12, 15, 16, 20, 24])
def test_the_label_on_a_row_is_the_value_that_fills_it_to_its_upper_edge(rows: int) -> None:
    axis = Axis(6.0, format_number)
    lines = plot([Bar(6.0)], axis, rows, [])
    shown = {row: float(label) for row, label in enumerate(labels(lines)) if label}
    assert shown[0] == 6.0
    assert shown[rows] == 0.0
    for row, value in shown.items():
        filled = heights(plot([Bar(value)], axis, rows, [])[:rows], 1)[0]
        assert filled == (rows - row) * 8
        assert value == pytest.approx(6.0 * (rows - row) / rows, abs=0.005)
    assert len(shown) >= (5 if rows >= 8 else 2)


def test_numbers_on_an_axis_fit_into_its_labels() -> None:
    for value in (0.0, 0.0001, 0.062, 0.25, 3.75, 12.5, 999.0, 1250.0, 9999.0, 12_500.0, 125_000.0, 8e6, 2.5e8, 3e30):
        shown = format_number(value)
        assert len(shown) <= 5
        scale = {"k": 1e3, "M": 1e6}.get(shown[-1], 1.0)
        assert float(shown.rstrip("kM")) * scale == pytest.approx(value, rel=0.01)


def test_a_big_plot_has_more_labels() -> None:
    small, big = (sum(map(bool, labels(plot([Bar(1.0)], Axis(1.0, format_number), rows, [])))) for rows in (4, 24))
    assert small < big


@pytest.mark.parametrize("value", [0.004, 0.99, 1.0, 1.2, 3.7, 5.9, 8.1, 99.0, 1234.5, 6.6e7])
def test_the_top_of_an_axis_is_a_round_number_above_the_highest_value_and_not_far(value: float) -> None:
    top = round_up([value])
    assert value <= top <= value * 1.51
    assert float(f"{top:.2g}") == pytest.approx(top)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_cannot_be_scaled_has_an_axis_all_the_same(value: float) -> None:
    assert round_up([value]) == 1.0
    lines = plot([Bar(value)], Axis(1.0, format_number), 4, [])
    assert heights(lines[:4], 1) == [32 if value == math.inf else 0]


def test_the_part_above_a_column_goes_up_to_its_own_value_in_another_colour() -> None:
    low, high = plot([Bar(2.0, high=7.0), Bar(3.0, high=3.0)], Axis(8.0, format_number), 8, [])[:8], (7, 3)
    for column, top in enumerate(high):
        assert heights(low, 2)[column] == top * 8
    inks = [line.runs[2][1].color for line in low]
    assert inks[1:6] == ["border"] * 5
    assert inks[6:] == ["accent"] * 2


def test_ticks_stand_on_the_columns_of_their_numbers_and_do_not_touch() -> None:
    ticks = make_ticks(640, 16, 6)
    assert [int(tick.label) for tick in ticks] == list(range(0, 640, 100))
    axis = plot([Bar(0.0)] * 40, Axis(1.0, format_number), 2, ticks, note="token")[-1].text
    for tick in ticks[:-2]:  # the note stands in the place of the last ones
        assert axis[LABEL + tick.column :].startswith(tick.label + " ")
        assert tick.column == int(tick.label) // 16
    assert axis.endswith(" token")
    assert len(axis) == LABEL + 40
    assert "12" not in plot([Bar(0.0)] * 9, Axis(1.0, format_number), 2, [Tick(0, "1111"), Tick(3, "12")])[-1].text


def test_where_there_is_room_the_axis_has_the_words_of_its_tokens() -> None:
    trace = traced(reply_of([1.0] * 90), 118)
    each = trace.each
    axis = plot_lines("entropy", trace, 118, 10)[-1].text
    named = re.findall(r"(\d+) ·w(\d+)", axis)
    assert len(named) >= 4
    assert all(number == word for number, word in named)
    assert all(axis[LABEL + int(number) // each :].startswith(number) for number, _ in named)
    assert axis.endswith(" token")


@pytest.mark.parametrize("rows", range(1, 70))
def test_rows_are_used_as_far_as_they_part_evenly(rows: int) -> None:
    assert rows - 4 < fit_rows(rows) <= rows


# --- foldings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 36, 37, 38, 148, 149, 1000, 50_001])
def test_columns_are_means_and_maxima_of_their_numbers(count: int) -> None:
    node = Node(2, 1, 0, "assistant")
    values = np.random.default_rng(count).exponential(size=count).astype(np.float32)
    node.tokens.entropies.extend(values.tolist())
    trace = Trace([Span(node, count)], 37)
    parts = [values[at : at + trace.each] for at in range(0, count, trace.each)]
    means, highs = trace.read_columns("entropy")
    assert len(parts) == len(means) == len(highs) <= 37
    assert count <= 37 or len(parts) >= 37 / 2
    assert count <= 2 * 37 or len(parts) >= 37 * 2 / 3
    np.testing.assert_allclose(means, [part.mean(dtype=np.float64) for part in parts])
    np.testing.assert_allclose(highs, [part.max() for part in parts])


def test_a_number_that_is_not_known_counts_for_no_column() -> None:
    node = Node(2, 1, 0, "assistant")
    node.tokens.entropies.extend([1.0, math.nan, math.nan, math.nan, 3.0, 5.0, math.nan, 2.0])
    means, highs = Trace([Span(node, 8)], 4).read_columns("entropy")
    np.testing.assert_array_equal(means, [1.0, math.nan, 4.0, 2.0])
    np.testing.assert_array_equal(highs, [1.0, math.nan, 5.0, 2.0])


def test_median_outliers_and_the_worst_are_those_of_all_times() -> None:
    values = (np.random.default_rng(5).lognormal(1.8, 0.6, 4001) * 1e3).astype(int)
    foot = plot_lines("time", traced(reply_of([1.0] * 4001, times=values.tolist()), 118), 118, 10)[-1].text
    outliers, at = int((values > 2 * np.median(values)).sum()), int(values.argmax())
    median, worst = format_number(float(np.median(values)) / 1e3), format_number(values.max() / 1e3)
    assert foot == f"median {median} · {outliers} over 2× · worst {worst} at {at} ·w{at}"


def test_a_reply_in_several_parts_is_one_and_each_column_leads_to_the_token_that_stands_out() -> None:
    first, second = reply_of([1.0, 2.0, 0.5]), reply_of([0.1, 9.0], number=3)
    trace = Trace([Span(first, 3), Span(second, 2)], 37, TokenRef(3, 1))
    assert (trace.count, trace.cursor) == (5, 4)
    assert [trace.find_peak("entropy", column) for column in range(6)] == [
        TokenRef(2, 0), TokenRef(2, 1), TokenRef(2, 2), TokenRef(3, 0), TokenRef(3, 1), None,
    ]  # fmt: skip
    trace = Trace([Span(first, 3), Span(second, 2)], 2)
    assert trace.each == 3
    assert [trace.find_peak("entropy", column) for column in (0, 1)] == [TokenRef(2, 1), TokenRef(3, 1)]


def test_the_least_probable_token_of_a_column_is_the_one_that_stands_out() -> None:
    trace = traced(reply_of([1.0] * 4, [-0.1, -5.0, -0.3, -0.2]), LABEL + 2)
    assert trace.find_peak("probability", 0) == TokenRef(2, 1)


# --- over a reply ----------------------------------------------------------------------------------------------------


def test_entropy_is_drawn_in_bits_token_by_token_while_there_is_room() -> None:
    entropies = [0.0, 1.0, 2.0, 3.0, 4.0, 3.9]
    lines = plot_lines("entropy", traced(reply_of(entropies)), 43, 10)
    head, body = lines[0].text, lines[1:9]
    assert head.split() == ["ENTROPY", "in", "bit", "5", "3.90"]
    assert labels(lines[1:])[0] == "4"
    expected = np.array(entropies) / 4 * 64
    assert np.abs(np.array(heights(body, 6)) - expected).max() <= 1


def test_where_a_column_stands_for_several_tokens_the_plot_says_which_number_it_shows() -> None:
    many = [float(at % 5) for at in range(300)]
    trace = traced(reply_of(many, times=[6000] * 299 + [20_000]))
    each = trace.each
    assert each == math.ceil(300 / 37 / each) * each
    assert f"mean, max of {each}" in plot_lines("entropy", trace, 43, 10)[0].text
    assert f"mean of {each}" in plot_lines("probability", trace, 70, 10)[0].text
    assert f"max of {each}" in plot_lines("time", trace, 43, 10)[0].text


def test_probability_is_the_models_own_before_the_chain() -> None:
    logprobs = [math.log(share) for share in (1.0, 0.5, 0.25, 0.125)]
    lines = plot_lines("probability", traced(reply_of([1.0] * 4, logprobs)), 50, 10)
    assert "model, before the chain" in lines[0].text
    assert lines[0].text.endswith(" 3 12.5%")
    assert heights(lines[1:9], 4) == [64, 32, 16, 8]
    assert labels(lines[1:])[0] == "100%"
    assert labels(lines[1:])[8] == "0%"


def test_decode_times_show_the_median_and_name_the_worst_and_leave_the_scale_to_the_others() -> None:
    times = [6000] * 20
    times[7], times[11] = 13_000, 90_000
    lines = plot_lines("time", traced(reply_of([1.0] * 20, times=times)), 60, 11)
    assert lines[-1].text == "median 6 · 2 over 2× · worst 90 at 11 ·w11"
    top = float(labels(lines[1:])[0])
    assert 18 <= top < 30  # three times the median, not the worst
    rows = [line.text[LABEL:] for line in lines[1:9]]
    assert [row.index("•") for row in rows if "•" in row] == [11, 7]
    assert rows[0][11] == "•"  # beyond the scale
    level = next(row for row, label in enumerate(labels(lines[1:])) if label == "6")
    assert rows[level][30] == "─"
    assert (8 - level - 1) * top / 8 < 6 <= (8 - level) * top / 8  # the line is on the row that holds it


def test_the_token_under_the_cursor_is_marked_and_named() -> None:
    lines = plot_lines("entropy", traced(reply_of([1.0, 2.0, 3.0]), cursor=1), 43, 10)
    assert lines[0].text.split()[-2:] == ["1", "2.00"]
    assert plot_lines("entropy", traced(reply_of([1.0, 2.0, 3.0]), 90, cursor=1), 90, 10)[0].text.endswith(
        " 1 ·w1 2.00"
    )
    marked = [[text for text, ink in line.runs if ink.color == "cursor"] for line in lines[1:9]]
    assert all(len(cells) == 1 and len(cells[0]) == 1 for cells in marked)
    assert all(line.text[LABEL + 1] == cells[0] for line, cells in zip(lines[1:9], marked, strict=True))


@pytest.mark.parametrize(
    "entropies",
    [[], [3.0], [0.0] * 9, [2.5] * 500, [math.nan, 1.0], [1e30, 1.0], [0.001] * 3, [1.0] * 3_000],
    ids=["empty", "one", "zero", "constant", "nan", "huge", "tiny", "long"],
)
@pytest.mark.parametrize(("width", "rows"), [(43, 10), (20, 6), (190, 50), (8, 5)])
def test_no_series_breaks_a_plot(entropies: list[float], width: int, rows: int) -> None:
    trace = traced(reply_of(entropies), width)
    for measure in PLOTS:
        lines = plot_lines(measure, trace, width, rows)
        assert len(lines) <= rows
        assert all(len(line.text) == width for line in lines[1 : 1 + fit_rows(rows - 3)])


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "rows"), [(78, 19), (43, 35), (58, 56), (118, 34), (198, 54), (43, 6)])
@pytest.mark.parametrize("names", [REPLY, *((name,) for name in PLOTS)])
def test_a_page_has_room_for_its_pictures(names: tuple[Measure, ...], width: int, rows: int) -> None:
    lines, placed = stack_plots(names, traced(reply_of([1.0] * 90), width), width, rows)
    assert next(iter(placed)) == names[0]
    assert len(lines) <= rows or rows < PLOTS[names[0]].least
    assert all(len(line.text) <= width for line in lines)
    if rows >= 19:
        assert len(placed) == len(names)
