"""A table of tokens for pandas: one row per token, of every branch, in columns that are named and measured as in the records.

`node` says which reply a row belongs to. `bytes` is base64, and exact; `text` stands on one line, its control characters as
escapes, so that neither a terminal nor a spreadsheet obeys it: one that begins like a formula has an escape there. So has a
word that pandas would take for no value, such as null. A number that was none, or that an engine did not tell, is an empty
cell. `tail` is the mass of the tokens that an engine did not list, where there are any: `entropy` and `p_end` are then upper
bounds. The last columns are the knobs, each with the value that the token was drawn with; `stop` is a list in JSON.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator

from termchat.conversation.session import Session
from termchat.conversation.setting_changes import list_values
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import escape
from termchat.decoding.records import TAIL, Record, SettingsRecord, Start, Token, list_untold
from termchat.decoding.samplers import KNOBS

_NESTED = ("stages", "candidates", "state", "draft")
FIELDS = tuple(name for name in Token.__struct_fields__ if name not in _NESTED)
COLUMNS = ("node", *FIELDS, TAIL, *KNOBS)

_FORMULA = ("=", "+", "-", "@")
_NOTHING = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)
"""What pandas reads as no value, but for what is a formula's beginning or empty."""


def lines(conversation: Conversation, _: Session, records: Records) -> Iterator[str]:
    """Yield the column names, then the tokens of each reply in the order in which they were drawn."""
    yield _format_row(COLUMNS)
    for number in sorted(conversation.nodes):
        if conversation.nodes[number].role == "assistant":
            yield from (_format_row((number, *cells)) for cells in _token_rows(records(number)))


def _token_rows(records: Iterable[Record]) -> Iterator[list[object]]:
    knobs: dict[int, list[object]] = {}
    unknown: list[object] = [""] * len(KNOBS)
    seed: int | str = ""
    for record in records:
        if isinstance(record, Start):
            seed = record.seed
        elif isinstance(record, SettingsRecord):
            in_force = {**list_values(record), "seed": seed}
            knobs[record.number] = [_format_cell(in_force.get(name, "")) for name in KNOBS]
        elif isinstance(record, Token):
            lacking = list_untold(record)
            cells = ("" if name in lacking else _format_cell(getattr(record, name)) for name in FIELDS)
            yield [*cells, record.unlisted or "", *knobs.get(record.settings, unknown)]


def _format_row(cells: tuple[object, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _format_cell(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, str):
        shown = escape(value)
        taken_amiss = shown in _NOTHING or (len(shown) > 1 and shown.startswith(_FORMULA))
        return f"\\x{ord(shown[0]):02x}{shown[1:]}" if taken_amiss else shown
    return value
