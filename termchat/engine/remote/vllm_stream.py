"""vLLM as a server that draws: segments of a reply, and the candidates of a past position."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import islice, takewhile
from operator import eq
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.biases import BANNED
from termchat.decoding.conditions import IgnoreEnd
from termchat.decoding.constraint import GRAMMAR, Constraint
from termchat.decoding.records import ABSENT
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import LOGIT_BIAS, chain_of
from termchat.engine.abilities import VLLM
from termchat.engine.llama.cells import ContextFull
from termchat.engine.llama.template import RenderedPrompt
from termchat.engine.port import EngineError, Message, ModelSpec, Remark
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.server_answers import read_drawn_logprob, read_logprob, read_phrase
from termchat.engine.remote.streams import Reading, Segment, StreamEnd, StreamingServer, TokenStream, Told
from termchat.engine.remote.vllm_server import VllmChoice, VllmServer
from termchat.engine.remote.vllm_vocabulary import VllmVocabulary

ORDER = (GRAMMAR, "logit_bias", "penalties", "temperature", "min_p", "top_k", "top_p")
"""Its stages, in its order. Penalties of frequency and presence look at the whole reply, that of repetition at all text."""
USUAL = 20
"""Candidates that it tells unless it was started otherwise."""
_MOST_ALSO = 128
"""Tokens that it tells of one step whatever their rank."""
_LARGEST_SEED = 2**63 - 1
_LONG = 512
"""Tokens that a server must still have, in whole blocks, if it had them a moment ago."""
_FORGETFUL = 3

Tells = Literal["logprobs", "drawn from", "logits"]
"""What its numbers are: the model's log-probabilities, those that are left after its chain, or logits."""


class VllmStream(StreamingServer):
    """The model of a vLLM. See `StreamingServer`.

    Raises:
        EngineError: it cannot be reached, wants a key, or is no vLLM.
    """

    order = ORDER
    model: VllmVocabulary

    def __init__(self, client: HttpClient, spec: ModelSpec) -> None:
        self._client = client
        self.server = VllmServer(client, spec.path)
        found = self.server.find()
        called = found.id.rsplit("/", 1)[-1]
        name = called if spec.name in ("", spec.engine.shown) else spec.name
        spec = msgspec.structs.replace(spec, name=name, path=spec.path or found.id, kv_type="")
        self.model = VllmVocabulary(self.server, spec)
        self.model.identify(f"{found.root} {self.model.n_vocab}")
        self.capacity = found.max_model_len
        self.most = self.server.most_candidates()
        self.tells: Tells = self._what_it_tells()
        self.abilities = msgspec.structs.replace(VLLM, candidates=min(self.most, USUAL) or 1, lacks=_LACKS, order=ORDER)
        self.remarks = self._remarks()
        self._last: list[int] = []
        self._forgotten = 0

    def prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt:
        return self.model.prompt(messages, think)

    def stream(self, asked: Segment) -> TokenStream:
        server = self.server
        if len(asked.ids) >= self.capacity:
            raise ContextFull
        count = 0
        end: StreamEnd | None = None
        read = Reading(len(asked.ids), len(asked.ids))
        with server.open_events(self.asked(asked)) as events:
            for data in events:
                if data == b"[DONE]":
                    break
                event = server.event(data)
                if not count and event.choices:
                    yield read
                for choice in islice(event.choices, 1):
                    for at in range(len(choice.token_ids or ())):
                        count += 1
                        events.moved()
                        yield self.told(choice, at, asked.candidates)
                    end = self._ended(asked, choice, count) or end
                details = event.usage.prompt_tokens_details if event.usage is not None else None
                if details is not None and details.cached_tokens is not None:
                    read = read._replace(reused=details.cached_tokens)
        if end is None:
            raise EngineError(
                "server", f"{server.client.shown} broke off the reply", "is it still running? go on when it is"
            )
        self.answered(asked.ids, read.reused)
        yield end._replace(read=read)

    def _ended(self, asked: Segment, choice: VllmChoice, count: int) -> StreamEnd | None:
        """Return how the segment ended with this event, `count` tokens being there."""
        if choice.finish_reason is None:
            return None
        if choice.finish_reason == "stop":
            if isinstance(choice.stop_reason, str):
                return StreamEnd("stop", read_phrase(choice.stop_reason))
            return StreamEnd("end")
        if choice.finish_reason == "length":
            full = len(asked.ids) + count >= self.capacity
            return StreamEnd("context" if full and count < asked.limit else "length")
        raise EngineError("server", f"{self._client.shown} ended the reply: {read_phrase(choice.finish_reason)}", "")

    def listed(self, ids: list[int], count: int, also: list[int]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        if self.tells != "logprobs":
            raise EngineError(
                "capability", f"{self._client.shown} does not tell the model's own probabilities", _HOW_TO_TELL
            )
        if len(ids) >= self.capacity:
            raise ContextFull
        found: dict[int, float] = {}
        if count := min(count, self.most):
            found |= self._read_candidates(self._step(ids, logprobs=count), 0, count)
        missing = [i for i in dict.fromkeys(also) if i not in found]
        for begin in range(0, len(missing), _MOST_ALSO):
            some = missing[begin : begin + _MOST_ALSO]
            told = self._read_candidates(self._step(ids, logprobs=len(some), logprob_token_ids=some), 0, None)
            found |= {i: told[i] for i in some if i in told}
        return _columns(found)

    def answered(self, ids: list[int], reused: int | None) -> None:
        """Looks whether the server still had what it read for the last request."""
        again = sum(1 for _ in takewhile(lambda same: same, map(eq, self._last, ids)))
        self._last = ids
        if reused is None or again < _LONG:
            return
        self._forgotten = 0 if reused else self._forgotten + 1
        if self._forgotten == _FORGETFUL:
            self.remarks.append(
                Remark(
                    f"{self._client.shown} reads the whole text again for each request",
                    "are there several servers behind one address? Have a chat stay with one of them",
                )
            )

    def asked(self, segment: Segment) -> dict[str, Any]:
        """The request for a segment."""
        samplers = segment.samplers
        acts = {stage.name for stage in chain_of(samplers) if stage.is_active(samplers)}
        knobs = {
            name: value(samplers) if stage == "temperature" or stage in acts else off
            for name, (stage, value, off) in _KNOBS.items()
        }
        asked = self.server.request(
            segment.ids, segment.limit, stream=True, stream_options={"include_usage": True},
            logprobs=min(segment.candidates, self.most), seed=segment.seed & _LARGEST_SEED, skip_special_tokens=False, **knobs,
        )  # fmt: skip
        if bias := self.model.bias(samplers.logit_bias):
            asked["logit_bias"] = {str(i): _bias(value) for i, value in bias.items()}
        if any(isinstance(condition, IgnoreEnd) for condition in segment.conditions):
            asked["ignore_eos"] = True
        if segment.constraint is not None:
            asked["structured_outputs"] = _structured(segment.constraint)
        return asked

    def told(self, choice: VllmChoice, at: int, count: int) -> Told:
        """One of the tokens that it drew, with what the server tells of it."""
        ids = choice.token_ids or []
        self.server.check_ids([ids[at]])
        logprobs = choice.logprobs.token_logprobs if choice.logprobs is not None else []
        own = read_drawn_logprob(logprobs[at]) if at < len(logprobs) else ABSENT
        if math.isnan(own) or self.tells == "logits":
            return Told(ids[at])
        if self.tells == "drawn from":
            return Told(ids[at], probability=math.exp(own))
        found = self._read_candidates(choice, at, count)
        return Told(ids[at], own, ABSENT, *(_columns(found) if found else ()))

    def _read_candidates(self, choice: VllmChoice, at: int, count: int | None) -> dict[int, float]:
        """Read the candidates of one step by id, best first: `count` at most, as the drawn one is told whatever its rank."""
        read = {token: read_logprob(value) for token, value in _read_values(choice, at).items()}
        self.server.check_ids([*read])
        known = ((token, value) for token, value in read.items() if not math.isnan(value))
        return dict(islice(sorted(known, key=lambda one: -one[1]), count))

    def _step(self, ids: list[int], **more: object) -> VllmChoice:
        answer = self.server.complete(ids, 1, **{"temperature": 0.0, **more})
        if not answer.choices:
            raise self.server.otherwise("it tells no candidates")
        return answer.choices[0]

    def _what_it_tells(self) -> Tells:
        """Seen in a step of which only the likeliest token may be drawn, though not greedily: it tells of no chain then."""
        count = min(self.most, USUAL)
        if not count:
            return "logprobs"
        step = self._step([0], logprobs=count, temperature=1.0, top_k=1, ignore_eos=True)
        values = sorted(_read_values(step, 0).values())[-count:]
        if sum(math.exp(min(value, 1.0)) for value in values) > 1.01:
            return "logits"
        return "drawn from" if len(values) > 1 and read_logprob(values[-2]) == -math.inf else "logprobs"

    def _remarks(self) -> list[Remark]:
        if not self.most:
            return [Remark(f"{self._client.shown} tells no candidates", "start it with --max-logprobs 20")]
        if self.tells == "logprobs":
            return []
        what = "logits" if self.tells == "logits" else "only what is left after its chain"
        return [Remark(f"{self._client.shown} tells {what}, so the model's own probabilities are absent", _HOW_TO_TELL)]


_TOKEN_ID = re.compile(r"token_id:([0-9]{1,9})")
_HOW_TO_TELL = "start it with --logprobs-mode raw_logprobs"


def _read_values(choice: VllmChoice, at: int) -> dict[int, float]:
    """Read the numbers of the candidates of one step, by id."""
    listed = choice.logprobs.top_logprobs if choice.logprobs is not None else []
    keys = (listed[at] if at < len(listed) else None) or {}
    return {int(found[1]): value for key, value in keys.items() if (found := _TOKEN_ID.fullmatch(key))}


def _columns(found: dict[int, float]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    return np.fromiter(found, np.int32, len(found)), np.fromiter(found.values(), np.float64, len(found))


def _structured(constraint: Constraint) -> dict[str, Any]:
    """What it calls a constraint; grammars of either kind are one for it."""
    name = _CONSTRAINTS[constraint.kind]
    text = constraint.text
    return {name: json.loads(text) if name in ("json", "choice") else text}


_CONSTRAINTS = {"json_schema": "json", "regex": "regex", "choice": "choice", "gbnf": "grammar", "lark": "grammar"}


def _bias(value: float) -> float:
    return VLLM.ranges[LOGIT_BIAS][0] if value == BANNED else value


# --- knobs -----------------------------------------------------------------------------------------------------------

_KNOBS: dict[str, tuple[str, Callable[[SamplerSettings], float], float]] = {
    "temperature": ("temperature", lambda s: s.temperature if "temperature" in s.order else 1.0, 1.0),
    "top_k": ("top_k", lambda s: s.top_k, 0),
    "top_p": ("top_p", lambda s: s.top_p, 1.0),
    "min_p": ("min_p", lambda s: s.min_p, 0.0),
    "repetition_penalty": ("penalties", lambda s: s.repeat_penalty, 1.0),
    "frequency_penalty": ("penalties", lambda s: s.frequency_penalty, 0.0),
    "presence_penalty": ("penalties", lambda s: s.presence_penalty, 0.0),
}
"""Its knobs: the stage that each belongs to, the value, and the one with which it does nothing. All are always said, since a
server has defaults of its own, which the model's authors chose."""


_LACKS = ("order", "repeat_last_n", "dynatemp_range", "dynatemp_exponent", *(
    name for name, knob in KNOBS.items() if knob.stage and knob.stage not in ORDER
))  # fmt: skip
