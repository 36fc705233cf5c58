"""Logit biases: the tokens of a typed text and the spellings of its word, each of which can be banned or boosted, and the list
of what is biased. All of it counts at once, also for a reply that is running."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from termchat.chat.questions import Biasing, Questions
from termchat.chat.service import Chat
from termchat.decoding import biases
from termchat.decoding.biases import BANNED, Bias
from termchat.decoding.escapes import unescape
from termchat.decoding.records import Token
from termchat.decoding.samplers import KNOBS
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.port import Spelling
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, percent
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.themes.theme_file import Palette

_AMOUNT, _ID = 8, 8
_BAN = Ink("error", bold=True)


class _Row(NamedTuple):
    """A title, or what can be biased: `target` is its name in a bias, "" where nothing can be done; `amount` its bias now."""

    name: str
    target: str = ""
    amount: float = 0.0
    detail: str = ""
    title: bool = False


class BiasDialog(ListDialog[_Row, None]):
    """Changes the biases with `knobs`, which also take a change back. While nothing is typed the candidates of `token` are
    listed."""

    DEFAULT_CSS = "BiasDialog > Vertical { width: 92; max-height: 32; }"
    TITLE = "Logit biases"
    FIELD = "type a text to see its tokens; a leading space counts, \\n is a line break"
    HINTS = (
        ("bias-ban", "bans, or lifts the ban"), ("bias-less", "±1"), ("bias-word", "bans the word in all spellings"),
        ("bias-remove", "removes"), ("bias-undo", "undoes"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "LOGIT BIASES"

    def __init__(self, chat: Chat, knobs: Tune, palette: Palette, token: Token | None) -> None:
        super().__init__(palette)
        self._chat, self._knobs, self._token = chat, knobs, token
        self._text = ""
        self._answer: Biasing | None = None

    def on_mount(self) -> None:
        self.call_after_refresh(self._ask_biases)  # once the list knows its size

    def search(self, text: str) -> None:
        self.say("")
        self._text = unescape(text)
        self._ask_biases()

    def hear(self, questions: Questions) -> None:
        if questions.biased is not None:
            self._answer = questions.biased
            self._lay_out()
        elif questions.failed:
            self.say(questions.failed)

    # --- rows --------------------------------------------------------------------------------------------------------

    def line(self, row: _Row, width: int, *, chosen: bool) -> Line:
        if row.title:
            return Line(((one_line(row.name, width), TITLE),))
        amount = column(biases.format_bias(row.amount), _AMOUNT)
        token = column(row.target if row.target.isdecimal() else "", _ID)
        room = max(width - _AMOUNT - _ID, 8)
        name = column(row.name, min(max(16, len(row.name) + 2), room // 2)) if row.detail else one_line(row.name, room)
        detail = one_line(row.detail, room - len(name)) if row.detail else ""
        return Line((
            (amount, _BAN if row.amount == BANNED else ACCENT), (token, MUTED),
            (name, STRONG if row.amount else TEXT), (detail, MUTED),
        ))  # fmt: skip

    def action_move(self, how: str) -> None:
        """Move past titles, up to the first and last row."""
        before = self.picker.chosen
        super().action_move(how)
        row = self.row
        if how in ("up", "down") and row is not None and row.title and self.picker.chosen != before:
            super().action_move(how)

    def _ask_biases(self) -> None:
        self._chat.questions.ask_biases(self._text)
        self._lay_out(first=True)

    def _lay_out(self, *, first: bool = False) -> None:
        rows = list(self._read_rows(self._sum_totals()))
        at = next((at for at, row in enumerate(rows) if row.target), 0)
        self.set_rows(rows, at if first else max(self.picker.chosen, at))

    def _read_rows(self, totals: Mapping[int, float]) -> Iterable[_Row]:
        answer, typed = self._answer, self._answer_of_text
        if typed is not None:
            yield from self._read_answer(typed, totals)
        elif not self._text and self._token is not None:
            yield _Row(f"CANDIDATES OF TOKEN {self._token.step}", title=True)
            for one in self._token.candidates:
                share = f"model {percent(math.exp(one.logprob))}"
                yield _Row(show_piece(one.text), str(one.id), totals.get(one.id, 0.0), share)
        yield _Row("BIASES", title=True)
        for name, bias in self._biases.items():
            tokens = answer.written.get(str(bias)) if answer is not None else None
            pieces = list(zip(tokens.ids, tokens.show_tokens(), strict=True)) if tokens is not None else []
            if isinstance(bias.what, int):
                yield _Row(pieces[0][1] if pieces else name, name, bias.value)
            else:
                yield _Row(name, name, bias.value, " ".join(f"{token} {piece}" for token, piece in pieces))
        if answer is not None:
            for token, name in zip(answer.suppressed.ids, answer.suppressed.show_tokens(), strict=True):
                yield _Row(name, "", BANNED, f"{token}, the model's own ban (suppress_tokens)")
        if not self._biases:
            yield _Row("none yet")

    @property
    def _answer_of_text(self) -> Biasing | None:
        """What the engine said of the typed text; None while nothing is typed, and until it answers."""
        answer = self._answer
        return answer if answer is not None and self._text and answer.text == self._text else None

    def _read_answer(self, answer: Biasing, totals: Mapping[int, float]) -> Iterable[_Row]:
        """Read the rows of the tokens of the typed text, and of the spellings of its word."""
        tokenized, spellings = answer.tokenized, answer.spellings
        yield _Row("TOKENS", title=True)
        for token, name in zip(tokenized.ids, tokenized.show_tokens(), strict=True):
            yield _Row(name, str(token), totals.get(token, 0.0))
        if len(tokenized.ids) > 1:
            whole = Bias(answer.text, 0.0).name
            yield _Row(whole, whole, self._read_own(whole), "each of its tokens")
        if spellings:
            singles = sum(len(one.ids) == 1 for one in spellings)
            title = f"SPELLINGS OF {answer.text.strip()}: {singles} OF {len(spellings)} ARE ONE TOKEN"
            yield _Row(title, title=True)
        for one in spellings:
            yield _Row(show_piece(one.text), str(one.ids[0]), totals.get(one.ids[0], 0.0), _explain_shared(one))

    # --- what is biased ----------------------------------------------------------------------------------------------

    @property
    def _biases(self) -> dict[str, Bias]:
        """The biases of the chat, by name."""
        return {bias.name: bias for bias in map(biases.parse, self._chat.tuning.logit_bias)}

    def _read_own(self, target: str) -> float:
        """Return the value of the bias of that name; 0 without one."""
        return self._biases[target].value if target in self._biases else 0.0

    def _sum_totals(self) -> Mapping[int, float]:
        """Sum what all biases add to each token."""
        answer = self._answer
        added = [(answer.suppressed.ids, BANNED)] if answer is not None else []
        for bias in self._biases.values():
            if isinstance(bias.what, int):
                added.append(([bias.what], bias.value))
            elif answer is not None and str(bias) in answer.written:
                added.append((answer.written[str(bias)].ids, bias.value))
        return biases.sum_biases(added)

    def _put_biases(self, *changes: tuple[str, float]) -> None:
        """Set biases by their names; 0 removes one."""
        values = {name: bias.value for name, bias in self._biases.items()} | dict(changes)
        written = [f"{name}={biases.format_bias(value)}" for name, value in values.items() if value]
        self._knobs.put(LOGIT_BIAS, KNOBS[LOGIT_BIAS].check(written))
        self.say(self._knobs.error)
        self._lay_out()

    # --- keys --------------------------------------------------------------------------------------------------------

    def enter(self, text: str) -> None:
        row = self.row
        own = self._read_own(row.target) if row is not None else 0.0
        if row is not None and row.target and (own == BANNED or row.amount != BANNED):
            self._put_biases((row.target, 0.0 if own == BANNED else BANNED))
        elif row is not None and row.amount:
            self.say("another bias, or the model's file, bans this token")

    def action_shift(self, by: int) -> None:
        if (row := self.row) is not None and row.target:
            own = self._read_own(row.target)
            self._put_biases((row.target, min(max((0.0 if own == BANNED else own) + by, -biases.MOST), biases.MOST)))

    def action_remove(self) -> None:
        if (row := self.row) is not None and row.target:
            self._put_biases((row.target, 0.0))

    def action_undo(self) -> None:
        self._knobs.do_take_back()
        self.say(self._knobs.error)
        self._lay_out()

    def action_word(self) -> None:
        """Ban first the spellings that are one token, then the first pieces of the others, then none of them."""
        answer = self._answer_of_text
        if answer is None or not self._text.strip():
            self.say("type a word first")
            return
        several = [one for one in answer.spellings if len(one.ids) > 1]
        allowed = [one for one in answer.spellings if self._read_own(str(one.ids[0])) != BANNED]
        free = [one for one in allowed if len(one.ids) == 1]
        banned = free or allowed
        self._put_biases(*((str(one.ids[0]), BANNED if banned else 0.0) for one in banned or answer.spellings))
        message = f"banned {_list_ids(banned)}" if banned else f"{answer.text.strip()} is allowed again"
        if free and several:
            message += f". Not banned: {_list_ids(several)}, whose first pieces other words share;"
            message += f" {name_of('bias-word')} bans those"
        elif banned:
            message += "".join(f". {_explain_shared(one)}" for one in banned if one.begins)
        self.tell(message)


def _list_ids(spellings: Sequence[Spelling]) -> str:
    """List spellings with their ids, such as "·Paris 7042, PARIS 48+2876"."""
    return ", ".join(f"{show_piece(one.text)} {'+'.join(map(str, one.ids))}" for one in spellings)


def _explain_shared(spelling: Spelling) -> str:
    """Say what else a ban of the first piece hits; "" where that is the whole word."""
    if len(spelling.ids) == 1:
        return ""
    first, *rest = map(show_piece, spelling.names)
    pieces = "│".join([first, *rest])
    if not spelling.begins:
        return f"{pieces}: ban {first}"
    more = " …" if spelling.begins > len(spelling.examples) else ""
    return f"{pieces}: {first} also begins {' '.join(spelling.examples)}{more} ({spelling.begins})"
