"""Thoughts are found wherever their tags are cut, and templates name the tags."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from termchat.decoding.conditions import ThinkingBudget
from termchat.decoding.samplers import KNOBS, KnobError, Tuning
from termchat.decoding.thinking import Phase, PhaseParser, ThinkingTags, tags_from, tags_of
from tests.decoding.byte_pieces import pieces

TAGS = ThinkingTags("<think>", "</think>")
QWEN = (
    "{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{% endif %}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)
GPT_OSS = '{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}'


def phases(parser: PhaseParser, parts: list[bytes]) -> list[Phase]:
    """Those of the tokens, where what was not known at once is what came to be known."""
    found = [parser.push_piece(part) for part in parts]
    return [next((later for later in found[at:] if later is not None), "answer") for at in range(len(found))]


def reference(text: str, *, inside: bool) -> int:
    """How many characters are thoughts, by a regular expression over the whole text."""
    pattern = r".*?</think>|.*" if inside else r"\s*<think>(?:.*?</think>|.*)"
    found = re.match(pattern, text, re.DOTALL)
    return found.end() if found is not None else 0


TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<thin", "</th", "<", ">", "\n", " ", "a", "é", "思", "🙂"]), max_size=14
)


@given(TEXTS.map("".join), st.lists(st.integers(0, 200), max_size=40), st.booleans())
@example("<think>a</think>b", list(range(30)), False)
def test_thoughts_are_the_same_wherever_tokens_are_cut(text: str, cuts: list[int], inside: bool) -> None:
    data = text.encode()
    parts = pieces(data, cuts) if data else []
    parser = PhaseParser(TAGS, b"<|assistant|>\n<think>\n" if inside else b"<|assistant|>\n")
    end = len(text[: reference(text, inside=inside)].encode())
    found, at = phases(parser, parts), 0
    for part, phase in zip(parts, found, strict=True):
        assert phase == ("thinking" if at < end else "answer"), (parts, found)
        at += len(part)
    assert parser.thought in (found.count("thinking"), found.count("thinking") + (parser.phase is None) * len(found))


def test_what_may_become_a_tag_is_not_known_yet() -> None:
    parser = PhaseParser(TAGS)
    assert [parser.push_piece(part) for part in (b"\n", b"<th", b"ink>", b"a", b"</think>", b"b")] == [
        None, None, "thinking", "thinking", "thinking", "answer",
    ]  # fmt: skip
    parser = PhaseParser(TAGS)
    assert [parser.push_piece(part) for part in (b"<", b"b>", b"<think>")] == [None, "answer", "answer"]
    assert parser.thought == 0


def test_a_reply_begins_inside_only_where_the_prompt_has_left_the_tag_open() -> None:
    assert PhaseParser(TAGS, b"assistant\n<think>\n").phase == "thinking"
    assert PhaseParser(TAGS, b"assistant\n<think>\n\n</think>\n\n").phase is None
    assert PhaseParser(None, b"<think>").push_piece(b"a") == "answer"


def test_templates_name_the_tags() -> None:
    assert tags_of(QWEN) == ThinkingTags("<think>", "</think>", "\n</think>\n\n")
    found = tags_of(GPT_OSS)
    assert found is not None
    assert found.opening == "<|channel|>analysis<|message|>"
    assert found.ending.endswith("final<|message|>")
    assert tags_of("[SYSTEM_PROMPT]...[THINK] your thoughts [/THINK]") == ThinkingTags("[THINK]", "[/THINK]")
    assert tags_of("{{ '<|im_start|>' + message.role }}") is None
    assert tags_from(()) is None
    assert tags_from(("<a>", "</a>")) == ThinkingTags("<a>", "</a>")


def test_the_knob_takes_words_and_numbers() -> None:
    knob = KNOBS["think"]
    written = {word: knob.parse(word) for word in ("auto", "on", "OFF", "512")}
    assert {word: knob.show(value) for word, value in written.items()} == {
        "auto": "auto", "on": "on", "OFF": "off", "512": "512",
    }  # fmt: skip
    assert knob.check("on") == written["on"]
    with pytest.raises(KnobError, match="auto, off, on or a whole number from -1"):
        knob.parse("perhaps")


def test_only_a_number_is_a_budget() -> None:
    wanted = {"auto": (None, ()), "off": (False, ()), "on": (True, ()), "9": (True, (ThinkingBudget(9),))}
    for word, (thinks, conditions) in wanted.items():
        tuning = Tuning().turn_knobs({"think": KNOBS["think"].parse(word)})
        assert (tuning.thinks, tuning.conditions()) == (thinks, conditions)
