"""The vocabulary of a model that a server has: read in a few requests when the model is loaded, texts taken apart there."""

from __future__ import annotations

from functools import partial

from termchat.decoding.thinking import tags_from, tags_of
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.model import CONTROL, LSTRIP, RSTRIP
from termchat.engine.llama.observe import Labels
from termchat.engine.port import EngineError, ModelSpec
from termchat.engine.remote.llama_server import LlamaServer, Props
from termchat.engine.remote.served_vocabulary import ServedVocabulary


class ServerVocabulary(ServedVocabulary):
    """The vocabulary of the server's model.

    Raises:
        EngineError: the server does not tell it, or tells control tokens as if they were text.
    """

    def __init__(self, server: LlamaServer, spec: ModelSpec, props: Props) -> None:
        super().__init__()
        self._server, self.spec, self.build = server, spec, props.build_info
        self.n_vocab = server.model.n_vocab
        self.breakers = Breakers(self.spell_all, partial(self.tokenize, special=False))
        self.context_trained = server.model.n_ctx_train
        self._pieces = server.vocabulary()
        control = [i for i, piece in enumerate(self._pieces) if not piece]
        if not control:
            raise EngineError(
                "server",
                f"{server.client.shown} tells control tokens as text, so that they cannot be told apart from what is typed",
                "start it without --special",
            )
        self._control = self._read_names(control)
        self.names = Labels(self.n_vocab, self.label)
        self.end_ids = server.end_ids()
        by_name = {name: i for i, name in self._control.items()}
        self.bos, self.eos = (self._one(text, by_name) for text in (props.bos_token, props.eos_token))
        begun = server.tokenize("", special=False, begin=True)
        self.adds_bos = self.bos >= 0 and begun[:1] == [self.bos]
        self._template = props.chat_template or None
        self.thinking = tags_from(spec.thinking) or tags_of(self._template or "")
        self._attributes: dict[int, int] = {}

    @property
    def description(self) -> str:
        return self._server.model.ftype

    def read_attributes(self, token: int) -> int:
        if token not in self._attributes:
            self._attributes[token] = self._seen_attributes(token)
        return self._attributes[token]

    def tokenize(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        # Asked to add what begins a text, it would add what ends one, too.
        ids = self._server.tokenize(text, special=special, begin=False)
        return [self.bos, *ids] if begin and self.adds_bos else ids

    def _read_names(self, control: list[int]) -> dict[int, str]:
        """Read the names of control tokens: in one request if they can be told apart there, else in one each."""
        server = self._server
        newline = next((i for i, piece in enumerate(self._pieces) if piece == b"\n"), None)
        if newline is not None:
            apart = server.text_of([i for one in control for i in (one, newline)]).split("\n")[:-1]
            if len(apart) == len(control):
                return dict(zip(control, apart, strict=True))
        return {i: server.text_of([i]) for i in control}

    def _one(self, text: str, by_name: dict[str, int]) -> int:
        """The id of a token that is told as a text; -1 where there is none."""
        if not text:
            return -1
        ids = [by_name[text]] if text in by_name else self.tokenize(text, special=True)
        return ids[0] if len(ids) == 1 else -1

    def _seen_attributes(self, token: int) -> int:
        """What can be seen of them from outside: whether it is a control token, and whether it takes the white space beside it
        along when it stands in a text."""
        if token not in self._control:
            return 0
        name, plain = self._control[token], self.tokenize("x", special=False)
        before = self.tokenize(f"x  {name}", special=True) == [*plain, token]
        behind = self.tokenize(f"{name}  x", special=True) == [token, *plain]
        return CONTROL | before * LSTRIP | behind * RSTRIP
