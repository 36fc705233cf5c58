"""The record stream: one format for the pipe, `run --json`, the store and transcripts.

Numbers, once and for all: `logit` is the model's own; `logprob` the natural log of the model's softmax at temperature 1,
before any sampler; `rank` 0 is the highest raw logit; `entropy` is of that distribution, in bits; `p_end` its mass on end
tokens. `probability` is after the whole chain, what the draw was made from (1.0 when greedy, 0.0 when cut). `noise` is the
dice's fixed number for the token at this step. Times are `_ms` (milliseconds) or `_us` (microseconds).

`walk` is the number of the reply among those of its group, from 0 on; None for a single one.

On the pipe and in the store records are msgpack arrays (field order is the format: add at the end, with a default); as
JSON they are objects, see `to_json`.
"""

from __future__ import annotations

import base64
import builtins
import json
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, get_args, overload

import msgspec

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import INCOMPLETE, Constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import Group
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.thinking import Phase

FORMAT = 1
"""Version of the record stream."""

ABSENT = math.nan
"""A number that an engine does not tell; `UNKNOWN` for an id, a rank or a position. JSON leaves such fields out."""
UNKNOWN = -1
TAIL = "tail"
"""Of a token's state: see `Token.unlisted`."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number of a token: what a column of a reply can hold. What comes from a pipe or a file and is larger is not decoded."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

Reason = Literal["end", "length", "stop", "rule", "user", "context"]


class ModelIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The model of the records. `sha256` is the fingerprint of the file's header and size, not of the whole file."""

    name: str
    path: str
    sha256: str
    architecture: str
    quantization: str

    @property
    def fingerprint(self) -> str:
        """Identity among models: the file, or the name on a server that tells no more."""
        return self.sha256 or self.path


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """Begin of a reply. `prompt_ids` are all ids before its first drawn token; `prefill` is its prescribed beginning, whose
    tokens belong to the reply and are forced.

    `exact`: this and the records before it tell how every cell of the cache was made, so that the reply can be made again bit
    for bit. `threads` are those it begins with. `thinking` are the tags around its thoughts, () for a model that does not
    think. `largest_change` is the most by which the difference between the logits of two candidates changes with other numbers
    of threads and other sizes of batches, as measured for this model on this machine: 0.0 where no bit does, None where it was
    not measured.
    """

    version: int
    termchat: str
    llama_cpp: str
    model: ModelIdentity
    prompt_ids: list[Int32]
    raw: bool
    seed: int
    dice: int
    threads: int
    threads_batch: int
    ubatch: int
    kv_type: str
    exact: bool
    prefill: str = ""
    thinking: tuple[str, ...] = ()
    walk: int | None = None
    group: Group | None = None
    largest_change: float | None = None

    @property
    def is_served(self) -> bool:
        """Whether a server computed it, which does not tell how: its fingerprint is another than that of the model's file,
        and its logits are log-probabilities."""
        return not self.kv_type


class TokenBias(msgspec.Struct, frozen=True, array_like=True):
    """A number added to the logit of a token; None bans it. `model`: the model's file suppresses the token."""

    id: Int32
    text: str
    bias: float | None
    model: bool = False


class SettingsRecord(msgspec.Struct, frozen=True, array_like=True, tag="settings"):
    """What the next tokens are drawn with: one before the first, one per change. `origin` says where a knob came from, `order`
    which stages they go through, `biases` what the logit biases come to by token.

    `threads` compute from the next decode on; they change by themselves on a busy machine.

    `constraint` is what the reply matches from step `constraint_begun` on; it was compiled in `constraint_ms` milliseconds,
    None where it was compiled before. Thoughts are free; while they last it begins `constraint.NOT_YET`. `constraint_dropped`
    says why it is no longer applied: "" where it is.

    `draft` is who drafts, None where nobody does; `drafting` says why nothing is drafted at present: "" where it is.
    """

    number: Int32
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    origin: dict[str, str]
    threads: int = 0
    order: tuple[str, ...] = ()
    biases: tuple[TokenBias, ...] = ()
    constraint: Constraint | None = None
    constraint_begun: int = 0
    constraint_ms: float | None = None
    constraint_dropped: str = ""
    walk: int | None = None
    draft: DraftSettings | None = None
    drafting: str = ""


IN_ROUND = -1
"""For `Shape.threads`: the row was one of several, with drafted tokens. It has the bits of one thread with weights of which the
engine knows that rows of a batch have those that each has alone; else nothing gives its bits again."""


class Shape(NamedTuple):
    """How many rows a decode had, and how many threads computed them: 0 if that is unknown, or `IN_ROUND`. The bits of its
    results depend on both."""

    rows: int
    threads: int = 0


class Prefill(msgspec.Struct, frozen=True, array_like=True, tag="prefill"):
    """The prompt is in the cache: `tokens` in all, `reused` of them were there, `shapes` are the sizes of the batches decoded,
    and `threads` the number of threads that decoded each of them. All walks of a group have the same, as it is
    decoded once."""

    tokens: int
    reused: int
    shapes: list[int]
    ms: float
    threads: list[int] = []
    walk: int | None = None


class Stage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stage of the chain, how many tokens had a finite logit after it, and the share of the probability mass that it was
    given which they hold; None where that was not recorded.

    Only the grammar has the others: the share of the model's own mass (at temperature 1, before any sampler) on tokens that it
    does not allow, and whether it allows one token only.
    """

    name: str
    survivors: Int32
    mass: float | None = None
    removed_mass: float | None = None
    forced: bool | None = None


class Candidate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One of the highest raw logits of a step, and the chain's result for it; `bias` was added to its logit."""

    id: Int32
    text: str
    logit: float
    logprob: float
    probability: float
    noise: float
    removed_by: str | None
    bias: float | None = None


class PackedCandidates(Sequence[Candidate]):
    """Candidates as sent: `packed` is a list of them in msgpack, unpacked on first use."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    @cached_property
    def _listed(self) -> list[Candidate]:
        return _unpack(self.packed)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        return self._listed[index]

    def __len__(self) -> int:
        return len(self._listed)

    def __eq__(self, other: object) -> bool:
        return self._listed == (other._listed if isinstance(other, PackedCandidates) else other)

    __hash__ = None  # type: ignore[assignment]


_unpack = msgspec.msgpack.Decoder(list[Candidate]).decode


def keep_bytes(token: Token, packed: bytes) -> None:
    """Keep the bytes from which a token was decoded beside it; a changed copy of it has none."""
    msgspec.structs.force_setattr(token, "packed", packed)


def bytes_of(record: Record) -> bytes | None:
    """Return the bytes from which a record was decoded, where they were kept."""
    return getattr(record, "packed", None)


def as_packed(value: object) -> msgspec.Raw:
    """Pass packed candidates through an encoder of records as they came: its `enc_hook`.

    Raises:
        NotImplementedError: it is anything else.
    """
    if isinstance(value, PackedCandidates):
        return msgspec.Raw(value.packed)
    raise NotImplementedError(f"{type(value)} cannot be written")


def is_taken(candidate: Candidate, token: Token) -> bool:
    """Tell whether a candidate is the token that was drawn; where no ids are known, by its text."""
    if candidate.id != UNKNOWN or token.id != UNKNOWN:
        return candidate.id == token.id
    return candidate.text == token.bytes.decode("utf-8", "replace")


class DraftToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One token of a draft."""

    id: Int32
    text: str


class Draft(msgspec.Struct, frozen=True, array_like=True):
    """The draft of a step, `by` the context ("ngram") or a model of this name. `accepted`: the drafted token was taken.
    `tokens` are the whole draft at its first step, later only that of the step; `us`: the microseconds of making it, at its
    first step.
    """

    by: str
    accepted: bool
    tokens: list[DraftToken]
    us: int = 0


class Token(msgspec.Struct, frozen=True, array_like=True, tag="token", dict=True):
    """One step of the loop: the model's logits, the chain's result, the draw.

    `step` counts from the reply's first token, `position` from the start of the context. `text` is what the incremental
    UTF-8 decoder could show: "" while a character or a stop sequence is incomplete. `state` belongs to stages that keep
    one. `end`: it is an end token, with which a reply ends, unless that is ignored. `phase` None: the token may be a part of
    the tag that opens the thoughts; it is of the phase that follows. `draft` None: nothing was drafted for the step. Where it
    was accepted the step was decoded with the first one of the draft, whose `decode_us` is that of all.

    An engine that does not draw here does not tell all of it: numbers are then `ABSENT` or `UNKNOWN`, `stages` empty, and a
    candidate whose probability is absent has no `removed_by`.

    `margin` is how far the winner of the draw was ahead of the runner-up among the tokens that were left, in nats:
    log-probability after the chain plus noise; at temperature 0 the difference of the two highest logits. None where one token
    was left, or nothing was drawn here: the token was forced, or a server drew it. `near_tie`: if differences of logits changed
    by up to `Start.largest_change`, another token could win: it is that close, or the winner or a rival is that close to a
    cut. It is True wherever xtc, typical_p, mirostat or another stage for which no bound is known shaped the draw; False for a
    forced token; None where the largest change is not known, or a search chose the token.
    """

    step: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    position: Int32
    id: Int32
    bytes: builtins.bytes
    text: str
    logit: float
    logprob: float
    rank: Int32
    probability: float
    entropy: float
    p_end: float
    settings: Int32
    forced: bool
    stages: list[Stage]
    candidates: Sequence[Candidate]
    state: dict[str, float]
    decode_us: Count
    sample_us: Count
    end: bool = False
    phase: Phase | None = "answer"
    walk: int | None = None
    draft: Draft | None = None
    margin: float | None = None
    near_tie: bool | None = None

    @property
    def unlisted(self) -> float:
        """The mass of the tokens that an engine elsewhere did not list: the entropy and `p_end` are then the most that they can
        be. 0.0 where all are known."""
        return self.state.get(TAIL, 0.0)


_FLOAT32 = 3.4028234663852886e38
LIKELIEST = 0.01
"""What the logarithm of a probability can be at most, rounding and all."""
BOUNDS = {
    "logit": (-math.inf, _FLOAT32),
    "logprob": (-math.inf, LIKELIEST),
    "probability": (0.0, 1 + LIKELIEST),
    "noise": (-_FLOAT32, _FLOAT32),
    "entropy": (-LIKELIEST, 64.0),
    "p_end": (0.0, 1 + LIKELIEST),
}
"""The least and the most that the numbers of a token can be, and those of a candidate."""


def drop_impossible(token: Token) -> Token:
    """Replace numbers that no model or sampler gives, as a faulty engine may send them, by `ABSENT`.

    Every token that an engine elsewhere sends, or a file holds, comes through here.
    """
    changed = _find_impossible(token)
    if any(  # of each candidate of each token: it has to be quick
        one.logprob > LIKELIEST
        or not abs(one.logit) <= _FLOAT32
        or not 0 <= one.probability <= 1
        or not abs(one.noise) <= _FLOAT32
        for one in token.candidates
    ):
        changed["candidates"] = [msgspec.structs.replace(one, **_find_impossible(one)) for one in token.candidates]
    if any(stage.mass is not None and not 0 < stage.mass <= 1 + LIKELIEST for stage in token.stages):
        changed["stages"] = [msgspec.structs.replace(stage, mass=None, removed_mass=None) for stage in token.stages]
    if token.margin is not None and not 0 <= token.margin <= _FLOAT32:
        changed |= {"margin": None, "near_tie": None}
    if not 0 <= token.unlisted <= 1:
        changed["state"] = {name: value for name, value in token.state.items() if name != TAIL}
    return msgspec.structs.replace(token, **changed) if changed else token


def _find_impossible(numbers: Token | Candidate) -> dict[str, Any]:
    """Map each field that is out of its bounds to `ABSENT`; NaN is `ABSENT` already."""
    changed: dict[str, Any] = {}
    for name, (low, high) in BOUNDS.items():
        if (value := getattr(numbers, name, 0.0)) < low or value > high:
            changed[name] = ABSENT
    return changed


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """End of a reply. `held` is text that came out with no token: withheld for good after a `stop`; else it could have begun
    a stop sequence and belongs to the reply. It ends with U+FFFD if the last bytes are part of a character, which the next
    token completes if the reply is continued. `drafted` tokens in `rounds` rounds, `accepted` of them taken; None without
    drafts. `not_drafted` says why no draft was made although drafts were on at the end; else "".
    """

    reason: Reason
    detail: str
    held: str
    tokens: int
    ttft_ms: float | None
    prefill_ms: float
    decode_ms: float
    tokens_per_second: float | None
    walk: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    rounds: int | None = None
    not_drafted: str = ""

    @property
    def why(self) -> str:
        """The detail without the remark that the constraint is not complete."""
        return self.detail.removesuffix(INCOMPLETE).removesuffix("; ")


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """Something went wrong: what, and what to do about it."""

    kind: str
    message: str
    hint: str = ""
    walk: int | None = None


class Beam(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One token considered in a step of a beam search. `parent` is the place, in the step before, of the beam that it
    extends (0 in the first step); `logprob` is the token's own, `score` that of the beam with it. `finished`: it ends the
    beam.

    `walk` is its place in its step: those that go on, best first from 0 on, then the finished ones, then those
    that were dropped.
    """

    walk: Int32
    parent: Int32
    id: Int32
    text: str
    logprob: float
    score: float
    finished: bool = False


class Beams(msgspec.Struct, frozen=True, array_like=True, tag="beams"):
    """One step of a beam search: the beams kept, and the next best ones, `dropped`. All steps belong to the group's reply 0;
    the replies are the final beams, best first.
    """

    step: int
    beams: list[Beam]
    dropped: list[Beam]


class Ranked(msgspec.Struct, frozen=True, array_like=True):
    """A reply in a ranking, by its `score`; in a vote `answer` is its extracted answer (None: none, or the reply was cut
    off) and `votes` the number of replies with that answer.
    """

    walk: int
    score: float | None
    mean_logprob: float | None
    tokens: int
    answer: str | None = None
    votes: int | None = None


class Ranking(msgspec.Struct, frozen=True, array_like=True, tag="ranking"):
    """The walks of a group, best first."""

    walks: list[Ranked]


Record = Start | SettingsRecord | Prefill | Token | Finished | Failed | Beams | Ranking

RECORD_NAMES: dict[type, str] = {record: str(record.__struct_config__.tag) for record in get_args(Record)}


_PLAIN = (str, int, bool, type(None))

_LEFT_OUT: dict[Any, tuple[str, ...]] = {
    Candidate: ("bias",),
    Start: ("walk", "group", "largest_change"),
    Ranked: ("answer", "votes"),
    SettingsRecord: ("walk", "draft", "drafting"),
    Token: ("walk", "draft", "margin", "near_tie"),
    DraftSettings: ("always",),
    Finished: ("walk", "drafted", "accepted", "rounds", "not_drafted"),
} | dict.fromkeys((Prefill, Failed), ("walk",))
"""Fields that JSON has only where they are something."""
_NOTHING = {"drafting": "", "not_drafted": "", "always": False}
"""What it is to be nothing, for a field that is never None."""
UNTOLD: dict[type, dict[str, Any]] = {
    Token: dict.fromkeys(("position", "id", "rank"), UNKNOWN)
    | dict.fromkeys(("logit", "logprob", "probability", "entropy", "p_end"), ABSENT)
    | {"stages": []},
    Candidate: {"id": UNKNOWN, "removed_by": None}
    | dict.fromkeys(("logit", "logprob", "probability", "noise"), ABSENT),
    Prefill: {"reused": UNKNOWN},
    Finished: {"tokens": UNKNOWN},
}
"""What fields are that an engine does not tell. JSON lacks them then."""


def list_untold(value: msgspec.Struct) -> set[str]:
    """List the fields that the engine did not tell."""
    names = set()
    for name, nothing in UNTOLD[type(value)].items():  # of each candidate of each token: it has to be quick
        number = getattr(value, name)
        if number is nothing or number != number or number == nothing:
            names.add(name)
    # No stage removed the token (None) is something to tell, unless nothing is known of what the chain did.
    return names if "probability" in names else names - {"removed_by"}


def to_dict(value: Any) -> Any:
    """Convert a record to plain values: structs become dicts by field name, bytes base64 text, and NaN and infinity, for which
    JSON has no word, None. What an engine does not tell of a token is left out."""
    if isinstance(value, float):  # first what there is most of: a token has two hundred numbers and texts
        return value if math.isfinite(value) else None
    if type(value) in _PLAIN:
        return value
    if isinstance(value, msgspec.Struct):
        named: dict[str, Any] = {}
        if type(value) in RECORD_NAMES:
            named["record"] = RECORD_NAMES[type(value)]
        elif value.__struct_config__.tag is not None:
            named[str(value.__struct_config__.tag_field)] = value.__struct_config__.tag
        fields = value.__struct_fields__
        if type(value) is Stage and value.removed_mass is None:
            fields = fields[:-2]
        named |= {name: to_dict(getattr(value, name)) for name in fields}
        for name in _LEFT_OUT.get(type(value), ()):
            if named[name] == _NOTHING.get(name):
                del named[name]
        for name in list_untold(value) if type(value) in UNTOLD else ():
            del named[name]
        return named
    if isinstance(value, (list, tuple, PackedCandidates)):
        return [to_dict(item) for item in value]
    if isinstance(value, dict):
        return {key: to_dict(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value


def to_json(record: Record, **more: Any) -> str:
    """One line of JSON, without the newline; everything outside ASCII is escaped. `more` are fields beside the record's own."""
    return json.dumps(to_dict(record) | more, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class StageEffect(msgspec.Struct, frozen=True, array_like=True):
    """What a stage of the chain did to one token: its logit and probability after the stage (None once cut), how many tokens
    were left, and whether it was this stage that cut it. The dice cut all but the one they take.
    """

    name: str
    logit: float | None
    probability: float | None
    survivors: int
    cut: bool


class Penalised(msgspec.Struct, frozen=True, array_like=True):
    """The penalties' share of the token's logit (below 0: added), and the positions in the context of the earlier tokens
    that caused it.
    """

    loss: float
    positions: list[int]


class Remedy(msgspec.Struct, frozen=True, array_like=True):
    """A knob and the value from which the token is kept or wins, all else as it is but for the remedies before this one.

    `sign` is which side of the value will do: ">=" or "<=". With "=" a penalty is taken off, all else as it is without any
    other remedy. `wins`: with it the dice take the token; else it survives the stage. `value` None: no value of the knob can
    do it. A temperature wins only as far as `until`, in the direction of `sign`; None is to the knob's end.
    """

    knob: str
    sign: str
    value: float | None
    wins: bool
    until: float | None = None


class Misfit(msgspec.Struct, frozen=True, array_like=True):
    """Why the constraint forbids a token: its byte number `at` is `byte`, where only one of the `allowed` bytes may follow.
    `byte` None: a control token, which is no text. `forced` is the only possible text there, if unique; `may_end`: the reply
    could end there.
    """

    at: int
    byte: int | None
    allowed: bytes
    forced: bytes
    may_end: bool


class DrawnThere(msgspec.Struct, frozen=True, array_like=True):
    """A step drawn by a server: it lists so many candidates (`listed`), of which the `best` is the likeliest. The numbers
    are the model's own, before any sampler; an unlisted token has no rank (UNKNOWN).
    """

    listed: int
    winner_logprob: float
    winner_rank: int
    best: int
    best_text: str
    best_logprob: float


class Explanation(msgspec.Struct, frozen=True, array_like=True):
    """Everything about one token at one step; the names are those of a `Token` record. `winner` is what the dice took.

    `removed_by` is the stage that cut it, None if it came as far as the dice. `remedies` are in the order of the chain, none
    for the winner. `bias` is its logit bias, if it has one.

    Where a server drew (`there`), `winner` is the token that stands there, UNKNOWN where none does, and what its chain did is
    not known: numbers are then `ABSENT`, `stages` and `remedies` empty, and `removed_by` None says nothing.
    """

    id: int
    text: str
    logit: float
    logprob: float
    rank: int
    probability: float
    noise: float
    stages: list[StageEffect]
    removed_by: str | None
    penalised: Penalised | None
    remedies: list[Remedy]
    winner: int
    winner_text: str
    bias: TokenBias | None = None
    misfit: Misfit | None = None
    there: DrawnThere | None = None
