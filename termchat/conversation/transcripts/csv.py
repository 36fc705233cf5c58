"""A table of tokens for pandas: one row a token, of every branch, in columns that are named and measured as in the records.

`node` says which reply a row belongs to. `bytes` is base64, and exact; `text` stands on one line, its control characters as
escapes, so that neither a terminal nor a spreadsheet obeys it: one that begins like a formula has an escape there. So has a
word that pandas would take for no value, such as null. A number that was none is an empty cell.
"""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterator

from termchat.conversation.session import SessionInfo
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation
from termchat.decoding.escapes import escape
from termchat.decoding.records import Token

_NESTED = ("stages", "candidates", "state")
FIELDS = tuple(name for name in Token.__struct_fields__ if name not in _NESTED)
COLUMNS = ("node", *FIELDS)

_FORMULA = ("=", "+", "-", "@")
_NOTHING = frozenset(
    ("#N/A", "#N/A N/A", "#NA", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)
"""What pandas reads as no value, but for what is a formula's beginning or empty."""


def lines(conversation: Conversation, _: SessionInfo, records: Records) -> Iterator[str]:
    """The column names, then the tokens of each reply in the order in which they were drawn."""
    yield _row(COLUMNS)
    for number in sorted(conversation.nodes):
        if conversation.nodes[number].role == "assistant":
            tokens = (record for record in records(number) if isinstance(record, Token))
            yield from (_row((number, *(_cell(getattr(token, name)) for name in FIELDS))) for token in tokens)


def _row(cells: tuple[object, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    if isinstance(value, str):
        shown = escape(value)
        taken_amiss = shown in _NOTHING or (len(shown) > 1 and shown.startswith(_FORMULA))
        return f"\\x{ord(shown[0]):02x}{shown[1:]}" if taken_amiss else shown
    return value
