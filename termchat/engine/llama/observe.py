"""The observed step in one call of native code: `observe.c`, which is compiled when termchat is installed.

It also holds the function that llama.cpp asks whether a decode has to stop (see `native.AbortFlag`).

`chain.py` does the same with `decoding.arithmetic` and `decoding.draw`, slower. It takes the steps that native code declines,
and all of them where it could not be compiled.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.conditions import Measure
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.draw import Cut
from termchat.decoding.records import Candidate, PackedCandidates, Stage
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import DICE, SamplerStage
from termchat.engine.llama.softmax import Row


class Drawn(NamedTuple):
    """One step: the chosen id and every number of its record; of measures that can only be bounded also the `least` that they
    can be, as they are the most in the record."""

    id: int
    logit: float
    logprob: float
    rank: int
    probability: float
    entropy: float
    p_end: float
    stages: list[Stage]
    candidates: Sequence[Candidate]
    state: dict[str, float]
    least: Mapping[Measure, float] = MappingProxyType({})
    margin: float | None = None
    near_tie: bool | None = None


class Labels(dict[int, str]):
    """Labels of `n_vocab` tokens by id, made when they are first asked for: a step asks for twenty."""

    def __init__(self, n_vocab: int, make: Callable[[int], str]) -> None:
        self._n_vocab, self._make = n_vocab, make
        self._packed: dict[int, Any] = {}

    def __missing__(self, token: int) -> str:
        label = self[token] = self._make(token)
        return label

    @cached_property
    def pointers(self) -> Any:
        """Where native code finds a label by its id, shape (n_vocab,); null where `point` was not called for it."""
        return (ctypes.c_void_p * self._n_vocab)()

    def point(self, token: int) -> None:
        """Make the label of a token visible to native code."""
        self._packed[token] = packed = packed_text(self[token])
        self.pointers[token] = ctypes.addressof(packed)


def packed_text(text: str) -> Any:
    """Encode a text as native code copies it: the length in four bytes, as this machine writes them, then msgpack."""
    data = msgspec.msgpack.encode(text)
    return ctypes.create_string_buffer(bytes(ctypes.c_int32(len(data))) + data, 4 + len(data))


ABI = 10
"""Of the calls; a library that was built from another version of the source is left alone."""

LIBRARY = Path(__file__).with_name("libobserve.so")

_Ids, _Numbers = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_double)


class Mask(NamedTuple):
    """Which tokens a constraint allows: 32 in each of the `bits`, the lowest first. `after_chain`: see `Constraint`."""

    bits: NDArray[np.uint32]
    after_chain: bool

    def allowed(self, n_vocab: int) -> NDArray[np.bool_]:
        """Of each token whether it is allowed, shape (n_vocab,)."""
        return np.unpackbits(self.bits.view(np.uint8), bitorder="little")[:n_vocab].astype(np.bool_)


CUTS = ("top_k", "min_p", "top_n_sigma")
"""The stages whose survivors native code finds in a row without the chain having seen all of it."""


class Steps(Protocol):
    """What the native step reads of a `Chain`."""

    settings: SamplerSettings
    stages: tuple[SamplerStage, ...]
    cuts: tuple[Cut, ...]
    biases: dict[int, float]
    hiding: int
    has_floor: bool
    samplers: Any

    @property
    def moving(self) -> list[int]: ...
    def looks_at(self) -> int | None: ...
    def prepare_step(self, seed: int, step: int) -> None: ...
    def state_with(self, before: float) -> dict[str, float]: ...


class _Step(ctypes.Structure):
    """`step` of the source."""

    _fields_ = (
        ("logits", ctypes.c_void_p),
        ("seed", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("needs", ctypes.c_int32),
        ("forced", ctypes.c_int32),
        ("n_moving", ctypes.c_int32),
        ("n_vocab", ctypes.c_int32),
        ("n_ends", ctypes.c_int32),
        ("n_stages", ctypes.c_int32),
        ("n_biased", ctypes.c_int32),
        ("candidates", ctypes.c_int32),
        ("masking", ctypes.c_uint32),
        ("hiding", ctypes.c_int32),
        ("cut", ctypes.c_int32),
        ("share", ctypes.c_float),
        ("change", ctypes.c_double),
        ("rules", _Ids),
        ("knobs", _Numbers),
        ("moving", ctypes.c_void_p),
        ("allowed", ctypes.c_void_p),
        ("masked", ctypes.c_void_p),
        ("after", ctypes.c_int32),
        ("ends", _Ids),
        ("biased", _Ids),
        ("bias", _Numbers),
        ("samplers", ctypes.c_void_p),
        ("apply", ctypes.c_void_p),
        ("n_watched", ctypes.c_int32),
        ("chosen", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("entropy", ctypes.c_double),
        ("p_end", ctypes.c_double),
        ("before", ctypes.c_double),
        ("won", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("near_tie", ctypes.c_int32),
        ("n_allowed", ctypes.c_int32),
        ("n_kept", ctypes.c_int32),
        ("kept", ctypes.c_double),
        ("kept_of_all", ctypes.c_double),
        ("ids", _Ids),
        ("logits_of", _Numbers),
        ("logprobs", _Numbers),
        ("probabilities", _Numbers),
        ("noise", _Numbers),
        ("biases", _Numbers),
        ("removed_by", _Ids),
        ("survivors", _Ids),
        ("masses", _Numbers),
    )


class _Packing(ctypes.Structure):
    """`packing` of the source."""

    _fields_ = (
        ("names", ctypes.c_void_p),
        ("stages", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("room", ctypes.c_int32),
    )


_ASKED = struct.Struct("PQQiii")
"""The first fields of a step, which are set together: one by one takes several times as long."""

_MOST_STAGES = 16
"""More than there are."""
_ROOM = 4096
"""Bytes for the candidates of a step, to begin with."""


class NativeStep:
    """Observes steps over `n_vocab` logits, the `candidates` highest of which are watched.

    `names` are the labels of all tokens; `apply` is `llama_sampler_apply`.
    """

    def __init__(
        self,
        library: Any,
        n_vocab: int,
        end_ids: Sequence[int],
        names: Labels,
        candidates: int,
        apply: Any,
    ) -> None:
        self._function, self._pack, self._names = library.termchat_observe, library.termchat_pack, names
        room = candidates + 2
        self._ids, self._removed_by = (ctypes.c_int32 * room)(), (ctypes.c_int32 * room)()
        numbers = ctypes.c_double * room
        self._logits, self._logprobs, self._probabilities, self._noise = numbers(), numbers(), numbers(), numbers()
        self._biases = numbers()
        self._survivors, self._masses = (ctypes.c_int32 * _MOST_STAGES)(), (ctypes.c_double * _MOST_STAGES)()
        self._chain: Steps | None = None
        self._row: Row | None = None
        self._address = 0
        self._mask: Mask | None = None
        self._masked: Row | None = None
        self._stage_names: list[Any] = []
        self._names_of_stages: list[str] = []
        self._packing = _Packing(names=ctypes.addressof(names.pointers))
        self._out = ctypes.create_string_buffer(0)
        self._make_room(_ROOM)
        self._step = _Step(
            ends=(ctypes.c_int32 * len(end_ids))(*end_ids),
            apply=ctypes.cast(apply, ctypes.c_void_p).value,
            n_vocab=n_vocab,
            n_ends=len(end_ids),
            candidates=candidates,
            ids=self._ids,
            logits_of=self._logits,
            logprobs=self._logprobs,
            probabilities=self._probabilities,
            noise=self._noise,
            biases=self._biases,
            removed_by=self._removed_by,
            survivors=self._survivors,
            masses=self._masses,
        )
        self._references = ctypes.byref(self._step), ctypes.byref(self._packing)

    def draw(
        self,
        logits: Row,
        chain: Steps,
        seed: int,
        number: int,
        forced: int | None = None,
        mask: Mask | None = None,
        change: float | None = None,
    ) -> Drawn | None:
        """Draw step `number` of a reply; None if it is unusual: hardly any logit is finite, many tie, or many tokens are left.

        The chain can tell what it `looks_at`, or a `mask` before it allows few tokens. `change`: see `is_near_tie`; None leaves
        near ties open.
        """
        moving = chain.moving
        step = self._step
        step.change = change or 0.0
        if chain is not self._chain:
            self._use(chain)
        chain.prepare_step(seed, number)
        if mask is not self._mask:
            self._mask_by(mask)
        if moving:
            ids = np.array(moving, np.int32)
            step.moving = ids.ctypes.data
        if logits is not self._row:  # mostly it is llama.cpp's own, and stays where it is: to ask takes long
            self._row, self._address = logits, logits.__array_interface__["data"][0]
        needs = chain.looks_at() or 0
        _ASKED.pack_into(step, 0, self._address, seed, number, needs, -1 if forced is None else forced, len(moving))
        if not self._function(self._references[0]):
            return None
        chosen = step.chosen
        stages = list(map(Stage, self._names_of_stages, self._survivors, self._masses))
        if mask is not None:
            grammar = Stage(GRAMMAR, step.n_kept, step.kept, 1 - step.kept_of_all, step.n_allowed == 1)
            stages.insert(len(stages) if mask.after_chain else 0, grammar)
        stages.append(Stage(DICE, 1, step.won))
        return Drawn(
            self._ids[chosen],
            self._logits[chosen],
            self._logprobs[chosen],
            step.rank,
            self._probabilities[chosen],
            step.entropy,
            step.p_end,
            stages,
            PackedCandidates(self._pack_candidates()),
            chain.state_with(step.before),
            margin=None if math.isnan(step.margin) else step.margin,
            near_tie=None if change is None else bool(step.near_tie),
        )

    def _pack_candidates(self) -> bytes:
        """Return the watched tokens in msgpack."""
        while (length := self._pack(*self._references)) <= 0:
            if length:
                self._names.point(self._ids[-1 - length])
            else:
                self._make_room(2 * len(self._out))
        return ctypes.string_at(self._out, length)

    def _make_room(self, size: int) -> None:
        self._out = ctypes.create_string_buffer(size)
        self._packing.out, self._packing.room = ctypes.addressof(self._out), size

    def _mask_by(self, mask: Mask | None) -> None:
        """Mask by another constraint from now on."""
        if mask is not None and self._masked is None:
            self._masked = np.empty(self._step.n_vocab, np.float32)
            self._step.masked = self._masked.ctypes.data
        self._step.allowed = None if mask is None else mask.bits.ctypes.data
        self._step.after = mask is not None and mask.after_chain
        self._mask = mask

    def _use(self, chain: Steps) -> None:
        """Draw through another chain from now on."""
        assert chain.samplers is not None
        step, cuts, names = self._step, chain.cuts, [stage.name for stage in chain.stages]
        step.samplers, step.n_stages = ctypes.addressof(chain.samplers.pointers), len(names)
        step.masking = sum(stage.masks(chain.settings) << number for number, stage in enumerate(chain.stages))
        step.hiding, step.cut, step.share = chain.hiding, 0, 0.0
        if chain.has_floor:
            first = names[chain.hiding]
            step.cut, step.share = CUTS.index(first), getattr(chain.settings, first)
        step.rules = (ctypes.c_int32 * len(cuts))(*(cut.rule for cut in cuts))
        step.knobs = (ctypes.c_double * len(cuts))(*(cut.knob for cut in cuts))
        step.n_biased = count = len(chain.biases)
        step.biased = (ctypes.c_int32 * count)(*chain.biases)
        step.bias = (ctypes.c_double * count)(*chain.biases.values())
        self._names_of_stages = names
        self._stage_names = [packed_text(name) for name in (*names, GRAMMAR)]
        addresses = (ctypes.c_void_p * len(self._stage_names))(*map(ctypes.addressof, self._stage_names))
        self._stage_names.append(addresses)  # it lives as long as what it points to
        self._packing.stages = ctypes.addressof(addresses)
        self._chain = chain


@cache
def load(path: Path = LIBRARY) -> Any:
    """Open the library, once; None if it was not built, or from another version of its source."""
    try:
        library = ctypes.PyDLL(str(path))  # the calls are short: to let other threads in costs more than it gives
        if library.termchat_abi() != ABI:
            return None
    except (OSError, AttributeError):
        return None
    library.termchat_observe.restype = ctypes.c_bool
    library.termchat_pack.restype = ctypes.c_int32
    library.termchat_limit.argtypes = (ctypes.c_void_p, ctypes.c_double)
    return library
