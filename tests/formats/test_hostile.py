"""What is out to steer, to hide or to flood, in every form of a transcript: bytes that harm nobody, and the text had back."""

from __future__ import annotations

import base64
import csv
import json
import sys
from html import unescape as unescape_html
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin

from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import FORMATS, export, importing
from termchat.conversation.transcripts.inert import make_inert, on_a_line
from termchat.decoding.escapes import unescape
from termchat.decoding.records import Token
from termchat.text import sanitize
from tests.attacks import BYTES, CONTROLS, FLOODS, MARKDOWN, MARKUP, forbidden
from tests.formats import example_chats
from tests.formats.example_chats import ExampleChat
from tests.made_records import stream

ALL = " ".join(CONTROLS.values())
NAMED = (CONTROLS["title"] + CONTROLS["C1 CSI"] + CONTROLS["bidi override"]).strip()
SAID = ALL.encode() + b" ".join(BYTES.values())


@pytest.fixture(scope="module")
def attacked() -> ExampleChat:
    """A chat whose every text is an attack. Those that steer come a byte a token, cut within characters too."""
    page = ExampleChat("system " + ALL)
    page.chat.title = ALL
    page.say(ALL + "\n".join(MARKUP.values()))
    page.reply(stream([1, 2, 3], [bytes([byte]) for byte in SAID], stops=("never" + ALL,))).name = ALL
    page.say("\n\n".join(FLOODS.values()))
    said = "\n\n".join(MARKDOWN.values()).encode()
    page.reply(stream([1, 2, 3], [said[at : at + 300] for at in range(0, len(said), 300)]))
    return page


def written(page: ExampleChat, folder: Path, form: str) -> Path:
    """The chat in a file whose name is an attack, too."""
    return export.write(folder / f"chat{NAMED}{FORMATS[form].endings[0]}", page.chat, page.info, page.records)


@pytest.mark.parametrize("form", FORMATS)
def test_no_byte_of_a_file_steers_or_hides(attacked: ExampleChat, tmp_path: Path, form: str) -> None:
    data = written(attacked, tmp_path, form).read_bytes()
    data.decode("utf-8", "strict")
    assert forbidden(data) == []
    assert b"\r" not in data
    if form in ("jsonl", "openai", "sharegpt"):
        assert data.isascii()


def test_numbers_at_the_ends_of_their_range_are_written(tmp_path: Path) -> None:
    """Rounded for the page, the largest of all is no number any more."""
    page = ExampleChat()
    page.say("hi")
    tokens = stream([1, 2, 3], [b"a"])
    wild = {
        "logprob": -sys.float_info.max,
        "logit": sys.float_info.min,
        "entropy": 64.0,
        "probability": 5e-324,
        "decode_us": 2**63 - 1,
    }
    page.reply([msgspec.structs.replace(each, **wild) if isinstance(each, Token) else each for each in tokens])
    for form in FORMATS:
        written(page, tmp_path, form)
    (found,) = importing.chats(written(page, tmp_path, "jsonl"))
    assert list(FORMATS["jsonl"].writer(found.conversation, page.info, found.records)) == page.lines("jsonl")


def test_our_own_lines_come_back_whole(attacked: ExampleChat, tmp_path: Path) -> None:
    (found,) = importing.chats(written(attacked, tmp_path, "jsonl"))
    assert found.conversation.title == ALL
    assert found.conversation.system == attacked.chat.system
    assert list(found.conversation.list_turns()) == list(attacked.chat.list_turns())
    assert b"".join(record.bytes for record in found.records(2) if hasattr(record, "bytes")) == SAID


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_messages_come_back_with_their_very_words_and_the_store_keeps_them(
    attacked: ExampleChat, tmp_path: Path, form: str
) -> None:
    (found,) = importing.chats(written(attacked, tmp_path, form))
    store = Store.open(tmp_path / "store.db")
    kept = store.load(importing.keep_transcript(store, found)).conversation
    store.close()
    assert kept.system == attacked.chat.system
    assert list(kept.list_turns()) == list(attacked.chat.list_turns())


def test_the_table_gives_every_byte_and_every_text_back(attacked: ExampleChat, tmp_path: Path) -> None:
    with written(attacked, tmp_path, "csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["node"] == "2"]
    assert b"".join(base64.b64decode(row["bytes"]) for row in rows) == SAID
    assert "".join(unescape(row["text"]) for row in rows) == "".join(attacked.chat.nodes[2].tokens.texts)


def test_no_token_is_nothing_to_pandas() -> None:
    page = ExampleChat()
    page.say("hi")
    texts = ["null", "None", "nan", "NaN", "NA", "N/A", "NULL", "n/a", "<NA>", " null", "nulls"]
    page.reply(stream([1, 2, 3], [text.encode() for text in texts]))
    rows = list(csv.DictReader(page.lines("csv")))
    assert [unescape(row["text"]) for row in rows] == texts
    assert [row["text"] for row in rows if row["text"] in texts] == [" null", "nulls"]


def test_a_person_reads_marks(attacked: ExampleChat, tmp_path: Path) -> None:
    text = written(attacked, tmp_path, "md").read_text("utf-8")
    for attack in CONTROLS.values():
        for line in make_inert(sanitize(attack.replace("\r\n", "\n"))).split("\n"):
            assert text.count(line) >= 3, line  # the system message, the user's and the reply


VIEWERS = (
    MarkdownIt("commonmark"), MarkdownIt("js-default", {"html": True}),
    MarkdownIt("gfm-like", {"html": True, "linkify": False}), MarkdownIt("commonmark").use(footnote_plugin),
)  # fmt: skip
LIVE = ("html_", "image", "footnote_")


def acts(text: str) -> list[str]:
    """What a viewer that takes HTML for HTML would run or fetch, and what it would not show."""
    found: list[str] = []
    for viewer in VIEWERS:
        env: dict[str, dict[str, object]] = {}
        tokens = viewer.parse(text, env)
        found += [
            each.type for token in tokens for each in (token, *(token.children or ())) if each.type.startswith(LIVE)
        ]
        notes = env.get("footnotes", {}).get("refs") or {}
        found += [*env.get("references", {}), *(notes if isinstance(notes, dict) else ())]
    return found


def test_a_viewer_of_markdown_finds_nothing_to_run(attacked: ExampleChat) -> None:
    for page in (attacked, example_chats.hostile_walks(), example_chats.hostile()):
        assert acts("\n".join(page.lines("md"))) == []
    page.chat.leaf = 2
    shown = unescape_html(VIEWERS[0].render("\n".join(page.lines("md"))))
    for attack in ("<script>window.harmed = 'tag'</script>", "<!--<script>", "<svg onload=", "<meta http-equiv="):
        assert attack in shown  # as words


FETCHED = "http://127.0.0.1:9/fetched"
HIDING = (
    f"![t]({FETCHED})",
    f"![]({FETCHED} 'title')",
    f"a ![t\nmore]({FETCHED}) b",
    f"![t][r]\n\n[r]: {FETCHED}",
    f"![r]\n\n[r]: {FETCHED}",
    f"[![t]({FETCHED})](http://x)",
    "[//]: # (hidden words)",
    "[a\nb]: /x 'hidden words'",
    "> - 1) [a]: <hidden>",
    "[a\\]b]: hidden",
    "a[^1]\n\n[^1]: hidden words",
    "[^2]: hidden words\n    and more",
    "*[HTML]: hidden words",
)
"""Markdown that a viewer fetches, or keeps to itself."""


@pytest.mark.parametrize("text", HIDING)
def test_a_viewer_fetches_nothing_and_shows_every_word(text: str) -> None:
    assert acts(make_inert(text)) == []
    page = ExampleChat(text)
    page.chat.title = text
    page.say(text)
    page.reply(stream([1, 2, 3], [text[at : at + 4].encode() for at in range(0, len(text), 4)])).name = text
    whole = "\n".join(page.lines("md"))
    assert acts(whole) == []
    for viewer in VIEWERS:
        shown = unescape_html(viewer.render(whole))
        assert shown.count("hidden") == whole.count("hidden") == 4 * text.count("hidden")
        assert "<img" not in shown


@pytest.mark.parametrize("text", [*(text for text in HIDING if "\n" not in text), "<img src=x onerror=y>", "a\\ <b>"])
def test_a_table_of_replies_does_nothing_either(text: str) -> None:
    page = "\n".join(example_chats.walks(text, [text, "b"]).lines("md"))
    assert "\n| walk |" in page
    assert acts(page) == []


@pytest.mark.parametrize("entity", ["&#x202e;", "&#8238;", "&rlm;", "&#x3164;", "&ZeroWidthSpace;", "&#X1B;", "&shy;"])
def test_no_entity_steers_or_hides(entity: str) -> None:
    text = f"a{entity}b `{entity}`"
    for made in (make_inert(text), on_a_line(text)):
        assert forbidden(unescape_html(VIEWERS[0].render(made)).encode()) == []
    assert make_inert("a &lt; b &amp;c; &eacute; &nbsp;") == "a &lt; b &amp;c; &eacute; &nbsp;"


PIECES = (
    "`", "``", "```", "~~~", "\n", "\n\n", "<b>", "</script>", "<!--", "<?a", "<https://a`b>", "https://a`", "| ", "|\n|-|-|\n",
    "- ", "1. ", "> ", "    ", "\\", "a", "[a](", "[x]: ", ")", '"', "# ", "===", "![", "[", "]", "]:", "]: /u\n", "(/u)",
    "[^1]", "[^1]: ", "[x]", "*[",
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_no_mix_of_markdown_acts(text: str) -> None:
    assert acts(make_inert(text)) == []
    assert make_inert(make_inert(text)) == make_inert(text)
    title = text.replace("\n", " ")
    assert acts(f"# {on_a_line(title)}") == []


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<b>x</b>\n```\n",
        "1. a\n\n   ~~~~\n   #include <stdio.h>\n   ~~~~\n2. b",
        "Use `Vec<u8>` and ``a ` <b>``, as in\n`List<String>`.",
        "see <https://example.org/?a=1>, where 1 < 2 and a<3",
        "```\n![t](u)\n[a]: u\n```\n",
        "`![t](u)` is an image, a[1:]: is none, and [a](u) is a link!",
        "- [ ] to do\n- [x] done: wow!",
    ],
)
def test_code_and_addresses_stay_as_they_are(text: str) -> None:
    assert make_inert(text) == text


def test_what_is_no_transcript_is_refused_in_words_that_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / f"chat{NAMED}.json"
    path.write_text(json.dumps({"messages": [{"role": NAMED, "content": ALL}]}, ensure_ascii=False), "utf-8")
    with pytest.raises(Exception, match="line 1") as caught:
        list(importing.chats(path))
    assert forbidden(sanitize(str(caught.value)).encode()) == []
