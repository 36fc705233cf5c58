"""Writes transcripts, in one step: a file is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

from termchat import atomic
from termchat.conversation.session import Session
from termchat.conversation.transcripts import Format, of_file
from termchat.conversation.transcripts.transcript import Records, TranscriptError
from termchat.conversation.tree import Conversation


def write(
    path: Path,
    conversation: Conversation,
    info: Session,
    records: Records,
    *,
    form: Format | None = None,
    replace: bool = True,
) -> Path:
    """Write a transcript, in the format of the path's ending if no other is given; return the path really written.

    Only its owner can read a new file. An existing one is replaced and keeps its mode; with `replace` False it is refused.

    Raises:
        TranscriptError: it cannot be written; the message says what and where, the hint what to do.
    """
    try:
        path = path.expanduser().resolve()
        if path.is_dir():
            raise TranscriptError(f"{path} is a folder", f"Add a file name, such as {path / 'chat.md'}.")
        form = form or of_file(path)
        if not path.parent.is_dir():
            raise TranscriptError(
                f"the folder {path.parent} does not exist", "Create it first, or choose another folder."
            )
        if path.exists() and not path.is_file():
            raise TranscriptError(f"{path} is not a regular file", "Choose another name; - is standard output.")
        if path.exists() and not replace:
            raise FileExistsError
        with atomic.writing(path, overwrite=replace) as file:
            for line in form.writer(conversation, info, records):
                file.write(f"{line}\n".encode("utf-8", "replace"))
    except FileExistsError as error:
        raise TranscriptError(f"{path} exists", "Choose another name; --force overwrites it.") from error
    except PermissionError as error:
        raise TranscriptError(f"permission denied: {path}", "Choose a folder you can write to.") from error
    except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise TranscriptError(f"{path} cannot be written: {reason}", "Choose another location.") from error
    return path
