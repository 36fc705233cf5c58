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
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from termchat import paths
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.engine.port import ModelSpec
from termchat.options import OPTIONS, OptionError, OptionValue
from termchat.sources import FLAG as FLAG
from termchat.sources import KEYS as KEYS
from termchat.sources import PERSONA as PERSONA
from termchat.sources import SETTINGS as SETTINGS
from termchat.sources import TABLES as TABLES
from termchat.sources import FlagError as FlagError
from termchat.sources import Found
from termchat.sources import range_of as range_of

if TYPE_CHECKING:
    from termchat.config.personas import Persona

DEFAULT, TUNED, MODEL, PICKER = "default", "tuned", "model", "picker"
_SAID_TOGETHER = {"threads_batch": "threads", "prefill_batch": "fast_prefill"}
"""What else whoever sets the second of two also means."""


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
    """What is done when a context is full: "ask" or one of `termchat.chat.changes.WAYS`."""
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
    found = Found()
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
    from termchat.config import personas  # most begin as none

    found = personas.load()
    config = msgspec.structs.replace(config, problems=(*config.problems, *found.problems))
    try:
        return config.with_persona(found.get(config.persona))
    except personas.PersonaError as error:
        if config.origin["persona"] == FLAG:
            raise FlagError("persona", str(error)) from error
        problem = f"{config.places.get('persona', config.origin['persona'])}: {error}; it is ignored"
        return msgspec.structs.replace(config, problems=(*config.problems, problem), persona="")
