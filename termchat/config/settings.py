"""Every setting, declared once as a field, and how all of them are read.

Flags, variables, the config file, its explained form, `config show` and the completions are made from these fields. Knobs are
declared in `termchat.decoding.samplers`; the engine's defaults are `ModelSpec`'s.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from termchat import paths
from termchat.config import personas
from termchat.config.options import Option, OptionValue, settings_of, tables_of
from termchat.config.origins import DEFAULT, FLAG, MODEL, PERSONA, PICKER, TUNED, followed
from termchat.config.personas import Persona, PersonaError
from termchat.config.sources import CHAT, KEYS, NEWER, PLACES, ConfigFile, Flags, Kept, SettingsSource, Variables
from termchat.config.sources import FlagError as FlagError
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.engine.port import MOST_CONTEXT, ModelSpec

_SAID_TOGETHER = {"threads_batch": "threads", "prefill_batch": "fast_prefill"}
"""What else whoever sets the second of two also means."""
_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
_FROZEN = ConfigDict(frozen=True, defer_build=True)


def _listed(value: object) -> object:
    """Texts as a tuple; one text is a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], BeforeValidator(_listed)]


class EngineSettings(BaseModel):
    """How the engine runs the model: the table [engine], and fields of `ModelSpec`."""

    model_config = _FROZEN

    context: int = Field(
        default=0, ge=0, le=10_000_000, json_schema_extra={"step": 1024},
        description=f"context size in tokens; 0 uses the model's training length, at most {MOST_CONTEXT}",
    )  # fmt: skip
    threads: int = Field(default=0, ge=0, le=1024, description="threads for generating tokens; 0 chooses automatically")
    threads_batch: int = Field(
        default=0, ge=0, le=1024, description="threads for processing the prompt; 0 chooses automatically"
    )
    gpu_layers: int = Field(
        default=-1, ge=-1, le=10_000, description="layers to put on the GPU; -1 means all, if this build supports it"
    )
    prefill_batch: int = Field(
        default=0,
        ge=0,
        le=4096,
        description="prompt tokens per batch; 0 chooses automatically, up to 63 keeps results exact",
    )
    flash_attention: Literal["auto", "on", "off"] = Field(default="auto", description="use flash attention")
    kv_type: Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"] = Field(
        default="f16", description="data type of the KV cache; smaller types save memory"
    )
    mmap: Literal["auto", "on", "off"] = Field(
        default="auto", description="memory-map the model file instead of reading it into memory"
    )
    mlock: bool = Field(default=False, description="lock the model in memory so it is never swapped out")
    main_gpu: int = Field(default=-1, ge=-1, le=64, description="use only this GPU, counting from 0; -1 uses all")
    fast_prefill: bool = Field(
        default=False, description="process prompts 512 tokens at a time: faster, but no longer exact"
    )

    @property
    def at_odds(self) -> str:
        """Why no model can be run so, though each value may be right by itself; "" if one can."""
        if self.kv_type in _QUANTIZED and self.flash_attention == "off":
            return f"kv_type {self.kv_type} needs flash_attention, which is off"
        return ""


class Sampling(
    create_model(  # type: ignore[misc]
        "Knobs",
        __config__=_FROZEN,
        **{
            name: (Annotated[Any, BeforeValidator(knob.check)], Field(default=knob.default, description=knob.help))
            for name, knob in KNOBS.items()
        },
    )
):
    """The knobs of the chain, as every chat begins: the table [sampling]."""


class Settings(BaseSettings):
    """All settings, as the `sources` say them: whichever comes first in `PLACES` says it of each setting.

    `problems` and other texts may be foreign.
    """

    model_config = SettingsConfigDict(frozen=True, defer_build=True)

    model: str = Field(default="", description="model name, or path to a GGUF file")
    system: Annotated[str, AfterValidator(well_formed)] = Field(default="", description="system prompt for new chats")
    persona: str = Field(
        default="", description="persona to start with; its system prompt and knobs override everything except flags"
    )
    model_folders: Texts = Field(
        default=(),
        description=f"extra folders to search for models, separated by {os.pathsep}; "
        "other programs' folders are always searched",
    )
    """`~` is not expanded yet."""
    on_full: Literal["ask", "stop", "drop", "summarise"] = Field(
        default="ask",
        description="what to do when the context is full: ask, stop, drop the oldest turns, or summarise them",
    )
    theme: Annotated[str, AfterValidator(lambda name: name or "auto")] = Field(
        default="auto", description="theme name; auto matches the terminal's background"
    )
    glyphs: Literal["auto", "unicode", "ascii"] = Field(
        default="auto", description="characters for bars and borders; auto follows the terminal's locale"
    )
    engine: EngineSettings = Field(default_factory=EngineSettings)
    sampling: Sampling = Field(default_factory=Sampling)
    keys: dict[str, str] = {}
    """Ids to the keys that the config file binds them to, as written there: "ctrl+k", "f2,ctrl+o". Not checked: which ids
    and keys there are is the screen's to say."""

    _sources: tuple[SettingsSource, ...] = ()

    def __init__(self, *sources: SettingsSource) -> None:
        super().__init__(_sources=sources)
        self._sources = sources

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - as pydantic-settings wants it
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(init_settings, InitSettingsSource)
        return tuple(init_settings.init_kwargs["_sources"])

    # --- what they are, and who says so ------------------------------------------------------------------------------

    @cached_property
    def origin(self) -> dict[str, str]:
        """Where the value of each setting came from: "flag", "picker", a variable's name, "config.toml", "tuned", "model",
        "default", or "persona" and its name."""
        said = {name: place for source in reversed(self._sources) for name, place in source.origin.items()}
        return {name: said.get(name, DEFAULT) for name in SETTINGS}

    @cached_property
    def places(self) -> dict[str, str]:
        """Where each setting stands that the file or a variable sets: "config.toml, line 3", "TERMCHAT_TOP_K"."""
        said = {name: place for source in reversed(self._sources) for name, place in source.places.items()}
        return {name: place for name, place in said.items() if place.startswith(self.origin.get(name, place))}

    @property
    def key_places(self) -> dict[str, str]:
        """Where each of `keys` is bound: "config.toml, line 3"."""
        return {id: self.places[f"{KEYS}.{id}"] for id in self.keys}

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, one line each."""
        return tuple(dict.fromkeys(problem for source in reversed(self._sources) for problem in source.problems))

    @cached_property
    def tuning(self) -> Tuning:
        """All knobs."""
        return Tuning(**dict(self.sampling))

    def knob_origin(self) -> dict[str, str]:
        """The part of `origin` that is about knobs."""
        return {name: self.origin[name] for name in KNOBS}

    def value(self, name: str) -> Value | OptionValue:
        """What a setting is set to, as its option or knob takes it."""
        table = TABLES[name]
        return getattr(getattr(self, table) if table else self, name)  # type: ignore[no-any-return]

    def spec(self, name: str, path: Path, *, sha256: str = "", quantization: str = "", layers: int = 0) -> ModelSpec:
        """What to tell an engine to load this file as configured."""
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
            **dict(self.engine),
        )

    # --- the same with another source --------------------------------------------------------------------------------

    def with_persona(self, persona: Persona, problems: Collection[str] = ()) -> Settings:
        """A copy that begins as a persona: what it sets goes before all but flags."""
        said = {"system": persona.system, **persona.knobs}
        origin = dict.fromkeys(said, persona.origin) | {"persona": self.origin["persona"]}
        return self._with(Kept(Settings, PERSONA, {**said, "persona": persona.name}, origin, problems))

    def with_left(self, values: Mapping[str, Value | OptionValue], origin: Mapping[str, str]) -> Settings:
        """A copy in which what a saved chat was left with goes before all but flags; `origin` has that of each of it."""
        return self._with(Kept(Settings, CHAT, values, origin))

    def with_recommended(self, recommended: Mapping[str, Value]) -> Settings:
        """A copy in which the knobs nobody set follow a model's recommendation, and no longer that of a model before.

        `recommended` goes by knob name; what is no knob of ours is left out, what a knob refuses is a problem.
        """
        tuning, origin, problems = followed(self.tuning, self.knob_origin(), recommended)
        values = {name: getattr(tuning, name) for name, place in origin.items() if place == MODEL}
        return self._with(Kept(Settings, MODEL, values, problems=problems))

    def with_picked(self, picked: Mapping[str, object], newer: Collection[str] = ()) -> Settings:
        """A copy in which the engine runs a model as a person set it for that model. What an option refuses is left out, and
        what a flag says, unless it is among the `newer`.
        """
        ours = {name: value for name, value in picked.items() if TABLES.get(name) == "engine"}
        first = {name: value for name, value in ours.items() if name in newer}
        return self._with(Kept(Settings, NEWER, first, PICKER), Kept(Settings, PICKER, ours))

    def with_tuned(self, measured: Mapping[str, int]) -> Settings:
        """A copy in which what nobody set about the engine is as it was measured to be best for a model, and no longer as
        for a model before. What an option refuses is left out.
        """
        free = {name for name, place in self.origin.items() if place in (DEFAULT, TUNED) and TABLES[name] == "engine"}
        best = {name: value for name, value in measured.items() if {name, _SAID_TOGETHER.get(name, name)} <= free}
        return self._with(Kept(Settings, TUNED, best))

    def _with(self, *sources: SettingsSource) -> Settings:
        """A copy in which these say what their places say."""
        said = {source.place: source for source in (*self._sources, *sources)}
        return Settings(*(said[place] for place in PLACES if place in said))


SETTINGS, TABLES = settings_of(Settings), tables_of(Settings)
"""Everything there is to set by name, and in which table of the config file each stands."""
OPTIONS = {name: setting for name, setting in SETTINGS.items() if isinstance(setting, Option)}
"""What of it is no knob."""


def load(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Gathers all settings. Nothing needs to be there.

    Args:
        flags: the flags that were given, by setting name; texts as typed, `stop` a list of them.
        environ: None is the process's own environment.
        file: None is the user's own config.toml.

    Raises:
        FlagError: a flag's value is refused.
    """
    found = Settings(
        Flags(Settings, flags or {}),
        Variables(Settings, os.environ if environ is None else environ),
        ConfigFile(Settings, paths.config_file() if file is None else file),
    )
    return _as_persona(found) if found.persona else found


def _as_persona(found: Settings) -> Settings:
    """The settings with those of their persona.

    Raises:
        FlagError: a flag asks for one that there is not.
    """
    known, origin = personas.load(), found.origin["persona"]
    try:
        return found.with_persona(known.get(found.persona), known.problems)
    except PersonaError as error:
        if origin == FLAG:
            raise FlagError("persona", str(error)) from error
        problem = f"{found.places.get('persona', origin)}: {error} (ignored)"
        return found._with(Kept(Settings, PERSONA, {"persona": ""}, origin, (*known.problems, problem)))
