"""The message in a person's own editor, while the chat goes on unseen."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from textual.app import SuspendNotSupported

from termchat.tui.composer.labelled import LARGEST

Suspend = Callable[[], AbstractContextManager[None]]
"""Gives the terminal to another program, for as long as the context lasts; raises SuspendNotSupported."""

_USUAL = ("vi", "nano")
"""Editors that are there where nobody has named one."""


class EditorProblem(Exception):
    """The text could not be edited; the message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def command() -> list[str]:
    """The editor that $VISUAL or $EDITOR names, with what stands behind its name, else one that is usual.

    Raises:
        EditorProblem: there is none.
    """
    named = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if named:
        try:
            return shlex.split(named)
        except ValueError as error:
            raise EditorProblem(f"$VISUAL or $EDITOR cannot be read: {error}") from error
    found = next((editor for editor in _USUAL if shutil.which(editor)), None)
    if found is None:
        raise EditorProblem("there is no editor", "name one in $VISUAL or $EDITOR")
    return [found]


async def edit(text: str, suspend: Suspend) -> str:
    """The text as the editor left it; the event loop goes on meanwhile.

    Raises:
        EditorProblem: there is no editor, or it failed, or what it left cannot be read. What was written then is in the file
            that the hint names.
    """
    words = command()
    descriptor, name = tempfile.mkstemp(prefix="termchat-", suffix=".md")  # for its owner alone
    file, keep = Path(name), False
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text.encode("utf-8", "surrogatepass"))
        before = file.stat().st_mtime_ns
        code = await _run([*words, name], suspend)
        keep = file.exists() and file.stat().st_mtime_ns != before
        if code != 0:
            raise EditorProblem(f"{words[0]} ended with {code}", _kept(file) if keep else "")
        edited = _read(file)
        keep = False
    except OSError as error:
        raise EditorProblem(f"{words[0]}: {error.strerror or error}", _kept(file) if keep else "") from error
    finally:
        if not keep:
            with suppress(OSError):
                file.unlink()
    return edited if text.endswith("\n") else edited.removesuffix("\n")  # which most editors add


def _kept(file: Path) -> str:
    return f"what was written there is in {file}"


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(4 * LARGEST + 1)
    try:
        edited = data.decode("utf-8", "surrogatepass").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise EditorProblem("what the editor left is not UTF-8 text", _kept(file)) from error
    if len(edited) > LARGEST:
        raise EditorProblem(f"what the editor left has more than {LARGEST:,} characters", _kept(file))
    return edited


async def _run(words: list[str], suspend: Suspend) -> int:
    """The editor's exit code."""
    try:
        with suspend():
            ended = await _ended(words)
    except SuspendNotSupported as error:
        raise EditorProblem("this terminal cannot be given to an editor") from error
    if isinstance(ended, OSError):
        raise EditorProblem(f"{words[0]} cannot be run: {ended.strerror}", "see $VISUAL and $EDITOR")
    return ended


async def _ended(words: list[str]) -> int | OSError:
    """The exit code, or why the editor did not begin. Raised, that would have Textual not take the terminal back."""
    try:
        process = await asyncio.create_subprocess_exec(*words)
    except OSError as error:
        return error
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # the app ends
            with suppress(ProcessLookupError):
                process.terminate()
