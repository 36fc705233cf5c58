"""Every setting, declared once as a field.

Flags, variables, the config file, its explained form, `config show` and the completions are made from these. Knobs are declared
in `termchat.decoding.samplers`; the engine's defaults are `ModelSpec`'s.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from termchat.config.options import Option, Setting
from termchat.decoding.samplers import KNOBS, STEP_BY_STEP, well_formed
from termchat.engine.address import REMOTE_COMMAND, EngineAddress
from termchat.engine.port import MOST_CONTEXT

_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
_FROZEN = ConfigDict(frozen=True, defer_build=True)
_STEPS = {"context": 1024}
"""The move of one key press, where it is not 1."""


def _listed(value: object) -> object:
    """Texts as a tuple; one text is a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], BeforeValidator(_listed)]


class EngineSettings(BaseModel):
    """How the engine runs the model: the table [engine], and fields of `ModelSpec`, but for the model that drafts."""

    model_config = _FROZEN

    context: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description=f"context size in tokens; 0 uses the model's training length, at most {MOST_CONTEXT}",
    )
    threads: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="threads for generating tokens; 0 chooses automatically, fewer while the machine is busy",
    )
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
    kv_type: Literal["auto", "f32", "f16", "bf16/f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"] = Field(
        default="auto",
        description="data type of the KV cache; auto is bf16/f16 (keys/values) on the CPU, with the same numbers for any "
        "number of threads, and f16 on a GPU; smaller types save memory",
    )
    mmap: Literal["auto", "on", "off"] = Field(
        default="auto", description="memory-map the model file instead of reading it into memory"
    )
    mlock: bool = Field(default=False, description="lock the model in memory so it is never swapped out")
    main_gpu: int = Field(default=-1, ge=-1, le=64, description="use only this GPU, counting from 0; -1 uses all")
    rpc: Texts = Field(
        default=(),
        max_length=16,
        description="other machines that run ggml-rpc-server, as HOST:PORT, separated by commas; only in a network you trust",
        json_schema_extra={"separator": ","},
    )
    fast_prefill: bool = Field(
        default=False, description="process prompts 512 tokens at a time: faster, but no longer exact"
    )

    draft_model: str = Field(
        default="", description="model that drafts tokens while draft is model or auto: a name, or path to a GGUF file"
    )

    @property
    def of_model(self) -> dict[str, Any]:
        """The fields of `ModelSpec`."""
        return {name: value for name, value in self if name != "draft_model"}

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


class Fields(BaseSettings):
    model_config = SettingsConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    model: str = Field(default="", description="model name, path to a GGUF file, or URL of an engine elsewhere")
    default_engine: str = Field(
        default="",
        description="engine to use: a name from [engines], or ssh://HOST, http://HOST:PORT; here is this machine",
    )
    remote_command: str = Field(
        default="",
        description=f"command that ssh runs on the machine of an ssh:// engine instead of {REMOTE_COMMAND}",
    )
    system: Annotated[str, AfterValidator(well_formed)] = Field(default="", description="system prompt for new chats")
    persona: str = Field(
        default="", description="persona to start with; its system prompt and knobs override everything except flags"
    )
    preset: str = Field(
        default="",
        description="preset to start with; it sets the whole sampler chain, knobs given beside it override it",
    )
    recommendations: bool = Field(
        default=True, description="use the knobs that a model's file, or the model list, recommends for it"
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
    think_start: Annotated[str, AfterValidator(well_formed)] = Field(
        default="",
        description="text that opens the model's thoughts, such as <think>; taken from the chat template if empty",
    )
    think_end: Annotated[str, AfterValidator(well_formed)] = Field(
        default="", description="text that closes the model's thoughts, such as </think>"
    )
    step_by_step_text: Annotated[str, AfterValidator(well_formed)] = Field(
        default=STEP_BY_STEP, description="what replies start with while step_by_step is on"
    )
    theme: Annotated[str, AfterValidator(lambda name: name or "auto")] = Field(
        default="auto", description="theme name; auto matches the terminal's background"
    )
    glyphs: Literal["auto", "unicode", "ascii"] = Field(
        default="auto", description="characters for bars and borders; auto follows the terminal's locale"
    )
    big: bool = Field(
        default=False,
        description="for a projector: high contrast, panels hidden until wanted, and the whole text of a lesson's step",
    )
    engine: EngineSettings = Field(default_factory=EngineSettings)
    sampling: Sampling = Field(default_factory=Sampling)
    keys: dict[str, str] = {}
    """Ids to the keys that the config file binds them to, as written there: "ctrl+k", "f2,ctrl+o". Not checked: which ids
    and keys there are is the screen's to say."""
    engines: dict[str, EngineAddress] = {}
    """Engines elsewhere, by their names."""


NO_SETTINGS = ("engine", "sampling", "keys", "engines")
"""Fields that hold tables."""


_FIELDS = [
    *(("", name, field) for name, field in Fields.model_fields.items() if name not in NO_SETTINGS),
    *(("engine", name, field) for name, field in EngineSettings.model_fields.items()),
    *(("sampling", name, field) for name, field in Sampling.model_fields.items()),
]
SETTINGS: dict[str, Setting] = {
    name: KNOBS.get(name) or Option(name, field, table, _STEPS.get(name, 1)) for table, name, field in _FIELDS
}
TABLES = {name: table for table, name, _ in _FIELDS}
"""Everything there is to set by name, and in which table of the config file each stands; "" is before any."""
OPTIONS = {name: setting for name, setting in SETTINGS.items() if isinstance(setting, Option)}
"""What of it is no knob."""
