"""What a user configured, and where each value came from.

Flags go before what was set for one model in the list of models, this before `TERMCHAT_*` variables, these before
`config.toml`, this before what `termchat tune` measured and what the model's file recommends, and these before the defaults.
A mistake in a variable or in the file never stops the program: the value falls back, and `problems` says where the mistake
is. A mistake in a flag is an error.

Read with tomllib and plain code: pydantic-settings ignores misspelled variables, wants lists as JSON, cannot say where a
value came from, and costs more time than the rest of the way to the first frame.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from termchat import paths
from termchat.decoding.samplers import KNOBS, Knob, Tuning, Value, unescape, well_formed
from termchat.engine.port import ModelSpec
from termchat.options import OPTIONS, Option, OptionError, OptionValue
from termchat.tomlfile import TomlError, TomlFile

if TYPE_CHECKING:
    from termchat.personas import Persona

PREFIX = "TERMCHAT_"
_NOT_OURS = frozenset({"TERMCHAT_OFFLINE"})
"""Variables that speak to another part of termchat."""
DEFAULT, TUNED, MODEL, PICKER, FLAG = "default", "tuned", "model", "picker", "flag"

SETTINGS: dict[str, Option | Knob] = {**OPTIONS, **KNOBS}
"""All there is to set, by name; `Config` says what each is set to."""
TABLES = {**{name: option.table for name, option in OPTIONS.items()}, **dict.fromkeys(KNOBS, "sampling")}
"""In which table of the config file a setting stands."""
KEYS = "keys"
"""The table of the config file that binds keys; what may be bound is the screen's to say."""
_TOLD = 20
"""Problems that are told one by one; of a file that is all wrong, the number of the others says enough."""
_LONGEST = 500
"""Characters of a problem: what is wrong may be a text of any length."""
_SAID_TOGETHER = {"threads_batch": "threads", "prefill_batch": "fast_prefill"}
"""What else whoever sets the second of two also means."""


class FlagError(ValueError):
    """A flag's value is refused; `name` is the setting's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Config(msgspec.Struct, frozen=True):
    """All settings. `origin` says of each where its value came from: "flag", "picker", a variable's name, "config.toml",
    "tuned", "model", "default", or "persona" and its name. `problems` are one line each, and may hold foreign text."""

    model: str | None
    """A catalogue name or a path; None if none was chosen."""
    system: str
    theme: str
    engine: dict[str, Any]
    """How to run the model: fields of `ModelSpec`."""
    tuning: Tuning
    origin: dict[str, str]
    problems: tuple[str, ...] = ()
    model_folders: tuple[str, ...] = ()
    """Where to look for models besides the folders of other programs; `~` is not expanded yet."""
    on_full: str = "ask"
    """What is done when a context is full: "ask" or one of `termchat.chat.full.WAYS`."""
    glyphs: str = "auto"
    """Which characters to draw with: "unicode", "ascii", or "auto" by the terminal."""
    keys: dict[str, str] = {}
    """Ids to the keys that the config file binds them to, as written there: "ctrl+k", "f2,ctrl+o". Not checked: which ids
    and keys there are is the screen's to say."""
    key_places: dict[str, str] = {}
    """Where each of `keys` is bound: "config.toml, line 3"."""
    places: dict[str, str] = {}
    """Where each setting stands that the file or a variable sets: "config.toml, line 3", "TERMCHAT_TOP_K"."""
    persona: str = ""
    """The persona that a chat begins as; "" is none."""

    def with_persona(self, persona: Persona) -> Config:
        """A copy that begins as a persona: what it sets goes before all but flags."""
        taken = {name: value for name, value in persona.knobs.items() if self.origin[name] != FLAG}
        origin = dict.fromkeys(taken, persona.origin)
        system = self.system
        if self.origin["system"] != FLAG:
            system, origin["system"] = persona.system, persona.origin
        return msgspec.structs.replace(
            self, persona=persona.name, system=system, tuning=self.tuning.turned(taken), origin=self.origin | origin
        )

    def value(self, name: str) -> Value | OptionValue:
        """What a setting is set to, as its option or knob takes it."""
        if name in KNOBS:
            return getattr(self.tuning, name)  # type: ignore[no-any-return]
        found = self.engine[name] if name in self.engine else getattr(self, name)
        return "" if found is None else found

    def spec(self, name: str, path: Path, *, sha256: str = "", quantization: str = "", layers: int = 0) -> ModelSpec:
        """What to tell an engine to load this file as configured."""
        shown = well_formed(str(path))
        return ModelSpec(
            path=shown,
            path_bytes=b"" if shown == str(path) else os.fsencode(path),
            name=well_formed(name),
            sha256=sha256,
            quantization=quantization,
            layers=layers,
            **self.engine,
        )

    def knob_origin(self) -> dict[str, str]:
        """The part of `origin` that is about knobs."""
        return {name: self.origin[name] for name in KNOBS}

    def with_recommended(self, recommended: Mapping[str, Value]) -> Config:
        """A copy in which the knobs nobody set follow a model's recommendation, and no longer that of a model before.

        `recommended` goes by knob name; what is no knob of ours is left out, what a knob refuses is a problem.
        """
        tuning, origin, problems = followed(self.tuning, self.knob_origin(), recommended)
        problems = list(dict.fromkeys([*self.problems, *problems]))
        return msgspec.structs.replace(self, tuning=tuning, origin=self.origin | origin, problems=tuple(problems))

    def with_picked(self, picked: Mapping[str, object], newer: Collection[str] = ()) -> Config:
        """A copy in which the engine runs a model as a person set it for that model. What an option refuses is left out, and
        what a flag says, unless it is among the `newer`.
        """
        taken = {}
        for name, value in picked.items():
            if name in self.engine and (name in newer or self.origin[name] != FLAG):
                with contextlib.suppress(OptionError):
                    taken[name] = OPTIONS[name].check(value)
        return msgspec.structs.replace(
            self, engine=self.engine | taken, origin=self.origin | dict.fromkeys(taken, PICKER)
        )

    def with_tuned(self, measured: Mapping[str, int]) -> Config:
        """A copy in which what nobody set about the engine is as it was measured to be best for a model, and no longer as
        for a model before. What an option refuses is left out.
        """
        free = {name for name, place in self.origin.items() if place in (DEFAULT, TUNED)}
        tuned = {}
        for name, value in measured.items():
            if name in self.engine and {name, _SAID_TOGETHER.get(name, name)} <= free:
                with contextlib.suppress(OptionError):
                    tuned[name] = OPTIONS[name].check(value)
        origin = {name: DEFAULT if place == TUNED else place for name, place in self.origin.items()}
        before = {name: OPTIONS[name].default for name, place in self.origin.items() if place == TUNED}
        return msgspec.structs.replace(
            self, engine=self.engine | before | tuned, origin=origin | dict.fromkeys(tuned, TUNED)
        )


def followed(
    tuning: Tuning, origin: Mapping[str, str], recommended: Mapping[str, Value]
) -> tuple[Tuning, dict[str, str], list[str]]:
    """The knobs, where each came from, and problems, once those that nobody set follow a model's recommendation.

    `recommended` goes by knob name; what is no knob of ours is left out, what a knob refuses is a problem.
    """
    origin = {name: DEFAULT if place == MODEL else place for name, place in origin.items()}
    turned = {name: KNOBS[name].default for name in KNOBS if origin[name] == DEFAULT}
    problems = []
    for name, value in recommended.items():
        if name in turned:
            try:
                turned[name] = KNOBS[name].check(value)
                origin[name] = MODEL
            except ValueError as error:
                problems.append(f"the model's recommendation is ignored: {error}")
    return tuning.turned(turned), origin, problems


def load(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Config:
    """Gathers all settings. Nothing needs to be there.

    Args:
        flags: the flags that were given, by setting name; texts as typed, `stop` a list of them.
        environ: None is the process's own environment.
        file: None is the user's own config.toml.

    Raises:
        FlagError: a flag's value is refused.
    """
    found = _Found()
    found.from_file(paths.config_file() if file is None else file)
    found.from_environment(os.environ if environ is None else environ)
    found.from_flags(flags or {})
    values = {name: found.values.get(name, setting.default) for name, setting in SETTINGS.items()}
    config = Config(
        model=str(values["model"]) or None,
        system=well_formed(str(values["system"])),
        theme=str(values["theme"]) or str(OPTIONS["theme"].default),
        engine={name: values[name] for name, option in OPTIONS.items() if option.table == "engine"},
        tuning=Tuning(**{name: values[name] for name in KNOBS}),  # type: ignore[arg-type]
        origin={name: found.origin.get(name, DEFAULT) for name in SETTINGS},
        problems=found.told(),
        model_folders=tuple(values["model_folders"]),  # type: ignore[arg-type]
        on_full=str(values["on_full"]),
        glyphs=str(values["glyphs"]),
        keys=found.keys,
        key_places=found.key_places,
        places=found.places,
        persona=str(values["persona"]),
    )
    return _as_persona(config) if config.persona else config


def _as_persona(config: Config) -> Config:
    """The settings with those of their persona.

    Raises:
        FlagError: a flag asks for one that there is not.
    """
    from termchat import personas  # most begin as none

    found = personas.load()
    config = msgspec.structs.replace(config, problems=(*config.problems, *found.problems))
    try:
        return config.with_persona(found.get(config.persona))
    except personas.PersonaError as error:
        if config.origin["persona"] == FLAG:
            raise FlagError("persona", str(error)) from error
        problem = f"{config.places.get('persona', config.origin['persona'])}: {error}; it is ignored"
        return msgspec.structs.replace(config, problems=(*config.problems, problem), persona="")


class _Found:
    """What was found so far; a later source replaces an earlier one."""

    def __init__(self) -> None:
        self.values: dict[str, Value | str] = {}
        self.origin: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.problems: list[str] = []
        self.untold = 0
        self.keys: dict[str, str] = {}
        self.key_places: dict[str, str] = {}

    def from_file(self, path: Path) -> None:
        try:
            source = TomlFile(path)
        except TomlError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                self._tell(f"{error}; the file is ignored")
            return
        tables = {*TABLES.values(), KEYS} - {""}
        for keys, value in _entries(source.table, tables):
            table, name = ".".join(keys[:-1]), keys[-1]
            place = source.place(*keys)
            if table == KEYS:
                self._bind(name, value, place)
            elif name in SETTINGS and TABLES[name] == table:
                self._try(name, path.name, place, _native, value)
            elif name in SETTINGS:
                right = f"under [{TABLES[name]}]" if TABLES[name] else "at the top, before any table"
                self._tell(f"{place}: {name} belongs {right}; it is ignored")
            elif name in tables:
                self._tell(f"{place}: {name} must be a table, [{name}]; it is ignored")
            else:
                known = [n for n in SETTINGS if TABLES[n] == table] if table else [*SETTINGS, *tables]
                self._unknown(f"{place}: there is no setting {name!r}", name, known)

    def from_environment(self, environ: Mapping[str, str]) -> None:
        variables = {PREFIX + name.upper(): name for name in SETTINGS}
        for variable, text in environ.items():
            name = variables.get(variable)
            if name is not None:
                if text or SETTINGS[name].kind in ("text", "texts"):
                    self._try(name, variable, variable, _typed, text)
            elif variable.startswith(PREFIX) and variable not in _NOT_OURS:
                self._unknown(f"{variable}: there is no such setting", variable, variables)

    def from_flags(self, flags: Mapping[str, object]) -> None:
        for name, value in flags.items():
            try:
                self.values[name] = _flag(name, value)
            except ValueError as error:
                raise FlagError(name, str(error)) from error
            self.origin[name] = FLAG
            self.places.pop(name, None)

    def told(self) -> tuple[str, ...]:
        """The problems, and how many more there are than anybody reads."""
        return (*self.problems, *([f"and {self.untold:,} more mistakes"] if self.untold else []))

    def _tell(self, problem: str) -> None:
        if len(self.problems) < _TOLD:
            self.problems.append(problem if len(problem) <= _LONGEST else problem[:_LONGEST] + "…")
        else:
            self.untold += 1

    def _unknown(self, problem: str, name: str, known: Iterable[str]) -> None:
        guess = guess_of(name, known) if len(self.problems) < _TOLD else ""  # to guess takes time
        self._tell(f"{problem}{guess}; it is ignored")

    def _bind(self, name: str, value: object, place: str) -> None:
        given = value if isinstance(value, list) else [value]
        keys = [key for key in given if isinstance(key, str)]
        if len(keys) == len(given):
            self.keys[name] = ",".join(keys)
            self.key_places[name] = place
        else:
            self._tell(f"{place}: {name} must be a key or a list of keys, not {value!r}; it is ignored")

    def _try(self, name: str, origin: str, place: str, read: Callable[[str, Any], Value | str], raw: object) -> None:
        try:
            self.values[name] = read(name, raw)
        except ValueError as error:
            self._tell(f"{place}: {error}; it is ignored")
        else:
            self.origin[name] = origin
            self.places[name] = place


def _entries(table: Mapping[str, object], tables: set[str]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Keys and values of a config file; of the tables we know, what is in them."""
    for key, value in table.items():
        if key in tables and isinstance(value, dict):
            yield from (((key, inner), content) for inner, content in value.items())
        else:
            yield (key,), value


def _native(name: str, value: object) -> Value | str:
    """A value of a TOML file, which has types; numbers may also be words, such as "off" and "fresh"."""
    setting = SETTINGS[name]
    if isinstance(value, str) and setting.kind in ("float", "int", "seed", "bool"):
        return setting.parse(value)
    return setting.check(value)


def _typed(name: str, text: str) -> Value | str:
    """A value of a variable, which is text; a list of texts may be JSON."""
    setting = SETTINGS[name]
    if setting.kind == "texts" and text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = None
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            return setting.check(listed)
    return setting.parse(text)


def _flag(name: str, value: object) -> Value | str:
    """A value of a flag: as typed, or already of the right type."""
    setting = SETTINGS[name]
    if isinstance(value, str):
        return setting.parse(value)
    if setting.kind == "texts" and isinstance(value, (list, tuple)):
        return setting.check([unescape(item) if isinstance(item, str) else item for item in value])
    return setting.check(value)


def guess_of(name: str, known: Iterable[str]) -> str:
    """What a misspelled name may have meant, to be put behind it: " (did you mean top_k?)"; "" if nothing is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def range_of(setting: Option | Knob) -> str:
    """What a setting takes, in short: "0 to 1; off is 1", "auto on off", "fresh, or 0 to 9007199254740991"."""
    if isinstance(setting, Option):
        return setting.range
    if setting.kind == "texts":
        return "texts"
    numbers = f"{setting.gap or setting.low:.16g} to {setting.high:.16g}"
    if setting.kind == "seed":
        return f"fresh, or {numbers}"
    if setting.gap:
        return f"{setting.low:g}, or {numbers}"
    return f"{numbers}; off is {setting.off:g}" if isinstance(setting.off, (int, float)) else numbers
