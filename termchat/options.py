"""Every setting that is not a knob, declared once: what to chat with, and how the engine runs the model.

Command line flags, variables, the config file and their checks are made from `OPTIONS`, as those of the knobs are from
`KNOBS`. The engine's defaults are `ModelSpec`'s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import msgspec

from termchat.engine.port import MOST_CONTEXT, ModelSpec

OptionValue = int | str | bool | tuple[str, ...]

_SPEC = {field.name: field.default for field in msgspec.structs.fields(ModelSpec)}
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class OptionError(ValueError):
    """A value an option refuses. The message names the option, what it takes and the value."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: what it is called, what it takes, and in which table of the config file it stands; `step` is the move of
    one key press."""

    name: str
    kind: Literal["text", "texts", "choice", "int", "bool"]
    help: str
    default: OptionValue
    table: str = ""
    low: int = 0
    high: int = 0
    step: int = 1
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> OptionValue:
        """The value, if the option takes it.

        Raises:
            OptionError: it is of another kind, outside the range or not among the choices.
        """
        if self.kind == "text" and isinstance(value, str):
            return value
        if self.kind == "texts":
            texts = [value] if isinstance(value, str) else value
            if isinstance(texts, (list, tuple)) and all(isinstance(text, str) and text for text in texts):
                return tuple(texts)
        if self.kind == "choice" and isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "bool" and isinstance(value, bool):
            return value
        if type(value) is int and self.kind == "int" and self.low <= value <= self.high:
            return value
        raise OptionError(f"{self.name} must be {self._wanted()}, not {value!r}")

    def parse(self, text: str) -> OptionValue:
        """The value a person typed; texts are parted as PATH is.

        Raises:
            OptionError: see `check`.
        """
        word = text.strip().lower()
        if self.kind == "text":
            return text
        if self.kind == "texts":
            return self.check([part for part in text.split(os.pathsep) if part])
        if self.kind == "choice":
            return self.check(word)
        if self.kind == "bool" and word in _WORDS:
            return _WORDS[word]
        try:
            return self.check(int(word))
        except ValueError:
            raise OptionError(f"{self.name} must be {self._wanted()}, not {text!r}") from None

    def show(self, value: OptionValue) -> str:
        """A value as `parse` takes it."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return os.pathsep.join(value) if isinstance(value, tuple) else str(value)

    def moved(self, value: OptionValue, steps: int) -> OptionValue:
        """The value after some key presses: numbers stay in range, choices go round; texts do not move."""
        if self.kind == "bool":
            return not value
        if self.kind == "choice":
            return self.choices[(self.choices.index(str(value)) + steps) % len(self.choices)]
        return min(max(value + steps * self.step, self.low), self.high) if isinstance(value, int) else value

    @property
    def range(self) -> str:
        """What it takes, in short."""
        return {
            "text": "a text",
            "texts": "texts",
            "choice": " ".join(self.choices),
            "int": f"{self.low} to {self.high}",
            "bool": "on off",
        }[self.kind]

    def _wanted(self) -> str:
        return {
            "text": "a text",
            "texts": "a list of texts",
            "choice": f"one of {', '.join(self.choices)}",
            "int": f"a whole number from {self.low} to {self.high}",
            "bool": "true or false",
        }[self.kind]


def _engine(name: str, kind: Literal["choice", "int", "bool"], help: str, **limits: object) -> Option:
    return msgspec.convert(
        {"name": name, "kind": kind, "help": help, "default": _SPEC[name], "table": "engine", **limits}, Option
    )


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option(name="model", kind="text", default="", help="a model's name, or the path of a GGUF file"),
        Option(name="system", kind="text", default="", help="the system message of new chats"),
        Option(
            name="persona",
            kind="text",
            default="",
            help="a persona's name: its system message and its knobs go before all but flags",
        ),
        Option(
            name="model_folders",
            kind="texts",
            default=(),
            help=f"folders to look for models in, besides those of other programs; several with {os.pathsep} between them",
        ),
        Option(
            name="on_full",
            kind="choice",
            default="ask",
            help="when the context is full: ask, stop, drop the oldest turns, or have them summarised",
            choices=("ask", "stop", "drop", "summarise"),
        ),
        Option(name="theme", kind="text", default="auto", help="a theme's name; auto follows the terminal"),
        Option(
            name="glyphs",
            kind="choice",
            default="auto",
            help="characters that bars and frames are drawn with; auto goes by the terminal's locale",
            choices=("auto", "unicode", "ascii"),
        ),
        _engine(
            "context",
            "int",
            f"tokens of context; 0 is what the model was trained on, up to {MOST_CONTEXT}",
            high=10_000_000,
            step=1024,
        ),
        _engine("threads", "int", "threads that decode; 0 chooses", high=1024),
        _engine("threads_batch", "int", "threads that read the prompt; 0 chooses", high=1024),
        _engine("gpu_layers", "int", "layers on the GPU; -1 is all, where the build can", low=-1, high=10_000),
        _engine(
            "prefill_batch", "int", "most prompt tokens decoded at once; 0 chooses, 63 and less is exact", high=4096
        ),
        _engine("flash_attention", "choice", "flash attention", choices=("auto", "on", "off")),
        _engine(
            "kv_type",
            "choice",
            "number format of the KV cache",
            choices=("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"),
        ),
        _engine(
            "mmap",
            "choice",
            "map the model's file instead of reading it",
            choices=("auto", "on", "off"),
        ),
        _engine("mlock", "bool", "keep the model in memory, never swapped out"),
        _engine("main_gpu", "int", "the one GPU to use, counted from 0; -1 is all of them", low=-1, high=64),
        _engine("fast_prefill", "bool", "read prompts 512 tokens at once: faster, but no longer exact"),
    )
}
"""Name to option."""

_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")


def at_odds(engine: Mapping[str, object]) -> str:
    """Why no model can be run with these settings of the engine, each of which may be right by itself; "" if one can."""
    if engine["kv_type"] in _QUANTIZED and engine["flash_attention"] == "off":
        return f"kv_type {engine['kv_type']} needs flash_attention, which is off"
    return ""
