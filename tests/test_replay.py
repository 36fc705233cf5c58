"""`termchat replay`: what was said is said again, bit for bit, and where not, it says where and why."""

from __future__ import annotations

import json
import math
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from termchat.chat.opening import load_latest, make_saver
from termchat.chat.service import Chat
from termchat.commands import replay as replaying
from termchat.commands.replay import replay
from termchat.config.settings import load
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.conditions import Length, Stop, parse
from termchat.decoding.records import RECORD_NAMES, Finished, Record, Start, Token, to_json
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.llama.cache import SPLIT
from termchat.engine.llama.thread_tuner import all_threads
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Command,
    Generate,
    Load,
    ModelSpec,
    ReplyRequest,
    Scripted,
)
from tests.asked_engine import answers
from tests.chat.driven_chat import Driven
from tests.chats import chat_on
from tests.made_records import finished, token
from tests.made_records import stream as made_stream
from tests.played_engine import PlayedEngine
from tests.scripts import altered, said, termchat, use_model


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, small_model_path: Path) -> Path:
    return use_model(tmp_path_factory.mktemp("home"), small_model_path)


RUN = ("--seed", "11", "--temperature", "1.1", "--repeat-penalty", "1.1", "--context", "2048", "--threads", "1")


@pytest.fixture(scope="module")
def stream(home: Path) -> Path:
    """What `run --json` says about a reply of 210 tokens: another processor draws others, and may end one sooner."""
    path = home / "run.jsonl"
    for animal in ("bear", "crow", "wolf", "hare"):
        args = (f"Tell me a long story about a fox and a {animal}.", *RUN, "--max-tokens", "210", "--json")
        path.write_text(said(termchat(home, "run", *args), 0))
        if tokens_in(path) == 210:
            break
    return path


def tokens_in(path: Path) -> int:
    return path.read_text().count('"record":"token"')


@pytest.fixture(scope="module")
def short(stream: Path) -> Path:
    """Its first 50 tokens, as if the run had been killed there."""
    path = stream.with_name("short.jsonl")
    path.write_text("".join(stream.read_text().splitlines(keepends=True)[:53]))
    return path


# --- the same --------------------------------------------------------------------------------------------------------


def test_the_output_of_a_run_is_made_again_by_another_process(home: Path, stream: Path) -> None:
    assert tokens_in(stream) == 210
    assert said(termchat(home, "replay", stream), 0) == "identical, 210 tokens\n"


def test_a_fast_prefill_is_made_again_as_it_was(home: Path, tmp_path: Path) -> None:
    args = ("word and other words " * 20, *RUN, "--max-tokens", "8", "--json", "--fast-prefill")
    fast = tmp_path / "fast.jsonl"
    fast.write_text(said(termchat(home, "run", *args), 0))
    assert max(json.loads(fast.read_text().splitlines()[2])["shapes"]) > 63
    assert said(termchat(home, "replay", fast), 0).startswith(f"identical, {tokens_in(fast)} token")
    report = said(termchat(home, "replay", fast, "--prefill-batch", "32"), 1)
    assert "cause: micro-batch: recorded 512, now 32" in report


def test_a_run_without_candidates_records_the_drawn_tokens_and_is_made_again(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "drawn.jsonl"
    path.write_text(said(termchat(home, "run", "Hi", *RUN, "--max-tokens", "12", "--json", "--candidates", "0"), 0))
    tokens = [line for line in map(json.loads, path.read_text().splitlines()) if line["record"] == "token"]
    assert [[one["id"] for one in token["candidates"]] for token in tokens] == [[token["id"]] for token in tokens]
    assert any(token["rank"] for token in tokens)
    assert said(termchat(home, "replay", path), 0).startswith("identical, ")


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[LocalEngine]:
    """The model on one thread, to make replies with."""
    made = LocalEngine()
    spec = ModelSpec(str(model_path), "smollm2", context=2048, threads=1, sha256=_sha256(model_path))
    answers(made, Load(spec))
    yield made
    made.close()


samplers = st.builds(
    SamplerSettings,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.8]) | st.floats(0.1, 3.0),
    top_k=st.integers(0, 100),
    top_p=st.floats(0.3, 1.0),
    min_p=st.floats(0.0, 0.3),
    repeat_penalty=st.floats(1.0, 1.6),
    frequency_penalty=st.floats(0.0, 0.5),
    repeat_last_n=st.integers(0, 300),
)


@hypothesis_settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_settings_turned_at_any_steps_of_a_long_reply(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    steps = sorted(data.draw(st.lists(st.integers(0, 199), max_size=4)))
    one_change = st.builds(Scripted, samplers=samplers) | st.builds(Scripted, id=st.integers(300, 40_000))
    script = [msgspec.structs.replace(data.draw(one_change | st.just(Scripted(0))), step=step) for step in steps]
    request = ReplyRequest(
        ids=data.draw(st.lists(st.integers(300, 40_000), min_size=1, max_size=150)),
        samplers=data.draw(samplers),
        conditions=(
            *map(Stop, data.draw(st.lists(st.sampled_from(["e e", "th", "\n\n\n", "0"]), max_size=2))),
            Length(210),
        ),
        seed=data.draw(st.integers(0, 2**53 - 1)),
        script=tuple(script),
    )
    records = [event for event in answers(engine, Generate([request])) if type(event) in RECORD_NAMES]
    tokens = sum(isinstance(record, Token) for record in records)
    path = tmp_path / "any.jsonl"
    path.write_text("".join(to_json(record) + "\n" for record in records))  # type: ignore[arg-type]
    told: list[str] = []
    assert replay(load({}, {}, tmp_path / "no.toml"), path, told.append, told.append) == 0, told
    assert told == [f"identical, {tokens} token{'s' if tokens > 1 else ''}"]


@pytest.fixture
def chat(tmp_path: Path, small_model_path: Path) -> Iterator[Callable[[], Driven]]:
    """Opens the chat of a store, the one that is there or a new one, each time on a new engine."""
    store = Store.open(tmp_path / "chats.db")
    opened: list[Chat] = []

    def again() -> Driven:
        for old in opened:
            old.close()
        tuning = Tuning(max_tokens=50, seed=3, temperature=1.0)
        found = load_latest(store, load({}, {}, tmp_path / "no.toml"))
        session = found or Session(conversation=Conversation("You tell stories."), store=store)
        session.tuning = tuning
        made = chat_on(LocalEngine(), session=session)
        made.loading.load(
            ModelSpec(str(small_model_path), "small", context=2048, threads=1, sha256=_sha256(small_model_path))
        )
        opened.append(made)
        return Driven(made)

    yield again
    for made in opened:
        made.close()
    store.close()


def _sha256(path: Path) -> str:
    from termchat.models.gguf.header import read_header

    return read_header(path).identity()


def test_a_chat_with_turned_knobs_forced_tokens_and_forks_is_made_again(
    home: Path, tmp_path: Path, chat: Callable[[], Driven]
) -> None:
    driven = chat()
    service = driven.chat
    first = driven.stepped("A story about a fox, please.", 20)
    service.replies.resume()
    service.adjust_setting("temperature", 0.4)
    service.adjust_setting("top_k", 12)
    service.replies.pause()
    driven.until(lambda: service.phase == "paused")
    driven.step(max(40 - len(first.tokens), 0))
    service.adjust_setting("temperature", 1.3)
    service.replies.force_text(" Suddenly")
    service.replies.step("token")
    driven.until(lambda: service.phase == "paused" and 1 in first.tokens.forced)
    service.replies.resume()
    driven.idle()
    driven.say("And the bear?")
    service.forks.fork_reply(first, 30, ids=[first.ids[31]])
    driven.idle()
    service.forks.regenerate()
    service.replies.pause()
    driven.until(lambda: service.phase == "paused")
    driven.step(20)
    service.stop()
    driven.idle()
    driven = chat()  # another process: all cells are made anew
    driven.idle()
    assert driven.reply.finished is not None
    assert driven.reply.finished.reason == "user"
    driven.chat.forks.continue_reply()
    driven.idle()
    driven.chat.forks.fork_reply(driven.chat.conversation.nodes[first.number], 45)
    driven.idle()
    driven.say("Thank you.")
    saved = make_saver(driven.chat.session, tmp_path / "chat.jsonl")()

    nodes = [node for node in driven.chat.conversation.nodes.values() if node.role == "assistant"]
    assert len(nodes) == 7
    assert len(first.settings) >= 4
    assert len(set(first.tokens.settings)) >= 3
    tokens = sum(len(node.tokens) for node in nodes)
    assert tokens > 150
    *each, last = said(termchat(home, "replay", saved), 0).splitlines()
    assert each == [
        f"node {node.number}: identical, {len(node.tokens)} token{'s' * (len(node.tokens) > 1)}" for node in nodes
    ]
    assert last == f"identical, {tokens} tokens"


class Busy(LocalEngine):
    """The first reply's threads change twice, the second has one: as on a machine that other programs make busy."""

    def __init__(self) -> None:
        super().__init__()
        self._changes = iter([((0, 2), (5, 1), (9, 2)), ((0, 1),)])

    def send(self, command: Command) -> int:
        if isinstance(command, Generate):
            changes = next(self._changes, ())
            [reply] = command.replies
            script = tuple(Scripted(reply.done + step, threads=threads) for step, threads in changes)
            command = msgspec.structs.replace(command, replies=[msgspec.structs.replace(reply, script=script)])
        return super().send(command)


@pytest.mark.skipif(all_threads() < 2, reason="needs two threads")
@pytest.mark.parametrize("name", ["llama", "half"])
def test_threads_that_changed_are_replayed(
    tmp_path: Path, made_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = made_model(name)
    store = Store.open(tmp_path / "chats.db")
    service = chat_on(Busy(), Tuning(max_tokens=14, seed=3), store=store)
    spec = ModelSpec(str(path), name, context=2048, threads=2, sha256=_sha256(path))
    service.loading.load(msgspec.structs.replace(spec, proposed_threads=True))
    driven = Driven(service)
    driven.say("the fox saw the bear and " * (SPLIT // 6 + 1))
    driven.say("And then?")
    assert isinstance(service.engine, LocalEngine)
    assert service.engine.pid is not None
    os.kill(service.engine.pid, signal.SIGKILL)
    driven.until(lambda: service.phase == "failed")
    service.loading.restart_engine()
    driven.idle()
    service.forks.continue_reply()
    driven.idle()
    saved = make_saver(service.session, tmp_path / "busy.jsonl")()
    nodes = [node for node in service.conversation.nodes.values() if node.start is not None]
    service.close()
    store.close()
    starts = [node.start for node in nodes if node.start is not None]
    assert len(service.conversation.list_prompt(nodes[0].number)) > SPLIT
    assert [start.threads for start in starts[:2]] == [2, 1]
    assert [record.threads for record in nodes[0].settings] == [2, 1, 2]
    assert [start.exact for start in starts] == [True] * 3
    assert nodes[2].prefill is not None
    assert nodes[2].prefill.reused == 0
    told: list[str] = []
    assert replay(load({"model": str(path)}, {}, tmp_path / "no.toml"), saved, told.append, told.append) == 0, told
    assert told[-1].startswith("identical, ")


# --- not the same ----------------------------------------------------------------------------------------------------


def test_an_altered_id_is_named_with_its_step(home: Path, short: Path, tmp_path: Path) -> None:
    taken: list[tuple[int, int, int]] = []

    def alter(line: dict[str, Any]) -> None:
        if line.get("step", 0) < 20 or taken:
            return
        others = [c["id"] for c in line["candidates"] if c["id"] != line["id"] and c["probability"] > 0]
        if others:  # the dice could have taken another one
            taken.append((line["step"], line["id"], others[0]))
            line["id"] = others[0]

    report = said(termchat(home, "replay", altered(short, tmp_path / "altered.jsonl", alter)), 1)
    ((step, before, after),) = taken
    first = report.splitlines()[0]
    assert first.startswith(f"different at node 2, step {step}: recorded ")
    assert f"({after}), now " in first
    assert first.endswith(f"({before})")
    assert "cause: the record was edited: recorded does not follow from its record, now follows" in report
    assert "in logit/temperature + noise" in report


def test_a_changed_model_file_behind_the_same_header_is_found_out(
    stream: Path, tmp_path: Path, small_model_path: Path
) -> None:
    """In a home of its own, which would take this file for the right one from then on."""
    data = bytearray(small_model_path.read_bytes())
    for at in range(len(data) // 2, len(data), 200_003):
        data[at] ^= 0x11
    changed = tmp_path / "changed.gguf"
    changed.write_bytes(data)
    assert _sha256(changed) == _sha256(small_model_path)
    report = said(termchat(tmp_path, "replay", stream, "--model", changed), 1)
    assert report.startswith("different at node 2, step ")
    assert "now" in report.splitlines()[0]
    assert "different weights" in report
    assert report.count("    model    after    noise") == 2


def test_a_file_with_another_identity_is_named_and_replayed_all_the_same(
    home: Path, short: Path, tmp_path: Path, small_model_path: Path
) -> None:
    longer = tmp_path / "longer.gguf"
    longer.write_bytes(small_model_path.read_bytes() + b"\0" * 64)
    first, last = said(termchat(home, "replay", short, "--model", longer), 0).splitlines()
    assert first == f"a different model file: {_sha256(longer)[:16]} now, {_sha256(small_model_path)[:16]} recorded"
    assert last == "identical, 50 tokens"


def test_a_model_that_was_given_by_its_path_is_found_by_its_identity(tmp_path: Path, small_model_path: Path) -> None:
    home, file, path = tmp_path / "home", tmp_path / "elsewhere" / "mine.gguf", tmp_path / "mine.jsonl"
    file.parent.mkdir()
    file.write_bytes(small_model_path.read_bytes())
    args = ("run", "Hi", *RUN, "--max-tokens", "4", "--model", file, "--json")
    path.write_text(said(termchat(home, *args), 0))
    file = file.rename(file.with_name("renamed.gguf"))
    assert said(termchat(home, "replay", path), 0).startswith("identical, ")
    file.unlink()
    gone = termchat(home, "replay", path)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "'mine' is neither in the catalogue nor on this disk\n  pass its file with --model" in gone.stderr


def test_another_kv_type_is_named_as_the_cause(home: Path, short: Path) -> None:
    report = said(termchat(home, "replay", short, "--kv-type", "q8_0"), 1)
    assert "cause: KV type: recorded bf16/f16, now q8_0" in report


def test_other_numbers_for_the_same_tokens_are_a_difference(home: Path, short: Path, tmp_path: Path) -> None:
    taken: list[tuple[float, int]] = []

    def alter(line: dict[str, Any]) -> None:
        if line.get("step") == 30:
            taken.append((line["probability"], line["rank"]))
            line["probability"] = math.nextafter(line["probability"], 0.5)
            line["rank"] += 1

    report = said(termchat(home, "replay", altered(short, tmp_path / "altered.jsonl", alter)), 1)
    ((probability, rank),) = taken
    assert report.startswith("different at node 2, step 30: recorded ")
    assert ": same token now, but its record differs; every token of the reply matches" in report
    assert f"  rank: {rank + 1} recorded, {rank} now\n" in report
    assert f"  probability: {math.nextafter(probability, 0.5)!r} recorded, {probability!r} now\n" in report
    assert "cause: the record was edited (the model's logits are unchanged" in report


NOT_COMPUTED = {"decode_us", "sample_us", "forced", "record", "ms", "reused", "shapes"}
"""Times, who chose a token, and what says how the prompt came into the cache."""
ENDED: dict[str, Finished | None] = {
    "end": finished("end", "<|im_end|>", "\ufffd", 4),
    "stop": finished("stop", "END", "EN", 4),
    "length": finished("length", "max_tokens 4", "", 4),
    "user": finished("user", "", "bc", 4),
    "context": finished("context", "34 of 34", "\ufffd", 4),
    "time": finished("rule", "stop after 30 s", "", 4),
    "killed": None,
}


def told_stream(ended: str) -> list[Record]:
    """What is on record of a short reply that ended in this way."""
    *begin, _ = made_stream([1, 2, 3], [b"a", b" b", b"c", b"d"])
    end = ENDED[ended]
    if ended == "time":
        begin[1] = msgspec.structs.replace(begin[1], conditions=(parse("stop after 30 s"),))
    return [*begin, *([end] if end is not None else [])]


def played_stream(ended: str) -> list[Record]:
    """What the engine says of the same reply generated again: nobody stops it or kills it, and its context is larger."""
    *begin, _ = made_stream([1, 2, 3], [b"a", b" b", b"c", b"d"])
    if ended in ("user", "context"):
        last = begin[-1]
        assert isinstance(last, Token)
        text, held = (last.text + "bc", "") if ended == "user" else (last.text, "\ufffd")
        return [*begin[:-1], msgspec.structs.replace(last, text=text), finished("length", "max_tokens 4", held, 4)]
    if ended == "time":  # nobody looks at the clock, but at how many tokens there were
        return [*told_stream(ended)[:-1], finished("length", "max_tokens 4", "", 4)]
    if ended == "killed":
        return [*begin, token(4, b"e", "e"), finished("length", "max_tokens 5", "", 5)]
    return told_stream(ended)


def leaves(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all computed values in a line."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
        return
    for key, one in inner:
        if key not in NOT_COMPUTED:
            yield from leaves(one, *path, key)


REASONS = {"rule": "end", "end": "length", "stop": "end", "length": "user", "user": "length", "context": "user"}


def other(name: str | int, value: object) -> object:
    """Another value that the field could have."""
    if isinstance(value, float):
        return math.nextafter(value, -math.inf)
    if isinstance(value, int):
        return value + 1
    if name == "reason":
        return REASONS[str(value)]
    return "QUJD" if name == "bytes" else "top_k" if value is None else f"{value}x"


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str], list[Record]], tuple[int, str]]:
    """Replays lines on an engine that plays records; returns the exit code and everything that was printed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    chosen = load({}, {}, tmp_path / "no.toml")

    def play(lines: list[str], records: list[Record], *, as_json: bool = False) -> tuple[int, str]:
        monkeypatch.setattr(replaying, "make_engine", lambda _: PlayedEngine(records))
        path, told = tmp_path / "told.jsonl", list[str]()
        path.write_text("".join(line + "\n" for line in lines))
        code = replaying.replay(chosen, path, told.append, told.append, as_json=as_json)
        return code, "\n".join(told)

    return play


@pytest.mark.parametrize("ended", ENDED)
def test_a_reply_is_identical_however_it_ended(played: Callable[..., tuple[int, str]], ended: str) -> None:
    code, told = played(list(map(to_json, told_stream(ended))), played_stream(ended))
    assert (code, told.splitlines()[-1]) == (0, "identical, 4 tokens")


@pytest.mark.parametrize("ended", ["user", "context", "time"])
def test_a_reply_that_was_cut_off_before_it_matched_its_constraint_is_identical(
    played: Callable[..., tuple[int, str]], ended: str
) -> None:
    def constrained(records: list[Record]) -> list[Record]:
        *others, end = records
        assert isinstance(end, Finished)
        detail = f"{end.detail}; grammar: incomplete" if end.detail else "grammar: incomplete"
        return [*others, msgspec.structs.replace(end, detail=detail)]

    lines = list(map(to_json, constrained(told_stream(ended))))
    assert played(lines, constrained(played_stream(ended))) == (0, "identical, 4 tokens")
    code, told = played(lines, played_stream(ended))
    assert (code, "finished.detail: " in told) == (1, True)


@pytest.mark.parametrize("ended", ENDED)
def test_any_computed_field_that_was_altered_is_found_and_named(
    played: Callable[..., tuple[int, str]], ended: str
) -> None:
    lines = [json.loads(to_json(record)) for record in told_stream(ended)]
    places = [
        (at, *path)
        for at, line in enumerate(lines)
        if line["record"] in ("prefill", "token", "finished")
        for path in leaves({key: value for key, value in line.items() if not key.endswith(("_ms", "_per_second"))})
    ]
    assert len(places) > 4 * 20 * 7
    random.Random(ended).shuffle(places)
    fields = {tuple(key for key in path if isinstance(key, str)): (at, *path) for at, *path in places}
    rows = [*fields.values(), *(place for place in places if lines[place[0]]["record"] != "token")]
    for at, *path, last in rows:
        changed = json.loads(json.dumps(lines))
        inside = changed[at]
        for key in path:
            inside = inside[key]
        inside[last] = other(last, inside[last])
        code, told = played([json.dumps(line) for line in changed], played_stream(ended))
        assert code == 1, (at, path, last)
        name = next(key for key in (last, *reversed(path)) if isinstance(key, str))
        refused = last in ("step", "logprob") and "told.jsonl, line" in told
        # A token with another id is named as such; what does not go with a wrong reason may be the text or the detail.
        assert refused or name in told or name in ("id", "reason"), (at, path, last, told)


# --- what cannot be done ---------------------------------------------------------------------------------------------


def test_foreign_text_of_a_transcript_steers_no_terminal(
    home: Path, short: Path, tmp_path: Path, small_model_path: Path
) -> None:
    def alter(line: dict[str, Any]) -> None:
        if line["record"] == "start":
            line["model"]["name"], line["model"]["sha256"] = "\x1b]0;evil\x07", "\x1b[2J" * 9
        if line["record"] == "token":
            for candidate in line["candidates"]:
                candidate["text"] = "\x1b[31m\u202e"

    path = altered(short, tmp_path / "hostile.jsonl", alter)
    unnamed = termchat(home, "replay", path)
    assert unnamed.returncode == 1
    assert "is neither in the catalogue nor on this disk" in unnamed.stderr
    assert "--model" in unnamed.stderr
    named = termchat(home, "replay", path, "--model", small_model_path, "--kv-type", "q8_0")
    assert named.returncode == 1
    assert "␛[31m" in named.stdout
    for text in (unnamed.stderr, named.stdout):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["nowhere.jsonl"], 2, "does not exist"),
        ([__file__, "--threads", "many"], 2, "threads must be a whole number"),
        ([__file__, "--temperature", "1"], 2, "No such option"),
        ([__file__], 1, "test_replay.py, line 1: not a JSON object"),
    ],
)
def test_mistakes_say_what_and_what_to_do(home: Path, args: list[str], code: int, told: str) -> None:
    done = termchat(home, "replay", *args)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("changes", [{"threads": 10**6}, {"ubatch": -1}, {"kv_type": "\x1b"}])
def test_a_transcript_that_cannot_be_true_loads_nothing(
    home: Path, short: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    def alter(line: dict[str, Any]) -> None:
        if line["record"] == "start":
            line.update(changes)

    done = termchat(home, "replay", altered(short, tmp_path / "lie.jsonl", alter))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the transcript is inconsistent: " in done.stderr
    assert "\x1b" not in done.stderr


def test_a_transcript_without_a_reply_says_so(home: Path, stream: Path, tmp_path: Path) -> None:
    (tmp_path / "short.jsonl").write_text("".join(stream.read_text().splitlines(keepends=True)[:3]))
    done = termchat(home, "replay", tmp_path / "short.jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert "contains no reply with tokens" in done.stderr


# --- the report ------------------------------------------------------------------------------------------------------


def two_streams(**changes: Any) -> tuple[list[str], list[Record]]:
    """A reply on record, and one that is generated again with another start and a logit that is a little off at step 2."""
    then, now = told_stream("end"), played_stream("end")
    begun, token = now[0], now[5]
    assert isinstance(begun, Start)
    assert isinstance(token, Token)
    candidates = [msgspec.structs.replace(c, logit=c.logit + 0.001) for c in token.candidates]
    now[0] = msgspec.structs.replace(begun, **changes)
    now[5] = msgspec.structs.replace(token, candidates=candidates)
    return list(map(to_json, then)), now


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"threads": 4}, "threads: recorded 2, now 4, from token 2 on"),
        ({"ubatch": 512}, "micro-batch: recorded 63, now 512, from token 2 on"),
        ({"llama_cpp": "0.3.99"}, "llama-cpp-python: recorded 0.3.36, now 0.3.99, from token 2 on"),
        ({"kv_type": "\x1b"}, "KV type: recorded f16, now ␛, from token 2 on"),
    ],
)
def test_what_is_other_on_record_is_the_cause(
    played: Callable[..., tuple[int, str]], changes: dict[str, Any], cause: str
) -> None:
    code, told = played(*two_streams(**changes))
    assert code == 1
    assert f"  cause: {cause} (nothing else differs that the draw depends on)" in told.splitlines()
    assert "the model's logits differ by up to 0.001 here, first at token 2" in told


def test_the_report_as_one_object(played: Callable[..., tuple[int, str]]) -> None:
    code, told = played(*two_streams(threads=4), as_json=True)
    report = json.loads(told)
    assert code == 1
    assert (report["identical"], report["tokens"], report["step"]) == (False, 2, 2)
    assert (report["causes"][0]["name"], report["causes"][0]["evidence"]) == ("threads", "shown")
    assert len(report["recorded"]["candidates"]) == len(report["now"]["candidates"]) == 20
    assert report["fields"][0] == {"name": "candidates[0].logit", "recorded": 18.25, "now": 18.251}
    same = played(list(map(to_json, told_stream("end"))), played_stream("end"), as_json=True)
    assert (same[0], json.loads(same[1])) == (0, {"identical": True, "tokens": 4})
