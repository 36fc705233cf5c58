"""Replies that were made together, in files: lossless ones, side by side for people, and only the chat's own elsewhere."""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt

from termchat.conversation.transcripts import importing
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.walk_groups import groups_of
from termchat.decoding.group import BeamSettings, GridKnob, Group
from termchat.decoding.records import Ranked, Ranking, Record, Start, to_json
from tests.formats.example_chats import ExampleChat
from tests.made_records import finished, settings
from tests.made_walks import NUMBER, beams, group, interleaved, walked

SHORT = ("wide and blue", "wide | deep", "a cold thing")
LONG = tuple(f"{text}{' and on' * 30}\nuntil the end" for text in SHORT)


def together(texts: Sequence[str], of: Group, **knobs: Sequence[float]) -> ExampleChat:
    """A chat whose message was answered by walks; it goes on with the second one."""
    made = ExampleChat()
    made.say("How is the sea?")
    for walk, text in enumerate(texts):
        records = walked([1, 2, 3], walk, of, [f" {word}".encode() for word in text.split(" ")])
        drawn = {name: values[walk] for name, values in knobs.items()}
        records[1] = msgspec.structs.replace(settings(**drawn), walk=walk)
        if walk == 2:
            records[-1] = msgspec.structs.replace(finished("length", "max_tokens 3"), walk=walk)
        made.reply(records, parent=1)
    made.chat.leaf = 3
    made.say("and then?")
    return made


def test_everything_comes_back_from_json_lines(tmp_path: Path) -> None:
    made = together(SHORT, group(3, kind="beams", beams=BeamSettings(4, 0.5, 3)))
    more = [beams(0), beams(1), Ranking([Ranked(1, -0.25, -0.5, 3), Ranked(0, -0.5, -1.0, 3, "42", 2)])]
    made.known[2] += more
    for record in more:
        made.chat.nodes[2].add(record)
    (found,) = importing.chats(made.write(tmp_path / "a.jsonl", "jsonl"))
    again = found.conversation
    assert again.leaf == made.chat.leaf
    assert {walk: node.number for walk, node in groups_of(again)[NUMBER].items()} == {0: 2, 1: 3, 2: 4}
    assert again.nodes[2].group == group(3, kind="beams", beams=BeamSettings(4, 0.5, 3))
    assert (again.nodes[2].beams, again.nodes[2].ranking) == ([beams(0), beams(1)], more[-1])


def bare(path: Path, streams: Sequence[Sequence[Record]], *more: Record) -> Path:
    lines = [to_json(record) for _, record in interleaved(streams)] + [to_json(record) for record in more]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_what_run_prints_of_walks_becomes_one_prompt_and_its_replies(tmp_path: Path) -> None:
    of, other = group(3, kind="best"), group(2, number=5)
    streams = [walked([1, 2], walk, of, [b"a", b"b", b"c"][: walk + 1]) for walk in range(3)]
    streams[0][3:3] = [beams(0), beams(1)]
    ranking = Ranking([Ranked(2, 0.5, 0.5, 3), Ranked(0, 0.25, 0.5, 1)])
    path = bare(tmp_path / "run.jsonl", streams, ranking)
    path.write_text(
        path.read_text() + bare(tmp_path / "b", [walked([7], n, other, [b"x"]) for n in range(2)]).read_text()
    )
    (found,) = importing.chats(path)
    chat = found.conversation
    assert [(n.number, n.parent, n.role, n.walk, n.text()) for n in chat.nodes.values()] == [
        (1, None, "user", None, ""), (2, 1, "assistant", 0, "a"), (3, 1, "assistant", 1, "ab"),
        (4, 1, "assistant", 2, "abc"), (5, None, "user", None, ""), (6, 5, "assistant", 0, "x"), (7, 5, "assistant", 1, "x"),
    ]  # fmt: skip
    assert chat.nodes[2].beams == [beams(0), beams(1)]
    assert chat.nodes[2].ranking == ranking
    assert list(groups_of(chat)) == [NUMBER, 5]
    assert chat.leaf == 6  # the first of the last group
    only_first = bare(tmp_path / "c.jsonl", streams, ranking)
    assert next(importing.chats(only_first)).conversation.leaf == 4
    only_first.write_text(only_first.read_text().replace('"kind":"best"', '"kind":"walks"'))
    assert next(importing.chats(only_first)).conversation.leaf == 2


def _wrong(**fields: Any) -> list[Record]:
    begun, *rest = walked([1, 2], 0, group(2), [b"a"])
    return [msgspec.structs.replace(begun, **fields), *rest]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (_wrong(group=None), "a walk has a number and a group, or neither"),
        (_wrong(walk=-1), "line 1: walk -1 of a group of 2 is none that can be made"),
        (_wrong(group=group(33)), "a group of 33"),
        (_wrong(group=group(2, number=2**53)), "none that can be made"),
        (_wrong(group=group(2, kind="grid", knobs=(GridKnob("loudness", (1.0,)),))), "unknown knob 'loudness' in a grid"),
        (_wrong(group=group(2, kind="beams", beams=BeamSettings(99))), "2 to 16 beams, not 99"),
        ([*_wrong()[:3], beams(0), beams(2)], "step 2 of a beam search, where step 1 should be"),
        ([*_wrong()[:3], msgspec.structs.replace(beams(0), beams=beams(0).dropped)], "beam 0 has the number 2"),
        ([*_wrong(), Ranking([Ranked(0, 1.0, 1.0, 1)] * 2)], "a ranking has each walk once"),
        ([*_wrong(), *_wrong()], "walk 0 starts twice"),
        ([*_wrong()[:3], msgspec.structs.replace(_wrong()[3], walk=1)], "a token appears before its reply starts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_group_that_cannot_be_is_refused(tmp_path: Path, records: list[Record], said: str) -> None:
    with pytest.raises(TranscriptError, match=re.escape(said)):
        list(importing.chats(bare(tmp_path / "a.jsonl", [records])))


def test_a_file_without_any_of_it_is_read_as_before(tmp_path: Path) -> None:
    """As written before there were walks: fewer fields in its records."""
    made = ExampleChat()
    made.say("hi")
    made.reply([record for record in walked([1, 2, 3], 0, group(1), [b"a"]) if not isinstance(record, Start)])
    path = made.write(tmp_path / "a.jsonl", "jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop("walk", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = importing.chats(path)
    assert found.conversation.nodes[2].text() == "a"
    assert groups_of(found.conversation) == {}


# --- for people ------------------------------------------------------------------------------------------------------

GRID = group(3, kind="grid", knobs=(GridKnob("temperature", (0.0, 0.5, 1.0)),), same_dice=True)


def test_short_replies_are_a_table_in_markdown() -> None:
    made = together([text.replace("|", "and") for text in SHORT], GRID, temperature=(0.0, 0.5, 1.0))
    made.chat.nodes[2].add(Ranking([Ranked(walk, 0.5, -0.25, 3) for walk in (2, 1, 0)]))  # a grid stays in its order
    text = "\n".join(made.lines("md"))
    assert "### Grid of 3 walks: temperature 0, 0.5, 1; same dice\n\n*The chat continues from walk 2.*\n" in text
    rows = re.findall(r"<tr>\n(.*?)</tr>", MarkdownIt().enable("table").render(text), re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells == [
        ["walk", "settings", "reply", "ending", "tokens", "mean logprob"],
        ["1", "temperature 0 · seed 42", "wide and blue", "ended", "3", "−0.620"],
        ["<strong>2</strong>", "temperature 0.5 · seed 43", "wide and deep", "ended", "3", "−0.620"],
        ["3", "temperature 1 · seed 44", "a cold thing", "cut at max_tokens 3", "3", "−0.620"],
    ]


@pytest.mark.parametrize(
    ("of", "title"),
    [
        (group(3, kind="best", length_penalty=0.5), "Best of 3 walks; length penalty 0.5"),
        (group(4), "3 of 4 walks"),  # one was deleted
        (group(3, kind="compare", same_dice=True), "3 walks compared; same dice"),
        (group(3, kind="grid", knobs=(GridKnob("top_k", (1.0, 0.0)), GridKnob("top_p", (0.95,)))),
         "Grid of 3 walks: top_k 1, off; top_p 0.95"),
    ],
)  # fmt: skip
def test_a_title_says_why_they_were_made(of: Group, title: str) -> None:
    for form, head in (("md", f"\n### {title}\n"), ("html", f"<h3>{title}</h3>")):
        assert head in "\n".join(together(SHORT, of).lines(form))


@pytest.mark.parametrize("texts", [LONG, SHORT], ids=["long", "with a bar"])
def test_other_replies_have_a_heading_each(texts: Sequence[str]) -> None:
    made = together(texts, group(3))
    text = "\n".join(made.lines("md"))
    assert "| walk |" not in text
    heads = re.findall(r"^#### (.*)$", text, re.MULTILINE)
    assert heads == ["Walk 1 · seed 42", "Walk 2 · seed 43", "Walk 3 · seed 44"]
    assert text.count(texts[1].split("\n")[0]) == 1  # the chat's own is not told twice
    assert "#### Walk 2 · seed 43\n\n*See above.*\n\n*ended · " in text
    assert texts[2].split("\n")[0] in text
    assert "cut at max_tokens 3 · " in text


def test_walks_from_the_middle_of_a_reply_stand_under_it() -> None:
    made = ExampleChat()
    made.say("go")
    made.reply(walked([1, 2, 3], 0, group(1, number=9), [b"one", b" two", b" three"]))
    for walk, word in enumerate((b" or", b" but")):
        made.reply(walked([1, 2, 3], walk, group(2), [word]), parent=2, at=1)
    for leaf, goes_on in ((2, None), (4, 2)):
        made.chat.leaf = leaf
        text = "\n".join(made.lines("md"))
        assert "### 2 walks; from token 1\n" in text
        assert ("*The chat continues from walk 2.*" in text) == (goes_on is not None)
        assert "1 walk\n" not in text  # one alone stands beside nothing
        assert "other branch" in text if goes_on else "other branch" not in text  # those that stand here need no mark


def test_what_a_search_took_is_not_told_as_forced_by_hand() -> None:
    for of, marks in ((group(2, kind="beams", beams=BeamSettings(2, n_best=2)), 0), (group(2), 2)):
        made = together(SHORT[:1] + SHORT[2:], of)
        for number in (2, 3):
            made.chat.nodes[number].tokens.forced[:] = array("b", [1, 1, 1])
        made.chat.leaf = 3
        assert ('<span class="key"><span class="f">underlined' in "\n".join(made.lines("html"))) == bool(marks)
        assert "\n".join(made.lines("md")).count("3 tokens forced") == marks + bool(
            marks
        )  # the chat's own, then in the table


@dataclass
class Column:
    node: int
    head: str
    text: str
    facts: str
    goes_on: bool


def columns(page: str) -> list[Column]:
    found = re.findall(
        r'<article class="walk" data-node="(\d+)"><h4>(.*?)</h4>\s*<div class="text">(.*?)</div>\s*'
        r'<p class="on"( hidden)?>.*?</p>\s*<p class="facts">(.*?)</p></article>',
        page,
        re.DOTALL,
    )
    plain = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in found]
    return [Column(int(node), head, text, facts, not hidden) for node, head, text, hidden, facts in plain]


def test_a_page_shows_walks_in_columns() -> None:
    made = together(SHORT, group(3, kind="vote", answer=r"\d+"))
    ranking = Ranking([Ranked(1, 0.5, -0.25, 3, "<b>", 1), Ranked(0, 0.25, -0.5, 3, "<b>", 2)])
    made.known[2].append(ranking)
    made.chat.nodes[2].add(ranking)
    page = "\n".join(made.lines("html"))
    assert "<h3>Vote of 3 walks: answer \\d+</h3>" in page
    first, second, third = columns(page)
    assert first == Column(
        3, "Walk 2 seed 43", " wide | deep", "answer &lt;b&gt; · 1 vote · ended · 3 tokens · mean logprob −0.620",
        True,
    )  # fmt: skip
    assert (second.node, second.goes_on) == (2, False)
    assert second.facts.startswith("answer &lt;b&gt; · 2 votes")
    assert (third.node, third.head, third.facts[:19]) == (4, "Walk 3 seed 44", "cut at max_tokens 3")
    for number in (2, 3, 4):  # their tokens are told of by the same data
        assert page.count(f'id="data-{number}"') == 1


def test_a_page_shows_the_steps_of_a_beam_search() -> None:
    made = together(SHORT, group(3, kind="beams", beams=BeamSettings(2, 0.5, 3)))
    for record in (beams(0), beams(1)):
        made.known[2].append(record)
        made.chat.nodes[2].add(record)
    page = "\n".join(made.lines("html"))
    assert "<h3>Beam search: width 2, length penalty 0.5</h3>" in page
    table = re.search(r'<details class="beams">(.*?)</details>', page, re.DOTALL)
    assert table is not None
    rows = [
        [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in table[1].split("<tr>")
    ]
    assert rows[1:] == [
        ["step", "beam 1", "beam 2", "dropped"],
        ["1", "·b0 −0.250", "·b1 −1.250, ended", "·dropped −3.500"],
        ["2", "·b0 −0.250 ← 1", "·b1 −1.250 ← 1, ended", "·dropped −3.500 ← 2"],
    ]


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_other_programs_get_the_walk_that_the_chat_goes_on_with(form: str) -> None:
    text = "\n".join(together(SHORT, group(3)).lines(form))
    assert "wide | deep" in text
    assert "blue" not in text
    assert "cold" not in text


def test_the_table_of_tokens_names_the_walk_of_each() -> None:
    rows = list(csv.DictReader(together(SHORT, group(3)).lines("csv")))
    assert [(row["node"], row["walk"]) for row in rows] == [(str(2 + at // 3), str(at // 3)) for at in range(9)]
