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
from termchat.tui.pages.chain_view import shown_knobs

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
    which `name` names. `unfolded`: the panel shows every knob.
    """

    KEYS = "TUNE"

    def __init__(self, chat: Chat, run: ReplyRun | None = None, reply: int = 0) -> None:
        super().__init__()
        self.chat, self._of, self._reply = chat, run, reply
        self.name = f"walk {reply + 1}" if run is not None else ""
        self.selected = "temperature"
        self.unfolded = False
        self.forget()
        self._typed_at = 0.0
        """When the last letter of the run was typed; 0.0 where the next one begins another."""

    @property
    def field(self) -> Setting:
        return KNOBS[self.selected]

    @property
    def tuning(self) -> Tuning:
        """The values of the knobs."""
        return self.chat.tuning if self._of is None else self._of.tuning_of(self._reply)

    @property
    def origin(self) -> Mapping[str, str]:
        """Where each value comes from."""
        return self.chat.origin if self._of is None else self._of.origin_of(self._reply)

    @property
    def own_order(self) -> tuple[str, ...]:
        """The order of the stages, where the engine has its own."""
        return self.chat.abilities.order if self._of is None else ()

    @property
    def is_text(self) -> bool:
        """Whether the selected knob is written, and not turned."""
        return self.field.kind in ("texts", "biases", "order")

    @property
    def _value(self) -> Value:
        value: Value = getattr(self.tuning, self.selected)
        return value

    def press(self, key: str, character: str | None) -> bool:
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

    # --- the mouse -------------------------------------------------------------------------------------------------------

    def turn_knob(self, name: str, steps: int, *, coarse: bool = False) -> None:
        self._begin_run()
        self.select(name)
        self.do_move(steps, coarse)

    def slide_knob(self, name: str, fraction: float, *, begins: bool) -> None:
        """Go to a knob and set it to the value at a fraction of its bar, 0 to 1. Moves that follow one that `begins` are taken
        back with it."""
        if begins:
            self._begin_run()
        self.select(name)
        self.set(self.field.at(fraction))

    def carry_stage(self, name: str, onto: str, *, down: bool, begins: bool) -> None:
        """Move a knob's stage to where that of another knob is, which lies below it (`down`) or above. Moves that follow one
        that `begins` are taken back with it."""
        if begins:
            self._begin_run()
        self.select(name)
        stage, other, order = self._find_movable(), KNOBS[onto].stage, list(self.tuning.order)
        if stage and other in order and (stage not in order or down == (order.index(stage) < order.index(other))):
            to = order.index(other)
            order = [one for one in order if one != stage]
            order.insert(to, stage)
            self._change_knobs({"order": tuple(order)})

    # --- changes from elsewhere ------------------------------------------------------------------------------------------

    def put(self, name: str, value: Value) -> None:
        """Set a knob; it can be undone here, too."""
        self._begin_run()
        self._change_knobs({name: value})

    def apply(self, values: Mapping[str, Value], places: Mapping[str, str]) -> None:
        """Set several knobs with one undo; `places` are the origins of their values."""
        self._begin_run()
        self._change_knobs(values, places)
        self._begin_run()

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

    def forget(self) -> None:
        """Forget all changes: nothing can be undone."""
        self._undo: list[_Run] = []
        self._run = _Run(self.selected)

    def write(self, text: str) -> None:
        r"""Add a text to the selected knob as typed, with `\n` and the like; one that is there goes. An order is replaced."""
        self._begin_run()
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

    def drop_text(self) -> None:
        """Remove the last of the selected knob's texts."""
        self._begin_run()
        if isinstance(value := self._value, tuple):
            self.set(value[:-1])

    def toggle_stop_after(self, text: str) -> None:
        """Add a stop rule for a text, which stays in the reply, unlike a stop sequence; one that is there goes."""
        self.error = ""
        try:
            (pattern,) = KNOBS["stop"].check([unescape(text)])  # type: ignore[misc, str-unpack]
        except SettingError as error:
            self.error = str(error)
            return
        rule, rules = Text(pattern, action="stop"), self.chat.breakpoints
        others = tuple(one for one in rules if one.condition != rule)
        self.chat.set_breakpoints(others if len(others) < len(rules) else (*rules, Breakpoint(rule)))

    @property
    def stops_after(self) -> tuple[str, ...]:
        """The texts of such rules."""
        rules = (one.condition for one in self.chat.breakpoints if one.enabled)
        return tuple(
            rule.pattern for rule in rules if isinstance(rule, Text) and rule.action == "stop" and not rule.regex
        )

    # --- keys ------------------------------------------------------------------------------------------------------------

    def do_unfold(self) -> None:
        self.unfolded = not self.unfolded

    def do_select(self, name: str) -> None:
        self.select(name)
        self._count_letter()

    def do_step(self, by: int) -> None:
        names = self._list_shown()
        self.select(names[(names.index(self.selected) + by) % len(names)])

    def do_reorder(self, by: int) -> None:
        """Move the selected knob's stage past the next one that the panel shows; one that was left out comes back."""
        stage, order = self._find_movable(), list(self.tuning.order)
        if not stage:
            return
        if stage in order:
            at, rows = order.index(stage), {KNOBS[name].stage for name in self._list_shown()}
            beyond = [to for to in range(at + by, len(order) if by > 0 else -1, by) if order[to] in rows]
            if not beyond:
                self.error = f"{stage} is already {'first' if by < 0 else 'last'}"
                return
            order.insert(beyond[0], order.pop(at))
        else:
            order.append(stage)
        self._change_knobs({"order": tuple(order)})

    def do_move(self, steps: int, coarse: bool = False) -> None:
        self.typed, value = None, self._value
        if isinstance(value, (int, float, str)):
            self.set(self.field.moved(value, steps, coarse=coarse))
        else:
            instead = "Enter edits it" if self.is_text else "type a number"
            self.error = f"{self.selected} cannot be stepped; {instead}"

    def do_accept(self) -> None:
        self.accept()

    def do_off(self) -> None:
        if self.field.off is None and self.field.kind != "seed":
            self.error = f"{self.selected} has no off value"
        else:
            self.set(self.field.off)

    def do_default(self) -> None:
        self.set(self.field.default)

    def do_take_back(self) -> None:
        self.error, self._typed_at = "", 0.0
        if not self._undo:
            self.error = "nothing to undo"
            return
        run = self._undo.pop()
        one = next(iter(run.values), "") if len(run.values) == 1 and run.picks < _TYPING else ""
        self.selected = run.selected if one in ("", "order") else one
        self.typed = None
        values = {name: value for name, (value, _) in run.values.items()}
        self._adjust_knobs(values, {name: place for name, (_, place) in run.values.items()})

    # --- how it is done --------------------------------------------------------------------------------------------------

    def _list_shown(self) -> list[str]:
        return shown_knobs(self.tuning, self.selected, unfolded=self.unfolded, order=self.own_order)

    def _find_movable(self) -> str:
        """Return the selected knob's stage; "" for one that has no place in the order, with the reason in `error`."""
        stage = STAGES.get(self.field.stage or "")
        if stage is None:
            self.error = f"{self.selected} has no place in the order"
        elif stage.first or stage.last:
            self.error = f"{stage.name} always comes {'first' if stage.first else 'last'}"
        else:
            return stage.name
        return ""

    def _begin_run(self, *, letter: bool = False) -> None:
        """Begin another run, unless a letter was typed soon after the one before it."""
        now, self.error = monotonic(), ""
        if not letter or now - self._typed_at > _PAUSE:
            self._run = _Run(self.selected)
        self._typed_at = now if letter else 0.0

    def _keep_run(self) -> _Run:
        """Put the run on the undo, if it is not there yet."""
        if self._undo[-1:] != [self._run]:
            self._undo.append(self._run)
        return self._run

    def _count_letter(self) -> None:
        """Count a letter that changes no value; several in a run were meant for another widget, and have an undo of their
        own."""
        self._run.picks += 1
        if self._run.picks >= _TYPING:
            self._keep_run()

    def set(self, value: Value) -> None:
        self._change_knobs({self.selected: value})

    def _change_knobs(self, values: Mapping[str, Value], places: Mapping[str, str] | None = None) -> None:
        """Set knobs, to be taken back with the run. `places` are the origins of the values, and taken back, too."""
        self.typed = None
        before = {name: (getattr(self.tuning, name), self.origin[name]) for name in values}
        try:
            self._adjust_knobs(values, places)
        except SettingError as error:
            self.error = str(error)
            return
        for name, (value, place) in before.items():
            if places is not None or value != values[name]:
                self._keep_run().values.setdefault(name, (value, place))

    def _adjust_knobs(self, values: Mapping[str, Value], places: Mapping[str, str] | None) -> None:
        if self._of is not None:
            self._of.adjust_settings(values, self._reply)
        elif places is not None:
            self.chat.adjust_all(values, places)
        else:
            for name, value in values.items():
                self.chat.adjust_setting(name, value)
