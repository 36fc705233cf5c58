"""Every setting, declared once as a field.

Flags, variables, the config file, its explained form, `config show` and the completions are made from these. Knobs are declared
in `termchat.decoding.samplers`; the engine's defaults are `ModelSpec`'s.
"""

from __future__ import annotations

import os
from typing import Any, Literal, get_args

import msgspec

from termchat.decoding.samplers import KNOBS, STEP_BY_STEP, Tuning
from termchat.decoding.setting import Declarations, Setting
from termchat.engine.address import REMOTE_COMMAND, EngineAddress
from termchat.engine.port import MOST_CONTEXT

_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")

OnOff = Literal["auto", "on", "off"]
KvType = Literal["auto", "f32", "f16", "bf16/f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]
OnFull = Literal["ask", "stop", "drop", "summarise"]
Glyphs = Literal["auto", "unicode", "ascii"]

_engine = Declarations("engine")
_chat = Declarations()


class EngineSettings(msgspec.Struct, frozen=True):
    """How the engine runs the model: the table [engine], and fields of `ModelSpec`, but for the model that drafts."""

    context: int = _engine.add(0, Setting(
        kind="int", also=("ctx_size",), high=10_000_000, step=1024,
        help=f"context size in tokens; 0 uses the model's training length, at most {MOST_CONTEXT}",
    ))  # fmt: skip
    threads: int = _engine.add(0, Setting(
        kind="int", high=1024,
        help="threads for generating tokens; 0 chooses automatically, fewer while the machine is busy",
    ))  # fmt: skip
    threads_batch: int = _engine.add(0, Setting(
        kind="int", high=1024, help="threads for processing the prompt; 0 chooses automatically",
    ))  # fmt: skip
    gpu_layers: int = _engine.add(-1, Setting(
        kind="int", low=-1, high=10_000, help="layers to put on the GPU; -1 means all, if this build supports it",
    ))  # fmt: skip
    prefill_batch: int = _engine.add(0, Setting(
        kind="int", high=4096, help="prompt tokens per batch; 0 chooses automatically, up to 63 keeps results exact",
    ))  # fmt: skip
    flash_attention: OnOff = _engine.add("auto", Setting(
        kind="choice", choices=get_args(OnOff), help="use flash attention",
    ))  # fmt: skip
    kv_type: KvType = _engine.add("auto", Setting(
        kind="choice", choices=get_args(KvType),
        help="data type of the KV cache; auto is bf16/f16 (keys/values) on the CPU, with the same numbers for any "
        "number of threads, and f16 on a GPU; smaller types save memory",
    ))  # fmt: skip
    mmap: OnOff = _engine.add("auto", Setting(
        kind="choice", choices=get_args(OnOff), help="memory-map the model file instead of reading it into memory",
    ))  # fmt: skip
    mlock: bool = _engine.add(False, Setting(
        kind="bool", help="lock the model in memory so it is never swapped out",
    ))  # fmt: skip
    main_gpu: int = _engine.add(-1, Setting(
        kind="int", low=-1, high=64, help="use only this GPU, counting from 0; -1 uses all",
    ))  # fmt: skip
    rpc: tuple[str, ...] = _engine.add((), Setting(
        kind="texts", metavar="HOST:PORT", separator=",", high=16,
        help="other machines that run ggml-rpc-server, as HOST:PORT, separated by commas; only in a network you trust",
    ))  # fmt: skip
    fast_prefill: bool = _engine.add(False, Setting(
        kind="bool", help="process prompts 512 tokens at a time: faster, but no longer exact",
    ))  # fmt: skip
    draft_model: str = _engine.add("", Setting(
        kind="text", metavar="MODEL", foreign=True,
        help="model that drafts tokens while draft is model or auto: a name, or path to a GGUF file",
    ))  # fmt: skip

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


class Fields(msgspec.Struct, frozen=True, dict=True):
    """All settings: those before any table of the config file, and its tables."""

    model: str = _chat.add("", Setting(
        kind="text", metavar="MODEL", also=("m",), foreign=True,
        help="model name, path to a GGUF file, or URL of an engine elsewhere",
    ))  # fmt: skip
    default_engine: str = _chat.add("", Setting(
        kind="text", foreign=True, flag="engine",
        help="engine to use: a name from [engines], or ssh://HOST, http://HOST:PORT; here is this machine",
    ))  # fmt: skip
    remote_command: str = _chat.add("", Setting(
        kind="text", metavar="COMMAND", foreign=True,
        help=f"command that ssh runs on the machine of an ssh:// engine instead of {REMOTE_COMMAND}",
    ))  # fmt: skip
    system: str = _chat.add("", Setting(kind="text", help="system prompt for new chats"))
    persona: str = _chat.add("", Setting(
        kind="text", foreign=True,
        help="persona to start with; its system prompt and knobs override everything except flags",
    ))  # fmt: skip
    preset: str = _chat.add("", Setting(
        kind="text", foreign=True,
        help="preset to start with; it sets the whole sampler chain, knobs given beside it override it",
    ))  # fmt: skip
    recommendations: bool = _chat.add(True, Setting(
        kind="bool", help="use the knobs that a model's file, or the model list, recommends for it",
    ))  # fmt: skip
    model_folders: tuple[str, ...] = _chat.add((), Setting(
        kind="texts", separator=os.pathsep,
        help=f"extra folders to search for models, separated by {os.pathsep}; "
        "other programs' folders are always searched",
    ))  # fmt: skip
    """`~` is not expanded yet."""
    on_full: OnFull = _chat.add("ask", Setting(
        kind="choice", choices=get_args(OnFull),
        help="what to do when the context is full: ask, stop, drop the oldest turns, or summarise them",
    ))  # fmt: skip
    think_start: str = _chat.add("", Setting(
        kind="text",
        help="text that opens the model's thoughts, such as <think>; taken from the chat template if empty",
    ))  # fmt: skip
    think_end: str = _chat.add("", Setting(
        kind="text", help="text that closes the model's thoughts, such as </think>",
    ))  # fmt: skip
    step_by_step_text: str = _chat.add(STEP_BY_STEP, Setting(
        kind="text", help="what replies start with while step_by_step is on",
    ))  # fmt: skip
    theme: str = _chat.add("auto", Setting(
        kind="text", foreign=True, words={"": "auto"}, help="theme name; auto matches the terminal's background",
    ))  # fmt: skip
    glyphs: Glyphs = _chat.add("auto", Setting(
        kind="choice", choices=get_args(Glyphs),
        help="characters for bars and borders; auto follows the terminal's locale",
    ))  # fmt: skip
    big: bool = _chat.add(False, Setting(
        kind="bool",
        help="for a projector: high contrast, panels hidden until wanted, and the whole text of a lesson's step",
    ))  # fmt: skip
    engine: EngineSettings = EngineSettings()
    tuning: Tuning = Tuning()
    """The knobs, as every chat begins: the table [sampling]."""
    keys: dict[str, str] = {}
    """Ids to the keys that the config file binds them to, as written there: "ctrl+k", "f2,ctrl+o". Not checked: which ids
    and keys there are is the screen's to say."""
    engines: dict[str, EngineAddress] = {}
    """Engines elsewhere, by their names."""


OPTIONS: dict[str, Setting] = _chat.named(Fields) | _engine.named(EngineSettings)
"""All settings but the knobs."""
SETTINGS: dict[str, Setting] = OPTIONS | KNOBS
"""All settings by name, options first."""
TABLES = {name: setting.table for name, setting in SETTINGS.items()}
"""The table of the config file with each of them; "" is before any."""
