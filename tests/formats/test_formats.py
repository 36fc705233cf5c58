"""The table of formats, the lossless one against its schema, the table of tokens, and a chat's way through the store."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import termchat
from termchat.conversation import transcripts
from termchat.conversation.session import ModelRef
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import FORMATS, export, importing
from termchat.conversation.transcripts.html import page_tree
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.escapes import unescape
from termchat.decoding.records import TAIL, ModelIdentity, Record, Token
from termchat.decoding.samplers import KNOBS
from tests.formats import example_chats
from tests.formats.example_chats import ExampleChat
from tests.made_records import stream

SCHEMA = json.loads(
    (Path(termchat.__file__).parent / "conversation/transcripts/transcript.schema.json").read_text("utf-8")
)
EXAMPLES: tuple[Callable[[], ExampleChat], ...] = (
    example_chats.whole, example_chats.conditions, example_chats.hostile, example_chats.walks, example_chats.hostile_walks,
    example_chats.drafted, example_chats.hostile_drafts,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store.open(tmp_path / "store.db")
    yield found
    found.close()


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.md", "md"), ("a.HTML", "html"), ("a.htm", "html"), ("a.b.jsonl", "jsonl"), ("a.openai.json", "openai"),
     ("a.json", "openai"), ("a.sharegpt.json", "sharegpt"), ("a.csv", "csv")],
)  # fmt: skip
def test_the_longest_ending_counts(name: str, form: str) -> None:
    assert transcripts.of_file(Path("x") / name).name == form


def test_an_unknown_name_or_ending_is_told_with_those_that_there_are() -> None:
    with pytest.raises(TranscriptError, match="no known transcript extension") as caught:
        transcripts.of_file(Path("chat.txt"))
    assert ".sharegpt.json or .csv" in caught.value.hint


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_no_format_lets_a_terminal_or_a_line_be_steered(form: str, example: Callable[[], ExampleChat]) -> None:
    page = example()
    kept = "\n\t" if form in ("md", "html") else ""
    for line in page.lines(form):
        assert all(char.isprintable() or char in kept for char in line), line


def test_a_page_marks_what_was_forced_and_does_not_colour_it_improbable() -> None:
    key = "forced, not drawn"
    assert not any(key in line for line in example_chats.whole().lines("html"))
    made = ExampleChat()
    made.say("hi")
    records = stream([1, 2, 3], [b"Sure", b" so"])
    for at, record in enumerate(records):
        if isinstance(record, Token):
            unlikely = msgspec.structs.replace(record, probability=0.0, logprob=-9.0, rank=5000, forced=not record.step)
            records[at] = unlikely
    made.reply(records)
    page = "".join(made.lines("html"))
    assert key in page
    classes = re.findall(r'<span class="t ([^"]*)" data-n="\d">(\w*| so)</span>', page)
    assert [text for _, text in classes] == ["Sure", " so"]
    heats = [{heat[0]: heat[1:] for heat in found.split()} for found, _ in classes]
    assert heats[0] == {"p": "7", "a": "7", "e": heats[1]["e"], "r": "7", "f": ""}
    assert {name: heats[1][name] for name in "par"} == dict.fromkeys("par", "0")


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    page, path = example_chats.whole(), tmp_path / "a.md"
    export.write(path, page.chat, page.info, page.records, replace=False)
    first = path.read_bytes()
    with pytest.raises(TranscriptError, match="exists") as caught:
        export.write(path, page.chat, page.info, page.records, replace=False)
    assert "--force" in caught.value.hint
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("a.md", first)]
    export.write(path, page.chat, page.info, page.records, form=FORMATS["csv"])
    assert path.read_text().startswith("node,step,")


def test_a_transcript_that_nobody_could_take_in_again_is_not_written(tmp_path: Path) -> None:
    """As when another termchat removed the chat for good, and what is known of its tokens with it."""
    page, path = example_chats.whole(), tmp_path / "chat.jsonl"
    with pytest.raises(TranscriptError, match="8 of a reply's 8 token records are missing") as caught:
        export.write(path, page.chat, page.info, lambda _: ())
    assert list(tmp_path.iterdir()) == []
    assert ".md or .openai.json" in caught.value.hint
    for name in ("chat.md", "chat.openai.json"):
        export.write(tmp_path / name, page.chat, page.info, lambda _: ())
        assert "Once upon a" in (tmp_path / name).read_text()


KILLED = """
import os, sys
from pathlib import Path
from termchat.conversation.transcripts import export
from tests.formats import example_chats
page = example_chats.whole()
export.write(Path(sys.argv[1]), page.chat, page.info, lambda number: os.kill(os.getpid(), 9))
"""


def test_a_killed_export_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    page, path = example_chats.whole(), tmp_path / "chat.csv"
    done = subprocess.run([sys.executable, "-c", KILLED, path], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    export.write(path, page.chat, page.info, page.records)
    assert path.read_text().splitlines() == page.lines("csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_of_two_exports_to_one_name_at_once_one_is_there_whole(tmp_path: Path) -> None:
    page, path = example_chats.whole(), tmp_path / "chat.jsonl"

    def overtaken(number: int) -> list[Record]:
        export.write(path, page.chat, page.info, page.records)
        return page.records(number)

    export.write(path, page.chat, page.info, overtaken)
    assert path.read_text().splitlines() == page.lines("jsonl")
    assert [found.name for found in tmp_path.iterdir()] == ["chat.jsonl"]


def test_a_name_may_be_as_long_as_a_file_system_takes(tmp_path: Path) -> None:
    page = example_chats.whole()
    for name in ("x" * 252 + ".md", "漢" * 84 + ".md"):
        export.write(tmp_path / name, page.chat, page.info, page.records)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_file_is_left_alone() -> None:
    with pytest.raises(TranscriptError, match="not a regular file"):
        export.write(
            Path("/dev/null"), example_chats.whole().chat, example_chats.INFO, lambda _: [], form=FORMATS["md"]
        )
    assert Path("/dev/null").is_char_device()


# --- JSON Lines ------------------------------------------------------------------------------------------------------


def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_every_line_is_as_the_schema_says(example: Callable[[], ExampleChat]) -> None:
    check = validator()
    lines = [json.loads(line) for line in example().lines("jsonl")]
    assert [list(check.iter_errors(line)) for line in lines] == [[]] * len(lines)


def test_the_schema_knows_every_kind_of_line_and_no_more() -> None:
    seen = {json.loads(line)["record"] for example in EXAMPLES for line in example().lines("jsonl")}
    assert seen == {each["$ref"].rsplit("/", 1)[1] for each in SCHEMA["oneOf"]}


@pytest.mark.parametrize("changes", [{"entropy": "high"}, {"more": 1}, {"id": None}, {"candidates": [{"id": 1}]}])
def test_the_schema_refuses_what_is_none(changes: dict[str, Any]) -> None:
    token = next(
        found for line in example_chats.whole().lines("jsonl") if (found := json.loads(line))["record"] == "token"
    )
    assert validator().is_valid(token)
    assert not validator().is_valid(token | changes)
    assert not validator().is_valid({name: value for name, value in token.items() if name != "step"})
    assert validator().is_valid(
        {name: value for name, value in token.items() if name != "rank"}
    )  # an engine may not tell


def test_a_name_without_end_is_cut_so_that_the_chat_can_be_taken_in_again(tmp_path: Path) -> None:
    page = example_chats.whole()
    page.chat.title = page.chat.nodes[4].name = "y" * 30_000
    (found,) = importing.chats(page.write(tmp_path / "a.jsonl", "jsonl"))
    assert {found.conversation.title, found.conversation.nodes[4].name} == {"y" * 10_000}


def test_no_folder_of_this_machine_is_told() -> None:
    page = example_chats.whole()
    known = ModelIdentity("smollm2", "/home/me/models/a.gguf", "ab" * 32, "llama", "Q4_1")
    page.info = example_chats.INFO.__class__(
        example_chats.INFO.id, 1.7e9, 1.7e9, ModelRef("smollm2", "/home/me/models/a.gguf", known)
    )
    for form in FORMATS:
        assert "/home/me" not in "\n".join(page.lines(form))


# --- through the store -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "example",
    [
        example_chats.whole,
        example_chats.conditions,
        example_chats.drafted,
        partial(example_chats.hostile, well_formed=True),
    ],
    ids=range(4),
)
def test_a_chat_goes_through_the_store_and_comes_out_byte_by_byte(
    store: Store, tmp_path: Path, example: Callable[[], ExampleChat]
) -> None:
    first = example().write(tmp_path / "a.jsonl", "jsonl").read_text().splitlines()
    (transcript,) = importing.chats(tmp_path / "a.jsonl")
    session = importing.keep_transcript(store, transcript)
    stored = store.load(session)
    again = list(FORMATS["jsonl"].writer(stored.conversation, stored, lambda number: store.records(session, number)))
    assert again[1:] == first[1:]
    one, other = json.loads(first[0]), json.loads(again[0])
    assert {name for name in one if one[name] != other[name]} == {"id"}
    assert one["id"] != other["id"] == session


def test_a_chat_from_the_future_is_of_today(store: Store, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in example_chats.whole().lines("jsonl")]
    lines[0] |= {"created": "9000-01-01T00:00:00+00:00", "updated": "2020-01-01T00:00:00+00:00"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (transcript,) = importing.chats(tmp_path / "a.jsonl")
    info = store.load(importing.keep_transcript(store, transcript))
    assert info.created < info.updated <= time.time()


def test_no_path_of_a_transcript_is_kept(store: Store, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in example_chats.whole().lines("jsonl")]
    lines[0]["model"] |= {"path": "/etc/passwd", "identity": lines[0]["model"]["identity"] | {"path": "/etc/shadow"}}
    lines[0]["id"] = "../../somewhere"
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (transcript,) = importing.chats(tmp_path / "a.jsonl")
    session = importing.keep_transcript(store, transcript)
    model = store.load(session).model
    assert (model.path, model.identity and model.identity.path) == ("", "shadow")
    assert "somewhere" not in session


def test_messages_are_kept_with_their_words(store: Store, tmp_path: Path) -> None:
    example_chats.whole().write(tmp_path / "a.json", "openai")
    (transcript,) = importing.chats(tmp_path / "a.json")
    stored = store.load(importing.keep_transcript(store, transcript))
    assert list(stored.conversation.list_turns()) == list(example_chats.whole().chat.list_turns())
    assert stored.unfinished == ()


# --- the table of tokens ---------------------------------------------------------------------------------------------


def test_a_row_a_token_with_the_records_own_names() -> None:
    page = example_chats.conditions()
    rows = list(csv.DictReader(io.StringIO("\n".join(page.lines("csv")))))
    tokens = [record for record in page.records(2) if isinstance(record, Token)]
    assert list(rows[0])[:6] == ["node", "step", "position", "id", "bytes", "text"]
    assert [int(row["id"]) for row in rows] == [token.id for token in tokens]
    assert [base64.b64decode(row["bytes"]) for row in rows] == [token.bytes for token in tokens]
    assert [float(row["logprob"]) for row in rows] == [token.logprob for token in tokens]
    assert (rows[0]["entropy"], rows[1]["entropy"]) == ("", "3.9")
    assert {row["node"] for row in rows} == {"2"}


def test_margins_are_told_where_they_are_known() -> None:
    page = example_chats.whole()
    rows = [row for row in csv.DictReader(page.lines("csv")) if row["node"] == "2"]
    assert [(row["margin"], row["near_tie"]) for row in rows[:4]] == [
        ("0.0", "True"), ("0.25", "False"), ("", ""), ("0.75", "False"),
    ]  # fmt: skip
    lines = [json.loads(line) for line in page.lines("jsonl")]
    tokens = [line for line in lines if line["record"] == "token"]
    assert [(line.get("margin"), line.get("near_tie")) for line in tokens[:3]] == [
        (0.0, True),
        (0.25, False),
        (None, None),
    ]
    assert "margin" not in tokens[2]
    starts = [line for line in lines if line["record"] == "start"]
    assert [line.get("largest_change") for line in starts] == [0.5] + [None] * (len(starts) - 1)


def test_the_table_has_the_knobs_that_each_token_was_drawn_with() -> None:
    page = example_chats.whole()
    rows = list(csv.DictReader(io.StringIO("\n".join(page.lines("csv")))))
    assert list(rows[0])[-len(KNOBS) :] == list(KNOBS)
    first = [row for row in rows if row["node"] == "2"]
    assert [float(row["temperature"]) for row in first] == [0.8] * 3 + [1.2] * 5  # turned before the fourth
    assert [json.loads(row["stop"]) for row in first] == [[]] * 3 + [["END"]] * 5
    assert [int(row["max_tokens"]) for row in first] == [0] * 3 + [64] * 5
    assert {(row["node"], row["seed"]) for row in rows} >= {("2", "42"), ("8", "7")}
    lost = [record for record in page.records(2) if isinstance(record, Token)]
    page.known[2] = lost  # as after damage: nobody knows the knobs any more
    rows = [row for row in csv.DictReader(page.lines("csv")) if row["node"] == "2"]
    assert {row[name] for row in rows for name in KNOBS} == {""}


def test_a_bound_is_marked_as_one_in_the_table_and_on_the_page() -> None:
    page = ExampleChat()
    page.say("hi")
    records = example_chats.stream([1, 2, 3], [b"a", b"b", b"c"])
    at = next(index for index, record in enumerate(records) if isinstance(record, Token))
    records[at] = msgspec.structs.replace(records[at], state={TAIL: 0.125})
    page.reply(records)
    rows = list(csv.DictReader(page.lines("csv")))
    assert [row["tail"] for row in rows] == ["0.125", "", ""]
    whole = "\n".join(page.lines("html"))
    assert "<figcaption>entropy, up to ≤3.9 bit, with up to 12.5% not listed</figcaption>" in whole
    data = whole.partition('<script type="application/json" id="data-2">')[2].partition("</script>")[0]
    assert [token[-1] for token in json.loads(data)] == [0.125, 0, 0]


def test_texts_of_the_table_can_be_had_back_and_are_no_formulas() -> None:
    page = ExampleChat()
    page.say("hi")
    texts = ["=HYPERLINK(1)", "-", "+1", "a,b\"c'", "\n", "\x1b[0m", "\u202e", "=", "@x", "\\x3d"]
    page.reply(example_chats.stream([1, 2, 3], [text.encode() for text in texts]))
    rows = list(csv.DictReader(page.lines("csv")))
    assert [unescape(row["text"]) for row in rows] == texts
    assert [row["text"] for row in rows if len(row["text"]) > 1 and row["text"][0] in "=+-@"] == []


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_page_has_room_for_the_branch_that_is_shown_and_some_others(monkeypatch: pytest.MonkeyPatch) -> None:
    page = example_chats.long(300)
    for _ in range(4):
        page.reply(example_chats.stream([1, 2, 3], [b" x"] * 10), parent=1)
    page.chat.leaf = 2
    whole = "\n".join(page.lines("html"))
    assert "branches: 5</li>" in whole
    assert whole.count('<span class="piece"') == 6
    monkeypatch.setattr(page_tree, "MOST_TOKENS", 25)
    less = "\n".join(page.lines("html"))
    assert "branches: 5; this page has room for 3, a .jsonl transcript holds all</li>" in less
    assert [f'data-node="{number}"' in less for number in range(1, 7)] == [True] * 4 + [False] * 2
    assert "<span>1/3</span>" in less
    assert less.count(' data-n="') == 300 + 2 * 10


# --- Markdown --------------------------------------------------------------------------------------------------------


def test_the_facts_of_a_reply_say_what_drafts_did() -> None:
    page = example_chats.drafted()
    told = "8 tokens · drafted 5 tokens, 80 % accepted, 2.0 tokens a pass*"
    (line,) = [line for line in page.lines("md") if "drafted" in line]
    assert line.startswith("*seed 42 · ")
    assert line.endswith(told)
    assert any("drafted 5 tokens, 80 % accepted, 2.0 tokens a pass</p>" in line for line in page.lines("html"))
    page.chat.leaf = 3
    assert not any("accepted" in line for line in page.lines("md"))


def test_where_the_chat_could_have_gone_on_in_another_way_is_noted() -> None:
    text = "\n".join(example_chats.whole().lines("md"))
    assert "⟦1 other branch⟧Once upon a⟦temperature 0.8 → 1.2" in text
    assert ' time⟦1 other branch: "wild" at token 4⟧ 🦊' in text
    assert "gone" not in text
