"""A setting as people meet it: which values it takes, how they are typed, shown and moved.

The samplers, the options of the config file and the fields of plans are tables of it; flags, variables, the config file, forms,
slash commands and completions are made from these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import msgspec

from termchat.decoding import biases
from termchat.decoding.escapes import escape, unescape, well_formed

Value = float | int | str | bool | None | tuple[str, ...]
"""A number, a word or text, a truth, a list of texts, or None (a fresh seed)."""

Kind = Literal["float", "int", "switch", "bool", "choice", "text", "texts", "biases", "order", "seed"]
"""A switch is a number of the sampler chain, 0 or 1; a bool is true or false."""

_KINDS: dict[object, Kind] = {float: "float", int: "int", bool: "bool", tuple: "texts", Literal: "choice"}
"""The kinds of fields, by their types; the others are texts."""

_TRUTHS = {"true": True, "on": True, "yes": True, "y": True, "t": True, "1": True} | {
    "false": False, "off": False, "no": False, "n": False, "f": False, "0": False,
}  # fmt: skip


class SettingError(ValueError):
    """A setting refuses a value. The message has its name, its range and the value."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: its name, its range and its steps.

    Attributes:
        kind: of a field of a class, only where its type does not say it: see `declared`.
        table: its table in the config file; "" is before any.
        key, label, stage: of a sampler setting: its key in TUNE, its name on the panel, and the stage that reads it.
        flag: the name of its flag, where that is another one; `metavar`: the value there, where the kind does not say it.
        also: other names, of llama.cpp, for its flag, its slash command and a grid.
        none: the word for an empty list of texts.
        low, high: hard limits; of texts `high` limits their number.
        gap: no value between `low` and it is valid.
        step, coarse: the moves of one key press; with `logarithmic` the step grows with the value.
        bar: the value that fills the panel's bar.
        off: the value at which it does nothing; with `always` that value is shown like any other.
        words: names of single values.
        choices: the values of a choice; `about`: what they do. `aliases`: the stages of an order, by all their names.
        needs: the setting without which it does nothing.
        separator: parts texts that are typed in one; without it one text is typed at a time, with escapes.
        foreign: texts may have characters that no encoding takes, such as those of paths.
    """

    help: str
    kind: Kind = "text"
    name: str = ""
    table: str = ""
    key: str = ""
    label: str = ""
    stage: str | None = None
    flag: str = ""
    metavar: str = ""
    also: tuple[str, ...] = ()
    none: str = ""
    default: Value = None
    low: float = 0
    high: float = 0
    gap: float = 0
    step: float = 1
    coarse: float = 0
    bar: float = 0
    off: Value = None
    logarithmic: bool = False
    always: bool = False
    words: Mapping[str, int | str] = {}
    choices: tuple[str, ...] = ()
    about: Mapping[str, str] = {}
    aliases: Mapping[str, str] = {}
    needs: str = ""
    separator: str = ""
    foreign: bool = False

    def check(self, value: object) -> Value:
        """Return a value in the setting's own type.

        Raises:
            SettingError: it is of another kind or outside the range.
        """
        match self.kind:
            case "texts" | "biases":
                return self._check_texts(value)
            case "order":
                return self._check_order(value)
            case "text" if isinstance(value, str):
                return self.words.get(value, value if self.foreign else well_formed(value))
            case "bool" if isinstance(value, bool):
                return value
            case "text" | "bool":
                raise self._refusal(repr(value))
            case "seed" if value is None:
                return None
        word = value.strip().lower() if isinstance(value, str) else value
        if self.kind == "choice":
            if word not in self.choices:
                raise self._refusal(repr(value))
            return str(word)
        if isinstance(word, str) and word in self.words:
            return self.words[word]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._refusal(repr(value))
        if not self.low <= value <= self.high:  # which NaN is not either; no float() before: whole numbers have no end
            raise self._refusal(_show_number(value))
        if self.gap and self.low < value < self.gap:
            raise SettingError(f"{self.name} must be {self.low:g} or at least {self.gap:g}, not {value}")
        if self.kind == "float":
            return float(value)
        if value != int(value):
            raise self._refusal(str(value))
        return int(value)

    def parse(self, text: str) -> Value:
        """Parse a typed value; `off`, `on` for a switch and, for the seed, `fresh` are understood.

        Raises:
            SettingError: see `check`.
        """
        word = text.strip().lower()
        match self.kind:
            case "texts" if self.separator:
                return self.check([part.strip() for part in text.split(self.separator) if part.strip()])
            case "texts":
                return self.check([unescape(text)] if text else [])
            case "biases":
                return self.check([text] if text and text != "off" else [])
            case "order" | "choice" | "text":
                return self.check(text)
            case "bool":
                return self.check(_TRUTHS.get(word, text))
            case "switch" if word == "on":
                return 1
            case "seed" if word in ("", "fresh", "off", "random"):
                return None
        if word in self.words:
            return self.words[word]
        if word == "off" and self.off is not None:
            return self.off
        try:
            number = float(word) if self.kind == "float" else int(word)
        except ValueError:
            raise self._refusal(repr(text)) from None
        if self.table != "sampling" and not self.low <= number <= self.high:
            raise self._refusal(repr(text))  # of an option the message quotes what was typed
        return self.check(number)

    def moved(self, value: Value, steps: int, *, coarse: bool = False, around: bool = False) -> Value:
        """Move a value by some key presses, within its range; `around`: the first choice follows the last one. Texts stay."""
        if self.kind == "bool":
            return not value
        if self.kind == "choice":
            at = self.choices.index(str(value)) + steps
            return self.choices[at % len(self.choices) if around else min(max(at, 0), len(self.choices) - 1)]
        if not isinstance(value, (int, float)):
            return value
        size = self.coarse if coarse else self._step(value)
        moved: float = min(max(value + steps * size, self.low), self.high)
        if self.gap and self.low < moved < self.gap:
            moved = self.low if steps < 0 else self.gap
        return round(moved, 4) if self.kind == "float" else round(moved)

    def fraction(self, value: Value) -> float:
        """Return how full the panel's bar is, 0 to 1."""
        if self.kind == "choice":
            return self.choices.index(str(value)) / (len(self.choices) - 1)
        if not isinstance(value, (int, float)) or self.bar <= self._bar_low:
            return 0.0
        above, reach = max(value - self._bar_low, 0), self.bar - self._bar_low
        return min(math.log1p(above) / math.log1p(reach) if self.logarithmic else above / reach, 1.0)

    def at(self, fraction: float) -> Value:
        """Return the value whose bar is full to a fraction, 0 to 1: the nearest that steps lead to."""
        share, reach = min(max(fraction, 0.0), 1.0), self.bar - self._bar_low
        if self.kind == "choice":
            return self.choices[round(share * (len(self.choices) - 1))]
        value = self._bar_low + (math.expm1(share * math.log1p(reach)) if self.logarithmic else share * reach)
        size = self._step(value)
        value = max(round(value / size) * size, self.low)
        if self.gap and self.low < value < self.gap:
            value = self.gap
        return round(value, 4) if self.kind == "float" else round(value)

    @property
    def range(self) -> str:
        """Its range in short: "0 to 1; off is 1", "fresh, or 0 to 9007199254740991"."""
        fixed = {
            "text": "text", "texts": "strings", "order": "names of stages", "bool": "on off",
            "biases": "ID=X or TEXT=X; X is a number or ban", "choice": " ".join(self.choices),
        }  # fmt: skip
        if self.kind in fixed:
            return fixed[self.kind]
        if self.words:
            return f"{', '.join(self.words)}, or 1 to {self.high:.16g}"
        numbers = f"{self.gap or self.low:.16g} to {self.high:.16g}"
        if self.kind == "seed" or self.gap:
            return f"{'fresh' if self.kind == 'seed' else f'{self.low:g}'}, or {numbers}"
        return f"{numbers}; off is {self.off:g}" if isinstance(self.off, (int, float)) else numbers

    @property
    def _bar_low(self) -> float:
        """The value of an empty bar, at least 0."""
        return max(self.low, 0)

    def _step(self, value: float) -> float:
        """Return the move of one key press from a value."""
        if not self.logarithmic:
            return self.step
        return max(self.step, self.step * 10.0 ** math.floor(math.log10(max(abs(value), 1))) / 10)

    def show(self, value: Value) -> str:
        """Format a value for forms, the panel and the transcript."""
        if isinstance(value, tuple):
            if self.kind == "order" or self.separator:
                return (self.separator or ";").join(value)
            texts = value if self.kind == "biases" else [f'"{escape(text)}"' for text in value]
            return " ".join(texts) if value else "off"
        if value is None:
            return "fresh"
        if word := next((word for word, named in self.words.items() if named == value), ""):
            return word
        if self.is_off(value):
            return "off"
        if self.kind in ("switch", "bool"):
            return "on" if value else "off"
        return str(value)

    def is_off(self, value: Value) -> bool:
        """Return whether it is shown as off at this value."""
        return value == self.off and not self.always

    def _check_texts(self, value: object) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)):
            raise self._refusal(repr(value))
        if self.none and tuple(texts) == (self.none,):
            return ()
        if self.separator:
            valid = all(isinstance(text, str) and text and text == well_formed(text) for text in texts)
            if not valid or 0 < self.high < len(texts):
                raise self._refusal(repr(value))
            return tuple(texts)
        for text in texts:
            if not isinstance(text, str) or not text:
                raise SettingError(f"{self.name} must not contain empty strings (found {text!r})")
        checked = tuple(dict.fromkeys(map(well_formed, texts)))
        try:
            return checked if self.kind == "texts" else biases.check_biases(checked)
        except biases.BiasError as error:
            raise SettingError(f"{self.name} {error}") from None

    def _check_order(self, value: object) -> tuple[str, ...]:
        names = re.split(r"[;,\s]+", value.strip(" ;,")) if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)):
            raise self._refusal(repr(value))
        stages = []
        for name in names:
            stage = self.aliases.get(str(name).lower().replace("-", "_"))
            if stage is None:
                known = ", ".join(dict.fromkeys(self.aliases.values()))
                raise SettingError(f"{self.name}: unknown stage {name!r}; known stages: {known}")
            stages.append(stage)
        return tuple(dict.fromkeys(stages))

    def _refusal(self, value: str) -> SettingError:
        wanted = {
            "switch": "on or off", "bool": "true or false", "text": "a string", "order": "a list of stages",
            "texts": "a list of strings", "biases": "a list of strings", "choice": f"one of {', '.join(self.choices)}",
        }.get(self.kind)  # fmt: skip
        if wanted is None:
            number = "a number" if self.kind == "float" else "a whole number"
            number = f"{', '.join(self.words)} or {number}" if self.words else number
            wanted = f"{number} from {self.low:.16g} to {self.high:.16g}"
        return SettingError(f"{self.name} must be {wanted}, not {value}")


def _show_number(number: float) -> str:
    """Format a number for a message: Python refuses to write thousands of digits."""
    return str(number) if abs(number) < 1e21 or isinstance(number, float) else "a number that long"


def declared(owner: type, table: str = "") -> dict[str, Setting]:
    """Return the settings of the fields of a class, by name: `NAME: Annotated[TYPE, Setting(…)] = DEFAULT`."""
    values, settings = owner(), {}
    for name, annotation in get_type_hints(owner, include_extras=True).items():
        if get_origin(annotation) is Annotated:
            kind, setting = get_args(annotation)
            choices = get_args(kind) if get_origin(kind) is Literal else setting.choices
            kind = _KINDS.get(get_origin(kind) or kind, "text") if setting.kind == "text" else setting.kind
            settings[name] = msgspec.structs.replace(
                setting, name=name, table=table, kind=kind, choices=choices, default=getattr(values, name)
            )
    return settings
