"""Measures the configured model with `bench`, prints a table or JSON, and saves the fastest settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from termchat import paths
from termchat.chat.opening import find_here
from termchat.commands.bench import EXACT, Result, TuneReport, VerifyCosts, keep, measure
from termchat.config.settings import Settings
from termchat.engine.make import make_engine
from termchat.engine.port import EngineError, Measurement
from termchat.models.errors import ModelError
from termchat.text import sanitize

_RATES = {"threads": "decode", "threads_batch": "prompt", "prefill_batch": "prompt"}


def tune(config: Settings, *, seconds: float, dry_run: bool, as_json: bool) -> int:
    """Measures, prints and saves; returns the exit code."""

    def progress(line: str) -> None:
        print(sanitize(line), file=sys.stderr if as_json else sys.stdout, flush=True)

    engine = make_engine(paths.log_file())
    try:
        spec = find_here(config)
        report = measure(engine, spec, seconds, progress)
        place = None if dry_run else keep(report, spec)
    except (ModelError, EngineError) as error:
        return _fail(error.message, error.hint)
    except OSError as error:
        return _fail(f"the results could not be saved: {error.strerror or error}", str(paths.tuned_file().parent))
    finally:
        engine.close()
    if as_json:
        print(json.dumps(as_dict(report, kept=place is not None)))
    else:
        for line in lines(report):
            progress(line)
        progress(
            f"saved in {place}; a flag, the model list's settings and config.toml override it"
            if place
            else "nothing was saved"
        )
    return 0


def as_dict(report: TuneReport, *, kept: bool) -> dict[str, Any]:
    """The report for programs; rates in tokens per second."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    for result, told in zip(report.results, found["results"], strict=True):
        for series, row in zip(result.series, told["series"], strict=True):
            row |= {"median": series.median, "quartiles": list(series.spread)}
    return found | {"speculation": msgspec.to_builtins(report.speculation), "settings": report.settings, "kept": kept}


def lines(report: TuneReport) -> Iterator[str]:
    for result in report.results:
        yield ""
        yield f"{result.setting:<16}{_RATES[result.setting]} tokens/s   quartiles"
        for series in result.series:
            low, high = series.spread
            remark = _remark(result, series.value)
            yield f"{series.value:<16}{series.median:>8.1f}          {low:.1f}–{high:.1f}{remark}".rstrip()
        yield _verdict(result)
    yield ""
    if report.measured is not None:
        yield from _change_lines(report.measured)
    if report.speculation is not None:
        yield ""
        yield from _speculation_lines(report.speculation)
        yield ""
    yield "KV type and flash attention are left alone: changing them would change the numbers and the replies."


def _change_lines(measured: Measurement) -> Iterator[str]:
    if not measured.largest_change:
        yield "numbers of threads and sizes of batches change no bit: the same seed gives the same reply"
        return
    threads = measured.changes.get("threads", 0.0)
    yield f"threads change {f'logits by up to {threads:.2f}' if threads else 'no bit'}"
    alike = f"up to {measured.rows_alike} rows" if measured.rows_alike > 1 else "no batch of rows"
    yield (
        f"batches: {alike} {'have' if measured.rows_alike > 1 else 'has'} the bits of rows one by one, larger ones change "
        f"the difference between two logits by up to {measured.largest_change:.2f}"
    )
    if not measured.batch_times:
        yield "other programs kept the machine busy, so the cost of batches was not measured: run tune again"


def _speculation_lines(found: VerifyCosts) -> Iterator[str]:
    yield f"{'drafted tokens':<16}cost in tokens    times as fast if all are accepted"
    for rows, cost in found.batches.items():
        yield f"{rows - 1:<16}{cost:>8.2f}          {rows / cost:.2f}"
    if found.break_even >= 1:
        yield "speculation never pays with these threads: a batch costs as much as its tokens one by one"
    else:
        yield (
            f"speculation pays from {found.break_even:.0%} accepted on, and is at most {found.ceiling:.2f} times as fast: "
            f"a draft of {found.tokens} tokens costs {found.batches[found.tokens + 1]:.1f} tokens"
        ).replace("%", " %")


def _remark(result: Result, value: int) -> str:
    words = ["default"] * (value == result.default) + ["chosen"] * (value == result.chosen != result.default)
    words += ["not exact"] * (result.setting == "prefill_batch" and value > EXACT)
    return f"   {', '.join(words)}" if words else ""


def _verdict(result: Result) -> str:
    gain = result.of(result.chosen).median / result.of(result.default).median
    if result.chosen != result.default:
        said = f"{result.setting} {result.chosen}: {gain:.2f} times as fast as the default"
    else:
        said = f"{result.setting} stays {result.default}: no other value is clearly faster"
    if result.fastest:
        faster = result.of(result.fastest).median / result.of(result.chosen).median
        said += f"; --fast-prefill would be {faster:.2f} times as fast, but is not exact"
    return said


def _fail(message: str, hint: str) -> int:
    print(sanitize(f"termchat: {message}"), file=sys.stderr)
    if hint:
        print(sanitize(f"  {hint}"), file=sys.stderr)
    return 1
