"""Chats as lists of messages: out, in again, and what is refused with its line."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.transcripts import FORMATS, importing, jsonl_lines, messages
from termchat.conversation.transcripts.transcript import Transcript, TranscriptError
from tests.formats import example_chats

SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Write a story"},
    {"role": "assistant", "content": "Once upon a time 🦊\nmet a <bear> and slept"},
    {"role": "user", "content": "and then?"},
    {"role": "assistant", "content": "The end"},
]
NAMES = {"system": "system", "user": "human", "assistant": "gpt"}


def as_sharegpt(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"from": NAMES[each["role"]], "value": each["content"]} for each in said]


def read(path: Path, data: str | bytes, form: str | None = None) -> list[Transcript]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(importing.chats(path, FORMATS[form] if form else None))


def said(transcript: Transcript) -> list[dict[str, str]]:
    return [{"role": each.speaker, "content": each.text} for each in messages.list_messages(transcript.conversation)]


def test_the_messages_of_the_chat_that_is_shown_are_written() -> None:
    assert [json.loads(line) for line in example_chats.whole().lines("openai")] == [{"messages": SAID}]
    assert [json.loads(line) for line in example_chats.whole().lines("sharegpt")] == [
        {"id": example_chats.INFO.id, "conversations": as_sharegpt(SAID)}
    ]


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_what_was_written_comes_back(tmp_path: Path, form: str) -> None:
    page = example_chats.whole()
    path = page.write(tmp_path / "chat.json", form)
    assert importing.recognise_format(path).name == form
    (found,) = importing.chats(path)
    assert said(found) == SAID
    assert (found.conversation.title, found.info.model.path, found.info.id) == ("Write a story", "", "")
    again = list(FORMATS[form].writer(found.conversation, page.info, found.records))
    assert again == page.lines(form)


ONE = {"messages": SAID, "model": "gpt-5"}
OTHER = {"messages": SAID[1:3]}


@pytest.mark.parametrize(
    ("data", "chats"),
    [
        (json.dumps(ONE), [SAID]),
        (json.dumps(ONE, indent=4), [SAID]),
        (json.dumps([ONE, OTHER], indent=1), [SAID, SAID[1:3]]),
        (json.dumps(ONE) + "\n\n" + json.dumps(OTHER) + "\r\n", [SAID, SAID[1:3]]),
        (json.dumps(SAID), [SAID]),
        ("\ufeff" + json.dumps(SAID, ensure_ascii=False), [SAID]),
        (json.dumps([]).replace("[]", "[" + json.dumps({**ONE, "metadata": {"deep": [[[{}]]]}}) + "]"), [SAID]),
    ],
    ids=range(7),
)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_every_way_to_put_chats_into_a_file_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, chats: list[Any], chunk: int
) -> None:
    monkeypatch.setattr(messages, "_CHUNK", max(chunk, 3) if data.startswith("\ufeff") else chunk)
    assert [said(found) for found in read(tmp_path / "a.json", data)] == chats


def test_texts_with_marks_of_json_in_them_come_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_CHUNK", 5)
    text = 'a "quoted\\" {[ \\\\" ]} \n\u2028 \x00 é 🦊'
    (found,) = read(
        tmp_path / "a.json", json.dumps([{"role": "user", "content": text}, {"role": "assistant", "content": text}])
    )
    assert [each.text for each in messages.list_messages(found.conversation)] == [text, text]


def test_parts_of_text_and_other_names_are_understood(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    (found,) = read(
        tmp_path / "a.json",
        json.dumps({"messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": parts}]}),
    )
    assert said(found) == [{"role": "system", "content": "x"}, {"role": "user", "content": "ab"}]
    turns = [{"from": "user", "value": "q"}, {"from": "bing", "value": "one"}, {"from": "gpt", "value": "two"}]
    (found,) = read(tmp_path / "b.json", json.dumps([{"id": "x", "conversations": turns}]))
    assert said(found) == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "one\n\ntwo"}]


@pytest.mark.parametrize(
    "chat",
    [
        {"conversations": as_sharegpt(SAID)},
        {"conversation": as_sharegpt(SAID)},
        {"conversations": SAID},
        {"conversation_id": "1", "model": "x", "conversation": SAID},
        {"system": "Be brief.", "conversations": as_sharegpt(SAID[1:])},
    ],
    ids=range(5),
)
def test_other_collections_have_the_same_under_other_names(tmp_path: Path, chat: dict[str, Any]) -> None:
    """Axolotl, Unsloth and LLaMA-Factory know them. A system message beside the others was left out without a word."""
    found = read(tmp_path / "a.json", json.dumps([chat, chat]), "sharegpt")
    assert [said(each) for each in found] == [SAID, SAID]


def test_nobody_takes_a_reply_from_elsewhere_for_one_of_a_model_here(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a.json", json.dumps(ONE))
    starts = [node.start for node in found.conversation.nodes.values() if node.role == "assistant"]
    assert [(start.model.name, start.model.sha256, start.prompt_ids) for start in starts if start] == [
        ("gpt-5", "", [])
    ] * 2
    assert found.conversation.list_ids() == []
    assert all(node.done for node in found.conversation.nodes.values())


def test_a_message_without_a_reply_says_so(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a.json", json.dumps({"messages": SAID[:2]}))
    assert said(found) == SAID[:2]
    last = found.conversation.nodes[found.conversation.leaf or 0]
    assert last.failed is not None
    assert "no reply" in last.failed.message


@given(st.text(st.sampled_from('ab"\\/u\n\0é🦊\ud83e\udd8a\ud800\udfff'), max_size=12))
def test_half_characters_become_the_sign_for_none_and_whole_ones_stay(text: str) -> None:
    for data in (json.dumps(text), json.dumps(text).upper().replace("\\U", "\\u").replace("\\N", "\\n")):
        wanted = json.loads(data).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        found, count = jsonl_lines.replace_surrogates(data.encode())
        assert json.loads(found) == wanted
        assert count == wanted.count("\ufffd")


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_a_chat_with_half_characters_is_taken_in_and_they_are_counted(tmp_path: Path, form: str) -> None:
    turns = [{"role": "user", "content": "a \ud800 b"}, {"role": "assistant", "content": "\udfff 🦊"}]
    whole = {"openai": {"messages": turns}, "sharegpt": {"conversations": as_sharegpt(turns)}}[form]
    wanted = [{"role": "user", "content": "a \ufffd b"}, {"role": "assistant", "content": "\ufffd 🦊"}]
    loose = json.dumps(turns if form == "openai" else as_sharegpt(turns))
    for data in (json.dumps(whole), loose):
        (found,) = read(tmp_path / "a.json", data)
        assert (said(found), found.halves) == (wanted, 2)


def message(role: str, content: object) -> str:
    return json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": role, "content": content}]})


@pytest.mark.parametrize(
    ("form", "data", "says"),
    [
        ("openai", '{"messages": [\n', "line 2: it is cut off"),
        ("openai", "[\n" + json.dumps(OTHER), "line 2: it is cut off"),
        ("openai", '{"role" 5}\n{"role" 6}', "line 1: JSON is malformed"),
        ("openai", json.dumps(OTHER) + "\n\n7\n", "line 3: not a JSON object"),
        ("openai", "[[]]", "line 1: not a JSON object"),
        ("openai", "{}]", "line 1: it has neither"),
        ("openai", "\0" * 50, "line 1: not a JSON object"),
        ("openai", '[{"role": "tool", "content": "x"}]', "line 1: a message with the unsupported role 'tool'"),
        ("openai", message("user", 5), "line 1: Expected `str | array | null`, got `int`"),
        ("openai", '{"messages": [{"role": "system", "content": "x"}]}', "line 1: a chat has no messages"),
        ("openai", '\n{"messages": []}', "line 2: a chat has no messages"),
        ("openai", '{"messages": ' + "[" * 50 + "]" * 50 + "}", "line 1: it is nested more than 32 levels deep"),
        ("openai", json.dumps({"messages": SAID[1:2] * 10_001}), "line 1: Expected `array` of length <= 10000"),
        ("openai", json.dumps(SAID[1:2] * 10_001), "line 1: there are more than 10,000 messages"),
        ("openai", b'{"messages": [{"role": "user", "content": "\xff"}]}', "line 1: it is not UTF-8"),
        ("openai", "[]", "contains no chat"),
        ("openai", '[{"mapping": {"a": {"message": {"author": {"role": "user"}}}}}]', "line 1: ChatGPT's own export format"),
        ("sharegpt", '{"conversations": [{"from": "human"}]}', "line 1: it has neither `conversations` nor a speaker"),
        ("sharegpt", '{"conversations": [{"from": "tool", "value": ""}]}', "from the unsupported speaker 'tool'"),
        ("md", "# Chat", "md cannot be imported"),
    ],
)  # fmt: skip
def test_what_is_not_taken_in_is_told_with_its_line(tmp_path: Path, form: str, data: str | bytes, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        read(tmp_path / "a.json", data, form)
    assert says in caught.value.message
    assert caught.value.hint


def test_nothing_is_taken_of_a_file_that_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(OTHER) + "\n{\n")
    with pytest.raises(TranscriptError, match="line 3: it is cut off"):
        next(importing.chats(tmp_path / "a.json"))


LATE = {"role": "system", "content": "Be long."}
TOOL = {"role": "tool", "content": "4 degrees"}
CALL = {"role": "assistant", "content": None, "tool_calls": []}


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (TOOL, "a message with the unsupported role 'tool'"),
        (CALL, "a message with the role 'assistant' but without text"),
        (LATE, "a system message is only supported at the start of a chat"),
        (
            {"role": "user", "content": [{"type": "image_url"}]},
            "a message contains a 'image_url' part; only text is supported",
        ),
    ],
)
def test_a_bad_message_is_left_out_and_named(tmp_path: Path, bad: dict[str, Any], problem: str) -> None:
    chat = {"messages": [*SAID[:3], bad, *SAID[3:]]}
    found = read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, (OTHER, chat, OTHER))))
    assert [said(each) for each in found] == [SAID[1:3], SAID, SAID[1:3]]
    assert [each.left_out for each in found] == [(f"line 2 (chat 2, message 4): {problem}",), (), ()]
    (loose,) = read(tmp_path / "a.json", json.dumps(chat["messages"], indent=1))
    assert said(loose) == SAID
    assert [one.partition(" (message 4): ")[2] for one in loose.left_out] == [problem]


def test_a_bad_chat_is_left_out_and_named(tmp_path: Path) -> None:
    bad = ['{"messages": 5}', "{}", '{"messages": []}']
    deep = '{"messages": [{"role": "user", "content": ' + "[" * 20 + "]" * 20 + "}]}"
    found = read(tmp_path / "a.jsonl", "\n".join([json.dumps(OTHER), *bad, deep, json.dumps(ONE)]), "openai")
    assert [said(each) for each in found] == [SAID[1:3], SAID]
    assert [one.partition(": ")[0] for one in found[0].left_out] == [f"line {n} (chat {n})" for n in (2, 3, 4, 5)]
    assert found[1].left_out == ()


def test_of_many_bad_ones_only_some_are_named(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a.jsonl", "\n".join([json.dumps(OTHER)] + ["{}"] * 1000))
    assert len(found.left_out) == messages.MOST_TOLD + 1
    assert found.left_out[-1] == "and 980 more"


THINKING = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "reasoning_content": "Two and two make four.", "content": "4"},
    {"role": "user", "content": "And 3+3?"},
    {"role": "assistant", "content": "6", "reasoning_content": None},
]


@pytest.mark.parametrize("form", ["openai", "sharegpt"])
def test_thoughts_come_in_and_go_out_again(tmp_path: Path, form: str) -> None:
    (found,) = read(tmp_path / "a.json", json.dumps({"messages": THINKING}))
    for _ in range(2):
        told = [*messages.list_messages(found.conversation)]
        assert [(one.text, one.thoughts) for one in told] == [
            ("2+2?", ""), ("4", "Two and two make four."), ("And 3+3?", ""), ("6", ""),
        ]  # fmt: skip
        lines = FORMATS[form].writer(found.conversation, found.info, found.records)
        (found,) = read(tmp_path / "b.json", "\n".join(lines), form)


def test_thoughts_without_an_answer_are_a_reply(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "reasoning_content": "hm"}]
    (found,) = read(tmp_path / "a.json", json.dumps(turns))
    assert [(one.text, one.thoughts) for one in messages.list_messages(found.conversation)] == [("a", ""), ("", "hm")]
    assert found.left_out == ()


def test_what_is_none_of_them_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"roles": {"x": 1}}')
    with pytest.raises(TranscriptError, match=r"a\.json is not in a known transcript format"):
        importing.chats(tmp_path / "a.json")


def without_end(part: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        with path.open("wb") as file:
            file.write(b'{"messages": [{"role": "user", "content": "')
            for _ in range(20):
                file.write(part)
        return path

    return write


@pytest.mark.parametrize("part", [b"x" * (1 << 20), b"\\u0000" * 100_000], ids=["text", "escapes"])
def test_an_object_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(messages, "LONGEST", 1 << 18)
    path = without_end(part)(tmp_path / "a.json")
    tracemalloc.start()
    with pytest.raises(TranscriptError, match="line 1: a chat is larger than 262 kB"):
        list(importing.chats(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 << 20


def test_a_file_of_many_chats_is_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" + ",\n".join([json.dumps(ONE)] * 3000) + "]")
    tracemalloc.start()
    assert sum(1 for _ in importing.chats(path)) == 3000
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20
