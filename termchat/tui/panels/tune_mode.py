"""TUNE: turning knobs from the keyboard. What each key does, without a screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from textual.actions import parse

from termchat.chat.reply_run import Run as ReplyRun
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding import biases
from termchat.decoding.conditions import Text
from termchat.decoding.escapes import unescape
from termchat.decoding.samplers import KNOBS, KnobError, Tuning, Value
from termchat.decoding.stages import LOGIT_BIAS, STAGES
from termchat.text import erase_last
from termchat.tui.keys.key import shown
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.chain_panel import shown_knobs

_TYPED = frozenset("0123456789.-")
_PAUSE = 0.6
"""Seconds: letters that follow each other sooner are taken back together, since they may have been meant for the composer."""


_TYPING = 2
"""Knobs that are picked in one run by whoever means to write: to go from knob to knob takes a look at each."""


class _Run:
    """What is taken back at once: the knob selected before, and by knob its value and where that came from. `picks` counts
    letters of knobs."""

    def __init__(self, selected: str) -> None:
        self.selected, self.picks = selected, 0
        self.values: dict[str, tuple[Value, str]] = {}


class Tune:
    """The knob that is selected, what is being typed for it, and the way back. The knobs are the chat's, or those of a reply of
    the `run`, which `name` names.

    `typed` is None while nothing is typed; `error` is what the knob said to the last value it refused; `editing` is
    whether a knob's texts are being written elsewhere. `unfolded`: the panel shows every knob.
    """

    def __init__(self, chat: Chat, run: ReplyRun | None = None, reply: int = 0) -> None:
        self._chat, self._of, self._reply = chat, run, reply
        self.name = f"walk {reply + 1}" if run is not None else ""
        self.selected = "temperature"
        self._undo: list[_Run] = []
        self._run = _Run(self.selected)
        self._typed_at = 0.0
        """When the last letter of the run was typed; 0.0 where the next one begins another."""
        self.typed: str | None = None
        self.error = ""
        self.editing = False
        self.unfolded = False
        self._actions: dict[str, str] = {}

    @property
    def tuning(self) -> Tuning:
        """The values of the knobs."""
        return self._chat.tuning if self._of is None else self._of.tuning_of(self._reply)

    @property
    def origin(self) -> Mapping[str, str]:
        """Where each value comes from."""
        return self._chat.origin if self._of is None else self._of.origin_of(self._reply)

    @property
    def own_order(self) -> tuple[str, ...]:
        """The order of the stages, where the engine has its own."""
        return self._chat.abilities.order if self._of is None else ()

    def press(self, key: str, character: str | None) -> bool:
        """Does what a key stands for; False if it stands for nothing here. `character` is what it would write."""
        from termchat.tui.keys.dialogs import TUNE, actions  # not needed before the first frame

        self.error = ""
        self._actions = self._actions or actions(TUNE)
        letter = character is not None and character.isprintable()
        self._follow(letter=letter or key == "enter")
        if key in self._actions:
            _, does, parameters = parse(self._actions[key])
            self._DOES[does](self, *parameters)
        elif character is not None and character in _TYPED:
            self._type(character)
        elif letter:
            self.error = f"{shown(key)} does nothing here; {name_of('back')} leaves TUNE"
            self._letter()
        else:
            return False
        if key == "enter":
            self._typed_at = 0.0
        return True

    def select(self, name: str) -> None:
        """Goes to a knob; a value being typed for another is dropped."""
        self.selected, self.typed, self.error = name, None, ""

    def turn(self, name: str, steps: int, *, coarse: bool = False) -> None:
        self._follow()
        self.select(name)
        self._move(steps, coarse)

    def slide(self, name: str, fraction: float, *, begins: bool) -> None:
        """Goes to a knob and sets it to what stands at a fraction of its bar, 0 to 1. What follows one that `begins` is taken
        back with it."""
        if begins:
            self._follow()
        self.select(name)
        self._set(name, KNOBS[name].at(fraction))

    def carry(self, name: str, onto: str, *, down: bool, begins: bool) -> None:
        """Moves a knob's stage to where that of another knob is, which lies below it (`down`) or above. What follows a move
        that `begins` is taken back with it."""
        if begins:
            self._follow()
        self.select(name)
        order = list(self.tuning.order)
        stage, other = KNOBS[name].stage or "", KNOBS[onto].stage
        if stage not in STAGES or STAGES[stage].first or STAGES[stage].last:
            self._refuse_to_move()
        elif other in order and (stage not in order or down == (order.index(stage) < order.index(other))):
            to = order.index(other)
            order = [one for one in order if one != stage]
            order.insert(to, stage)
            self._set("order", tuple(order))

    def put(self, name: str, value: Value) -> None:
        """Sets a knob from elsewhere; it can be undone here, too."""
        self._follow()
        self.error = ""
        self._set(name, value)

    def bias_of(self, token: int) -> float:
        """What its own bias adds to a token's logit; 0 without one."""
        return next((one.value for one in map(biases.parse, self.tuning.logit_bias) if one.what == token), 0.0)

    def bias(self, token: int, how: str) -> None:
        """Bans a token, or lifts the ban, or adds 1 to its logit ("ban", "more")."""
        own = self.bias_of(token)
        banned = own == biases.BANNED
        value = (0.0 if banned else biases.BANNED) if how == "ban" else 1.0 if banned else min(own + 1, biases.MOST)
        written = (*self.tuning.logit_bias, str(biases.Bias(token, value)))
        self.put(LOGIT_BIAS, KNOBS[LOGIT_BIAS].check(written))

    def undo(self) -> None:
        self.error = ""
        self._take_back()

    def forget(self) -> None:
        """Leaves nothing to undo."""
        self._undo.clear()
        self._run = _Run(self.selected)

    def back(self) -> bool:
        """Drops what is being typed; False if that is nothing."""
        open_ = self.typed is not None
        self.typed, self.error = None, ""
        return open_

    def apply(self, values: Mapping[str, Value], places: Mapping[str, str]) -> None:
        """Sets several knobs at once, which are taken back at once; `places` are where their values come from."""
        self._follow()
        self.typed, self.error = None, ""
        before = {name: (getattr(self.tuning, name), self.origin[name]) for name in values}
        self._adjust_all(values, places)
        self._kept().update(before)
        self._follow()

    def write(self, text: str) -> None:
        r"""Adds a text to the selected knob as typed, with `\n` and the like; one that is there goes. An order is replaced."""
        self._follow()
        self.error = ""
        knob, value = KNOBS[self.selected], self._value
        try:
            typed = knob.parse(text)
        except KnobError as error:
            self.error = str(error)
            return
        assert isinstance(typed, tuple)
        assert isinstance(value, tuple)
        if knob.kind == "texts":
            typed = (*(there for there in value if there not in typed), *(new for new in typed if new not in value))
        self._set(self.selected, typed)

    def toggle_stop_after(self, text: str) -> None:
        """Adds a stop rule for a text, which stays in the reply, unlike a stop sequence; one that is there goes."""
        self.error = ""
        try:
            (pattern,) = KNOBS["stop"].check([unescape(text)])  # type: ignore[misc, str-unpack]
        except KnobError as error:
            self.error = str(error)
            return
        rule, rules = Text(pattern, action="stop"), self._chat.breakpoints
        others = tuple(one for one in rules if one.condition != rule)
        self._chat.set_breakpoints(others if len(others) < len(rules) else (*rules, Breakpoint(rule)))

    @property
    def stops_after(self) -> tuple[str, ...]:
        """The texts of such rules."""
        rules = (one.condition for one in self._chat.breakpoints if one.enabled)
        return tuple(
            rule.pattern for rule in rules if isinstance(rule, Text) and rule.action == "stop" and not rule.regex
        )

    def drop_text(self) -> None:
        """Removes the last of the selected knob's texts, if there is one."""
        self._follow()
        self.error = ""
        value = self._value
        if isinstance(value, tuple):
            self._set(self.selected, value[:-1])

    @property
    def is_text(self) -> bool:
        """Whether the selected knob is written, and not turned."""
        return KNOBS[self.selected].kind in ("texts", "biases", "order")

    def _unfold(self) -> None:
        self.unfolded = not self.unfolded

    def _reorder(self, by: int) -> None:
        """Moves the selected knob's stage past the next one that the panel shows; one that was left out comes back."""
        stage, order = STAGES.get(KNOBS[self.selected].stage or ""), list(self.tuning.order)
        if stage is None or stage.first or stage.last:
            self._refuse_to_move()
            return
        if stage.name not in order:
            self._set("order", (*order, stage.name))
            return
        at = order.index(stage.name)
        to = at + by
        knobs = shown_knobs(self.tuning, self.selected, unfolded=self.unfolded, order=self.own_order)
        rows = {KNOBS[name].stage for name in knobs}
        while 0 <= to < len(order) and order[to] not in rows:
            to += by
        if not 0 <= to < len(order):
            self.error = f"{stage.name} is already {'first' if by < 0 else 'last'}"
            return
        order.insert(to, order.pop(at))
        self._set("order", tuple(order))

    def _refuse_to_move(self) -> None:
        stage = STAGES.get(KNOBS[self.selected].stage or "")
        where = "first" if stage is not None and stage.first else "last"
        self.error = (
            f"{self.selected} has no place in the order" if stage is None else f"{stage.name} always comes {where}"
        )

    @property
    def _value(self) -> Value:
        value: Value = getattr(self.tuning, self.selected)
        return value

    def _move(self, steps: int, coarse: bool = False) -> None:
        self.typed, value = None, self._value
        if not isinstance(value, (int, float, str)):
            self.error = f"{self.selected} cannot be stepped; " + (
                "Enter edits it" if self.is_text else "type a number"
            )
            return
        self._set(self.selected, KNOBS[self.selected].moved(value, steps, coarse=coarse))

    def _type(self, character: str) -> None:
        if self.is_text:
            self.error = f"Enter edits {self.selected}"
        else:
            self.typed = (self.typed or "") + character

    def _erase(self) -> None:
        if self.typed is not None:
            self.typed = erase_last(self.typed) or None

    def _accept(self) -> None:
        if self.typed is None:
            return
        try:
            value = KNOBS[self.selected].parse(self.typed)
        except KnobError as error:
            self.error = str(error)
        else:
            self.typed = None
            self._set(self.selected, value)

    def _off(self) -> None:
        knob = KNOBS[self.selected]
        if knob.off is None and knob.kind != "seed":
            self.error = f"{self.selected} has no off value"
        else:
            self._set(self.selected, knob.off)

    def _default(self) -> None:
        self._set(self.selected, KNOBS[self.selected].default)

    def _follow(self, *, letter: bool = False) -> None:
        """Begins another run, unless a letter was typed soon after the one before it."""
        now = monotonic()
        if not letter or now - self._typed_at > _PAUSE:
            self._run = _Run(self.selected)
        self._typed_at = now if letter else 0.0

    def _kept(self) -> dict[str, tuple[Value, str]]:
        """The values that the run has had taken note of; it can be taken back from now on."""
        if not self._undo or self._undo[-1] is not self._run:
            self._undo.append(self._run)
        return self._run.values

    def _adjust_all(self, values: Mapping[str, Value], places: Mapping[str, str]) -> None:
        if self._of is None:
            self._chat.adjust_all(values, places)
        else:
            self._of.adjust_settings(values, self._reply)

    def _take_back(self) -> None:
        self._typed_at = 0.0
        if not self._undo:
            self.error = "nothing to undo"
            return
        run = self._undo.pop()
        one = next(iter(run.values), "") if len(run.values) == 1 and run.picks < _TYPING else ""
        self.selected = run.selected if one in ("", "order") else one
        self.typed = None
        values = {name: value for name, (value, _) in run.values.items()}
        self._adjust_all(values, {name: place for name, (_, place) in run.values.items()})

    def _pick(self, name: str) -> None:
        self.select(name)
        self._letter()

    def _letter(self) -> None:
        """Counts a letter that changes no value; many in a run were meant for elsewhere, and are taken back by themselves."""
        self._run.picks += 1
        if self._run.picks >= _TYPING:
            self._kept()

    def _step(self, by: int) -> None:
        names = shown_knobs(self.tuning, self.selected, unfolded=self.unfolded, order=self.own_order)
        self.select(names[(names.index(self.selected) + by) % len(names)])

    def _set(self, name: str, value: Value) -> None:
        self.typed = None
        before: Value = getattr(self.tuning, name)
        place = self.origin[name]
        try:
            if self._of is None:
                self._chat.adjust_setting(name, value)
            else:
                self._of.adjust_settings({name: value}, self._reply)
        except KnobError as error:
            self.error = str(error)
            return
        if value != before:
            self._kept().setdefault(name, (before, place))

    _DOES: dict[str, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        "move": _move,
        "step": _step,
        "accept": _accept,
        "erase": _erase,
        "off": _off,
        "default": _default,
        "take_back": _take_back,
        "select": _pick,
        "unfold": _unfold,
        "reorder": _reorder,
    }
