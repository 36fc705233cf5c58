"""Chat template to prompt ids.

User text is never a control token: a private-use character is put into every control token's name found in content, so
that the rendered prompt holds only the template's own; the prompt is tokenised once with control tokens on, and the runs
that hold the character are tokenised again without it, control tokens off. Honest text keeps the ids that tokenising the
whole prompt gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from termchat.decoding.deadline import deadline
from termchat.decoding.escapes import well_formed
from termchat.engine.llama.marking import broken, unused
from termchat.engine.llama.model import LSTRIP, RSTRIP
from termchat.engine.llama.sandbox import last_resort, memory
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, Message

DEADLINE = 2.0
"""Seconds of processor time that a template may take to compile, and to render."""
LONGEST = 16_000_000
"""Characters a template may produce at most,"""
_OWN, _TIMES = 1_000_000, 4
"""and so many of its own beside what it is given, which it may repeat. More is refused before it is tokenised, which takes 50
times the memory."""
STUCK = 60.0
"""Seconds on the clock after which one of its operations takes the process along."""
MEMORY = 512 << 20
"""Bytes of memory that a template may need."""

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates let a model think, or not."""

_HINT = "use raw mode (--raw), or another model"
_MOST_SAID = 500
"""Characters of a template's own complaint."""
_LONGEST_DATE = 1000
"""Characters of a date's form: of millions the system is busy for minutes, and nothing can interrupt it."""
_LARGEST = 4096
"""Bits of the largest number."""


class _Generation(Extension):
    """`{% generation %}` marks the assistant's part for training; here it only passes through."""

    tags = {"generation"}  # noqa: RUF012 - the type jinja2 declares

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Stops what a deadline cannot: one operation that asks for all memory, or never comes back."""

    intercepted_binops = frozenset(("*", "**", "+"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for text, times in ((left, right), (right, left)):
            if operator == "*" and isinstance(text, (str, list, tuple)) and isinstance(times, int):
                self._limit(len(text) * times)
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            self._limit(0 if bits <= _LARGEST else LONGEST + 1)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self._limit(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def _limit(self, size: int) -> None:
        if size > LONGEST:
            raise SecurityError("the template asks for too much memory")


class _TooLong(Exception):
    pass


class ChatTemplate:
    """A model's chat template.

    Raises:
        EngineError: there is no template, or it does not compile.
    """

    def __init__(self, model: Vocabulary) -> None:
        self._model = model
        if model.template is None:
            raise EngineError("template", "this model file has no chat template", _HINT)
        with _bounded("is broken"):
            self._template, used = _compiled(model.template)
        self._switch = next((name for name in SWITCHES if name in used), "")
        self._words = not self._switch and "/no_think" in model.template
        named = {model.name(i): i for i in range(model.n_vocab) if model.is_control(i)}
        # A mark cannot break a name of one character: what has such a name is text, wherever it stands.
        self._has_short = any(len(name) == 1 for name in named)
        longest_first = sorted((name for name in named if len(name) > 1), key=len, reverse=True)
        self._control = {name: named[name] for name in longest_first}
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @property
    def has_switch(self) -> bool:
        """Whether it can turn the model's thoughts on and off."""
        return bool(self._switch) or self._words

    def ids(self, messages: list[Message], think: bool | None = None) -> list[int]:
        """The whole prompt, up to where the assistant begins to speak. `think` as in `Render`.

        Raises:
            EngineError: the template refuses the messages, is too slow or too long.
        """
        mark, marked = self._marked(messages)
        ids = self._tokenize(self._render(marked, think), mark)
        model = self._model
        if model.adds_bos and ids[:1] != [model.bos]:
            ids.insert(0, model.bos)
        return ids

    def ids_after_reply(
        self, messages: list[Message], ended: int | None, think: bool | None = None
    ) -> list[int] | None:
        """What follows the last assistant message, or None if the template cannot be cut there.

        `ended` is the end token that the reply's own ids already hold.
        """
        last = max(i for i, message in enumerate(messages) if message.role == "assistant")
        mark, marked = self._marked(messages)
        cut = chr(ord(mark) + 1) * 3
        marked[last] = Message("assistant", cut)
        parts = self._render(marked, think).split(cut)
        if len(parts) != 2:
            return None
        ids = self._tokenize(parts[1], mark)
        if ended is not None and ids[:1] == [ended]:
            del ids[0]
        return ids

    def _marked(self, messages: list[Message]) -> tuple[str, list[Message]]:
        """The private-use character, and the messages with it inside every control token's name."""
        mark = unused(message.content + message.thinking for message in messages)
        if self._pattern is None:
            return mark, list(messages)
        names = self._pattern
        return mark, [
            Message(said.role, broken(said.content, names, mark), broken(said.thinking, names, mark))
            for said in messages
        ]

    def _tokenize(self, text: str, mark: str) -> list[int]:
        if mark not in text and not self._has_short:
            return self._model.tokenize(text, special=True)
        model = self._model
        whole = model.tokenize(text, special=True)
        runs = self._runs(text)
        grouped: list[list[int] | int] | None = self._grouped(whole)
        specials = [run for run in runs if isinstance(run, int)]
        if [token for token in whole if model.is_control(token)] != specials:
            grouped = None  # the tokenizer saw other borders than we did: every run is tokenised by itself
        ids: list[int] = []
        for i, run in enumerate(runs):
            if isinstance(run, int):
                ids.append(run)
            elif grouped is not None and mark not in run:
                found = grouped[i]
                assert isinstance(found, list)
                ids += found
            else:
                before = runs[i - 1] if i else None
                after = runs[i + 1] if i + 1 < len(runs) else None
                run = run.replace(mark, "")
                if isinstance(before, int) and model.attributes(before) & RSTRIP:
                    run = run.lstrip()
                if isinstance(after, int) and model.attributes(after) & LSTRIP:
                    run = run.rstrip()
                ids += model.tokenize(run, special=False) if run else []
        return ids

    def _runs(self, text: str) -> list[str | int]:
        """Text, control id, text, control id, … text; the longest names first, as llama.cpp does."""
        runs: list[str | int] = [text]
        for name, control in self._control.items():
            if name not in text:
                continue
            split: list[str | int] = []
            for run in runs:
                if isinstance(run, int):
                    split.append(run)
                    continue
                pieces = run.split(name)
                for j, piece in enumerate(pieces):
                    split += [piece] if j == 0 else [control, piece]
            runs = split
        return runs

    def _grouped(self, ids: list[int]) -> list[list[int] | int]:
        groups: list[list[int] | int] = [[]]
        for token in ids:
            if self._model.is_control(token):
                groups += [token, []]
            else:
                groups[-1].append(token)  # type: ignore[union-attr]
        return groups

    def _render(self, messages: list[Message], think: bool | None) -> str:
        model = self._model
        if think is not None and self._words:
            messages = _with_word(messages, "/think" if think else "/no_think")
        variables: Mapping[str, Any] = {
            "messages": [_message(message) for message in messages],
            "add_generation_prompt": True,
            "bos_token": model.name(model.bos) if model.bos >= 0 else "",
            "eos_token": model.name(model.eos) if model.eos >= 0 else "",
            "raise_exception": _refuse,
            "strftime_now": _now,
            "tools": None,
        }
        if think is not None and self._switch:
            variables = {**variables, self._switch: think}
        parts: list[str] = []
        size = 0
        given = sum(len(message.content) + len(message.thinking) for message in messages)
        with _bounded("refuses the chat"):
            for part in self._template.generate(variables):
                parts.append(part)
                size += len(part)
                if size > min(LONGEST, _OWN + _TIMES * given):
                    raise _TooLong
        return "".join(parts)


@contextmanager
def _bounded(complaint: str) -> Iterator[None]:
    """Limits what a template may take while something is done with it; `complaint` is what else may be wrong with it.

    Raises:
        EngineError: it takes more, or raises anything at all.
    """
    try:
        with memory(MEMORY), deadline(DEADLINE), last_resort(STUCK):
            yield
    except _TooLong:
        raise EngineError("template", "the model's chat template produces too much text", _HINT) from None
    except MemoryError:
        raise EngineError("template", "the model's chat template asks for too much memory", _HINT) from None
    except TimeoutError:
        raise EngineError("template", f"the model's chat template took longer than {DEADLINE:g} s", _HINT) from None
    except Exception as error:  # a template can raise anything; the worker must live
        said = well_formed(str(error)[:_MOST_SAID]) or type(error).__name__
        raise EngineError("template", f"the model's chat template {complaint}: {said}", _HINT) from error


def _message(message: Message) -> dict[str, str]:
    said = {"role": message.role, "content": message.content}
    return said | ({"reasoning_content": message.thinking} if message.thinking else {})


def _with_word(messages: list[Message], word: str) -> list[Message]:
    """The messages with a word for the template in the system prompt."""
    head = messages[0].content if messages and messages[0].role == "system" else ""
    rest = messages[1:] if messages and messages[0].role == "system" else messages
    return [Message("system", f"{head}\n{word}".strip()), *rest]


def _compiled(source: str) -> tuple[Template, frozenset[str]]:
    """The template, and the names of the variables that it is given."""
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation], keep_trailing_newline=False
    )
    environment.filters["tojson"] = _tojson
    tree = environment.parse(source)
    return environment.from_string(source), frozenset(find_undeclared_variables(tree))


def _tojson(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(form: str) -> str:
    if len(form) > _LONGEST_DATE:
        raise SecurityError("the template's date format is too long")
    return datetime.now().strftime(form)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
