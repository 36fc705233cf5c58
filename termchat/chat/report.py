"""A report that can be shown to strangers: sections of rows, and what to do, free of secrets and of who wrote it."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from termchat.text import sanitize

_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_LOOKS_SECRET = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{8,}|(?<=://)[^/@\s]+@")
_WIDTH = 18


class Section(msgspec.Struct):
    """Rows of a name and a text, under a title."""

    title: str
    rows: list[tuple[str, str]] = []


class Report(msgspec.Struct):
    """What was found, and what to do about it, in order."""

    sections: list[Section] = []
    todo: list[str] = []

    def section(self, title: str) -> Section:
        """A new one, the last."""
        self.sections.append(Section(title))
        return self.sections[-1]

    def advise(self, what: str) -> None:
        """One more thing to do; the same one only once."""
        if what not in self.todo:
            self.todo.append(what)

    def cleaned(self) -> Report:
        """The report as others may see it."""
        private = Private()
        sections = [
            Section(section.title, [(private.clean(name), private.clean(text)) for name, text in section.rows])
            for section in self.sections
        ]
        return Report(sections, [private.clean(line) for line in self.todo])

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for section in self.sections:
            yield section.title
            for name, text in section.rows:
                yield f"  {name:<{_WIDTH}} {text}".rstrip()
            yield ""
        yield "What to do"
        for line in self.todo or ["nothing: all is well"]:
            yield f"  {line}"

    def as_dict(self) -> dict[str, object]:
        """The report for programs."""
        sections = {
            section.title: [{"name": name, "text": text} for name, text in section.rows] for section in self.sections
        }
        return {"sections": sections, "todo": self.todo}


class Private:
    """What must not be seen by others: secrets, the home folder, the user's name in a path. And no control characters."""

    def __init__(self) -> None:
        home = Path.home()
        self._homes = sorted({str(home), os.path.realpath(home)} - {"/", ""}, key=len, reverse=True)
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # nobody knows this user
            user = ""
        self._user = re.compile(rf"(?<=[/\\]){re.escape(user)}(?![\w.-])") if user and user != "root" else None
        self._secrets = [secret for name in _TOKENS if len(secret := os.environ.get(name, "")) > 3]

    def clean(self, text: str) -> str:
        """The text on one line, without any of it."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = _LOOKS_SECRET.sub("…", text)
        for home in self._homes:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        if self._user is not None:
            text = self._user.sub("USER", text)
        return " ".join(sanitize(text).split())
