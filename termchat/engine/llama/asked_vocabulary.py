"""Answers to questions about texts and tokens: they take a `Vocabulary` alone."""

from __future__ import annotations

from contextlib import suppress

from termchat.engine.llama.template import ChatTemplate
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, Render, Tokenized


class AskedVocabulary:
    """Whoever derives from it sets `model` first."""

    model: Vocabulary

    def __init__(self) -> None:
        self._template: ChatTemplate | None = None

    @property
    def has_switch(self) -> bool:
        """Whether the template can turn the model's thoughts on and off."""
        if self.model.has_switch:
            return True
        with suppress(EngineError):  # it is told when a chat needs the template
            self._template = self._template or ChatTemplate(self.model)
            return self._template.has_switch
        return False

    def render(self, command: Render) -> tuple[list[int], bool]:
        """Prompt ids, and whether they are the whole prompt; see `Render`."""
        if self._template is None:
            self._template = ChatTemplate(self.model)
        if command.after_reply:
            ids = self._template.ids_after_reply(command.messages, command.reply_ended, command.think)
            if ids is not None:
                return ids, False
        return self._template.ids(command.messages, command.think), True

    def describe(self, ids: list[int]) -> Tokenized:
        return describe(self.model, ids)


def describe(model: Vocabulary, ids: list[int]) -> Tokenized:
    """Bytes and labels of ids.

    Raises:
        EngineError: one is not in the vocabulary.
    """
    unknown = next((i for i in ids if not 0 <= i < model.n_vocab), None)
    if unknown is not None:
        raise EngineError("prompt", f"token {unknown} is not in this model's vocabulary", "")
    control = [index for index, i in enumerate(ids) if model.is_control(i)]
    return Tokenized(ids, [model.piece(i) for i in ids], [model.name(i) for i in ids], control)
