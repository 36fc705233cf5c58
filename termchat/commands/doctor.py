"""The report of `termchat doctor`, meant for pasting into a bug report: it holds no secrets.

Examining changes nothing, and no failure of a part ends it early.
"""

from __future__ import annotations

import getpass
import locale
import os
import platform
import re
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from time import monotonic

import msgspec

import termchat
from termchat import paths, regular_files
from termchat.config import per_model
from termchat.config.origins import DEFAULT, PRESET
from termchat.config.settings import Settings
from termchat.conversation.store import repair
from termchat.decoding.records import Failed
from termchat.engine import gpu_wheel
from termchat.engine.access_key import key_source, read_key
from termchat.engine.address import EngineAddress
from termchat.engine.checkup import ROUNDS, RPC, Checkup, check
from termchat.engine.make import make_engine
from termchat.engine.port import Device, Engine, EngineError, Measurement, Probe, Probed
from termchat.models import catalogue, listing, memory
from termchat.models.draft_pairs import draft_facts, why_not_draft
from termchat.models.elsewhere import models_of
from termchat.models.errors import ModelError
from termchat.text import sanitize, size

_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_LOOKS_SECRET = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{8,}|(?<=://)[^/@\s]+@")
_WIDTH = 18


class Section(msgspec.Struct):
    """A title, and rows of a name and a text."""

    title: str
    rows: list[tuple[str, str]] = []


class DoctorReport(msgspec.Struct):
    """What was found, and what to do about it, in order."""

    sections: list[Section] = []
    todo: list[str] = []

    def section(self, title: str) -> Section:
        self.sections.append(Section(title))
        return self.sections[-1]

    def advise(self, what: str) -> None:
        """Adds a thing to do, unless it is already there."""
        if what not in self.todo:
            self.todo.append(what)

    def cleaned(self, engines: Iterable[EngineAddress] = ()) -> DoctorReport:
        """A copy without secrets, those of these engines too, fit for others to see."""
        private = Private(engines)
        sections = [
            Section(section.title, [(private.clean(name), private.clean(text)) for name, text in section.rows])
            for section in self.sections
        ]
        return DoctorReport(sections, [private.clean(line) for line in self.todo])

    def lines(self) -> Iterator[str]:
        for section in self.sections:
            yield section.title
            for name, text in section.rows:
                yield f"  {name:<{_WIDTH}} {text}".rstrip()
            yield ""
        yield "What to do"
        for line in self.todo or ["nothing; no problems found"]:
            yield f"  {line}"

    def as_dict(self) -> dict[str, object]:
        sections = {
            section.title: [{"name": name, "text": text} for name, text in section.rows] for section in self.sections
        }
        return {"sections": sections, "todo": self.todo}


class Private:
    """What others must not see: secrets, the home folder, the user's name in a path, control characters."""

    def __init__(self, engines: Iterable[EngineAddress] = ()) -> None:
        home = Path.home()
        self._homes = sorted({str(home), os.path.realpath(home)} - {"/", ""}, key=len, reverse=True)
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # the system does not know this user
            user = ""
        self._user = re.compile(rf"(?<=[/\\]){re.escape(user)}(?![\w.-])") if user and user != "root" else None
        self._secrets = [secret for name in _TOKENS if len(secret := os.environ.get(name, "")) > 3]
        for engine in engines:
            with suppress(EngineError):
                self._secrets += filter(None, [read_key(engine)])

    def clean(self, text: str) -> str:
        """The text on one line, without any of these."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = _LOOKS_SECRET.sub("…", text)
        for home in self._homes:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        if self._user is not None:
            text = self._user.sub("USER", text)
        return " ".join(sanitize(text).split())


_PACKAGES = ("llama-cpp-python", "textual", "numpy", "msgspec", "httpx")
_ANSWERS_WITHIN = 30.0
_ELSEWHERE_WITHIN = 10.0
_SHOWN = 12
_SMALLEST = (40, 12)
_VARIABLES = ("TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR", "COLORFGBG", "LANG", "LC_ALL")
_ONLY_WHETHER = ("TMUX", "STY", "SSH_CONNECTION", "HF_TOKEN", "HF_ENDPOINT", "HTTPS_PROXY", "LLAMA_CACHE", "HF_HOME")
_PRIVATE = ("system",)
"""Settings whose value is not shown."""


def examine(config: Settings, engine: Engine | None = None) -> DoctorReport:
    """The whole report, cleaned for others to see; takes a second or two."""
    report = DoctorReport()
    _versions(report.section("Versions"))
    _engine(report, make_engine() if engine is None else engine)
    _engines(report, config)
    _paths(report)
    _settings(report, config)
    _terminal(report, os.environ)
    _models(report, config)
    _chats(report)
    return report.cleaned(config.engines.values())


def _versions(section: Section) -> None:
    section.rows.append(("termchat", termchat.__version__))
    section.rows.append(("python", f"{platform.python_version()} ({platform.python_implementation()})"))
    section.rows.append(("system", f"{platform.system()} {platform.release()} {platform.machine()}"))
    for package in _PACKAGES:
        try:
            section.rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            section.rows.append((package, "not installed"))
    section.rows.append(("sqlite", sqlite3.sqlite_version))


def _engine(report: DoctorReport, engine: Engine) -> None:
    """The build and its devices, asked in the engine's own process: a broken build must not end this one."""
    section = report.section("Engine")
    section.rows.append(("machine", per_model.machine()))
    answer = _probed(engine)
    if isinstance(answer, Failed):
        section.rows.append(("failed", answer.message))
        report.advise(f"The engine does not start: {answer.message}. {answer.hint}".rstrip())
        return
    for name, features in answer.backends.items():
        on = [feature if value == "1" else f"{feature}={value}" for feature, value in features.items() if value != "0"]
        section.rows.append((f"backend {name}", " ".join(on)))
    other = "not built in; llama-server --rpc on another machine needs nothing here"
    section.rows.append(("rpc", "built in" if RPC in answer.backends else other))
    section.rows.append(("step observer", "compiled" if answer.compiled else "not compiled"))
    if not answer.compiled:
        report.advise("Reinstall termchat with a C compiler available; observing each step will be faster.")
    for device in answer.devices:
        section.rows.append((f"device {device.name}", f"{device.description} ({device.kind}{_free(device)})"))
    gpu = gpu_wheel.find_gpu() if not any(device.offloads for device in answer.devices) else None
    if gpu is not None:
        remark = gpu_wheel.other_wheel(gpu)
        section.rows.append(("gpu", f"{gpu.name}, not used by this build"))
        report.advise(f"{remark.message[0].upper()}{remark.message[1:]}: {remark.hint}")
    for entry in per_model.entries():
        if entry.machine == per_model.machine():
            settings = ", ".join(f"{name} {value}" for name, value in entry.settings.items()) or "the defaults are best"
            if entry.decode:
                section.rows.append((f"tuned {entry.name}", f"{settings} ({entry.decode:.1f} tokens/s)"))
            section.rows += [
                (f"measured {entry.name}", f"{_bits_of(one)} ({one.threads} threads)") for one in entry.rows
            ]
    for pick in per_model.picks():
        if pick.hardware == per_model.hardware():
            settings = ", ".join(f"{name} {value}" for name, value in pick.settings.items())
            section.rows.append((f"set for {pick.name}", settings))


def _bits_of(measured: Measurement) -> str:
    if not measured.largest_change:
        return "same bits in any batch"
    return f"same bits in batches of up to {measured.rows_alike}, else logits change by up to {measured.largest_change:.2f}"


def _free(device: Device) -> str:
    """Memory as the list of models counts it: of the machine's own llama.cpp says that all is free."""
    free = memory.available() if device.kind == "cpu" else device.free
    return f", {size(free)} of {size(device.total)} free" if device.total and free is not None else ""


def _probed(engine: Engine) -> Probed | Failed:
    try:
        engine.send(Probe())
        end = monotonic() + _ANSWERS_WITHIN
        while monotonic() < end:
            for _, event in engine.receive(1.0):
                if isinstance(event, (Probed, Failed)):
                    return event
        return Failed("engine", f"no answer within {_ANSWERS_WITHIN:.0f} s")
    except EngineError as error:
        return Failed(error.kind, error.message, error.hint)
    finally:
        engine.close()


def _engines(report: DoctorReport, config: Settings) -> None:
    """The engines on other machines, each with its section. All are asked at once, so that a dead one does not hold the others
    up."""
    if not config.engines:
        return
    named = [config.engine_at(name) for name in config.engines]
    with ThreadPoolExecutor(len(named), "checkup") as pool:
        for address, checkup in zip(named, pool.map(partial(check, within=_ELSEWHERE_WITHIN), named), strict=True):
            section = report.section(f"Engine {address.name}")
            section.rows += _engine_rows(address, checkup)
            for advice in _engine_advice(address, checkup):
                report.advise(advice)


def _engine_rows(address: EngineAddress, checkup: Checkup) -> Iterator[tuple[str, str]]:
    """What is to be said of an engine elsewhere."""
    yield "address", address.url
    if checkup.failure is not None:
        yield "answer", f"none: {checkup.failure.message.rstrip('.')}"
    else:
        yield "answer", f"{checkup.round_trip * 1e3:.1f} ms (median of {ROUNDS})"
        what = checkup.kind or "termchat"
        library = f", llama-cpp-python {checkup.library}" if checkup.library else ""
        yield "is", f"{what} {checkup.version}".strip() + library
        yield "offers", checkup.manner or "not known before a model is loaded"
        if address.scheme == "ssh":
            yield "rpc", "built in" if checkup.rpc else "not built in"
            if address.model:
                yield "model", _state_there(address)
        else:
            yield "models" if checkup.several else "model", _models_there(checkup)
            yield "slots", str(checkup.slots or "not told")
    yield "encryption", _encryption(address)
    yield "key", f"from {source}" if (source := key_source(address)) else "none"


def _models_there(checkup: Checkup) -> str:
    told = []
    for one in checkup.models[:_SHOWN]:
        facts = [
            f"context {one.context:,}" if one.context else "",
            one.quantization,
            one.state if checkup.several else "",
        ]
        said = ", ".join(filter(None, facts))
        told.append(f"{one.name} ({said})" if said else one.name)
    more = len(checkup.models) - _SHOWN
    return ", ".join(told) + (f", and {more} more" if more > 0 else "") or "none"


def _encryption(address: EngineAddress) -> str:
    if address.scheme == "ssh":
        return "ssh"
    if address.scheme == "https":
        return "TLS, verified by " + (address.ssl_cert_file or "the system's authorities")
    return "none, and none needed: it is this machine" if address.is_loopback else "none"


def _engine_advice(address: EngineAddress, checkup: Checkup) -> Iterator[str]:
    """What to do about it."""
    name, failure = address.name, checkup.failure
    if failure is not None:
        hint = f" {failure.hint[0].upper()}{failure.hint[1:].rstrip('.')}" if failure.hint else ""
        end = "." if hint and not hint.endswith("?") else ""
        yield f"The engine {name} does not answer: {failure.message.rstrip('.')}.{hint}{end}"
    if address.scheme == "http" and not address.is_loopback:
        yield f"What you write to the engine {name} travels unencrypted: use https://, or an ssh tunnel."
    if failure is None and checkup.kind is not None and address.model:
        if address.model not in (ids := [one.id for one in checkup.models]):
            there = ", ".join(ids[:_SHOWN]) or "none"
            yield f"The engine {name} has no model {address.model}; it has: {there}. Correct model in [engines.{name}]."
    elif failure is None and checkup.several and all(one.state != "loaded" for one in checkup.models):
        yield f"The engine {name} has several models and none is loaded: name one with model in [engines.{name}]."


def _state_there(address: EngineAddress) -> str:
    """Whether the model of an engine's table is on its machine."""
    try:
        states = {name: row.state for row in models_of(address, _ELSEWHERE_WITHIN) for name in (row.wanted, row.name)}
    except EngineError as error:
        return error.message
    return f"{address.model} ({states.get(address.model, 'not in its list of models')})"


def _paths(report: DoctorReport) -> None:
    section = report.section("Files")
    for name, path in (
        ("settings", paths.config_file()),
        ("catalogue", paths.user_models_file()),
        ("presets", paths.presets_file()),
        ("personas", paths.personas_file()),
        ("models", paths.models_folder()),
        ("chats", paths.store_file()),
        ("log", paths.log_file()),
        ("tuned", paths.tuned_file()),
    ):
        section.rows.append((name, str(path) if path.exists() else f"{path} (does not exist)"))
        if name != "models" and (kind := regular_files.odd_kind(path)):
            report.advise(f"Remove or replace {path}: it is {kind}, not a regular file")


def _settings(report: DoctorReport, config: Settings) -> None:
    section = report.section("Settings")
    values = {
        "model": config.model,
        "preset": config.preset,
        "recommendations": config.recommendations,
        "theme": config.theme,
        "model_folders": list(config.model_folders),
        **msgspec.structs.asdict(config.engine),
        **msgspec.structs.asdict(config.tuning),
    }
    for name, origin in config.origin.items():
        if origin != DEFAULT and not origin.startswith(PRESET):  # whose name is told once
            shown = "set" if name in _PRIVATE else str(values.get(name))
            section.rows.append((name, f"{shown} ({origin})"))
    for problem in config.problems:
        section.rows.append(("problem", problem))
        report.advise(f"Correct the settings: {problem}")
    if not section.rows:
        section.rows.append(("all", "defaults"))


def _terminal(report: DoctorReport, environ: Mapping[str, str]) -> None:
    section = report.section("Terminal")
    columns, rows = shutil.get_terminal_size((0, 0))
    section.rows.append(("size", f"{columns}×{rows}" if columns else "unknown"))
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    section.rows.append(("encoding", encoding))
    section.rows += [(name, environ[name]) for name in _VARIABLES if name in environ]
    section.rows += [(name, "set") for name in _ONLY_WHETHER if environ.get(name)]
    if columns and (columns < _SMALLEST[0] or rows < _SMALLEST[1]):
        report.advise(f"Make the terminal larger: the chat needs {_SMALLEST[0]}×{_SMALLEST[1]} cells.")
    if encoding.lower().replace("-", "") != "utf8":
        report.advise("Use a UTF-8 locale: export LANG=C.UTF-8")
    if environ.get("TERM", "dumb") == "dumb":
        report.advise("TERM is dumb or not set; the chat needs a terminal that can position the cursor.")
    elif environ.get("TMUX") and environ.get("COLORTERM") not in ("truecolor", "24bit"):
        report.advise("For full colour in tmux: set -as terminal-features ',*:RGB', and export COLORTERM=truecolor.")


def _models(report: DoctorReport, config: Settings) -> None:
    section = report.section("Models")
    try:
        name, path = catalogue.resolve(config.model, folders=config.model_folders)
        section.rows.append(("chat with", f"{name}, {size(path.stat().st_size)}"))
    except (ModelError, OSError) as error:
        message, hint = getattr(error, "message", str(error)), getattr(error, "hint", "")
        section.rows.append(("chat with", message))
        report.advise(f"No model to chat with: {message}. {hint}".rstrip())
    else:
        _drafter(report, section, config, path)
    listed = listing.listing(config.model_folders)
    for problem in listed.problems:
        section.rows.append(("catalogue", problem))
        report.advise(f"Correct the catalogue: {problem}")
    ready = [row for row in listed.rows if row.state == "ready"]
    section.rows.append(("on this machine", f"{len(ready)}, {size(sum(row.size or 0 for row in ready))}"))
    section.rows += [("", f"{row.name}, {size(row.size or 0)} ({row.source})") for row in ready[:_SHOWN]]
    if len(ready) > _SHOWN:
        section.rows.append(("", f"and {len(ready) - _SHOWN} more"))
    for row in listed.rows:
        if row.state == "broken":
            section.rows.append((row.name, row.problem))
            report.advise(f"The model {row.name} cannot be used: {row.problem}")
    skipped = Counter(one.reason for one in listed.skipped)
    section.rows += [("skipped", f"{count}: {why}") for why, count in skipped.most_common(_SHOWN)]


def _drafter(report: DoctorReport, section: Section, config: Settings, model: Path) -> None:
    """The model that is to draft for the one in this file."""
    if not config.engine.draft_model:
        return
    try:
        name, path = catalogue.resolve(config.engine.draft_model, folders=config.model_folders)
        its, wanted = (draft_facts(file, file.stat().st_size) for file in (path, model))
        section.rows.append(("drafts with", f"{name}, {size(its.size)}"))
        if why := why_not_draft(its, wanted):
            report.advise(f"Choose another draft_model: {name} cannot draft for {model.stem}: {why}.")
    except (ModelError, OSError) as error:
        message, hint = getattr(error, "message", str(error)), getattr(error, "hint", "")
        section.rows.append(("drafts with", message))
        report.advise(f"No model to draft with: {message}. {hint}".rstrip())


def _chats(report: DoctorReport) -> None:
    section, path = report.section("Chats"), paths.store_file()
    found = repair.check(path)
    if found is None:
        section.rows.append(("saved", "none yet"))
    elif found.problem:
        section.rows.append(("problem", found.problem))
        report.advise(
            f"Saved chats cannot be read: {found.problem}. Back up {Path(path).parent} before you do anything else."
        )
    else:
        section.rows.append(("saved", f"{found.chats}, {size(found.size)}, no damage found"))
