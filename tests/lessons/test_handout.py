"""A handout shows what a model and a reader wrote, and nothing of it is live."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from termchat.commands.lesson_handout import HandoutError, HandoutReply, handout_of, replies_of, write
from termchat.conversation.session import Session, View
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.group import BeamSettings
from termchat.decoding.records import Ranked, Ranking, Record
from termchat.lessons.playing import LessonState
from tests.lessons.made_lessons import EXAMPLE, lesson_in
from tests.made_records import reply, stream, user
from tests.made_walks import group, siblings, walked

HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "![x](http://a.b/c.png)", "[x](javascript:alert(1))",
    "```\n<b>out</b>", "````\n![x](y)", "</pre><iframe src=//a>", "<!-- -->", "&lt;script&gt;", "\x1b]0;title\x07",
    "[a]: http://b", "]]>", "~~~", "\u202e",
)  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert all(not name.startswith("on") for name, _ in attrs)


def written(folder: Path, ending: str, *texts: str) -> str:
    lesson = lesson_in(folder)
    replies = [HandoutReply(text, text, text) for text in texts]
    file = folder / f"h.{ending}"
    write(file, [handout_of(lesson, LessonState(), str, replies)], replace=True)
    return file.read_text("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_live(tmp_path: Path, text: str) -> None:
    plain, with_text = Tags(), Tags()
    plain.feed(written(tmp_path, "html", "x"))
    with_text.feed(written(tmp_path, "html", text))
    assert with_text.found == plain.found
    shown = written(tmp_path, "md", text)
    live = MarkdownIt("commonmark").enable("table").render(shown)
    assert not re.search(r"<(?:script|img|iframe|a |b>)", live), live
    assert "\x1b" not in shown


@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=30), max_size=5))
def test_nothing_is_live_in_any_order(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    shown = written(tmp_path_factory.mktemp("handout", numbered=True), "md", *texts)
    assert not re.search(r"<(?:script|img|iframe|a |b>)", MarkdownIt("commonmark").enable("table").render(shown))


def test_what_is_to_be_typed_is_code(tmp_path: Path) -> None:
    lesson = lesson_in(tmp_path, EXAMPLE.replace('learned = "', 'learned = "Send `/what [x] & *y*`. ', 1))
    for ending, shown in (("md", "Send `/what [x] & *y*`."), ("html", "Send <code>/what [x] &amp; *y*</code>.")):
        write(tmp_path / f"h.{ending}", [handout_of(lesson, LessonState(), str, [])], replace=False)
        assert shown in (tmp_path / f"h.{ending}").read_text("utf-8")


def test_what_was_said_is_all_there(tmp_path: Path) -> None:
    shown = written(tmp_path, "md", "one\n\ntwo")
    assert "> one\n> \n> two\n\none\n\ntwo" in shown


def test_replies_come_from_the_lessons_own_chat(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    try:
        assert replies_of(store, "greedy") == []
        chat = Conversation()
        session = store.begin(chat)
        store.update(session, view=View(lesson="greedy"))
        assert replies_of(store, "greedy") == [], "no reply yet"
        assert Session().view.lesson == ""
    finally:
        store.close()


def test_results_are_replies_and_one_of_each_group(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    try:
        chat = Conversation()
        session = store.begin(chat)

        def ask(text: str) -> None:
            store.add_node(session, user(chat, text, [1, 2]))

        def told(node: Node, *records: Record) -> None:
            for record in records:
                chat.add(node, record)
                store.add_record(session, node.number, record)

        def walks(number: int, *texts: bytes, keep: int = 0, ranked: Ranking | None = None, **of: Any) -> None:
            nodes = siblings(chat, len(texts))
            for walk, (node, text) in enumerate(zip(nodes, texts, strict=True)):
                store.add_node(session, node)
                told(node, *walked([1, 2], walk, group(len(texts), number, **of), [text]))
            if ranked is not None:
                told(nodes[0], ranked)
            chat.leaf = nodes[keep].number

        ask("How is the sea?")
        store.update(session, view=View(lesson="greedy"))
        one = reply(chat)
        store.add_node(session, one)
        told(one, *stream([1, 2], [b"The ", b"sea"]))
        ask("And the sky?")
        walks(1, b"red", b"blue", keep=1)
        ask("What is 9 - 4?")
        walks(2, b"It is 4.", b"It is 5.", b"5, I think.", kind="vote", answer=r"(\d+)")
        ask("Which word?")
        found = Ranking([Ranked(0, -0.5, -0.5, 1)])
        walks(3, b"Rome", ranked=found, kind="beams", beams=BeamSettings(4))
        assert store.flush()
        results = replies_of(store, "greedy")
    finally:
        store.close()
    assert [(result.message, result.reply) for result in results] == [
        ("How is the sea?", "The sea"), ("And the sky?", "blue"), ("What is 9 - 4?", "It is 5."), ("Which word?", "Rome"),
    ]  # fmt: skip
    assert results[0].figures.startswith("2 tokens, temperature 0.8, seed 42, perplexity ")
    assert [result.figures.split(", 1 token")[0] for result in results[1:]] == [
        "walk 2 of 2", "a vote of 3: 5, 2 votes", "the best of 4 beams, score -0.50",
    ]  # fmt: skip


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    made = [handout_of(lesson_in(tmp_path), LessonState(), str)]
    with pytest.raises(HandoutError, match=r"a handout is a \.md or an \.html file"):
        write(tmp_path / "h.pdf", made)
    (tmp_path / "file").write_text("")
    with pytest.raises(HandoutError, match="cannot be written"):
        write(tmp_path / "file" / "h.html", made)
