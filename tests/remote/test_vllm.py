"""vLLM, by what its real server once answered (`vllm_answers`): ids, numbers, ends and errors, however the bytes are cut."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import jsonschema
import numpy as np
import pytest

import termchat
from termchat.decoding.conditions import Length
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import UNKNOWN, DrawnThere, Explanation, SettingsRecord, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.address import EngineAddress
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.template import NO_SYSTEM_ROLE
from termchat.engine.port import EngineError, Explain, Generate, Message, ModelSpec, Noted
from termchat.engine.remote import http_client
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.streamed_session import StreamedSession
from termchat.engine.remote.streams import Reading, Segment, StreamEnd, Told
from termchat.engine.remote.vllm_server import VllmServer
from termchat.engine.remote.vllm_stream import ORDER, VllmStream
from termchat.engine.remote.vllm_vocabulary import VllmVocabulary
from tests.asking import ask_for, change, events_of, only
from tests.remote import twin_server
from tests.remote.conftest import prefill_of, tokens_of
from tests.remote.record_vllm import CONSTRAINTS, RUNS, STORY
from tests.remote.replayed_vllm import Cut, Exchange, ReplayedVllm, recorded, turned
from tests.remote.twin_server import Fault, answers

SCHEMA = json.loads(
    (Path(termchat.__file__).parent / "conversation/transcripts/transcript.schema.json").read_text("utf-8")
)
ALL = ("connect", "replies", "several", "changed", "questions", "context", "constrained")
Drawn = tuple[list[Told], list[Reading], StreamEnd | None]


def served_by(url: str, key: str = "", **more: Any) -> VllmStream:
    address = EngineAddress(url=url, kind="vllm", **more)
    return VllmStream(HttpClient(address, key), ModelSpec("", "", engine=address))


@pytest.fixture(scope="module")
def twin_session(model_path: Path) -> Iterator[ModelSession]:
    """The vocabulary of the model that was recorded."""
    made = ModelSession(ModelSpec(str(model_path), "smollm2", context=2048, threads=1), lambda _: None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def vllm(twin_session: ModelSession) -> Iterator[ReplayedVllm]:
    made = ReplayedVllm(twin_session, *ALL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def model(vllm: ReplayedVllm) -> VllmStream:
    return served_by(vllm.url)


@pytest.fixture
def other(twin_session: ModelSession) -> Iterator[Callable[..., ReplayedVllm]]:
    """Makes servers that play other files, or cut them otherwise."""
    made: list[ReplayedVllm] = []

    def make(*names: str, **more: Any) -> ReplayedVllm:
        made.append(ReplayedVllm(twin_session, *names, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


def prompt(model: VllmStream, text: str = STORY) -> list[int]:
    return model.prompt([Message("user", text)], None).ids


def segment(ids: list[int], done: int = 0, *, limit: int = 24, seed: int = 7, **knobs: Any) -> Segment:
    return Segment(ids, done, SamplerSettings(**{"temperature": 0.0, **knobs}), (), seed, limit, 20)


def drawn(model: VllmStream, asked: Segment, most: int = 1000) -> Drawn:
    told: list[Told] = []
    read: list[Reading] = []
    end: StreamEnd | None = None
    stream = model.stream(asked)
    for one in stream:
        if isinstance(one, Told):
            told.append(one)
            if len(told) == most:
                break
        elif isinstance(one, Reading):
            read.append(one)
        else:
            end = one
    stream.close()
    return told, read, end


def events(exchange: Exchange) -> list[dict[str, Any]]:
    """What a recording says, read by other means: by the lines that begin with "data: {"."""
    body = b"".join(exchange.pieces).partition(b"\r\n\r\n")[2]
    plain = re.sub(rb"(?:^|\r\n)[0-9a-f]+\r\n", b"", body)  # the sizes of HTTP's chunks
    return [json.loads(line) for line in re.findall(rb"data: (\{.*\})", plain)]


def reply_of(name: str, number: int) -> tuple[Exchange, list[dict[str, Any]]]:
    """The streamed reply of that number in a file, and its choices."""
    streamed = [one for one in recorded(name) if one.asked.get("stream")][number]
    return streamed, [one["choices"][0] for one in events(streamed) if one["choices"]]


# --- connecting ------------------------------------------------------------------------------------------------------


def test_its_vocabulary_is_found_out_from_outside(model: VllmStream, twin_session: ModelSession) -> None:
    here, there = twin_session.model, model.model
    assert there.n_vocab == here.n_vocab
    assert [there.piece(i) for i in range(here.n_vocab)] == [here.piece(i) for i in range(here.n_vocab)]
    control = [i for i in range(here.n_vocab) if here.is_control(i)]
    assert [i for i in range(here.n_vocab) if there.is_control(i)] == control
    assert [there.name(i) for i in control] == [here.name(i) for i in control]
    assert there.end_ids == [2]  # the one at which this server ends, as its generation_config.json says
    assert (model.capacity, model.most, model.tells, model.remarks) == (512, 20, "logprobs", [])
    assert there.build == "vLLM 0.32.0"
    assert there.has_template
    assert not there.has_switch


def test_texts_are_taken_apart_as_they_were_when_recorded(vllm: ReplayedVllm, model: VllmStream) -> None:
    """The replayed server has its own way with texts: it is the real one's."""
    asked = [one for one in recorded("connect") if one.path in ("/tokenize", "/detokenize")]
    assert len(asked) > 10
    exchanges, vllm.exchanges = vllm.exchanges, {}
    try:
        for one in asked:
            told = json.loads(model.server.client.ask("POST", one.path, json.dumps(one.asked).encode(), 1 << 20))
            real = json.loads(b"".join(one.pieces).partition(b"\r\n\r\n")[2])
            assert told.items() <= real.items() or told["tokens"] == real["tokens"], one.asked
    finally:
        vllm.exchanges = exchanges


def test_its_url_may_end_with_that_of_openais_api(vllm: ReplayedVllm, model: VllmStream) -> None:
    assert served_by(f"{vllm.url}/v1").model.spec.sha256 == model.model.spec.sha256


CHATS: tuple[list[Message], ...] = (
    [Message("user", "Tell me about rivers.")],
    [Message("system", "Be <|im_end|> nice\n"), Message("user", "<|im_start|>system <|im_<|im_end|>end|>")],
    [Message("user", "\n\n a \ue000 <repo_name> \n")],
    [Message("user", "a"), Message("assistant", "b"), Message("user", "c <|im_end|> 😀")],
    [Message("user", "a"), Message("assistant", "fox", ids=[86, 1011]), Message("user", "c")],
)


@pytest.mark.parametrize("chat", CHATS)
def test_prompts_are_the_local_ones_and_what_is_typed_is_no_control_token(
    model: VllmStream, twin_session: ModelSession, chat: list[Message]
) -> None:
    assert model.prompt(chat, None) == twin_session.render_prompt(chat, None)


def test_a_template_that_refuses_the_system_role_has_it_before_the_first_message(
    model: VllmStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = model.server.chat

    def refusing(said: list[dict[str, str]], **more: Any) -> list[int]:
        if said[0]["role"] == "system":
            raise ServerError("server", "System role not supported", "", 400)
        return chat(said, **more)

    monkeypatch.setattr(model.server, "chat", refusing)
    made = model.prompt([Message("system", "Be brief."), Message("user", "Hi")], None)
    assert made == model.prompt([Message("user", "Be brief.\nHi")], None)._replace(remark=NO_SYSTEM_ROLE)


@pytest.mark.parametrize("text", ["Hello <|im_end|>", "<|im_start|>", "<|im_<|im_end|>end|>", "x  y\n\t😀", ""])
def test_a_text_holds_no_control_token_unless_it_may(model: VllmStream, twin_session: ModelSession, text: str) -> None:
    plain = model.model.tokenize(text, special=False)
    assert plain == twin_session.model.tokenize(text, special=False)
    assert model.model.tokenize(text, special=True) == twin_session.model.tokenize(text, special=True)
    assert b"".join(map(model.model.piece, plain)) == text.encode()


def test_a_name_that_is_only_text_stays_text(model: VllmStream) -> None:
    """What is taken whole out of texts and is still shown, as tags of thoughts are, is no control token."""
    vocabulary, fox = model.model, 2365

    class Tagged:
        def complete(self, ids: list[int], count: int, **asked: Any) -> Any:
            from termchat.engine.remote.vllm_server import VllmAnswer, VllmChoice

            drawn_ids = [i for i in asked["allowed_token_ids"] if i != 2] or [2]
            text = "<think>" if fox in drawn_ids else ""
            ended = drawn_ids == [2]
            return VllmAnswer([VllmChoice(drawn_ids, text, None, "stop" if ended else "length")])

    probe = object.__new__(VllmVocabulary)
    probe.server, probe.n_vocab, probe._pieces = Tagged(), vocabulary.n_vocab, vocabulary._pieces  # type: ignore[assignment]
    special, ends = probe._examined({2: "<|im_end|>", 5: "<file_1>", 6: "<file_2>", fox: "<think>"})
    assert (special, ends) == ({2, 5, 6}, {2})


# --- replies ---------------------------------------------------------------------------------------------------------

REPLIES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "greedy": ("replies", 0, {}),
    "sampled": ("replies", 1, {"temperature": 0.8}),
    "several tokens a chunk": ("several", 0, {}),
}


@pytest.mark.parametrize("cut", ["as it was", "bytes", "whole"])
@pytest.mark.parametrize(("file", "number", "knobs"), REPLIES.values(), ids=REPLIES)
def test_a_reply_is_what_was_recorded_however_it_is_cut(
    other: Callable[..., ReplayedVllm], file: str, number: int, knobs: dict[str, Any], cut: Cut
) -> None:
    _, choices = reply_of(file, number)
    server = other("connect", file, cut=cut)
    model = served_by(server.url)
    told, read, end = drawn(model, segment(prompt(model), **knobs))
    assert server.missed == []
    ids = [i for one in choices for i in one["token_ids"]]
    assert len(ids) == 24
    assert [one.id for one in told] == ids
    own = [value for one in choices if one["logprobs"] for value in one["logprobs"]["token_logprobs"]]
    assert [one.logprob for one in told] == own
    listed = [step for one in choices if one["logprobs"] for step in one["logprobs"]["top_logprobs"]]
    for one, step in zip(told, listed, strict=True):
        values = sorted(step.values(), reverse=True)[:20]
        assert one.ids is not None
        assert one.logprobs is not None
        assert one.logprobs.tolist() == values
        assert [step[f"token_id:{i}"] for i in one.ids] == values
        assert np.exp(one.logprobs).sum() <= 1 + 1e-6
    assert [(one.done, one.total) for one in read] == [(len(prompt(model)), len(prompt(model)))]
    assert end is not None
    assert end.reason == "length"


def test_an_event_with_several_tokens_is_several_tokens() -> None:
    _, choices = reply_of("several", 0)
    assert max(len(one["token_ids"]) for one in choices) == 4
    assert [i for one in choices for i in one["token_ids"]] == [
        i for one in reply_of("replies", 0)[1] for i in one["token_ids"]
    ]


def test_a_reply_ends_by_itself_with_its_end_token(model: VllmStream) -> None:
    told, _, end = drawn(model, segment(prompt(model, "Say only: hi"), limit=64))
    assert end is not None
    assert (end.reason, end.detail) == ("end", "")
    assert told[-1].id == 2
    assert told[-1].logprob > -1


def test_it_says_what_it_still_had(model: VllmStream) -> None:
    _, _, end = drawn(model, segment([504] * 508))
    assert end is not None
    assert end.reason == "context"
    assert end.read is not None
    usage = next(one["usage"] for one in events(reply_of("context", 0)[0]) if not one["choices"])
    assert end.read.reused == usage["prompt_tokens_details"]["cached_tokens"]


def test_a_knob_that_is_turned_goes_on_from_the_ids_that_are_there(
    other: Callable[..., ReplayedVllm],
) -> None:
    server = other("connect", "changed")
    model = served_by(server.url)
    session = StreamedSession(model, model.server.client, lambda _: None)
    ids = prompt(model)
    stream = turned(session, ids)
    tokens = tokens_of(stream)
    assert server.missed == []
    first, second = server.completions()[-2:]
    assert first["prompt"] == ids
    assert second["prompt"] == [*ids, *(token.id for token in tokens[:6])]
    assert (first["temperature"], second["temperature"]) == (0.0, 1.2)
    assert (first["max_tokens"], second["max_tokens"]) == (24, 18)
    (_, before), (_, after) = reply_of("changed", 0), reply_of("changed", 1)
    assert [token.id for token in tokens] == [i for one in before for i in one["token_ids"]][:6] + [
        i for one in after for i in one["token_ids"]
    ]
    settings = [record for record in stream if isinstance(record, SettingsRecord)]
    assert [token.settings for token in tokens] == [settings[0].number] * 6 + [settings[1].number] * 18
    assert [record.samplers.temperature for record in settings] == [0.0, 1.2]
    assert settings[1].order == ("penalties", "temperature", "min_p", "top_k", "top_p")  # the server's own
    assert all(not token.stages and np.isnan(token.probability) for token in tokens)
    assert prefill_of(stream).reused == UNKNOWN


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_run_writes_what_was_recorded(other: Callable[..., ReplayedVllm], number: int, tmp_path: Path) -> None:
    server = other("run", "connect", key="secret-1")
    places = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("DATA", "CONFIG", "CACHE", "STATE")}
    config = tmp_path / "config" / "termchat"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[engines.lab]\nurl = "{server.url}/v1"\nkey_env = "LAB_KEY"\n')
    run = subprocess.run(
        [sys.executable, "-m", "termchat", "run", "--engine", "lab", "--json", *RUNS[number], STORY],
        capture_output=True, text=True, timeout=300, env=os.environ | places | {"LAB_KEY": "secret-1"}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "secret-1" not in run.stdout + run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    check = jsonschema.Draft202012Validator(SCHEMA)
    assert [error for line in lines for error in check.iter_errors(line)] == []
    tokens = [line for line in lines if line["record"] == "token"]
    _, choices = reply_of("run", number)
    ids = [i for one in choices for i in one["token_ids"]]
    own = [value for one in choices if one["logprobs"] for value in one["logprobs"]["token_logprobs"]]
    assert len(tokens) > 4
    assert [token["id"] for token in tokens] == ids[: len(tokens)]
    assert [token["logprob"] for token in tokens] == own[: len(tokens)]
    assert not {"logit", "probability", "stages"} & set(tokens[0])
    start, finished = lines[0], lines[-1]
    assert start["llama_cpp"] == "vLLM 0.32.0"
    assert (start["dice"], start["exact"]) == (0, False)
    if number:
        assert (finished["reason"], finished["detail"]) == ("stop", ".")
    else:
        assert len(tokens) == 24


TEXTS = (r"teal|ochre", r"[A-Z]{3}[0-9]{2}", r"a[bc]+\.", r"x[yz]", r'\{\s*"n"\s*:\s*-?\d+\s*\}')


@pytest.mark.parametrize(("constraint", "text"), zip(CONSTRAINTS, TEXTS, strict=True), ids=TEXTS)
def test_replies_match_a_constraint_of_each_kind(model: VllmStream, constraint: Constraint, text: str) -> None:
    ids = prompt(model, "Name a colour.")
    told, _, end = drawn(model, segment(ids, limit=48)._replace(constraint=constraint))
    assert end is not None
    assert end.reason == "end"
    assert re.fullmatch(text, b"".join(model.model.piece(one.id) for one in told).decode())


def test_past_positions_are_told_with_tokens_of_any_rank(model: VllmStream) -> None:
    ids = prompt(model)
    told, _, _ = drawn(model, segment(ids))
    found, logprobs = model.listed(ids, 20, [])
    assert found.tolist() == told[0].ids.tolist()  # type: ignore[union-attr]
    assert told[0].logprobs is not None
    assert np.abs(logprobs - told[0].logprobs).max() < 1e-6
    with_others, values = model.listed(ids, 5, [2, 40000, 504])
    assert with_others[:5].tolist() == found[:5].tolist()
    missing = [i for i in (2, 40000, 504) if i not in found[:5]]
    assert with_others[5:].tolist() == missing
    assert len(values) == 5 + len(missing)


def test_why_not_tells_what_the_server_lists_and_what_it_says_of_one_token(
    vllm: ReplayedVllm, model: VllmStream
) -> None:
    session = StreamedSession(model, model.server.client, lambda _: None)
    ids = prompt(model)
    listed, logprobs = model.listed(ids, 20, [])

    def explained(token: int, drawn: int) -> Explanation:
        asked = Explain(ids, token, SamplerSettings(), 7, 0, drawn=drawn)
        return session.explain_step(asked, alone=True, wanted=lambda: False).explanation

    it = explained(int(listed[4]), int(listed[0]))
    assert (it.rank, it.winner, it.logprob) == (4, int(listed[0]), logprobs[4])
    assert it.there == DrawnThere(20, logprobs[0], 0, int(listed[0]), model.model.name(int(listed[0])), logprobs[0])
    it = explained(2, 40000)  # neither is among those that it lists
    assert (it.rank, it.winner) == (UNKNOWN, 40000)
    assert it.logprob == pytest.approx(-17.979860305786133)  # as recorded
    assert it.there is not None
    assert (it.there.listed, it.there.winner_rank) == (20, UNKNOWN)
    assert it.there.winner_logprob == pytest.approx(-24.261110305786133)
    assert (it.stages, it.removed_by, it.remedies) == ([], None, [])
    asked = len(vllm.asked)
    assert explained(2, 40000) == it
    assert len(vllm.asked) == asked  # the server is not asked the same again when a knob turns
    assert "--max-model-len" in session.build_info().abilities.larger_context


# --- what it is asked ------------------------------------------------------------------------------------------------


def test_every_knob_is_said_so_that_the_servers_own_do_not_act(model: VllmStream) -> None:
    off = model.asked(segment([1], temperature=0.7, top_k=0, top_p=1.0, min_p=0.0, repeat_last_n=0, repeat_penalty=1.5))
    assert {name: off[name] for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")} == {
        "temperature": 0.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
    }  # fmt: skip
    on = model.asked(
        segment([1], temperature=0.7, order=("penalties", "top_p"), repeat_penalty=1.5, logit_bias=("504=ban", "28=50"))
    )
    assert (on["temperature"], on["top_k"], on["top_p"], on["repetition_penalty"]) == (1.0, 0, 0.95, 1.5)
    assert on["logit_bias"] == {"504": -100.0, "28": 50.0}
    assert model.asked(segment([1], seed=2**64 - 1))["seed"] == 2**63 - 1
    assert model.order == ORDER


def asks(model: VllmStream, **knobs: Any) -> Generate:
    samplers = SamplerSettings(**{"temperature": 0.0, **knobs})
    return ask_for(prompt(model), samplers, (Length(24),), 7)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too hot": ({"temperature": 2.5}, "use temperature 2.5: it takes 0 to 2"),
    "too much": ({"presence_penalty": 3.0}, "use presence_penalty 3: it takes -2 to 2"),
    "a large bias": ({"logit_bias": ("504=ban", "28=500")}, "use logit_bias 500: it takes -100 to 100"),
}


@pytest.mark.parametrize(("knobs", "words"), REFUSED.values(), ids=REFUSED)
def test_values_that_it_does_not_take_are_refused(model: VllmStream, knobs: dict[str, Any], words: str) -> None:
    session = StreamedSession(model, model.server.client, lambda _: None)
    with pytest.raises(EngineError, match=words) as caught:
        list(events_of(session, asks(model, **knobs)))
    assert caught.value.kind == "capability"
    text = model.model.piece(504).decode()
    with pytest.raises(EngineError, match="use logit_bias 120: it takes"):  # both are of the same token
        list(events_of(session, asks(model, logit_bias=("504=60", f'"{text}"=60'))))
    behind = change(asks(model), constraint=Constraint("regex", "a", after_chain=True))
    with pytest.raises(EngineError, match="after its sampler chain"):
        list(events_of(session, behind))


def test_what_its_chain_lacks_is_left_out(vllm: ReplayedVllm, model: VllmStream) -> None:
    session = StreamedSession(model, model.server.client, lambda _: None)
    plain, lacking = asks(model), asks(model, dry_multiplier=0.8, xtc_probability=0.5, dynatemp_range=0.5, mirostat=2)
    first, second = (list(events_of(session, asked)) for asked in (plain, lacking))
    told, other = vllm.completions()[-2:]
    assert told == other
    tokens = [[one.id for one in stream if isinstance(one, Token)] for stream in (first, second)]
    assert tokens[0] == tokens[1] != []
    assert [one.samplers for one in second if isinstance(one, SettingsRecord)] == [only(plain).samplers]


# --- what can go wrong -----------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Fault, str, str]] = {
    "hangs up": (twin_server.hangs_up, "server", "broke off the connection"),
    "half a line": (twin_server.half_a_line, "server", "broke off the reply"),
    "nonsense": (twin_server.nonsense, "server", "broke off the reply"),
    "401": (answers(401, "Unauthorized"), "key", "wants a key (401): Unauthorized"),
    "404": (answers(404), "server", "answers 404"),
    "429": (answers(429), "server", "answers 429"),
    "500": (answers(500, "a\x1b[31mb"), "server", "answers 500: a"),
    "redirect": (answers(307, Location="http://evil.example/\x1b"), "server", "redirects to http://evil.example/"),
}


@pytest.mark.parametrize(("fault", "kind", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_and_the_next_request_is_answered(
    vllm: ReplayedVllm, model: VllmStream, fault: Fault, kind: str, words: str
) -> None:
    vllm.faults.append(fault)
    try:
        with pytest.raises(EngineError) as caught:
            drawn(model, segment(prompt(model)))
    finally:
        vllm.faults.clear()
    assert caught.value.kind == kind
    assert words in caught.value.message
    assert "\x1b" not in caught.value.message + caught.value.hint
    assert len(drawn(model, segment(prompt(model)))[0]) == 24


@pytest.mark.parametrize("fault", twin_server.FOR_EVER.values(), ids=twin_server.FOR_EVER)
def test_a_stream_that_takes_for_ever_is_told(
    vllm: ReplayedVllm, model: VllmStream, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    asked = segment(prompt(model))
    monkeypatch.setattr(http_client, "WHOLE", 1.0)
    monkeypatch.setattr(model.server.client, "silence", 1.0)
    vllm.faults.append(fault)
    begun = monotonic()
    try:
        with pytest.raises(EngineError, match=twin_server.WITHOUT_END):
            drawn(model, asked)
    finally:
        vllm.faults.clear()
    assert monotonic() - begun < 20


@pytest.mark.parametrize("cut", ["as it was", "bytes", "whole"])
def test_a_server_that_was_killed_in_mid_reply_is_told(other: Callable[..., ReplayedVllm], cut: Cut) -> None:
    server = other("connect", "killed", cut=cut)
    model = served_by(server.url)
    came: list[int] = []
    with pytest.raises(EngineError, match="broke off") as caught:
        came.extend(one.id for one in model.stream(segment(prompt(model), limit=200)) if isinstance(one, Told))
    assert caught.value.kind == "server"
    assert "go on" in caught.value.hint
    assert came[:24] == [i for one in reply_of("replies", 0)[1] for i in one["token_ids"]][: len(came)]
    assert len(came) > 4


def _sends(said: object) -> twin_server.Fault:
    """One event, and the end."""
    return _says(b"data: " + json.dumps(said).encode() + b"\n\n")


def _says(data: bytes) -> twin_server.Fault:
    def fault(handler: twin_server.Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
        return True

    return fault


def test_an_error_in_mid_stream_is_told_without_the_key(
    vllm: ReplayedVllm, model: VllmStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model.server.client, "_key", "sk-1")
    vllm.faults.append(_sends({"error": {"message": "sk-1 died\x1b", "type": "InternalServerError", "code": 500}}))
    try:
        with pytest.raises(EngineError, match=r"ended the reply: \(the key\) died") as caught:
            drawn(model, segment(prompt(model)))
    finally:
        vllm.faults.clear()
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("asked", ["for a reply", "which model it has"])
def test_a_stop_ends_a_silent_server_at_once(vllm: ReplayedVllm, model: VllmStream, asked: str) -> None:
    ids = prompt(model)
    release = twin_server.Silence(lambda: threading.Timer(0.2, model.server.client.stop).start())
    if asked == "for a reply":
        vllm.faults.append(twin_server.silent(release))
    else:
        vllm.muted["/v1/models"] = release
    begun = monotonic()
    try:
        with pytest.raises(Aborted):
            drawn(model, segment(ids))
        assert monotonic() - begun < 20  # it would be silent for a minute
    finally:
        release.set()
        vllm.faults.clear()
        vllm.muted.clear()
        model.server.client.go_on()
    assert len(drawn(model, segment(ids))[0]) == 24


@pytest.mark.parametrize("id", [-1, 10**6, 2**40])
def test_a_token_that_the_vocabulary_lacks_is_told(vllm: ReplayedVllm, model: VllmStream, id: int) -> None:
    choice = {"index": 0, "text": "x", "token_ids": [id], "logprobs": None, "finish_reason": None}
    vllm.faults.append(_sends({"choices": [choice]}))
    try:
        with pytest.raises(EngineError, match="is not in its vocabulary"):
            drawn(model, segment(prompt(model)))
    finally:
        vllm.faults.clear()


@pytest.mark.parametrize("logprob", [b"5.0", b"1e308", b"-1e308", b"NaN", b"-Infinity", b"-9999.0"])
def test_a_number_that_is_no_log_probability_is_absent(vllm: ReplayedVllm, model: VllmStream, logprob: bytes) -> None:
    top = b'{"token_id:504":%s,"token_id:505":-1.0,"token_id:%s":-1.0,"x":-2.0}' % (logprob, b"9" * 5000)
    choice = b'{"text":"x","token_ids":[504],"logprobs":{"token_logprobs":[%s],"top_logprobs":[%s]},"finish_reason":"length"}'
    vllm.faults.append(_says(b'data: {"choices":[%s]}\n\n' % (choice % (logprob, top))))
    try:
        (told,), _, end = drawn(model, segment(prompt(model)))
    finally:
        vllm.faults.clear()
    assert math.isnan(told.logprob)
    assert end.reason == "length"


def test_a_connection_that_was_closed_meanwhile_is_made_again(vllm: ReplayedVllm, model: VllmStream) -> None:
    asked = segment(prompt(model))
    vllm.hang_up()
    assert len(drawn(model, asked)[0]) == 24
    vllm.hang_up()
    assert len(model.listed(asked.ids, 20, [])[0]) == 20


def test_a_silent_server_is_told(vllm: ReplayedVllm, model: VllmStream, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    asked = segment(prompt(model))
    vllm.faults.append(twin_server.silent(release))
    monkeypatch.setattr(model.server.client, "silence", 0.3)
    try:
        with pytest.raises(EngineError, match=r"has not answered for 0\.3 s"):
            drawn(model, asked)
    finally:
        release.set()
        vllm.faults.clear()


def test_a_full_context_is_told_by_either_side(vllm: ReplayedVllm, model: VllmStream) -> None:
    with pytest.raises(ContextFull):
        list(model.stream(segment([504] * 512)))
    with pytest.raises(ContextFull):
        model.listed([504] * 512, 5, [])
    said = [one for one in recorded("context") if len(one.asked.get("prompt", ())) > 512]
    told = b"".join(said[0].pieces).partition(b"\r\n\r\n")[2].decode()
    vllm.faults.append(answers(400, json.loads(told)["error"]["message"]))
    try:
        with pytest.raises(ContextFull):
            list(model.stream(segment([504] * 500)))
    finally:
        vllm.faults.clear()


def test_another_model_ends_it(other: Callable[..., ReplayedVllm]) -> None:
    server = other("connect", "replies")
    model = served_by(server.url)
    ids = prompt(model)
    for key, one in list(server.exchanges.items()):
        if key.startswith("/v1/models"):
            changed = b"".join(one.pieces).replace(b"/tmp/vllm/smol", b"/tmp/vllm/else")
            server.exchanges[key] = one._replace(pieces=[changed])
    server.hang_up()
    with pytest.raises(EngineError, match="now has another model"):
        drawn(model, segment(ids))


def test_a_key_goes_along_and_a_wrong_one_is_told(other: Callable[..., ReplayedVllm]) -> None:
    server = other("connect", key="secret-1")
    with pytest.raises(EngineError, match=r"refuses the key \(401\): Unauthorized") as caught:
        served_by(server.url, "secret-2")
    assert caught.value.kind == "key"
    assert served_by(server.url, "secret-1").capacity == 512


def test_servers_that_tell_something_else_are_noticed(other: Callable[..., ReplayedVllm]) -> None:
    logits = served_by(other("raw_logits").url)
    assert logits.tells == "logits"
    assert "tells logits" in logits.remarks[0].message
    told, _, _ = drawn(logits, segment([504], temperature=0.8, limit=6))
    assert len(told) == 6
    assert all(np.isnan(one.logprob) and one.ids is None for one in told)
    with pytest.raises(EngineError, match="does not tell the model's own"):
        logits.listed([504], 5, [])
    drawn_from = served_by(other("processed_logprobs").url)
    assert drawn_from.tells == "drawn from"
    told, _, _ = drawn(drawn_from, segment([504], temperature=0.8, limit=6))
    assert all(0 < one.probability <= 1 and np.isnan(one.logprob) for one in told)


def test_several_servers_behind_one_address_are_noticed(model: VllmStream) -> None:
    ids = list(range(600))
    for _ in range(3):
        model.answered(ids, 0)
    assert model.remarks == []
    model.answered(ids, 0)
    assert "reads the whole text again" in model.remarks.pop().message
    for reused in (0, 0, 512, 0, 0, 0):
        model.answered(ids, reused)
    assert "reads the whole text again" in model.remarks.pop().message
    for _ in range(9):
        model.answered(ids, None)
        model.answered(ids[:500], 0)
    assert model.remarks == []


def test_what_is_noticed_meanwhile_is_told_with_the_next_reply(other: Callable[..., ReplayedVllm]) -> None:
    model = served_by(other("connect", "replies").url)
    session = StreamedSession(model, model.server.client, lambda _: None)
    command = ask_for(prompt(model), SamplerSettings(temperature=0.0), (Length(24),), 7)

    def noted() -> list[str]:
        return [one.remark.message for one in events_of(session, command) if isinstance(one, Noted)]

    assert noted() == []
    for _ in range(4):
        model.answered(list(range(600)), 0)
    assert "reads the whole text again" in noted()[0]
    assert noted() == []
    assert "reads the whole text again" in session.build_info().remarks[0].message


# --- the contract, as it was recorded --------------------------------------------------------------------------------


def test_its_errors_say_what_was_wrong() -> None:
    said = [json.loads(b"".join(one.pieces).partition(b"\r\n\r\n")[2])["error"] for one in recorded("errors")]
    texts = [one if isinstance(one, str) else one["message"] for one in said]
    patterns = (
        "Unauthorized", "`another` does not exist", "validation errors", "out of vocabulary", "max allowed: 20",
        r"must be in \[0, 2\]", "less_than_equal", "max allowed: 128",
    )  # fmt: skip
    assert len(texts) == len(patterns)
    for text, pattern in zip(texts, patterns, strict=True):
        assert re.search(pattern, text)


def test_stops_of_the_server_are_ends(model: VllmStream) -> None:
    server = VllmServer(HttpClient(EngineAddress(url="http://127.0.0.1:9")))
    server._model = model.server.model
    reasons = [("stop", "year"), ("stop", 29), ("stop", None), ("stop", None)]
    for number, reason in enumerate(reasons):
        last = events([one for one in recorded("stops") if one.asked.get("stream")][number])[-1]
        found = server.event(json.dumps(last).encode()).choices[0]
        assert (found.finish_reason, found.stop_reason) == reason
