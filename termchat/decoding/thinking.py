"""The thoughts of a reply: between which tags they stand, and which of its tokens they are."""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["thinking", "answer"]


class ThinkingTags(msgspec.Struct, frozen=True):
    """The texts around a model's thoughts, and the text forced to end them ("" means the closing tag)."""

    opening: str
    closing: str
    forced: str = ""

    @property
    def ending(self) -> str:
        return self.forced or self.closing


_KNOWN = (
    ThinkingTags("<think>", "</think>", "\n</think>\n\n"),
    ThinkingTags("[THINK]", "[/THINK]"),
    ThinkingTags("<seed:think>", "</seed:think>"),
    ThinkingTags("<thought>", "</thought>", "\n</thought>\n\n"),
    ThinkingTags("<thinking>", "</thinking>", "\n</thinking>\n\n"),
    ThinkingTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ThinkingTags("<|inner_prefix|>", "<|inner_suffix|>"),
    ThinkingTags("◁think▷", "◁/think▷"),
    ThinkingTags("<|channel>thought", "<channel|>"),
    ThinkingTags("<|channel|>analysis<|message|>", "<|end|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)
"""The formats of common chat templates. The last is gpt-oss's, whose template writes the parts of its tags apart."""
_SIGNS = {tags.closing: (tags.closing,) for tags in _KNOWN} | {"<|end|>": ("<|channel|>analysis", "<|end|>")}
"""Closing tag to the texts by which a template shows that it is used: some cut old thoughts at the closing one, and never
write the opening one."""


def tags_of(template: str) -> ThinkingTags | None:
    """Return the tags that a chat template's source names; None for a model that does not think."""
    return next((tags for tags in _KNOWN if all(sign in template for sign in _SIGNS[tags.closing])), None)


def tags_from(texts: tuple[str, ...]) -> ThinkingTags | None:
    """Make tags of configured texts: the opening and the closing one, and the forced ending if it differs; None for any other
    number of texts."""
    return ThinkingTags(*texts) if len(texts) in (2, 3) else None


class PhaseParser:
    """The bytes of a reply's tokens in, the phase of each token out; control tokens go in by their names.

    Thoughts stand at the begin of a reply, behind white space at most; the tags belong to them. `prompt` is the end of what
    stands before the reply: where that opens the thoughts, the reply begins inside them. Without tags all is the answer.
    `thought` counts the tokens of the thoughts.
    """

    def __init__(self, tags: ThinkingTags | None, prompt: bytes = b"") -> None:
        self._opening = tags.opening.encode() if tags is not None else b""
        self._closing = tags.closing.encode() if tags is not None else b""
        self.phase: Phase | None = None if tags is not None else "answer"
        self._seen = b""
        self.thought = 0
        if tags is not None and prompt.rstrip().endswith(self._opening):
            self.phase = "thinking"

    def push_piece(self, piece: bytes) -> Phase | None:
        """Add the bytes of a token; return its phase, None while it is not known: it is then the first phase that is known."""
        if self.phase == "answer":
            return "answer"
        self._seen += piece
        self.thought += 1
        if self.phase is None:
            seen = self._seen = self._seen.lstrip()
            if self._opening.startswith(seen):
                if seen != self._opening:
                    return None
            elif not seen.startswith(self._opening):
                self.phase, self.thought, self._seen = "answer", 0, b""
                return "answer"
            self.phase, self._seen = "thinking", seen[len(self._opening) :]
        if self._closing in self._seen:
            self.phase, self._seen = "answer", b""
        else:
            self._seen = self._seen[-len(self._closing) + 1 :] if len(self._closing) > 1 else b""
        return "thinking"
