"""The vocabulary of a model that a vLLM has, and its chat template, as far as both can be found out from outside.

It tells no list of tokens, no control tokens, no end tokens and no template. Pieces are read by putting tokens together
(`token_bytes`). A token that is taken whole out of every text may be a control token: the model is made to draw all of those
once, and those whose names the server leaves out of its text are control tokens, those at which it ends are end tokens. Prompts
are made by its template, with the names of control tokens in texts broken up; what had one is taken apart anew.
"""

from __future__ import annotations

import re
from collections import Counter

from termchat.decoding.thinking import tags_from, tags_of
from termchat.engine.llama.marking import MarkedMessages, as_drawn, break_names, find_unused, ids_of_replies
from termchat.engine.llama.model import CONTROL
from termchat.engine.llama.observe import Labels
from termchat.engine.llama.template import MOST_RENDERINGS, NO_SYSTEM_ROLE, SWITCHES, RenderedPrompt, without_system
from termchat.engine.port import EngineError, Message, ModelSpec
from termchat.engine.remote import token_bytes
from termchat.engine.remote.http_client import ServerError
from termchat.engine.remote.served_vocabulary import ServedVocabulary
from termchat.engine.remote.server_answers import BadAnswer
from termchat.engine.remote.vllm_server import VllmServer

_SHORTEST = 3
"""Characters of a control token's name."""
_AT_ONCE = 2000
_DRAWN = 64
"""Tokens that the model is made to draw in one request."""
_BIAS, _PENALTY = -100.0, 1e6
"""So that no token is drawn twice: all logits are made negative, and those of drawn tokens a million times so."""
_GUARD = "^"


class VllmVocabulary(ServedVocabulary):
    """The vocabulary of the server's model; `template` is None, since its source is not told: see `render`.

    Raises:
        EngineError: the server does not tell it.
    """

    context_trained = 0
    eos = -1
    has_template = False

    def __init__(self, server: VllmServer, spec: ModelSpec) -> None:
        super().__init__()
        self._tokenized: dict[str, list[int]] = {}
        """The texts of the last prompt that were taken apart here."""
        self.server, self.spec = server, spec
        self.build = f"{server.kind} {server.version()}".strip()
        self.n_vocab = server.vocabulary_size()
        try:
            self._pieces = token_bytes.read(self, self.n_vocab)
        except BadAnswer as error:
            raise server.otherwise(str(error)) from None
        self._control = {i: f"[token {i}]" for i, piece in enumerate(self._pieces) if not piece}
        whole = self._taken_whole()
        special, ends = self._examined(whole)
        self._control |= {i: whole[i] for i in special}
        for i in special:
            self._pieces[i] = b""
        self.end_ids = sorted(ends)
        longest_first = sorted({whole[i] for i in special}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.names = Labels(self.n_vocab, self.label)
        begun = server.tokenize("", begin=True).tokens
        self.adds_bos = len(begun) == 1
        self.bos = begun[0] if self.adds_bos else -1
        self.thinking = tags_from(spec.thinking) or tags_of("".join(whole.values()))
        self.has_template, self.has_switch = self._tried_template()

    @property
    def description(self) -> str:
        return self.build

    def read_attributes(self, token: int) -> int:
        return CONTROL if token in self._control else 0

    def tokenize(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        bos = [self.bos] if begin and self.adds_bos else []
        return bos + (self.apart(text)[0] if special else self._plain(text, begins=True))

    # --- as a Retokenizer ---

    def apart(self, text: str) -> tuple[list[int], list[str]]:
        told = self.server.tokenize(text, strings=True)
        strings = told.token_strs or []
        if len(strings) != len(told.tokens):
            raise self.server.otherwise(f"it returns {len(strings)} strings for {len(told.tokens)} tokens")
        return self.server.check_ids(told.tokens), strings

    def together(self, ids: list[int]) -> str:
        return self.server.text_of(ids)

    # --- prompts ---

    def prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt:
        """The whole prompt by the server's template, with the replies' own ids; see `Render`.

        Raises:
            EngineError: it has no template, or refuses the messages.
        """
        if not self.has_template:
            raise EngineError(
                "template",
                f"{self.server.client.shown} has no chat template",
                "use raw mode (/raw in a chat, --raw in a shell)",
            )
        replies, remark = ids_of_replies(messages, self.piece, self.n_vocab), None
        for attempt in range(MOST_RENDERINGS):
            marked = MarkedMessages(messages, self._pattern, replies)
            try:
                ids = self._chat(marked.messages, think)
            except EngineError as error:
                if error.kind != "template" or messages[0].role != "system":
                    raise
                messages, remark = without_system(messages), NO_SYSTEM_ROLE
                replies = ids_of_replies(messages, self.piece, self.n_vocab)
                continue
            parts = [part for run in self._runs(ids) for part in marked.cut_parts(self._text(run))]
            if not (lost := marked.find_lost(parts)):
                break
            replies = {} if attempt else {number: own for number, own in replies.items() if number not in lost}
        known, self._tokenized = self._tokenized, {}
        found: list[int] = []
        after, runs = None, self._runs(ids)
        for run in runs:
            parts = marked.cut_parts(self._text(run))
            if len(parts) == 1 and marked.mark not in str(parts[0]):
                found += run
                continue
            for at, part in enumerate(parts):
                if isinstance(part, int):
                    found += replies[part]
                    after = len(found)
                    continue
                text = part.replace(marked.mark, "")
                text = as_drawn(text, self._text(runs[-1])) if at + 1 < len(parts) else text
                self._tokenized[text] = known[text] if text in known else self._plain(text)
                found += self._tokenized[text]
        return RenderedPrompt(found, after, remark)

    def _chat(self, messages: list[Message], think: bool | None) -> list[int]:
        said = [
            {"role": message.role, "content": message.content}
            | ({"reasoning_content": message.thinking, "reasoning": message.thinking} if message.thinking else {})
            for message in messages
        ]
        arguments = {} if think is None else dict.fromkeys(SWITCHES, think)
        try:
            return self.server.check_ids(self.server.chat(said, **arguments))
        except ServerError as error:
            if error.status == 400:
                raise EngineError("template", f"the chat template refuses the chat: {error.message}", "") from None
            raise

    def _runs(self, ids: list[int]) -> list[list[int]]:
        """Runs of text, and each control token alone."""
        runs: list[list[int]] = [[]]
        for i in ids:
            if i in self._control:
                runs += [[i], []]
            else:
                runs[-1].append(i)
        return [run for run in runs if run]

    def _text(self, ids: list[int]) -> str:
        return self._bytes(ids).decode("utf-8", "replace")

    def _bytes(self, ids: list[int]) -> bytes:
        return b"".join(self._pieces[i] for i in ids)

    def _tried_template(self) -> tuple[bool, bool]:
        """Whether there is one, and whether it can turn the model's thoughts on and off."""
        said = [{"role": "user", "content": "x"}]
        try:
            plain = self.server.chat(said)
            switched = [self.server.chat(said, **dict.fromkeys(SWITCHES, think)) for think in (True, False)]
        except ServerError as error:
            if error.status == 400:
                return False, False
            raise
        return True, any(ids != plain for ids in switched)

    # --- control tokens ---

    def _plain(self, text: str, *, begins: bool = False) -> list[int]:
        """The ids of a text without control tokens: their names are cut behind the first character. Where it `begins`, it has
        the space that some tokenizers put before a text.

        Raises:
            EngineError: the server takes some of it for a control token all the same.
        """
        mark = find_unused([text])
        whole = text if self._pattern is None else break_names(text, self._pattern, mark)
        first, *others = whole.split(mark)
        ids = self.server.check_ids(self.server.tokenize(first).tokens) if begins else self._as_written(first)
        ids += [i for part in others for i in self._as_written(part)]
        if any(i in self._control for i in ids):
            raise EngineError("prompt", f"{self.server.client.shown} takes a part of this text for a control token", "")
        return ids

    def _as_written(self, text: str) -> list[int]:
        """Without a space that some tokenizers put before a text."""
        if not text:
            return []
        ids = self.server.check_ids(self.server.tokenize(text).tokens)
        if self._bytes(ids) == b" " + text.encode("utf-8", "replace"):
            guard, guarded = (self.server.check_ids(self.server.tokenize(t).tokens) for t in (_GUARD, _GUARD + text))
            if guarded[: len(guard)] == guard:
                return guarded[len(guard) :]
        return ids

    def _taken_whole(self) -> dict[int, str]:
        """Tokens that stay whole wherever they stand in a text, and their texts: control tokens are among them."""
        texts = {i: piece.decode("utf-8", "replace") for i, piece in enumerate(self._pieces)}
        named = [(i, text) for i, text in texts.items() if _may_be_name(text)]
        found: dict[int, str] = {}
        for begin in range(0, len(named), _AT_ONCE):
            some = named[begin : begin + _AT_ONCE]
            ids = self.server.tokenize("".join(f"q{text}q{text}{text}q\n" for _, text in some)).tokens
            seen = Counter(ids)
            found |= {i: text for i, text in some if seen[i] >= 3}
        return found

    def _examined(self, whole: dict[int, str]) -> tuple[set[int], set[int]]:
        """Those that the server leaves out of its text, and those at which it ends: found by having it draw them all; of names
        that differ in their numbers alone, one for all."""
        families: dict[str, list[int]] = {}
        for i, name in whole.items():
            families.setdefault(re.sub(r"\d+", "0", name), []).append(i)
        left = {members[0]: members for members in families.values()}
        special: set[int] = set()
        ends: set[int] = set()
        while left:
            asked = list(left)[:_DRAWN]
            drawn, text, ended = self._made_to_draw(asked)
            if not drawn:
                special.update(*left.values())
                break
            for at, i in enumerate(drawn):
                is_end = ended and at == len(drawn) - 1
                if not is_end and text.startswith(whole[i]):
                    text = text[len(whole[i]) :]
                else:
                    special.update(left[i])
                    ends.update(left[i] if is_end else ())
                del left[i]
        return special, ends

    def _made_to_draw(self, ids: list[int]) -> tuple[list[int], str, bool]:
        """Those of the ids that it drew, its text without control tokens, and whether it ended by itself."""
        answer = self.server.complete(
            [next(i for i in range(self.n_vocab) if self._pieces[i] and i not in ids)], len(ids), temperature=0.0,
            allowed_token_ids=ids, logit_bias=dict.fromkeys(map(str, ids), _BIAS),
            repetition_penalty=_PENALTY, spaces_between_special_tokens=False,
        )  # fmt: skip
        if not answer.choices:
            raise self.server.otherwise("it draws nothing")
        choice = answer.choices[0]
        drawn = [i for i in dict.fromkeys(choice.token_ids or ()) if i in ids]
        return drawn, choice.text, choice.finish_reason == "stop"


def _may_be_name(text: str) -> bool:
    """Whether it can be the name of a control token: letters, and other characters."""
    return (
        len(text) >= _SHORTEST
        and text == text.strip()
        and "\ufffd" not in text
        and any(map(str.isalnum, text))
        and not all(map(str.isalnum, text))
    )
