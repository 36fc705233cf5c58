"""The composer in the real program: the editor, files, what was written in the session before."""

from __future__ import annotations

import signal
from pathlib import Path
from time import monotonic, sleep

from tests.whole.chat_steps import COMMAND, ENDLESS, FLAGS, SHELL, Open, counting, gone, over, ready, stop, stored
from tests.whole.terminal import Terminal

F8 = "\x1b[19~"
EDITOR = """
trap '' INT
stat -c %a "$1" > {home}/mode
cp "$1" {home}/before.md
echo EDITING HERE
while [ ! -e {home}/go ]; do sleep 0.05; done
cp {home}/after.md "$1"
exit $(cat {home}/code)
"""


def with_editor(open_terminal: Open, home: Path) -> Terminal:
    script = home / "my editor.sh"
    script.write_text(EDITOR.format(home=home))
    (home / "code").write_text("0")
    return open_terminal(*ENDLESS, VISUAL=f"sh '{script}'", EDITOR="false")


def edited(home: Path, after: str, code: int = 0) -> None:
    """The editor is open, and ends with this text."""
    (home / "after.md").write_text(after)
    (home / "code").write_text(str(code))
    (home / "go").touch()


def test_the_editor_has_the_terminal_while_the_reply_goes_on(open_terminal: Open, tmp_path: Path) -> None:
    terminal = with_editor(open_terminal, tmp_path)
    counting(terminal)
    ours = terminal.modes
    terminal.keys("half a message")
    terminal.wait("half a message")
    since = len(terminal.output)
    terminal.keys(F8)
    terminal.wait("EDITING HERE")
    terminal.wait(lambda: terminal.modes == terminal.before[:4])
    left = bytes(terminal.output[since:])
    assert b"\x1b[?1049l" in left
    assert b"\x1b[?2004l" in left
    assert b"\x1b[<u" in left
    assert (tmp_path / "mode").read_text().strip() == "600"
    assert (tmp_path / "before.md").read_text() == "half a message"
    terminal.keys("ctrl+c")  # is the editor's
    before, since = len(stored(tmp_path)), len(terminal.output)
    terminal.wait(lambda: len(stored(tmp_path)) > before + 60)
    assert b"\x1b[" not in terminal.output[since:]  # nothing of ours is drawn meanwhile
    edited(tmp_path, "a whole\nmessage\n")
    terminal.wait("a whole")
    terminal.wait("CHAIN")
    terminal.wait(lambda: terminal.modes == ours)
    back = bytes(terminal.output[since:])
    assert b"\x1b[?2004h" in back
    assert b"\x1b[>" in back
    terminal.keys("!")
    terminal.wait("message!")
    terminal.paste("pasted")
    terminal.wait("message!pasted")
    stop(terminal)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_an_editor_that_fails_or_leaves_nothing_loses_nothing(open_terminal: Open, tmp_path: Path) -> None:
    terminal = with_editor(open_terminal, tmp_path)
    ready(terminal)
    terminal.keys("my words", F8)
    terminal.wait("EDITING HERE")
    edited(tmp_path, "other words", code=3)
    terminal.wait("exited with code 3")
    terminal.wait("my words")
    (tmp_path / "go").unlink()
    terminal.keys(F8)
    terminal.wait("EDITING HERE")
    edited(tmp_path, "")
    terminal.wait("the editor returned an empty message")
    terminal.wait("write a message")
    terminal.keys("\x1f")  # Ctrl+_
    terminal.wait("my words")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def test_what_was_written_and_what_a_file_says(open_terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "facts.txt").write_text("The fox is called Ferdinand.\n")
    terminal = open_terminal(*FLAGS, "--max-tokens", "5")
    ready(terminal)
    terminal.keys(f"Who is it? @{tmp_path}/fac")
    terminal.wait("facts.txt")
    terminal.keys("tab")
    terminal.wait("29 B")  # counted with the file
    terminal.keys("enter")
    terminal.wait("The fox is called Ferdinand.")
    terminal.wait(lambda: over(tmp_path) > 0 and terminal.is_ready)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    again = open_terminal(*FLAGS)
    ready(again)
    again.keys("WHO".lower(), "up")
    again.wait("Who is it? @")
    again.keys("down")
    again.wait("› who")
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_the_app_that_is_ended_ends_its_editor(open_terminal: Open, tmp_path: Path) -> None:
    terminal = with_editor(open_terminal, tmp_path)
    ready(terminal)
    terminal.keys("my words", F8)
    terminal.wait("EDITING HERE")
    children = Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
    (editor,) = (int(pid) for pid in children if b"my editor" in Path(f"/proc/{pid}/cmdline").read_bytes())
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM
    assert terminal.restored()
    end = monotonic() + 15
    while not gone(editor):
        assert monotonic() < end
        sleep(0.02)


def test_where_the_editor_cannot_be_run_the_terminal_is_the_chats_again(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS, EDITOR="/none/such")
    ready(terminal)
    ours = terminal.modes
    terminal.keys("some words", F8)
    terminal.wait("/none/such cannot be run: No such file or directory")
    terminal.wait("CHAIN")
    terminal.wait(lambda: terminal.modes == ours)
    terminal.keys("!")
    terminal.wait("› some words!")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def test_an_editor_that_is_put_in_the_background_comes_back_with_fg(open_terminal: Open, tmp_path: Path) -> None:
    script = tmp_path / "editor.sh"
    script.write_text('echo EDITING\nkill -TSTP 0\nsleep 0.3\necho AGAIN\nprintf more > "$1"\n')
    terminal = open_terminal(program=SHELL, PS1="shell> ", EDITOR=f"sh {script}")
    terminal.wait("shell>")
    terminal.keys(COMMAND + "\r")
    ready(terminal)
    ours = terminal.modes
    terminal.keys("some words", F8)
    terminal.wait("Stopped")
    terminal.settle()
    since = len(terminal.output)
    terminal.keys("fg\r")
    terminal.wait("CHAIN")
    terminal.wait("› more")
    terminal.wait(lambda: terminal.modes == ours)
    back = bytes(terminal.output[since:])
    assert back.index(b"AGAIN") < back.index(b"\x1b[?1049h")  # the terminal was the editor's until its end
    terminal.keys("ctrl+q")
    terminal.wait("shell>")
