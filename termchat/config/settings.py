"""All settings as they are in force: read from all places, with the origin of each value."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from termchat import paths
from termchat.config import personas, presets, sources
from termchat.config.fields import ENGINE, ENGINES, KEYS, SAMPLING, SETTINGS, TABLES, ChatSettings, EngineTable
from termchat.config.named_engines import engine_of
from termchat.config.named_tables import NameRefused
from termchat.config.origins import DEFAULT, FLAG, MODEL, PERSONA, PICKER, TUNED, followed
from termchat.config.personas import Persona
from termchat.config.presets import Preset
from termchat.config.sources import (
    CHAIN_PRESET,
    CHAT,
    FILE,
    NEWER,
    FlagError,
    SettingsSource,
    make_source,
    rank_sources,
)
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.engine.address import AddressError, EngineAddress, is_url
from termchat.engine.port import Measurement, ModelSpec


def _make_table(table: type[msgspec.Struct], values: Any) -> Any:
    """Make the struct of a table, of what the sources say together."""
    return table(**values) if isinstance(values, dict) else values


_SET_TOGETHER = {"threads_batch": "threads", "prefill_batch": "fast_prefill"}
"""Settings that `tune` leaves alone if the second one is set."""


class Settings(ChatSettings, BaseSettings):
    """All settings in force, as `sources` set them: each has the value of the first one that does, else its default."""

    model_config = SettingsConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    engine: Annotated[EngineTable, BeforeValidator(partial(_make_table, EngineTable))] = EngineTable()
    tuning: Annotated[Tuning, BeforeValidator(partial(_make_table, Tuning))] = Field(Tuning(), alias="sampling")
    """The knobs, as every chat begins."""
    keys: dict[str, str] = {}
    """Ids to the keys that the config file binds them to, as written there: "ctrl+k", "f2,ctrl+o". Not checked: which ids
    and keys there are is the screen's to say."""
    engines: dict[str, EngineAddress] = {}
    """Engines elsewhere, by their names."""
    _sources: tuple[SettingsSource, ...] = ()

    def __init__(self, *sources: SettingsSource) -> None:
        BaseSettings.__init__(self, _sources=sources)
        self._sources = sources

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - a parameter of pydantic-settings
        init_settings: PydanticBaseSettingsSource,
        *_others: PydanticBaseSettingsSource,
        **_more: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Replace the sources of pydantic-settings by those that the settings are made of."""
        assert isinstance(init_settings, InitSettingsSource)
        return tuple(init_settings.init_kwargs["_sources"])

    @cached_property
    def origin(self) -> dict[str, str]:
        """Origin of each value: see `origins`; a variable and the config file go by their names."""
        return {name: self.places[name].partition(", line ")[0] for name in SETTINGS}

    @cached_property
    def places(self) -> dict[str, str]:
        """Origin of each value with the line in a file: "config.toml, line 3". Key bindings go by `keys.ID`, engines by
        `engines.NAME`."""
        places = {name: place for source in reversed(self._sources) for name, place in source.places.items()}
        return dict.fromkeys(SETTINGS, DEFAULT) | places

    @property
    def key_places(self) -> dict[str, str]:
        return {id: self.places[f"{KEYS}.{id}"] for id in self.keys}

    @property
    def engine_places(self) -> dict[str, str]:
        return {name: self.places[f"{ENGINES}.{name}"] for name in self.engines}

    @property
    def problems(self) -> tuple[str, ...]:
        """Mistakes in the sources, one line each; their texts may be foreign."""
        return tuple(dict.fromkeys(problem for source in reversed(self._sources) for problem in source.problems))

    def knob_origin(self) -> dict[str, str]:
        return {name: self.origin[name] for name in KNOBS}

    def value(self, name: str) -> Value:
        holder = {ENGINE: self.engine, SAMPLING: self.tuning}.get(TABLES[name], self)
        return getattr(holder, name)  # type: ignore[no-any-return]

    @cached_property
    def address(self) -> EngineAddress:
        """The engine that runs the model, and the model to ask for there.

        A `model` that is set in the same place as the engine, or in one that counts more, is one of that engine; any other is
        one of this machine. In the config file the model of the engine's own table counts more.
        """
        address = self.engine_at(self._configured_engine)
        if is_url(self.model) or not address.url or not self.model:
            return address
        model, engine = self._rank_of("model"), self._rank_of("default_engine")
        together = model == engine < len(self._sources) and not (address.model and self._sources[model].place == FILE)
        return msgspec.structs.replace(address, model=self.model) if model < engine or together else address

    def engine_at(self, wanted: str) -> EngineAddress:
        """Resolve the name or URL of an engine: see `engine_of`.

        The global `remote_command` applies to the configured ssh engine; in the config file the engine's own one counts more.

        Raises:
            AddressError: there is none.
        """
        address = engine_of(wanted, self.engines)
        if (
            not self.remote_command
            or address.scheme != "ssh"
            or address != engine_of(self._configured_engine, self.engines)
        ):
            return address
        if address.remote_command and self._sources[self._rank_of("remote_command")].place == FILE:
            return address
        return msgspec.structs.replace(address, remote_command=self.remote_command)

    @property
    def _configured_engine(self) -> str:
        """The name or URL of the configured engine."""
        return self.model if is_url(self.model) else self.default_engine

    def _rank_of(self, name: str) -> int:
        """Return the index of the first source that sets a setting of no table."""
        ranks = (rank for rank, source in enumerate(self._sources) if name in source.values)
        return next(ranks, len(self._sources))

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
        """Return how to run a model file. `thinking` are the tags of the catalogue, which configured ones override."""
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

    def with_persona(self, persona: Persona, problems: Collection[str] = ()) -> Settings:
        """Return a copy that begins as a persona: what it sets overrides everything except flags."""
        values: dict[str, object] = {"system": persona.system, **persona.knobs}
        values |= {"preset": persona.preset.name} if persona.preset is not None else {}
        origin = dict.fromkeys(values, persona.origin) | {"persona": self.origin["persona"]}
        return self._with_sources(make_source(PERSONA, {**values, "persona": persona.name}, origin, problems))

    def with_preset(self, preset: Preset, problems: Collection[str] = ()) -> Settings:
        """Return a copy with a preset's chain, but for knobs that are set where the preset is named, or in a place before."""
        return self._with_sources(make_source(CHAIN_PRESET, preset.knobs, preset.origin, problems))

    def with_left(self, values: Mapping[str, Value], origin: Mapping[str, str]) -> Settings:
        """Return a copy with the values of a saved chat, which override everything except flags."""
        return self._with_sources(make_source(CHAT, values, origin))

    def with_recommended(self, recommended: Mapping[str, Value], mistakes: Collection[str] = ()) -> Settings:
        """Return a copy whose unset knobs follow a model's recommendation, unless that is switched off; see `followed`.
        `mistakes` are those in the lists that recommend."""
        advice = recommended if self.recommendations else {}
        tuning, origin, problems = followed(self.tuning, self.knob_origin(), advice)
        values = {name: getattr(tuning, name) for name, place in origin.items() if place == MODEL}
        return self._with_sources(make_source(MODEL, values, problems=(*mistakes, *problems)))

    def with_picked(self, picked: Mapping[str, object], newer: Collection[str] = ()) -> Settings:
        """Return a copy with a person's choices for one model; the `newer` ones override flags, too.

        Refused values are left out.
        """
        ours = {name: value for name, value in picked.items() if TABLES.get(name) == ENGINE}
        first = {name: value for name, value in ours.items() if name in newer}
        return self._with_sources(make_source(NEWER, first, PICKER), make_source(PICKER, ours))

    def with_tuned(self, measured: Mapping[str, int]) -> Settings:
        """Return a copy whose unset engine settings are those that `tune` measured for a model; refused values are left out."""
        free = {name for name, place in self.origin.items() if place in (DEFAULT, TUNED) and TABLES[name] == ENGINE}
        best = {name: value for name, value in measured.items() if {name, _SET_TOGETHER.get(name, name)} <= free}
        return self._with_sources(make_source(TUNED, best))

    def _with_sources(self, *others: SettingsSource) -> Settings:
        return Settings(*rank_sources((*self._sources, *others)))


def load(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Read the settings of all places; none of them has to exist.

    Args:
        flags: those that were given, see `sources.read_flags`.
        environ: None is the process's own environment.
        file: None is the user's own config.toml.

    Raises:
        FlagError: a flag's value is refused.
    """
    given = [
        sources.read_flags(flags or {}),
        sources.read_variables(os.environ if environ is None else environ),
        sources.read_config_file(paths.config_file() if file is None else file),
    ]
    engines = given[-1].values.get(ENGINES, {})
    for source in given:
        _check_names(source, engines)
    config = Settings(*given)
    if config.origin["remote_command"] == FLAG and config.address.is_server:
        raise FlagError("remote_command", f"remote_command does not apply to {config.address.scheme}://")
    if config.persona:
        known, origin = personas.load(), config.origin["persona"]
        try:
            config = config.with_persona(known.get(config.persona), known.problems)
        except NameRefused as error:
            if origin == FLAG:
                raise FlagError("persona", str(error)) from error
            problem = f"{config.places['persona']}: {error} (ignored)"
            config = config._with_sources(make_source(PERSONA, {"persona": ""}, origin, (*known.problems, problem)))
    if not config.preset:
        return config
    listed = presets.load()
    return config.with_preset(listed.get(config.preset), listed.problems)


def _check_names(source: SettingsSource, engines: Mapping[str, EngineAddress]) -> None:
    """Drop a preset or an engine that does not exist from a source, so that the next place counts.

    Raises:
        FlagError: a flag names it.
    """
    for name in ("preset", "model", "default_engine"):
        value = source.values.get(name, "")
        try:
            if name == "preset" and value:
                presets.load().get(value)
            elif name == "default_engine" or (name == "model" and is_url(value)):
                engine_of(value, engines)
        except (AddressError, NameRefused) as error:
            if source.place == FLAG:
                raise FlagError(name, str(error)) from error
            about = "" if name == "preset" else f"{name}: "
            source.tell(f"{source.places.pop(name)}: {about}{error}")
            del source.values[name]
