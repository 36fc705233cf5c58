"""A constraint is typed, pasted, read from a file, built from an example, or taken from the recent ones."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from textual import work
from textual.widget import Widget
from textual.widgets import Label

from termchat.decoding.constraint import Constraint, TextError
from termchat.text import one_line, sanitize
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_setting import (
    FORMS,
    ConstraintForm,
    ConstraintSetting,
    constraint_of,
    name_of_constraint,
    typed,
)
from termchat.tui.draw.dialog import Dialog

_PAGES = tuple(FORMS)
_HELP: dict[ConstraintForm, str] = {
    "json_schema": 'the text or the path of a schema, such as {"type": "object"}',
    "regex": "the whole reply matches it, such as [0-9]{4}-[0-9]{2}",
    "choice": "yes | no, or one text on each line",
    "gbnf": 'a grammar or its path, such as root ::= "yes" | "no"',
    "lark": 'a grammar or its path, such as start: "yes" | "no"',
    "example": 'JSON like what you want, or its path, such as {"name": "Ada", "age": 36}',
}


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
        self._page = _PAGES.index(now.kind) if now is not None else 0
        self._after = now.after_chain if now is not None else False
        self._recent = [*([now] if now is not None else []), *(one for one in setting.recent if one != now)]
        self._at = 0 if now is not None else -1
        self._given = now
        """The constraint whose text was put into the field."""
        self._field = ConstraintText(typed(now) if now is not None else "")
        self._waits = False

    def body(self) -> Iterable[Widget]:
        yield Label("", id="constraint-kinds", markup=False)
        yield self._field
        yield self.message_label()
        yield Label("", id="constraint-stage", markup=False)

    def on_mount(self) -> None:
        self._setting.listener = self._heard
        self._show()
        self._field.focus()

    def on_unmount(self) -> None:
        self._setting.listener = None

    def action_kind(self, by: int) -> None:
        self._page = (self._page + by) % len(_PAGES)
        self._show()

    def action_stage(self) -> None:
        self._after = not self._after
        self._show()

    def action_recent(self, by: int) -> None:
        if not self._recent:
            self.say("no constraint was used yet")
            return
        self._at = (self._at + by) % len(self._recent)
        self._given = chosen = self._recent[self._at]
        self._page, self._after = _PAGES.index(chosen.kind), chosen.after_chain
        self._field.put(typed(chosen))
        self._show()

    def action_set(self) -> None:
        self._field.action_send()

    @work(group="editor", exclusive=True)
    async def action_editor(self) -> None:
        from termchat.external_editor import EditorError  # rarely needed
        from termchat.tui.composer import editor

        try:
            self._field.put(await editor.edit(self._field.message, self.app.suspend))
        except EditorError as problem:
            self.say(f"{problem.message}. {problem.hint}" if problem.hint else problem.message)

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        event.stop()
        self._waits = True
        try:
            self._setting.set(self._made(event.text))
        except TextError as error:
            self._waits = False
            self.say(str(error))
            if error.line and event.text == self._field.text:
                self._field.move_cursor((error.line - 1, error.column - 1))
            return
        if self._setting.waiting:
            self.say("asking the model …")
        else:
            self._heard()

    def _heard(self) -> None:
        if not self._waits:
            return
        self._waits = False
        if self._setting.problem:
            self.say(self._setting.problem)
        else:
            self.dismiss(None)

    def _made(self, text: str) -> Constraint | None:
        if not text.strip():
            return None
        constraint = constraint_of(_PAGES[self._page], text)
        given = self._given.name if self._given is not None and text == typed(self._given) else ""
        return msgspec.structs.replace(constraint, name=constraint.name or given, after_chain=self._after)

    def _show(self) -> None:
        shown = "  ".join(f"[{FORMS[page]}]" if at == self._page else FORMS[page] for at, page in enumerate(_PAGES))
        self.query_one("#constraint-kinds", Label).update(shown)
        self._field.placeholder = _HELP[_PAGES[self._page]]
        where = "after the other stages" if self._after else "first, before the other stages"
        of = ""
        if 0 <= self._at < len(self._recent):
            of = f" · recent {self._at + 1} of {len(self._recent)}: {one_line(name_of_constraint(self._recent[self._at]), 30)}"
        self.query_one("#constraint-stage", Label).update(sanitize(f"the stage stands {where}{of}", keep=""))
        self.say("")


class ConstraintText(Composer):
    """A composer that sends its text unchanged, also an empty one."""

    def action_send(self) -> None:
        self.post_message(self.Submitted(self.message))
