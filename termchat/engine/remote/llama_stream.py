"""A llama-server that draws by itself: a segment of a reply is one streamed request to `/completion`.

Its chain is llama.cpp's own, with the stages and the order that are asked for. Progress comes as chunks of their own, which
name a token that is none; a stream that ends without a chunk that says `stop` was cut.

The server sends nothing for a token that leaves a character incomplete; the next chunk counts it. Mostly its bytes, which are
those of the text before the last token's, tell which tokens were drawn. Where they do not, the segment ends before them, and
they are drawn again, one a request, for which the server tells each id.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.biases import BANNED
from termchat.decoding.stages import chain_of
from termchat.engine.abilities import LLAMA_SERVER_STREAMED
from termchat.engine.llama.cells import ContextFull
from termchat.engine.port import EngineError, ModelSpec, Remark
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.llama_server import Listed, Timings
from termchat.engine.remote.server_answers import Count, Total, read_drawn_logprob
from termchat.engine.remote.server_session import connected
from termchat.engine.remote.streams import Reading, Segment, StreamEnd, StreamingServer, TokenStream, Told
from termchat.text import one_line

_STAGES = {
    "penalties": "penalties", "dry": "dry", "top_n_sigma": "top_n_sigma", "top_k": "top_k", "typical_p": "typ_p",
    "top_p": "top_p", "min_p": "min_p", "xtc": "xtc", "temperature": "temperature", "adaptive_p": "adaptive_p",
}  # fmt: skip
"""What the server calls our stages that stand in its chain."""
_KNOBS = (
    "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma",
    "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty", "dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n", "xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau",
    "mirostat_eta", "adaptive_target", "adaptive_decay",
)  # fmt: skip
"""Knobs that have the same names there."""
_SHOWN = 200
_MOST_LOST = 64
"""Bytes that are looked at to find out which tokens they are: the characters of a few tokens have fewer."""


class _Progress(msgspec.Struct, frozen=True):
    total: Count = 0
    cache: Count = 0
    processed: Count = 0


class _Drawn(msgspec.Struct, frozen=True, gc=False):
    id: int
    logprob: float | None = None
    top_logprobs: list[Listed] = []


class _Complaint(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""


class _Chunk(msgspec.Struct, frozen=True):
    content: str = ""
    tokens: list[int] = []
    stop: bool = False
    tokens_predicted: Total = 0
    completion_probabilities: list[_Drawn] = []
    prompt_progress: _Progress | None = None
    timings: Timings = Timings()
    stop_type: str = ""
    truncated: bool = False
    model: str = ""
    error: _Complaint | None = None


class LlamaStream(StreamingServer):
    """The model of a llama-server. See `StreamingServer`; its chain is in our order.

    Raises:
        EngineError: it cannot be reached, wants a key, or is no llama-server.
    """

    abilities = LLAMA_SERVER_STREAMED

    def __init__(self, client: HttpClient, spec: ModelSpec) -> None:
        self.server, self.model, self.capacity = connected(client, spec)
        self.size, self.parameters = self.server.model.size, self.server.model.n_params
        self.remarks: list[Remark] = []
        self.alone_at = -1
        """With so many ids the next token is drawn alone: it may be a part of a character."""

    def stream(self, asked: Segment) -> TokenStream:
        body = self.body(asked)
        if asked.limit == 1 or len(asked.ids) == self.alone_at:
            return self._draw_one(asked, body)
        return self._draw_many(asked, body)

    def _draw_many(self, asked: Segment, body: dict[str, Any]) -> TokenStream:
        told = 0
        with self.server.open_events(body) as events:
            for data in events:
                chunk = self.decoded(data)
                if (read := chunk.prompt_progress) is not None:
                    if read.cache <= read.processed <= read.total:
                        yield Reading(read.processed, read.total, read.cache)
                    continue
                drawn = chunk.completion_probabilities[-1:] or [_Drawn(i) for i in chunk.tokens[-1:]]
                missing = chunk.tokens_predicted - told - (not chunk.stop)
                if chunk.tokens_predicted > told:
                    events.moved()
                if missing > 0:
                    found = self.lost(chunk.content, drawn[0].id, missing) if drawn and not chunk.stop else None
                    if found is None:
                        self.alone_at = len(asked.ids) + told
                        yield StreamEnd("length")
                        return
                    yield from map(Told, found)
                if chunk.stop:
                    yield self.end_of(chunk)
                    return
                if drawn and missing >= 0:
                    told = chunk.tokens_predicted
                    yield self.told_of(drawn[0])
        what = f"{self.server.client.shown} broke off in the middle of the reply"
        raise EngineError("server", what, "is it still running? go on when it is")

    def _draw_one(self, asked: Segment, body: dict[str, Any]) -> TokenStream:
        """Draw one token in a request that is answered whole: so the server tells its id, whatever it is a part of."""
        body |= {"stream": False, "n_predict": 1, "return_tokens": True}
        chunk = self.decoded(self.server.request_completion(body))
        end = self.end_of(chunk)
        yield Reading(len(asked.ids), len(asked.ids), chunk.timings.cache_n)
        if len(chunk.tokens) == 1:
            last = chunk.tokens[0]
            drawn = chunk.completion_probabilities[-1:]
            is_part = is_incomplete(b"".join(map(self.model.piece, [*asked.ids[-4:], last])))
            self.alone_at = len(asked.ids) + 1 if is_part else -1
            yield self.told_of(drawn[0]) if drawn and drawn[0].id == last else Told(last)
        elif end.reason == "length":
            raise self.server.otherwise("it does not tell which token it drew")
        yield end

    def listed(self, ids: list[int], count: int, also: list[int]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        found = self.server.candidates(ids, count)
        if not set(also) - set(found.ids.tolist()):
            return found.ids, found.logprobs
        all_ = self.server.candidates(ids, self.model.n_vocab)
        keep = np.isin(all_.ids, also)
        keep[:count] = True
        return all_.ids[keep], all_.logprobs[keep]

    def body(self, asked: Segment) -> dict[str, Any]:
        """Return the request for a segment."""
        samplers = asked.samplers
        body: dict[str, Any] = {
            "prompt": asked.ids, "n_predict": asked.limit, "stream": True, "return_progress": True, "cache_prompt": True,
            "id_slot": -1, "n_probs": max(asked.candidates, 1), "seed": asked.seed, "model": self.server.model.id,
        }  # fmt: skip
        body["samplers"] = [_STAGES[stage.name] for stage in chain_of(samplers) if stage.name in _STAGES]
        body |= {knob: getattr(samplers, knob) for knob in _KNOBS}
        if samplers.dry_sequence_breakers:
            body["dry_sequence_breakers"] = samplers.dry_sequence_breakers
        biases = self.model.bias(samplers.logit_bias)
        body["logit_bias"] = [[i, False if value == BANNED else value] for i, value in biases.items()]
        if (constraint := asked.constraint) is not None:
            if constraint.kind == "json_schema":
                body["json_schema"] = json.loads(constraint.text)
            else:
                body["grammar"] = constraint.text if constraint.kind == "gbnf" else _one_of(json.loads(constraint.text))
        return body

    def told_of(self, drawn: _Drawn) -> Told:
        """Read what it tells of a token."""
        if not drawn.top_logprobs:  # while it speculates it knows no probabilities, and says that the token is certain
            return Told(drawn.id)
        listed = self.server.read_step(drawn.top_logprobs)
        return Told(
            drawn.id, read_drawn_logprob(drawn.logprob), ids=listed and listed[0], logprobs=listed and listed[1]
        )

    def end_of(self, chunk: _Chunk) -> StreamEnd:
        """Read why the last chunk ends a segment.

        Raises:
            EngineError: it is of another model.
        """
        self.server.check_answered_by(chunk.model)
        if chunk.stop_type == "eos":
            return StreamEnd("end")
        if chunk.stop_type == "word":
            return StreamEnd("stop")
        return StreamEnd("context" if chunk.truncated else "length")

    def decoded(self, data: bytes) -> _Chunk:
        """Raises:
        EngineError: it is no chunk, tells of an error, or of tokens that the vocabulary lacks.
        """
        chunk = self.server.decode(data, _Chunk)
        self.server.check_ids([*chunk.tokens, *(one.id for one in chunk.completion_probabilities)])
        if chunk.error is not None:
            if chunk.error.type == "exceed_context_size_error":
                raise ContextFull
            client = self.server.client
            said = one_line(client.hidden(chunk.error.message), _SHOWN) or "no word why"
            raise EngineError("server", f"{client.shown} ends the reply: {said}", "see the server's log")
        return chunk

    def lost(self, text: str, last: int, count: int) -> list[int] | None:
        """Return the `count` tokens that were not told before the `last`, where the bytes of `text` leave no doubt."""
        data, piece = text.encode(), self.model.piece(last)
        before = data[: len(data) - len(piece)]
        if "\ufffd" in text or not data.endswith(piece) or not count <= len(before) <= _MOST_LOST:
            return None
        found = self._spellings(before, count)
        return found[0] if len(found) == 1 else None

    def _spellings(self, data: bytes, count: int) -> list[list[int]]:
        """List ways to say `data` in so many tokens each of which leaves a character incomplete: two if there are more."""
        ends = [end for end in range(1, len(data) + 1) if is_incomplete(data[:end])]
        ways: dict[int, list[list[int]]] = {0: [[]]}
        """By how much of the data they say."""
        for _ in range(count):
            longer: defaultdict[int, list[list[int]]] = defaultdict(list)
            for begin, some in ways.items():
                for end in (end for end in ends if end > begin):
                    more = ([*way, i] for i in self._parts.get(data[begin:end], ()) for way in some)
                    longer[end] += islice(more, 2 - len(longer[end]))
            ways = longer
        return ways.get(len(data), [])

    @cached_property
    def _parts(self) -> dict[bytes, list[int]]:
        """Tokens that are no complete text, by their bytes."""
        found: defaultdict[bytes, list[int]] = defaultdict(list)
        for i in range(self.model.n_vocab):
            piece = self.model.piece(i)
            if piece and not piece.isascii():
                found[piece].append(i)
        return found


def is_incomplete(data: bytes) -> bool:
    """Return whether the last character lacks bytes, as the server sees it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            return byte >= 0xC0 and back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    return False


def _one_of(texts: list[str]) -> str:
    """Return a grammar of one of these texts."""
    return "root ::= " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
