"""`termchat run` with several replies at once, as a script sees them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from termchat.commands import run as running
from termchat.commands.run import Question
from termchat.config.settings import load
from termchat.conversation import transcripts
from termchat.decoding import walk_plan
from termchat.decoding.group import BeamSettings, GridKnob
from termchat.decoding.records import Beam, Beams, Failed, Finished, Reason, Record, Start, Token
from termchat.decoding.walk_plan import WalkPlan
from termchat.engine.port import Generate
from tests.made_records import finished
from tests.made_walks import group, interleaved, walked
from tests.played_engine import PlayedEngine
from tests.scripts import TERMCHAT, environment, said, termchat, use_model

COMMON = ("--seed", "7", "--context", "2048", "--threads-batch", "1")  # what the records say of it is equal then
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((Path(transcripts.__file__).parent / "transcript.schema.json").read_text("utf-8"))
)


# --- on an engine that plays records ----------------------------------------------------------------------------------


class Answered:
    """What `answer` did on an engine that plays these records."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(
        self, plan: WalkPlan, records: Sequence[Record], *, prompt: str = "hi", as_json: bool = False, **flags: object
    ) -> int:
        self.engine = PlayedEngine(list(records))
        asked = Question(prompt, plan=plan)
        code = running.answer(load(flags, {}, Path("/none")), self.engine, asked, as_json=as_json, candidates=20)
        self.out, self.err = self._capsys.readouterr()
        return code

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answered:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(running.signal, "signal", lambda *_: None)
    return Answered(capsys)


def played(
    plan: WalkPlan, texts: Sequence[str], reasons: Sequence[Reason] = (), logprobs: Sequence[float] = ()
) -> list[Record]:
    """The records of walks that say these texts, word for word in turn."""
    of = group(plan.group.size, kind=plan.group.kind, answer=plan.group.answer, beams=plan.group.beams)
    streams = []
    for walk, text in enumerate(texts):
        pieces = [piece.encode() for piece in text.split("|")]
        records = walked([1, 2, 3], walk, of, pieces, reasons[walk] if reasons else "end")
        if logprobs:
            records = [
                msgspec.structs.replace(r, logprob=logprobs[walk]) if isinstance(r, Token) else r for r in records
            ]
        streams.append(records)
    return [record for _, record in interleaved(streams)]


THREE = ["one| fox", "two| bears| and| a| fox\n", "three"]


def test_walks_are_printed_one_after_the_other_with_a_heading_each(answered: Answered) -> None:
    plan = walk_plan.walks(3)
    assert answered(plan, played(plan, THREE), seed=42) == 0
    assert answered.out == (
        "==> walk 1 of 3, seed 42 <==\none fox\n\n"
        "==> walk 2 of 3, seed 43 <==\ntwo bears and a fox\n\n"
        "==> walk 3 of 3, seed 44 <==\nthree\n"
    )
    assert answered.err == ""
    [asked] = [command.replies for command in answered.engine.asked(Generate)]
    assert [walk.seed for walk in asked] == [42, 43, 44]


def test_the_heading_of_a_cell_says_its_values(answered: Answered) -> None:
    plan = walk_plan.grid([GridKnob("temperature", (0, 0.5)), GridKnob("top_k", (0,))], runs=2)
    assert answered(plan, played(plan, ["a", "b", "c", "d"])) == 0
    heads = [line for line in answered.out.splitlines() if line.startswith("==>")]
    assert heads[1] == "==> walk 2 of 4, temp 0 · top_k off · run 2, seed 43 <=="
    assert heads[2].startswith("==> walk 3 of 4, temp 0.5 · top_k off · run 1, ")


def test_the_records_of_a_cell_carry_its_values(answered: Answered) -> None:
    plan = walk_plan.grid([GridKnob("temperature", (0, 0.5)), GridKnob("top_k", (5,))], runs=2)
    assert answered(plan, played(plan, ["a", "b", "c", "d"]), as_json=True) == 0
    for line in answered.lines:
        VALIDATOR.validate(line)
    cells = {line["walk"]: line["cell"] for line in answered.lines if line["record"] == "token"}
    cold, warm = {"temperature": 0.0, "top_k": 5}, {"temperature": 0.5, "top_k": 5}
    assert cells == {0: cold, 1: cold, 2: warm, 3: warm}
    assert all("cell" in line for line in answered.lines if "walk" in line)


def test_the_records_come_as_they_are_made_and_a_ranking_after_the_last(answered: Answered) -> None:
    plan = walk_plan.walks(3)
    assert answered(plan, played(plan, THREE, logprobs=(-2.0, -0.5, -1.0)), as_json=True) == 0
    for line in answered.lines:
        VALIDATOR.validate(line)
    *each, last = answered.lines
    assert [line["walk"] for line in each[:4]] == [0, 1, 2, 0]
    assert sum(line["record"] == "token" for line in each if line["walk"] == 1) == 5
    assert each[0]["group"]["kind"] == "walks"
    assert last["record"] == "ranking"
    assert [(one["walk"], one["score"], one["tokens"]) for one in last["walks"]] == [
        (1, -0.5, 5),
        (2, -1.0, 1),
        (0, -2.0, 2),
    ]
    assert not {"answer", "votes"} & last["walks"][0].keys()


def test_the_best_is_printed_alone_and_why_is_told(answered: Answered) -> None:
    plan = walk_plan.best(4)
    texts, ends = ["bad", "good", "good", "better"], ("end", "end", "stop", "length")
    assert answered(plan, played(plan, texts, ends, (-2.0, -0.5, -0.5, -0.1)), seed=42) == 0
    assert answered.out == "good"
    assert answered.err == (
        "walk 2 of 4, seed 43: mean logprob -0.500; walk 3 is equal to it\nleft out: walk 4 did not end by itself\n"
    )


def test_the_best_may_be_the_longest_or_the_shortest(answered: Answered) -> None:
    records = played(walk_plan.best(2), ["a| longer| one", "short"], logprobs=(-0.5, -1.0))
    for penalty, best, score in ((1.0, "a longer one", "mean logprob -0.500"), (0.0, "short", "score -1.000")):
        of = group(2, kind="best", length_penalty=penalty)
        begun = [msgspec.structs.replace(r, group=of) if isinstance(r, Start) else r for r in records]
        assert answered(walk_plan.best(2, penalty), begun) == 0
        assert answered.out == best
        assert score in answered.err
    assert answered.engine.asked(Generate)[0].group.length_penalty == 0


def test_where_no_walk_ended_the_best_is_one_of_them(answered: Answered) -> None:
    plan = walk_plan.best(2)
    assert answered(plan, played(plan, ["bad", "good"], ("length", "length"), (-2.0, -0.5)), seed=42) == 0
    assert answered.out == "good"
    assert "no walk ended by itself, so all are compared as they are" in answered.err


VOTES = ["it is 42", "41, no, 42", "perhaps| 41", "who knows", "42"]


def test_a_vote_prints_a_reply_with_the_answer_of_most_and_the_tally(answered: Answered) -> None:
    plan = walk_plan.vote(5, r"\d+")
    ends: tuple[Reason, ...] = ("end", "end", "end", "end", "length")
    records = played(plan, VOTES, ends, (-2.0, -0.5, -1.0, -0.1, -0.1))
    assert answered(plan, records) == 0
    assert answered.out == "41, no, 42"
    assert answered.err == (
        "42: 2 of 3 votes (67%), walks 1, 2\n"
        "41: 1 of 3 votes, walk 3\n"
        "left out: walk 5 did not end by itself\n"
        "left out: walk 4 has no answer\n"
    )
    assert answered(plan, records, as_json=True) == 0
    assert answered.err == ""  # the ranking says it
    ranking = answered.lines[-1]["walks"]
    assert [(one["walk"], one.get("answer"), one.get("votes")) for one in ranking] == [
        (1, "42", 2), (0, "42", 2), (2, "41", 1), (3, None, None), (4, None, None),
    ]  # fmt: skip
    VALIDATOR.validate(answered.lines[-1])


def test_a_vote_without_an_answer_is_a_failure(answered: Answered) -> None:
    plan = walk_plan.vote(2, r"\d+")
    assert answered(plan, played(plan, ["none", "no"])) == 1
    assert answered.out == ""
    assert "termchat: no walk has an answer\n" in answered.err


def searched(plan: WalkPlan) -> list[Record]:
    """What is found: tokens 1000 and 1001, and 2000 and 2001 as the second best."""
    of = group(plan.group.size, kind="beams", beams=plan.group.beams)
    first = walked([1, 2, 3], 0, of, [b"the", b" fox"])
    second = [
        msgspec.structs.replace(r, id=r.id + 1000) if isinstance(r, Token) else r
        for r in walked([1, 2, 3], 1, of, [b"a", b" bear"])
    ]
    steps = [
        Beams(0, [Beam(0, 0, 2000, "a", -0.5, -0.5), Beam(1, 0, 1000, "the", -0.75, -0.75)], []),
        Beams(1, [Beam(0, 1, 1001, " fox", -0.25, -0.5, True), Beam(1, 0, 2001, " bear", -1.0, -0.75, True)], []),
    ]
    return [*first[:3], *steps, *first[3:], *(second if plan.group.size > 1 else [])]


def test_of_a_search_the_best_is_printed_or_as_many_as_are_wanted(answered: Answered) -> None:
    plan = walk_plan.beams(BeamSettings(2))
    assert answered(plan, searched(plan)) == 0
    assert (answered.out, answered.err) == ("the fox", "")
    assert [command.group.beams for command in answered.engine.asked(Generate)] == [BeamSettings(2)]
    plan = walk_plan.beams(BeamSettings(2, n_best=2))
    assert answered(plan, searched(plan)) == 0
    assert answered.out == (
        "==> beam 1 of 2, score -0.5000 <==\nthe fox\n\n==> beam 2 of 2, score -0.7500 <==\na bear\n"
    )
    assert answered(plan, searched(plan), as_json=True) == 0
    for line in answered.lines:
        VALIDATOR.validate(line)
    kinds = [line["record"] for line in answered.lines]
    assert kinds[:5] == ["start", "settings", "prefill", "beams", "beams"]
    assert kinds[-1] == "ranking"


def test_a_context_that_fills_is_told_once_and_has_its_exit_code(answered: Answered) -> None:
    plan = walk_plan.walks(3)
    full = finished("context", "250 of 256: no cell left for each walk", "", 1)
    records = [
        msgspec.structs.replace(full, walk=r.walk) if isinstance(r, Finished) and r.walk else r
        for r in played(plan, THREE)
    ]
    assert answered(plan, records) == 3
    assert answered.err == (
        "termchat: walks 2, 3 were cut off: the context is full (250 of 256 tokens, no cell left for each walk)\n"
        "  make fewer walks, shorten the prompt, or load the model with a larger --context\n"
    )


def test_a_message_that_is_too_long_is_a_failure(answered: Answered) -> None:
    plan = walk_plan.walks(3)
    assert answered(plan, played(plan, THREE), prompt="x" * 1_000_001) == 1
    assert "at most 1,000,000 characters" in answered.err


def test_a_walk_that_fails_ends_alone(answered: Answered) -> None:
    plan = walk_plan.walks(2)
    records = [
        Failed("memory", "no room", "free some", 0) if isinstance(r, Finished) and r.walk == 0 else r
        for r in played(plan, ["a", "b"])
    ]
    assert answered(plan, records) == 1
    assert answered.out == "==> walk 1 of 2, seed 42 <==\na\n\n==> walk 2 of 2, seed 43 <==\nb\n"
    assert "termchat: walk 1 failed: no room\n  free some\n" in answered.err


def test_what_is_there_of_walks_is_printed_when_the_engine_dies(answered: Answered) -> None:
    plan = walk_plan.walks(3)
    begun = [r for r in played(plan, THREE) if not isinstance(r, Finished)]
    assert answered(plan, [*begun, Failed("engine", "it died")]) == 1
    assert answered.out.startswith("==> walk 1 of 3, seed 42 <==\none fox\n\n==> walk 2 of 3, seed 43 <==\ntwo bears")
    assert answered.out.endswith("<==\nthree\n")
    assert "termchat: it died" in answered.err
    assert answered(plan, [*begun, Failed("engine", "it died")], as_json=True) == 1
    failed = [(line["message"], line["walk"]) for line in answered.lines if line["record"] == "failed"]
    assert failed == [("it died", 0), ("it died", 1), ("it died", 2)]


def test_an_engine_that_makes_one_reply_at_a_time_says_so(answered: Answered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlayedEngine, "offers", frozenset())
    plan = walk_plan.walks(2)
    assert answered(plan, played(plan, ["a", "b"])) == running.USAGE
    assert answered.err.startswith("termchat: this engine cannot make several replies at once\n")


# --- the real model --------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, small_model_path: Path) -> Path:
    """Where two blocks of the model answer: what they say does not matter."""
    return use_model(tmp_path, small_model_path)


def stream(home: Path, *args: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said(termchat(home, "run", *COMMON, *args, "--json")).splitlines()]


def told(records: list[dict[str, Any]], walk: int | None = None) -> list[dict[str, Any]]:
    """What the records of one reply say, but for times, and that there are others."""
    other = {
        "walk",
        "group",
        "cell",
        "ms",
        "decode_us",
        "sample_us",
        "ttft_ms",
        "prefill_ms",
        "decode_ms",
        "tokens_per_second",
    }
    other |= {"largest_change", "near_tie"}  # known of the one number of threads, not of the other
    mine = [record for record in records if record.get("walk") == walk and record["record"] != "ranking"]
    return [{name: value for name, value in record.items() if name not in other} for record in mine]


def test_each_walk_is_the_reply_of_its_seed_alone_with_one_thread(home: Path) -> None:
    args = ("Tell me about foxes.", "--temperature", "1.1", "--max-tokens", "24")
    walks = stream(home, *args, "--walks", "3")
    for record in walks:
        VALIDATOR.validate(record)
    assert [record["walk"] for record in walks if record["record"] == "token"][:6] == [0, 1, 2, 0, 1, 2]
    for walk in range(3):
        alone = stream(home, *args, "--threads", "1", "--seed", str(7 + walk))
        assert told(walks, walk) == told(alone)
    assert len({json.dumps([t["id"] for t in told(walks, w) if t["record"] == "token"]) for w in range(3)}) == 3


def test_a_cell_of_a_grid_is_the_reply_with_its_settings(home: Path) -> None:
    args = ("Name a river.", "--max-tokens", "10")
    grid = ("--grid", "temperature=0,1.5", "--grid", "top_k=5,off", "--runs", "2")
    cells = stream(home, *args, *grid)
    assert cells[0]["group"]["size"] == 8
    for walk, knobs in ((1, ("0", "5", "8")), (6, ("1.5", "0", "7"))):
        temperature, top_k, seed = knobs
        flags = ("--temperature", temperature, "--top-k", top_k, "--threads", "1", "--seed", seed)
        alone = told(stream(home, *args, *flags))
        mine = told(cells, walk)
        assert mine[1].pop("origin") | {"temperature": "flag", "top_k": "flag"} == alone[1].pop("origin")
        assert mine == alone


def test_the_tally_of_a_vote_is_that_of_a_count_by_hand(tmp_path: Path) -> None:
    args = ("What is 2+3?", "--max-tokens", "40", "--vote", r"= (\d+)", "--walks", "6")
    records = stream(tmp_path, *args)
    answers: dict[int, str] = {}
    for walk in range(6):
        mine = told(records, walk)
        found = re.findall(r"= (\d+)", "".join(r["text"] for r in mine if r["record"] == "token") + mine[-1]["held"])
        if found and mine[-1]["reason"] == "end":
            answers[walk] = found[-1]
    votes = Counter(answers.values())
    ranked = records[-1]["walks"]
    assert {one["walk"]: (one["answer"], one["votes"]) for one in ranked if "answer" in one} == {
        walk: (answer, votes[answer]) for walk, answer in answers.items()
    }
    assert votes[ranked[0]["answer"]] == max(votes.values())
    assert {one["walk"] for one in ranked} == set(range(6))
    plain = termchat(tmp_path, "run", *args, *COMMON)
    assert plain.returncode == 0
    assert plain.stdout == "".join(r["text"] for r in told(records, ranked[0]["walk"]) if r["record"] == "token")
    assert plain.stderr.startswith(f"{ranked[0]['answer']}: {ranked[0]['votes']} of {len(answers)} votes")


def test_a_search_finds_what_its_beams_say(home: Path) -> None:
    args = ("Name a river.", "--max-tokens", "10")
    records = stream(home, *args, "--beams", "3", "--n-best", "2", "--length-penalty", "0.5")
    for record in records:
        VALIDATOR.validate(record)
    steps = [record for record in records if record["record"] == "beams"]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    for one in records[-1]["walks"]:
        tokens = [record for record in told(records, one["walk"]) if record["record"] == "token"]
        assert one["score"] == pytest.approx(sum(token["logprob"] for token in tokens) / len(tokens) ** 0.5, rel=1e-5)
        assert one["score"] in [beam["score"] for beam in steps[len(tokens) - 1]["beams"]]
    scores = [one["score"] for one in records[-1]["walks"]]
    assert scores == sorted(scores, reverse=True)
    plain = termchat(home, "run", *COMMON, *args, "--beams", "3", "--n-best", "2", "--length-penalty", "0.5")
    assert plain.stdout.startswith(f"==> beam 1 of 2, score {scores[0]:.4f} <==\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_all_walks_in_good_order(home: Path, number: int, code: int) -> None:
    process = subprocess.Popen(
        [*TERMCHAT, "run", "--raw", "Once upon a time", "--json", "--walks", "3", *COMMON],
        env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(20)]
    process.send_signal(number)
    rest, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (code, b"")
    records = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    ends = {record["walk"]: record["reason"] for record in records if record["record"] == "finished"}
    assert ends == {0: "user", 1: "user", 2: "user"}
    assert records[-1]["record"] == "ranking"


def test_ctrl_c_prints_what_there_is_of_each_walk(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*TERMCHAT, "run", "--raw", "Once upon a time", "--walks", "2", *COMMON],
        env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert process.stdout is not None
    seen = b""
    while len(seen) < 60:  # the heading, and the first words
        seen += process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, b"")
    first, second = (seen + rest).decode().split("\n\n==> walk 2 of 2, seed 8 <==\n")
    assert first.startswith("==> walk 1 of 2, seed 7 <==\n")
    assert len(second.split()) > 2
