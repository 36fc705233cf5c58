"""A constraint is typed, pasted, read from a file, built from an example, or taken from the recent ones."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from textual.widget import Widget
from textual.widgets import Label

from termchat.decoding.constraint import Constraint, TextError
from termchat.text import one_line, sanitize
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_setting import (
    FORMS,
    ConstraintSetting,
    constraint_of,
    name_of_constraint,
    typed_text,
)
from termchat.tui.draw.dialog import Dialog

_FORMS = tuple(FORMS)


class ConstraintDialog(Dialog[None]):
    """Enter puts the text in force; a faulty one stays, with the place of the fault and the cursor on it."""

    DEFAULT_CSS = """
    ConstraintDialog > Vertical { width: 90; }
    ConstraintDialog Composer { background: $panel; margin-top: 1; padding: 0 1; min-height: 4; max-height: 16; }
    ConstraintDialog #constraint-kinds { color: $muted; }
    ConstraintDialog #constraint-stage { color: $muted; }
    """
    KEYS = "CONSTRAINT"
    TITLE = "Constraint: what each reply has to match"
    HINTS = (
        ("constraint-set", "applies it, or removes it if the text is empty"), ("constraint-kind", "changes the kind"),
        ("constraint-recent", "recent ones"), ("constraint-stage", "moves the stage"),
        ("constraint-editor", "opens your editor"), ("newline", "breaks the line"), ("close", "closes"),
    )  # fmt: skip

    def __init__(self, setting: ConstraintSetting, now: Constraint | None) -> None:
        super().__init__()
        self._setting = setting
        self._form = _FORMS.index(now.kind) if now is not None else 0
        self._after = now.after_chain if now is not None else False
        self._recent = [*([now] if now is not None else []), *(one for one in setting.recent if one != now)]
        self._at = 0 if now is not None else -1
        """The recent constraint whose text was put into the field."""
        self._field = Composer(typed_text(now) if now is not None else "")
        self._field.sends_blank = True

    def body(self) -> Iterable[Widget]:
        yield Label("", id="constraint-kinds", markup=False)
        yield self._field
        yield self.message_label()
        yield Label("", id="constraint-stage", markup=False)

    def on_mount(self) -> None:
        self._show()
        self._field.focus()

    def on_unmount(self) -> None:
        self._setting.listener = None

    def action_kind(self, by: int) -> None:
        self._form = (self._form + by) % len(_FORMS)
        self._show()

    def action_stage(self) -> None:
        self._after = not self._after
        self._show()

    def action_recent(self, by: int) -> None:
        if not self._recent:
            self.say("no constraint was used yet")
            return
        self._at = (self._at + by) % len(self._recent)
        chosen = self._recent[self._at]
        self._form, self._after = _FORMS.index(chosen.kind), chosen.after_chain
        self._field.put(typed_text(chosen))
        self._show()

    def action_set(self) -> None:
        self._field.action_send()

    def action_editor(self) -> None:
        self._field.edit_outside()

    def on_composer_refused(self, event: Composer.Refused) -> None:
        event.stop()
        self.say(". ".join(filter(None, (event.notice.message, event.notice.hint))))

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        event.stop()
        self.say("asking the model …")
        self._setting.listener = self._hear
        try:
            self._setting.set(self._read(event.text))
        except TextError as error:
            self.say(str(error))
            if error.line and event.text == self._field.text:
                self._field.move_cursor((error.line - 1, error.column - 1))

    def _hear(self, problem: str) -> None:
        if problem:
            self.say(problem)
        else:
            self.dismiss(None)

    def _read(self, text: str) -> Constraint | None:
        """Make the constraint of a text; one that was not changed keeps its name.

        Raises:
            TextError: it cannot be read, or is faulty.
        """
        if not text.strip():
            return None
        constraint = constraint_of(_FORMS[self._form], text)
        given = self._recent[self._at] if self._at >= 0 else None
        name = given.name if given is not None and text == typed_text(given) else ""
        return msgspec.structs.replace(constraint, name=constraint.name or name, after_chain=self._after)

    def _show(self) -> None:
        chosen, self._field.placeholder = FORMS[_FORMS[self._form]]
        names = (f"[{name}]" if name == chosen else name for name, _ in FORMS.values())
        self.query_one("#constraint-kinds", Label).update("  ".join(names))
        stage = f"the stage stands {'after the other stages' if self._after else 'first, before the other stages'}"
        if self._at >= 0:
            name = one_line(name_of_constraint(self._recent[self._at]), 30)
            stage += f" · recent {self._at + 1} of {len(self._recent)}: {name}"
        self.query_one("#constraint-stage", Label).update(sanitize(stage, keep=""))
        self.say("")
