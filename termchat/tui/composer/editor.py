"""The message in a person's own editor, while the chat runs on out of sight."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from textual.app import SuspendNotSupported

from termchat import regular_files
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.external_editor import EditorError, editor_command

Suspend = Callable[[], AbstractContextManager[None]]
"""Leaves the terminal to another program while the context lasts; raises SuspendNotSupported."""


async def edit(text: str, suspend: Suspend) -> str:
    """Has the text edited, and returns what the editor saved; the event loop runs meanwhile.

    Raises:
        EditorError: there is no editor, it failed, or its text cannot be read. The hint then names the file with the text, if
            anything was written.
    """
    words = editor_command()
    descriptor, name = tempfile.mkstemp(prefix="termchat-", suffix=".md")  # for its owner alone
    file, keep = Path(name), False
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text.encode("utf-8", "surrogatepass"))
        before = file.stat().st_mtime_ns
        code = await _run([*words, name], suspend)
        keep = file.exists() and file.stat().st_mtime_ns != before
        if code != 0:
            raise EditorError(f"{words[0]} exited with code {code}", _kept(file) if keep else "")
        edited = _read(file)
        keep = False
    except OSError as error:
        raise EditorError(f"{words[0]}: {error.strerror or error}", _kept(file) if keep else "") from error
    finally:
        if not keep:
            with suppress(OSError):
                file.unlink()
    return edited if text.endswith("\n") else edited.removesuffix("\n")  # which most editors add


def _kept(file: Path) -> str:
    return f"your text is in {file}"


def _read(file: Path) -> str:
    with regular_files.opened(file) as opened:
        data = opened.read(4 * LARGEST_MESSAGE + 1)
    try:
        edited = data.decode("utf-8", "surrogatepass").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise EditorError("the edited text is not UTF-8", _kept(file)) from error
    if is_too_large(edited):
        raise EditorError(f"the edited text has more than {LARGEST_MESSAGE:,} characters", _kept(file))
    return edited


async def _run(words: list[str], suspend: Suspend) -> int:
    """The exit code. Raises EditorError where the editor cannot be started."""
    try:
        with suspend():
            ended = await _ended(words)
    except SuspendNotSupported as error:
        raise EditorError("an editor cannot run in this terminal") from error
    if isinstance(ended, OSError):
        raise EditorError(f"{words[0]} cannot be run: {ended.strerror}", "see $VISUAL and $EDITOR")
    return ended


async def _ended(words: list[str]) -> int | OSError:
    """The exit code, or why the editor did not start: if raised here, Textual would not take the terminal back."""
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
