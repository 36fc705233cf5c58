"""`termchat sessions export` and `import`, as a shell sees them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from termchat import paths
from termchat.cli import main
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import importing
from tests.formats import example_chats


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def session(tmp_path: Path) -> str:
    """A saved chat."""
    store = Store.open(paths.store_file())
    (transcript,) = importing.chats(example_chats.whole().write(tmp_path / "first.jsonl", "jsonl"))
    found = importing.keep_transcript(store, transcript)
    store.close()
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["sessions", *words])


def test_a_chat_goes_out_to_the_screen_and_in_again(session: str) -> None:
    done = run("export", "last")
    assert done.exit_code == 0
    assert json.loads(done.stdout.splitlines()[0])["id"] == session
    Path("chat.jsonl").write_text(done.stdout)
    done = run("import", "chat.jsonl")
    assert done.exit_code == 0
    other = done.stdout.strip()
    assert "fox and bear" in done.stderr
    first, again = (run("export", name).stdout.splitlines() for name in (session, other))
    assert other != session
    assert again[1:] == first[1:]


def test_the_files_ending_or_the_flag_says_the_format(session: str) -> None:
    assert run("export", session, "-o", "chat.html").exit_code == 0
    assert Path("chat.html").read_text().startswith("<!doctype html>")
    assert run("export", session, "-o", "chat.txt", "--format", "csv").exit_code == 0
    assert Path("chat.txt").read_text().startswith("node,step,")
    assert run("export", session, "--format", "md").stdout.startswith("# fox and bear\n")
    done = run("export", session, "-o", "chat.doc")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "chat.doc has no known transcript extension" in done.stderr


def test_a_file_is_replaced_only_by_force(session: str) -> None:
    Path("chat.md").write_text("mine")
    done = run("export", session, "-o", "chat.md")
    assert done.exit_code == 1
    assert "--force" in done.stderr
    assert Path("chat.md").read_text() == "mine"
    assert run("export", session, "-o", "chat.md", "--force").exit_code == 0
    assert Path("chat.md").read_text().startswith("# fox and bear\n")


def test_the_good_files_are_taken_in_and_the_fault_of_another_is_told() -> None:
    example_chats.whole().write(Path("good.json"), "sharegpt")
    Path("bad.json").write_text('{"messages": [\n{"role": "\x1b[31m", "content": "x"}]}')
    done = run("import", "bad.json", "good.json", "none.json")
    assert done.exit_code == 1
    assert len(done.stdout.split()) == 1
    assert "bad.json, line 1: " in done.stderr
    assert "none.json cannot be read: No such file" in done.stderr
    assert "\x1b" not in done.stderr
    shown = run("export", done.stdout.strip(), "--format", "openai")
    assert json.loads(shown.stdout)["messages"][0] == {"role": "system", "content": "Be brief."}


def test_what_a_shell_names_as_a_pipe_is_taken_in_and_one_without_a_writer_is_empty(session: str) -> None:
    data = run("export", session).stdout_bytes
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb") as end:  # as in: termchat sessions import <(…)
        end.write(data)
        end.close()
        done = run("import", f"/dev/fd/{reader}")
    assert done.exit_code == 0, done.stderr
    assert run("export", done.stdout.strip()).stdout.splitlines()[1:] == data.decode().splitlines()[1:]
    os.mkfifo("pipe.jsonl")
    done = run("import", "pipe.jsonl")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (1, "termchat: pipe.jsonl is empty")
    done = run("import", "/dev/null")
    assert "/dev/null cannot be read: it is a device, not a regular file" in done.stderr


def test_what_is_piped_in_is_taken_in(session: str) -> None:
    data = run("export", session).stdout_bytes
    done = CliRunner().invoke(main, ["sessions", "import", "-"], input=data)
    assert done.exit_code == 0
    assert run("export", done.stdout.strip()).stdout.splitlines()[1:] == data.decode().splitlines()[1:]
    done = CliRunner().invoke(main, ["sessions", "import", "-"], input=data[:-9])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "termchat: stdin, line " in done.stderr


def test_no_more_is_kept_of_what_is_piped_in_than_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST_BYTES", 1 << 16)
    monkeypatch.setattr(importing, "_CHUNK", 1 << 12)
    with Path("/dev/zero").open("rb") as endless, importing.copy_piped(endless) as path:
        assert 1 << 16 < path.stat().st_size <= (1 << 16) + (1 << 12)
    assert not path.exists()


def test_half_characters_are_told(session: str) -> None:
    lines = [json.loads(line) for line in run("export", session).stdout.splitlines()]
    lines[0]["title"] = "half \ud800"
    Path("own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("other.json").write_text(json.dumps([{"role": "user", "content": "a\ud800\udbff"}]))
    done = run("import", "own.jsonl", "other.json")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "imported half \ufffd",
        "  1 half character in it was replaced by U+FFFD: half a character cannot be stored",
        "imported a\ufffd\ufffd",
        "  2 half characters in it were replaced by U+FFFD: half a character cannot be stored",
    ]
    own, other = done.stdout.split()
    assert [json.loads(line) for line in run("export", own).stdout.splitlines()][1:] == lines[1:]
    assert json.loads(run("show", other, "--json").stdout)["turns"][0]["text"] == "a\ufffd\ufffd"


CHAT = json.dumps([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    ("data", "told", "hint"),
    [
        (b"", "is empty", "contains a chat"),
        (b" \r\n\n", "is empty", "contains a chat"),
        (gzip.compress(CHAT.encode()), "is compressed with gzip", "Decompress it"),
        (b"PK\x03\x04" + bytes(30), "is compressed with zip", "Decompress it"),
        (CHAT.encode("utf-16"), "is UTF-16, not UTF-8", "iconv"),
        (CHAT.encode("utf-16-le"), "is UTF-16, not UTF-8", "iconv"),
        (CHAT.encode("utf-16-be"), "is UTF-16, not UTF-8", "iconv"),
        ('[{"role": "user", "content": "café"}]'.encode("latin-1"), ", line 1: it is not UTF-8", "Expected {"),
        ('{"record": "session", "title": "café"}\n'.encode("latin-1"), ", line 1: it is not UTF-8", "Use a chat"),
        (bytes(range(256)) * 300, "is not in a known transcript format", "--format"),
    ],
    ids=range(10),
)
def test_a_file_of_another_kind_is_told_by_its_kind(data: bytes, told: str, hint: str) -> None:
    Path("file").write_bytes(data)
    done = run("import", "file")
    assert (done.exit_code, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.replace("file ", "file").startswith(f"termchat: file{told}")
    assert hint in second


def test_marks_of_other_systems_do_not_matter(session: str) -> None:
    data = run("export", session).stdout_bytes
    Path("windows.jsonl").write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    done = run("import", "windows.jsonl")
    assert done.exit_code == 0, done.stderr
    assert run("export", done.stdout.strip()).stdout.splitlines()[1:] == data.decode().splitlines()[1:]


def test_a_chat_that_is_not_there_is_told() -> None:
    done = run("export", "nothing")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no saved chat nothing" in done.stderr
