"""The contract of an engine: commands in, events out, nothing blocks.

A command gets a number from `send`; every event that answers it carries that number. Records of a reply (`Start` …
`Finished` or `Failed`) are events too, in the order in which they happened.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Protocol

import msgspec

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import Group
from termchat.decoding.records import (
    UNKNOWN,
    Beams,
    Count,
    Failed,
    Finished,
    Int32,
    Prefill,
    Ranking,
    SettingsRecord,
    Shape,
    Start,
    Token,
)
from termchat.decoding.records import Explanation as Explanation
from termchat.decoding.records import Misfit as Misfit
from termchat.decoding.records import Penalised as Penalised
from termchat.decoding.records import Remedy as Remedy
from termchat.decoding.records import StageEffect as StageEffect
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.setting import Setting
from termchat.decoding.thinking import ThinkingTags
from termchat.engine.abilities import ALL_FEATURES as ALL_FEATURES
from termchat.engine.abilities import FEATURES as FEATURES
from termchat.engine.abilities import LOCAL, EngineAbilities
from termchat.engine.abilities import Feature as Feature
from termchat.engine.address import HERE, EngineAddress
from termchat.text import show_piece

# --- what is asked ---------------------------------------------------------------------------------------------------


MOST_CONTEXT = 8192
"""Tokens of context that an engine chooses at most by itself; more is for whoever asks for it."""
_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")


class Measurement(msgspec.Struct, frozen=True):
    """What rows of a batch cost, and which bits they have, as measured for one model on one machine.

    `how` is how it was loaded (`Cache.how`), and with that how many `threads`. `batch_times` are T(n), the time of a batch of n
    rows in units of one row; {} where the machine was too busy to tell. In batches of up to `rows_alike` rows each row has the
    bits of a row alone, with one thread; 1: no batch does.

    `changes` are by how much the difference between the logits of any two of the 300 likeliest candidates changed at most over
    so many `positions`, by what was changed: "threads", or the rows of a batch, as "4 rows". 0.0 is no bit.
    """

    how: str
    threads: int
    batch_times: dict[int, float] = {}
    rows_alike: int = 1
    changes: dict[str, float] = {}
    positions: int = 0

    @property
    def largest_change(self) -> float:
        """The bound of a change that turns a draw: the largest range over 300 candidates, and more the fewer its positions.

        With Qwen2.5 0.5B and Gemma 3 270M (Q4_K_M, 1,024 positions of four texts) 1,800 of 90,000 draws turned. All of them
        were within 0.41 and 0.87, where the largest ranges were 0.89 and 2.0, and those over the calmest 8 positions of one
        text 0.36 and 0.59.
        """
        return max(self.changes.values(), default=0.0) * (1 + 2 / math.sqrt(max(self.positions, 1)))

    def join_with(self, other: Measurement) -> Measurement:
        """Return what both measurements of one model tell; the times are those of the `other`, newer one, if it has some."""
        changes = {
            what: max(self.changes.get(what, 0.0), other.changes.get(what, 0.0))
            for what in {**self.changes, **other.changes}
        }
        return msgspec.structs.replace(
            other,
            batch_times=other.batch_times or self.batch_times,
            rows_alike=min(self.rows_alike, other.rows_alike),
            changes=changes,
            positions=max(self.positions, other.positions),
        )


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine runs a model.

    Threads that the engine chooses are fewer while other programs keep the machine busy; those that are given here stay, unless
    the model's are `proposed_threads`. `prefill_batch` is the most prompt tokens decoded at once; `fast_prefill` makes it 512
    at the price of exactness. `kv_type` is "K/V" where keys and values differ; "auto" leaves it to the engine
    (see `llama.cache`). With `main_gpu` -1 the model is spread over all GPUs; the devices of `rpc` are used as GPUs are.
    """

    context: Annotated[int, Setting(
        also=("ctx_size",), high=10_000_000, step=1024,
        help=f"context size in tokens; 0 uses the model's training length, at most {MOST_CONTEXT}",
    )] = 0  # fmt: skip
    threads: Annotated[int, Setting(
        high=1024,
        help="threads for generating tokens; 0 chooses automatically, fewer while the machine is busy",
    )] = 0  # fmt: skip
    threads_batch: Annotated[int, Setting(
        high=1024, help="threads for processing the prompt; 0 chooses automatically",
    )] = 0  # fmt: skip
    gpu_layers: Annotated[int, Setting(
        low=-1, high=10_000, help="layers to put on the GPU; -1 means all, if this build supports it",
    )] = -1  # fmt: skip
    prefill_batch: Annotated[int, Setting(
        high=4096, help="prompt tokens per batch; 0 chooses automatically, up to 63 keeps results exact",
    )] = 0  # fmt: skip
    flash_attention: Annotated[Literal["auto", "on", "off"], Setting(
        help="use flash attention",
    )] = "auto"  # fmt: skip
    kv_type: Annotated[str, Setting(
        kind="choice", choices=("auto", "f32", "f16", "bf16/f16", "bf16", *_QUANTIZED),
        help="data type of the KV cache; auto is bf16/f16 (keys/values) on the CPU, with the same numbers for any "
        "number of threads, and f16 on a GPU; smaller types save memory",
    )] = "auto"  # fmt: skip
    mmap: Annotated[Literal["auto", "on", "off"], Setting(
        help="memory-map the model file instead of reading it into memory",
    )] = "auto"  # fmt: skip
    mlock: Annotated[bool, Setting(
        help="lock the model in memory so it is never swapped out",
    )] = False  # fmt: skip
    main_gpu: Annotated[int, Setting(
        low=-1, high=64, help="use only this GPU, counting from 0; -1 uses all",
    )] = -1  # fmt: skip
    rpc: Annotated[tuple[str, ...], Setting(
        metavar="HOST:PORT", separator=",", high=16,
        help="other machines that run ggml-rpc-server, as HOST:PORT, separated by commas; only in a network you trust",
    )] = ()  # fmt: skip
    fast_prefill: Annotated[bool, Setting(
        help="process prompts 512 tokens at a time: faster, but no longer exact",
    )] = False  # fmt: skip

    @property
    def conflict(self) -> str:
        """Why no model can run with these values, though each may be right by itself; "" if one can."""
        if self.kv_type in _QUANTIZED and self.flash_attention == "off":
            return f"kv_type {self.kv_type} needs flash_attention, which is off"
        return ""


class ModelSpec(EngineSettings, frozen=True):
    """Which file to load and how.

    `sha256`, `quantization` and `layers` are what the file's header said. `path_bytes` says where the file is when its path is
    not UTF-8; `path` is then only what to show. `thinking` are the tags of its thoughts (see `thinking.tags_from`); () leaves
    them to its template. `measured` is what was measured of it on this machine, for each way in which it was loaded.

    `engine` says where the model runs. On another machine `path` is what that engine calls it, "" for its own choice, and
    its own settings count but for those that differ from these defaults or are `said`.
    """

    path: str
    name: str
    sha256: str = ""
    quantization: str = ""
    path_bytes: bytes = b""
    layers: int = 0
    proposed_threads: bool = False
    thinking: tuple[str, ...] = ()
    measured: tuple[Measurement, ...] = ()
    engine: EngineAddress = HERE
    said: tuple[str, ...] = ()


def threads_of_batches(threads: int, loaded: int, loaded_batch: int) -> int:
    """Return how many threads read prompts while `threads` decode, in a model that was loaded with these for the two."""
    return loaded_batch if threads >= loaded else min(threads, loaded_batch)


class Message(msgspec.Struct, frozen=True):
    """One message of a chat, as a template sees it. `thinking` are the thoughts before an assistant's answer. `ids` are the
    tokens of both as the loaded model drew them, without the end token; [] where they are not known."""

    role: Literal["system", "user", "assistant"]
    content: str
    thinking: str = ""
    ids: list[int] = []


class Load(msgspec.Struct, frozen=True, tag=True):
    """Load a model, in place of the one that is loaded. Answer: `Progress` …, then `Loaded` or `Failed`."""

    spec: ModelSpec


class LoadDraft(msgspec.Struct, frozen=True, tag=True):
    """Load a second model beside the one that is loaded, to draft for it, in place of the one that drafted; None: none drafts
    any more. It stays until another model is loaded. A reply that runs uses it from its next draft on.

    Answer: `Progress` …, then `DraftLoaded`, or `Failed` of kind "draft" where it cannot draft for this model: its vocabulary
    is another one, or one of the two cannot rewind. What drafted before stays then.
    """

    spec: ModelSpec | None


class MeasureBatches(msgspec.Struct, frozen=True, tag=True):
    """Measure what batches cost and which bits they have, on the spare sequence, behind `cells` tokens of a text at least; for
    about so many `seconds`, longer where the model is so slow that less would tell nothing.

    Any other work goes first: the answer is then a `Failed` of kind "busy". Where it is `needed` for what follows, that waits.
    Answer: `BatchesMeasured`.
    """

    seconds: float = 1.0
    cells: int = 0
    needed: bool = False


class Probe(msgspec.Struct, frozen=True, tag=True):
    """What the engine is built of and which devices it sees; needs no model. Answer: `Probed`."""


class Render(msgspec.Struct, frozen=True, tag=True):
    """Messages to prompt ids by the model's chat template, up to where the assistant begins to speak. The prompt is what the
    template makes of all messages; where it has the text of a reply, the reply's own ids stand.

    `before` are the ids that the chat has so far: if the prompt begins with them, the answer is what it adds to them, else the
    whole prompt. With `append` the prompt before the last reply was written by hand, and is kept: the answer is what follows
    that reply. `think` turns the thoughts on or off, where the template has a switch for that; None leaves it to the template.
    Answer: `Rendered` or `Failed`.
    """

    messages: list[Message]
    before: list[int] = []
    append: bool = False
    think: bool | None = None


class Tokenize(msgspec.Struct, frozen=True, tag=True):
    """Text to ids, no template, no control tokens; `begin` adds the model's begin token. Answer: `Tokenized`."""

    text: str
    begin: bool = False


class Spell(msgspec.Struct, frozen=True, tag=True):
    """The spellings of a word: with and without a leading space, as written, in lower case, capitalised and in upper case.
    Answer: `Spelled`."""

    text: str


class Scripted(msgspec.Struct, frozen=True):
    """Changes before step `step` of a reply: other settings, a number of threads (0: unchanged), and token `id` taken
    whatever the dice draw. None leaves a thing unchanged. The constraint changes only together with `samplers`.

    `pinned` is for an `id` that was drawn elsewhere: the dice draw, and where they draw another token the id is taken in its
    place if the draw was a near tie there (True) or is one here (False). The record says `forced` then.

    A script that names threads has them all: they are not adapted to a busy machine, and those of its first step hold for the
    prompt too.
    """

    step: int
    id: int | None = None
    samplers: SamplerSettings | None = None
    conditions: tuple[Condition, ...] | None = None
    origin: dict[str, str] = {}
    threads: int = 0
    constraint: Constraint | None = None
    pinned: bool | None = None


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Bytes and labels of ids. Answer: `Tokenized`."""

    ids: list[int]


class ReplyRequest(msgspec.Struct, frozen=True):
    """One reply of a request: go on from `ids`, of which the last `done` are the reply's own so far, so that its next step has
    the number `done`.

    `number` tells the replies of a group apart. `script` is in order of steps; `paused` waits before the first token that is
    not forced. `state` is what mirostat and adaptive_p remember of the reply so far (`decoding.stage_state`). The reply matches
    the `constraint` from step `constraint_begun` on. `shapes` are the batches in which `ids` were decoded before, as far as
    known; with `rebuild_exactly` cells that are gone, or were decoded otherwise since, are decoded again in these. `prefill` is
    the text of the first scripted tokens, for the `Start` record. An engine without ids answers the `messages`; `ids` are empty
    then.
    """

    ids: list[int]
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    seed: int
    number: int = 0
    origin: dict[str, str] = {}
    done: int = 0
    script: tuple[Scripted, ...] = ()
    paused: bool = False
    state: dict[str, float] = {}
    constraint: Constraint | None = None
    constraint_begun: int = 0
    shapes: list[Shape] = []
    rebuild_exactly: bool = False
    prefill: str = ""
    messages: list[Message] = []


class Generate(msgspec.Struct, frozen=True, tag=True):
    """Make one or more replies, decoded in one batch a step. Each has its own prompt; what prompts begin with in common is
    decoded once.

    Without a `group` it is one reply, whose records have no `walk`, and which commands with a number do not reach. In a `group`
    each record has its reply's number as `walk`; a `Failed` with a number ends only that reply, and `WalksFinished` ends the
    answer. Rows of a batch have the bits of one thread however many compute them, so that each reply is what its seed and
    settings give alone with one thread, where a batch has no more rows than `Measurement.rows_alike`; `exact` makes a step as
    many batches as that takes. The `Start` says whether it is so. Cells of replies that ended stay until all are over. When
    there is no cell left for each that runs, all end (`context`).

    A `group` with beams is a beam search from the one reply given here, of whose conditions only length and stop sequences
    count: `Start`, `Settings` and `Prefill` of reply 0, a `FirstToken`, a `Beams` a step, then the forced tokens and `Finished`
    of each of the n best, the others with a `Start`, `Settings` and `Prefill` of their own. It obeys `Pause`, `Resume`, `Step`
    and `Cancel`, which ends it with the beams that there are.

    With a `draft` tokens are guessed and decoded together with the newest one; a draft model drafts for one reply at a time.
    `keep_logits` keeps the logits for `Score`. A `largest_change` replaces the measured one (see `Start`).

    Answer: `Prefilling` …, then the record streams, interleaved, and a `Paused` whenever a reply waits.
    """

    replies: list[ReplyRequest]
    group: Group | None = None
    raw: bool = False
    candidates: int = 20
    keep_logits: bool = True
    draft: DraftSettings | None = None
    exact: bool = False
    largest_change: float | None = None


class _Steering(msgspec.Struct, frozen=True, kw_only=True):
    """A command that steers the `reply` with this number; None: all that run."""

    reply: int | None = None


class Adjust(_Steering, frozen=True, tag=True):
    """Other settings from the next token on, for the reply that is running. No answer but the `Settings` record, and a
    `Paused` where it waits. A constraint that is another one than before begins with the next token. `draft` None leaves it as
    it is."""

    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    origin: dict[str, str] = {}
    constraint: Constraint | None = None
    draft: DraftSettings | None = None


class Pause(_Steering, frozen=True, tag=True):
    """Wait before the next token of the running reply. Answer: `Paused`, with the reply's number."""


class Resume(_Steering, frozen=True, tag=True):
    """Resume a paused reply."""


Unit = Literal["token", "line", "sentence"]


class Step(_Steering, frozen=True, tag=True):
    """Resume a paused reply for one token, or to the end of the line or sentence. Answer: `Paused` again, or the end.

    A line ends with a token that holds a newline, a sentence where `decoding.units` says, with the token that comes next known.
    Steps that are asked for while one is under way are done after it.
    """

    unit: Unit = "token"


class Force(_Steering, frozen=True, tag=True):
    """Force the next tokens of the running reply; their records say `forced`. A paused reply takes them and pauses again.
    Thresholds and counts ignore them. Ids outside the vocabulary are not taken. Answer: the `Token` records.
    """

    ids: list[int]


class EndThinking(_Steering, frozen=True, tag=True):
    """Force the end of the running reply's thoughts, so that the answer follows. While it does not think, it does nothing."""


class Cancel(_Steering, frozen=True, tag=True):
    """End the running reply; its `Finished` says `user`. Without one it does nothing."""


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """The distribution after `ids`, under these settings and dice, drawn but not kept. Answer: `Inspected` or `Failed`.

    Costs one forward pass on a spare sequence, or none where the logits are still at hand.
    """

    ids: list[int]
    samplers: SamplerSettings
    seed: int
    done: int
    candidates: int = 20
    state: dict[str, float] = {}
    constraint: Constraint | None = None
    constraint_begun: int = 0


class Explain(msgspec.Struct, frozen=True, tag=True):
    """Why token `id` was or was not drawn after `ids`, under these settings and dice. Answer: `Explained` or `Failed`.

    `drawn` is the token that stands there: an engine that cannot draw again compares it with that.
    """

    ids: list[int]
    id: int
    samplers: SamplerSettings
    seed: int
    done: int
    state: dict[str, float] = {}
    constraint: Constraint | None = None
    constraint_begun: int = 0
    drawn: int = UNKNOWN


class Score(msgspec.Struct, frozen=True, tag=True):
    """A reply drawn again step by step with its own past: at each step what the dice would take under these settings.

    The last `count` of `ids` are the reply, its first being step `done`. The distributions are computed once and kept for
    the next question about the same ids. Answer: `Scoring` …, then `Scored` or `Failed`.
    """

    ids: list[int]
    count: int
    samplers: SamplerSettings
    seed: int
    done: int = 0
    constraint: Constraint | None = None
    constraint_begun: int = 0


SteerReply = Adjust | Pause | Resume | Step | Force | EndThinking | Cancel
"""Commands to a running reply, obeyed before its next token; without a `reply` they are for all."""


class Join(msgspec.Struct, frozen=True, tag=True):
    """Add a reply to the running group. It shares the ids of a running one up to where they part, and copies their cells.
    Answer: its records; `Failed` with its number if there is no room.
    """

    reply: ReplyRequest


class Keep(msgspec.Struct, frozen=True, tag=True):
    """Make a reply of the ended group the engine's main sequence, cells included, and drop the others: the next request
    continues from its ids without decoding them again. Answer: `Kept`, or `Failed` once the cells are gone.
    """

    reply: int


Steer = SteerReply | Join
"""Commands for the running replies. They have no answer of their own, and without a reply they do nothing."""


class Check(msgspec.Struct, frozen=True, tag=True):
    """Whether a constraint can be used with the model that is loaded. Answer: `Checked`."""

    constraint: Constraint


Question = Render | Tokenize | Describe | Spell | Inspect | Explain | Score | Check
"""Questions: commands answered between the tokens of a running reply, too, that change nothing (`LoadDraft` does)."""

Command = Load | LoadDraft | MeasureBatches | Probe | Generate | Keep | Steer | Question

# --- what is answered ------------------------------------------------------------------------------------------------


class Remark(msgspec.Struct, frozen=True):
    """A remark for the user about how a model was loaded, and what to do about it."""

    message: str
    hint: str = ""


class Device(msgspec.Struct, frozen=True):
    """Something that computes, as llama.cpp sees it; memory in bytes, 0 where it does not say."""

    name: str
    description: str
    kind: Literal["cpu", "gpu", "integrated gpu", "accelerator", "other"]
    free: Count
    total: Count

    @property
    def offloads(self) -> bool:
        """Whether layers of a model can be put on it."""
        return self.kind in ("gpu", "integrated gpu")


class ModelInfo(msgspec.Struct, frozen=True):
    """A loaded model, as it really is: sizes in tokens, parameters and bytes as counts.

    `gpu_layers` counts the output layer, so that all are `layers` + 1. `device` is where they are, "cpu" where there are none.
    `suppressed` are the tokens that the file bans. `thinking` are the tags of its thoughts, None if it does not think; with
    `thinking_switch` its template turns them on and off. `engine` is what the engine is called that it runs on, "" for this
    machine's. `recommended` are knobs by name, where only the engine knows the model's file. `measured`: what was measured of
    its batches as it is loaded, None if nothing was. `abilities`: what can be done with it.
    """

    name: str
    path: str
    sha256: str = ""
    architecture: str = ""
    quantization: str = ""
    description: str = ""
    size: Count = 0
    parameters: Count = 0
    vocabulary: Count = 0
    context: Count = 0
    context_trained: Count = 0
    threads: Count = 0
    threads_batch: Count = 0
    prefill_batch: Count = 0
    kv_type: str = ""
    layers: Count = 0
    gpu_layers: Int32 = 0
    device: str = ""
    has_template: bool = False
    can_rewind: bool = False
    end_ids: list[Int32] = []
    remarks: list[Remark] = []
    suppressed: list[int] = []
    thinking: ThinkingTags | None = None
    thinking_switch: bool = False
    engine: str = ""
    recommended: dict[str, Any] = {}
    abilities: EngineAbilities = LOCAL
    measured: Measurement | None = None


class Progress(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How much of the model is loaded, 0 to 1."""

    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Loaded(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers `Load`."""

    info: ModelInfo


class DraftInfo(msgspec.Struct, frozen=True):
    """A loaded draft model: sizes as in `ModelInfo`; `cost` is the time of one of its tokens, in units of one row of the model
    that it drafts for, measured when it was loaded. `why_not` says why it cannot pay, "" if it may."""

    name: str
    path: str
    sha256: str
    size: Count
    parameters: Count
    layers: Count
    gpu_layers: Int32
    cost: float
    why_not: str = ""


class DraftLoaded(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers `LoadDraft`; None: no model drafts."""

    info: DraftInfo | None


class BatchesMeasured(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers `MeasureBatches`."""

    measured: Measurement


class Probed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`library` is the version, `system` llama.cpp's own line about its build, `backends` name their features. `compiled`:
    termchat's own native code is available.
    """

    library: str
    system: str
    backends: dict[str, dict[str, str]]
    devices: list[Device]
    compiled: bool = True


class Rendered(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Prompt ids. `whole` is False when they are only what the prompt adds to the ids before. `remark` says where the template
    could not take the messages as they are."""

    ids: list[Int32]
    whole: bool
    remark: Remark | None = None


class Tokenized(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Ids, the bytes of each, and its label: its text, with U+FFFD for bytes that are no text alone, or a control token's name.

    `control` are the indexes of those that steer instead of speaking.
    """

    ids: list[Int32]
    pieces: list[bytes]
    names: list[str] = []
    control: list[Count] = []

    def __post_init__(self) -> None:
        count = len(self.ids)
        if len(self.pieces) != count or len(self.names) not in (0, count) or max(self.control, default=-1) >= count:
            raise ValueError("ids, pieces and names of different numbers")

    def show_tokens(self) -> list[str]:
        """Format each token for the screen; a part of a character as its bytes, such as <F0><9F>."""
        names = self.names or [piece.decode("utf-8", "replace") for piece in self.pieces]
        return [_show_token(name, piece) for name, piece in zip(names, self.pieces, strict=True)]


def _show_token(name: str, piece: bytes) -> str:
    partial = "\ufffd" in name and "\ufffd".encode() not in piece
    return "".join(f"<{byte:02X}>" for byte in piece) if partial else show_piece(name)


class Spelling(msgspec.Struct, frozen=True, array_like=True):
    """One spelling, its ids and their labels. Where it is several tokens, `begins` other words of the vocabulary begin with the
    first of them, some of which are `examples`."""

    text: str
    ids: list[Int32]
    names: list[str]
    begins: Count
    examples: list[str]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.names):
            raise ValueError("ids and names of different numbers")


class Spelled(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answers `Spell`; empty for a text without a word."""

    spellings: list[Spelling]


class Prefilling(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`done` of the `total` new prompt tokens are decoded."""

    done: Count
    total: Count


class Noted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A remark on the running reply that is not a record."""

    remark: Remark


class FirstToken(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The reply's first token was drawn `ttft_ms` milliseconds after the request; its record follows."""

    ttft_ms: float
    walk: int | None = None


class WalksFinished(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All walks of a group are over: so many `tokens` in all, in `steps` batches, which took `decode_ms` milliseconds with all
    that belongs to a step; `tokens_per_second` counts the tokens after each walk's first. Of a beam search these are the tokens
    that its beams took, and not only those of the walks."""

    tokens: int
    steps: int
    decode_ms: float
    tokens_per_second: float | None


class Kept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The main sequence has `cells` cells of the walk that was kept; to save and restore them took `ms` milliseconds."""

    cells: int
    ms: float


class Inspected(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What would be drawn; `recomputed` when the logits are of a fresh forward pass and not the ones first drawn from."""

    token: Token
    recomputed: bool


class Paused(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The reply waits before step `token.step`. `token` would be drawn now; it is not taken.

    `why` is the condition that was met, as people write it, or "" when somebody asked for it. Comes again whenever settings
    change what would be drawn.
    """

    token: Token
    why: str = ""
    walk: int | None = None


class Explained(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`recomputed` as in `Inspected`."""

    explanation: Explanation
    recomputed: bool


class Checked(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`error` is the fault of the constraint, "" if it can be used, after `ms` milliseconds of compiling; `warnings` name
    ignored parts. An error of the text has its `line` and `column`, from 1 on, 0 if unknown.
    """

    error: str
    ms: float = 0.0
    warnings: list[str] = []
    line: int = 0
    column: int = 0


class Scoring(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """`done` of `total` tokens have their distribution."""

    done: Count
    total: Count


class Scored(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """One entry a token of the reply: the id that would be drawn, its text, and the probability that the token which is there
    would have been drawn with (0.0: it is impossible). `recomputed` unless all distributions are those first drawn from."""

    ids: list[Int32]
    texts: list[str]
    probabilities: list[float]
    recomputed: bool = True

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.texts) == len(self.probabilities):
            raise ValueError("ids, texts and probabilities of different numbers")


Event = (
    Progress | Loaded | DraftLoaded | BatchesMeasured | Probed | Rendered | Tokenized | Spelled
    | Prefilling | Noted | FirstToken | Paused | Inspected | Explained | Scoring | Scored | Checked
    | Start | SettingsRecord | Prefill | Token | Finished | Failed | Beams | Ranking | WalksFinished | Kept
)  # fmt: skip

_LAST = (
    Loaded, DraftLoaded, BatchesMeasured, Probed, Rendered, Tokenized, Spelled, Inspected, Explained, Scored,
    Checked, Kept,
    WalksFinished, Finished, Failed,
)  # fmt: skip


def is_last(event: Event) -> bool:
    """Return whether it ends the answer to a command: no more events have its number."""
    return isinstance(event, _LAST) and not (isinstance(event, Finished | Failed) and event.walk is not None)


# --- who asks whom ---------------------------------------------------------------------------------------------------


class EngineError(Exception):
    """An engine cannot start or go on. `kind` is a word for programs, `hint` says what to do."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(kind, message, hint)
        self.kind, self.message, self.hint = kind, message, hint

    def __str__(self) -> str:
        return self.message


class Engine(Protocol):
    """The port between chat and engine. Not thread-safe: one owner calls it."""

    @property
    def offers(self) -> frozenset[Feature]:
        """The features available now: those of the loaded model, and all before one is loaded. Commands for other features
        are answered by `Failed` of kind "capability", or have no effect.
        """

    def send(self, command: Command) -> int:
        """Send a command and return its number; start the engine process first if there is none.

        Raises:
            EngineError: the engine process cannot be started.
        """

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        """Return all events that are there; wait up to `timeout` seconds for the first (None: as long as it takes).

        When the engine dies, the last event is a `Failed` of kind "engine", and `alive` turns false. Its number is that of
        the reply that was running, else of the oldest command that waited for an answer, else 0.
        """

    def fileno(self) -> int:
        """Return a descriptor that turns readable with each event; -1 without a process."""

    @property
    def alive(self) -> bool:
        """Whether the engine process runs."""

    def close(self) -> None:
        """End the engine and frees all it holds."""
