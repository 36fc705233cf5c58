"""TUNE: turning knobs from the keyboard. What each key does, without a screen."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from termchat.chat.reply_run import Run as ReplyRun
from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding import biases
from termchat.decoding.conditions import Text
from termchat.decoding.escapes import unescape
from termchat.decoding.samplers import KNOBS, Tuning, Value
from termchat.decoding.setting import Setting, SettingError
from termchat.decoding.stages import LOGIT_BIAS, STAGES
from termchat.tui.draw.form import Form
from termchat.tui.keys.key import shown
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.chain import shown_knobs

_TYPED = frozenset("0123456789.-")
_PAUSE = 0.6
"""Seconds: letters that follow each other sooner are taken back together, since they may have been meant for the composer."""


_TYPING = 2
"""Knobs that are picked in one run by whoever means to write: to go from knob to knob takes a look at each."""


class _Run:
    """The changes of one undo: the knob selected before, and by knob its value and origin. `picks` counts letters of knobs."""

    def __init__(self, selected: str) -> None:
        self.selected, self.picks = selected, 0
        self.values: dict[str, tuple[Value, str]] = {}


class Tune(Form):
    """The selected knob, the text typed for it, and the undo. The knobs are the chat's, or those of a reply of the `run`,
    which `name` names.

    `editing` is whether a knob's texts are being written elsewhere. `unfolded`: the panel shows every knob.
    """

    KEYS = "TUNE"

    def __init__(self, chat: Chat, run: ReplyRun | None = None, reply: int = 0) -> None:
        super().__init__()
        self._chat, self._of, self._reply = chat, run, reply
        self.name = f"walk {reply + 1}" if run is not None else ""
        self.selected = "temperature"
        self._undo: list[_Run] = []
        self._run = _Run(self.selected)
        self._typed_at = 0.0
        """When the last letter of the run was typed; 0.0 where the next one begins another."""
        self.editing = False
        self.unfolded = False

    @property
    def field(self) -> Setting:
        return KNOBS[self.selected]

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
        self.error = ""
        letter = character is not None and character.isprintable()
        self._begin_run(letter=letter or key == "enter")
        if not super().press(key, character):
            if not letter:
                return False
            self.error = f"{shown(key)} does nothing here; {name_of('back')} leaves TUNE"
            self._count_letter()
        if key == "enter":
            self._typed_at = 0.0
        return True

    def takes(self, text: str) -> bool:
        return set(text) <= _TYPED

    def type_text(self, text: str) -> None:
        if self.is_text:
            self.error = f"Enter edits {self.selected}"
        else:
            super().type_text(text)

    def select(self, name: str) -> None:
        """Go to a knob; a value being typed for another is dropped."""
        self.selected, self.typed, self.error = name, None, ""

    def turn(self, name: str, steps: int, *, coarse: bool = False) -> None:
        self._begin_run()
        self.select(name)
        self.do_move(steps, coarse)

    def slide(self, name: str, fraction: float, *, begins: bool) -> None:
        """Go to a knob and set it to the value at a fraction of its bar, 0 to 1. Moves that follow one that `begins` are taken
        back with it."""
        if begins:
            self._begin_run()
        self.select(name)
        self._set_knob(name, KNOBS[name].at(fraction))

    def carry(self, name: str, onto: str, *, down: bool, begins: bool) -> None:
        """Move a knob's stage to where that of another knob is, which lies below it (`down`) or above. Moves that follow one
        that `begins` are taken back with it."""
        if begins:
            self._begin_run()
        self.select(name)
        order = list(self.tuning.order)
        stage, other = KNOBS[name].stage or "", KNOBS[onto].stage
        if stage not in STAGES or STAGES[stage].first or STAGES[stage].last:
            self._refuse_to_move()
        elif other in order and (stage not in order or down == (order.index(stage) < order.index(other))):
            to = order.index(other)
            order = [one for one in order if one != stage]
            order.insert(to, stage)
            self._set_knob("order", tuple(order))

    def put(self, name: str, value: Value) -> None:
        """Set a knob from elsewhere; it can be undone here, too."""
        self._begin_run()
        self.error = ""
        self._set_knob(name, value)

    def bias_of(self, token: int) -> float:
        """Return what its own bias adds to a token's logit; 0 without one."""
        return next((one.value for one in map(biases.parse, self.tuning.logit_bias) if one.what == token), 0.0)

    def bias(self, token: int, how: str) -> None:
        """Ban a token, or lift the ban, or add 1 to its logit ("ban", "more")."""
        own = self.bias_of(token)
        banned = own == biases.BANNED
        value = (0.0 if banned else biases.BANNED) if how == "ban" else 1.0 if banned else min(own + 1, biases.MOST)
        written = (*self.tuning.logit_bias, str(biases.Bias(token, value)))
        self.put(LOGIT_BIAS, KNOBS[LOGIT_BIAS].check(written))

    def undo(self) -> None:
        self.error = ""
        self.do_take_back()

    def forget(self) -> None:
        """Forget all changes: nothing can be undone."""
        self._undo.clear()
        self._run = _Run(self.selected)

    def apply(self, values: Mapping[str, Value], places: Mapping[str, str]) -> None:
        """Set several knobs with one undo; `places` are the origins of their values."""
        self._begin_run()
        self.typed, self.error = None, ""
        before = {name: (getattr(self.tuning, name), self.origin[name]) for name in values}
        self._adjust_all(values, places)
        self._undo_values().update(before)
        self._begin_run()

    def write(self, text: str) -> None:
        r"""Add a text to the selected knob as typed, with `\n` and the like; one that is there goes. An order is replaced."""
        self._begin_run()
        self.error = ""
        knob, value = self.field, self._value
        try:
            typed = knob.parse(text)
        except SettingError as error:
            self.error = str(error)
            return
        assert isinstance(typed, tuple)
        assert isinstance(value, tuple)
        if knob.kind == "texts":
            typed = (*(there for there in value if there not in typed), *(new for new in typed if new not in value))
        self.set(typed)

    def toggle_stop_after(self, text: str) -> None:
        """Add a stop rule for a text, which stays in the reply, unlike a stop sequence; one that is there goes."""
        self.error = ""
        try:
            (pattern,) = KNOBS["stop"].check([unescape(text)])  # type: ignore[misc, str-unpack]
        except SettingError as error:
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
        """Remove the last of the selected knob's texts."""
        self._begin_run()
        self.error = ""
        value = self._value
        if isinstance(value, tuple):
            self.set(value[:-1])

    @property
    def is_text(self) -> bool:
        """Whether the selected knob is written, and not turned."""
        return self.field.kind in ("texts", "biases", "order")

    def do_unfold(self) -> None:
        self.unfolded = not self.unfolded

    def do_reorder(self, by: int) -> None:
        """Move the selected knob's stage past the next one that the panel shows; one that was left out comes back."""
        stage, order = STAGES.get(self.field.stage or ""), list(self.tuning.order)
        if stage is None or stage.first or stage.last:
            self._refuse_to_move()
            return
        if stage.name not in order:
            self._set_knob("order", (*order, stage.name))
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
        self._set_knob("order", tuple(order))

    def _refuse_to_move(self) -> None:
        stage = STAGES.get(self.field.stage or "")
        where = "first" if stage is not None and stage.first else "last"
        self.error = (
            f"{self.selected} has no place in the order" if stage is None else f"{stage.name} always comes {where}"
        )

    @property
    def _value(self) -> Value:
        value: Value = getattr(self.tuning, self.selected)
        return value

    def do_move(self, steps: int, coarse: bool = False) -> None:
        self.typed, value = None, self._value
        if not isinstance(value, (int, float, str)):
            self.error = f"{self.selected} cannot be stepped; " + (
                "Enter edits it" if self.is_text else "type a number"
            )
            return
        self.set(self.field.moved(value, steps, coarse=coarse))

    def do_accept(self) -> None:
        self.accept()

    def do_off(self) -> None:
        if self.field.off is None and self.field.kind != "seed":
            self.error = f"{self.selected} has no off value"
        else:
            self.set(self.field.off)

    def do_default(self) -> None:
        self.set(self.field.default)

    def _begin_run(self, *, letter: bool = False) -> None:
        """Begin another run, unless a letter was typed soon after the one before it."""
        now = monotonic()
        if not letter or now - self._typed_at > _PAUSE:
            self._run = _Run(self.selected)
        self._typed_at = now if letter else 0.0

    def _undo_values(self) -> dict[str, tuple[Value, str]]:
        """Return the values of the run, and put it on the undo."""
        if not self._undo or self._undo[-1] is not self._run:
            self._undo.append(self._run)
        return self._run.values

    def _adjust_all(self, values: Mapping[str, Value], places: Mapping[str, str]) -> None:
        if self._of is None:
            self._chat.adjust_all(values, places)
        else:
            self._of.adjust_settings(values, self._reply)

    def do_take_back(self) -> None:
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

    def do_select(self, name: str) -> None:
        self.select(name)
        self._count_letter()

    def _count_letter(self) -> None:
        """Count a letter that changes no value; several in a run were meant for another widget, and have an undo of their
        own."""
        self._run.picks += 1
        if self._run.picks >= _TYPING:
            self._undo_values()

    def do_step(self, by: int) -> None:
        names = shown_knobs(self.tuning, self.selected, unfolded=self.unfolded, order=self.own_order)
        self.select(names[(names.index(self.selected) + by) % len(names)])

    def set(self, value: Value) -> None:
        self._set_knob(self.selected, value)

    def _set_knob(self, name: str, value: Value) -> None:
        self.typed = None
        before: Value = getattr(self.tuning, name)
        place = self.origin[name]
        try:
            if self._of is None:
                self._chat.adjust_setting(name, value)
            else:
                self._of.adjust_settings({name: value}, self._reply)
        except SettingError as error:
            self.error = str(error)
            return
        if value != before:
            self._undo_values().setdefault(name, (before, place))
