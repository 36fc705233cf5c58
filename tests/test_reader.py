"""Transcripts that are read back: nothing is lost, and what is wrong with a file is told with its line."""

from __future__ import annotations

import json
import math
import tracemalloc
from array import array
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from termchat.conversation.session import Breakpoint, ModelRef, Session, View
from termchat.conversation.transcripts import jsonl, jsonl_reader, md
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.conversation.tree import Conversation, Place
from termchat.decoding.conditions import Stop, Threshold
from termchat.decoding.records import Failed, Finished, Prefill, Record, to_json
from termchat.decoding.samplers import Tuning
from tests.made_records import MODEL, add_all, finished, reply, settings, start, stream, token, user

INFO = Session(
    "20261103-154210-ab12cd34", 1.7e9, 1.7e9 + 60.25, ModelRef("smollm2", "a.gguf", MODEL), Tuning(stop=("\n6.",), seed=7),
    (Breakpoint(Threshold("p_end", ">", 0.5), False), Breakpoint(Stop("x"))), View(Place(2, 1), "entropy"),
)  # fmt: skip


def made() -> tuple[Conversation, dict[int, list[Record]]]:
    """A chat with a fork, a deleted branch, a reply that failed and one whose end is not there."""
    chat = Conversation("Be Ä\x1b.")
    chat.title = "fox and bear"
    records: dict[int, list[Record]] = {}

    def say(parent: int, at: int, made: list[Record]) -> None:
        node = chat.grow_node("assistant", parent=parent, at=at)
        records[node.number] = made
        add_all(node, made)

    user(chat, "hi\u202e\n", [1, 2, 3])
    say(1, 3, stream([1, 2, 3], ["é".encode(), b"\xff", b"c"], turned={1: settings(1, top_k=1, stops=("a", "b"))}))
    say(2, 1, [*stream([1, 2, 3, 1000], [b"x"], reason=None), Failed("engine", "it died \x1b", "restart")])
    user(chat, "more", [5]).whole = True
    say(4, 1, stream([5], [b"y"], reason=None))
    say(4, 1, [Failed("context", "too long")])
    chat.nodes[3].name = "the other"
    chat.delete_node(6)
    chat.leaf = 3
    return chat, records


def export(chat: Conversation, info: Session, records: dict[int, list[Record]]) -> list[str]:
    return list(jsonl.lines(chat, info, records.__getitem__))


def written(path: Path, lines: list[str] | list[dict[str, Any]]) -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(line + "\n" for line in text))
    return path


def facts_of(session: Session) -> tuple[object, ...]:
    return (
        session.id,
        session.created,
        session.updated,
        session.model,
        session.tuning,
        session.breakpoints,
        session.view,
    )


def again(found: jsonl_reader.Transcript) -> list[str]:
    return list(jsonl.lines(found.conversation, found.info, found.records))


def test_a_transcript_read_and_written_is_the_same(tmp_path: Path) -> None:
    chat, records = made()
    lines = export(chat, INFO, records)
    found = jsonl_reader.read(written(tmp_path / "chat.jsonl", lines))
    assert again(found) == lines
    assert facts_of(found.info) == facts_of(INFO)
    assert {number: list(found.records(number)) for number in records} == records
    assert list(found.records(1)) == []
    read = found.conversation
    assert (read.system, read.title, read.leaf, read.raw) == (chat.system, chat.title, 3, False)
    assert list(read.list_turns()) == list(chat.list_turns())
    assert [list(read.list_ids(node.number)) for node in read.list_leaves()] == [
        list(chat.list_ids(node.number)) for node in chat.list_leaves()
    ]
    assert list(md.lines(read, found.info, found.records)) == list(md.lines(chat, INFO, records.__getitem__))


texts = st.text(max_size=8)
numbers = st.floats(width=32)  # as wide as the logits of a model
steps = st.lists(st.tuples(st.binary(max_size=6), texts, numbers, st.integers(-(2**31), 2**31 - 1)), max_size=4)


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_chat_comes_back_as_it_was(tmp_path: Path, data: st.DataObject) -> None:
    chat = Conversation(data.draw(texts), raw=data.draw(st.booleans()))
    chat.title = data.draw(texts)
    records: dict[int, list[Record]] = {}
    for _ in range(data.draw(st.integers(0, 5))):
        parent = data.draw(st.sampled_from([None, *chat.nodes.values()]))
        at = data.draw(st.integers(0, len(parent.ids))) if parent is not None else 0
        role = data.draw(st.sampled_from(("user", "assistant")))
        node = chat.grow_node(role, parent=parent.number if parent else None, at=at)
        node.name = data.draw(texts)
        if data.draw(st.integers(0, 3)) == 0:
            chat.delete_node(node.number)
        if role == "user":
            node.written = data.draw(texts)
            node.prompt_ids = array("i", data.draw(st.lists(st.integers(0, 50_000), max_size=4)))
            continue
        first = data.draw(st.integers(0, 100))
        records[node.number] = [start([1, 2]), settings(), Prefill(2, 0, [1, 1], data.draw(numbers))]
        for i, (piece, text, number, token_id) in enumerate(data.draw(steps)):
            drawn = token(first + i, piece, text, token_id=token_id)
            candidates = [msgspec.structs.replace(c, text=text, logit=number) for c in drawn.candidates[:2]]
            records[node.number].append(msgspec.structs.replace(drawn, logit=number, candidates=candidates))
        if data.draw(st.booleans()):
            records[node.number].append(finished("stop", data.draw(texts), data.draw(texts)))
        add_all(node, records[node.number])
    lines = export(chat, INFO, records)
    assert again(jsonl_reader.read(written(tmp_path / "chat.jsonl", lines))) == lines


def test_the_output_of_a_run_is_a_chat_of_one_reply(tmp_path: Path) -> None:
    records = stream([1, 2, 3], [b"a", b"b"], turned={1: settings(1, top_k=1)})
    found = jsonl_reader.read(written(tmp_path / "run.jsonl", [to_json(record) for record in records]))
    chat = found.conversation
    assert list(found.records(2)) == records
    assert (chat.list_ids(), list(chat.nodes[2].ids), chat.leaf) == ([1, 2, 3, 1000, 1001], [1000, 1001], 2)
    assert list(chat.list_turns()) == [("user", ""), ("assistant", "ab")]
    assert found.info.model == ModelRef(MODEL.name, MODEL.path, MODEL)


def test_the_outputs_of_several_runs_are_replies_beside_each_other(tmp_path: Path) -> None:
    one, other = stream([1, 2], [b"a"], reason=None), stream([9], [b"b", b"c"])
    found = jsonl_reader.read(written(tmp_path / "run.jsonl", [to_json(record) for record in (*one, *other)]))
    assert [list(found.records(number)) for number in (2, 4)] == [one, other]
    assert [found.conversation.list_ids(node.number) for node in found.conversation.list_leaves()] == [
        [1, 2, 1000],
        [9, 1000, 1001],
    ]


def test_a_number_that_was_none_comes_back_as_none(tmp_path: Path) -> None:
    records = stream([1], [b"a"])
    masked = records[3]
    candidates = [msgspec.structs.replace(masked.candidates[0], logit=-math.inf), *masked.candidates[1:]]
    records[3] = msgspec.structs.replace(masked, candidates=candidates, state={"mu": math.nan})
    lines = [to_json(record) for record in records]
    found = list(jsonl_reader.read(written(tmp_path / "a.jsonl", lines)).records(2))
    assert found[3].candidates[0].logit == -math.inf
    assert math.isnan(found[3].state["mu"])
    assert [to_json(record) for record in found] == lines


def test_a_last_line_break_and_empty_lines_do_not_matter(tmp_path: Path) -> None:
    chat, records = made()
    lines = export(chat, INFO, records)
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert again(jsonl_reader.read(tmp_path / "a.jsonl")) == lines
    (tmp_path / "a.jsonl").write_text("\r\n\r\n".join(lines) + "\r\n\n")
    assert again(jsonl_reader.read(tmp_path / "a.jsonl")) == lines


CERTAIN = {"id": 1, "text": "", "logit": 1.0, "logprob": 710.0, "probability": 1.0, "noise": 0.0, "removed_by": None}


def changed(index: int, **fields: Any) -> list[dict[str, Any]]:
    chat, records = made()
    lines = [json.loads(line) for line in export(chat, INFO, records)]
    lines[index] = {name: value for name, value in (lines[index] | fields).items() if value != "gone"}
    return lines


def without(*indexes: int) -> list[dict[str, Any]]:
    return [line for index, line in enumerate(changed(0)) if index not in indexes]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (changed(0, version=2), "line 1: its version is 2; this termchat reads 1"),
        (changed(0, format=9, tuning="new"), "line 1: its format is 9; this termchat reads 1"),
        (changed(0, leaf=17), "line 25: the chat should end in node 17, which is missing"),
        (changed(0, created="noon"), "line 1: its time is invalid: "),
        (changed(0, updated="9999-12-31T23:59:59-12:00"), "line 1: its time is invalid: 9999-12-31T23:59:59-12:00 is before"),
        (changed(3, seed=-1), "line 4: seed"),
        (changed(6, logprob=800.0), "line 7: it contains a log-probability above 0"),
        (changed(6, candidates=[CERTAIN]), "line 7: it contains a log-probability above 0"),
        (changed(1, omitted={"turns": -1, "summary": None}), "line 2: Expected `int` >= 0 - at `$.omitted.turns`"),
        (changed(1, omitted={"turns": 1, "summary": 1}), "line 25: node 1 is summarised by node 1, which is not a reply"),
        (changed(0, created="0001-01-01T00:00:00"), "line 1: its time is invalid: "),
        (changed(0, title="x" * 10_001), "line 1: Expected `str` of length <= 10000 - at `$.title`"),
        (
            changed(0, breakpoints=[{"condition": {"condition": "text", "pattern": "(", "regex": True}}]),
            "line 1: a condition is invalid: /(/ is not a valid regular expression",
        ),
        (changed(4, conditions=[{"condition": "every", "tokens": 0}]), "every needs a whole number of tokens"),
        (changed(1, ids=[1, "2", 3]), "line 2: Expected `int`, got `str` - at `$.ids[1]`"),
        (changed(1, ids=[2**31]), "line 2: Expected `int` <= 2147483647 - at `$.ids[0]`"),
        (changed(1, role="system"), "line 2: Invalid enum value 'system' - at `$.role`"),
        (changed(2, parent=5), "line 3: node 2 has the parent 5, which is missing"),
        (changed(2, at=4), "line 3: node 2 starts at token 4 of node 1, which has fewer tokens"),
        (changed(2, number=1), "line 3: node 1 appears twice"),
        (changed(3, version=3), "line 4: its version is 3; this termchat reads 1"),
        (changed(3, seed=2**70), "line 4: Expected `int` <= 9223372036854775807 - at `$.seed`"),
        (changed(4, samplers={"temperature": 99.0}), "line 5: temperature must be a number from 0 to 5, not 99.0"),
        (changed(4, samplers={"min_p": None}), "line 5: min_p must be a number from 0 to 1, not nan"),
        (changed(0, tuning={"max_tokens": -1}), "line 1: max_tokens must be a whole number from 0"),
        (changed(4, conditions=[{"condition": "mood"}]), "line 5: Invalid value 'mood' - at `$.conditions[0].condition`"),
        (changed(6, bytes="?"), "line 7: Invalid base64 encoded string - at `$.bytes`"),
        (changed(6, bytes="gone"), "line 7: Object missing required field `bytes`"),
        (changed(6, id=2**40), "line 7: Expected `int` <= 2147483647 - at `$.id`"),
        (changed(6, candidates=[{"id": 1}]), "missing required field `text` - at `$.candidates[0]`"),
        (changed(6, record="thought"), "line 7: not a line of a transcript"),
        (changed(8, step=4), "line 9: step 4 of node 2, where step 1 should be"),
        (without(8), "line 9: step 2 of node 2, where step 1 should be"),
        (without(9), "line 11: node 2 ended with 2 of its 3 tokens"),
        (without(2), "line 3: a reply's record appears before its reply starts"),
        (changed(0)[6:], "line 1: a token appears before its reply starts"),
        ([*changed(0), *changed(0)], "line 26: a second chat starts here; a file holds only one"),
        (changed(0)[1:], "line 1: a node appears before the chat's first line"),
        ([json.loads(to_json(Failed("model", "no \x1b model")))], "line 1: the reply failed: no \x1b model"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, lines: list[Any], said: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        jsonl_reader.read(written(tmp_path / "chat.jsonl", lines))
    assert caught.value.message.startswith("chat.jsonl, line ")
    assert said in caught.value.message
    assert "run --json" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"record":"session"}{"record":"node"}\n', "line 1: not a JSON object"),
        (b"\0" * 100 + b"\n", "line 1: not a JSON object"),
        (b"# Chat\n\n- model: smollm2\n", "line 1: not a JSON object"),
        (b'\xff\xfe{"record"', "line 1: it is cut off: the end is missing"),
        (b"[" * 100_000 + b"\n", "line 1: not a JSON object"),
        (b'{"record":"session","id":"\xff"}\n', "line 1: it is not UTF-8"),
        (b"7\n", "line 1: not a line of a transcript"),
        (b'{"record":["start"]}\n', "line 1: not a line of a transcript"),
        (b"", "chat.jsonl: the file is empty"),
    ],
    ids=range(9),
)
def test_what_is_no_transcript_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "chat.jsonl").write_bytes(data)
    with pytest.raises(TranscriptError) as caught:
        jsonl_reader.read(tmp_path / "chat.jsonl")
    assert said in caught.value.message


def test_wherever_a_line_is_cut_it_is_named(tmp_path: Path) -> None:
    chat, records = made()
    whole = "".join(line + "\n" for line in export(chat, INFO, records)).encode()
    path = tmp_path / "chat.jsonl"
    for size in range(1, len(whole) - 1, 131):
        if b"\n" in whole[size - 1 : size + 1]:
            continue  # what is whole up to here may be a chat
        path.write_bytes(whole[:size])
        with pytest.raises(TranscriptError) as caught:
            jsonl_reader.read(path)
        number = whole[:size].count(b"\n") + 1
        assert caught.value.message.startswith(f"chat.jsonl, line {number}: ")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_reader, "LONGEST_LINE", 1 << 16)
    with (tmp_path / "chat.jsonl").open("wb") as file:
        file.truncate(1 << 28)  # a quarter of a gigabyte of NULs, that take no room on the disk
    tracemalloc.start()
    with pytest.raises(TranscriptError, match="line 1: it is longer than any line"):
        jsonl_reader.read(tmp_path / "chat.jsonl")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize(
    ("name", "said"), [("", "it is a folder, not a regular file"), ("nothing.jsonl", "No such file")]
)
def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(TranscriptError, match=said):
        jsonl_reader.read(tmp_path / name)


def test_a_long_reply_is_read_at_a_good_pace(tmp_path: Path) -> None:
    chat = Conversation()
    user(chat, "hi", [1])
    records = {2: stream([1], [b"a"] * 2000)}
    add_all(reply(chat), records[2])
    path = written(tmp_path / "chat.jsonl", export(chat, INFO, records))
    tracemalloc.start()
    found = jsonl_reader.read(path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.conversation.nodes[2].ids) == 2000
    assert isinstance(list(found.records(2))[-1], Finished)
    assert kept < 2000 * 2000  # bytes a token, candidates and all


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("MOST_BYTES", "line 1: the file is larger than 1 kB"),
        ("MOST_NODES", "line 19: there are more than 4 nodes"),
        ("MOST_RECORDS", "line 8: there are more than 4 records"),
        ("MOST_LINES", "line 5: there are more than 4 lines"),
        ("MOST_KEPT", "line 4: its records are larger than 4 B"),
    ],
)
def test_a_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, said: str) -> None:
    monkeypatch.setattr(jsonl_reader, limit, 1000 if limit == "MOST_BYTES" else 4)
    with pytest.raises(TranscriptError) as caught:
        jsonl_reader.read(written(tmp_path / "a.jsonl", changed(0)))
    assert said in caught.value.message
