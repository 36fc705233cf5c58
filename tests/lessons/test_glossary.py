"""The glossary: one plain sentence a term, in an order in which each word is explained before it is used."""

from __future__ import annotations

import re

import pytest

from termchat.lessons.glossary import GlossaryEntry, UnknownTerm, entries, find, is_term, terms
from termchat.lessons.lesson import is_knob_key
from termchat.lessons.lesson_file import read_shelf
from termchat.tui.keys.tables import APP, CHAT, COMPOSER, MODEL, TOKENS, TUNE, WALKS

ALL = list(entries().values())
KEYS = {key.id for table in (APP, CHAT, COMPOSER, MODEL, TOKENS, TUNE, WALKS) for key in table}
EVERYDAY = {
    "id", "left", "length", "message", "reply", "best", "force", "look", "rule", "draw", "drawn", "loop", "condition",
    "pattern", "setting", "score", "t", "k", "stop", "forced", "version", "cache", "bias", "stream",
}  # fmt: skip
"""Words that are understood without their explanation."""


def used_in(text: str, entry: GlossaryEntry) -> bool:
    """Whether a text uses a term, or one of its other names, as a word."""
    names = [name for name in (entry.term, *entry.also) if name.casefold() not in EVERYDAY]
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?:s|ed)?(?![\w-])", text, re.IGNORECASE) for name in names)


def test_there_are_enough() -> None:
    assert len(ALL) >= 60
    for term in (
        "token",
        "logit",
        "softmax",
        "KV cache",
        "TTFT",
        "end token",
        "why-not",
        "best of n",
        "GGUF",
        "micro-batch",
    ):
        assert term in entries()


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.term)
def test_each_is_one_short_sentence_and_says_where_it_is_seen(entry: GlossaryEntry) -> None:
    assert len(entry.text.split()) <= 30
    assert entry.text.endswith(".")
    assert entry.text.count(". ") == 0
    assert entry.text[0].isupper()
    assert entry.where.endswith(".")
    assert not entry.where.lone_brace
    assert [id for id in entry.where.keys if id not in KEYS and not is_knob_key(id)] == []
    assert not re.search(r"[{}]", entry.text)


def test_no_word_is_used_before_it_is_explained() -> None:
    early = [
        f"{entry.term} uses {later.term}"
        for at, entry in enumerate(ALL)
        for later in ALL[at + 1 :]
        if used_in(entry.text, later)
    ]
    assert early == []


def test_no_two_go_by_one_name() -> None:
    names = [name.casefold().replace("_", " ").replace("-", " ") for entry in ALL for name in {entry.term, *entry.also}]
    repeated = {name for name in names if names.count(name) > 2}
    assert not repeated
    for entry in ALL:
        assert find(entry.term) is entry
        for name in entry.also:
            assert find(name) is entry, name


@pytest.mark.parametrize(
    ("word", "term"),
    [("Entropy", "entropy"), ("top-p", "top_p"), ("top p", "top_p"), ("kv  cache", "KV cache"), ("tokens", "token"),
     ("entr", "entropy"), ("time to first token", "TTFT"), ("vocab", "vocabulary"), ("temp", "temperature"),
     ("logprobs", "logprob"), ("walks", "walk")],
)  # fmt: skip
def test_a_term_is_found_by_its_names(word: str, term: str) -> None:
    assert find(word).term == term


@pytest.mark.parametrize(
    ("word", "message"),
    [("entrpy", "the glossary has no 'entrpy' (did you mean entropy?)"), ("zebra", "the glossary has no 'zebra'"),
     ("", "no ''"),
     ("to", "did you mean")],
)  # fmt: skip
def test_an_unknown_word_is_guessed(word: str, message: str) -> None:
    with pytest.raises(UnknownTerm) as raised:
        find(word)
    assert message in str(raised.value)


def test_every_term_that_a_lesson_names_is_there() -> None:
    lost = [f"{lesson.id}: {term}" for lesson in read_shelf().lessons for term in lesson.terms if not is_term(term)]
    assert lost == []
    assert terms() == list(entries())
