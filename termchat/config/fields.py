"""Every setting, declared once: the annotation of a field has its type and its `Setting`.

Flags, variables, the config file, its explained form, `config show` and the completions are made from these. Knobs are declared
in `termchat.decoding.samplers`; the engine's defaults are `ModelSpec`'s. `termchat.config.settings` reads the values with
pydantic-settings, which takes time: nothing here imports it.
"""

import os
from typing import Annotated, Any, Literal

import msgspec

from termchat.decoding.samplers import KNOBS, STEP_BY_STEP
from termchat.decoding.setting import Setting, declared
from termchat.engine.address import REMOTE_COMMAND
from termchat.engine.port import MOST_CONTEXT

_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")

OnOff = Literal["auto", "on", "off"]
KvType = Literal["auto", "f32", "f16", "bf16/f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

ENGINE, SAMPLING, KEYS, ENGINES = "engine", "sampling", "keys", "engines"
"""The tables of the config file: how the engine runs the model, the knobs, key bindings, and engines elsewhere by name."""


class EngineSettings(msgspec.Struct, frozen=True):
    """How the engine runs the model: the table [engine], and fields of `ModelSpec`, but for the model that drafts."""

    context: Annotated[int, Setting(
        also=("ctx_size",), high=10_000_000, step=1024,
        help=f"context size in tokens; 0 uses the model's training length, at most {MOST_CONTEXT}",
    )] = 0  # fmt: skip
    threads: Annotated[int, Setting(
        high=1024,
        help="threads for generating tokens; 0 chooses automatically, fewer while the machine is busy",
    )] = 0  # fmt: skip
    threads_batch: Annotated[int, Setting(
        high=1024, help="threads for processing the prompt; 0 chooses automatically",
    )] = 0  # fmt: skip
    gpu_layers: Annotated[int, Setting(
        low=-1, high=10_000, help="layers to put on the GPU; -1 means all, if this build supports it",
    )] = -1  # fmt: skip
    prefill_batch: Annotated[int, Setting(
        high=4096, help="prompt tokens per batch; 0 chooses automatically, up to 63 keeps results exact",
    )] = 0  # fmt: skip
    flash_attention: Annotated[OnOff, Setting(
        help="use flash attention",
    )] = "auto"  # fmt: skip
    kv_type: Annotated[KvType, Setting(
        help="data type of the KV cache; auto is bf16/f16 (keys/values) on the CPU, with the same numbers for any "
        "number of threads, and f16 on a GPU; smaller types save memory",
    )] = "auto"  # fmt: skip
    mmap: Annotated[OnOff, Setting(
        help="memory-map the model file instead of reading it into memory",
    )] = "auto"  # fmt: skip
    mlock: Annotated[bool, Setting(
        help="lock the model in memory so it is never swapped out",
    )] = False  # fmt: skip
    main_gpu: Annotated[int, Setting(
        low=-1, high=64, help="use only this GPU, counting from 0; -1 uses all",
    )] = -1  # fmt: skip
    rpc: Annotated[tuple[str, ...], Setting(
        metavar="HOST:PORT", separator=",", high=16,
        help="other machines that run ggml-rpc-server, as HOST:PORT, separated by commas; only in a network you trust",
    )] = ()  # fmt: skip
    fast_prefill: Annotated[bool, Setting(
        help="process prompts 512 tokens at a time: faster, but no longer exact",
    )] = False  # fmt: skip
    draft_model: Annotated[str, Setting(
        metavar="MODEL", foreign=True,
        help="model that drafts tokens while draft is model or auto: a name, or path to a GGUF file",
    )] = ""  # fmt: skip

    @property
    def of_model(self) -> dict[str, Any]:
        """The fields of `ModelSpec`."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "draft_model"}

    @property
    def conflict(self) -> str:
        """Why no model can run with these values, though each may be right by itself; "" if one can."""
        if self.kv_type in _QUANTIZED and self.flash_attention == "off":
            return f"kv_type {self.kv_type} needs flash_attention, which is off"
        return ""


class ChatSettings:
    """What stands in the config file before any table."""

    model: Annotated[str, Setting(
        metavar="MODEL", also=("m",), foreign=True,
        help="model name, path to a GGUF file, or URL of an engine elsewhere",
    )] = ""  # fmt: skip
    default_engine: Annotated[str, Setting(
        foreign=True, flag="engine",
        help="engine to use: a name from [engines], or ssh://HOST, http://HOST:PORT; here is this machine",
    )] = ""  # fmt: skip
    remote_command: Annotated[str, Setting(
        metavar="COMMAND", foreign=True,
        help=f"command that ssh runs on the machine of an ssh:// engine instead of {REMOTE_COMMAND}",
    )] = ""  # fmt: skip
    system: Annotated[str, Setting(help="system prompt for new chats")] = ""
    persona: Annotated[str, Setting(
        foreign=True, help="persona to start with; its system prompt and knobs override everything except flags",
    )] = ""  # fmt: skip
    preset: Annotated[str, Setting(
        foreign=True,
        help="preset to start with; it sets the whole sampler chain, knobs given beside it override it",
    )] = ""  # fmt: skip
    recommendations: Annotated[bool, Setting(
        help="use the knobs that a model's file, or the model list, recommends for it",
    )] = True  # fmt: skip
    model_folders: Annotated[tuple[str, ...], Setting(
        separator=os.pathsep,
        help=f"extra folders to search for models, separated by {os.pathsep}; "
        "other programs' folders are always searched",
    )] = ()  # fmt: skip
    """`~` is not expanded yet."""
    on_full: Annotated[Literal["ask", "stop", "drop", "summarise"], Setting(
        help="what to do when the context is full: ask, stop, drop the oldest turns, or summarise them",
    )] = "ask"  # fmt: skip
    think_start: Annotated[str, Setting(
        help="text that opens the model's thoughts, such as <think>; taken from the chat template if empty",
    )] = ""  # fmt: skip
    think_end: Annotated[str, Setting(
        help="text that closes the model's thoughts, such as </think>",
    )] = ""  # fmt: skip
    step_by_step_text: Annotated[str, Setting(
        help="what replies start with while step_by_step is on",
    )] = STEP_BY_STEP  # fmt: skip
    theme: Annotated[str, Setting(
        foreign=True, words={"": "auto"}, help="theme name; auto matches the terminal's background",
    )] = "auto"  # fmt: skip
    glyphs: Annotated[Literal["auto", "unicode", "ascii"], Setting(
        help="characters for bars and borders; auto follows the terminal's locale",
    )] = "auto"  # fmt: skip
    big: Annotated[bool, Setting(
        help="for a projector: high contrast, panels hidden until wanted, and the whole text of a lesson's step",
    )] = False  # fmt: skip


OPTIONS: dict[str, Setting] = declared(ChatSettings) | declared(EngineSettings, ENGINE)
"""All settings but the knobs."""
SETTINGS: dict[str, Setting] = OPTIONS | KNOBS
"""All settings by name, options first."""
TABLES = {name: setting.table for name, setting in SETTINGS.items()}
"""The table of the config file with each of them; "" is before any."""
