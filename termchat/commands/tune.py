"""`termchat tune` on paper: from the settings to a table, or to JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from termchat import paths
from termchat.chat.opening import find_model
from termchat.commands.bench import EXACT, Result, TuneReport, keep, measure
from termchat.config.settings import Settings
from termchat.engine.make import make_engine
from termchat.engine.port import EngineError
from termchat.models.errors import ModelError
from termchat.text import sanitize

_RATES = {"threads": "decode", "threads_batch": "prompt", "prefill_batch": "prompt"}

_BEFORE = "a flag, what is set in the list of models and config.toml"


def tune(config: Settings, *, seconds: float, dry_run: bool, as_json: bool) -> int:
    """Measures the configured model, prints, and keeps what is best; returns the exit code."""

    def progress(line: str) -> None:
        print(sanitize(line), file=sys.stderr if as_json else sys.stdout, flush=True)

    engine = make_engine(paths.log_file())
    try:
        spec = find_model(config)[1]
        report = measure(engine, spec, seconds, progress)
        place = None if dry_run else keep(report, spec)
    except (ModelError, EngineError) as error:
        return _fail(error.message, error.hint)
    except OSError as error:
        return _fail(f"what was measured cannot be kept: {error.strerror or error}", str(paths.tuned_file().parent))
    finally:
        engine.close()
    if as_json:
        print(json.dumps(as_dict(report, kept=place is not None)))
    else:
        for line in lines(report):
            progress(line)
        progress(f"kept in {place}; {_BEFORE} go before it" if place else "nothing was kept")
    return 0


def as_dict(report: TuneReport, *, kept: bool) -> dict[str, Any]:
    """The report for programs; rates in tokens a second."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    for result, told in zip(report.results, found["results"], strict=True):
        for series, row in zip(result.series, told["series"], strict=True):
            row |= {"median": series.median, "quartiles": list(series.spread)}
    return found | {"settings": report.settings, "kept": kept}


def lines(report: TuneReport) -> Iterator[str]:
    """The report for people."""
    for result in report.results:
        yield ""
        yield f"{result.setting:<16}{_RATES[result.setting]} tokens/s   quartiles"
        for series in result.series:
            low, high = series.spread
            remark = _remark(result, series.value)
            yield f"{series.value:<16}{series.median:>8.1f}          {low:.1f}–{high:.1f}{remark}".rstrip()
        yield _verdict(result)
    yield ""
    for at, apart in report.differences.items():
        what = "equal bit for bit" if not apart else f"up to {apart:.1%} apart"
        yield f"after {at} tokens: one by one and in batches, probabilities are {what}"
    yield "KV type and flash attention stay as configured: other ones change the numbers, and so the replies."


def _remark(result: Result, value: int) -> str:
    words = ["default"] * (value == result.default) + ["chosen"] * (value == result.chosen != result.default)
    words += ["not exact"] * (result.setting == "prefill_batch" and value > EXACT)
    return f"   {', '.join(words)}" if words else ""


def _verdict(result: Result) -> str:
    gain = result.of(result.chosen).median / result.of(result.default).median
    if result.chosen != result.default:
        said = f"{result.setting} {result.chosen}: {gain:.2f} times as fast as the default"
    else:
        said = f"{result.setting} stays {result.default}: nothing is faster by more than the noise"
    if result.fastest:
        faster = result.of(result.fastest).median / result.of(result.chosen).median
        said += f"; --fast-prefill would be {faster:.2f} times as fast, but is not exact"
    return said


def _fail(message: str, hint: str) -> int:
    print(sanitize(f"termchat: {message}"), file=sys.stderr)
    if hint:
        print(sanitize(f"  {hint}"), file=sys.stderr)
    return 1
