"""All settings as they are in force: read from all places, with the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from termchat import paths
from termchat.config import personas, presets, sources
from termchat.config.fields import SETTINGS, TABLES, EngineSettings, Fields
from termchat.config.named_engines import engine_of
from termchat.config.origins import DEFAULT, FLAG, MODEL, PERSONA, PICKER, TUNED, followed
from termchat.config.personas import Persona, PersonaError
from termchat.config.presets import Preset, PresetError, Presets
from termchat.config.sources import (
    CHAIN_PRESET,
    CHAT,
    ENGINES,
    FILE,
    KEYS,
    NEWER,
    FlagError,
    SettingsSource,
    kept,
    ranked,
)
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.engine.address import AddressError, EngineAddress, is_url
from termchat.engine.port import Measurement, ModelSpec

_SAID_TOGETHER = {"threads_batch": "threads", "prefill_batch": "fast_prefill"}
"""Whoever sets the second of two means the first, too."""


class Settings(Fields, frozen=True, dict=True):
    """All settings in force; `sources` are the places that set them, those that count most first."""

    sources: tuple[SettingsSource, ...] = ()

    @classmethod
    def of(cls, *sources: SettingsSource) -> Settings:
        """Merge the sources: each setting has the value of the first one that sets it."""
        tables: dict[str, dict[str, Any]] = {name: {} for name in ("", "engine", "sampling", KEYS, ENGINES)}
        for source in reversed(sources):
            for name, value in source.values.items():
                if name in tables:
                    tables[name].update(value)
                else:
                    tables[""][name] = value
        return cls(
            **tables[""],
            engine=EngineSettings(**tables["engine"]),
            tuning=Tuning(**tables["sampling"]),
            keys=tables[KEYS],
            engines=tables[ENGINES],
            sources=sources,
        )

    # --- what they are, and who says so ------------------------------------------------------------------------------

    @cached_property
    def origin(self) -> dict[str, str]:
        """Where the value of each setting came from: see `origins`; a variable and the config file go by their names."""
        return {name: self.places[name].partition(", line ")[0] for name in SETTINGS}

    @cached_property
    def places(self) -> dict[str, str]:
        """The same with the line in a file: "config.toml, line 3"; what binds a key goes by `keys.ID`, an engine by
        `engines.NAME`."""
        said = {name: place for source in reversed(self.sources) for name, place in source.places.items()}
        return dict.fromkeys(SETTINGS, DEFAULT) | said

    @property
    def key_places(self) -> dict[str, str]:
        return {id: self.places[f"{KEYS}.{id}"] for id in self.keys}

    @property
    def engine_places(self) -> dict[str, str]:
        return {name: self.places[f"{ENGINES}.{name}"] for name in self.engines}

    @property
    def problems(self) -> tuple[str, ...]:
        """Mistakes in the sources, one line each; their texts may be foreign."""
        return tuple(dict.fromkeys(problem for source in reversed(self.sources) for problem in source.problems))

    def knob_origin(self) -> dict[str, str]:
        return {name: self.origin[name] for name in KNOBS}

    def value(self, name: str) -> Value:
        holder = {"engine": self.engine, "sampling": self.tuning}.get(TABLES[name], self)
        return getattr(holder, name)  # type: ignore[no-any-return]

    @cached_property
    def address(self) -> EngineAddress:
        """Where the model runs, and which one to ask for there.

        A `model` that is said where the engine is named, or before, is one of that engine; any other is one of this machine. In
        the config file the model of the engine's own table comes first.
        """
        found = self.engine_at(self._configured)
        if is_url(self.model):
            return found
        said, named = (self._rank(name) for name in ("model", "default_engine"))
        together = said == named < len(self.sources) and not (found.model and self.sources[said].place == FILE)
        if found.url and self.model and (said < named or together):
            return msgspec.structs.replace(found, model=self.model)
        return found

    def engine_at(self, wanted: str) -> EngineAddress:
        """The engine that a name or a URL means: see `engine_of`. Of the configured one ssh runs the `remote_command` that is
        set; in the config file that of the engine's own table comes first.

        Raises:
            AddressError: there is none.
        """
        found = engine_of(wanted, self.engines)
        if not self.remote_command or found.scheme != "ssh" or found != engine_of(self._configured, self.engines):
            return found
        if found.remote_command and self.sources[self._rank("remote_command")].place == FILE:
            return found
        return msgspec.structs.replace(found, remote_command=self.remote_command)

    @property
    def _configured(self) -> str:
        """The name or URL of the engine that is configured."""
        return self.model if is_url(self.model) else self.default_engine

    def _rank(self, name: str) -> int:
        """How early in `PLACES` a setting of no table is said."""
        ranks = (rank for rank, source in enumerate(self.sources) if name in source.values)
        return next(ranks, len(self.sources))

    def spec(
        self,
        name: str,
        path: Path,
        *,
        sha256: str = "",
        quantization: str = "",
        layers: int = 0,
        thinking: tuple[str, ...] = (),
        measured: tuple[Measurement, ...] = (),
    ) -> ModelSpec:
        """`thinking` are the tags of the catalogue, which configured ones override."""
        configured = (self.think_start, self.think_end)
        shown = well_formed(str(path))
        threads = {self.origin[name] for name in ("threads", "threads_batch") if self.value(name)}
        return ModelSpec(
            path=shown,
            path_bytes=b"" if shown == str(path) else os.fsencode(path),
            name=well_formed(name),
            sha256=sha256,
            quantization=quantization,
            layers=layers,
            proposed_threads=threads == {TUNED},
            thinking=configured if all(configured) else thinking,
            measured=measured,
            **self.engine.of_model,
        )

    # --- the same with another source --------------------------------------------------------------------------------

    def with_persona(self, persona: Persona, problems: Collection[str] = ()) -> Settings:
        """A copy that begins as a persona: what it sets overrides everything except flags."""
        said: dict[str, object] = {"system": persona.system, **persona.knobs}
        said |= {"preset": persona.preset.name} if persona.preset is not None else {}
        origin = dict.fromkeys(said, persona.origin) | {"persona": self.origin["persona"]}
        return self._with(kept(PERSONA, {**said, "persona": persona.name}, origin, problems))

    def with_preset(self, preset: Preset, problems: Collection[str] = ()) -> Settings:
        """A copy whose chain is a preset's, but for the knobs that are set where the preset is named, or before it."""
        return self._with(kept(CHAIN_PRESET, preset.knobs, preset.origin, problems))

    def with_left(self, values: Mapping[str, Value], origin: Mapping[str, str]) -> Settings:
        """A copy in which what a saved chat was left with overrides everything except flags; `origin` is that of each value."""
        return self._with(kept(CHAT, values, origin))

    def with_recommended(self, recommended: Mapping[str, Value], mistakes: Collection[str] = ()) -> Settings:
        """A copy in which the knobs nobody set follow a model's recommendation, unless that is switched off; see `followed`.
        `mistakes` are problems, too:
        those in the lists that recommend."""
        advice = recommended if self.recommendations else {}
        tuning, origin, problems = followed(self.tuning, self.knob_origin(), advice)
        values = {name: getattr(tuning, name) for name, place in origin.items() if place == MODEL}
        return self._with(kept(MODEL, values, problems=(*mistakes, *problems)))

    def with_picked(self, picked: Mapping[str, object], newer: Collection[str] = ()) -> Settings:
        """A copy in which the engine runs a model as a person set it for that model; the `newer` of it override flags, too.

        What a setting refuses is left out.
        """
        ours = {name: value for name, value in picked.items() if TABLES.get(name) == "engine"}
        first = {name: value for name, value in ours.items() if name in newer}
        return self._with(kept(NEWER, first, PICKER), kept(PICKER, ours))

    def with_tuned(self, measured: Mapping[str, int]) -> Settings:
        """A copy in which what nobody set about the engine is as measured to be best for a model, and not for one before.

        What a setting refuses is left out.
        """
        free = {name for name, place in self.origin.items() if place in (DEFAULT, TUNED) and TABLES[name] == "engine"}
        best = {name: value for name, value in measured.items() if {name, _SAID_TOGETHER.get(name, name)} <= free}
        return self._with(kept(TUNED, best))

    def _with(self, *others: SettingsSource) -> Settings:
        return Settings.of(*ranked((*self.sources, *others)))


def load(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Gathers all settings. Nothing needs to be there.

    Args:
        flags: those that were given, see `sources.flags`.
        environ: None is the process's own environment.
        file: None is the user's own config.toml.

    Raises:
        FlagError: a flag's value is refused.
    """
    said = [
        sources.flags(flags or {}),
        sources.variables(os.environ if environ is None else environ),
        sources.config_file(paths.config_file() if file is None else file),
    ]
    engines = said[-1].values.get(ENGINES, {})
    for source in said:
        if source.values.get("preset"):
            _check_preset(source, presets.load())
        _check_engine(source, engines)
    found = Settings.of(*said)
    if found.origin["remote_command"] == FLAG and found.address.is_server:
        raise FlagError("remote_command", f"remote_command does not apply to {found.address.scheme}://")
    if found.persona:
        known, origin = personas.load(), found.origin["persona"]
        try:
            found = found.with_persona(known.get(found.persona), known.problems)
        except PersonaError as error:
            if origin == FLAG:
                raise FlagError("persona", str(error)) from error
            problem = f"{found.places['persona']}: {error} (ignored)"
            found = found._with(kept(PERSONA, {"persona": ""}, origin, (*known.problems, problem)))
    if not found.preset:
        return found
    listed = presets.load()
    return found.with_preset(listed.get(found.preset), listed.problems)


def _check_engine(source: SettingsSource, known: Mapping[str, EngineAddress]) -> None:
    """Takes an engine that there is not out of a source, so that the next place counts.

    Raises:
        FlagError: it is a flag's.
    """
    for name in ("model", "default_engine"):
        wanted = source.values.get(name, "")
        if name == "model" and not is_url(wanted):
            continue
        try:
            engine_of(wanted, known)
        except AddressError as error:
            if source.place == FLAG:
                raise FlagError(name, str(error)) from error
            source.tell(f"{source.places.pop(name)}: {name}: {error}")
            del source.values[name]


def _check_preset(source: SettingsSource, known: Presets) -> None:
    """Takes the name of a preset that there is not out of a source, so that the next place counts.

    Raises:
        FlagError: it is a flag's.
    """
    try:
        known.get(source.values["preset"])
    except PresetError as error:
        if source.place == FLAG:
            raise FlagError("preset", str(error)) from error
        source.tell(f"{source.places.pop('preset')}: {error}")
        del source.values["preset"]
