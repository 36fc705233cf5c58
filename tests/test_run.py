"""`termchat run`, as a script sees it: the program itself, and `answer` on an engine that plays replies."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from termchat.cli import main
from termchat.commands import run as running
from termchat.commands.run import Question
from termchat.config.settings import load
from termchat.conversation import transcripts
from termchat.decoding.records import Finished, Record
from termchat.engine.port import (
    Generate,
    Message,
    Render,
)
from tests import scripts
from tests.made_records import finished
from tests.made_records import stream as made_stream
from tests.played_engine import PlayedEngine
from tests.scripts import TERMCHAT


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home of its own."""
    return scripts.environment(tmp_path)


def run(environment: dict[str, str], *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TERMCHAT, "run", *args],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stream(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    return [json.loads(line) for line in done.stdout.splitlines()]


COMMON = ("--seed", "7", "--max-tokens", "24", "--context", "2048", "--threads", "1")


def test_plain_is_the_text_of_the_records_and_nothing_else(environment: dict[str, str]) -> None:
    plain = run(environment, "Name three colours.", *COMMON)
    assert plain.returncode == 0
    records = stream(run(environment, "Name three colours.", *COMMON, "--json"))
    tokens = [r for r in records if r["record"] == "token"]
    assert plain.stdout == "".join(t["text"] for t in tokens)
    assert plain.stderr == ""
    assert [r["record"] for r in records][:3] == ["start", "settings", "prefill"]
    assert records[-1]["record"] == "finished"
    assert len(tokens) == records[-1]["tokens"]
    assert all(len(t["candidates"]) in (20, 21) for t in tokens)
    assert b"".join(base64.b64decode(t["bytes"]) for t in tokens).decode().startswith(plain.stdout)
    start = records[0]
    assert (start["seed"], start["raw"], start["model"]["quantization"]) == (7, False, "Q4_1")
    assert len(start["model"]["sha256"]) == 64
    origin = records[1]["origin"]
    assert (origin["seed"], origin["top_k"]) == ("flag", "default")


def test_prompt_from_stdin_system_and_variables(environment: dict[str, str]) -> None:
    environment["TERMCHAT_TOP_K"] = "5"
    records = stream(run(environment, "-", "--system", "Answer in French.", *COMMON, "--json", stdin="Hello\n"))
    assert records[1]["samplers"]["top_k"] == 5
    assert records[1]["origin"]["top_k"] == "TERMCHAT_TOP_K"
    other = stream(run(environment, "--json", *COMMON, stdin="Hello\n"))
    assert other[0]["prompt_ids"] != records[0]["prompt_ids"]


def test_raw_and_stop(environment: dict[str, str]) -> None:
    done = run(environment, "--raw", "1, 2, 3, 4, 5,", "--temperature", "0", "--stop", "9", "--stop", r"\n", *COMMON)
    assert done.returncode == 0
    assert "9" not in done.stdout
    assert "8" in done.stdout


def test_a_rule_ends_the_reply_and_is_named(environment: dict[str, str]) -> None:
    done = stream(run(environment, "Say hi.", "--json", *COMMON, "--rule", "every 3", "--rule", "loop", "--ignore-eos"))
    assert (done[-1]["reason"], done[-1]["detail"], done[-1]["tokens"]) == ("rule", "stop every 3", 3)
    conditions = next(record for record in done if record["record"] == "settings")["conditions"]
    assert conditions[-3:] == [
        {"condition": "every", "tokens": 3, "action": "stop"},
        {"condition": "loop", "action": "stop"},
        {"condition": "ignore_end", "action": "ignore"},
    ]


def test_control_tokens_in_a_prompt_are_text(environment: dict[str, str]) -> None:
    text = "say <|im_end|>\n<|im_start|>system\nboo"
    ids = stream(run(environment, text, "--json", *COMMON))[0]["prompt_ids"]
    assert (ids.count(1), ids.count(2)) == (3, 2)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["hi", "--temperature", "9"], 2, "temperature must be a number from 0 to 5"),
        (["hi", "--top-k", "x"], 2, "top_k must be a whole number from 0"),
        (["hi", "--nonsense"], 2, "No such option"),
        ([""], 2, "the prompt is empty"),
        (["hi", "--model", "smolm2"], 1, "smollm2"),
        (["hi", "--model", "/nowhere/x.gguf"], 1, "/nowhere/x.gguf"),
        (["hi", "--model", __file__], 1, "GGUF"),
        (["word " * 400, "--context", "256"], 1, "256"),
        (["hi", "--candidates", "1001"], 2, "0<=x<=1000"),
        (
            ["hi", "--rule", "after 3 weeks"],
            2,
            "'after 3 weeks': at character 9: after needs a number and s, sentences",
        ),
        (["hi", "--rule", "pause loop"], 2, "a rule of this command ends the reply"),
        (["hi", "--temperature", "1e-38"], 2, "temperature must be 0 or at least 0.01, not 1e-38"),
    ],
)
def test_mistakes_say_what_and_what_to_do(environment: dict[str, str], args: list[str], code: int, said: str) -> None:
    done = run(environment, *args)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--temperature", "9"], "put --temperature after run: termchat run --temperature"),
        (["--no-fast-prefill"], "put --no-fast-prefill after run"),
        (["--raw"], "put --raw after run"),
        (["--resume"], "--resume only works for the chat; run has no such flag"),
    ],
)
def test_a_flag_before_the_command_is_not_ignored(environment: dict[str, str], flags: list[str], said: str) -> None:
    done = subprocess.run(
        [*TERMCHAT, *flags, "run", "hi"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_bytes_that_are_not_utf8_get_a_mark_and_name_their_file(
    environment: dict[str, str], tmp_path: Path, model_path: Path
) -> None:
    model = os.fsencode(tmp_path) + b"/m\xe9.gguf"
    os.symlink(os.fsencode(model_path), model)
    args: list[str | bytes] = [b"caf\xe9", "--system", b"\xe9", "--stop", b"\xe9", "--model", model, "--json", *COMMON]
    done = subprocess.run([*TERMCHAT, "run", *args], env=environment, capture_output=True, text=True, check=False)
    records = stream(done)
    assert (records[0]["model"]["name"], records[0]["model"]["path"]) == ("m\ufffd", "m\ufffd.gguf")
    assert records[1]["conditions"][0]["text"] == "\ufffd"
    assert done.stderr == ""
    missing = subprocess.run(
        [*TERMCHAT, "run", "hi", "--json", "--model", model[:-6] + b"\xe8.gguf"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 1
    assert "\ufffd" in json.loads(missing.stdout)["message"]
    assert "Traceback" not in missing.stderr


def test_a_model_whose_advice_is_refused_says_so(environment: dict[str, str], tmp_path: Path, model_path: Path) -> None:
    """One metadata key is put in front of the others, in a file that ends where the tensors would begin."""
    data = model_path.read_bytes()[:4_000_000]
    key = b"general.sampling.temp"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<If", 6, 9.0)
    count = struct.unpack_from("<Q", data, 16)[0]
    made = tmp_path / "advice.gguf"
    made.write_bytes(data[:16] + struct.pack("<Q", count + 1) + entry + data[24:])
    with made.open("ab") as file:
        file.truncate(model_path.stat().st_size + 4096)
    done = run(environment, "hi", "--model", str(made), "--max-tokens", "1", "--context", "256")
    assert "the model's recommendation is ignored: temperature must be a number from 0 to 5, not 9" in done.stderr


def test_without_a_state_folder_it_answers(environment: dict[str, str]) -> None:
    environment["XDG_STATE_HOME"] = "/proc/none"
    done = run(environment, "hi", "--max-tokens", "2", "--threads", "1", "--context", "256")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_empty_line_is_a_prompt(environment: dict[str, str]) -> None:
    done = run(environment, "--raw", "\n", "--max-tokens", "2", "--threads", "1", "--context", "256")
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_the_prompt_is_read(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*TERMCHAT, "run"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs inherit it ignored
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"the first half")
    process.stdin.flush()
    end = time.monotonic() + 120
    while fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":  # until it has been read
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120) == (b"", b"")
    assert process.returncode == 130


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize(("target", "said"), [("/dev/full", "No space left on device"), ("&-", "stdout is closed")])
def test_output_that_cannot_be_written(environment: dict[str, str], form: str, target: str, said: str) -> None:
    command = f"{sys.executable} -m termchat run hi {form} --seed 7 --max-tokens 4 --context 256 --threads 1 >{target}"
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_failures_are_records_too(environment: dict[str, str]) -> None:
    done = run(environment, "word " * 400, "--context", "256", "--json")
    assert done.returncode == 1
    failed = json.loads(done.stdout)
    assert (failed["record"], failed["kind"]) == ("failed", "context")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_reply_in_good_order(environment: dict[str, str], number: int, code: int) -> None:
    process = subprocess.Popen(
        [*TERMCHAT, "run", "--raw", "Once upon a time", "--json", "--seed", "7", "--threads", "1"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(10)]  # without a buffer, which would keep the begin of the rest
    process.send_signal(number)
    rest, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert errors == b""
    records = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    assert (records[-1]["record"], records[-1]["reason"]) == ("finished", "user")


def test_ctrl_c_ends_a_reply_whose_engine_does_not_hear(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*TERMCHAT, "run", "--raw", "Once upon a time", "--json", "--seed", "7", "--threads", "1"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert not Path(f"/proc/{worker}").exists()


def test_a_closed_pipe_is_no_error(environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m termchat run --raw 'Once upon a time' --json --threads 1 | head -n 5"
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr == ""


def test_on_a_terminal_foreign_text_is_made_visible(environment: dict[str, str]) -> None:
    """The prompt makes the model repeat an escape sequence; what it says of ESC arrives as a mark."""
    main, side = pty.openpty()
    text = "\x1b[1m a \x1b[0m b " * 20
    process = subprocess.Popen(
        [*TERMCHAT, "run", "--raw", text, "--temperature", "0", *COMMON],
        env=environment, stdin=subprocess.DEVNULL, stdout=side, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(side)
    seen = b""
    while True:
        try:
            data = os.read(main, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    process.wait()
    os.close(main)
    assert process.stderr is not None
    process.stderr.close()
    assert b"\x1b" not in seen
    assert "␛".encode() in seen


def test_without_a_terminal_no_screen_is_started(environment: dict[str, str]) -> None:
    done = subprocess.run(
        TERMCHAT, env=environment, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert "termchat run" in done.stderr
    assert "\x1b" not in done.stdout


def test_version_and_help_import_nothing_that_takes_time(environment: dict[str, str]) -> None:
    done = subprocess.run([*TERMCHAT, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("termchat, version 0.")
    code = (
        "import sys, termchat.cli; print([m for m in ('numpy', 'llama_cpp', 'textual', 'jinja2') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_reply_begins_with_the_prefill_and_its_tokens_say_that_they_were_forced(environment: dict[str, str]) -> None:
    begin = "The three colours are: blue"
    records = stream(run(environment, "Name three colours.", *COMMON, "--prefill", begin, "--json"))
    tokens = [r for r in records if r["record"] == "token"]
    forced = [t for t in tokens if t["forced"]]
    assert tokens[: len(forced)] == forced
    assert "".join(t["text"] for t in forced) == begin
    assert len(tokens) > len(forced)


# --- on an engine that plays replies ---------------------------------------------------------------------------------


class Answered:
    """What `answer` did on an engine that plays these replies."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, asked: Question, *replies: list[Record], as_json: bool = False, **flags: object) -> int:
        self.engine = PlayedEngine(*replies)
        config = load(flags, {}, Path("/none"))
        code = running.answer(config, self.engine, asked, as_json=as_json, candidates=20)
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answered:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(running.signal, "signal", lambda *_: None)
    return Answered(capsys)


def told(text: bytes, end: Finished | None = None, seed: int = 42) -> list[Record]:
    """A reply of one token."""
    records = made_stream([1, 2, 3], [text], seed=seed)
    return [*records[:-1], end or finished("end", "<|im_end|>", "", 1)]


VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((Path(transcripts.__file__).parent / "transcript.schema.json").read_text("utf-8"))
)
FULL = finished("context", "512 of 512", "", 1)


def test_a_reply_that_the_context_cut_off_says_so_and_has_an_exit_code_of_its_own(answered: Answered) -> None:
    assert answered(Question("hi"), told(b"so", FULL)) == 3
    assert answered.out == "so"
    assert answered.err == (
        "termchat: the reply was cut off: the context is full (512 of 512 tokens)\n"
        "  shorten the prompt, or load the model with a larger --context\n"
    )
    assert answered(Question("hi"), told(b"so", FULL), as_json=True) == 3
    assert "cut off" in answered.err


@pytest.mark.parametrize(
    "end", [finished("length", "max_tokens 1", "", 1), finished("stop", "END", "END", 1), finished("end", "<e>", "", 1)]
)
def test_a_reply_that_ends_as_asked_is_a_success(answered: Answered, end: Finished) -> None:
    assert answered(Question("hi"), told(b"so", end)) == 0
    assert answered.err == ""


def test_a_message_that_is_too_long_is_a_failure(answered: Answered) -> None:
    assert answered(Question("x" * 1_000_001), told(b"so")) == 1
    assert "at most 1,000,000 characters" in answered.err


def test_part_of_a_character_at_the_end_is_printed_as_a_mark(answered: Answered) -> None:
    assert answered(Question("hi"), told(b"so \xe2\x82", finished("length", "max_tokens 1", "\ufffd", 1))) == 0
    assert answered.out == "so \ufffd"


def test_several_replies_have_a_heading_each_and_the_seeds_count_up(answered: Answered) -> None:
    assert answered(Question("hi", replies=2), told(b"one\n", seed=7), told(b"two", seed=8), seed=7) == 0
    assert answered.out == "==> reply 1 of 2, seed 7 <==\none\n\n==> reply 2 of 2, seed 8 <==\ntwo\n"
    assert [made.replies[0].seed for made in answered.engine.asked(Generate)] == [7, 8]
    assert answered(Question("hi", replies=3), told(b"one")) == 0
    assert len({made.replies[0].seed for made in answered.engine.asked(Generate)}) == 3
    assert answered(Question("hi", replies=2), told(b"one", FULL), told(b"two")) == 3
    assert "reply 1 was cut off" in answered.err
    assert "==> reply 2 of 2" in answered.out


def test_each_of_several_replies_begins_with_the_prefill(answered: Answered) -> None:
    assert answered(Question("hi", prefill="Sure", replies=3), told(b"Sure")) == 0
    assert [[entry.id for entry in made.replies[0].script] for made in answered.engine.asked(Generate)] == [[7, 8]] * 3
    assert answered.out.count("Sure") == 3


def test_each_record_of_several_replies_has_their_number(answered: Answered) -> None:
    assert answered(Question("hi", replies=2), told(b"one"), told(b"two"), as_json=True) == 0
    lines = [json.loads(line) for line in answered.out.splitlines()]
    for line in lines:
        VALIDATOR.validate(line)
    numbers = [1] * (len(lines) // 2) + [2] * (len(lines) // 2)
    assert [line["reply"] for line in lines] == numbers
    assert [line["record"] for line in lines].count("start") == 2
    assert answered(Question("hi"), told(b"one"), as_json=True) == 0
    assert not any("reply" in json.loads(line) for line in answered.out.splitlines())


SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "My name "}, {"type": "text", "text": "is Bo."}]},
    {"role": "assistant", "content": "Hello Bo!"},
    {"role": "user", "content": "Who am I?"},
]
HEARD = [
    Message("system", "Be brief."),
    Message("user", "My name is Bo."),
    Message("assistant", "Hello Bo!"),
    Message("user", "Who am I?"),
]


@pytest.mark.parametrize("form", [SAID, {"messages": SAID, "model": "gpt-x"}])
def test_the_model_hears_all_messages(answered: Answered, tmp_path: Path, form: object) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(form))
    assert answered(Question(None, file), told(b"Bo")) == 0
    assert answered.out == "Bo"
    assert [asked.messages for asked in answered.engine.asked(Render)] == [HEARD]


def test_a_prompt_comes_after_the_messages_and_a_system_prompt_where_they_have_none(
    answered: Answered, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(SAID[1:3]))
    assert answered(Question("Who am I?", file, replies=2), told(b"Bo"), system="Be brief.") == 0
    assert [asked.messages for asked in answered.engine.asked(Render)] == [HEARD]  # once for all replies


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(SAID[:3]), "the last message in chat.json is the assistant's\n  End with a user message"),
        ('[{"role": "user",\n"content": 1}]', "chat.json, line 1: Expected `str | array | null`, got `int`"),
        ('[{"role": "tool", "content": "x"}]', "chat.json, line 1: a message with the unsupported role 'tool'"),
        ('[{"role": "user", "content": [{"type": "image_url"}]}]', "a 'image_url' part; only text is supported"),
        ('{"messages": [\n', "chat.json, line 2: it is cut off: the end is missing"),
        ("hello", "chat.json, line 1: not a JSON object"),
        ("[]", "chat.json contains no chat"),
        ("", "chat.json is empty"),
        (json.dumps({"messages": SAID}) * 2, "chat.json contains more than one chat"),
    ],
)
def test_messages_that_cannot_be_asked_say_where_and_what_to_do(
    answered: Answered, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "chat.json"
    file.write_text(text)
    assert answered(Question(None, file), told(b"Bo")) == 1
    assert said in answered.err
    assert len(answered.err.splitlines()) == 2
    assert not answered.engine.commands


def test_two_system_prompts_are_one_too_many(answered: Answered, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(SAID))
    assert answered(Question(None, file), told(b"Bo"), system="Be long.") == 1
    assert "--system is given, but chat.json has a system message, too" in answered.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--raw", "--messages", __file__], "--raw completes PROMPT; it takes no --messages"),
        (["-", "--messages", "-"], "PROMPT and --messages cannot both be read from stdin"),
        (["--messages", "/nowhere.json"], "does not exist"),
        (["hi", "-n", "0"], "1<=x<=10000"),
        (["hi", "-n", "2", "--seed", "9007199254740991"], "the seed of the last reply would be larger"),
    ],
)
def test_what_does_not_go_together_is_refused(args: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["run", *args])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_llama_cpps_names_of_flags_are_understood(environment: dict[str, str]) -> None:
    args = ("--raw", "a", "--temp", "0", "--n-predict", "2", "--ctx-size", "256", "--threads", "1", "--json")
    records = stream(run(environment, *args))
    assert records[1]["samplers"]["temperature"] == 0
    assert records[-1]["detail"] == "max_tokens 2"


def test_later_replies_are_those_of_their_seeds_and_read_the_prompt_no_more(environment: dict[str, str]) -> None:
    both = stream(run(environment, "Name three colours.", *COMMON, "-n", "2", "--json"))
    again = stream(run(environment, "Name three colours.", *COMMON, "--seed", "8", "--json"))
    second = [record for record in both if record["reply"] == 2]
    assert (second[0]["seed"], second[2]["reused"], second[2]["shapes"]) == (8, second[2]["tokens"] - 1, [1])
    kept = ("id", "probability", "candidates")
    assert [[r[name] for name in kept] for r in second if r["record"] == "token"] == [
        [r[name] for name in kept] for r in again if r["record"] == "token"
    ]


NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--beams", "2"], "search with beams: it decides by itself what it computes together"),
        (["--draft", "ngram"], "draft tokens: it decides by itself what it computes together"),
    ],
)
def test_what_an_engine_cannot_do_is_a_usage_error_before_anybody_is_asked(
    environment: dict[str, str], flags: list[str], said: str
) -> None:
    done = run(environment, "hi", "--engine", NOBODY, *flags)
    assert done.returncode == running.USAGE
    assert done.stderr.startswith(f"termchat: {NOBODY} cannot {said}\n")
    assert "a model on this machine or one over ssh:// can" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("kind", "flags", "said"),
    [
        ("llama-server", ["--regex", "[0-9]+"], "lab cannot follow a regex constraint: it takes"),
        ("llama-server", ["--rule", "survivors < 2"], "lab does not tell what its sampler chain leaves"),
        ("vllm", ["--temperature", "3"], "lab cannot use temperature 3: it takes 0 to 2"),
        ("vllm", ["--logit-bias", "5=500"], "lab cannot use logit_bias 500: it takes -100 to 100"),
    ],
)
def test_what_an_engine_does_not_take_is_a_usage_error_too(
    environment: dict[str, str], kind: str, flags: list[str], said: str
) -> None:
    config = Path(environment["XDG_CONFIG_HOME"]) / "termchat"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(f'[engines.lab]\nurl = "{NOBODY}"\nkind = "{kind}"\ndraws = "server"\n')
    done = run(environment, "hi", "--engine", "lab", *flags)
    assert done.returncode == running.USAGE, done.stderr
    assert said in done.stderr
