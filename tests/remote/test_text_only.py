"""Servers of OpenAI's chat API: their text becomes records, what they do not tell is absent, and what they refuse is told."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from time import monotonic, perf_counter

import pytest

from termchat.conversation.node import Node
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.conversation.tree import Span
from termchat.decoding.conditions import After, Condition, Length, Loop, Stop, Text, Threshold
from termchat.decoding.records import UNKNOWN, Finished, Prefill, Record, SettingsRecord, Start, Token, to_dict
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.address import EngineAddress
from termchat.engine.port import Cancel, EngineError, Event, FirstToken, Generate, Message, ModelSpec, Noted, SteerReply
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.text_session import TextSession
from tests.asking import ask_for, events_of
from tests.remote.chat_twin import (
    Answer,
    ChatHandler,
    Serve,
    breaks_off,
    delta,
    listed,
    never_ends,
    refuses,
    says,
    sends,
    silent,
    usage,
    words,
)
from tests.remote.conftest import RealServer
from tests.remote.twin_server import Silence

_DEFAULT = SamplerSettings()


def _session(url: str, model: str = "", silence: float = 20.0, **more: object) -> TextSession:
    address = EngineAddress(url=url, kind="openai", **more)  # type: ignore[arg-type]
    return TextSession(HttpClient(address, silence=silence), ModelSpec(model, "", engine=address), lambda _: None)


def _asked(
    text: str = "Hello", *conditions: Condition, samplers: SamplerSettings = _DEFAULT, **more: object
) -> Generate:
    said = [Message("system", "Be brief."), Message("user", text)]
    return ask_for([], samplers, conditions, seed=7, messages=said, **more)  # type: ignore[arg-type]


def _heard(
    session: TextSession, command: Generate | None = None, poll: Callable[[], SteerReply | None] = lambda: None
) -> list[Event]:
    return list(events_of(session, command or _asked(), poll, perf_counter()))


def _tokens(heard: list[Event]) -> list[Token]:
    return [one for one in heard if isinstance(one, Token)]


def _text(heard: list[Event]) -> str:
    """What the reply says, as the chat shows it."""
    return _node(heard).text()


def _node(heard: list[Event]) -> Node:
    node = Node(1, None, 0, "assistant")
    for one in heard:
        if isinstance(one, Record):
            node.add(one)
    return node


def _end(heard: list[Event]) -> Finished:
    last = heard[-1]
    assert isinstance(last, Finished)
    return last


# --- the real server of llama.cpp ------------------------------------------------------------------------------------


def test_a_reply_of_a_real_server(real: RealServer) -> None:
    session = _session(real.url)
    try:
        heard = _heard(session, _asked("Tell me a long story.", Length(6)))
        info = session.build_info()
    finally:
        session.close()
    assert (info.name, info.context, info.abilities.manner) == ("smollm2", 1024, "text only")
    assert [type(one) for one in heard[:3]] == [Start, SettingsRecord, FirstToken]
    tokens = _tokens(heard)
    assert 0 < len(tokens) <= 6
    assert _text(heard)
    end, prefill = _end(heard), heard[-2]
    assert (end.reason, end.detail, end.tokens) == ("length", "max_tokens 6", 6)
    assert end.tokens_per_second is not None
    assert isinstance(prefill, Prefill)
    assert prefill.tokens > 20
    for token in tokens:
        assert (token.id, token.position, token.stages) == (UNKNOWN, UNKNOWN, [])
        assert math.isnan(token.probability)
        assert -30 < token.logprob < 0.01
        assert len(token.candidates) >= 20
        assert token.rank == UNKNOWN or token.candidates[token.rank].text == token.text


def test_text_of_a_person_goes_out_as_it_is(serve: Serve) -> None:
    twin = serve(words("Yes."))
    text = 'Is "<|im_end|>\n<|im_start|>system" a \\ token? 🦊'
    _heard(_session(twin.url), _asked(text))
    assert twin.asked[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": text},
    ]


# --- shapes of other servers -----------------------------------------------------------------------------------------


def test_a_reply_without_numbers(serve: Serve) -> None:
    """As Ollama and LM Studio send it: text alone."""
    heard = _heard(_session(serve(words("The sea is blue.")).url))
    tokens, end = _tokens(heard), _end(heard)
    assert [token.text for token in tokens] == ["The", " sea", " is", " blue."]
    assert all(math.isnan(token.logprob) and token.candidates == [] and token.rank == UNKNOWN for token in tokens)
    assert (end.reason, end.detail, end.tokens, end.tokens_per_second) == ("end", "", UNKNOWN, None)
    assert not any(isinstance(one, Prefill) for one in heard)
    assert sorted(to_dict(tokens[0])) == [
        "bytes", "candidates", "decode_us", "end", "forced", "phase", "record", "sample_us", "settings", "state", "step",
        "text",
    ]  # fmt: skip
    assert "tokens" not in to_dict(end)


def test_log_probabilities_by_text(serve: Serve) -> None:
    """As OpenAI sends them: two tokens a chunk, one of them half a character, and the counts in the end."""
    fox = "🦊".encode()
    half = {"token": "\\xf0\\x9f", "logprob": -0.5, "bytes": list(fox[:2]), "top_logprobs": []}
    rest = {"token": "\\xa6\\x8a", "logprob": -0.25, "bytes": list(fox[2:]), "top_logprobs": []}
    twin = serve(
        says(
            delta("", role="assistant"),
            delta(
                "A fox",
                logprobs={"content": [listed("A", -0.1, A=-0.1, The=-2.0), listed(" fox", -3.0, **{" cat": -1.0})]},
            ),
            delta("", logprobs={"content": [half]}),
            delta("🦊", logprobs={"content": [rest]}),
            delta(finish="stop"),
            usage(31, 5, prompt_tokens_details={"cached_tokens": 16}),
        )
    )
    heard = _heard(_session(twin.url))
    tokens = _tokens(heard)
    assert [(token.bytes, round(token.logprob, 3)) for token in tokens] == [
        (b"A", -0.1), (b" fox", -3.0), (fox[:2], -0.5), (fox[2:], -0.25),
    ]  # fmt: skip
    assert _text(heard) == "A fox🦊"
    assert [token.rank for token in tokens] == [0, UNKNOWN, UNKNOWN, UNKNOWN]
    assert [one.text for one in tokens[1].candidates] == [" cat", " fox"]
    (prefill,) = (one for one in heard if isinstance(one, Prefill))
    assert (prefill.tokens, prefill.reused, math.isnan(prefill.ms)) == (31, 16, True)
    assert _end(heard).tokens == 5
    assert (twin.asked[0]["logprobs"], twin.asked[0]["top_logprobs"]) == (True, 20)


def test_numbers_that_are_of_another_text_are_absent(serve: Serve) -> None:
    """Of a character in several tokens some servers tell the whole text, and the numbers of its last part."""
    parts = [{"token": "\ufffd", "logprob": -1.0, "bytes": [0x8A]}]
    whole = {"token": "🦊", "logprob": -1.2, "bytes": list("🦊".encode()), "top_logprobs": parts}
    twin = serve(
        says(
            delta("🦊", logprobs={"content": [whole]}),
            delta("cat", logprobs={"content": [listed("dog", -0.1)]}),
            delta("s", logprobs={"content": [{"token": 5}]}),
            delta(finish="stop"),
        )
    )
    heard = _heard(_session(twin.url))
    assert _text(heard) == "🦊cats"
    assert all(math.isnan(token.logprob) and not token.candidates for token in _tokens(heard))


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n"])
def test_comments_line_ends_and_pieces_of_any_size(serve: Serve, end: bytes) -> None:
    lines = [b": OPENROUTER PROCESSING" + end, b"event: message" + end[: len(end) // 2 or 1]]
    chunks = [delta("Hello", provider="x"), delta(" there"), delta(finish="stop")]
    lines += [b"data:" + json.dumps(chunk).encode() + end for chunk in chunks] + [b"data: [DONE]" + end]
    whole = b"".join(lines)
    heard = _heard(_session(serve(sends(*(whole[at : at + 7] for at in range(0, len(whole), 7)))).url))
    assert _text(heard) == "Hello there"


def test_an_answer_that_is_not_streamed(serve: Serve) -> None:
    message = {"message": {"role": "assistant", "content": "Hello there"}, "finish_reason": "stop", "index": 0}
    twin = serve(
        lambda handler: handler.tell({"choices": [message], "usage": {"prompt_tokens": 5, "completion_tokens": 3}})
    )
    heard = _heard(_session(twin.url))
    assert (_text(heard), _end(heard).tokens) == ("Hello there", 3)


def test_thoughts_that_a_server_keeps_apart(serve: Serve) -> None:
    twin = serve(
        says(delta(reasoning_content="Let me"), delta(reasoning_content=" think."), delta("42"), delta(finish="stop"))
    )
    node = _node(_heard(_session(twin.url)))
    spans = [Span(node, len(node.ids))]
    thoughts = thoughts_of(spans)
    assert thoughts is not None
    assert (thoughts.text, answer_of(spans)) == ("Let me think.", "42")


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_thoughts_between_tags(serve: Serve, size: int) -> None:
    text = "<think>\nHm, 6 < 7.\n</think>\n\nIt is 42."
    pieces = (delta(text[at : at + size]) for at in range(0, len(text), size))
    node = _node(_heard(_session(serve(says(*pieces, delta(finish="stop"))).url)))
    spans = [Span(node, len(node.ids))]
    thoughts = thoughts_of(spans)
    assert thoughts is not None
    assert (thoughts.text, answer_of(spans)) == ("Hm, 6 < 7.", "It is 42.")


# --- how a reply ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "stops", "reason", "detail"),
    [
        (delta(finish="stop"), (), "end", ""),
        (delta(finish="stop"), ("zz",), "end", "or at a stop sequence: the server does not say which"),
        (delta(finish="length"), (), "length", "the server's own limit"),
        (delta(finish="content_filter"), (), "end", "content_filter"),
        ({"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": "zz"}]}, ("zz",), "stop", "zz"),
    ],
)
def test_why_the_server_ended_it(
    serve: Serve, chunk: dict[str, object], stops: tuple[str, ...], reason: str, detail: str
) -> None:
    end = _end(_heard(_session(serve(says(delta("Hello"), chunk)).url), _asked("Hi", *map(Stop, stops))))
    assert (end.reason, end.detail) == (reason, detail)


@pytest.mark.parametrize(
    ("condition", "reason", "detail", "text"),
    [
        (Stop("na b"), "stop", "na b", "bana"),
        (Text("bananab", action="stop"), "rule", 'stop text "bananab"', "banana banana"),
        (After(2, "lines", "stop"), "rule", "stop after 2 lines", ""),
        (Loop("stop"), "rule", "stop loop", ""),
    ],
)
def test_conditions_that_are_looked_at_here(
    serve: Serve, condition: Condition, reason: str, detail: str, text: str
) -> None:
    """A server that goes on for ever is left; what belongs to a stop sequence is never shown."""
    chunk = {"Stop": "banana ", "Text": "banana"}.get(type(condition).__name__, "one line\n")
    twin = serve(never_ends(delta(chunk)))
    heard = _heard(_session(twin.url), _asked("Hi", condition))
    end = _end(heard)
    assert (end.reason, end.detail) == (reason, detail)
    if text and reason == "stop":
        assert _text(heard) == text
    assert twin.left.wait(5)


def test_conditions_that_cannot_be_looked_at_are_not_on_record(serve: Serve) -> None:
    rules = (Threshold("entropy", ">", 3.0), Text("a"), Text("b", action="stop"), Length(5))
    heard = _heard(_session(serve(words("Hello")).url), _asked("Hi", *rules))
    (settings,) = (one for one in heard if isinstance(one, SettingsRecord))
    assert settings.conditions == rules[2:]


def test_what_is_asked_for(serve: Serve) -> None:
    twin = serve(words("Hello"))
    knobs = SamplerSettings(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.2, frequency_penalty=0.5, presence_penalty=-0.5
    )
    heard = _heard(_session(twin.url), _asked("Hi", Length(9), *map(Stop, "abcdef"), samplers=knobs))
    body = {name: value for name, value in twin.asked[0].items() if name not in ("messages", "stream_options")}
    assert body == {
        "model": "some-model", "stream": True, "seed": 7, "temperature": 0.5, "top_p": 0.9, "frequency_penalty": 0.5,
        "presence_penalty": -0.5, "stop": ["a", "b", "c", "d"], "max_tokens": 9, "logprobs": True, "top_logprobs": 20,
    }  # fmt: skip
    (settings,) = (one for one in heard if isinstance(one, SettingsRecord))
    assert (settings.samplers.temperature, settings.samplers.top_k, settings.samplers.min_p) == (0.5, 0, 0.0)


def test_a_cancel_hangs_up_at_once(serve: Serve) -> None:
    twin = serve(never_ends(delta("more ")))
    commands: list[SteerReply] = []
    events = events_of(_session(twin.url), _asked(), lambda: commands.pop() if commands else None, perf_counter())
    heard = [next(events) for _ in range(6)]
    commands.append(Cancel())
    heard += events
    assert (_end(heard).reason, _text(heard)[:5]) == ("user", "more ")
    assert twin.left.wait(5)


def test_it_ends_at_once_while_the_server_says_nothing(serve: Serve) -> None:
    release = Silence(lambda: threading.Timer(0.3, session.abort_decode).start())
    session = _session(serve(silent(release)).url)
    begun = monotonic()
    heard = _heard(session)
    release.set()
    assert (_end(heard).reason, _end(heard).detail) == ("user", "before the first text")
    assert monotonic() - begun < 20  # it would be silent for a minute


# --- parameters and models that a server does not know ---------------------------------------------------------------


def test_another_name_of_the_limit(serve: Serve) -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    twin = serve(refuses(400, message, param="max_tokens"), words("Hello"))
    session = _session(twin.url)
    for _ in range(2):
        assert _text(_heard(session, _asked("Hi", Length(9)))) == "Hello"
    assert [body.get("max_tokens") for body in twin.asked] == [9, None, None]
    assert [body.get("max_completion_tokens") for body in twin.asked] == [None, 9, 9]


def test_what_a_server_refuses_by_name_is_left_out_and_told_once(serve: Serve) -> None:
    twin = serve(
        refuses(400, "You are not allowed to request logprobs from this model", param="logprobs"),
        lambda handler: handler.tell(
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}, 422
        ),
        words("Hello"),
    )
    session = _session(twin.url)
    told = [one.remark.message for one in _heard(session) if isinstance(one, Noted)]
    assert told == [f"{twin.url} refuses logprobs: it is left out", f"{twin.url} refuses seed: it is left out"]
    assert not any(isinstance(one, Noted) for one in _heard(session))
    assert {"logprobs", "top_logprobs", "seed"}.isdisjoint(twin.asked[-1])


def test_which_model(serve: Serve) -> None:
    many = {"data": [{"id": f"m{number}", "context_length": 8192} for number in range(9)]}
    twin = serve(words("Hello"), models=many)
    with pytest.raises(EngineError, match="has 9 models: choose one") as error:
        _session(twin.url)
    assert "m0, m1, m2, …" in error.value.hint
    session = _session(twin.url, "m4")
    assert (session.build_info().name, session.build_info().context) == ("m4", 8192)
    other = _session(serve(words("Hello"), models=False).url, "/srv/models/x.gguf")
    (start,) = (one for one in _heard(other) if isinstance(one, Start))
    assert (other.build_info().path, start.model.path, start.model.name) == ("/srv/models/x.gguf", "x.gguf", "x")


@pytest.mark.parametrize("wanted", ["", "as-i-call-it"])
def test_a_server_of_one_model_that_has_another_now_is_noticed(serve: Serve, wanted: str) -> None:
    twin = serve(words("Hello"))
    session = _session(twin.url, wanted)
    assert _text(_heard(session)) == "Hello"
    twin.models = {"data": [{"id": "new"}]}
    with pytest.raises(EngineError, match="now has another model: new") as error:
        _heard(session)
    assert error.value.kind == "model"
    assert len(twin.asked) == 1
    twin.models = {"data": [{"id": "new"}, {"id": "some-model"}]}  # it was only given one more
    assert _text(_heard(session)) == "Hello"


def test_a_stop_while_its_models_are_asked_for_ends_the_reply(serve: Serve) -> None:
    twin = serve(words("Hello"))
    session = _session(twin.url)
    release = Silence(lambda: threading.Timer(0.3, session.abort_decode).start())
    twin.models = silent(release)
    begun = monotonic()
    assert _end(_heard(session)).reason == "user"
    assert monotonic() - begun < 20  # it would be silent for a minute
    release.set()


# --- what can go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        (refuses(401, "Incorrect API key provided"), r"wants a key \(401\): Incorrect", "key_env or key_file"),
        (refuses(404, "The model `x` does not exist"), "answers 404: The model", "/v1"),
        (refuses(500, "oops"), "answers 500: oops", "log"),
        (refuses(400, "This model's maximum context length is 8192 tokens"), "maximum context", "shorten"),
        (
            lambda handler: handler.tell({"error": {"message": "slow down"}}, 429, Retry_After="20"),
            "answers 429: slow down",
            "in 20 s",
        ),
        (sends(b"<html>\n", b"</html>\n"), "as a chat API does: it sends no events", "path"),
        (says(b"data: hello\n\n"), "does not answer as a chat API does", "path"),
    ],
)
def test_a_refusal_says_what_to_do(serve: Serve, answer: Answer, message: str, hint: str) -> None:
    session = _session(serve(answer).url)
    with pytest.raises(EngineError, match=message) as error:
        _heard(session)
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ((b'data: {"error":{"message":"out of memory","code":500}}\n\n',), "gave up in mid-reply: out of memory"),
        ((b'data: {"choices":[{"delta":{"cont',), "broke off"),
        ((), "broke off"),
    ],
)
def test_a_reply_that_is_cut_keeps_what_it_said(serve: Serve, rest: tuple[bytes, ...], message: str) -> None:
    first = b"data: " + json.dumps(delta("So far")).encode() + b"\n\n"
    said = events_of(_session(serve(breaks_off(first, *rest)).url), _asked())
    heard: list[Event] = []
    with pytest.raises(EngineError, match=message) as error:
        heard.extend(said)
    assert [token.text for token in _tokens(heard)] == ["So far"]
    assert "kept" in error.value.hint


def test_silence_is_told(serve: Serve) -> None:
    release = threading.Event()
    session = _session(serve(silent(release)).url, silence=0.5)
    with pytest.raises(EngineError, match=r"has not answered for 0\.5 s"):
        _heard(session)
    release.set()


def test_a_key_goes_along_and_is_never_told(serve: Serve) -> None:
    twin = serve(words("Hello"), key="sk-secret")
    address = EngineAddress(url=twin.url, kind="openai")
    session = TextSession(HttpClient(address, "sk-secret"), ModelSpec("", "", engine=address), lambda _: None)
    heard = _heard(session)
    assert _text(heard) == "Hello"
    assert "sk-secret" not in repr(heard) + repr(session.build_info())
    with pytest.raises(EngineError, match="wants a key") as error:
        _session(twin.url)
    assert error.value.kind == "key"
    assert "[engines.NAME]" in error.value.hint


def test_a_server_that_says_its_key_is_not_quoted(serve: Serve) -> None:
    key = "sk-secret"
    said = f"the key {key} may not do that"
    in_mid_stream = sends(b'data: {"error":{"message":"' + said.encode() + b'"}}\n\n')
    for answer in (*(refuses(status, said, type=key) for status in (400, 401, 500)), in_mid_stream):
        twin = serve(answer)
        address = EngineAddress(url=twin.url, kind="openai")
        session = TextSession(HttpClient(address, key), ModelSpec("", "", engine=address), lambda _: None)
        with pytest.raises(EngineError) as caught:
            _heard(session)
        error = caught.value
        assert "may not do that" in error.message
        assert key not in repr((error.message, error.hint, vars(error)))


@pytest.mark.parametrize(
    "line",
    [b"{" * 60_000 + b"\n", b"x\n" * 30_000, b'data: {"choices":[]}\n\n' * 3000],
    ids=["JSON", "short lines", "events"],
)
def test_an_answer_that_says_nothing_has_an_end(serve: Serve, line: bytes) -> None:

    def answer(handler: ChatHandler) -> None:
        handler.begin()
        for _ in range(2000):
            handler.send(line)

    with pytest.raises(EngineError, match="without end"):
        _heard(_session(serve(answer).url))
