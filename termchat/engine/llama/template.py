"""Chat template to prompt ids.

A prompt is what the template makes of the whole chat: what it writes at the last message only does not stay at earlier ones.
Where it has the text of a reply, the ids that were drawn stand, since a text does not tokenise to the ids that it came from;
what lies between is tokenised. A template that drops old thoughts changes the prompt before the end at each turn.

User text is never a control token: a private-use character is put into every control token's name found in content, so
that the rendered prompt holds only the template's own; the prompt is tokenised once with control tokens on, and the runs
that hold the character are tokenised again without it, control tokens off. Honest text keeps the ids that tokenising the
whole prompt gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from termchat.decoding.deadline import interrupt_after
from termchat.decoding.escapes import well_formed
from termchat.engine.llama.marking import MarkedMessages, as_drawn, ids_of_replies
from termchat.engine.llama.model import LSTRIP, RSTRIP
from termchat.engine.llama.sandbox import last_resort, limit_memory
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, Message, Remark

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

MOST_RENDERINGS = 3
"""How often a chat is rendered: with the replies between borders, with those that come through, and with none."""

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates let a model think, or not."""

NO_SYSTEM_ROLE = Remark(
    "the model's chat template has no system role", "the system prompt is sent before your first message"
)

_HINT = "use raw mode (/raw in a chat, --raw in a shell), or a different model"
_MOST_SAID = 500
"""Characters of a template's own complaint."""
_LONGEST_DATE = 1000
"""Characters of a date's form: of millions the system is busy for minutes, and nothing can interrupt it."""
_LARGEST = 4096
"""Bits of the largest number."""
_PROBE = "termchat7probe"
"""What is looked for in a prompt to see what a template can do."""
_GUARD = "^"


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
                self._check_size(len(text) * times)
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            self._check_size(0 if bits <= _LARGEST else LONGEST + 1)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            self._check_size(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def _check_size(self, size: int) -> None:
        if size > LONGEST:
            raise SecurityError("the template asks for too much memory")


class _Refusal(EngineError):
    """The template itself fails at the messages."""


class RenderedPrompt(NamedTuple):
    """The ids of a whole prompt. Behind the first `after` of them the last reply ends, None where no reply's own ids stand."""

    ids: list[int]
    after: int | None
    remark: Remark | None


class ChatTemplate:
    """A model's chat template.

    Raises:
        EngineError: there is no template, or it does not compile.
    """

    def __init__(self, model: Vocabulary) -> None:
        self._model = model
        self._mark = "\ue000"
        self._tokenized: dict[tuple[str, str, bool], list[int]] = {}
        """The texts of the last prompt: of a chat that goes on, only what is new is tokenised."""
        if model.template is None:
            raise EngineError("template", "this model file has no chat template", _HINT)
        with _limit_template("is broken"):
            environment = _Sandbox(
                trim_blocks=True,
                lstrip_blocks=True,
                extensions=[loopcontrols, _Generation],
                keep_trailing_newline=False,
            )
            environment.filters["tojson"] = self._format_json
            used = find_undeclared_variables(environment.parse(model.template))
            self._template = environment.from_string(model.template)
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

    def render_prompt(self, messages: list[Message], think: bool | None = None) -> RenderedPrompt:
        """Return the whole prompt, up to the reply of the assistant. `think` as in `Render`.

        Raises:
            EngineError: the template refuses the messages, is too slow or too long.
        """
        model, remark = self._model, None
        if think is not None and self._words:
            messages = _with_word(messages, "/think" if think else "/no_think")
        if messages and messages[0].role == "system" and not self._takes_system:
            messages, remark = without_system(messages), NO_SYSTEM_ROLE
        replies = ids_of_replies(messages, model.piece, model.n_vocab)
        for attempt in range(MOST_RENDERINGS):
            marked = MarkedMessages(messages, self._pattern, replies)
            self._mark = marked.mark
            parts = marked.cut_parts(self._render_text(marked.messages, think, parts=self._takes_parts))
            if not (lost := marked.find_lost(parts)):
                break
            replies = {} if attempt else {number: ids for number, ids in replies.items() if number not in lost}
        ids, after = self._assemble_ids(messages, replies, parts, marked.mark)
        if model.adds_bos and ids[:1] != [model.bos]:
            ids.insert(0, model.bos)
            after += 1
        return RenderedPrompt(ids, after if replies else None, remark)

    def _assemble_ids(
        self, messages: list[Message], replies: Mapping[int, list[int]], parts: list[str | int], mark: str
    ) -> tuple[list[int], int]:
        """Return the ids of a rendered prompt, and how many of them the last reply ends with."""
        known, self._tokenized = self._tokenized, {}
        ids: list[int] = []
        after = 0
        for at in range(0, len(parts), 2):
            text, number = str(parts[at]), parts[at + 1] if at + 1 < len(parts) else None
            own: list[int] = []
            if isinstance(number, int):
                text, own = self._before_reply(messages[number], replies[number], text, str(parts[-1]), mark)
            key = text, mark, bool(ids)
            self._tokenized[key] = known[key] if key in known else self._tokenize_marked(text, mark, follows=bool(ids))
            ids += self._tokenized[key]
            ids += own
            after = len(ids) if own else after
        return ids, after

    def _before_reply(
        self, reply: Message, own: list[int], before: str, prompt: str, mark: str
    ) -> tuple[str, list[int]]:
        """Return the template's text before a reply, and the reply's ids: with its thoughts where the template has them."""
        if reply.thinking:
            head = b"".join(map(self._model.spell_token, reply.ids[: len(reply.ids) - len(own)])).decode(
                "utf-8", "replace"
            )
            without = _without_end(before, head, mark)
            return (before, own) if without is None else (without, reply.ids)
        return as_drawn(before, prompt), own

    def _tokenize_marked(self, text: str, mark: str, *, follows: bool) -> list[int]:
        """Tokenize a text; one that `follows` ids has no space that some tokenizers put before a text."""
        guarded = follows and self._puts_space
        if mark not in text and not self._has_short and not guarded:
            return self._model.tokenize(text, special=True)
        model = self._model
        whole = model.tokenize(text, special=True)
        runs = self._split_control(text)
        grouped: list[Any] = [[]]
        for token in whole:
            if model.is_control(token):
                grouped += [token, []]
            else:
                grouped[-1].append(token)
        specials = [run for run in runs if isinstance(run, int)]
        if [token for token in whole if model.is_control(token)] != specials:
            grouped = []  # the tokenizer saw other borders than we did: every run is tokenised by itself
        ids: list[int] = []
        for i, run in enumerate(runs):
            if isinstance(run, int):
                ids.append(run)
            elif grouped and mark not in run and (i or not guarded):
                ids += grouped[i]
            else:
                before = runs[i - 1] if i else None
                after = runs[i + 1] if i + 1 < len(runs) else None
                run = run.replace(mark, "")
                if isinstance(before, int) and model.read_attributes(before) & RSTRIP:
                    run = run.lstrip()
                if isinstance(after, int) and model.read_attributes(after) & LSTRIP:
                    run = run.rstrip()
                ids += self._tokenize_plain(run, guarded=guarded and not i) if run else []
        return ids

    def _tokenize_plain(self, text: str, *, guarded: bool) -> list[int]:
        """Tokenize a text without control tokens; `guarded` leaves out the space that some tokenizers put before it."""
        ids = self._model.tokenize(_GUARD * guarded + text, special=False)
        if not guarded:
            return ids
        split = ids[: len(self._guard)] == self._guard
        return ids[len(self._guard) :] if split else self._model.tokenize(text, special=False)

    def _split_control(self, text: str) -> list[str | int]:
        """Split a text into text, control id, text, control id, … text; the longest names first, as llama.cpp does."""
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

    def _render_text(self, messages: list[Message], think: bool | None, *, parts: bool) -> str:
        model = self._model
        variables: Mapping[str, Any] = {
            "messages": [_describe_message(message, parts=parts) for message in messages],
            "add_generation_prompt": True,
            "bos_token": model.name(model.bos) if model.bos >= 0 else "",
            "eos_token": model.name(model.eos) if model.eos >= 0 else "",
            "raise_exception": _raise_refusal,
            "strftime_now": _format_now,
            "tools": None,
            "documents": None,
        }
        if think is not None and self._switch:
            variables = {**variables, self._switch: think}
        written: list[str] = []
        size = 0
        given = sum(len(message.content) + len(message.thinking) for message in messages)
        with _limit_template("refuses the chat"):
            for part in self._template.generate(variables):
                written.append(part)
                size += len(part)
                if size > min(LONGEST, _OWN + _TIMES * given):
                    raise EngineError("template", "the model's chat template produces too much text", _HINT)
        return "".join(written)

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether a message reaches the prompt only as a list of parts, as templates of vision models want it."""
        said = [Message("user", _PROBE)]
        return not self._can_reach(said, parts=False) and self._can_reach(said, parts=True)

    @cached_property
    def _takes_system(self) -> bool:
        """Whether a system prompt reaches the prompt."""
        return self._can_reach([Message("system", _PROBE), Message("user", "x")], parts=self._takes_parts)

    def _can_reach(self, messages: list[Message], *, parts: bool) -> bool:
        with suppress(_Refusal):
            return _PROBE in self._render_text(messages, None, parts=parts)
        return False

    @cached_property
    def _guard(self) -> list[int]:
        return self._model.tokenize(_GUARD, special=False)

    @cached_property
    def _puts_space(self) -> bool:
        """Whether the tokenizer puts a space before a text."""
        return b"".join(map(self._model.piece, self._guard)) != _GUARD.encode()

    def _format_json(
        self, value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None,
        sort_keys: bool = False,
    ) -> str:  # fmt: skip
        text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
        if not ensure_ascii:
            return text
        marks = self._mark, chr(ord(self._mark) + 1)
        return "".join(char if char.isascii() or char in marks else json.dumps(char)[1:-1] for char in text)


@contextmanager
def _limit_template(complaint: str) -> Iterator[None]:
    """Limit the time and the memory of a template; `complaint` is what else may be wrong with it.

    Raises:
        EngineError: it takes more, or raises anything at all.
    """
    try:
        with limit_memory(MEMORY), interrupt_after(DEADLINE), last_resort(STUCK):
            yield
    except EngineError:
        raise
    except MemoryError:
        raise EngineError("template", "the model's chat template asks for too much memory", _HINT) from None
    except TimeoutError:
        raise EngineError("template", f"the model's chat template took longer than {DEADLINE:g} s", _HINT) from None
    except Exception as error:  # a template can raise anything; the worker must live
        said = well_formed(str(error)[:_MOST_SAID]) or type(error).__name__
        raise _Refusal("template", f"the model's chat template {complaint}: {said}", _HINT) from error


def _describe_message(message: Message, *, parts: bool) -> dict[str, Any]:
    content = [{"type": "text", "text": message.content}] if parts else message.content
    said = {"role": message.role, "content": content}
    return said | ({"reasoning_content": message.thinking} if message.thinking else {})


def without_system(messages: list[Message]) -> list[Message]:
    """Return the messages with the system prompt before the first message of a person, as llama.cpp does it."""
    system, *rest = messages
    if not rest or rest[0].role != "user":
        return [Message("user", system.content), *rest]
    return [Message("user", f"{system.content}\n{rest[0].content}"), *rest[1:]]


def _without_end(text: str, end: str, mark: str) -> str | None:
    """Return the text without its end, whatever marks are in that; None where it ends otherwise."""
    at = len(text)
    for char in reversed(end):
        while at and text[at - 1] == mark:
            at -= 1
        if not at or text[at - 1] != char:
            return None
        at -= 1
    return text[:at]


def _with_word(messages: list[Message], word: str) -> list[Message]:
    """Return the messages with a word for the template in the system prompt."""
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].content}\n{word}".strip()), *messages[1:]]
    return [Message("system", word), *messages]


def _format_now(form: str) -> str:
    if len(form) > _LONGEST_DATE:
        raise SecurityError("the template's date format is too long")
    return datetime.now().strftime(form)


def _raise_refusal(message: str) -> NoReturn:
    raise TemplateError(message)
