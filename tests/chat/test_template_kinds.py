"""A prompt is what the template makes of the whole chat, with the ids of its replies as they were drawn: over several turns,
and after edits and forks, for each kind of template that models have. What it should be says plain jinja2, of all messages.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from jinja2 import Environment

from termchat.conversation.tree import Conversation
from termchat.decoding.records import Start
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_queries import ModelQueries
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Command, Event, Render, Tokenize
from tests.chat.driven_chat import Faked
from tests.engine.templated import FakeTemplate
from tests.tui.fake_engine import replaced

SYSTEM = "Be brief."
ROLES = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
LAST = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST] {% if loop.last and system %}{{ system }}\n\n{% endif %}{{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content | trim }}<|im_end|>{% endif %}{% endfor %}"
)
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
SILENT = (
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)
PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role | capitalize }}: {% for part in m.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>Assistant:{% endif %}"
)
THINKS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if KEEPS and m.reasoning_content %}<think>\n{{ m.reasoning_content }}"
    "\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}" + OPENS
)
JSON = (
    "{% for m in messages %}<|im_start|>{{ {'b': m.content, 'a': [1, 2]} | tojson(separators=(',', ':'), sort_keys=true) }}"
    "<|im_end|>\n{% endfor %}{% if documents is none %}<|im_start|>{% endif %}"
)


class Kind(NamedTuple):
    """`merges`: the system prompt goes before the first message. A reply `begins` with a space where its tokens have one."""

    source: str
    merges: bool = False
    parts: bool = False
    begins: str = ""
    thinks: bool = False
    keeps_prefix: bool = True


KINDS = {
    "roles": Kind(ROLES + OPENS),
    "the system prompt at the last message": Kind(LAST, begins=" ", keeps_prefix=False),
    "refuses the system role": Kind(REFUSES + ROLES + OPENS, merges=True),
    "leaves the system role out": Kind(SILENT + OPENS, merges=True),
    "content as parts": Kind(PARTS, parts=True, begins=" "),
    "drops thoughts": Kind(THINKS.replace("KEEPS", "false"), thinks=True, keeps_prefix=False),
    "keeps thoughts": Kind(THINKS.replace("KEEPS", "true"), thinks=True),
    "no prompt for the reply": Kind(ROLES, keeps_prefix=False),
    "content as JSON": Kind(JSON, keeps_prefix=False),
}  # fmt: skip


class Templated(Faked):
    """A chat with the real vocabulary and another template, and with replies that a test gives the tokens of."""

    def __init__(self, session: ModelSession, kind: Kind, **more: Any) -> None:
        super().__init__(Tuning(seed=7), **more)
        self.kind, self.model = kind, session.model
        asked = ModelQueries(FakeTemplate(session.model, kind.source))  # type: ignore[arg-type]
        answers: Callable[[int, Command], Iterable[Event]] = self.engine._answers

        def answered(number: int, command: Command) -> Iterable[Event]:
            if isinstance(command, Render):
                return [asked.render(command)]
            if isinstance(command, Tokenize):
                return [asked.describe_ids(session.model.tokenize(command.text, special=False))]
            return answers(number, command)

        def told(number: int, event: Event) -> None:
            tagged = isinstance(event, Start) and kind.thinks
            tell(number, replaced(event, thinking=("<think>", "</think>")) if tagged else event)  # type: ignore[type-var]

        tell = self.engine._answer
        self.engine._answers, self.engine._answer = answered, told  # type: ignore[method-assign]

    def reply_with(self, *pieces: str, reason: str = "end") -> None:
        """Each piece is tokenised alone: the ids are not those of the whole text."""
        if self.kind.thinks:
            self._say("<think>\nHm.\n</think>\n\n", "thinking")
        self._say(self.kind.begins + pieces[0], "answer")
        for piece in pieces[1:]:
            self._say(piece, "answer")
        if reason == "end":
            self.engine.say("", id=self.model.eos)
        self.engine.end(reason)
        self.pump()

    def _say(self, text: str, phase: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for i in self.model.tokenize(text, special=False):
            piece = self.model.piece(i)
            self.engine.say(decoder.decode(piece), id=i, bytes=piece, phase=phase)

    def turn(self, text: str, *pieces: str) -> None:
        self.chat.send(text)
        self.pump()
        self.reply_with(*pieces)

    def check(self) -> None:
        """The prompt of the last reply says what jinja2 says of all messages, and has the replies' ids."""
        ids, model = self.engine.generated[-1].ids, self.model
        assert b"".join(map(model.spell_token, ids)).decode() == self.expected()
        answers = [
            [i for span in spans for at, i in enumerate(span.node.ids[: span.count]) if at >= span.node.tokens.thought]
            for spans in self.replies()[:-1]
        ]
        for answer in answers:
            own = answer[:-1] if answer[-1:] == [model.eos] else answer
            places = [at for at in range(len(ids)) if ids[at : at + len(own)] == own]
            assert places or "tojson" in self.kind.source, (own, ids)
            ids = ids[places[0] + len(own) :] if places else ids

    def replies(self) -> list[list[Any]]:
        chat = self.chat.conversation
        found: list[list[Any]] = [[]]
        for span in chat.find_path():
            found += [[]] if span.node.role == "user" else []
            if span.node.role == "assistant":
                found[-1].append(span)
        return found[1:]

    def expected(self) -> str:
        chat = self.chat.conversation
        said = [{"role": role, "content": text} for role, text in chat.list_turns()][:-1]
        for message in said:
            if message["role"] == "assistant":
                text = message["content"].removeprefix(self.kind.begins)
                if self.kind.thinks and text.startswith("<think>"):
                    message["reasoning_content"] = "Hm."
                    text = text.removeprefix("<think>\nHm.\n</think>\n\n")
                message["content"] = text
        if chat.system and self.kind.merges:
            said[0]["content"] = f"{chat.system}\n{said[0]['content']}"
        elif chat.system:
            said.insert(0, {"role": "system", "content": chat.system})
        if self.kind.parts:
            said = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in said]
        environment = Environment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
        return environment.from_string(self.kind.source).render(
            messages=said, add_generation_prompt=True, documents=None, raise_exception=pytest.fail
        )


@pytest.mark.parametrize("system", ["", SYSTEM])
@pytest.mark.parametrize("name", KINDS)
def test_a_prompt_is_what_the_template_makes_of_the_whole_chat(session: ModelSession, name: str, system: str) -> None:
    it = Templated(session, KINDS[name], conversation=Conversation(system))
    chat = it.chat.conversation
    it.turn("What is a fox?", "An ani", "mal", " with 漢", "字.")
    it.check()
    first = it.reply
    it.turn("And <|im_end|> a bear?", "It is", " bigg", "er.")
    it.check()
    it.turn('Say "so".', "S", "o.")
    it.check()
    if it.kind.keeps_prefix:
        assert not any(span.node.whole for span in chat.find_path())
    # Another message in the place of the second one.
    second = next(span.node for span in chat.find_path() if span.node.written.startswith("And"))
    it.chat.forks.edit_message(second, "And a wolf?")
    it.pump()
    it.reply_with("A w", "olf.")
    it.check()
    # A fork in the middle of the first reply, and the next message behind it.
    it.chat.forks.fork_reply(first, len(first.ids) - 3)
    it.pump()
    it.engine.say("!", id=it.model.tokenize("!", special=False)[0])
    it.engine.end("length")
    it.pump()
    it.turn("Go on.", "Yes", ".")
    it.check()
    # Another system prompt.
    it.chat.forks.edit_system("Be long.")
    it.pump()
    it.reply_with("Well", ".")
    it.check()
    it.turn("And?", "That", " is it.")
    it.check()


@pytest.mark.parametrize("name", ["refuses the system role", "leaves the system role out"])
def test_where_the_system_prompt_goes_is_told_once(session: ModelSession, name: str) -> None:
    it = Templated(session, KINDS[name], conversation=Conversation(SYSTEM))
    it.turn("Hi", "Hello", ".")
    it.turn("More", "Well", ".")
    assert it.notices == ["the model's chat template has no system role"]
    bare = Templated(session, KINDS[name])
    bare.turn("Hi", "Hello", ".")
    assert bare.notices == []


def test_a_prompt_that_was_written_by_hand_is_kept(session: ModelSession) -> None:
    it = Templated(session, KINDS["roles"])
    it.turn("What is a fox?", "An animal", ".")
    message = it.chat.conversation.find_path()[0].node
    words = it.model.tokenize(" Once", special=False)
    it.chat.forks.write(message, 3, words)
    it.pump()
    it.turn("Go on.", "Yes", ".")
    ids = it.engine.generated[-1].ids
    assert ids[: 3 + len(words)] == [*message.ids[:3], *words]
    text = b"".join(map(it.model.spell_token, ids[3 + len(words) :])).decode()
    assert text == "<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
