"""What the models of all servers of tokens have in common: vocabularies whose pieces were read when the model was loaded, and
what is told of the model."""

from __future__ import annotations

import hashlib

import msgspec

from termchat.engine.abilities import FEATURES, EngineAbilities
from termchat.engine.llama.grammars import Grammars
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import Keep, LoadDraft, MeasureBatches, ModelInfo, Remark, Score

REFUSED: dict[type | str, str] = {
    "beams": FEATURES["beams"],
    LoadDraft: FEATURES["drafts"],
    MeasureBatches: "measure batches",
}
"""What no model of a server can do: commands, and kinds of groups."""
REFUSED_THERE = REFUSED | {"walks": FEATURES["walks"], Keep: FEATURES["walks"], Score: FEATURES["score"]}
"""The same where the server draws."""


class ServedVocabulary(Vocabulary):
    """`_pieces` are the bytes of every token by its id, `_control` the names of control tokens."""

    can_rewind = True
    gpu_layers = 0
    _pieces: list[bytes]
    _control: dict[int, str]
    _template: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.suppressed = []
        self._grammars: Grammars | None = None

    def close(self) -> None:
        if self._grammars is not None:
            self._grammars.close()
            self._grammars = None

    @property
    def grammars(self) -> Grammars:
        if self._grammars is None:
            self._grammars = Grammars(None, self.n_vocab, self.end_ids, self.spell_token, self.is_control)
        return self._grammars

    def identify(self, facts: str) -> None:
        """Tell the model by what was read of it, and facts: another one of the same name is another model."""
        pieces = b"\0".join(map(self.piece, range(self.n_vocab)))
        self.spec = msgspec.structs.replace(self.spec, sha256=hashlib.sha256(facts.encode() + pieces).hexdigest())

    @property
    def template(self) -> str | None:
        return self._template

    def is_control(self, token: int) -> bool:
        return token in self._control

    def label(self, token: int) -> str:
        return self._control[token] if token in self._control else self._pieces[token].decode("utf-8", "replace")

    def read_metadata(self, key: str) -> str | None:
        return None

    def piece(self, token: int) -> bytes:
        return self._pieces[token]


def info_of(
    model: Vocabulary,
    abilities: EngineAbilities,
    *,
    device: str,
    context: int,
    size: int,
    parameters: int,
    has_switch: bool,
    remarks: list[Remark],
    prefill_batch: int = 0,
) -> ModelInfo:
    """What is told of a server's model; threads, layers and the like are the server's own affair. `device` is the server, and
    `has_switch` says whether the template turns thoughts on and off."""
    return ModelInfo(
        name=model.spec.name,
        path=model.spec.path,
        sha256=model.spec.sha256,
        quantization=model.spec.quantization,
        description=model.description,
        size=size,
        parameters=parameters,
        vocabulary=model.n_vocab,
        context=context,
        context_trained=model.context_trained,
        prefill_batch=prefill_batch,
        device=device,
        has_template=model.has_template,
        can_rewind=model.can_rewind,
        end_ids=model.end_ids,
        remarks=remarks,
        abilities=abilities,
        thinking=model.thinking,
        thinking_switch=model.thinking is not None and has_switch,
    )
