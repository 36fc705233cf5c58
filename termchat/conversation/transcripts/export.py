"""Writes transcripts: a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from termchat.conversation.session import SessionInfo
from termchat.conversation.transcripts import Format, of_file
from termchat.conversation.transcripts.transcript import Records, TranscriptError
from termchat.conversation.tree import Conversation


def write(
    path: Path,
    conversation: Conversation,
    info: SessionInfo,
    records: Records,
    *,
    form: Format | None = None,
    replace: bool = True,
) -> Path:
    """Writes a transcript, in the format of the path's ending if no other is given; returns the path really written.

    Only its owner can read the file. One that was there is replaced, or with `replace` False refused.

    Raises:
        TranscriptError: it cannot be written; the message says what and where, the hint what to do.
    """
    try:
        path = path.expanduser().resolve()
        if path.is_dir():
            raise TranscriptError(f"{path} is a folder", f"Add a file name, such as {path / 'chat.md'}.")
        form = form or of_file(path)
        if not path.parent.is_dir():
            raise TranscriptError(f"there is no folder {path.parent}", "Make it first, or choose another one.")
        if path.exists() and not path.is_file():
            raise TranscriptError(f"{path} is no regular file", "Choose another name; - is standard output.")
        if path.exists() and not replace:
            raise FileExistsError
        _put(path, form.writer(conversation, info, records), replace=replace)
    except FileExistsError as error:
        raise TranscriptError(f"{path} exists", "Choose another name; --force replaces it.") from error
    except PermissionError as error:
        raise TranscriptError(f"no permission to write {path}", "Choose a folder that is yours.") from error
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise TranscriptError(f"{path} cannot be written: {reason}", "Choose another place.") from error
    return path


def _put(path: Path, lines: Iterable[str], *, replace: bool) -> None:
    part = path.with_name(f".{path.name[:60]}.part")  # of 60 characters any file system takes the bytes
    part.unlink(missing_ok=True)  # what an export that was killed has left
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        try:
            for line in lines:
                file.write(line + "\n")
            file.flush()
            os.fsync(descriptor)
            if not _is(part, descriptor):
                raise OSError(errno.EBUSY, "another program is writing it")
            if replace or not _linked(part, path):
                os.replace(part, path)
        finally:
            with contextlib.suppress(OSError):
                if _is(part, descriptor):
                    part.unlink()


def _is(path: Path, descriptor: int) -> bool:
    """Whether the open file still has that name, and no other export to the same place took it away."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _linked(part: Path, path: Path) -> bool:
    """Gives the file its name unless that is taken, also since it was looked at; False where the file system has no links."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError from None
        return False
    return True
