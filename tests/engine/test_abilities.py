"""What an engine can do comes of its model's abilities, and a refusal says why and who can."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from termchat.engine import wire
from termchat.engine.abilities import (
    ALL_FEATURES,
    LLAMA_SERVER,
    LLAMA_SERVER_STREAMED,
    LOCAL,
    VLLM,
    EngineAbilities,
    Feature,
    find_refusal,
    most_of,
    who_can,
)
from termchat.engine.address import HERE, EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.port import Load, Loaded, ModelSpec
from termchat.engine.worker_line import WorkerLine
from tests.tui.fake_engine import INFO


@pytest.mark.parametrize(
    ("lacking", "features"),
    [
        ({}, set()),
        ({"walks": False}, {"walks"}),
        ({"batches": False}, {"beams", "drafts"}),
        ({"client_draw": False}, {"seeds", "score", "beams", "drafts", "stages"}),
        ({"exact": False}, {"exact"}),
        ({"rewind": False}, {"inspect", "explain", "score"}),
        ({"grammar": False}, {"constrain"}),
        ({"tokenizer": False}, {"render", "tokenize", "bias"}),
        ({"ids": False}, ALL_FEATURES - {"render", "tokenize", "constrain", "exact"}),
    ],
)
def test_features_that_go_with_an_ability(lacking: dict[str, bool], features: set[Feature]) -> None:
    assert EngineAbilities(**lacking).list_features() == ALL_FEATURES - features  # type: ignore[arg-type]


def test_how_an_engine_is_told_in_a_few_words() -> None:
    told = [LOCAL, LLAMA_SERVER, EngineAbilities(client_draw=False), EngineAbilities(ids=False, client_draw=False)]
    assert [abilities.manner for abilities in told] == [
        "here everything works",
        "draws here",
        "draws there",
        "text only",
    ]


def test_a_refusal_says_why_and_who_can() -> None:
    assert find_refusal("beams", LOCAL.list_features(), LOCAL, "lab") is None
    why = find_refusal("beams", LLAMA_SERVER.list_features(), LLAMA_SERVER, "lab")
    assert why == (
        "lab cannot search with beams: it decides by itself what it computes together",
        "a model on this machine or one over ssh:// can",
    )
    why = find_refusal("walks", VLLM.list_features(), VLLM, "lab")
    assert why == (
        "lab cannot make several replies at once: it is asked for one reply at a time",
        "a model on this machine, one over ssh://, or a llama-server drawn here can",
    )
    assert who_can("pause") == "a model on this machine, one over ssh://, a llama-server, or a vLLM can"


def test_what_an_address_tells() -> None:
    assert most_of(HERE) == most_of(EngineAddress(url="ssh://lab")) == LOCAL
    assert most_of(EngineAddress(url="https://lab")) == LLAMA_SERVER
    # What it may be beside a llama-server takes constraints of other kinds.
    streamed = EngineAddress(url="https://lab", draws="server")
    assert most_of(streamed).constraints == LOCAL.constraints
    assert most_of(msgspec.structs.replace(streamed, kind="llama-server")) == LLAMA_SERVER_STREAMED


_WORKER = """
import sys
sys.stdin.buffer.read(1)
sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


def test_an_engine_offers_what_its_model_tells_and_all_before(tmp_path: Path) -> None:
    info = msgspec.structs.replace(INFO, abilities=LLAMA_SERVER)
    said = wire.frame(1, Loaded(info)).hex()
    engine = LocalEngine(tmp_path / "log", WorkerLine([sys.executable, "-c", _WORKER, said]))
    try:
        assert engine.offers == ALL_FEATURES
        engine.send(Load(ModelSpec("m", "m")))
        (event,) = [event for _, event in engine.receive(60.0)]
        assert isinstance(event, Loaded)
        assert engine.offers == LLAMA_SERVER.list_features()
        engine.close()
        engine.start()
        assert engine.offers == ALL_FEATURES
    finally:
        engine.close()
