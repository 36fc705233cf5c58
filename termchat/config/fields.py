"""Every setting, declared once: the annotation of a field has its type and its `Setting`.

Flags, variables, the config file, its explained form, `config show` and the completions are made from these. Knobs are declared
in `termchat.decoding.samplers`, the settings of the engine in `termchat.engine.port`. `termchat.config.settings` reads the
values with pydantic-settings, which takes time: nothing here imports it.
"""

import os
from typing import Annotated, Any, Literal

from termchat.decoding.samplers import KNOBS, STEP_BY_STEP
from termchat.decoding.setting import Setting, declared
from termchat.engine.address import REMOTE_COMMAND
from termchat.engine.port import EngineSettings

ENGINE, SAMPLING, KEYS, ENGINES = "engine", "sampling", "keys", "engines"
"""The tables of the config file: how the engine runs the model, the knobs, key bindings, and engines elsewhere by name."""


class EngineTable(EngineSettings, frozen=True, kw_only=True):
    """The table [engine]: how the engine runs the model, and the model that drafts."""

    draft_model: Annotated[str, Setting(
        metavar="MODEL", foreign=True,
        help="model that drafts tokens while draft is model or auto: a name, or path to a GGUF file",
    )] = ""  # fmt: skip

    @property
    def of_model(self) -> dict[str, Any]:
        """The values that are fields of a `ModelSpec`."""
        return {name: getattr(self, name) for name in EngineSettings.__struct_fields__}


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


OPTIONS: dict[str, Setting] = declared(ChatSettings) | declared(EngineTable, ENGINE)
"""All settings but the knobs."""
SETTINGS: dict[str, Setting] = OPTIONS | KNOBS
"""All settings by name, options first."""
TABLES = {name: setting.table for name, setting in SETTINGS.items()}
"""The table of the config file with each of them; "" is before any."""
