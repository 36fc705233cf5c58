"""The marks of a Markdown transcript break neither code nor JSON, and nothing of the text is lost."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from termchat.decoding.records import Record, Token
from tests.formats.example_chats import ExampleChat
from tests.made_records import settings as settings_record
from tests.made_records import stream

VIEWERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table"))
MARK = re.compile(r"⟦[^⟧]*⟧")


def exported(text: str, turned: list[int], *, size: int = 3, forced: tuple[int, ...] = ()) -> str:
    """The reply's text in the transcript; knobs were turned before these tokens of `size` bytes each."""
    page, data = ExampleChat(), text.encode()
    page.say("hi")
    records: list[Record] = stream(
        [1, 2, 3],
        [data[at : at + size] for at in range(0, len(data), size)],
        turned={at: settings_record(number + 1, temperature=1 + number / 10) for number, at in enumerate(turned)},
    )
    page.reply([
        msgspec.structs.replace(record, forced=True) if isinstance(record, Token) and record.step in forced else record
        for record in records
    ])  # fmt: skip
    shown = "\n".join(page.lines("md")).partition("## smollm2\n\n")[2]
    said = shown.rpartition("\n\n*seed")[0]
    return re.sub(r"  $", "", said, flags=re.MULTILINE)  # the spaces that keep its line breaks


def marks_in_code(text: str) -> list[str]:
    tokens = [each for viewer in VIEWERS for token in viewer.parse(text) for each in (token, *(token.children or ()))]
    return [
        each.content for each in tokens if each.type in ("fence", "code_block", "code_inline") and "⟦" in each.content
    ]


@pytest.mark.parametrize(
    ("text", "turned", "wanted"),
    [
        ("Look:\n```python\nx = [1]\n```\nDone.", [5], "Look:\n⟦1⟧\n```python\nx = [1]\n```\nDone."),
        ("```\nx = [1]\n```", [4], "⟦1⟧\n```\nx = [1]\n```"),
        ("```\nx = [1]", [2], "⟦1⟧\n```\nx = [1]\n```"),
        ("- a\n\n  ```\n  x\n  ```\n- b", [4], "- a\n\n  ⟦1⟧\n  ```\n  x\n  ```\n- b"),
        ("> ```\n> x\n> ```", [3], "> ⟦1⟧\n> ```\n> x\n> ```"),
        ("say\n\n    x = 1\n\nso", [4], "say\n\n⟦1⟧\n\n    x = 1\n\nso"),
        ('{"a": [1, "}"]}', [2, 3], '⟦1⟧⟦2⟧\n{"a": [1, "}"]}'),
        ('{"a": [1, "}"', [2], '⟦1⟧\n{"a": [1, "}"'),
        ('So: {"a": 1} it is', [2], 'So: ⟦1⟧{"a": 1} it is'),
        ("So `a b c d` it", [2], "So ⟦1⟧`a b c d` it"),
        ("See [all of it](http://x) now", [4], "See ⟦1⟧[all of it](http://x) now"),
        ("It is [ open here, and", [4], "It is [ open⟦1⟧ here, and"),
        ("plain words", [2], "plain ⟦1⟧words"),
    ],
)  # fmt: skip
def test_a_mark_stands_before_what_it_would_break(text: str, turned: list[int], wanted: str) -> None:
    shown = exported(text, turned)
    numbers = {mark: f"⟦{number}⟧" for number, mark in enumerate(MARK.findall(shown), 1)}
    assert MARK.sub(lambda found: numbers[found[0]], shown) == wanted
    assert all(f"at token {at}⟧" in mark for mark, at in zip(numbers, turned, strict=True))


def test_forced_tokens_are_marked() -> None:
    shown = exported("abcdefghijkl", [], forced=(0, 2, 3))
    assert shown == "⟦1 token forced at token 0⟧abcdef⟦2 tokens forced at token 2⟧ghijkl"
    assert exported('{"a": 12, "b": 1}', [], forced=(3,)).split("\n")[1] == '{"a": 12, "b": 1}'


PIECES = (
    "a", " b ", "\n", "\n\n", "`", "``", "```\n", "```py\n", "~~~\n", "    ", "- ", "> ", "{", "}", "[", "]", '"',
    '{"k": [1, "]"]}', "(u)", "\\", "|", "é", "x = 1\n", "\r\n",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.sets(st.integers(0, 20), max_size=4))
def test_no_mix_of_markdown_gets_a_mark_into_code(text: str, turned: set[int]) -> None:
    shown = exported(text, sorted(turned), size=2)
    assert marks_in_code(shown) == []
    plain = re.sub(r"[\s>]", "", exported(text, [], size=2))
    assert re.sub(r"[\s>]", "", MARK.sub("", shown)) == plain


WORDS = st.text('ab é漢"\\{}[],`\n\t0', max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=12,
    ).filter(lambda value: isinstance(value, (list, dict))),
    st.sampled_from([None, 2]),
    st.sets(st.integers(0, 30), min_size=1, max_size=4),
)
def test_an_object_is_still_one(value: object, indent: int | None, turned: set[int]) -> None:
    text = json.dumps(value, indent=indent)
    lines = exported(text, sorted(turned), size=2).split("\n")
    begin = next((at for at, line in enumerate(lines) if not line.startswith("⟦")), 0)
    assert "\n".join(lines[begin:]) == text
