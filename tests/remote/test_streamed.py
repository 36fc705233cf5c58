"""A real llama.cpp server that draws by itself: its ids, its numbers, and what can be steered while it does."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import jsonschema
import msgspec
import pytest

import termchat
from termchat.decoding.conditions import IgnoreEnd, Text, Threshold
from termchat.decoding.constraint import Constraint, make_choice
from termchat.decoding.records import UNKNOWN, Prefill, SettingsRecord, Start, Token
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.port import (
    Adjust,
    EngineError,
    Explain,
    Generate,
    Inspect,
    Noted,
    Pause,
    Resume,
    SteerReply,
)
from termchat.engine.remote.llama_stream import LlamaStream, is_incomplete
from termchat.engine.remote.server_session import ServerSession
from termchat.engine.remote.streamed_reply import MOST_SEED, seed_of
from termchat.engine.remote.streamed_session import StreamedSession
from termchat.engine.remote.streams import Segment
from tests.asking import ask_for, change, events_of, only
from tests.remote.conftest import RealServer, drawn, finished_of, ids_of, prefill_of, tokens_of

TEXT = "Write a story about a fox and a bear who meet at a river."
EMOJIS = "Emojis: 😀😁😂🤣😃😄😅😆😉😊😋😎"
GREEDY = Tuning(temperature=0.0, max_tokens=24)
SCHEMA = json.loads(
    (Path(termchat.__file__).parent / "conversation/transcripts/transcript.schema.json").read_text("utf-8")
)


def command(session: StreamedSession | ServerSession, tuning: Tuning = GREEDY, **more: object) -> Generate:
    made = ask_for(ids_of(session, TEXT), tuning.samplers(), tuning.conditions(), 11)
    return change(made, **more)


def raw(session: StreamedSession | ServerSession, text: str, tuning: Tuning = GREEDY) -> Generate:
    return ask_for(session.model.tokenize(text, special=False), tuning.samplers(), tuning.conditions(), 11)


def said(stream: Iterable[object]) -> list[int]:
    return [one.id for one in stream if isinstance(one, Token)]


def settings_of(stream: Iterable[object]) -> list[SettingsRecord]:
    return [one for one in stream if isinstance(one, SettingsRecord)]


def at_steps(commands: dict[int, SteerReply]) -> Callable[[], SteerReply | None]:
    """Gives a command when it was asked for one so many times; a reply asks once a step, and once before."""
    asked = iter(range(10**9))
    waiting: deque[SteerReply] = deque()

    def poll() -> SteerReply | None:
        if waiting:
            return waiting.popleft()
        return commands.get(next(asked))

    return poll


# --- ids and numbers -------------------------------------------------------------------------------------------------


def test_a_greedy_reply_has_the_ids_and_numbers_of_one_drawn_here(
    streamed: StreamedSession, served: ServerSession
) -> None:
    there, here = drawn(streamed, command(streamed)), drawn(served, command(served))
    assert said(there) == said(here)
    for one, other in zip(tokens_of(there), tokens_of(here), strict=True):
        assert one.rank == other.rank == 0
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        known = {each.id: each.logprob for each in other.candidates}
        assert [each.id for each in one.candidates] == [each.id for each in other.candidates]
        assert all(each.logprob == pytest.approx(known[each.id], abs=1e-3) for each in one.candidates)
        assert (one.position, one.bytes, one.text, one.end) == (other.position, other.bytes, other.text, other.end)


def test_bounds_hold_what_the_whole_distribution_says(streamed: StreamedSession) -> None:
    stream = drawn(streamed, command(streamed, msgspec.structs.replace(GREEDY, max_tokens=6)))
    ids, model = list(only(command(streamed)).ids), streamed.model
    for token in tokens_of(stream):
        _, logprobs = streamed.served.listed(ids, model.n_vocab, [])
        entropy = -sum(math.exp(p) * p for p in logprobs.tolist()) / math.log(2)
        assert 0 < token.unlisted < 0.7
        assert entropy - 1e-3 < token.entropy < entropy + 17 * token.unlisted
        ids.append(token.id)


def test_a_rule_is_met_by_what_a_measure_is_for_certain(streamed: StreamedSession) -> None:
    first = tokens_of(drawn(streamed, command(streamed, msgspec.structs.replace(GREEDY, max_tokens=1))))[0]
    _, logprobs = streamed.served.listed(list(only(command(streamed)).ids), streamed.model.n_vocab, [])
    entropy = -sum(math.exp(p) * p for p in logprobs.tolist()) / math.log(2)
    assert entropy + 0.1 < first.entropy
    ends = [
        finished_of(
            drawn(
                streamed, command(streamed, conditions=(*GREEDY.conditions(), Threshold("entropy", ">", value, "stop")))
            )
        )
        for value in (entropy / 2, (entropy + first.entropy) / 2)
    ]
    assert [end.tokens == 0 for end in ends] == [True, False]


def test_what_the_server_does_not_tell_is_absent(streamed: StreamedSession) -> None:
    stream = drawn(streamed, command(streamed))
    start = next(one for one in stream if isinstance(one, Start))
    assert (start.dice, start.exact, start.threads, start.ubatch) == (0, False, 0, 0)
    for token in tokens_of(stream):
        assert math.isnan(token.logit)
        assert math.isnan(token.probability)
        assert token.stages == []
        assert token.sample_us == 0
        assert all(math.isnan(one.noise) and math.isnan(one.probability) for one in token.candidates)
        assert all(one.removed_by is None for one in token.candidates)


def test_what_was_read_of_the_prompt_is_what_the_server_says(streamed: StreamedSession) -> None:
    ids = ids_of(streamed, f"{TEXT} Tell it twice.")
    made = command(streamed, ids=ids)
    drawn(streamed, command(streamed))
    prefill = prefill_of(drawn(streamed, made))
    again = prefill_of(drawn(streamed, made))
    assert prefill.tokens == again.tokens == len(ids)
    assert prefill.reused + sum(prefill.shapes) == len(ids)
    assert again.reused == len(ids) - 1
    assert again.shapes == [1]


def test_parts_of_characters_are_not_lost(streamed: StreamedSession, served: ServerSession) -> None:
    there, here = drawn(streamed, raw(streamed, EMOJIS)), drawn(served, raw(served, EMOJIS))
    assert any(is_incomplete(token.bytes) for token in tokens_of(here))
    assert said(there) == said(here)
    assert "".join(one.text for one in tokens_of(there)) == "".join(one.text for one in tokens_of(here))


def test_parts_that_cannot_be_told_are_drawn_again_one_by_one(
    streamed: StreamedSession, served: ServerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaStream, "lost", lambda *_: None)
    there, here = drawn(streamed, raw(streamed, EMOJIS)), drawn(served, raw(served, EMOJIS))
    assert said(there) == said(here)
    positions = [token.position for token in tokens_of(there)]
    assert positions == list(range(positions[0], positions[0] + len(positions)))


@pytest.mark.parametrize(
    ("text", "last", "count", "found"),
    [("😀", b"\x80", 2, None), ("é", b"\xa9", 1, [b"\xc3"]), ("x", b"x", 0, []), ("a�", b"\x80", 1, None)],
)
def test_lost_parts_are_told_by_their_bytes_or_not_at_all(
    streamed: StreamedSession, text: str, last: bytes, count: int, found: list[bytes] | None
) -> None:
    model, source = streamed.model, streamed.served
    assert isinstance(source, LlamaStream)
    ends = [i for i in range(model.n_vocab) if model.piece(i) == last]
    ids = source.lost(text, ends[0], count)
    if ids is None:  # there are several ways, or none
        assert found is None
    else:
        assert b"".join(map(model.piece, ids)) + last == text.encode()
        assert len(ids) == count


def test_a_seed_is_a_seed(streamed: StreamedSession) -> None:
    tuning = Tuning(temperature=1.2, max_tokens=12)
    one, same, other = (drawn(streamed, command(streamed, tuning, seed=seed)) for seed in (5, 5, 6))
    assert said(one) == said(same) != said(other)
    assert [settings.origin["seed"] for settings in settings_of(one)] == ["sent as 5"]


def test_seeds_of_segments_are_known_and_differ() -> None:
    seeds = [seed_of(2**40 + 7, step) for step in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed <= MOST_SEED for seed in seeds)
    assert seed_of(7, 0) == 7


# --- the chain -------------------------------------------------------------------------------------------------------


def test_the_server_gets_every_knob_that_it_has(streamed: StreamedSession) -> None:
    knobs = {
        "temperature": 0.7, "top_k": 17, "top_p": 0.8, "min_p": 0.02, "typical_p": 0.9, "top_n_sigma": 2.0, "repeat_last_n": 33,
        "repeat_penalty": 1.2, "presence_penalty": 0.25, "frequency_penalty": 0.5, "dry_multiplier": 0.5, "dry_base": 1.5,
        "dry_allowed_length": 3, "dry_penalty_last_n": 44, "xtc_probability": 0.5, "xtc_threshold": 0.25, "dynatemp_range": 0.5,
        "dynatemp_exponent": 1.5,
    }  # fmt: skip
    order = ("top_k", "penalties", "dry", "top_n_sigma", "typical_p", "min_p", "top_p", "xtc", "temperature")
    source = streamed.served
    assert isinstance(source, LlamaStream)
    samplers = SamplerSettings(**knobs, order=order, logit_bias=("5=ban", "6=1.5"))
    body = source.body(Segment([1, 2, 3], 0, samplers, (), 9, 1, 5))
    told = json.loads(source.server.request_completion(body | {"stream": False}))["generation_settings"]
    assert {name: told[name] for name in knobs} == pytest.approx(knobs)
    names = {"typical_p": "typ_p"}
    assert told["samplers"] == [names.get(name, name) for name in order]
    assert told["seed"] == 9
    assert {one["token"]: one["bias"] for one in told["logit_bias"]} == {5: None, 6: 1.5}


def test_knobs_that_the_server_lacks_are_left_out_and_on_record_as_off(streamed: StreamedSession) -> None:
    there = Tuning(temperature=0.0, max_tokens=3)
    tuning = msgspec.structs.replace(there, min_k=2.0, top_h=0.5, p_less=1)
    turned = Adjust(msgspec.structs.replace(tuning, top_k=7).samplers(), tuning.conditions())
    first, second = settings_of(drawn(streamed, command(streamed, tuning), at_steps({2: turned})))
    assert (first.samplers, second.samplers) == (
        there.samplers(),
        msgspec.structs.replace(there.samplers(), top_k=7),
    )


def test_the_order_is_that_of_the_chain(streamed: StreamedSession) -> None:
    stream = drawn(streamed, command(streamed, Tuning(temperature=0.0, max_tokens=1, order=("top_k", "temperature"))))
    assert settings_of(stream)[0].order == ("top_k", "temperature")


# --- while it runs ---------------------------------------------------------------------------------------------------


def test_a_change_in_mid_reply_loses_and_doubles_no_id(streamed: StreamedSession) -> None:
    whole = said(drawn(streamed, command(streamed)))
    adjust = Adjust(Tuning(temperature=0.0, top_p=0.5).samplers(), GREEDY.conditions(), {"top_p": "panel"})
    stream = drawn(streamed, command(streamed), at_steps({6: adjust, 14: adjust}))
    assert said(stream) == whole
    assert [token.step for token in tokens_of(stream)] == list(range(len(whole)))
    first, second, same = settings_of(stream)
    changed = next(token.step for token in tokens_of(stream) if token.settings == 1)
    assert second.samplers.top_p == 0.5
    assert (first.origin["seed"], second.origin["seed"]) == ("sent as 11", f"sent as {seed_of(11, changed)}")
    assert same.origin["seed"] == second.origin["seed"]  # nothing changed, so the segment went on


def test_a_change_of_conditions_alone_goes_on_with_the_stream(streamed: StreamedSession) -> None:
    tuning = Tuning(temperature=1.0, max_tokens=24)
    whole = said(drawn(streamed, command(streamed, tuning)))
    shorter = Adjust(tuning.samplers(), Tuning(max_tokens=12).conditions())
    stream = drawn(streamed, command(streamed, tuning), at_steps({5: shorter}))
    assert said(stream) == whole[:12]
    assert {settings.origin["seed"] for settings in settings_of(stream)} == {"sent as 11"}


def test_a_breakpoint_pauses_before_its_token(streamed: StreamedSession) -> None:
    whole = drawn(streamed, command(streamed))
    unlikely = min(tokens_of(whole), key=lambda token: token.logprob)
    met = Threshold("model", "<", math.exp(unlikely.logprob) + 1e-6, "stop")
    stream = drawn(streamed, command(streamed, conditions=(*GREEDY.conditions(), met)))
    assert finished_of(stream).reason == "rule"
    assert said(stream) == said(whole)[: unlikely.step]


def test_the_server_is_free_after_a_stop(streamed: StreamedSession) -> None:
    long = Tuning(temperature=0.0, max_tokens=600)
    generation = events_of(streamed, command(streamed, long))
    count = 0
    for record in generation:
        count += isinstance(record, Token)
        if count == 3:
            break
    generation.close()  # type: ignore[attr-defined]
    stream = drawn(streamed, command(streamed, Tuning(temperature=0.0, max_tokens=2)))
    ttft = finished_of(stream).ttft_ms
    assert ttft is not None
    assert ttft < 5_000


def test_an_end_token_ends_or_is_passed_over(streamed: StreamedSession) -> None:
    ids = ids_of(streamed, "Say hi.")
    tuning = Tuning(temperature=0.0, max_tokens=60)
    stream = drawn(streamed, command(streamed, tuning, ids=ids))
    assert finished_of(stream).reason == "end"
    assert tokens_of(stream)[-1].end
    count = len(tokens_of(stream))
    more = Tuning(temperature=0.0, max_tokens=count + 5)
    on = drawn(streamed, command(streamed, more, ids=ids, conditions=(*more.conditions(), IgnoreEnd())))
    assert said(on)[:count] == said(stream)
    assert len(said(on)) == count + 5


def test_a_full_context_ends_the_reply(streamed: StreamedSession) -> None:
    ids = (streamed.model.tokenize("A b c d. " * 400, special=False))[:1016]
    stream = drawn(streamed, command(streamed, Tuning(temperature=0.0), ids=ids))
    end = finished_of(stream)
    assert end.reason in ("context", "end")
    assert len(ids) + len(said(stream)) <= 1024
    if end.reason == "context":
        assert len(ids) + len(said(stream)) == 1024


# --- constraints and questions ---------------------------------------------------------------------------------------


def test_a_constraint_is_the_servers(streamed: StreamedSession) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]}
    schema["additionalProperties"] = False
    asked = command(streamed, Tuning(temperature=0.7, max_tokens=60))
    asked = change(asked, constraint=Constraint("json_schema", json.dumps(schema)))
    stream = drawn(streamed, asked)
    jsonschema.validate(json.loads("".join(token.text for token in tokens_of(stream))), schema)
    assert settings_of(stream)[0].order[0] == "grammar"
    stream = drawn(streamed, change(asked, constraint=make_choice(["foxes", 'a "bear"\n'])))
    assert "".join(token.text for token in tokens_of(stream)) in ("foxes", 'a "bear"\n')


def test_a_constraint_outlives_a_pause_but_no_change(streamed: StreamedSession) -> None:
    asked = command(streamed, Tuning(temperature=0.0, max_tokens=40))
    asked = change(asked, constraint=Constraint("gbnf", 'root ::= "[" [0-9]+ ", " [0-9]+ "]"'))
    text = "".join(token.text for token in tokens_of(drawn(streamed, asked, at_steps({3: Pause(), 6: Resume()}))))
    assert text.startswith("[")
    assert set(text) <= set("[]0123456789, ")
    cold = Tuning(temperature=0.5, max_tokens=40)
    adjust = Adjust(cold.samplers(), cold.conditions(), constraint=only(asked).constraint)
    stream = drawn(streamed, asked, at_steps({3: adjust}))
    assert "begins it anew" in settings_of(stream)[-1].constraint_dropped


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (Constraint("regex", "[0-9]+"), "follow a regex constraint"),
        (Constraint("gbnf", 'root ::= "a"', after_chain=True), "after its sampler chain"),
    ],
)
def test_a_constraint_that_the_server_cannot_follow_is_refused(
    streamed: StreamedSession, constraint: Constraint, why: str
) -> None:
    with pytest.raises(EngineError, match=why) as caught:
        drawn(streamed, command(streamed, constraint=constraint))
    assert caught.value.kind == "capability"


def test_a_measure_of_what_the_chain_leaves_is_refused(streamed: StreamedSession) -> None:
    met = Threshold("survivors", "<", 2)
    with pytest.raises(EngineError, match="does not tell what its sampler chain leaves"):
        drawn(streamed, command(streamed, conditions=(met,)))


def test_a_change_that_the_server_refuses_leaves_the_reply_as_it_was(streamed: StreamedSession) -> None:
    asked = command(streamed)
    refused: list[Adjust] = [
        Adjust(only(asked).samplers, (*only(asked).conditions, Threshold("survivors", "<", 2))),
        Adjust(only(asked).samplers, only(asked).conditions, constraint=Constraint("regex", "[0-9]+")),
        Adjust(
            msgspec.structs.replace(only(asked).samplers, temperature=1.0),
            (*only(asked).conditions, Text("(", regex=True)),
        ),
    ]
    poll = at_steps({3 + at: one for at, one in enumerate(refused)})
    stream = list(events_of(streamed, asked, poll, perf_counter()))
    noted = [one.remark.message for one in stream if isinstance(one, Noted)]
    assert len(noted) == 3
    assert all(one.startswith("the reply keeps its settings: ") for one in noted)
    assert said(stream) == said(drawn(streamed, asked))
    assert len(settings_of(stream)) == 1


def test_a_constraint_that_was_cut_off_can_be_removed_to_go_on(streamed: StreamedSession) -> None:
    asked = command(
        streamed, Tuning(temperature=0.0, max_tokens=6), constraint=make_choice(["a very long bear indeed"])
    )
    ids = [*only(asked).ids, *said(drawn(streamed, asked))[:2]]
    cut = change(asked, ids=ids, done=2)
    with pytest.raises(EngineError, match="cannot be followed further") as caught:
        drawn(streamed, cut)
    assert "remove the constraint" in caught.value.hint
    assert len(said(drawn(streamed, change(cut, constraint=None)))) == 4


def test_a_past_position_is_told_without_a_draw(streamed: StreamedSession, served: ServerSession) -> None:
    asked = Inspect(only(command(streamed)).ids, GREEDY.samplers(), 1, 0)
    token, recomputed = streamed.inspect_step(asked, alone=True, wanted=lambda: False)
    same, _ = served.inspect_step(asked, alone=True, wanted=lambda: False)
    assert recomputed
    assert (token.id, token.rank) == (UNKNOWN, UNKNOWN)
    assert [one.id for one in token.candidates] == [one.id for one in same.candidates]
    assert [one.logprob for one in token.candidates] == pytest.approx(
        [one.logprob for one in same.candidates], abs=1e-3
    )
    with pytest.raises(EngineError, match="busy with the reply") as caught:
        streamed.inspect_step(asked, alone=False, wanted=lambda: False)
    assert caught.value.kind != "busy"  # with which it would be asked again at once


def test_a_token_beyond_the_list_is_told_where_it_is_asked_for(streamed: StreamedSession) -> None:
    ids = only(command(streamed)).ids
    all_, logprobs = streamed.served.listed(ids, streamed.model.n_vocab, [])
    listed, theirs = streamed.served.listed(ids, 3, [int(all_[1000])])
    assert listed.tolist() == [*all_[:3].tolist(), int(all_[1000])]
    assert theirs[-1] == pytest.approx(logprobs[1000], abs=1e-3)


@pytest.mark.parametrize("place", [0, 3, 1000, 40000])
def test_why_not_tells_the_models_numbers_and_nothing_of_the_chain(
    streamed: StreamedSession, served: ServerSession, place: int
) -> None:
    ids = only(command(streamed)).ids
    row = served.cache.server.candidates(ids, streamed.model.n_vocab)
    all_, logprobs = row.ids, row.logprobs
    token, drawn = int(all_[place]), int(all_[2])
    biased = GREEDY.turn_knobs({"logit_bias": (f"{token}=-1.5",)}).samplers()
    asked = Explain(ids, token, biased, 1, 0, drawn=drawn)
    it = streamed.explain_step(asked, alone=True, wanted=lambda: False).explanation
    assert (it.id, it.rank, it.winner, it.winner_text) == (token, place, drawn, streamed.model.name(drawn))
    assert it.logprob == pytest.approx(logprobs[place], abs=1e-3)
    assert it.there is not None
    assert (it.there.winner_rank, it.there.best) == (2, int(all_[0]))
    assert it.there.winner_logprob == pytest.approx(logprobs[2], abs=1e-3)
    assert it.bias is not None
    assert it.bias.bias == -1.5
    assert all(math.isnan(number) for number in (it.logit, it.probability, it.noise))
    assert (it.stages, it.removed_by, it.penalised, it.remedies) == ([], None, None, [])
    with pytest.raises(EngineError, match="not in this model's vocabulary"):
        streamed.explain_step(Explain(ids, 10**6, biased, 1, 0), alone=True, wanted=lambda: False)
    with pytest.raises(EngineError, match="busy with the reply"):
        streamed.explain_step(Explain([*ids, 5], 5, biased, 1, 0), alone=False, wanted=lambda: False)


def test_a_prompt_that_is_too_long_says_where_a_server_has_its_context(streamed: StreamedSession) -> None:
    asked = Inspect([5] * (streamed.served.capacity + 1), GREEDY.samplers(), 1, 0)
    with pytest.raises(EngineError, match="the prompt has") as caught:
        streamed.inspect_step(asked, alone=True, wanted=lambda: False)
    assert "--ctx-size" in caught.value.hint
    assert "load the model" not in caught.value.hint


# --- as a person runs it ---------------------------------------------------------------------------------------------


def test_run_writes_records_as_the_schema_says(real: RealServer, tmp_path: Path) -> None:
    places = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("DATA", "CONFIG", "CACHE", "STATE")}
    config = tmp_path / "config" / "termchat"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f'[engines.lab]\nurl = "{real.url}"\ndraws = "server"\n[sampling]\nmin_k = 2.0\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "termchat", "run", "--engine", "lab", "--json", "--seed", "5", "--max-tokens", "8", TEXT],
        capture_output=True, text=True, timeout=300, env=os.environ | places, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    check = jsonschema.Draft202012Validator(SCHEMA)
    assert [error for line in lines for error in check.iter_errors(line)] == []
    kinds = [line["record"] for line in lines]
    assert kinds == ["start", "settings", "prefill", *["token"] * 8, "finished"]
    assert lines[1]["samplers"]["min_k"] == 0.0
    assert "left out: min_k" in run.stderr
    tokens = [line for line in lines if line["record"] == "token"]
    assert not {"logit", "probability", "stages"} & set(tokens[0])
    assert all(0 < token["state"]["tail"] < 1 for token in tokens)


def test_times_between_tokens_add_up(streamed: StreamedSession) -> None:
    stream = drawn(streamed, command(streamed))
    end = finished_of(stream)
    spent = sum(token.decode_us for token in tokens_of(stream)[1:]) / 1e3
    assert spent == pytest.approx(end.decode_ms, rel=0.2, abs=20)
    assert all(earlier.step + 1 == later.step for earlier, later in pairwise(tokens_of(stream)))
    assert isinstance(next(one for one in stream if isinstance(one, Prefill)).ms, float)
