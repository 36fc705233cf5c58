"""Answers to questions about texts and tokens: they take a `Vocabulary` alone."""

from __future__ import annotations

from contextlib import suppress

from termchat.engine.llama.template import ChatTemplate, RenderedPrompt
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, Message, Render, Rendered, Tokenized


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

    def render(self, command: Render) -> Rendered:
        """Prompt ids; see `Render`."""
        prompt, before = self.prompt(command.messages, command.think), command.before
        ids = prompt.ids
        if command.append and prompt.after is not None:
            added = ids[prompt.after :]
            ended = added[:1] == before[-1:] and added[0] in self.model.end_ids
            return Rendered(added[ended:], False, prompt.remark)
        if before and ids[: len(before)] == before:
            return Rendered(ids[len(before) :], False, prompt.remark)
        return Rendered(ids, True, prompt.remark)

    def prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt:
        """The whole prompt of these messages.

        Raises:
            EngineError: there is no template, or it refuses the messages.
        """
        self._template = self._template or ChatTemplate(self.model)
        return self._template.prompt(messages, think)

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
